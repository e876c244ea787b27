//! On a kernel whose vmsplice(2) copies, all bytes are right, and nothing relies on shared pages.
//!
//! The library determines once per process what the kernel does, so these tests are a separate program. They emulate
//! the kernel: a thread replaces each vmsplice(2) of another one by pwritev2(2).

#![allow(unsafe_code)]

mod common;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;

use common::calls::copying_vmsplice;
use common::{Checker, Reader, fill, send};
use fullbore::{Pages, Pipe, Producer, ProducerOptions, Tee, Transfer, Way, copy, tee};
use fullbore_linux as linux;

const BYTES: u64 = 16 << 20;

/// Sends [`BYTES`] of the stream; returns the way that was used in the end.
type Make = fn(OwnedFd) -> Way;

fn reserved(mut out: Producer<OwnedFd>) -> Way {
    send(&mut out, 0, BYTES, 64 * 1024).unwrap();
    let produced = out.finish().unwrap();
    assert_eq!(produced.bytes, BYTES);
    produced.way
}

fn handed_over(sink: OwnedFd) -> Way {
    let mut out = ProducerOptions::new().way(Way::Fresh).open(sink).unwrap();
    for at in (0..BYTES).step_by(1 << 20) {
        let mut pages = Pages::new(1 << 20).unwrap();
        fill(&mut pages, at);
        out.send_pages(pages).unwrap();
    }
    out.finish().unwrap().way
}

fn written(sink: OwnedFd) -> Way {
    let mut out = Producer::new(sink).unwrap();
    let mut bytes = vec![0; 100_000];
    let mut at = 0;
    while at < BYTES {
        let n = (BYTES - at).min(bytes.len() as u64) as usize;
        fill(&mut bytes[..n], at);
        out.write_all(&bytes[..n]).unwrap();
        at += n as u64;
    }
    out.finish().unwrap().way
}

fn recycled(sink: OwnedFd) -> Way {
    let options = ProducerOptions::new().chunk(64 * 1024);
    // Some of the readers here do not copy, but no pages are shared with them; a wrong byte would fail the test.
    reserved(options.way(Way::Recycle).open(sink).unwrap())
}

/// Reuses its pages at once, which is right only if vmsplice(2) copies.
fn careless(sink: OwnedFd) -> Way {
    let mut pages = Pages::new(64 * 1024).unwrap();
    let mut calls = linux::Calls::new(fullbore::Wait::Block);
    for at in (0..BYTES).step_by(pages.len()) {
        fill(&mut pages, at);
        let mut sent = 0;
        while sent < pages.len() {
            let (fd, flags) = (std::os::fd::AsFd::as_fd(&sink), linux::SpliceFlags::empty());
            // SAFETY: the memory is a private mapping, and the fd is the write end of a pipe. The test intends that the
            // pages are written to again.
            sent += unsafe { calls.vmsplice(fd, &pages[sent..], flags) }.unwrap();
        }
    }
    Way::Copy
}

const PRODUCERS: [(&str, Make); 5] = [
    ("new", |sink| reserved(Producer::new(sink).unwrap())),
    ("fresh", |sink| {
        reserved(ProducerOptions::new().way(Way::Fresh).open(sink).unwrap())
    }),
    ("recycle", recycled),
    ("write", written),
    ("send", handed_over),
];

#[test]
fn producers_copy_and_every_reader_gets_the_bytes() {
    for (name, produce) in PRODUCERS {
        for reader in Reader::COPYING.into_iter().chain(Reader::HOLDING) {
            let pipe = Pipe::new().unwrap();
            let source = pipe.reader;
            let reading = thread::spawn(move || reader.drain(source, Checker::of_the_stream()));
            let Some((way, made)) = copying_vmsplice(move || produce(pipe.writer)) else {
                return;
            };
            assert_eq!(reading.join().unwrap(), BYTES, "{name}, {reader:?}");
            assert!(matches!(way, Way::Copy | Way::Socket), "{name}: {way}");
            // The calls that determine, once per process, what the kernel does.
            assert!(made <= 3, "{name}: {made} calls of vmsplice(2)");
        }
    }
}

#[test]
fn a_pattern_is_repeated() {
    for pattern in [&b"y\n"[..], b"a line of 24 characters\n", &[7; 50_001]] {
        let pipe = Pipe::new().unwrap();
        let (source, checker) = (pipe.reader, Checker::of(pattern));
        let reading = thread::spawn(move || Reader::Splicing.drain(source, checker));
        let sent = copying_vmsplice(|| {
            let repeat = ProducerOptions::new().repeat(pipe.writer, pattern);
            let mut repeat = repeat.unwrap();
            repeat.send(BYTES).unwrap();
            repeat.report().bytes
        });
        let Some((sent, made)) = sent else { return };
        assert_eq!(sent, BYTES);
        assert_eq!(reading.join().unwrap(), BYTES);
        assert!(made <= 3, "{made} calls of vmsplice(2)");
    }
}

#[test]
fn bytes_of_reused_pages_are_forwarded_unchanged() {
    type Move = fn(OwnedFd, OwnedFd);
    let movers: [(&str, Move); 3] = [
        ("transfer", |source, sink| {
            Transfer::new(source, sink).run().unwrap();
        }),
        ("copy", |source, sink| {
            copy(&source, &sink).unwrap();
        }),
        ("tee", |source, sink| {
            let null = File::options().write(true).open("/dev/null").unwrap();
            Tee::new(
                source,
                [
                    (sink, tee::Policy::FAIL_ALL),
                    (null.into(), tee::Policy::FAIL_ALL),
                ],
            )
            .run()
            .unwrap();
        }),
    ];
    for (name, movement) in movers {
        for produce in [careless, recycled] {
            let (first, second) = (Pipe::new().unwrap(), Pipe::new().unwrap());
            let reading = thread::spawn(move || {
                Reader::Splicing.drain(second.reader, Checker::of_the_stream())
            });
            let done = copying_vmsplice(move || {
                // The filter also applies to threads that this thread starts.
                let moving = thread::spawn(move || movement(first.reader, second.writer));
                produce(first.writer);
                moving.join().unwrap();
            });
            if done.is_none() {
                return;
            }
            assert_eq!(reading.join().unwrap(), BYTES, "{name}");
        }
    }
}

#[test]
fn copying_by_vmsplice_is_detected() {
    if let Some((shares, _)) = copying_vmsplice(linux::vmsplice_shares) {
        assert!(!shares.unwrap());
    }
}

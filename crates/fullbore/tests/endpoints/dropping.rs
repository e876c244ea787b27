//! Dropping a producer sends its gathered bytes, and neither panics nor hides an error that `finish` would have
//! returned.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::panic::catch_unwind;
use std::thread;

use crate::common::*;
use fullbore::{Pipe, ProducerOptions, Way};

const WAYS: [Way; 4] = [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle];

#[test]
fn dropping_sends_what_was_gathered() {
    for way in WAYS {
        for sizes in [&[5][..], &[100_000], &[1, 300_000, 7]] {
            let pipe = Pipe::new().unwrap();
            let mut out = open(ProducerOptions::new(), way, pipe.writer);
            let mut at = 0;
            for &size in sizes {
                let mut bytes = vec![0; size];
                fill(&mut bytes, at);
                out.write_all(&bytes).unwrap();
                at += size as u64;
            }
            drop(out);
            let read = Reader::Quick.drain(pipe.reader, Checker::of_the_stream());
            assert_eq!(read, at, "{way}");
        }
    }
}

#[test]
fn dropping_without_a_reader_is_quiet() {
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let mut out = open(ProducerOptions::new(), way, pipe.writer);
        out.write_all(b"for nobody").unwrap();
        drop(pipe.reader);
        drop(out);
    }
}

fn dev_full() -> OwnedFd {
    let full = File::options().write(true).open("/dev/full");
    full.unwrap().into()
}

#[test]
fn dropping_what_cannot_be_sent_is_quiet() {
    let mut out = open(ProducerOptions::new(), Way::Copy, dev_full());
    out.write_all(b"lost").unwrap();
    drop(out);
}

#[test]
fn no_length_of_output_is_lost_silently_when_finished() {
    let chunk = 4096;
    for len in [1, chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk + 1] {
        for piece in [1000, chunk - 1, chunk, len] {
            let options = ProducerOptions::new().chunk(chunk);
            let mut out = options.way(Way::Copy).open(dev_full()).unwrap();
            let bytes = vec![1; len];
            let answer: io::Result<()> = bytes.chunks(piece).try_for_each(|p| out.write_all(p));
            if answer.is_ok() {
                let error = out.finish().unwrap_err();
                assert_eq!(error.error.kind(), io::ErrorKind::StorageFull, "{error}");
            }
        }
    }
}

#[test]
fn dropping_while_panicking_does_not_panic_again() {
    let panic = catch_unwind(|| {
        let mut out = open(ProducerOptions::new(), Way::Copy, dev_full());
        out.write_all(b"lost").unwrap();
        panic!("the first one");
    });
    let panic = panic.expect_err("it panics");
    assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "the first one");
}

#[test]
fn after_an_error_that_was_shown_dropping_is_quiet() {
    let mut out = open(ProducerOptions::new(), Way::Copy, dev_full());
    out.write_all(b"lost").unwrap();
    assert!(out.flush().is_err());
    drop(out);
}

#[test]
fn a_producer_moves_between_threads() {
    let pipe = Pipe::new().unwrap();
    let mut out = open(ProducerOptions::new(), Way::Fresh, pipe.writer);
    send(&mut out, 0, 100_000, 50_000).unwrap();
    let out = thread::spawn(move || {
        send(&mut out, 100_000, 200_000, 50_000).unwrap();
        out
    });
    out.join().unwrap().finish().unwrap();
    let read = Reader::Quick.drain(pipe.reader, Checker::of_the_stream());
    assert_eq!(read, 200_000);
}

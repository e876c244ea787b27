//! A `Producer` that never waits, or can be stopped: no byte is lost or sent twice.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::*;
use fullbore::{
    Cancel, Error, Pages, Pipe, Producer, ProducerOptions, Repeat, Stopped, Unfinished, Wait, Way,
};

const WAYS: [Way; 4] = [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle];

/// Reads the available bytes, up to a small number.
fn read_a_little(reader: &mut File, checker: &mut Checker, random: &mut Random) {
    let mut bytes = vec![0; random.up_to(50_000)];
    if queued(reader) > 0 {
        let n = reader.read(&mut bytes).unwrap();
        checker.check(&bytes[..n]);
    }
}

/// How a program sends the stream.
#[derive(Debug, Clone, Copy)]
enum Usage {
    Lend,
    SmallWrites,
    LargeWrites,
    Slices,
    HandOver,
}

/// Makes one call that sends the stream from byte `at` on, and returns how many bytes were accepted; an error says
/// whether they were.
fn use_once(
    out: &mut Producer<OwnedFd>,
    usage: Usage,
    at: u64,
    most: usize,
    random: &mut Random,
) -> Result<usize, (usize, Error)> {
    let mut n = match usage {
        Usage::SmallWrites => random.up_to(5000),
        _ => random.up_to(300_000),
    }
    .min(most);
    let none = |error: std::io::Error| (0, inner(error));
    match usage {
        Usage::Lend => {
            n = n.min(out.chunk());
            fill(out.reserve(n).map_err(|e| (0, e))?, at);
            out.commit(n).map_err(|e| (n, e))?;
            Ok(n)
        }
        Usage::SmallWrites | Usage::LargeWrites => {
            let mut bytes = vec![0; n];
            fill(&mut bytes, at);
            out.write(&bytes).map_err(none)
        }
        Usage::Slices => {
            let mut bytes = vec![0; n];
            fill(&mut bytes, at);
            let slices: Vec<IoSlice<'_>> = bytes.chunks(1 + n / 7).map(IoSlice::new).collect();
            out.write_vectored(&slices).map_err(none)
        }
        Usage::HandOver => {
            let mut pages = Pages::new(n).unwrap();
            fill(&mut pages, at);
            out.send_pages(pages).map_err(|e| (n, e))?;
            Ok(n)
        }
    }
}

const USAGES: [Usage; 5] = [
    Usage::Lend,
    Usage::SmallWrites,
    Usage::LargeWrites,
    Usage::Slices,
    Usage::HandOver,
];

#[test]
fn unsent_bytes_are_kept_and_sent_once() {
    let _watch = watch("unsent_bytes_are_kept_and_sent_once");
    let len = 3 * MIB;
    for way in WAYS {
        for wait in ALL_WAITS {
            for by_another in [false, true] {
                for usage in USAGES {
                    let pipe = Pipe::new().unwrap();
                    if by_another {
                        set_nonblocking(&pipe.writer);
                    }
                    let options = ProducerOptions::new()
                        .nonblocking(true)
                        .wait(wait)
                        .pipe_size(0);
                    let mut out = open(options.chunk(100_000), way, pipe.writer);
                    let mut reader = File::from(pipe.reader);
                    let (mut checker, mut random) = (Checker::of_the_stream(), Random::new(5));
                    let (mut at, mut blocked) = (0, 0);
                    while at < len {
                        let answer = use_once(&mut out, usage, at as u64, len - at, &mut random);
                        at += match answer {
                            Ok(n) => n,
                            Err((taken, error)) => {
                                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                                blocked += 1;
                                read_a_little(&mut reader, &mut checker, &mut random);
                                taken
                            }
                        };
                        let accounted = out.report().bytes + out.unsent();
                        assert_eq!(accounted, at as u64, "{way} {wait:?} {usage:?}");
                    }
                    while let Err(error) = out.flush() {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                        read_a_little(&mut reader, &mut checker, &mut random);
                    }
                    assert!(blocked > 0);
                    let produced = out.finish().unwrap();
                    assert_eq!(produced.bytes, len as u64);
                    // Bytes in a socket could not be kept for later.
                    let expected = match way {
                        Way::Socket => Way::Copy,
                        way => way,
                    };
                    assert_eq!(produced.way, expected);
                    let read = Reader::Quick.drain(reader.into(), checker);
                    assert_eq!(read, len as u64, "{way} {wait:?} {usage:?}");
                }
            }
        }
    }
}

#[test]
fn a_repeat_that_must_not_wait_says_so_and_goes_on() {
    let _watch = watch("a_repeat_that_must_not_wait_says_so_and_goes_on");
    for pattern in [b"0123456".to_vec(), first(100_003), first(5 * MIB)] {
        let pipe = Pipe::new().unwrap();
        let options = ProducerOptions::new().nonblocking(true).pipe_size(0);
        let mut out: Repeat<_> = options.repeat(pipe.writer, &pattern).unwrap();
        let mut reader = File::from(pipe.reader);
        let (mut checker, mut random) = (Checker::of(&pattern), Random::new(5));
        let (len, mut blocked) = (12 << 20, 0);
        while out.report().bytes < len {
            if let Err(error) = out.send_some(len - out.report().bytes) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                blocked += 1;
                while queued(&reader) > 0 {
                    read_a_little(&mut reader, &mut checker, &mut random);
                }
            }
        }
        assert!(blocked > 0);
        drop(out);
        assert_eq!(Reader::Quick.drain(reader.into(), checker), len);
    }
}

#[test]
fn a_closed_reader_is_an_error_with_and_without_waiting_whatever_the_way() {
    let _watch = watch("a_closed_reader_is_an_error_with_and_without_waiting");
    for by_another in [false, true] {
        for never in [false, true] {
            for wait in ALL_WAITS {
                let options = || match never {
                    true => ProducerOptions::new().wait(wait).nonblocking(true),
                    false => ProducerOptions::new().wait(wait),
                };
                let writer = || {
                    let pipe = Pipe::new().unwrap();
                    if by_another {
                        set_nonblocking(&pipe.writer);
                    }
                    pipe
                };
                for way in WAYS {
                    for usage in USAGES {
                        let pipe = writer();
                        let mut out = open(options(), way, pipe.writer);
                        out.write_all(b"taken").unwrap();
                        out.flush().unwrap();
                        drop(pipe.reader);
                        let mut random = Random::new(3);
                        // One that gathers returns no error before its memory is full.
                        let error = loop {
                            match use_once(&mut out, usage, 0, 100_000, &mut random) {
                                Ok(_) => {}
                                Err((_, error)) => break error,
                            }
                        };
                        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{way} {usage:?}");
                        assert_eq!(out.report().bytes, 5, "{way} {usage:?}");
                        assert!(out.finish().is_err());
                    }
                }
                for pattern in [b"0123456".to_vec(), first(100_003), first(5 * MIB)] {
                    let pipe = writer();
                    let mut out = options().repeat(pipe.writer, &pattern).unwrap();
                    out.send_some(1000).unwrap();
                    drop(pipe.reader);
                    let error = out.send(1000).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                }
            }
        }
    }
}

#[test]
fn a_producer_that_waits_is_cancelled_and_keeps_what_it_has() {
    let _watch = watch("a_producer_that_waits_is_cancelled_and_keeps_what_it_has");
    for way in WAYS {
        for wait in ALL_WAITS {
            let pipe = Pipe::new().unwrap();
            let cancel = Cancel::new().unwrap();
            let options = ProducerOptions::new()
                .wait(wait)
                .pipe_size(0)
                .cancel(&cancel);
            let mut out = open(options.chunk(100_000), way, pipe.writer);
            let sending = thread::spawn(move || {
                let mut at = 0;
                let error = loop {
                    let mut random = Random::new(at as u64);
                    match use_once(&mut out, Usage::LargeWrites, at as u64, MIB, &mut random) {
                        Ok(n) => at += n,
                        Err((_, error)) => break error,
                    }
                };
                (out, at, error)
            });
            // It starts to wait when the pipe is full; it need not be waiting yet.
            while queued(&pipe.reader) == 0 {
                thread::yield_now();
            }
            cancel.cancel();
            let (out, at, error) = sending.join().unwrap();
            stopped(&error, Stopped::Cancelled, out.report().bytes);
            assert_eq!(
                out.report().bytes + out.unsent(),
                at as u64,
                "{way} {wait:?}"
            );
            let sent = out.report().bytes;
            let (sink, unsent) = out.into_parts();
            assert_eq!(sent + unsent.len() as u64, at as u64);
            // Another producer continues with these bytes.
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
            let mut out = open(ProducerOptions::new(), way, sink);
            out.write_all(&unsent).unwrap();
            out.finish().unwrap();
            assert_eq!(reading.join().unwrap(), at as u64, "{way} {wait:?}");
        }
    }
}

#[test]
fn finishing_recycle_ends_when_it_is_cancelled() {
    let _watch = watch("finishing_recycle_ends_when_it_is_cancelled");
    let pipe = Pipe::new().unwrap();
    let cancel = Cancel::new().unwrap();
    let options = ProducerOptions::new().cancel(&cancel);
    let mut out = open(options, Way::Recycle, pipe.writer);
    send(&mut out, 0, 40_000, 40_000).unwrap();
    let finishing = thread::spawn(move || out.finish().map(drop));
    cancel.cancel();
    // There is no reader.
    let unfinished = finishing.join().unwrap().unwrap_err();
    stopped(&unfinished.error, Stopped::Cancelled, 40_000);
    assert_eq!(queued(&pipe.reader), 40_000);
    // Once everything has been read, there is nothing to wait for.
    rustix::io::read(&pipe.reader, &mut [0; 50_000]).unwrap();
    assert_eq!(unfinished.producer.finish().unwrap().bytes, 40_000);
}

/// Asserts that the call was stopped for this reason after this many bytes.
#[track_caller]
fn stopped(error: &Error, so: Stopped, after: u64) {
    match error {
        Error::Stopped { by, moved, .. } => assert_eq!((*by, *moved), (so, after)),
        other => panic!("{other:#}"),
    }
}

#[test]
fn a_deadline_ends_the_waits_of_a_producer_and_another_one_lets_it_go_on() {
    let _watch = watch("a_deadline_ends_the_waits_of_a_producer");
    let bytes = first(3 * MIB);
    for way in WAYS {
        for wait in ALL_WAITS {
            let pipe = Pipe::new().unwrap();
            let options = ProducerOptions::new().wait(wait).pipe_size(0);
            let soon = Instant::now() + Duration::from_millis(20);
            let options = options.chunk(100_000).deadline(soon);
            let mut out = open(options, way, pipe.writer);
            // There is no reader, and this much does not fit.
            let mut at = 0;
            let error = loop {
                match out.write(&bytes[at..]) {
                    Ok(n) => at += n,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{way} {wait:?}");
            stopped(&inner(error), Stopped::TimedOut, out.report().bytes);
            assert_eq!(
                queued(&pipe.reader) as u64,
                out.report().bytes,
                "{way} {wait:?}"
            );
            assert_eq!(
                out.report().bytes + out.unsent(),
                at as u64,
                "{way} {wait:?}"
            );
            // If all accepted bytes have been sent, there is nothing left to stop.
            if out.unsent() > 0 {
                out = *out.finish().unwrap_err().producer;
            }
            assert_eq!(
                out.report().bytes + out.unsent(),
                at as u64,
                "{way} {wait:?}"
            );
            out.set_deadline(None);
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
            out.write_all(&bytes[at..]).unwrap();
            assert_eq!(out.finish().unwrap().bytes, bytes.len() as u64);
            assert_eq!(reading.join().unwrap(), bytes.len() as u64);
        }
    }
}

#[test]
fn a_deadline_that_passes_is_no_error_of_a_write_that_took_bytes() {
    // This fills the window to the last byte, and unsent bytes stay.
    let pipe = Pipe::new().unwrap();
    let options = ProducerOptions::new().deadline(Instant::now());
    let mut out = options.way(Way::Copy).open(pipe.writer).unwrap();
    out.write_all(&first(64 * 1024)).unwrap();
    assert_eq!((out.report().bytes, out.unsent()), (0, 64 * 1024));
    out.set_deadline(None);
    out.flush().unwrap();
    assert_eq!((out.report().bytes, out.unsent()), (64 * 1024, 0));
}

#[test]
fn a_repeat_continues_after_a_stop_in_the_middle_of_its_pattern() {
    let _watch = watch("a_repeat_continues_after_a_stop_in_the_middle_of_its_pattern");
    const ALL: u64 = 24 << 20;
    // From a master pipe, from a private pipe, and from memory.
    for pattern in [b"0123456".to_vec(), first(100_003), first(5 * MIB)] {
        for wait in ALL_WAITS {
            let what = format!("{} bytes, {wait:?}", pattern.len());
            let pipe = Pipe::new().unwrap();
            let soon = Instant::now() + Duration::from_millis(20);
            let options = ProducerOptions::new().wait(wait).deadline(soon);
            let mut repeat = options.repeat(pipe.writer, &pattern).unwrap();
            let error = repeat.send(ALL).unwrap_err();
            stopped(&error, Stopped::TimedOut, repeat.report().bytes);
            assert_eq!(queued(&pipe.reader) as u64, repeat.report().bytes, "{what}");
            repeat.set_deadline(None);
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of(&pattern));
            repeat.send(ALL - repeat.report().bytes).unwrap();
            drop(repeat);
            assert_eq!(reading.join().unwrap(), ALL, "{what}");

            let (pipe, cancel) = (Pipe::new().unwrap(), Cancel::new().unwrap());
            let options = ProducerOptions::new().wait(wait).cancel(&cancel);
            let mut repeat = options.repeat(pipe.writer, &pattern).unwrap();
            let sending = thread::spawn(move || {
                let error = repeat.send(ALL).unwrap_err();
                stopped(&error, Stopped::Cancelled, repeat.report().bytes);
                repeat.report().bytes
            });
            while queued(&pipe.reader) == 0 {
                thread::yield_now();
            }
            cancel.cancel();
            let sent = sending.join().unwrap();
            assert_eq!(
                Reader::Quick.drain(pipe.reader, Checker::of(&pattern)),
                sent
            );
        }
    }
}

#[test]
fn a_header_and_a_body_by_another_way_lose_nothing() {
    let _watch = watch("a_header_and_a_body_by_another_way_lose_nothing");
    let pipe = Pipe::new().unwrap();
    let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
    let mut out = Producer::new(pipe.writer).unwrap();
    let header = first(1000);
    out.write_all(&header).unwrap();
    assert_eq!(out.buffer(), header);
    assert_eq!(out.unsent(), 1000);
    out.flush().unwrap();
    let (sink, unsent) = out.into_parts();
    assert!(unsent.is_empty());
    let mut source = tempfile::tempfile().unwrap();
    let mut body = vec![0; 3 * MIB];
    fill(&mut body, 1000);
    source.write_all(&body).unwrap();
    std::io::Seek::rewind(&mut source).unwrap();
    let mut transfer = fullbore::Transfer::new(source, sink);
    transfer.run().unwrap();
    drop(transfer);
    assert_eq!(reading.join().unwrap(), 1000 + 3 * MIB as u64);
}

#[test]
fn a_producer_whose_rest_cannot_be_sent_is_given_back() {
    let (reader, writer) = UnixStream::pair().unwrap();
    let mut out = ProducerOptions::new()
        .nonblocking(true)
        .way(Way::Copy)
        .open(writer)
        .unwrap();
    assert!(out.get_ref().peer_addr().is_ok());
    let bytes = first(8 * MIB);
    let mut at = 0;
    while let Ok(n) = out.write(&bytes[at..]) {
        at += n;
    }
    // Short writes are gathered.
    at += out.write(&bytes[at..at + 10]).unwrap();
    let Unfinished {
        error,
        producer: out,
    } = out.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(out.report().bytes + out.unsent(), at as u64);
    let reading = Reader::Quick.spawn(reader.into(), Checker::of_the_stream());
    let (mut sink, unsent) = out.into_parts();
    sink.write_all(&unsent).unwrap();
    drop(sink);
    assert_eq!(reading.join().unwrap(), at as u64);
}

#[test]
fn pages_that_are_handed_over_arrive_in_their_place_whatever_the_reader_holds() {
    let _watch = watch("pages_that_are_handed_over_arrive_in_their_place");
    for reader in [Reader::Splicing, Reader::Teeing, Reader::Quick] {
        for way in WAYS {
            if way == Way::Recycle && reader != Reader::Quick {
                continue;
            }
            let pipe = Pipe::new().unwrap();
            let reading = reader.spawn(pipe.reader, Checker::of_the_stream());
            let mut out = open(ProducerOptions::new(), way, pipe.writer);
            let mut at = 0;
            let mut random = Random::new(9);
            while at < 8 << 20 {
                let mut bytes = vec![0; random.up_to(100_000)];
                fill(&mut bytes, at);
                out.write_all(&bytes).unwrap();
                at += bytes.len() as u64;
                let mut pages = Pages::new(random.up_to(MIB)).unwrap();
                fill(&mut pages, at);
                at += pages.len() as u64;
                out.send_pages(pages).unwrap();
                assert_eq!(out.report().bytes, at);
            }
            let mut none = Pages::new(1).unwrap();
            none.truncate(0);
            out.send_pages(none).unwrap();
            assert_eq!(out.finish().unwrap().bytes, at);
            assert_eq!(reading.join().unwrap(), at, "{way} {reader:?}");
        }
    }
}

#[test]
fn many_slices_cost_no_more_calls_than_one_buffer() {
    let _watch = watch("many_slices_cost_no_more_calls_than_one_buffer");
    let bytes = first(8 * MIB);
    let null = || File::options().write(true).open("/dev/null").unwrap();
    let calls = |write: &dyn Fn(&mut Producer<File>)| {
        let mut out = ProducerOptions::new().way(Way::Copy).open(null()).unwrap();
        write(&mut out);
        let produced = out.finish().unwrap();
        assert_eq!(produced.bytes, bytes.len() as u64);
        produced.calls
    };
    let at_once = calls(&|out| {
        for piece in bytes.chunks(1000) {
            out.write_all(piece).unwrap();
        }
    });
    let in_slices = calls(&|out| {
        let mut slices: Vec<IoSlice<'_>> = bytes.chunks(1000).map(IoSlice::new).collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            let n = out.write_vectored(left).unwrap();
            assert!(n > 0);
            IoSlice::advance_slices(&mut left, n);
        }
    });
    assert_eq!(in_slices, at_once);
    assert!(in_slices < 40, "{in_slices} calls for 8 MiB");
}

#[test]
fn a_vectored_write_defers_an_error_after_accepted_slices() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut out = ProducerOptions::new()
        .chunk(4096)
        .way(Way::Copy)
        .open(full)
        .unwrap();
    let bytes = [1; 4096];
    let slices = [IoSlice::new(&bytes[..100]), IoSlice::new(&bytes)];
    let n = out.write_vectored(&slices).unwrap();
    assert!(n >= 100);
    let error = out.write_vectored(&slices).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    assert_eq!(out.unsent(), n as u64);
    assert_eq!(out.report().bytes, 0);
}

#[test]
fn a_terminal_or_socket_that_is_full_would_block_too() {
    let _watch = watch("a_terminal_or_socket_that_is_full_would_block_too");
    for wait in [Wait::Block, Wait::Poll] {
        let (reader, writer) = UnixStream::pair().unwrap();
        let options = ProducerOptions::new().nonblocking(true).wait(wait);
        let mut out = options.open(writer.as_fd()).unwrap();
        let (mut at, mut random) = (0, Random::new(1));
        let mut reader = File::from(OwnedFd::from(reader));
        let mut checker = Checker::of_the_stream();
        let mut blocked = 0;
        while at < 4 * MIB as u64 {
            let mut bytes = vec![0; random.up_to(600_000)];
            fill(&mut bytes, at);
            match out.write(&bytes) {
                Ok(n) => at += n as u64,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    blocked += 1;
                    let mut some = vec![0; 100_000];
                    let n = reader.read(&mut some).unwrap();
                    checker.check(&some[..n]);
                }
            }
        }
        assert!(blocked > 0);
        let reading = thread::spawn(move || Reader::Quick.drain(reader.into(), checker));
        while out.flush().is_err() {
            thread::yield_now();
        }
        drop(out);
        drop(writer);
        assert_eq!(reading.join().unwrap(), at);
    }
}

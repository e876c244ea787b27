//! System calls that fail: always, as on a kernel without them, or only the nth one.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::calls::{
    answering, failing_once, judging, moving_nothing_once, refusing, refusing_some,
};
use crate::common::*;
use fullbore::{
    Cancel, Consumer, ConsumerOptions, Error, Pipe, Producer, ProducerOptions, ProducerReport,
    Repeat, Result, TransferSide, Wait, Way,
};
use rustix::io::Errno;

const WRITE: [libc::c_long; 2] = [libc::SYS_write, libc::SYS_pwritev2];
const READ: [libc::c_long; 2] = [libc::SYS_read, libc::SYS_preadv2];

/// A sender, whose resources are allocated before any call can fail.
enum Sender {
    Producer(Box<Producer<OwnedFd>>),
    Repeat(Box<Repeat<OwnedFd>>),
}

/// A way to send, the calls that it uses, and the name that errors have for the failing call.
struct Case {
    name: &'static str,
    calls: &'static [libc::c_long],
    operation: &'static str,
    make: fn(ProducerOptions, OwnedFd) -> Sender,
    checker: fn() -> Checker,
}

const PATTERN: &[u8] = b"0123456";

const CASES: [Case; 9] = [
    Case {
        name: "copy",
        calls: &WRITE,
        operation: "write",
        make: |options, sink| {
            Sender::Producer(Box::new(options.way(Way::Copy).open(sink).unwrap()))
        },
        checker: Checker::of_the_stream,
    },
    Case {
        name: "fresh",
        calls: &[libc::SYS_vmsplice],
        operation: "vmsplice",
        make: |options, sink| {
            Sender::Producer(Box::new(options.way(Way::Fresh).open(sink).unwrap()))
        },
        checker: Checker::of_the_stream,
    },
    Case {
        name: "recycle",
        calls: &[libc::SYS_vmsplice],
        operation: "vmsplice",
        // The reader of every test here copies.
        make: |options, sink| {
            Sender::Producer(Box::new(options.way(Way::Recycle).open(sink).unwrap()))
        },
        checker: Checker::of_the_stream,
    },
    Case {
        name: "repeat, slots that end with a pattern",
        calls: &[libc::SYS_tee],
        operation: "tee",
        make: |options, sink| Sender::Repeat(Box::new(options.repeat(sink, PATTERN).unwrap())),
        checker: || Checker::of(PATTERN),
    },
    Case {
        name: "repeat, slots that do not",
        calls: &[libc::SYS_splice],
        operation: "splice",
        make: |options, sink| {
            Sender::Repeat(Box::new(options.repeat(sink, &first(100_003)).unwrap()))
        },
        checker: || Checker::of(&first(100_003)),
    },
    Case {
        name: "repeat, filling the stage",
        calls: &[libc::SYS_tee],
        operation: "tee",
        make: |options, sink| {
            Sender::Repeat(Box::new(options.repeat(sink, &first(100_003)).unwrap()))
        },
        checker: || Checker::of(&first(100_003)),
    },
    Case {
        name: "repeat, from memory",
        calls: &[libc::SYS_vmsplice],
        operation: "vmsplice",
        make: |options, sink| {
            Sender::Repeat(Box::new(options.repeat(sink, &first(5 * MIB)).unwrap()))
        },
        checker: || Checker::of(&first(5 * MIB)),
    },
    Case {
        name: "recycle, asking how much is queued",
        calls: &[libc::SYS_ioctl],
        operation: "vmsplice",
        // The reader of every test here copies.
        make: |options, sink| {
            Sender::Producer(Box::new(options.way(Way::Recycle).open(sink).unwrap()))
        },
        checker: Checker::of_the_stream,
    },
    Case {
        name: "socket",
        calls: &[libc::SYS_splice],
        operation: "splice",
        make: |options, sink| {
            Sender::Producer(Box::new(options.way(Way::Socket).open(sink).unwrap()))
        },
        checker: Checker::of_the_stream,
    },
];

/// Returns the cases that this machine supports.
fn cases() -> impl Iterator<Item = Case> {
    let all = if has_socket_way() {
        CASES.len()
    } else {
        fullbore_tests::skipped("a run of a socket is no longer than a base page");
        CASES.len() - 1
    };
    CASES.into_iter().take(all)
}

impl Sender {
    fn way(&self) -> Way {
        match self {
            Sender::Producer(out) => out.report().way,
            Sender::Repeat(out) => out.report().way,
        }
    }

    /// Sends this many bytes, in chunks that are long enough to be sent by reference.
    fn send_all(self, bytes: u64) -> Result<ProducerReport> {
        match self {
            Sender::Producer(mut out) => {
                send(&mut out, 0, bytes, 64 * 1024)?;
                Ok(out.finish()?)
            }
            Sender::Repeat(mut out) => out.send(bytes).map(|()| out.report()),
        }
    }
}

/// Enough for more than five calls of each way into a pipe smaller than one chunk.
const BYTES: u64 = 40 << 20;

impl Case {
    /// Sends while `verdict` fails calls; returns the result, and the number of bytes that the reader got. `None` if
    /// calls cannot be made to fail.
    fn run(
        &self,
        wait: Wait,
        verdict: impl FnMut(usize) -> Option<Errno>,
    ) -> Option<(Result<ProducerReport>, u64)> {
        let mut verdict = verdict;
        self.run_with(ProducerOptions::new().wait(wait), |nth| {
            verdict(nth).map(Err)
        })
    }

    fn run_with(
        &self,
        options: ProducerOptions,
        mut answer: impl FnMut(usize) -> Option<std::result::Result<i64, Errno>>,
    ) -> Option<(Result<ProducerReport>, u64)> {
        let pipe = Pipe::new().unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, (self.checker)());
        let options = options.chunk(64 * 1024);
        let sender = (self.make)(options, pipe.writer);
        let outcome = answering(
            self.calls,
            |nth, _, _| answer(nth),
            || sender.send_all(BYTES),
        );
        let read = reading.join().unwrap();
        outcome.map(|outcome| (outcome, read))
    }
}

#[test]
fn an_interrupted_or_blocking_call_is_retried() {
    let _watch = watch("an_interrupted_or_blocking_call_is_retried");
    for case in cases() {
        for wait in [Wait::Block, Wait::Adaptive] {
            for errno in [Errno::INTR, Errno::AGAIN] {
                let mut failed = 0;
                // The first, the second and the fifth call, and later two in a row.
                let verdict = |nth| {
                    failed += usize::from([1, 2, 5, 8, 9].contains(&nth));
                    [1, 2, 5, 8, 9].contains(&nth).then_some(errno)
                };
                let Some((outcome, read)) = case.run(wait, verdict) else {
                    return;
                };
                let produced = outcome.unwrap_or_else(|e| panic!("{}: {e}", case.name));
                assert_eq!((produced.bytes, read), (BYTES, BYTES), "{}", case.name);
                assert_eq!(failed, 5, "{} makes calls enough", case.name);
            }
        }
    }
}

#[test]
fn a_failing_call_says_which_it_was_and_how_many_bytes_the_reader_got() {
    let _watch = watch("a_failing_call_says_which_it_was");
    for case in cases() {
        for wait in [Wait::Block, Wait::Adaptive] {
            for errno in [Errno::IO, Errno::PIPE] {
                for nth in [1, 2, 5] {
                    let mut calls = 0;
                    let verdict = |now| {
                        calls = now;
                        (now == nth).then_some(errno)
                    };
                    let Some((outcome, read)) = case.run(wait, verdict) else {
                        return;
                    };
                    let what = format!("{} at call {nth}", case.name);
                    failed_with(outcome, case.operation, errno, read, &what);
                    assert_eq!(calls, nth, "{}: nothing is tried again", case.name);
                }
            }
        }
    }
}

/// Asserts that `operation` failed with `errno`, and that the reader got `moved` bytes.
#[track_caller]
fn failed_with(
    outcome: Result<ProducerReport>,
    operation: &str,
    errno: Errno,
    read: u64,
    what: &str,
) {
    match outcome {
        Err(Error::Moving {
            side: TransferSide::Sink,
            operation: failed,
            errno: said,
            moved,
        }) => {
            assert_eq!(failed, operation, "{what}");
            assert_eq!(said.raw_os_error(), Some(errno.raw_os_error()), "{what}");
            assert_eq!(moved, read, "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn ecanceled_and_etimedout_of_the_kernel_are_errors() {
    let _watch = watch("what_the_kernel_calls_cancelled_or_late_is_an_error");
    let cancel = Cancel::new().unwrap();
    let in_an_hour = Instant::now() + Duration::from_secs(3600);
    let options = [
        ProducerOptions::new(),
        ProducerOptions::new().wait(Wait::Adaptive),
        ProducerOptions::new().cancel(&cancel).deadline(in_an_hour),
    ];
    for case in cases() {
        for (i, options) in options.iter().enumerate() {
            for errno in [Errno::CANCELED, Errno::TIMEDOUT] {
                for nth in [1, 2, 5] {
                    let what = format!("{}, options {i}, {errno} at call {nth}", case.name);
                    let answer = |now| (now == nth).then_some(Err(errno));
                    let Some((outcome, read)) = case.run_with(options.clone(), answer) else {
                        return;
                    };
                    failed_with(outcome, case.operation, errno, read, &what);
                }
            }
        }
    }
}

#[test]
fn a_call_that_is_refused_or_moves_nothing_is_followed_by_another_way() {
    let _watch = watch("a_call_that_is_refused_or_moves_nothing");
    let refused = [Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::INVAL].map(Err);
    for case in cases() {
        // Only FIONREAD returns the number of queued bytes, and nothing comes after write(2), but for a nonblocking
        // sender: there, only the flag may have been refused.
        let has_another = case.name != "copy" && !case.calls.contains(&libc::SYS_ioctl);
        for wait in [Wait::Block, Wait::Adaptive] {
            for answer in refused.into_iter().chain(has_another.then_some(Ok(0))) {
                for nth in [1, 2, 5] {
                    let what = format!("{}, {wait:?}, {answer:?} at call {nth}", case.name);
                    let options = ProducerOptions::new().wait(wait);
                    let verdict = |now| (now == nth).then_some(answer);
                    let Some((outcome, read)) = case.run_with(options, verdict) else {
                        return;
                    };
                    match (outcome, answer) {
                        (Ok(produced), _) => {
                            assert!(has_another || wait == Wait::Adaptive, "{what}");
                            assert_eq!((produced.bytes, read), (BYTES, BYTES), "{what}");
                        }
                        (failed, Err(errno)) if !has_another => {
                            failed_with(failed, case.operation, errno, read, &what);
                        }
                        (failed, _) => panic!("{what}: {failed:?}"),
                    }
                }
            }
        }
    }
}

#[test]
fn memory_that_a_pipe_refers_to_is_not_written_to_where_the_rest_of_it_was_copied() {
    let _watch = watch("memory_that_a_pipe_refers_to_is_not_written_to");
    for way in [Way::Fresh, Way::Recycle] {
        for answer in [Err(Errno::PERM), Ok(0)] {
            let pipe = Pipe::new().unwrap();
            let options = ProducerOptions::new().way(way).chunk(CHUNK).pipe_size(0);
            let mut out = options.open(&pipe.writer).unwrap();
            let capacity = rustix::pipe::fcntl_getpipe_size(&pipe.writer).unwrap();
            let is_usual = fullbore_linux::page_size() <= CHUNK / 4 && capacity >= CHUNK;
            if !is_usual || !fullbore_linux::shares_pages() {
                return fullbore_tests::skipped(
                    "a pipe is small, or pages are large or not shared",
                );
            }
            // So the first call gives half of the chunk, and the second one is refused.
            let before = vec![0; capacity - CHUNK / 2];
            rustix::io::write(&pipe.writer, &before).unwrap();
            let (go, wait) = std::sync::mpsc::channel();
            let more = go.clone();
            let mut reader = std::fs::File::from(pipe.reader);
            let reading = thread::spawn(move || {
                let _ = wait.recv_timeout(Duration::from_secs(100));
                let mut got = vec![0; CHUNK / 2];
                reader.read_exact(&mut got).unwrap();
                wait.recv().unwrap();
                reader.read_to_end(&mut got).unwrap();
                got
            });
            let verdict = |nth, _, _| {
                (nth == 2).then(|| {
                    go.send(()).unwrap();
                    answer
                })
            };
            let sent = answering(&[libc::SYS_vmsplice], verdict, || {
                out.reserve(CHUNK).unwrap().fill(1);
                out.commit(CHUNK).unwrap();
                out.reserve(CHUNK / 4).unwrap().fill(2);
            });
            if sent.is_none() {
                return;
            }
            more.send(()).unwrap();
            out.commit(CHUNK / 4).unwrap();
            out.finish().unwrap();
            drop(pipe.writer);
            let expected = [&before[..], &[1; CHUNK], &[2; CHUNK / 4]].concat();
            assert!(reading.join().unwrap() == expected, "{way:?}, {answer:?}");
        }
    }
}

/// What a producer sends at once in a test.
const CHUNK: usize = 64 * 1024;

#[test]
fn where_vmsplice_is_refused_fresh_and_recycle_copy() {
    for case in &CASES[1..3] {
        for errno in [Errno::NOSYS, Errno::PERM, Errno::ACCESS] {
            for wait in ALL_WAITS {
                let pipe = Pipe::new().unwrap();
                let reading = Reader::Bursty.spawn(pipe.reader, Checker::of_the_stream());
                let options = ProducerOptions::new().wait(wait).chunk(64 * 1024);
                let sender = (case.make)(options, pipe.writer);
                assert_ne!(sender.way(), Way::Copy);
                // Without a socket, only write(2) remains.
                let mut refused = vec![libc::SYS_vmsplice];
                let way = match wait {
                    Wait::Block if has_socket_way() => Way::Socket,
                    _ => {
                        refused.push(libc::SYS_socketpair);
                        Way::Copy
                    }
                };
                let outcome = refusing(&refused, errno, || sender.send_all(4 << 20));
                let read = reading.join().unwrap();
                let Some(outcome) = outcome else { return };
                let produced = outcome.unwrap();
                assert_eq!(produced.way, way, "{}", case.name);
                assert_eq!((produced.bytes, read), (4 << 20, 4 << 20));
            }
        }
    }
}

#[test]
fn the_refusal_may_come_after_bytes_that_were_copied() {
    let pipe = Pipe::new().unwrap();
    let mut out = Producer::new(pipe.writer).unwrap();
    let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
    let produced = refusing(&[libc::SYS_vmsplice], Errno::NOSYS, move || {
        send(&mut out, 0, 5000, 1000).unwrap();
        send(&mut out, 5000, 1 << 20, 100_000).unwrap();
        let way = if has_socket_way() {
            Way::Socket
        } else {
            Way::Copy
        };
        assert_eq!(out.report().way, way);
        out.finish().unwrap()
    });
    let read = reading.join().unwrap();
    if let Some(produced) = produced {
        assert_eq!((produced.bytes, read), (1 << 20, 1 << 20));
    }
}

#[test]
fn io_write_returns_the_same_errors() {
    let _watch = watch("io_write_returns_the_same_errors");
    for case in &CASES[..3] {
        for nth in [1, 2, 5] {
            // Pieces that fill chunks exactly, that do not, and that are larger.
            for piece in [64 * 1024, 100, 32 * 1024, 1_000_000] {
                let pipe = Pipe::new().unwrap();
                let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
                let options = ProducerOptions::new().chunk(64 * 1024);
                let Sender::Producer(mut out) = (case.make)(options, pipe.writer) else {
                    unreachable!("the first three are producers");
                };
                let bytes = first(4 * MIB);
                let outcome = failing_once(case.calls, nth, Errno::IO, move || {
                    let answer = bytes.chunks(piece).try_for_each(|p| out.write_all(p));
                    answer.map_err(inner)?;
                    Ok::<_, Error>(out.finish()?)
                });
                let read = reading.join().unwrap();
                match outcome {
                    None => return,
                    Some(Err(error)) => {
                        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
                        if let Error::Moving { moved, .. } = error {
                            assert_eq!(moved, read);
                        }
                    }
                    Some(other) => panic!("{}, {piece}, call {nth}: {other:?}", case.name),
                }
            }
        }
    }
}

/// Returns a pipe into which a thread sends this many bytes of the stream.
fn source(bytes: u64) -> OwnedFd {
    let pipe = Pipe::new().unwrap();
    thread::spawn(move || {
        let mut out = ProducerOptions::new()
            .way(Way::Copy)
            .open(pipe.writer)
            .unwrap();
        // The reader may stop before the end.
        let _ = send(&mut out, 0, bytes, 50_000).and_then(|()| Ok(out.finish()?));
    });
    pipe.reader
}

/// Reads to the end and checks every byte.
fn check_all(consumer: &mut Consumer<OwnedFd>) -> Result<u64> {
    let mut checker = Checker::of_the_stream();
    loop {
        let bytes = consumer.fill_buf().map_err(inner)?;
        if bytes.is_empty() {
            return Ok(checker.at);
        }
        checker.check(bytes);
        let n = bytes.len();
        consumer.consume(n);
    }
}

#[test]
fn a_consumer_shows_neither_eintr_nor_eagain() {
    let _watch = watch("a_consumer_shows_neither_eintr_nor_eagain");
    for wait in ALL_WAITS {
        for errno in [Errno::INTR, Errno::AGAIN] {
            let verdict = |nth: usize| [1, 2, 5, 8, 9].contains(&nth).then_some(errno);
            let source_of_all = source(4 << 20);
            let consumer = || ConsumerOptions::new().wait(wait).buffer(64 * 1024);
            let mut reading = consumer().open(source_of_all).unwrap();
            let Some(read) = judging(&READ, verdict, || check_all(&mut reading)) else {
                return;
            };
            assert_eq!(read.unwrap(), 4 << 20, "{wait:?} {errno}");

            let mut dropping = consumer().open(source(4 << 20)).unwrap();
            let splice = [libc::SYS_splice];
            let dropped = judging(&splice, verdict, || dropping.discard(3 << 20));
            assert_eq!(dropped.unwrap().unwrap(), 3 << 20, "{wait:?} {errno}");
            assert_eq!(check_rest(&mut dropping, 3 << 20), 4 << 20);
        }
    }
}

fn check_rest(consumer: &mut Consumer<OwnedFd>, at: u64) -> u64 {
    let mut rest = Vec::new();
    consumer.read_to_end(&mut rest).unwrap();
    let mut checker = Checker::of_the_stream();
    checker.at = at;
    checker.check(&rest);
    checker.at
}

#[test]
fn a_consumer_that_fails_says_how_many_bytes_it_took() {
    for wait in [Wait::Block, Wait::Adaptive] {
        for nth in [1, 2, 5] {
            let mut consumer = ConsumerOptions::new()
                .wait(wait)
                .buffer(64 * 1024)
                .open(source(4 << 20))
                .unwrap();
            let outcome = failing_once(&READ, nth, Errno::IO, || check_all(&mut consumer));
            let taken = consumer.report().bytes;
            match outcome {
                None => return,
                Some(Err(error)) => {
                    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
                }
                Some(Ok(other)) => panic!("{other:?}"),
            }
            // No byte was lost: the next read continues where the last one stopped.
            assert_eq!(check_rest(&mut consumer, taken), 4 << 20);
        }
    }
}

#[test]
fn discarding_does_without_splice_and_without_dev_null() {
    for (call, errno) in [
        (libc::SYS_splice, Errno::NOSYS),
        (libc::SYS_splice, Errno::PERM),
        (libc::SYS_openat, Errno::ACCESS),
    ] {
        let mut consumer = Consumer::new(source(4 << 20)).unwrap();
        let dropped = refusing(&[call], errno, || consumer.discard(3 << 20));
        let Some(dropped) = dropped else { return };
        assert_eq!(dropped.unwrap(), 3 << 20);
        assert_eq!(check_rest(&mut consumer, 3 << 20), 4 << 20);
    }
}

#[test]
fn where_rwf_nowait_is_refused_waiting_still_works() {
    let _watch = watch("where_rwf_nowait_is_refused_waiting_still_works");
    for wait in ALL_WAITS {
        for errno in [Errno::NOSYS, Errno::OPNOTSUPP, Errno::PERM, Errno::ACCESS] {
            let refused = [libc::SYS_preadv2, libc::SYS_pwritev2];
            let pipe = Pipe::new().unwrap();
            let reader = pipe.reader;
            let reading = thread::spawn(move || {
                refusing(&refused, errno, || {
                    Reader::Consumer(wait).drain(reader, Checker::of_the_stream())
                })
            });
            let options = ProducerOptions::new().wait(wait);
            let mut out = options.way(Way::Copy).open(pipe.writer).unwrap();
            let sent = refusing(&refused, errno, move || {
                send(&mut out, 0, 4 << 20, 100_000).unwrap();
                out.finish().unwrap().bytes
            });
            assert_eq!(reading.join().unwrap(), sent, "{wait:?}");
        }
    }
}

#[test]
fn where_no_memory_can_be_mapped_the_small_buffer_of_the_start_goes_on() {
    let _watch = watch("where_no_memory_can_be_mapped");
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        for case in &CASES[..3] {
            let pipe = Pipe::new().unwrap();
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
            let Sender::Producer(mut out) = (case.make)(ProducerOptions::new(), pipe.writer) else {
                unreachable!("the first three are producers");
            };
            let bytes = first(4 * MIB);
            let outcome = refusing(&[call], Errno::NOMEM, || {
                send(&mut out, 0, 1 << 20, 64 * 1024)?;
                out.write_all(&bytes[1 << 20..]).map_err(inner)?;
                assert_eq!(out.report().way, Way::Copy);
                Ok::<_, Error>(out.finish()?.bytes)
            });
            let read = reading.join().unwrap();
            if let Some(outcome) = outcome {
                let bytes = outcome.unwrap_or_else(|e| panic!("{}: {e}", case.name));
                assert_eq!((bytes, read), (4 << 20, 4 << 20), "{}", case.name);
            }
        }
    }
}

#[test]
fn a_consumer_goes_on_with_its_small_buffer_where_no_memory_can_be_mapped() {
    let _watch = watch("a_consumer_goes_on_with_its_small_buffer");
    for buffer in [None, Some(8 * MIB)] {
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            let options = match buffer {
                Some(bytes) => ConsumerOptions::new().buffer(bytes),
                None => ConsumerOptions::new(),
            };
            let mut consumer = options.open(source(2 << 20)).unwrap();
            let outcome = refusing(&[call], Errno::NOMEM, || check_all(&mut consumer));
            if let Some(outcome) = outcome {
                let what = format!("{buffer:?}, call {call}");
                let read = outcome.unwrap_or_else(|e| panic!("{what}: {e:#}"));
                assert_eq!(
                    (read, consumer.report().bytes),
                    (2 << 20, 2 << 20),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn a_transfer_goes_on_where_no_memory_can_be_mapped() {
    let _watch = watch("a_transfer_goes_on_where_no_memory_can_be_mapped");
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let sink = Pipe::new().unwrap();
        let reading = Reader::Quick.spawn(sink.reader, Checker::of_the_stream());
        let mut transfer = fullbore::Transfer::new(source(8 << 20), sink.writer);
        let outcome = refusing(&[call], Errno::NOMEM, || transfer.run());
        drop(transfer);
        let read = reading.join().unwrap();
        if let Some(outcome) = outcome {
            assert_eq!((outcome.unwrap().bytes, read), (8 << 20, 8 << 20));
        }
    }
}

#[test]
fn without_a_descriptor_to_spare_bytes_are_copied() {
    let _watch = watch("without_a_descriptor_to_spare_bytes_are_copied");
    let duplicating = (1, &[libc::F_DUPFD_CLOEXEC as u32][..]);
    for case in [&CASES[1], &CASES[2], &CASES[3]] {
        let pipe = Pipe::new().unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, (case.checker)());
        let outcome = refusing_some(libc::SYS_fcntl, duplicating, Errno::MFILE, || {
            (case.make)(ProducerOptions::new(), pipe.writer).send_all(4 << 20)
        });
        let read = reading.join().unwrap();
        if let Some(outcome) = outcome {
            let produced = outcome.unwrap();
            assert_eq!(produced.way, Way::Copy, "{}", case.name);
            assert_eq!((produced.bytes, read), (4 << 20, 4 << 20), "{}", case.name);
        }
    }
}

#[test]
fn where_pages_cannot_be_given_back_none_is_written_to_again() {
    // Without MADV_DONTNEED, a lap of fresh must not overwrite pages that a reader may hold.
    let pipe = Pipe::new().unwrap();
    let mut out = ProducerOptions::new()
        .way(Way::Fresh)
        .open(pipe.writer)
        .unwrap();
    let reading = Reader::Splicing.spawn(pipe.reader, Checker::of_the_stream());
    let outcome = refusing(&[libc::SYS_madvise], Errno::NOMEM, move || {
        send(&mut out, 0, 16 << 20, 128 * 1024).map_err(|error| (error.kind(), out.report().bytes))
    });
    let read = reading.join().unwrap();
    match outcome {
        None => {}
        Some(Ok(())) => assert_eq!(read, 16 << 20),
        Some(Err((kind, sent))) => {
            assert_eq!(kind, ErrorKind::OutOfMemory);
            assert_eq!(read, sent);
        }
    }
}

#[test]
fn a_pipe_that_may_not_grow_is_used_as_it_is() {
    let pipe = Pipe::new().unwrap();
    let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
    // fcntl fails altogether, so the pipe's capacity is not known either.
    let outcome = refusing(&[libc::SYS_fcntl], Errno::PERM, || {
        let mut out = Producer::new(&pipe.writer)?;
        send(&mut out, 0, 1 << 20, 100_000)?;
        Ok::<_, Error>(out.finish()?.bytes)
    });
    drop(pipe.writer);
    let read = reading.join().unwrap();
    match outcome {
        None => {}
        Some(Ok(bytes)) => assert_eq!(bytes, read),
        Some(Err(error)) => {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            assert_eq!(read, 0);
        }
    }
}

#[test]
fn read_confirms_the_end_after_a_splice_of_no_bytes() {
    for nth in [1, 2, 5] {
        let mut consumer = Consumer::new(source(4 << 20)).unwrap();
        let splice = [libc::SYS_splice];
        let dropped = moving_nothing_once(&splice, nth, || consumer.discard(3 << 20));
        let Some(dropped) = dropped else { return };
        assert_eq!(dropped.unwrap(), 3 << 20, "0 at {nth}");
        assert_eq!(check_rest(&mut consumer, 3 << 20), 4 << 20);
    }
}

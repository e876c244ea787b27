//! `Tee`: every sink that does not fail gets every byte, whatever becomes of the others.

#![allow(unsafe_code)]

mod common;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use common::ends::{SinkKind, SourceKind, Target, stored};
use common::*;
use fullbore::split::Policy;
use fullbore::{Ended, Guarantee, Pipe, PipeEnd, Tee};

const BOTH: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

const K64: usize = 64 * 1024;

/// Around pages, pipes, chunks and roomy pipes.
const SIZES: [usize; 16] = [
    0,
    1,
    4095,
    4096,
    4097,
    K64 - 1,
    K64,
    K64 + 1,
    MIB / 2 - 1,
    MIB / 2,
    MIB / 2 + 1,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB + 70_001,
    5 * MIB + 3,
];

/// A tee from such a source to such sinks, each of which gets every byte or is `/dev/full`.
#[track_caller]
fn assert_all_get_all(source: SourceKind, sinks: &[SinkKind], len: usize, guarantee: Guarantee) {
    let what = format!("{len} bytes, {source:?} to {sinks:?}, {guarantee:?}");
    let (fd, bytes) = source.open(len);
    let len = bytes.len();
    let targets: Vec<Target> = sinks.iter().map(|&kind| Target::new(kind)).collect();
    let mut tee = Tee::new(&fd).guarantee(guarantee);
    if source == SourceKind::Proc {
        tee = tee.limit(len as u64);
    }
    for target in &targets {
        tee = tee.sink(target.as_fd(), Policy::DROP);
    }
    let report = tee.run().unwrap_or_else(|e| panic!("{what}: {e}"));
    let only_full = sinks.iter().all(|&kind| kind == SinkKind::Full);
    if !only_full {
        assert_eq!(report.taken, len as u64, "{what}");
    }
    for (target, said) in targets.into_iter().zip(&report.sinks) {
        let kind = target.kind;
        if kind == SinkKind::Full && len > 0 {
            let error = said.error.as_ref().expect("it is full");
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{what}");
            assert!(!said.ignored && said.bytes == 0, "{what}");
            continue;
        }
        assert!(said.error.is_none(), "{what}: {kind:?}: {:?}", said.error);
        assert_eq!(said.bytes, len as u64, "{what}: {kind:?}");
        if let Some(arrived) = target.arrived() {
            assert_eq!(arrived.len(), len, "{what}: {kind:?}");
            assert!(arrived == bytes, "{what}: {kind:?}: wrong bytes");
        }
    }
}

#[test]
fn one_sink_of_any_kind_gets_every_byte_of_any_source() {
    let _watch = watch("one_sink_of_any_kind_gets_every_byte_of_any_source");
    for guarantee in BOTH {
        for source in SourceKind::ALL {
            for sink in SinkKind::ALL {
                for len in [0, 1, 4097, K64, K64 + 1, MIB + 1] {
                    assert_all_get_all(source, &[sink], len, guarantee);
                }
            }
        }
    }
}

#[test]
fn two_sinks_of_any_kinds_get_every_byte() {
    let _watch = watch("two_sinks_of_any_kinds_get_every_byte");
    for guarantee in BOTH {
        for (i, one) in SinkKind::ALL.into_iter().enumerate() {
            for (j, other) in SinkKind::ALL.into_iter().enumerate() {
                let source = SourceKind::ALL[(i + j) % 4];
                for len in [1, K64 + 1, MIB + 70_001] {
                    assert_all_get_all(source, &[one, other], len, guarantee);
                }
            }
        }
    }
}

#[test]
fn three_sinks_get_every_byte_at_every_size() {
    let _watch = watch("three_sinks_get_every_byte_at_every_size");
    for guarantee in BOTH {
        for source in SourceKind::ALL {
            for len in SIZES {
                for sinks in [
                    [SinkKind::Pipe, SinkKind::Fifo, SinkKind::Unix],
                    [SinkKind::Append, SinkKind::Pipe, SinkKind::File],
                ] {
                    assert_all_get_all(source, &sinks, len, guarantee);
                }
            }
        }
    }
}

#[test]
fn eight_sinks_in_any_order_get_every_byte() {
    let _watch = watch("eight_sinks_in_any_order_get_every_byte");
    let mut random = Random::new(17);
    for guarantee in BOTH {
        for source in SourceKind::ALL {
            for len in [4097, MIB / 2 + 1, 3 * MIB + 3] {
                let sinks: Vec<SinkKind> = (0..8)
                    .map(|_| SinkKind::ALL[random.up_to(SinkKind::ALL.len()) - 1])
                    .collect();
                assert_all_get_all(source, &sinks, len, guarantee);
            }
        }
    }
}

#[test]
fn without_sinks_nothing_is_taken() {
    for guarantee in BOTH {
        let file = stored(&first(1000));
        let report = Tee::<_, OwnedFd>::new(&file)
            .guarantee(guarantee)
            .run()
            .unwrap();
        assert_eq!((report.taken, report.ended), (0, Ended::AtEnd));
        assert_eq!((&file).stream_position().unwrap(), 0);
    }
}

/// A pipe that holds these bytes and has no writer any more.
fn filled(bytes: &[u8]) -> OwnedFd {
    let pipe = Pipe::new().unwrap();
    PipeEnd::of(&pipe.writer)
        .unwrap()
        .unwrap()
        .grow(bytes.len())
        .unwrap();
    File::from(pipe.writer).write_all(bytes).unwrap();
    pipe.reader
}

/// Reads to the end, on a thread of its own.
fn read_all(fd: OwnedFd) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        File::from(fd).read_to_end(&mut bytes).unwrap();
        bytes
    })
}

#[test]
fn a_sink_that_reads_nothing_lets_the_others_have_what_its_pipe_holds_and_the_rest_later() {
    let _watch = watch("a_sink_that_reads_nothing");
    let bytes = first(4 * MIB);
    for guarantee in BOTH {
        // The one that reads nothing is first, in the middle, and last.
        for slow in 0..3 {
            for size in [0, 256 * 1024, MIB] {
                let pipes: Vec<Pipe> = (0..3).map(|_| Pipe::new().unwrap()).collect();
                let (mut writers, mut readers) = (Vec::new(), Vec::new());
                for pipe in pipes {
                    writers.push(pipe.writer);
                    readers.push(pipe.reader);
                }
                let sleeper = readers.remove(slow);
                let source = stored(&bytes);
                let capacity = size.max(K64);
                let running = thread::spawn(move || {
                    let mut tee = Tee::new(source).guarantee(guarantee).pipe_size(size);
                    for writer in writers {
                        tee = tee.sink(writer, Policy::FAIL_ALL);
                    }
                    tee.run()
                });
                let mut got = vec![Vec::new(); 2];
                let mut files: Vec<File> = readers.into_iter().map(File::from).collect();
                for (file, got) in files.iter_mut().zip(&mut got) {
                    got.resize(capacity, 0);
                    file.read_exact(got).unwrap();
                }
                // Now all of them read.
                let rest: Vec<_> = files.into_iter().map(|f| read_all(f.into())).collect();
                assert!(read_all(sleeper).join().unwrap() == bytes);
                for (mut got, rest) in got.into_iter().zip(rest) {
                    got.extend(rest.join().unwrap());
                    assert!(got == bytes, "{guarantee:?}, {slow}, {size}");
                }
                assert_eq!(running.join().unwrap().unwrap().taken, bytes.len() as u64);
            }
        }
    }
}

#[test]
fn what_is_queued_ends_it_though_nobody_reads() {
    let _watch = watch("what_is_queued_ends_it_though_nobody_reads");
    for guarantee in BOTH {
        for sinks in 1..=3 {
            // As much as the sinks hold, to the byte, in one piece and in two.
            for len in [1, K64 - 1, K64] {
                let pipes: Vec<Pipe> = (0..sinks).map(|_| Pipe::new().unwrap()).collect();
                let source = filled(&first(len));
                let mut tee = Tee::new(&source).guarantee(guarantee).pipe_size(0);
                for pipe in &pipes {
                    tee = tee.sink(&pipe.writer, Policy::FAIL_ALL);
                }
                let report = tee.run().unwrap();
                assert_eq!((report.taken, report.ended), (len as u64, Ended::AtEnd));
                for pipe in pipes {
                    drop(pipe.writer);
                    assert!(read_all(pipe.reader).join().unwrap() == first(len));
                }
            }
        }
    }
}

#[test]
fn waiting_takes_no_cpu_time() {
    let _watch = watch("waiting_takes_no_cpu_time");
    let own_time = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    for guarantee in BOTH {
        // The limit is reached while the one that stops has not got all.
        for (kind, limit) in [(SourceKind::Pipe, u64::MAX), (SourceKind::File, 300_000)] {
            for kinds in [
                &[SinkKind::Unix, SinkKind::Pipe][..],
                &[SinkKind::Pipe, SinkKind::Unix],
                &[SinkKind::Unix, SinkKind::File],
                &[SinkKind::Pipe, SinkKind::Pipe],
                &[SinkKind::Unix, SinkKind::Pipe, SinkKind::Fifo],
                &[SinkKind::Pipe, SinkKind::Unix, SinkKind::File],
            ] {
                let what = format!("{guarantee:?} {limit} {kinds:?}");
                // The Unix socket, or the last pipe, is read by nobody for a while.
                let last = kinds.len() - 1;
                let stopped = kinds
                    .iter()
                    .position(|k| *k == SinkKind::Unix)
                    .unwrap_or(last);
                let (reader, writer): (OwnedFd, OwnedFd) = match kinds[stopped] {
                    SinkKind::Unix => {
                        let (reader, writer) = UnixStream::pair().unwrap();
                        (reader.into(), writer.into())
                    }
                    _ => {
                        let pipe = Pipe::new().unwrap();
                        (pipe.reader, pipe.writer)
                    }
                };
                let others: Vec<Target> = (0..kinds.len())
                    .filter(|&i| i != stopped)
                    .map(|i| Target::new(kinds[i]))
                    .collect();
                let mut fds: Vec<_> = others.iter().map(|other| other.as_fd()).collect();
                fds.insert(stopped, writer.as_fd());
                let len = 3 * MIB;
                let (source, bytes) = kind.open(len);
                let expected = len.min(usize::try_from(limit).unwrap());
                thread::scope(|scope| {
                    let running = scope.spawn(|| {
                        let before = own_time();
                        let mut tee = Tee::new(&source).guarantee(guarantee).limit(limit);
                        for fd in fds {
                            tee = tee.sink(fd, Policy::FAIL_ALL);
                        }
                        let report = tee.run();
                        (report, own_time() - before)
                    });
                    thread::sleep(Duration::from_millis(150));
                    let resumed = scope.spawn(|| {
                        let mut got = vec![0; expected];
                        File::from(reader).read_exact(&mut got).unwrap();
                        got
                    });
                    let (report, took) = running.join().unwrap();
                    assert_eq!(report.unwrap().taken, expected as u64, "{what}");
                    assert!(resumed.join().unwrap() == bytes[..expected], "{what}");
                    assert!(took < Duration::from_millis(75), "{what}: {took:?}");
                });
                for other in others {
                    assert!(other.arrived().unwrap() == bytes[..expected], "{what}");
                }
            }
        }
    }
}

#[test]
fn sinks_that_stop_and_go_on_get_every_byte_with_every_wait() {
    let _watch = watch("sinks_that_stop_and_go_on");
    const LEN: usize = 3 * MIB + 11;
    for guarantee in BOTH {
        for wait in ALL_WAITS {
            for readers in [
                [Reader::Quick, Reader::Bursty],
                [Reader::Bursty, Reader::Quick],
                [Reader::Resizing, Reader::Bursty],
                [Reader::Splicing, Reader::Teeing],
            ] {
                let (left, right) = (Pipe::new().unwrap(), Pipe::new().unwrap());
                let (source, _) = SourceKind::Pipe.open(LEN);
                let reading = [
                    readers[0].spawn(left.reader, Checker::of_the_stream()),
                    readers[1].spawn(right.reader, Checker::of_the_stream()),
                ];
                let report = Tee::new(source)
                    .guarantee(guarantee)
                    .wait(wait)
                    .sink(left.writer, Policy::FAIL_ALL)
                    .sink(right.writer, Policy::FAIL_ALL)
                    .run()
                    .unwrap();
                assert_eq!(report.taken, LEN as u64);
                for reading in reading {
                    assert_eq!(reading.join().unwrap(), LEN as u64, "{wait:?}");
                }
            }
        }
    }
}

#[test]
fn what_comes_between_a_look_and_a_sleep_is_seen() {
    let _watch = watch("what_comes_between_a_look_and_a_sleep_is_seen");
    for guarantee in BOTH {
        for kinds in [
            &[SinkKind::Null][..],
            &[SinkKind::Null, SinkKind::Full],
            &[SinkKind::Null, SinkKind::Pipe],
            &[SinkKind::Unix, SinkKind::Null],
        ] {
            let pipe = Pipe::new().unwrap();
            let len = 20_000;
            thread::spawn(move || {
                // Each byte comes just when all before it have been taken.
                for byte in first(len) {
                    while queued(&pipe.writer) > 0 {
                        std::hint::spin_loop();
                    }
                    rustix::io::write(&pipe.writer, &[byte]).unwrap();
                }
            });
            let targets: Vec<Target> = kinds.iter().map(|&kind| Target::new(kind)).collect();
            let mut tee = Tee::new(&pipe.reader).guarantee(guarantee);
            for target in &targets {
                tee = tee.sink(target.as_fd(), Policy::DROP);
            }
            assert_eq!(
                tee.run().unwrap().taken,
                len as u64,
                "{guarantee:?} {kinds:?}"
            );
            for target in targets.into_iter().filter(|t| t.kind != SinkKind::Full) {
                assert!(target.arrived().is_none_or(|arrived| arrived == first(len)));
            }
        }
    }
}

#[test]
fn a_reader_that_goes_after_the_last_byte_is_no_error() {
    let _watch = watch("a_reader_that_goes_after_the_last_byte_is_no_error");
    for guarantee in BOTH {
        for sinks in 1..=2 {
            for len in [1000, K64 + 1000] {
                let source = Pipe::new().unwrap();
                let pipes: Vec<Pipe> = (0..sinks).map(|_| Pipe::new().unwrap()).collect();
                let (writers, readers): (Vec<_>, Vec<_>) = pipes
                    .into_iter()
                    .map(|pipe| (pipe.writer, pipe.reader))
                    .unzip();
                thread::scope(|scope| {
                    let running = scope.spawn(|| {
                        let mut tee = Tee::new(&source.reader).guarantee(guarantee);
                        for writer in &writers {
                            tee = tee.sink(writer, Policy::FAIL_ALL);
                        }
                        tee.run()
                    });
                    let mut file = File::from(source.writer);
                    file.write_all(&first(len)).unwrap();
                    for reader in readers {
                        let mut got = vec![0; len];
                        File::from(reader).read_exact(&mut got).unwrap();
                        assert!(got == first(len));
                    }
                    // All of them are gone before the source ends.
                    drop(file);
                    let report = running.join().unwrap().unwrap();
                    assert_eq!((report.taken, report.ended), (len as u64, Ended::AtEnd));
                });
            }
        }
    }
}

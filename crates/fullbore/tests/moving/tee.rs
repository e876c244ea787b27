//! `Tee`: every sink that does not fail gets every byte, whatever happens to the others.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::common::targets::{SinkKind, SourceKind, Target, stored};
use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{Cancel, EndReason, Error, Pages, Pipe, Tee, TeeOptions, TransferSide};
use rustix::pipe::{IoSliceRaw, SpliceFlags};

const K64: usize = 64 * 1024;

/// Lengths around the sizes of pages, pipes, chunks and roomy pipes.
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

/// Runs a tee from such a source to such sinks, each of which must get every byte or be `/dev/full`.
#[track_caller]
fn assert_all_get_all(source: SourceKind, sinks: &[SinkKind], len: usize) {
    let what = format!("{len} bytes, {source:?} to {sinks:?}");
    let (fd, bytes) = source.open(len);
    let len = bytes.len();
    let targets: Vec<Target> = sinks.iter().map(|&kind| Target::new(kind)).collect();
    let mut options = TeeOptions::new();
    if source == SourceKind::Proc {
        options = options.limit(len as u64);
    }
    let named = targets.iter().map(|target| (target.as_fd(), Policy::DROP));
    let mut tee = options.open(&fd, named);
    let report = tee.run().unwrap_or_else(|e| panic!("{what}: {e}"));
    drop(tee);
    let only_full = sinks.iter().all(|&kind| kind == SinkKind::Full);
    if !only_full {
        assert_eq!(report.taken, len as u64, "{what}");
    }
    for (target, said) in targets.into_iter().zip(&report.sinks) {
        let kind = target.kind;
        if kind == SinkKind::Full && len > 0 {
            let error = said.error.as_ref().expect("it is full");
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{what}");
            assert!(!said.ignored && said.bytes == 0, "{what}");
            continue;
        }
        assert!(said.error.is_none(), "{what}: {kind:?}: {:?}", said.error);
        assert_eq!(said.bytes, len as u64, "{what}: {kind:?}");
        if let Some(arrived) = target.arrived(len) {
            assert_eq!(arrived.len(), len, "{what}: {kind:?}");
            assert!(arrived == bytes, "{what}: {kind:?}: wrong bytes");
        }
    }
}

#[test]
fn one_sink_of_any_kind_gets_every_byte_of_any_source() {
    let _watch = watch("one_sink_of_any_kind_gets_every_byte_of_any_source");
    for source in SourceKind::ALL {
        for sink in SinkKind::ALL {
            for len in [0, 1, 4097, K64, K64 + 1, MIB + 1] {
                assert_all_get_all(source, &[sink], len);
            }
        }
    }
}

#[test]
fn two_sinks_of_any_kinds_get_every_byte() {
    let _watch = watch("two_sinks_of_any_kinds_get_every_byte");
    for (i, one) in SinkKind::ALL.into_iter().enumerate() {
        for (j, other) in SinkKind::ALL.into_iter().enumerate() {
            let source = SourceKind::ALL[(i + j) % 4];
            for len in [1, K64 + 1, MIB + 70_001] {
                assert_all_get_all(source, &[one, other], len);
            }
        }
    }
}

#[test]
fn three_sinks_get_every_byte_at_every_size() {
    let _watch = watch("three_sinks_get_every_byte_at_every_size");
    for source in SourceKind::ALL {
        for len in SIZES {
            for sinks in [
                [SinkKind::Pipe, SinkKind::Fifo, SinkKind::Unix],
                [SinkKind::Append, SinkKind::Pipe, SinkKind::File],
            ] {
                assert_all_get_all(source, &sinks, len);
            }
        }
    }
}

#[test]
fn eight_sinks_in_any_order_get_every_byte() {
    let _watch = watch("eight_sinks_in_any_order_get_every_byte");
    let mut random = Random::new(17);
    for source in SourceKind::ALL {
        for len in [4097, MIB / 2 + 1, 3 * MIB + 3] {
            let sinks: Vec<SinkKind> = (0..8)
                .map(|_| SinkKind::ALL[random.up_to(SinkKind::ALL.len()) - 1])
                .collect();
            assert_all_get_all(source, &sinks, len);
        }
    }
}

#[test]
fn a_tee_without_sinks_is_refused_and_takes_nothing() {
    let file = stored(&first(1000));
    let refused = Tee::<_, OwnedFd>::new(&file, []).run();
    let refused = refused.unwrap_err();
    assert_eq!(refused.error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("at least one sink"));
    assert_eq!((&file).stream_position().unwrap(), 0);
}

/// Returns a pipe that holds these bytes and has no writer.
fn filled(bytes: &[u8]) -> OwnedFd {
    let pipe = Pipe::new().unwrap();
    fullbore_linux::pipe::of(&pipe.writer)
        .unwrap()
        .unwrap()
        .grow(bytes.len())
        .unwrap();
    File::from(pipe.writer).write_all(bytes).unwrap();
    pipe.reader
}

/// Reads to the end, on a separate thread.
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
    // The stalled sink is first, in the middle, and last.
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
                let mut tee = TeeOptions::new().pipe_size(size).open(
                    source,
                    writers.into_iter().map(|writer| (writer, Policy::FAIL_ALL)),
                );
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
                assert!(got == bytes, "{slow}, {size}");
            }
            assert_eq!(running.join().unwrap().unwrap().taken, bytes.len() as u64);
        }
    }
}

#[test]
fn a_tee_ends_when_its_sinks_hold_all_bytes_unread() {
    let _watch = watch("a_tee_ends_when_its_sinks_hold_all_bytes_unread");
    for sinks in 1..=3 {
        // Exactly as much as the sinks hold, in one piece and in two.
        for len in [1, K64 - 1, K64] {
            let pipes: Vec<Pipe> = (0..sinks).map(|_| Pipe::new().unwrap()).collect();
            let source = filled(&first(len));
            let mut tee = TeeOptions::new().pipe_size(0).open(
                &source,
                pipes.iter().map(|pipe| (&pipe.writer, Policy::FAIL_ALL)),
            );
            let report = tee.run().unwrap();
            drop(tee);
            assert_eq!((report.taken, report.ended), (len as u64, EndReason::AtEnd));
            for pipe in pipes {
                drop(pipe.writer);
                assert!(read_all(pipe.reader).join().unwrap() == first(len));
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
    // The limit is reached before the stalled sink has got everything.
    for (kind, limit) in [(SourceKind::Pipe, u64::MAX), (SourceKind::File, 300_000)] {
        for kinds in [
            &[SinkKind::Unix, SinkKind::Pipe][..],
            &[SinkKind::Pipe, SinkKind::Unix],
            &[SinkKind::Unix, SinkKind::File],
            &[SinkKind::Pipe, SinkKind::Pipe],
            &[SinkKind::Unix, SinkKind::Pipe, SinkKind::Fifo],
            &[SinkKind::Pipe, SinkKind::Unix, SinkKind::File],
        ] {
            let what = format!("{limit} {kinds:?}");
            let cpu_time = || {
                // The Unix socket, or the last pipe, is not read for a while.
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
                let took = thread::scope(|scope| {
                    let running = scope.spawn(|| {
                        let before = own_time();
                        let mut tee = TeeOptions::new()
                            .limit(limit)
                            .open(&source, fds.into_iter().map(|fd| (fd, Policy::FAIL_ALL)));
                        let report = tee.run();
                        drop(tee);
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
                    took
                });
                for other in others {
                    assert!(
                        other.arrived(expected).unwrap() == bytes[..expected],
                        "{what}"
                    );
                }
                took
            };
            assert_cheap(&what, Duration::from_millis(75), cpu_time);
        }
    }
}

#[test]
fn sinks_that_stop_and_go_on_get_every_byte_with_every_wait() {
    let _watch = watch("sinks_that_stop_and_go_on");
    const LEN: usize = 3 * MIB + 11;
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
            let report = TeeOptions::new()
                .wait(wait)
                .open(
                    source,
                    [
                        (left.writer, Policy::FAIL_ALL),
                        (right.writer, Policy::FAIL_ALL),
                    ],
                )
                .run()
                .unwrap();
            assert_eq!(report.taken, LEN as u64);
            for reading in reading {
                assert_eq!(reading.join().unwrap(), LEN as u64, "{wait:?}");
            }
        }
    }
}

#[test]
fn bytes_that_arrive_between_a_check_and_a_sleep_are_noticed() {
    let _watch = watch("bytes_that_arrive_between_a_check_and_a_sleep_are_noticed");
    for kinds in [
        &[SinkKind::Null][..],
        &[SinkKind::Null, SinkKind::Full],
        &[SinkKind::Null, SinkKind::Pipe],
        &[SinkKind::Unix, SinkKind::Null],
    ] {
        let pipe = Pipe::new().unwrap();
        let len = 20_000;
        thread::spawn(move || {
            // Each byte arrives just after all bytes before it have been taken.
            let end = fullbore_linux::pipe::of(&pipe.writer).unwrap().unwrap();
            for byte in first(len) {
                while end.queued().unwrap() > 0 {
                    std::hint::spin_loop();
                }
                rustix::io::write(&pipe.writer, &[byte]).unwrap();
            }
        });
        let targets: Vec<Target> = kinds.iter().map(|&kind| Target::new(kind)).collect();
        let mut tee = Tee::new(
            &pipe.reader,
            targets.iter().map(|target| (target.as_fd(), Policy::DROP)),
        );
        assert_eq!(tee.run().unwrap().taken, len as u64, "{kinds:?}");
        for target in targets.into_iter().filter(|t| t.kind != SinkKind::Full) {
            assert!(
                target
                    .arrived(len)
                    .is_none_or(|arrived| arrived == first(len))
            );
        }
    }
}

#[test]
fn a_reader_that_goes_after_the_last_byte_is_no_error() {
    let _watch = watch("a_reader_that_goes_after_the_last_byte_is_no_error");
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
                    let mut tee = Tee::new(
                        &source.reader,
                        writers.iter().map(|writer| (writer, Policy::FAIL_ALL)),
                    );
                    tee.run()
                });
                let mut file = File::from(source.writer);
                file.write_all(&first(len)).unwrap();
                for reader in readers {
                    let mut got = vec![0; len];
                    File::from(reader).read_exact(&mut got).unwrap();
                    assert!(got == first(len));
                }
                // All of them are closed before the source ends.
                drop(file);
                let report = running.join().unwrap().unwrap();
                assert_eq!((report.taken, report.ended), (len as u64, EndReason::AtEnd));
            });
        }
    }
}

#[test]
fn closed_readers_have_the_effect_of_their_policy() {
    let _watch = watch("closed_readers_have_the_effect_of_their_policy");
    const LEN: usize = 2 * MIB + 13;
    let mut random = Random::new(23);
    for round in 0..60 {
        let policies = [Policy::FAIL_ALL, Policy::DROP, Policy::IGNORE_CLOSED];
        let chosen: Vec<Policy> = (0..3).map(|_| policies[random.up_to(3) - 1]).collect();
        let goes_after: Vec<Option<usize>> = (0..3)
            .map(|_| (random.up_to(3) == 1).then(|| random.up_to(LEN / 4)))
            .collect();
        let what = format!("{chosen:?} {goes_after:?}");
        // Slots from a socket hold so much that all bytes would fit into the sinks.
        let (source, _) = [SourceKind::Pipe, SourceKind::File][round / 2 % 2].open(LEN);
        let pipes: Vec<Pipe> = (0..3).map(|_| Pipe::new().unwrap()).collect();
        let (mut sinks, mut reading) = (Vec::new(), Vec::new());
        for ((pipe, policy), goes) in pipes.into_iter().zip(&chosen).zip(&goes_after) {
            sinks.push((pipe.writer, *policy));
            let most = goes.map_or(u64::MAX, |most| most as u64);
            reading.push(thread::spawn(move || {
                let mut bytes = Vec::new();
                File::from(pipe.reader)
                    .take(most)
                    .read_to_end(&mut bytes)
                    .unwrap();
                bytes
            }));
        }
        let mut tee = Tee::new(&source, sinks);
        let outcome = tee.run();
        drop(tee);
        let (report, failed) = match outcome {
            Ok(report) => (report, None),
            Err(failure) => {
                let at = failure.sink.unwrap_or_else(|| panic!("{what}: {failure}"));
                assert_eq!(failure.report.ended, EndReason::Failed, "{what}");
                assert_eq!(failure.error.kind(), ErrorKind::BrokenPipe, "{what}");
                assert_eq!(chosen[at], Policy::FAIL_ALL, "{what}");
                assert!(goes_after[at].is_some(), "{what}");
                (*failure.report, Some(at))
            }
        };
        let must_fail = (0..3).any(|i| goes_after[i].is_some() && chosen[i] == Policy::FAIL_ALL);
        assert_eq!(must_fail, failed.is_some(), "{what}");
        for (i, reading) in reading.into_iter().enumerate() {
            let got = reading.join().unwrap();
            let said = &report.sinks[i];
            assert!(got == first(got.len()), "{what}: sink {i}");
            match goes_after[i] {
                None => {
                    assert_eq!(got.len() as u64, said.bytes, "{what}: sink {i}");
                    assert!(said.error.is_none(), "{what}: sink {i}");
                    if failed.is_none() {
                        let all_gone = goes_after.iter().all(Option::is_some);
                        assert!(all_gone || got.len() == LEN, "{what}: sink {i}");
                    }
                }
                Some(most) => {
                    assert!(said.bytes >= got.len() as u64, "{what}: sink {i}");
                    if failed.is_none() {
                        assert_eq!(got.len(), most, "{what}");
                        assert!(said.error.is_some(), "{what}: sink {i}");
                        let ignored = chosen[i] == Policy::IGNORE_CLOSED;
                        assert_eq!(said.ignored, ignored, "{what}: sink {i}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_tee_without_remaining_sinks_ends() {
    let _watch = watch("a_tee_without_remaining_sinks_ends");
    for policy in [Policy::DROP, Policy::IGNORE_CLOSED] {
        let (source, mut more) = {
            let pipe = Pipe::new().unwrap();
            (pipe.reader, File::from(pipe.writer))
        };
        more.write_all(&first(K64)).unwrap();
        let pipes: Vec<Pipe> = (0..2).map(|_| Pipe::new().unwrap()).collect();
        let mut tee = Tee::new(&source, pipes.into_iter().map(|pipe| (pipe.writer, policy)));
        // The source stays open, so only the sinks can end the tee.
        let report = tee.run().unwrap();
        drop(tee);
        assert_eq!(report.ended, EndReason::AtEnd);
        for sink in report.sinks {
            assert_eq!(sink.error.unwrap().kind(), ErrorKind::BrokenPipe);
            assert_eq!(sink.bytes, 0);
        }
    }
}

#[test]
fn a_full_disk_is_what_the_policy_says() {
    let _watch = watch("a_full_disk_is_what_the_policy_says");
    const LEN: usize = MIB + 5;
    for source in SourceKind::ALL {
        for policy in [Policy::DROP, Policy::IGNORE_CLOSED, Policy::FAIL_ALL] {
            for full_first in [true, false] {
                let what = format!("{source:?} {policy:?} {full_first}");
                let (fd, bytes) = source.open(LEN);
                let full = Target::new(SinkKind::Full);
                let pipe = Target::new(SinkKind::Pipe);
                let order = if full_first {
                    [&full, &pipe]
                } else {
                    [&pipe, &full]
                };
                let sinks = order.map(|target| (target.as_fd(), policy));
                let mut tee = TeeOptions::new().limit(LEN as u64).open(&fd, sinks);
                let at = usize::from(!full_first);
                let outcome = tee.run();
                drop(tee);
                let arrived = pipe.arrived(0).unwrap();
                assert!(arrived == bytes[..arrived.len()], "{what}");
                match outcome {
                    Ok(report) => {
                        assert_ne!(policy, Policy::FAIL_ALL, "{what}");
                        let said = &report.sinks[at];
                        let error = said.error.as_ref().unwrap();
                        assert_eq!(error.kind(), ErrorKind::StorageFull, "{what}");
                        assert!(!said.ignored, "{what}");
                        assert_eq!(arrived.len(), bytes.len(), "{what}");
                    }
                    Err(failure) => {
                        assert_eq!(policy, Policy::FAIL_ALL, "{what}");
                        assert_eq!(failure.sink, Some(at), "{what}");
                        assert_eq!(failure.error.kind(), ErrorKind::StorageFull);
                        let said = failure.report.sinks[1 - at].bytes;
                        assert_eq!(said, arrived.len() as u64, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_failure_says_how_many_bytes_are_gone_from_the_source() {
    let file = stored(&first(MIB));
    let full = Target::new(SinkKind::Full);
    let failure = Tee::new(&file, [(full.as_fd(), Policy::FAIL_ALL)])
        .run()
        .unwrap_err();
    let at = (&file).stream_position().unwrap();
    assert_eq!(failure.report.taken, at, "");
    assert!(matches!(
        failure.error,
        Error::Moving {
            side: TransferSide::Sink,
            moved: 0,
            ..
        }
    ));
}

#[test]
fn a_limit_is_kept_to_the_byte_and_leaves_the_rest() {
    let _watch = watch("a_limit_is_kept_to_the_byte_and_leaves_the_rest");
    for kind in [
        SourceKind::Pipe,
        SourceKind::File,
        SourceKind::Unix,
        SourceKind::Tcp,
    ] {
        for limit in [0, 1, 4096, K64 + 1, MIB + 1] {
            let what = format!("{kind:?} {limit}");
            let (source, bytes) = kind.open(2 * MIB);
            let targets = [Target::new(SinkKind::Pipe), Target::new(SinkKind::File)];
            let mut tee = TeeOptions::new().limit(limit as u64).open(
                &source,
                targets
                    .iter()
                    .map(|target| (target.as_fd(), Policy::FAIL_ALL)),
            );
            let report = tee.run().unwrap();
            drop(tee);
            assert_eq!(report.ended, EndReason::AtLimit, "{what}");
            assert_eq!(report.taken, limit as u64, "{what}");
            for target in targets {
                assert!(target.arrived(limit).unwrap() == bytes[..limit], "{what}");
            }
            let rest = read_all(source).join().unwrap();
            assert!(rest == bytes[limit..], "{what}");
        }
    }
}

#[test]
fn cancelling_ends_every_wait() {
    let _watch = watch("cancelling_ends_every_wait");
    for wait in ALL_WAITS {
        // During a wait for the source, and during one for a sink.
        for len in [0, 4 * MIB] {
            let source = Pipe::new().unwrap();
            let sinks = [Pipe::new().unwrap(), Pipe::new().unwrap()];
            let cancel = Cancel::new().unwrap();
            thread::scope(|scope| {
                let running = scope.spawn(|| {
                    let mut tee = TeeOptions::new().wait(wait).cancel(&cancel).open(
                        &source.reader,
                        sinks.iter().map(|sink| (&sink.writer, Policy::FAIL_ALL)),
                    );
                    tee.run().unwrap()
                });
                let sender = source.writer.try_clone().unwrap();
                let bytes = first(len);
                thread::spawn(move || {
                    // The stream is not read to its end.
                    let _ = File::from(sender).write_all(&bytes);
                });
                thread::sleep(Duration::from_millis(30));
                cancel.cancel();
                let report = running.join().unwrap();
                assert_eq!(report.ended, EndReason::Cancelled, "{wait:?}");
                for (sink, said) in sinks.iter().zip(&report.sinks) {
                    assert_eq!(queued(&sink.reader) as u64, said.bytes);
                }
            });
        }
    }
}

#[test]
fn a_sink_that_is_the_source_is_refused_and_nothing_is_changed() {
    let pipe = Pipe::new().unwrap();
    let other = Pipe::new().unwrap();
    rustix::io::write(&pipe.writer, b"abc").unwrap();
    let failure = Tee::new(
        &pipe.reader,
        [(&other.writer, Policy::DROP), (&pipe.writer, Policy::DROP)],
    )
    .run()
    .unwrap_err();
    assert!(matches!(failure.error, Error::Invalid(_)), "{failure}");
    assert_eq!((queued(&pipe.reader), queued(&other.reader)), (3, 0));

    let named = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(named.path(), b"abc").unwrap();
    let again = File::options().append(true).open(named.path()).unwrap();
    let failure = Tee::new(named.as_file(), [(again, Policy::DROP)])
        .run()
        .unwrap_err();
    assert!(matches!(failure.error, Error::Invalid(_)), "{failure}");
    assert_eq!(std::fs::read(named.path()).unwrap(), b"abc");
}

#[test]
fn a_chunk_of_nothing_is_refused_and_one_of_a_byte_is_not() {
    let file = stored(b"abc");
    let sink = tempfile::tempfile().unwrap();
    let refused = TeeOptions::new()
        .chunk(0)
        .open(&file, [(&sink, Policy::DROP)])
        .run();
    assert!(matches!(refused.unwrap_err().error, Error::Invalid(_)));
    let (source, bytes) = SourceKind::Pipe.open(70_000);
    let targets = [Target::new(SinkKind::Pipe), Target::new(SinkKind::Unix)];
    let mut tee = TeeOptions::new().chunk(1000).open(
        &source,
        targets
            .iter()
            .map(|target| (target.as_fd(), Policy::FAIL_ALL)),
    );
    assert_eq!(tee.run().unwrap().taken, 70_000);
    for target in targets {
        assert!(target.arrived(bytes.len()).unwrap() == bytes);
    }
}

#[test]
fn the_same_pipe_twice_gets_every_byte_twice() {
    let _watch = watch("the_same_pipe_twice_gets_every_byte_twice");
    for len in [100, K64, 2 * MIB] {
        let (source, bytes) = SourceKind::Pipe.open(len);
        let pipe = Pipe::new().unwrap();
        let reading = read_all(pipe.reader);
        let report = Tee::new(
            &source,
            [
                (&pipe.writer, Policy::FAIL_ALL),
                (&pipe.writer, Policy::FAIL_ALL),
            ],
        )
        .run()
        .unwrap();
        drop(pipe.writer);
        let got = reading.join().unwrap();
        assert_eq!(got.len(), 2 * len);
        assert!(report.sinks.iter().all(|sink| sink.bytes == len as u64));
        if len == 100 {
            assert!(got == [bytes, bytes].concat(), "");
        }
    }
}

#[test]
fn descriptors_that_do_not_block_lose_nothing() {
    let _watch = watch("descriptors_that_do_not_block_lose_nothing");
    for wait in ALL_WAITS {
        for kinds in [
            [SinkKind::Pipe, SinkKind::Unix],
            [SinkKind::Tcp, SinkKind::Pty],
            [SinkKind::File, SinkKind::Fifo],
        ] {
            for kind in SourceKind::ALL {
                let len = MIB + 3;
                let (source, bytes) = kind.open(len);
                set_nonblocking(&source);
                let targets = kinds.map(Target::new);
                let sinks = targets.each_ref().map(|target| {
                    set_nonblocking(target);
                    (target.as_fd(), Policy::FAIL_ALL)
                });
                let options = TeeOptions::new().wait(wait).limit(len as u64);
                let mut tee = options.open(&source, sinks);
                let report = tee.run();
                drop(tee);
                let what = format!("{wait:?} {kind:?} {kinds:?}");
                let report = report.unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(report.taken, bytes.len() as u64, "{what}");
                for target in targets {
                    assert!(target.arrived(bytes.len()).unwrap() == bytes, "{what}");
                }
            }
        }
    }
}

/// Sends words that contain their position by vmsplice(2), from two halves of a buffer in turn, each as large as the
/// pipe: right for a reader that copies.
fn double_buffering(sink: OwnedFd, half: usize, halves: usize) {
    fullbore_linux::pipe::of(&sink)
        .unwrap()
        .unwrap()
        .resize(half)
        .unwrap();
    let mut buffer = Pages::new(2 * half).unwrap();
    for i in 0..halves {
        let start = i % 2 * half;
        let words = &mut buffer[start..start + half];
        for (j, word) in words.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&((i * half / 8 + j) as u64).to_le_bytes());
        }
        let mut rest: &[u8] = words;
        while !rest.is_empty() {
            // SAFETY: the test intends that pages are written to again while a pipe may refer to them; all values of
            // the words are valid.
            let n = unsafe {
                let slice = [IoSliceRaw::from_slice(rest)];
                rustix::pipe::vmsplice(&sink, &slice, SpliceFlags::empty()).unwrap()
            };
            rest = &rest[n..];
        }
    }
    while queued(&sink) > 0 {
        thread::yield_now();
    }
}

/// Returns how many words are not at their position.
fn misplaced(bytes: &[u8]) -> usize {
    let words = bytes
        .chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().unwrap()));
    words
        .enumerate()
        .filter(|&(i, word)| i as u64 != word)
        .count()
}

#[test]
fn behind_a_producer_that_uses_its_pages_again_every_byte_is_right() {
    let _watch = watch("behind_a_producer_that_uses_its_pages_again");
    const HALF: usize = 128 * 1024;
    // No more than the sinks hold: the readers start only after everything has been sent.
    const HALVES: usize = MIB / HALF;
    let source = Pipe::new().unwrap();
    let sinks: Vec<Pipe> = (0..3).map(|_| Pipe::new().unwrap()).collect();
    for sink in &sinks {
        let grown = fullbore_linux::pipe::of(&sink.writer)
            .unwrap()
            .unwrap()
            .grow(MIB);
        assert_eq!(grown.unwrap().after, MIB);
    }
    let sending = thread::spawn(move || double_buffering(source.writer, HALF, HALVES));
    let mut readers = Vec::new();
    let sinks = sinks.into_iter().map(|sink| {
        readers.push(sink.reader);
        (sink.writer, Policy::FAIL_ALL)
    });
    let mut tee = Tee::new(&source.reader, sinks);
    let report = tee.run().unwrap();
    // The readers wait until no writer is left.
    drop(tee);
    assert_eq!(report.taken as usize, HALF * HALVES);
    sending.join().unwrap();
    for reader in readers {
        let got = read_all(reader).join().unwrap();
        assert_eq!(got.len(), HALF * HALVES);
        assert_eq!(misplaced(&got), 0);
    }
}

#[test]
fn the_master_of_a_pseudo_terminal_gets_its_bytes() {
    let _watch = watch("the_master_of_a_pseudo_terminal_gets_its_bytes");
    let Some((master, slave)) = raw_pty() else {
        return;
    };
    let pipe = Pipe::new().unwrap();
    rustix::io::write(&pipe.writer, b"typed").unwrap();
    drop(pipe.writer);
    let report = Tee::new(pipe.reader.as_fd(), [(master.as_fd(), Policy::FAIL_ALL)])
        .run()
        .unwrap();
    assert_eq!(report.sinks[0].bytes, 5);
    let mut got = [0; 5];
    File::from(slave).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"typed");
}

#[test]
fn repeated_signals_do_not_end_a_tee() {
    let _watch = watch("repeated_signals_do_not_end_a_tee");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let feeding = thread::spawn(move || {
        let mut writer = File::from(source.writer);
        for _ in 0..200 {
            writer.write_all(&[7; 1000]).unwrap();
            thread::sleep(Duration::from_micros(500));
        }
    });
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        File::from(sink.reader).read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    let report = thread::spawn(move || {
        let _storm = Storm::over_this_thread();
        Tee::new(
            source.reader.as_fd(),
            [(sink.writer.as_fd(), Policy::FAIL_ALL)],
        )
        .run()
        .unwrap()
    })
    .join()
    .unwrap();
    feeding.join().unwrap();
    assert_eq!(report.taken, 200_000);
    assert_eq!(reading.join().unwrap(), 200_000);
}

#[test]
fn a_tee_continues_up_to_a_higher_limit() {
    let _watch = watch("a_tee_continues_up_to_a_higher_limit");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    File::from(source.writer).write_all(&first(100)).unwrap();
    let mut tee = TeeOptions::new()
        .limit(5)
        .open(&source.reader, [(&sink.writer, Policy::FAIL_ALL)]);
    assert_eq!(tee.run().unwrap().ended, EndReason::AtLimit);
    tee.set_limit(100);
    let report = tee.run().unwrap();
    assert_eq!((report.taken, report.sinks.len()), (100, 1));
    assert_eq!(queued(&sink.writer), 100);
}

#[test]
fn what_some_sinks_lack_is_given_back_with_the_ends() {
    let _watch = watch("what_some_sinks_lack_is_given_back_with_the_ends");
    let source = stored(&first(300_000));
    let (full, roomy) = (Pipe::new().unwrap(), tempfile::tempfile().unwrap());
    let sinks = [
        (full.writer.as_fd(), Policy::FAIL_ALL),
        (roomy.as_fd(), Policy::DROP),
    ];
    let mut tee = TeeOptions::new()
        .nonblocking(true)
        .pipe_size(0)
        .open(&source, sinks);
    let report = tee.run().unwrap();
    assert_eq!(report.ended, EndReason::WouldBlock(TransferSide::Sink));
    assert!(report.sinks[0].would_block && report.sinks[0].bytes < report.taken);
    let (_, sinks) = tee.into_parts().unwrap();
    let [(_, lacks), (_, has_all)] = &sinks[..] else {
        panic!("{} sinks", sinks.len());
    };
    let arrived = report.sinks[0].bytes as usize;
    assert!(*lacks == first(report.taken as usize)[arrived..]);
    assert!(has_all.is_empty());
}

#[test]
fn the_callback_gets_every_step_and_may_break_off() {
    let _watch = watch("the_callback_gets_every_step_and_may_break_off");
    let bytes = first(MIB + 70_001);
    let (mut one, mut other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let source = stored(&bytes);
    let sinks = [
        (one.as_fd(), Policy::FAIL_ALL),
        (other.as_fd(), Policy::DROP),
    ];
    let mut tee = TeeOptions::new().chunk(K64).open(&source, sinks);
    let (mut sum, mut broken) = (0, 0);
    loop {
        let report = tee.run_with(|step| {
            sum += step;
            ControlFlow::Break(())
        });
        let report = report.unwrap();
        assert_eq!(report.taken, sum);
        assert!(report.sinks.iter().all(|sink| sink.bytes == sum));
        match report.ended {
            EndReason::Cancelled => broken += 1,
            ended => break assert_eq!(ended, EndReason::AtEnd),
        }
    }
    assert!(broken > 1 && sum == bytes.len() as u64);
    drop(tee);
    for file in [&mut one, &mut other] {
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        assert!(all == bytes);
    }
}

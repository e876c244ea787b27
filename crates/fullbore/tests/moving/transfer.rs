//! `Transfer`: from any fd to any other, with every option, the same bytes come out, and both fds are left at the right
//! position.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::calls::judging;
use crate::common::ends::{
    From, PROC_FILE, SINKS, SOURCES, Sink, Source, To, content, fifo, memfd, proc_file, same_bytes,
    sleep_until_ready, tcp_pair,
};
use crate::common::*;
use fullbore::{
    Cancel, EndReason, Error, Guarantee, Pipe, PipeEnd, Transfer, TransferFailure, TransferOptions,
    TransferReport, TransferSide, Wait,
};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

const GUARANTEES: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

/// Lengths around every size at which the behaviour changes: pages, the initial copies, chunks, pipes.
const SIZES: [usize; 19] = [
    0,
    1,
    4095,
    4096,
    4097,
    32 * 1024 - 1,
    32 * 1024 + 1,
    64 * 1024 - 1,
    64 * 1024,
    64 * 1024 + 1,
    512 * 1024 - 1,
    512 * 1024,
    512 * 1024 + 1,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB - 1,
    2 * MIB + 1,
    5 * MIB + 3,
];

/// A few of them, enough to test an option.
const FEW_SIZES: [usize; 4] = [0, 1, 64 * 1024 + 1, MIB + 1];

/// The length for terminals and files of procfs, which are slow.
const SLOW: usize = 64 * 1024 + 1;

type Borrowed<'a> = Transfer<&'a OwnedFd, &'a OwnedFd>;

/// Moves `len` bytes from one kind to another; `run` sets options and runs the transfer to its end.
#[track_caller]
fn moved(
    from: From,
    to: To,
    len: usize,
    what: &str,
    run: impl FnOnce(TransferOptions, &Source, &Sink) -> TransferReport,
) {
    let slow = from == From::Terminal || to == To::Terminal || from == From::Proc;
    if slow && len > SLOW {
        return;
    }
    let (Some(source), Some(sink)) = (from.open(len), to.open()) else {
        return;
    };
    let what = format!("{from:?} → {to:?}, {len} bytes, {what}");
    let capacity = capacity(&source.fd);
    let mut options = TransferOptions::new();
    if source.endless {
        options = options.limit(source.expected.len() as u64);
    }
    let report = run(options, &source, &sink);
    let len = source.expected.len() as u64;
    let ended = if source.endless {
        EndReason::AtLimit
    } else {
        EndReason::AtEnd
    };
    assert_eq!(report.ended, ended, "{what}");
    assert_eq!((report.bytes, report.taken), (len, len), "{what}");
    let by_ways: u64 = report.ways.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(by_ways, len, "{what}: {:?}", report.ways);
    assert_eq!(self::capacity(&source.fd), capacity, "source pipe: {what}");
    if let Ok(position) = rustix::fs::tell(&source.fd)
        && from != From::Zero
    {
        assert_eq!(position, len, "position of the source: {what}");
    }
    sink.close_and_compare(source.expected, &what);
    source.close();
}

fn all(options: TransferOptions, source: &Source, sink: &Sink) -> TransferReport {
    options.open(&source.fd, &sink.fd).run().unwrap()
}

fn capacity(fd: &OwnedFd) -> Option<usize> {
    Some(PipeEnd::new(fd.as_fd()).ok()?.capacity().unwrap())
}

fn every_pair(mut each: impl FnMut(From, To, Guarantee)) {
    for from in SOURCES {
        for to in SINKS {
            for guarantee in GUARANTEES {
                each(from, to, guarantee);
            }
        }
    }
}

/// Runs until it would no longer wait, and waits in between as a caller would.
fn driven(mut transfer: Borrowed<'_>, source: &Source, sink: &Sink) -> TransferReport {
    loop {
        let report = transfer.run().unwrap();
        match report.ended {
            EndReason::WouldBlock(TransferSide::Source) => {
                sleep_until_ready(source.fd.as_fd(), PollFlags::IN)
            }
            EndReason::WouldBlock(TransferSide::Sink) => {
                sleep_until_ready(sink.fd.as_fd(), PollFlags::OUT)
            }
            _ => return report,
        }
    }
}

#[test]
fn what_was_read_ahead_comes_first_whatever_the_kinds() {
    let _watch = watch("what_was_read_ahead_comes_first_whatever_the_kinds");
    every_pair(|from, to, guarantee| {
        if matches!(from, From::Terminal | From::Proc) || to == To::Terminal {
            return;
        }
        for (len, ahead) in [(MIB + 1, 100), (MIB + 1, 200_000), (5000, 5000)] {
            let (Some(source), Some(sink)) = (from.open(len), to.open()) else {
                return;
            };
            let mut first = vec![0; ahead];
            let mut read = 0;
            while read < ahead {
                match rustix::io::read(&source.fd, &mut first[read..]) {
                    Ok(n) => read += n,
                    Err(Errno::AGAIN) => sleep_until_ready(source.fd.as_fd(), PollFlags::IN),
                    Err(errno) => panic!("{errno}"),
                }
            }
            let expected = source.expected;
            let mut transfer = TransferOptions::new()
                .guarantee(guarantee)
                .after(first)
                .open(&source.fd, &sink.fd);
            if source.endless {
                transfer.set_limit(expected.len() as u64);
            }
            let report = transfer.run().unwrap();
            let what = format!("{from:?} → {to:?}, {ahead} of {len} bytes ahead");
            assert_eq!(report.bytes, expected.len() as u64, "{what}");
            sink.close_and_compare(expected, &what);
            source.close();
        }
    });
}

#[test]
fn a_pipe_size_beyond_all_limits_is_as_much_as_there_may_be() {
    let bytes = &content()[..3 * MIB];
    let read = |reader: OwnedFd| {
        thread::spawn(move || {
            let mut all = Vec::new();
            File::from(reader).read_to_end(&mut all).unwrap();
            all
        })
    };
    let mut source = memfd();
    source.write_all(bytes).unwrap();
    for guarantee in GUARANTEES {
        for by_tee in [false, true] {
            source.rewind().unwrap();
            let pipe = Pipe::new().unwrap();
            let reading = read(pipe.reader);
            if by_tee {
                let sinks = [(&pipe.writer, fullbore::tee::Policy::FAIL_ALL)];
                let options = fullbore::TeeOptions::new().pipe_size(usize::MAX);
                options.open(&source, sinks).run().unwrap();
            } else {
                let options = TransferOptions::new().guarantee(guarantee);
                let options = options.pipe_size(usize::MAX);
                options.open(&source, &pipe.writer).run().unwrap();
            }
            drop(pipe.writer);
            assert!(reading.join().unwrap() == bytes, "{guarantee:?} {by_tee}");
        }
    }
    let pipe = Pipe::new().unwrap();
    let reading = read(pipe.reader);
    let options = fullbore::ProducerOptions::new().pipe_size(usize::MAX);
    let mut producer = options.open(pipe.writer).unwrap();
    producer.write_all(bytes).unwrap();
    producer.finish().unwrap();
    assert!(reading.join().unwrap() == bytes, "a producer");
    let pipe = Pipe::new().unwrap();
    let end = PipeEnd::new(pipe.writer.as_fd()).unwrap();
    assert!(end.resize(usize::MAX).is_err());
    assert!(end.grow(usize::MAX).unwrap().limit.is_some());
    assert!(fullbore_linux::pipe::with_capacity(usize::MAX).is_ok());
}

#[test]
fn what_was_read_ahead_and_has_not_arrived_is_given_back() {
    let pipe = Pipe::new().unwrap();
    let mut file = memfd();
    file.write_all(b"the rest").unwrap();
    file.rewind().unwrap();
    let ahead = || TransferOptions::new().after(*b"ahead, ");
    let open = |options: TransferOptions| options.open(&file, &pipe.writer);
    assert_eq!(open(ahead()).into_parts().unwrap().2, b"ahead, ");
    let refused = open(ahead().limit(6)).run().unwrap_err();
    assert!(matches!(refused.error, Error::Invalid(_)), "{refused}");
    let stopped = Cancel::new().unwrap();
    stopped.cancel();
    let mut transfer = open(ahead().cancel(&stopped));
    let report = transfer.run().unwrap();
    assert_eq!((report.taken, report.bytes), (7, 0));
    assert_eq!(transfer.into_parts().unwrap().2, b"ahead, ");
    let report = open(ahead().limit(10)).run().unwrap();
    assert_eq!((report.taken, report.bytes), (10, 10));
    let mut got = [0; 10];
    File::from(pipe.reader).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"ahead, the");
}

#[test]
fn every_kind_moves_to_every_kind_as_a_snapshot() {
    let _watch = watch("every_kind_moves_to_every_kind_as_a_snapshot");
    every_pair(|from, to, guarantee| {
        for len in SIZES
            .into_iter()
            .filter(|_| guarantee == Guarantee::Snapshot)
        {
            moved(from, to, len, "snapshot", |t, source, sink| {
                all(t, source, sink)
            });
        }
    });
}

#[test]
fn every_kind_moves_to_every_kind_by_reference() {
    let _watch = watch("every_kind_moves_to_every_kind_by_reference");
    every_pair(|from, to, guarantee| {
        for len in SIZES
            .into_iter()
            .filter(|_| guarantee == Guarantee::Reference)
        {
            moved(from, to, len, "reference", |t, source, sink| {
                all(t.guarantee(guarantee), source, sink)
            });
        }
    });
}

#[test]
fn o_nonblock_set_by_another_program_has_no_effect() {
    let _watch = watch("o_nonblock_set_by_another_program_has_no_effect");
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            for (at_source, at_sink) in [(true, false), (false, true), (true, true)] {
                let what = format!("{guarantee:?}, O_NONBLOCK on {at_source}, {at_sink}");
                moved(from, to, len, &what, |t, source, sink| {
                    if at_source {
                        set_nonblocking(&source.fd);
                    }
                    if at_sink {
                        set_nonblocking(&sink.fd);
                    }
                    all(t.guarantee(guarantee), source, sink)
                });
            }
        }
    });
}

#[test]
fn whatever_the_wait_and_with_a_cancel_the_same_bytes_come_out() {
    let _watch = watch("whatever_the_wait_and_with_a_cancel_the_same_bytes_come_out");
    let cancel = Cancel::new().unwrap();
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            for wait in [Wait::Poll, Wait::Adaptive] {
                moved(
                    from,
                    to,
                    len,
                    &format!("{guarantee:?}, {wait:?}"),
                    |t, source, sink| all(t.guarantee(guarantee).wait(wait), source, sink),
                );
            }
            moved(
                from,
                to,
                len,
                &format!("{guarantee:?}, cancel"),
                |t, source, sink| all(t.guarantee(guarantee).cancel(&cancel), source, sink),
            );
        }
        let len = MIB + 1;
        moved(
            from,
            to,
            len,
            &format!("{guarantee:?}, spin"),
            |t, source, sink| all(t.guarantee(guarantee).wait(Wait::Spin), source, sink),
        );
    });
}

#[test]
fn a_caller_that_never_waits_gets_every_byte_once() {
    let _watch = watch("a_caller_that_never_waits_gets_every_byte_once");
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            for nonblocking_fds in [false, true] {
                let what = format!("{guarantee:?}, never waiting, fds {nonblocking_fds}");
                moved(from, to, len, &what, |t, source, sink| {
                    if nonblocking_fds {
                        set_nonblocking(&source.fd);
                        set_nonblocking(&sink.fd);
                    }
                    let options = t.guarantee(guarantee).nonblocking(true);
                    driven(options.open(&source.fd, &sink.fd), source, sink)
                });
            }
        }
    });
}

#[test]
fn visible_bytes_are_the_bytes_moved() {
    let _watch = watch("visible_bytes_are_the_bytes_moved");
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            moved(from, to, len, "in sight", |t, source, sink| {
                let mut shown = Vec::new();
                let report = t
                    .guarantee(guarantee)
                    .visible(true)
                    .open(&source.fd, &sink.fd)
                    .run_with(|progress| {
                        assert_eq!(progress.step, progress.seen.len() as u64);
                        shown.extend_from_slice(progress.seen);
                        assert_eq!(progress.bytes, shown.len() as u64);
                        std::ops::ControlFlow::Continue(())
                    })
                    .unwrap();
                same_bytes(&shown, source.expected, "in sight");
                report
            });
        }
    });
}

#[test]
fn a_transfer_goes_on_after_a_panic_of_the_callback() {
    let _watch = watch("a_transfer_goes_on_after_a_panic_of_the_callback");
    let (file, sink) = (targets::stored(&first(10_000)), Pipe::new().unwrap());
    let mut transfer = TransferOptions::new()
        .visible(true)
        .open(&file, &sink.writer);
    let run = AssertUnwindSafe(|| transfer.run_with(|_| panic!("of the callback")).map(drop));
    assert!(catch_unwind(run).is_err());
    let report = transfer.run().unwrap();
    assert_eq!((report.bytes, report.ended), (10_000, EndReason::AtEnd));
    drop(sink.writer);
    let read = Reader::Quick.drain(sink.reader, Checker::of_the_stream());
    assert_eq!(read, 10_000);
}

#[test]
fn small_chunks_move_the_same_bytes() {
    let _watch = watch("small_chunks_move_the_same_bytes");
    every_pair(|from, to, guarantee| {
        for (len, chunk) in [(10_000, 7), (200_000, 4096), (MIB + 1, 70_001)] {
            moved(
                from,
                to,
                len,
                &format!("{guarantee:?}, chunk {chunk}"),
                |t, source, sink| all(t.guarantee(guarantee).chunk(chunk), source, sink),
            );
        }
    });
}

#[test]
fn not_one_byte_more_than_the_limit_is_taken() {
    let _watch = watch("not_one_byte_more_than_the_limit_is_taken");
    for from in SOURCES {
        for to in SINKS {
            for guarantee in GUARANTEES {
                for limit in [0, 1, 5000, 64 * 1024, 64 * 1024 + 1, 300_000] {
                    take_up_to(from, to, guarantee, limit);
                }
            }
        }
    }
}

#[track_caller]
fn take_up_to(from: From, to: To, guarantee: Guarantee, limit: usize) {
    const MORE: usize = 100;
    let slow = from == From::Terminal || to == To::Terminal || from == From::Proc;
    if slow && limit > SLOW {
        return;
    }
    let (Some(mut source), Some(sink)) = (from.open(limit + MORE), to.open()) else {
        return;
    };
    let what = format!("{from:?} → {to:?}, {guarantee:?}, limit {limit}");
    let report = TransferOptions::new()
        .guarantee(guarantee)
        .limit(limit as u64)
        .open(&source.fd, &sink.fd)
        .run()
        .unwrap();
    assert_eq!(report.ended, EndReason::AtLimit, "{what}");
    let len = limit as u64;
    assert_eq!((report.bytes, report.taken), (len, len), "{what}");
    let mut rest = vec![0; source.expected.len() - limit];
    let mut reading = File::from(source.fd.try_clone().unwrap());
    reading.read_exact(&mut rest).unwrap();
    same_bytes(&rest, &source.expected[limit..], &what);
    source.expected = &source.expected[..limit];
    sink.close_and_compare(source.expected, &what);
    drop(reading);
    source.close();
}

#[test]
fn offsets_leave_the_positions_alone() {
    let _watch = watch("offsets_leave_the_positions_alone");
    const AT: usize = 70_003;
    for from in [From::File, From::Memfd, From::Proc, From::Block] {
        for to in SINKS {
            for guarantee in GUARANTEES {
                for len in [0, 1, 5000, 64 * 1024 + 1, MIB + 1] {
                    if from == From::Proc && len > SLOW {
                        continue;
                    }
                    let (Some(source), Some(sink)) = (from.open(AT + len), to.open()) else {
                        continue;
                    };
                    let what = format!("{from:?} → {to:?}, {guarantee:?}, {len} bytes");
                    let report = TransferOptions::new()
                        .guarantee(guarantee)
                        .source_offset(AT as u64)
                        .limit(len as u64)
                        .open(&source.fd, &sink.fd)
                        .run()
                        .unwrap();
                    assert_eq!(report.bytes, len as u64, "{what}");
                    assert_eq!(rustix::fs::tell(&source.fd).unwrap(), 0, "{what}");
                    sink.close_and_compare(&source.expected[AT..], &what);
                    source.close();
                }
            }
        }
    }
    for from in SOURCES {
        for to in [To::File, To::Memfd, To::Block] {
            for guarantee in GUARANTEES {
                for len in [0, 1, 5000, 64 * 1024 + 1, MIB + 1] {
                    write_at(from, to, guarantee, len, AT as u64);
                }
            }
        }
    }
}

#[track_caller]
fn write_at(from: From, to: To, guarantee: Guarantee, len: usize, at: u64) {
    let slow = from == From::Terminal || from == From::Proc;
    if slow && len > SLOW {
        return;
    }
    let (Some(source), Some(sink)) = (from.open(len), to.open()) else {
        return;
    };
    let what = format!("{from:?} → {to:?} at an offset, {guarantee:?}, {len} bytes");
    let report = TransferOptions::new()
        .guarantee(guarantee)
        .sink_offset(at)
        .limit(len as u64)
        .open(&source.fd, &sink.fd)
        .run()
        .unwrap();
    assert_eq!(report.bytes, len as u64, "{what}");
    assert_eq!(rustix::fs::tell(&sink.fd).unwrap(), 0, "{what}");
    let mut arrived = vec![0; source.expected.len()];
    let file = File::from(sink.fd.try_clone().unwrap());
    file.read_exact_at(&mut arrived, at).unwrap();
    same_bytes(&arrived, source.expected, &what);
    source.close();
}

/// Visible bytes are read and written, with offsets by pread(2) and pwrite(2).
#[test]
fn calls_with_offsets_are_counted_as_those_without() {
    let calls = |at: Option<u64>| {
        let (source, sink) = (From::File.open(MIB).unwrap(), To::File.open().unwrap());
        let mut options = TransferOptions::new().visible(true);
        if let Some(at) = at {
            options = options.source_offset(at).sink_offset(at);
        }
        let mut transfer = options.open(&source.fd, &sink.fd);
        let report = transfer.run().unwrap();
        assert_eq!(report.bytes, MIB as u64);
        report.calls
    };
    // At least one read, one write, and the read that finds the end.
    assert!(calls(None) >= 3);
    assert_eq!(calls(Some(0)), calls(None));
}

#[test]
fn offsets_on_what_has_none_are_an_error_of_that_side() {
    for guarantee in GUARANTEES {
        let source = From::Pipe.open(10).unwrap();
        let sink = To::File.open().unwrap();
        let failure = TransferOptions::new()
            .guarantee(guarantee)
            .source_offset(1)
            .open(&source.fd, &sink.fd)
            .run()
            .unwrap_err();
        assert_fails(&failure, TransferSide::Source, "read", Errno::SPIPE);
        assert_eq!((failure.report.bytes, failure.report.taken), (0, 0));

        let source = From::File.open(10).unwrap();
        for to in [To::Pipe, To::Unix] {
            let sink = to.open().unwrap();
            let failure = TransferOptions::new()
                .guarantee(guarantee)
                .sink_offset(1)
                .open(&source.fd, &sink.fd)
                .run()
                .unwrap_err();
            assert_fails(&failure, TransferSide::Sink, "write", Errno::SPIPE);
            rustix::fs::seek(&source.fd, rustix::fs::SeekFrom::Start(0)).unwrap();
        }
    }
    let source = From::File.open(10).unwrap();
    let sink = To::Append.open().unwrap();
    let failure = TransferOptions::new()
        .sink_offset(1)
        .open(&source.fd, &sink.fd)
        .run();
    assert!(matches!(failure.unwrap_err().error, Error::Invalid(_)));
}

#[track_caller]
fn assert_fails(failure: &TransferFailure, at: TransferSide, call: &str, with: Errno) {
    match &failure.error {
        Error::Moving {
            side,
            operation,
            errno,
            moved,
        } => {
            let errno = Errno::from_io_error(errno);
            assert_eq!((*side, *operation, errno), (at, call, Some(with)));
            assert_eq!(*moved, failure.report.bytes);
        }
        error => panic!("{error:?}"),
    }
    assert_eq!(failure.report.ended, EndReason::Failed);
}

#[test]
fn a_chunk_of_nothing_is_refused() {
    let (source, sink) = (From::File.open(10).unwrap(), To::File.open().unwrap());
    let failure = TransferOptions::new()
        .chunk(0)
        .open(&source.fd, &sink.fd)
        .run();
    assert!(matches!(failure.unwrap_err().error, Error::Invalid(_)));
}

#[test]
fn the_same_file_or_pipe_at_both_ends_is_refused_and_unchanged() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"what it holds").unwrap();
    file.rewind().unwrap();
    let again = File::options()
        .append(true)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .unwrap();
    let pipe = Pipe::new().unwrap();
    rustix::io::write(&pipe.writer, b"queued").unwrap();
    let (reader, mut writer) = fifo();
    writer.write_all(b"queued").unwrap();
    let queue = |fd| PipeEnd::new(fd).unwrap().queued().unwrap();
    for guarantee in GUARANTEES {
        let both: [(BorrowedFd<'_>, BorrowedFd<'_>); 4] = [
            (file.as_fd(), file.as_fd()),
            (file.as_fd(), again.as_fd()),
            (pipe.reader.as_fd(), pipe.writer.as_fd()),
            (reader.as_fd(), writer.as_fd()),
        ];
        for (source, sink) in both {
            let failure = TransferOptions::new()
                .guarantee(guarantee)
                .open(source, sink)
                .run();
            let failure = failure.unwrap_err();
            assert!(matches!(failure.error, Error::Invalid(_)), "{failure:?}");
            assert_eq!((failure.report.bytes, failure.report.taken), (0, 0));
        }
        // Ranges that overlap.
        let failure = TransferOptions::new()
            .source_offset(0)
            .sink_offset(4)
            .limit(5)
            .open(&file, &file)
            .run();
        assert!(matches!(failure.unwrap_err().error, Error::Invalid(_)));
    }
    assert_eq!(queue(pipe.reader.as_fd()), 6);
    assert_eq!(queue(reader.as_fd()), 6);
    assert_eq!(file.stream_position().unwrap(), 0);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"what it holds");

    let moved = TransferOptions::new()
        .source_offset(0)
        .sink_offset(13)
        .limit(13)
        .open(&file, &file)
        .run()
        .unwrap();
    assert_eq!(moved.bytes, 13);
    file.rewind().unwrap();
    bytes.clear();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"what it holdswhat it holds");
}

#[test]
fn a_stopped_transfer_goes_on_where_it_was() {
    let _watch = watch("a_stopped_transfer_goes_on_where_it_was");
    every_pair(|from, to, guarantee| {
        let len = if from == From::Terminal || to == To::Terminal || from == From::Proc {
            SLOW
        } else {
            MIB + 1
        };
        for visible in [false, true] {
            let what = format!("{guarantee:?}, stopped after every step");
            moved(from, to, len, &what, |t, source, sink| {
                let options = t.guarantee(guarantee).visible(visible);
                let mut transfer = options.open(&source.fd, &sink.fd);
                loop {
                    let report = transfer.run_with(|_| ControlFlow::Break(())).unwrap();
                    if report.ended != EndReason::Cancelled {
                        return report;
                    }
                    assert!(report.bytes > 0);
                }
            });
        }
    });
}

/// A source or sink that blocks forever.
struct Stuck {
    fd: OwnedFd,
    _peer: OwnedFd,
}

impl Stuck {
    fn new(fd: impl Into<OwnedFd>, peer: impl Into<OwnedFd>) -> Self {
        Self {
            fd: fd.into(),
            _peer: peer.into(),
        }
    }

    fn empty(kind: From) -> Option<Self> {
        Some(match kind {
            From::Pipe => {
                let pipe = Pipe::new().unwrap();
                Stuck::new(pipe.reader, pipe.writer)
            }
            From::Unix => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                Stuck::new(ours, theirs)
            }
            From::Tcp => {
                let (ours, theirs) = tcp_pair();
                Stuck::new(ours, theirs)
            }
            From::Terminal => {
                let (master, slave) = raw_pty()?;
                Stuck::new(slave, master)
            }
            _ => return None,
        })
    }

    /// Not full yet, and without a reader.
    fn filling(kind: To) -> Option<Self> {
        Some(match kind {
            To::Pipe => {
                let pipe = Pipe::new().unwrap();
                Stuck::new(pipe.writer, pipe.reader)
            }
            To::Unix => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                Stuck::new(ours, theirs)
            }
            To::Tcp => {
                let (ours, theirs) = tcp_pair();
                Stuck::new(ours, theirs)
            }
            To::Terminal => {
                let (master, slave) = raw_pty()?;
                Stuck::new(slave, master)
            }
            _ => return None,
        })
    }
}

/// Limits the buffers of a connection, so that not all bytes fit into them.
fn keep_small(ours: &TcpStream, theirs: &TcpStream) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
    set_socket_send_buffer_size(ours, 128 * 1024).unwrap();
    set_socket_recv_buffer_size(theirs, 128 * 1024).unwrap();
}

/// More bytes than fit into the buffers of any socket.
const TOO_MUCH: u64 = 1 << 40;

#[test]
fn a_cancel_ends_a_wait_for_the_source() {
    let _watch = watch("a_cancel_ends_a_wait_for_the_source");
    for from in [From::Pipe, From::Unix, From::Tcp, From::Terminal] {
        for to in SINKS {
            for guarantee in GUARANTEES {
                for wait in ALL_WAITS {
                    let (Some(source), Some(sink)) = (Stuck::empty(from), to.open()) else {
                        continue;
                    };
                    ends_promptly(&source.fd, &sink.fd, guarantee, wait);
                }
            }
        }
    }
}

#[test]
fn a_cancel_ends_a_wait_for_the_sink() {
    let _watch = watch("a_cancel_ends_a_wait_for_the_sink");
    for from in [From::Zero, From::File] {
        for to in [To::Pipe, To::Unix, To::Tcp] {
            for guarantee in GUARANTEES {
                for wait in ALL_WAITS {
                    let source = from.open(8 * MIB).unwrap();
                    let sink = Stuck::filling(to).unwrap();
                    ends_promptly(&source.fd, &sink.fd, guarantee, wait);
                }
            }
        }
    }
}

#[track_caller]
fn ends_promptly(source: &OwnedFd, sink: &OwnedFd, guarantee: Guarantee, wait: Wait) {
    let cancel = Cancel::new().unwrap();
    let from_outside = cancel.clone();
    let mut transfer = TransferOptions::new()
        .guarantee(guarantee)
        .wait(wait)
        .limit(TOO_MUCH)
        .cancel(&cancel)
        .open(source, sink);
    let cancelling = thread::spawn(move || {
        thread::sleep(Duration::from_millis(4));
        from_outside.cancel();
        Instant::now()
    });
    let report = transfer.run().unwrap();
    let after = cancelling.join().unwrap().elapsed();
    assert_eq!(report.ended, EndReason::Cancelled, "{report:?}");
    // Without checking the cancel, this would take hours.
    assert!(
        after < Duration::from_secs(60),
        "{after:?} late: {report:?}"
    );
    assert_eq!(transfer.run().unwrap().ended, EndReason::Cancelled);
}

#[test]
fn bytes_in_flight_at_a_cancel_are_sent_by_the_next_run() {
    let _watch = watch("bytes_in_flight_at_a_cancel_are_sent_by_the_next_run");
    for from in [From::File, From::Pipe, From::Tcp, From::Unix] {
        for to in [To::Pipe, To::Unix, To::Tcp] {
            for guarantee in GUARANTEES {
                for nonblocking_fds in [false, true] {
                    let source = from.open(5 * MIB + 3).unwrap();
                    let (sink, peer): (OwnedFd, OwnedFd) = match to {
                        To::Pipe => {
                            let pipe = Pipe::new().unwrap();
                            (pipe.writer, pipe.reader)
                        }
                        To::Unix => {
                            let (ours, theirs) = UnixStream::pair().unwrap();
                            (ours.into(), theirs.into())
                        }
                        _ => {
                            let (ours, theirs) = tcp_pair();
                            keep_small(&ours, &theirs);
                            (ours.into(), theirs.into())
                        }
                    };
                    if nonblocking_fds {
                        set_nonblocking(&source.fd);
                        set_nonblocking(&sink);
                    }
                    let cancel = Cancel::new().unwrap();
                    let mut transfer = TransferOptions::new()
                        .guarantee(guarantee)
                        .cancel(&cancel)
                        .open(&source.fd, sink);
                    let report = thread::scope(|scope| {
                        let running = scope.spawn(|| transfer.run().unwrap());
                        thread::sleep(Duration::from_millis(5));
                        cancel.cancel();
                        running.join().unwrap()
                    });
                    let what = format!("{from:?} → {to:?}, {guarantee:?}");
                    // The large runs of a socket may all fit into the pipe.
                    if report.ended != EndReason::AtEnd || guarantee == Guarantee::Snapshot {
                        assert_eq!(report.ended, EndReason::Cancelled, "{what}");
                    }
                    transfer.set_cancel(None);
                    let reading = thread::spawn(move || {
                        let mut bytes = Vec::new();
                        File::from(peer).read_to_end(&mut bytes).unwrap();
                        bytes
                    });
                    let report = transfer.run().unwrap();
                    assert_eq!(report.ended, EndReason::AtEnd, "{what}");
                    assert_eq!(report.bytes, report.taken);
                    drop(transfer);
                    same_bytes(&reading.join().unwrap(), source.expected, &what);
                    source.close();
                }
            }
        }
    }
}

#[test]
fn a_nonblocking_transfer_returns_the_side_that_is_not_ready() {
    let _watch = watch("a_nonblocking_transfer_returns_the_side_that_is_not_ready");
    for guarantee in GUARANTEES {
        for nonblocking_fds in [false, true] {
            for from in [From::Pipe, From::Unix, From::Tcp, From::Terminal] {
                for to in SINKS {
                    let (Some(source), Some(sink)) = (Stuck::empty(from), to.open()) else {
                        continue;
                    };
                    if nonblocking_fds {
                        set_nonblocking(&source.fd);
                        set_nonblocking(&sink.fd);
                    }
                    let mut transfer = TransferOptions::new()
                        .guarantee(guarantee)
                        .nonblocking(true)
                        .open(&source.fd, &sink.fd);
                    for _ in 0..3 {
                        let report = transfer.run().unwrap();
                        let what = format!("{from:?} → {to:?}");
                        assert_eq!(
                            report.ended,
                            EndReason::WouldBlock(TransferSide::Source),
                            "{what}"
                        );
                    }
                }
            }
            for from in [From::Zero, From::File, From::Memfd] {
                for to in [To::Pipe, To::Unix, To::Tcp] {
                    let source = from.open(MIB).unwrap();
                    let sink = Stuck::filling(to).unwrap();
                    if nonblocking_fds {
                        set_nonblocking(&source.fd);
                        set_nonblocking(&sink.fd);
                    }
                    let what = format!("{from:?} → {to:?}");
                    let mut ended = EndReason::AtEnd;
                    // Bytes in flight over TCP leave the send buffer a while later.
                    for _ in 0..30 {
                        rustix::fs::seek(&source.fd, rustix::fs::SeekFrom::Start(0)).unwrap();
                        let report = TransferOptions::new()
                            .guarantee(guarantee)
                            .nonblocking(true)
                            .limit(MIB as u64)
                            .open(&source.fd, &sink.fd)
                            .run()
                            .unwrap();
                        ended = report.ended;
                        if ended == EndReason::WouldBlock(TransferSide::Sink) {
                            break;
                        }
                    }
                    assert_eq!(ended, EndReason::WouldBlock(TransferSide::Sink), "{what}");
                }
            }
        }
    }
}

#[test]
fn an_unread_terminal_does_not_block_a_transfer() {
    let _watch = watch("an_unread_terminal_does_not_block_a_transfer");
    for guarantee in GUARANTEES {
        for from in [From::Zero, From::File] {
            let source = from.open(MIB).unwrap();
            let Some(sink) = Stuck::filling(To::Terminal) else {
                return;
            };
            let report = TransferOptions::new()
                .guarantee(guarantee)
                .nonblocking(true)
                .open(&source.fd, &sink.fd)
                .run()
                .unwrap();
            assert_eq!(report.ended, EndReason::WouldBlock(TransferSide::Sink));
            let sink = Stuck::filling(To::Terminal).unwrap();
            for wait in ALL_WAITS {
                let source = from.open(MIB).unwrap();
                ends_promptly(&source.fd, &sink.fd, guarantee, wait);
            }
        }
    }
}

fn blocks(file: &File) -> u64 {
    file.metadata().unwrap().blocks()
}

/// Returns a file of this many MiB, of which these hold bytes and the others are holes.
fn with_holes(mut file: File, bytes: &[usize], size: usize) -> File {
    file.set_len((size * MIB) as u64).unwrap();
    for at in bytes {
        file.write_all_at(&content()[..MIB], (at * MIB) as u64)
            .unwrap();
    }
    file.rewind().unwrap();
    file
}

fn all_of(file: &mut File) -> Vec<u8> {
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

type Make = fn() -> File;

#[test]
fn a_hole_of_any_size_is_one_step() {
    let source = with_holes(memfd(), &[1], 8);
    source.set_len(1 << 50).unwrap();
    let sink = memfd();
    let mut steps = 0;
    let report = Transfer::new(&source, &sink)
        .run_with(|_| {
            steps += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(report.bytes, 1 << 50);
    assert_eq!(sink.metadata().unwrap().len(), 1 << 50);
    assert!(steps < 10, "{steps}");
}

#[test]
fn holes_stay_holes_wherever_they_are() {
    let _watch = watch("holes_stay_holes_wherever_they_are");
    let on_disk: Make = || tempfile::tempfile().unwrap();
    let in_memory: Make = memfd;
    let shapes: [&[usize]; 6] = [&[1], &[0], &[0, 3], &[7], &[1, 4], &[]];
    for (make, make_sink) in [
        (on_disk, on_disk),
        (in_memory, in_memory),
        (on_disk, in_memory),
        (in_memory, on_disk),
    ] {
        for guarantee in GUARANTEES {
            for bytes in shapes {
                let mut source = with_holes(make(), bytes, 8);
                let mut sink = make_sink();
                let report = TransferOptions::new()
                    .guarantee(guarantee)
                    .open(&source, &sink)
                    .run()
                    .unwrap();
                let what = format!("{bytes:?}, {report:?}");
                assert_eq!(
                    (report.bytes, report.taken),
                    ((8 * MIB) as u64, (8 * MIB) as u64)
                );
                for file in [&mut source, &mut sink] {
                    assert_eq!(file.stream_position().unwrap(), report.bytes, "{what}");
                }
                same_bytes(&all_of(&mut sink), &all_of(&mut source), &what);
                // 512 bytes each; a file system may use a few for itself.
                let more = blocks(&sink).saturating_sub(blocks(&source));
                assert!(more < 200, "{more} more blocks: {what}");
            }
        }
    }
}

#[test]
fn a_limit_within_a_hole_or_past_it_is_kept() {
    for limit in [MIB / 2, MIB, MIB + 5000, 2 * MIB, 7 * MIB, 8 * MIB - 1] {
        let mut source = with_holes(memfd(), &[1, 4], 8);
        let mut sink = memfd();
        let report = TransferOptions::new()
            .limit(limit as u64)
            .open(&source, &sink)
            .run()
            .unwrap();
        assert_eq!(report.ended, EndReason::AtLimit);
        assert_eq!(report.bytes, limit as u64);
        assert_eq!(source.stream_position().unwrap(), limit as u64);
        let expected = &all_of(&mut source)[..limit];
        same_bytes(&all_of(&mut sink), expected, "limited");
    }
}

#[test]
fn old_bytes_of_the_sink_do_not_remain_in_a_hole() {
    for (make, make_sink) in [
        (memfd as Make, memfd as Make),
        (memfd as Make, (|| tempfile::tempfile().unwrap()) as Make),
    ] {
        for held in [1, 3 * MIB, 8 * MIB] {
            let mut source = with_holes(make(), &[1, 4], 8);
            let mut sink = make_sink();
            sink.write_all(&vec![b'x'; held]).unwrap();
            sink.rewind().unwrap();
            Transfer::new(&source, &sink).run().unwrap();
            same_bytes(&all_of(&mut sink), &all_of(&mut source), "over old bytes");

            let sink = make_sink();
            rustix::fs::fcntl_setfl(&sink, OFlags::APPEND).unwrap();
            source.rewind().unwrap();
            Transfer::new(&source, &sink).run().unwrap();
            let mut sink = sink;
            same_bytes(&all_of(&mut sink), &all_of(&mut source), "appended");
        }
    }
}

#[test]
fn a_file_that_says_it_is_empty_is_not() {
    for (path, guarantee) in [
        ("/proc/self/status", Guarantee::Snapshot),
        (PROC_FILE, Guarantee::Reference),
    ] {
        let source = File::open(path).unwrap();
        let sink = To::File.open().unwrap();
        let report = TransferOptions::new()
            .guarantee(guarantee)
            .open(&source, &sink.fd)
            .run()
            .unwrap();
        assert!(report.bytes > 0);
        assert_eq!(report.ended, EndReason::AtEnd);
    }
    for to in SINKS.into_iter().filter(|&to| to != To::Terminal) {
        for guarantee in GUARANTEES {
            let (source, Some(sink)) = (File::open(PROC_FILE).unwrap(), to.open()) else {
                continue;
            };
            let report = TransferOptions::new()
                .guarantee(guarantee)
                .open(&source, &sink.fd)
                .run()
                .unwrap();
            assert_eq!(report.ended, EndReason::AtEnd);
            sink.close_and_compare(proc_file(), &format!("all of {PROC_FILE} to {to:?}"));
        }
    }
}

#[test]
fn a_file_that_grows_meanwhile_is_moved_to_its_end() {
    for to in [To::Pipe, To::File, To::Memfd, To::Tcp] {
        for guarantee in GUARANTEES {
            let source = From::File.open(100_000).unwrap();
            let mut appending = File::options()
                .append(true)
                .open(format!("/proc/self/fd/{}", source.fd.as_raw_fd()))
                .unwrap();
            let sink = to.open().unwrap();
            let mut grown = false;
            let report = TransferOptions::new()
                .guarantee(guarantee)
                .open(&source.fd, &sink.fd)
                .run_with(|_| {
                    if !std::mem::replace(&mut grown, true) {
                        appending.write_all(&content()[100_000..3 * MIB]).unwrap();
                    }
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(report.ended, EndReason::AtEnd);
            sink.close_and_compare(&content()[..3 * MIB], &format!("{to:?}, {guarantee:?}"));
        }
    }
}

#[test]
fn a_full_device_is_an_error_of_the_sink() {
    let _watch = watch("a_full_device_is_an_error_of_the_sink");
    for from in SOURCES {
        for guarantee in GUARANTEES {
            for len in [1, 64 * 1024 + 1] {
                let Some(source) = from.open(len) else {
                    continue;
                };
                let full = File::options().write(true).open("/dev/full").unwrap();
                let failure = TransferOptions::new()
                    .guarantee(guarantee)
                    .limit(len as u64)
                    .open(&source.fd, &full)
                    .run()
                    .unwrap_err();
                assert_fails(&failure, TransferSide::Sink, "write", Errno::NOSPC);
                assert_eq!(failure.report.bytes, 0);
                source.close();
            }
        }
    }
}

#[test]
fn a_reader_that_goes_is_an_error_of_the_sink_and_no_signal() {
    let _watch = watch("a_reader_that_goes_is_an_error_of_the_sink_and_no_signal");
    for from in [
        From::Pipe,
        From::File,
        From::Memfd,
        From::Unix,
        From::Tcp,
        From::Zero,
    ] {
        for to in [To::Pipe, To::Fifo, To::Unix, To::Tcp] {
            for guarantee in GUARANTEES {
                for wait in [Wait::Block, Wait::Adaptive] {
                    for reads in [0, 1, 100_000] {
                        lose_the_reader(from, to, guarantee, wait, reads);
                    }
                }
            }
        }
    }
}

fn lose_the_reader(from: From, to: To, guarantee: Guarantee, wait: Wait, reads: usize) {
    let source = from.open(8 * MIB).unwrap();
    let (sink, peer): (OwnedFd, OwnedFd) = match to {
        To::Pipe => {
            let pipe = Pipe::new().unwrap();
            (pipe.writer, pipe.reader)
        }
        To::Fifo => {
            let (reader, writer) = fifo();
            (writer.into(), reader.into())
        }
        To::Unix => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (ours.into(), theirs.into())
        }
        _ => {
            let (ours, theirs) = tcp_pair();
            keep_small(&ours, &theirs);
            (ours.into(), theirs.into())
        }
    };
    let reading = thread::spawn(move || {
        let mut bytes = vec![0; reads];
        File::from(peer).read_exact(&mut bytes).unwrap();
    });
    if reads == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let ran = TransferOptions::new()
        .guarantee(guarantee)
        .wait(wait)
        .limit(TOO_MUCH)
        .open(&source.fd, &sink)
        .run();
    reading.join().unwrap();
    let what = format!("{from:?} → {to:?}, {guarantee:?}, {wait:?}, {reads}");
    let failure = match ran {
        Err(failure) => failure,
        // A pipe or socket may accept this much before its reader closes.
        Ok(report) => panic!("{what}: {report:?}"),
    };
    let Error::Moving { side, errno, .. } = &failure.error else {
        panic!("{what}: {failure:?}");
    };
    assert_eq!(*side, TransferSide::Sink, "{what}: {failure:?}");
    let errno = Errno::from_io_error(errno).unwrap();
    assert!(
        [Errno::PIPE, Errno::CONNRESET].contains(&errno),
        "{what}: {failure:?}"
    );
    assert!(failure.report.bytes <= failure.report.taken, "{what}");
}

#[test]
fn a_writer_that_goes_midway_is_the_end() {
    let _watch = watch("a_writer_that_goes_midway_is_the_end");
    for guarantee in GUARANTEES {
        for to in SINKS.into_iter().filter(|&to| to != To::Terminal) {
            // A half-closed socket.
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            half_closed(ours, &mut theirs, to, guarantee, |s| {
                s.shutdown(Shutdown::Write)
            });
            let (ours, mut theirs) = tcp_pair();
            half_closed(ours, &mut theirs, to, guarantee, |s| {
                s.shutdown(Shutdown::Write)
            });
            let (reader, mut writer) = fifo();
            half_closed(reader, &mut writer, to, guarantee, |writer| {
                *writer = File::open("/dev/null")?;
                Ok(())
            });
        }
    }
}

fn half_closed<W: Write + Send>(
    source: impl AsFd,
    peer: &mut W,
    to: To,
    guarantee: Guarantee,
    close: impl FnOnce(&mut W) -> io::Result<()> + Send,
) {
    let Some(sink) = to.open() else {
        return;
    };
    const LEN: usize = 150_000;
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            peer.write_all(&content()[..LEN]).unwrap();
            thread::sleep(Duration::from_millis(1));
            close(peer).unwrap();
        });
        TransferOptions::new()
            .guarantee(guarantee)
            .open(&source, &sink.fd)
            .run()
            .unwrap()
    });
    assert_eq!(report.ended, EndReason::AtEnd);
    sink.close_and_compare(&content()[..LEN], &format!("half closed to {to:?}"));
}

#[test]
fn both_directions_of_one_socket_are_two_fds() {
    let _watch = watch("both_directions_of_one_socket_are_two_fds");
    for guarantee in GUARANTEES {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let report = TransferOptions::new()
                    .guarantee(guarantee)
                    .open(&ours, &ours)
                    .run()
                    .unwrap();
                ours.shutdown(Shutdown::Write).unwrap();
                report
            });
            scope.spawn(|| {
                (&theirs).write_all(&content()[..MIB]).unwrap();
                theirs.shutdown(Shutdown::Write).unwrap();
            });
            let mut echoed = Vec::new();
            (&theirs).read_to_end(&mut echoed).unwrap();
            same_bytes(&echoed, &content()[..MIB], "echoed");
        });
    }
}

#[test]
fn bytes_that_come_one_by_one_do_not_fill_a_pipe_up() {
    let _watch = watch("bytes_that_come_one_by_one_do_not_fill_a_pipe_up");
    for guarantee in GUARANTEES {
        for to in [To::Pipe, To::Unix, To::Tcp, To::File, To::Null] {
            let (ours, theirs) = tcp_pair();
            theirs.set_nodelay(true).unwrap();
            one_by_one(ours, theirs, to, guarantee);
            let (ours, theirs) = UnixStream::pair().unwrap();
            one_by_one(ours, theirs, to, guarantee);
        }
    }
}

fn one_by_one(source: impl AsFd, mut peer: impl Write + Send, to: To, guarantee: Guarantee) {
    let sink = to.open().unwrap();
    // So that everything is set up for long streams when the short pieces arrive.
    const FIRST: usize = 100_000;
    const SINGLE: usize = 1200;
    thread::scope(|scope| {
        scope.spawn(move || {
            peer.write_all(&content()[..FIRST]).unwrap();
            for byte in &content()[FIRST..FIRST + SINGLE] {
                peer.write_all(&[*byte]).unwrap();
            }
        });
        TransferOptions::new()
            .guarantee(guarantee)
            .open(&source, &sink.fd)
            .run()
            .unwrap();
    });
    sink.close_and_compare(
        &content()[..FIRST + SINGLE],
        &format!("one by one to {to:?}"),
    );
}

#[test]
fn fds_that_are_not_open_for_it_are_errors_of_their_side() {
    let _watch = watch("fds_that_are_not_open_for_it_are_errors_of_their_side");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for len in [10, 200_000] {
        std::fs::write(&path, &content()[..len]).unwrap();
        for guarantee in GUARANTEES {
            let for_writing = || -> [(&str, OwnedFd); 2] {
                let file = File::options().append(true).open(&path).unwrap();
                [("file", file.into()), ("pipe", Pipe::new().unwrap().writer)]
            };
            for (what, source) in for_writing() {
                for to in SINKS {
                    let Some(sink) = to.open() else { continue };
                    let failure = TransferOptions::new()
                        .guarantee(guarantee)
                        .open(&source, &sink.fd)
                        .run();
                    let failure = failure.unwrap_err();
                    let what = format!("{what} → {to:?}: {failure:?}");
                    assert_side(&failure, TransferSide::Source, Errno::BADF, &what);
                }
            }
            for from in SOURCES {
                let pipe = Pipe::new().unwrap();
                let file = dir.path().join("sink");
                std::fs::write(&file, b"kept").unwrap();
                let sinks: [OwnedFd; 2] = [pipe.reader, File::open(&file).unwrap().into()];
                for sink in sinks {
                    if from == From::Terminal && len > 10 {
                        // Its feeder would wait for room forever.
                        continue;
                    }
                    let Some(source) = from.open(len) else {
                        continue;
                    };
                    let failure = TransferOptions::new()
                        .guarantee(guarantee)
                        .limit(len as u64)
                        .open(&source.fd, &sink)
                        .run()
                        .unwrap_err();
                    let what = format!("{from:?}: {failure:?}");
                    assert_side(&failure, TransferSide::Sink, Errno::BADF, &what);
                    source.close();
                }
                assert_eq!(std::fs::read(&file).unwrap(), b"kept");
            }
        }
    }
}

#[track_caller]
fn assert_side(failure: &TransferFailure, at: TransferSide, with: Errno, what: &str) {
    let Error::Moving { side, errno, .. } = &failure.error else {
        panic!("{what}");
    };
    assert_eq!(
        (*side, Errno::from_io_error(errno)),
        (at, Some(with)),
        "{what}"
    );
    assert_eq!(failure.report.bytes, 0, "{what}");
}

#[test]
fn a_directory_is_an_error_of_its_side() {
    let dir = tempfile::tempdir().unwrap();
    let source = File::open(dir.path()).unwrap();
    for guarantee in GUARANTEES {
        for to in SINKS {
            let Some(sink) = to.open() else { continue };
            let failure = TransferOptions::new()
                .guarantee(guarantee)
                .open(&source, &sink.fd)
                .run();
            let failure = failure.unwrap_err();
            assert_side(
                &failure,
                TransferSide::Source,
                Errno::ISDIR,
                &format!("{to:?}: {failure:?}"),
            );
        }
    }
}

#[test]
fn a_short_input_costs_no_more_calls_than_copying_does() {
    for from in [From::File, From::Memfd, From::Pipe, From::Proc] {
        for to in [
            To::Pipe,
            To::File,
            To::Memfd,
            To::Append,
            To::Null,
            To::Zero,
        ] {
            for guarantee in GUARANTEES {
                for len in [0, 1, 4096, 50_000, 64 * 1024 - 1] {
                    if from == From::Proc && len > 1 || from == From::Pipe && len > 50_000 {
                        continue;
                    }
                    let mut source = from.open(len).unwrap();
                    if from == From::Pipe {
                        source.wait_for_feeder();
                    }
                    let sink = to.open().unwrap();
                    let mut made = 0;
                    let count = |_| {
                        made += 1;
                        None
                    };
                    let mut transfer = TransferOptions::new()
                        .guarantee(guarantee)
                        .open(&source.fd, &sink.fd);
                    if source.endless {
                        transfer.set_limit(len as u64);
                    }
                    let report = judging(ALL_CALLS, count, || transfer.run().unwrap());
                    let Some(report) = report else { return };
                    // fstat of both, and then read, write, read; two calls fewer without a byte, and one more that
                    // shows whether an output is in append mode, or does not support splice(2).
                    let copying = match len {
                        0 => 3,
                        _ => 5,
                    };
                    let refused = usize::from(to == To::Append) + 1;
                    let by_splice = guarantee == Guarantee::Reference || from == From::Pipe;
                    let most = copying + if by_splice { refused } else { 0 };
                    assert!(
                        made <= most,
                        "{made} calls: {from:?} → {to:?}, {guarantee:?}, {len} bytes, {report:?}"
                    );
                }
            }
        }
    }
}

/// All calls that a transfer may make, except for memory and time.
const ALL_CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_ftruncate,
    libc::SYS_pipe2,
    // aarch64 has only the newer one.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_getsockopt,
    libc::SYS_openat,
    libc::SYS_statx,
    libc::SYS_close,
];

#[test]
fn a_deadline_that_is_set_between_two_runs_ends_the_next_one() {
    let _watch = watch("a_deadline_that_is_set_between_two_runs_ends_the_next_one");
    let source =
        File::from(rustix::fs::memfd_create("long", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    source.set_len(64 << 20).unwrap();
    for guarantee in GUARANTEES {
        for unix in [false, true] {
            (&source).rewind().unwrap();
            let (sink, _peer): (OwnedFd, OwnedFd) = match unix {
                true => {
                    let (sink, peer) = UnixStream::pair().unwrap();
                    (sink.into(), peer.into())
                }
                false => {
                    let (sink, peer) = tcp_pair();
                    (sink.into(), peer.into())
                }
            };
            let mut transfer = TransferOptions::new()
                .guarantee(guarantee)
                .limit(100_000)
                .open(&source, &sink);
            assert_eq!(transfer.run().unwrap().ended, EndReason::AtLimit);
            let at = Instant::now() + Duration::from_millis(30);
            transfer.set_limit(None);
            transfer.set_deadline(at);
            let report = transfer.run().unwrap();
            assert_eq!(
                report.ended,
                EndReason::TimedOut,
                "{guarantee:?}, unix: {unix}"
            );
        }
    }
}

#[test]
fn options_that_change_between_two_runs_are_checked_again() {
    let _watch = watch("options_that_change_between_two_runs_are_checked_again");
    let file = tempfile::tempfile().unwrap();
    (&file).write_all(&first(100)).unwrap();
    let mut transfer = TransferOptions::new()
        .source_offset(0)
        .sink_offset(100)
        .limit(100)
        .open(&file, &file);
    assert_eq!(transfer.run().unwrap().bytes, 100);
    transfer.set_limit(1000);
    let error = transfer.run().unwrap_err().error;
    assert!(error.to_string().contains("the same file"), "{error}");
    assert_eq!(file.metadata().unwrap().len(), 200);

    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    File::from(source.writer).write_all(&first(100)).unwrap();
    let mut transfer = TransferOptions::new()
        .limit(5)
        .open(&source.reader, &sink.writer);
    assert_eq!(transfer.run().unwrap().ended, EndReason::AtLimit);
    transfer.set_limit(100);
    assert_eq!(transfer.run().unwrap().bytes, 100);
}

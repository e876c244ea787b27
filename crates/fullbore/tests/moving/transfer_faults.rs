//! `Transfer` with system calls that fail: for each way and each of its calls, the first, the second or a later one.
//! The numbers of bytes taken and arrived are exact.

use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use crate::common::calls::{failing_once, judging, moving_nothing_once};
use crate::common::ends::{From, MOST, Source, To, content, memfd, same_bytes, tcp_pair};
use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{
    BufferOptions, Consumer, ConsumerOptions, EndReason, Error, Guarantee, Pipe, Tee, TeeOptions,
    Transfer, TransferFailure, TransferOptions, TransferReport, TransferSide, Wait, Way,
};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

const COPY_FILE_RANGE: &[libc::c_long] = &[libc::SYS_copy_file_range];
const SPLICE: &[libc::c_long] = &[libc::SYS_splice];
const SENDFILE: &[libc::c_long] = &[libc::SYS_sendfile];
const VMSPLICE: &[libc::c_long] = &[libc::SYS_vmsplice];
const READ: &[libc::c_long] = &[libc::SYS_read, libc::SYS_preadv2, libc::SYS_recvfrom];
const WRITE: &[libc::c_long] = &[libc::SYS_write, libc::SYS_pwritev2, libc::SYS_sendto];

/// A way, a pair of fds that uses it, and its call that fails.
struct Case {
    name: &'static str,
    from: From,
    to: To,
    guarantee: Guarantee,
    way: Way,
    calls: &'static [libc::c_long],
    operation: &'static str,
    /// The side that a failure of the nth call is attributed to.
    side: TransferSide,
    /// Whether there is another way if the first call is refused.
    has_another: bool,
}

#[rustfmt::skip]
const CASES: [Case; 18] = [
    case("copy_file_range", From::File, To::File, Guarantee::Snapshot, Way::CopyFileRange, COPY_FILE_RANGE, "copy_file_range", TransferSide::Sink, true),
    case("splice through, pipe to file", From::Pipe, To::File, Guarantee::Reference, Way::SpliceThrough, SPLICE, "splice", TransferSide::Source, true),
    case("splice through, pipe to socket", From::Pipe, To::Unix, Guarantee::Reference, Way::SpliceThrough, SPLICE, "splice", TransferSide::Source, true),
    case("splice through, pipe to pipe", From::Pipe, To::Pipe, Guarantee::Reference, Way::SpliceThrough, SPLICE, "splice", TransferSide::Source, true),
    case("splice through, file to pipe", From::File, To::Pipe, Guarantee::Reference, Way::SpliceThrough, SPLICE, "splice", TransferSide::Source, true),
    case("splice through, socket to pipe", From::Tcp, To::Pipe, Guarantee::Reference, Way::SpliceThrough, SPLICE, "splice", TransferSide::Source, true),
    case("splice through, socket to socket", From::Unix, To::Tcp, Guarantee::Reference, Way::SpliceThrough, SPLICE, "splice", TransferSide::Source, true),
    case("splice through, socket to file", From::Tcp, To::File, Guarantee::Reference, Way::SpliceThrough, SPLICE, "splice", TransferSide::Source, true),
    case("sendfile", From::File, To::Unix, Guarantee::Reference, Way::Sendfile, SENDFILE, "sendfile", TransferSide::Sink, true),
    case("fresh, reading", From::File, To::Pipe, Guarantee::Snapshot, Way::Fresh, READ, "read", TransferSide::Source, true),
    case("fresh, giving", From::File, To::Pipe, Guarantee::Snapshot, Way::Fresh, VMSPLICE, "vmsplice", TransferSide::Sink, true),
    case("fresh, from a pipe", From::Pipe, To::Pipe, Guarantee::Snapshot, Way::Fresh, VMSPLICE, "vmsplice", TransferSide::Sink, true),
    case("fresh into a socket, reading", From::Pipe, To::Unix, Guarantee::Snapshot, Way::Fresh, READ, "read", TransferSide::Source, true),
    case("fresh into a socket, giving", From::Pipe, To::Unix, Guarantee::Snapshot, Way::Fresh, VMSPLICE, "vmsplice", TransferSide::Sink, true),
    case("fresh into a socket, splicing", From::Memfd, To::Unix, Guarantee::Snapshot, Way::Fresh, SPLICE, "splice", TransferSide::Sink, true),
    case("reading", From::Unix, To::Tcp, Guarantee::Snapshot, Way::Copy, READ, "read", TransferSide::Source, false),
    case("writing, pipe to file", From::Pipe, To::File, Guarantee::Snapshot, Way::Copy, WRITE, "write", TransferSide::Sink, false),
    case("writing", From::Memfd, To::Tcp, Guarantee::Snapshot, Way::Copy, WRITE, "write", TransferSide::Sink, false),
];

#[allow(
    clippy::too_many_arguments,
    reason = "they are the columns of the table"
)]
const fn case(
    name: &'static str,
    from: From,
    to: To,
    guarantee: Guarantee,
    way: Way,
    calls: &'static [libc::c_long],
    operation: &'static str,
    side: TransferSide,
    has_another: bool,
) -> Case {
    Case {
        name,
        from,
        to,
        guarantee,
        way,
        calls,
        operation,
        side,
        has_another,
    }
}

/// Returns the cases that this machine supports.
fn cases() -> impl Iterator<Item = Case> {
    let gives = gives_fresh_pages();
    if !gives {
        fullbore_tests::skipped("fresh pages are not given without huge ones that suit a pipe");
    }
    CASES
        .into_iter()
        .filter(move |case| case.way != Way::Fresh || gives)
}

const LEN: usize = 5 * MIB + 3;

/// The result of a transfer, the rest of the source, and the bytes that reached the sink.
struct Outcome {
    ran: Result<TransferReport, TransferFailure>,
    /// The rest of the source.
    left: Vec<u8>,
    arrived: Vec<u8>,
}

/// Runs a transfer.
type Job<'a> = dyn FnMut() -> Result<TransferReport, TransferFailure> + Send + 'a;

/// Returns a sink, and the collector of the bytes that arrive at it.
fn collected(to: To) -> (OwnedFd, Collected) {
    let reading = |mut peer: File| {
        Collected::Read(thread::spawn(move || {
            let mut bytes = Vec::with_capacity(LEN);
            peer.read_to_end(&mut bytes).unwrap();
            bytes
        }))
    };
    let lying = |file: File| (file.try_clone().unwrap().into(), Collected::Lies(file));
    match to {
        To::Pipe => {
            let pipe = Pipe::new().unwrap();
            (pipe.writer, reading(pipe.reader.into()))
        }
        To::Unix => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (ours.into(), reading(OwnedFd::from(theirs).into()))
        }
        To::Tcp => {
            let (ours, theirs) = tcp_pair();
            (ours.into(), reading(OwnedFd::from(theirs).into()))
        }
        To::Memfd => lying(memfd()),
        _ => lying(tempfile::tempfile().unwrap()),
    }
}

enum Collected {
    Read(JoinHandle<Vec<u8>>),
    Lies(File),
}

impl Collected {
    fn all(self) -> Vec<u8> {
        match self {
            Collected::Read(reading) => reading.join().unwrap(),
            Collected::Lies(mut file) => {
                let mut bytes = Vec::with_capacity(LEN);
                file.rewind().unwrap();
                file.read_to_end(&mut bytes).unwrap();
                bytes
            }
        }
    }
}

impl Case {
    /// Returns `None` if calls cannot be made to fail. Chunks are small, so there are many calls.
    fn run(&self, wait: Wait, nth: usize, errno: Errno) -> Option<Outcome> {
        self.run_under(wait, |job| failing_once(self.calls, nth, errno, job))
    }

    fn run_under(
        &self,
        wait: Wait,
        under: impl FnOnce(&mut Job<'_>) -> Option<Result<TransferReport, TransferFailure>>,
    ) -> Option<Outcome> {
        let source = self.from.open(LEN).unwrap();
        let (sink, collected) = collected(self.to);
        if wait != Wait::Block {
            // Without this, a nonblocking transfer does not splice from or into a socket.
            set_nonblocking(&source.fd);
            set_nonblocking(&sink);
        }
        let mut transfer = TransferOptions::new()
            .guarantee(self.guarantee)
            .wait(wait)
            .chunk(128 * 1024)
            .open(&source.fd, sink);
        let ran = under(&mut || transfer.run())?;
        drop(transfer);
        rustix::fs::fcntl_setfl(&source.fd, rustix::fs::OFlags::empty()).unwrap();
        let mut left = Vec::new();
        let mut rest = File::from(source.fd.try_clone().unwrap());
        rest.read_to_end(&mut left).unwrap();
        drop(rest);
        source.close();
        Some(Outcome {
            ran,
            left,
            arrived: collected.all(),
        })
    }
}

#[track_caller]
fn all_right(outcome: Outcome, what: &str) -> TransferReport {
    let report = outcome.ran.unwrap_or_else(|e| panic!("{what}: {e:?}"));
    assert_eq!(report.ended, EndReason::AtEnd, "{what}: {report:?}");
    assert_eq!(
        (report.bytes, report.taken),
        (LEN as u64, LEN as u64),
        "{what}"
    );
    same_bytes(&outcome.arrived, &content()[..LEN], what);
    report
}

#[test]
fn the_ways_of_the_table_are_taken() {
    for case in cases() {
        let Some(outcome) = case.run(Wait::Block, usize::MAX, Errno::IO) else {
            return;
        };
        let report = all_right(outcome, case.name);
        assert!(
            report.ways.iter().any(|&(way, _)| way == case.way),
            "{}: {report:?}",
            case.name
        );
    }
}

#[test]
fn an_interrupted_call_is_retried() {
    let _watch = watch("an_interrupted_call_is_retried");
    for case in cases() {
        for wait in [Wait::Block, Wait::Adaptive] {
            for nth in [1, 2, 3, 6] {
                let Some(outcome) = case.run(wait, nth, Errno::INTR) else {
                    return;
                };
                all_right(outcome, &format!("{}, {wait:?}, EINTR at {nth}", case.name));
            }
        }
    }
}

#[test]
fn a_call_that_would_block_is_retried() {
    let _watch = watch("a_call_that_would_block_is_retried");
    // A call on files never has to wait, so `EAGAIN` is an error there.
    let waits = |case: &Case| case.way != Way::CopyFileRange;
    for case in cases().filter(waits) {
        for wait in [Wait::Block, Wait::Poll, Wait::Spin, Wait::Adaptive] {
            for nth in [1, 2, 3, 6] {
                let Some(outcome) = case.run(wait, nth, Errno::AGAIN) else {
                    return;
                };
                all_right(
                    outcome,
                    &format!("{}, {wait:?}, EAGAIN at {nth}", case.name),
                );
            }
        }
    }
}

#[test]
fn a_blocking_transfer_never_returns_would_block() {
    let case = &CASES[0];
    for nth in [1, 2, 3] {
        let Some(outcome) = case.run(Wait::Block, nth, Errno::AGAIN) else {
            return;
        };
        failed(outcome, case, nth, Errno::AGAIN);
    }
}

#[test]
fn a_way_that_is_refused_at_first_is_followed_by_another() {
    let _watch = watch("a_way_that_is_refused_at_first_is_followed_by_another");
    for case in cases().filter(|case| case.has_another) {
        for errno in [Errno::NOSYS, Errno::PERM, Errno::INVAL, Errno::OPNOTSUPP] {
            for wait in [Wait::Block, Wait::Adaptive] {
                let what = format!("{}, {wait:?}, {errno:?}", case.name);
                let Some(outcome) = case.run(wait, 1, errno) else {
                    return;
                };
                all_right(outcome, &what);
                // Bytes went into the private pipe; none can come out of it.
                if case.way == Way::SpliceThrough {
                    let Some(outcome) = case.run(wait, 2, errno) else {
                        return;
                    };
                    all_right(outcome, &format!("{what} at the second"));
                }
            }
        }
    }
}

#[test]
fn what_was_taken_by_a_way_that_is_refused_counts_towards_the_limit() {
    let _watch = watch("what_was_taken_by_a_way_that_is_refused_counts_towards_the_limit");
    for (from, to) in [
        (From::Unix, To::Tcp),
        (From::Tcp, To::File),
        (From::File, To::Null),
    ] {
        for limit in [70_000, 64 * 1024 + 1, 200_000, MIB] {
            for chunk in [None, Some(1), Some(1000)] {
                if chunk == Some(1) && limit > 70_000 {
                    continue;
                }
                let source = from.open(2 * MIB).unwrap();
                let (sink, collected) = match to {
                    To::Null => (File::create("/dev/null").unwrap().into(), None),
                    to => {
                        let (sink, collected) = collected(to);
                        (sink, Some(collected))
                    }
                };
                let mut options = TransferOptions::new()
                    .guarantee(Guarantee::Reference)
                    .limit(limit as u64);
                if let Some(bytes) = chunk {
                    options = options.chunk(bytes);
                }
                let mut transfer = options.open(&source.fd, sink);
                let ran = failing_once(SPLICE, 2, Errno::INVAL, || transfer.run());
                let Some(ran) = ran else { return };
                let report = ran.unwrap();
                assert_eq!(report.ended, EndReason::AtLimit, "{report:?}");
                assert_eq!((report.bytes, report.taken), (limit as u64, limit as u64));
                drop(transfer);
                let mut next = [0; 1];
                File::from(source.fd.try_clone().unwrap())
                    .read_exact(&mut next)
                    .unwrap();
                assert_eq!(next[0], content()[limit]);
                if let Some(collected) = collected {
                    same_bytes(
                        &collected.all(),
                        &content()[..limit],
                        &format!("{report:?}"),
                    );
                }
                source.close();
            }
        }
    }
}

#[test]
fn a_failure_tells_its_side_and_counts_to_the_byte() {
    let _watch = watch("a_failure_tells_its_side_and_counts_to_the_byte");
    for case in cases() {
        for errno in [Errno::IO, Errno::NOSPC, Errno::CANCELED, Errno::TIMEDOUT] {
            for wait in [Wait::Block, Wait::Adaptive] {
                for nth in [1, 2, 3, 6] {
                    let Some(outcome) = case.run(wait, nth, errno) else {
                        return;
                    };
                    failed(outcome, &case, nth, errno);
                }
            }
        }
    }
}

#[track_caller]
fn failed(outcome: Outcome, case: &Case, nth: usize, with: Errno) {
    let what = format!("{}, {with:?} at {nth}", case.name);
    let Err(failure) = outcome.ran else {
        panic!("{what}: {:?}", outcome.ran);
    };
    let Error::Moving {
        side,
        operation,
        errno,
        moved,
    } = &failure.error
    else {
        panic!("{what}: {failure:?}");
    };
    let errno = Errno::from_io_error(errno).unwrap();
    // Bytes in the private pipe were taken from the source, so the sink was next.
    let under_way = LEN - outcome.left.len() > outcome.arrived.len();
    let expected_side = match case.way {
        Way::SpliceThrough if under_way => TransferSide::Sink,
        Way::SpliceThrough => TransferSide::Source,
        _ => case.side,
    };
    let expected = (expected_side, case.operation, with);
    assert_eq!((*side, *operation, errno), expected, "{what}");
    let report = &failure.report;
    assert_eq!(*moved, report.bytes, "{what}");
    assert_eq!(report.ended, EndReason::Failed, "{what}");
    let by_ways: u64 = report.ways.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(by_ways, report.bytes, "{what}");
    assert_eq!(
        outcome.arrived.len() as u64,
        report.bytes,
        "{what}: arrived"
    );
    let taken = LEN - outcome.left.len();
    assert_eq!(taken as u64, report.taken, "{what}: taken");
    same_bytes(&outcome.arrived, &content()[..outcome.arrived.len()], &what);
    same_bytes(&outcome.left, &content()[taken..LEN], &what);
}

#[test]
fn a_way_that_has_worked_and_is_refused_later_is_followed_by_another() {
    let _watch = watch("a_way_that_has_worked_and_is_refused_later_is_followed_by_another");
    for case in cases().filter(|case| case.has_another) {
        for errno in [Errno::INVAL, Errno::PERM] {
            for nth in [3, 4] {
                let Some(outcome) = case.run(Wait::Block, nth, errno) else {
                    return;
                };
                all_right(outcome, &format!("{}, {errno:?} at {nth}", case.name));
            }
        }
    }
}

/// Sets O_APPEND on the open file description of `sink`, as another process that shares it might.
fn append_from_now_on(sink: &OwnedFd) {
    let flags = rustix::fs::fcntl_getfl(sink).unwrap();
    rustix::fs::fcntl_setfl(sink, flags | OFlags::APPEND).unwrap();
}

#[test]
fn a_sink_that_begins_to_append_in_the_middle_gets_every_byte() {
    let _watch = watch("a_sink_that_begins_to_append_in_the_middle_gets_every_byte");
    for from in [From::File, From::Pipe, From::Tcp] {
        for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
            let source = from.open(LEN).unwrap();
            let (sink, collected) = collected(To::File);
            let ran = TransferOptions::new()
                .guarantee(guarantee)
                .chunk(128 * 1024)
                .open(&source.fd, &sink)
                .run_with(|progress| {
                    if progress.bytes > 1_000_000 {
                        append_from_now_on(&sink);
                    }
                    ControlFlow::Continue(())
                });
            let outcome = Outcome {
                ran,
                left: Vec::new(),
                arrived: collected.all(),
            };
            all_right(outcome, &format!("{from:?}, {guarantee:?}"));
            source.close();
        }
    }
}

#[test]
fn an_offset_of_a_sink_that_begins_to_append_is_not_lost_in_silence() {
    let source = From::File.open(LEN).unwrap();
    let (sink, collected) = collected(To::File);
    let failure = TransferOptions::new()
        .sink_offset(0)
        .chunk(128 * 1024)
        .open(&source.fd, &sink)
        .run_with(|_| {
            append_from_now_on(&sink);
            ControlFlow::Continue(())
        })
        .unwrap_err();
    let arrived = collected.all();
    assert_eq!(arrived.len() as u64, failure.report.bytes, "{failure:#?}");
    same_bytes(&arrived, &content()[..arrived.len()], "offset");
    source.close();
}

#[test]
fn the_end_of_file_of_a_terminal_is_read_once() {
    let _watch = watch("the_end_of_file_of_a_terminal_is_read_once");
    const LINES: usize = 200;
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        let Some((master, slave)) = raw_pty() else {
            return fullbore_tests::skipped("no pseudo-terminal here");
        };
        let mut terminal = tcgetattr(&slave).unwrap();
        terminal.local_modes |= LocalModes::ICANON;
        tcsetattr(&slave, OptionalActions::Now, &terminal).unwrap();
        let (sink, collected) = collected(To::Pipe);
        let moving = thread::spawn(move || {
            TransferOptions::new()
                .guarantee(guarantee)
                .open(&slave, sink)
                .run()
                .unwrap()
        });
        let mut master = File::from(master);
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        for _ in 0..LINES {
            master.write_all(&line).unwrap();
        }
        // A second one never comes.
        master.write_all(b"\x04").unwrap();
        let report = moving.join().unwrap();
        assert_eq!(report.bytes, 1000 * LINES as u64, "{guarantee:?}");
        assert_eq!(collected.all(), line.repeat(LINES), "{guarantee:?}");
    }
}

#[test]
fn a_terminal_that_has_hung_up_is_an_error_and_no_end() {
    for wait in [Wait::Block, Wait::Poll] {
        let Some((master, slave)) = raw_pty() else {
            return fullbore_tests::skipped("no pseudo-terminal here");
        };
        drop(master);
        let failed = |what: &str, error: &Error| {
            assert!(
                error.to_string().contains("Input/output"),
                "{what}, {wait:?}: {error}"
            );
        };
        let mut consumer = ConsumerOptions::new().wait(wait).open(&slave).unwrap();
        let read = consumer.read(&mut [0]).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{wait:?}");
        let sink = || Pipe::new().unwrap();
        let moved = TransferOptions::new()
            .wait(wait)
            .open(&slave, sink().writer)
            .run();
        failed("transfer", &moved.unwrap_err().error);
        let sinks = [(sink().writer, Policy::DROP)];
        let moved = TeeOptions::new().wait(wait).open(&slave, sinks).run();
        failed("tee", &moved.unwrap_err().error);
        let sinks = [(sink().writer, Policy::DROP)];
        let moved = BufferOptions::new().open(&slave, sinks).run();
        failed("buffer", &moved.unwrap_err().error);
    }
}

#[test]
fn a_transfer_that_failed_goes_on_with_what_was_under_way() {
    let _watch = watch("a_transfer_that_failed_goes_on_with_what_was_under_way");
    for case in cases() {
        for nth in [1, 2, 3, 6] {
            let source = case.from.open(LEN).unwrap();
            let (sink, collected) = collected(case.to);
            let mut transfer = TransferOptions::new()
                .guarantee(case.guarantee)
                .chunk(128 * 1024)
                .open(&source.fd, sink);
            let ran = failing_once(case.calls, nth, Errno::IO, || {
                transfer.run().unwrap_err();
                transfer.run()
            });
            let Some(ran) = ran else { return };
            drop(transfer);
            let outcome = Outcome {
                ran,
                left: Vec::new(),
                arrived: collected.all(),
            };
            all_right(outcome, &format!("{}, again after EIO at {nth}", case.name));
            source.close();
        }
    }
}

#[test]
fn a_hole_that_cannot_be_made_is_written() {
    for errno in [Errno::PERM, Errno::INVAL, Errno::NOSPC] {
        let mut source = memfd();
        source.set_len(8 << 20).unwrap();
        for at in [1 << 20, 4 << 20] {
            source.seek(SeekFrom::Start(at)).unwrap();
            source.write_all(&content()[..MIB]).unwrap();
        }
        source.rewind().unwrap();
        let mut sink = memfd();
        let ran = failing_once(&[libc::SYS_fallocate], 1, errno, || {
            Transfer::new(&source, &sink).run()
        });
        let Some(ran) = ran else { return };
        let all = |file: &mut File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        if errno == Errno::NOSPC {
            let failure = ran.unwrap_err();
            assert!(matches!(
                &failure.error,
                Error::Moving {
                    side: TransferSide::Sink,
                    operation: "fallocate",
                    ..
                }
            ));
            assert_eq!(failure.report.bytes, failure.report.taken);
            assert_eq!(source.stream_position().unwrap(), failure.report.taken);
            let arrived = all(&mut sink);
            assert_eq!(arrived.len() as u64, failure.report.bytes);
            same_bytes(&arrived, &all(&mut source)[..arrived.len()], "up to a hole");
        } else {
            assert_eq!(ran.unwrap().bytes, 8 << 20);
            same_bytes(
                &all(&mut sink),
                &all(&mut source),
                "a hole that was refused",
            );
        }
    }
}

#[test]
fn a_hole_at_the_end_deletes_nothing_that_another_writer_has_appended() {
    use std::os::unix::fs::FileExt;
    let mut source = memfd();
    source.write_all(&content()[..MIB]).unwrap();
    source.set_len(8 << 20).unwrap();
    source.rewind().unwrap();
    let sink = memfd();
    let appended = [content(), content()].concat();
    let mut calls = 0;
    let extending = [libc::SYS_ftruncate, libc::SYS_fallocate];
    // The other writer comes between the look at the length of the sink and the call that extends it.
    let append = |_| {
        calls += 1;
        sink.write_all_at(&appended, MIB as u64).unwrap();
        None
    };
    let ran = judging(&extending, append, || Transfer::new(&source, &sink).run());
    let Some(ran) = ran else { return };
    assert_eq!(ran.unwrap().bytes, 8 << 20);
    assert_eq!(calls, 1);
    let mut bytes = vec![0; appended.len()];
    sink.read_exact_at(&mut bytes, MIB as u64).unwrap();
    same_bytes(&bytes, &appended, "appended");
}

#[test]
fn read_confirms_the_end_after_a_splice_of_no_bytes() {
    let _watch = watch("read_confirms_the_end_after_a_splice_of_no_bytes");
    let splices = |case: &Case| case.way == Way::SpliceThrough;
    for case in cases().filter(splices) {
        for wait in [Wait::Block, Wait::Adaptive] {
            for nth in [1, 2, 3, 6] {
                let outcome = case.run_under(wait, |job| moving_nothing_once(case.calls, nth, job));
                let Some(outcome) = outcome else { return };
                all_right(outcome, &format!("{}, {wait:?}, 0 at {nth}", case.name));
            }
        }
    }
}

#[test]
fn repeated_signals_do_not_affect_a_transfer() {
    let _watch = watch("repeated_signals_do_not_affect_a_transfer");
    for case in cases() {
        let source = case.from.open(LEN).unwrap();
        let (sink, collected) = collected(case.to);
        let ran = thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _storm = Storm::over_this_thread();
                    TransferOptions::new()
                        .guarantee(case.guarantee)
                        .open(&source.fd, sink)
                        .run()
                })
                .join()
                .unwrap()
        });
        let outcome = Outcome {
            ran,
            left: Vec::new(),
            arrived: collected.all(),
        };
        all_right(outcome, case.name);
        source.close();
    }
}

/// Returns files of 1 MiB with O_DIRECT, one on each file system that supports it and then refuses to read a single
/// byte.
fn files_past_the_cache() -> Vec<(String, File)> {
    let directories = [
        std::env::temp_dir(),
        PathBuf::from("/var/tmp"),
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
    ];
    let open = |directory: PathBuf| {
        let mut named = tempfile::NamedTempFile::new_in(&directory).ok()?;
        named.write_all(&first(MIB)).ok()?;
        named.as_file().sync_all().ok()?;
        let direct = libc::O_DIRECT;
        let mut options = File::options();
        let file = options.read(true).custom_flags(direct).open(named.path());
        let file = file.ok()?;
        refuses_one_byte(&file).then(|| (directory.display().to_string(), file))
    };
    directories.into_iter().filter_map(open).collect()
}

#[test]
fn the_tail_of_a_file_that_is_read_past_the_page_cache_arrives() {
    let _watch = watch("the_tail_of_a_file_that_is_read_past_the_page_cache_arrives");
    const LEN: usize = 300_001;
    let directories = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    for directory in directories.iter().filter(|path| path.is_dir()) {
        let mut named = tempfile::NamedTempFile::new_in(directory).unwrap();
        named.write_all(&content()[..LEN]).unwrap();
        named.as_file().sync_all().unwrap();
        for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
            for to in [To::File, To::Memfd, To::Pipe, To::Unix] {
                let mut options = File::options();
                let direct = options.read(true).custom_flags(libc::O_DIRECT);
                let Ok(source) = direct.open(named.path()) else {
                    fullbore_tests::skipped("a file system refuses O_DIRECT here");
                    continue;
                };
                let (sink, collected) = collected(to);
                let ran = TransferOptions::new()
                    .guarantee(guarantee)
                    .open(&source, sink)
                    .run();
                let what = format!("{directory:?}, {to:?}, {guarantee:?}");
                let report = ran.unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert_eq!(report.bytes, LEN as u64, "{what}");
                same_bytes(&collected.all(), &content()[..LEN], &what);
            }
        }
    }
}

fn refuses_one_byte(file: &File) -> bool {
    rustix::io::pread(file, &mut [0; 1], 0) == Err(Errno::INVAL)
}

#[track_caller]
fn assert_side(outcome: Result<TransferReport, TransferFailure>, side: TransferSide, what: &str) {
    let error = outcome.unwrap_err().error;
    let is_so = matches!(error, Error::Moving { side: said, .. } if said == side);
    assert!(is_so, "{what}: {error:#}");
}

#[test]
fn a_file_that_is_read_in_whole_blocks_is_not_blamed_for_what_the_sink_says() {
    let files = files_past_the_cache();
    if files.is_empty() {
        fullbore_tests::skipped("no file system here refuses to read one byte past the page cache");
    }
    for (directory, file) in files {
        // From the start, and from the middle of a block.
        for offset in [0, 4096, 4099] {
            let run = |calls: &[libc::c_long]| {
                let sink = tempfile::tempfile().unwrap();
                let mut transfer = TransferOptions::new()
                    .source_offset(offset)
                    .open(&file, &sink);
                judging(calls, |_| Some(Errno::IO), || transfer.run())
            };
            let copy = libc::SYS_copy_file_range;
            let (Some(sinks), Some(sources)) = (run(&[copy]), run(&[copy, libc::SYS_pread64]))
            else {
                return;
            };
            let what = format!("{directory}, {offset}");
            assert_side(sinks, TransferSide::Sink, &what);
            assert_side(sources, TransferSide::Source, &what);
        }
    }
}

/// Returns a loop device with the first bytes of the stream and O_DIRECT, which refuses to read a single byte, and an
/// object that has to stay open meanwhile.
fn device_past_the_cache() -> Option<(File, Source)> {
    let Some(source) = From::Block.open(MOST) else {
        fullbore_tests::skipped("no loop device can be attached here");
        return None;
    };
    // The same device, with a separate description.
    let direct = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", source.fd.as_raw_fd()));
    match direct {
        Ok(direct) if refuses_one_byte(&direct) => Some((direct, source)),
        _ => {
            fullbore_tests::skipped(
                "the loop device cannot be read past the page cache in whole blocks",
            );
            None
        }
    }
}

/// sendfile(2) is the only method from a block device whose errors do not show their side.
#[test]
fn a_block_device_that_is_read_in_whole_blocks_is_not_blamed_for_what_the_sink_says() {
    let Some((direct, _source)) = device_past_the_cache() else {
        return;
    };
    let run = |calls: &[libc::c_long]| {
        let (socket, peer) = UnixStream::pair().unwrap();
        let reading = thread::spawn(move || std::io::copy(&mut &peer, &mut std::io::sink()));
        let mut transfer = TransferOptions::new()
            .guarantee(Guarantee::Reference)
            .source_offset(0)
            .open(&direct, socket);
        let outcome = judging(calls, |_| Some(Errno::IO), || transfer.run());
        drop(transfer);
        reading.join().unwrap().unwrap();
        outcome
    };
    let send = libc::SYS_sendfile;
    let Some(outcome) = run(&[send]) else { return };
    let is_sendfile = |failure: &TransferFailure| {
        matches!(
            failure.error,
            Error::Moving {
                operation: "sendfile",
                side: TransferSide::Sink,
                ..
            }
        )
    };
    assert!(outcome.as_ref().is_err_and(is_sendfile), "{outcome:?}");
}

#[test]
fn a_block_device_is_read_past_the_page_cache_by_all_that_read() {
    let Some((direct, _source)) = device_past_the_cache() else {
        return;
    };
    let rewound = || {
        (&direct).rewind().unwrap();
        &direct
    };
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        let sink = memfd();
        let transfer = TransferOptions::new()
            .guarantee(guarantee)
            .open(rewound(), &sink)
            .run();
        assert_eq!(transfer.unwrap().bytes, MOST as u64);
        assert_device(sink, &format!("transfer, {guarantee:?}"));
    }
    let sink = memfd();
    let tee = Tee::new(rewound(), [(&sink, Policy::FAIL_ALL)]).run();
    assert_eq!(tee.unwrap().taken, MOST as u64);
    assert_device(sink, "tee");
    let mut bytes = Vec::new();
    let mut consumer = Consumer::new(rewound()).unwrap();
    loop {
        let read = consumer.fill_buf().unwrap();
        if read.is_empty() {
            break;
        }
        bytes.extend_from_slice(read);
        let n = read.len();
        consumer.consume(n);
    }
    same_bytes(&bytes, content(), "consumer");
}

#[track_caller]
fn assert_device(mut file: File, what: &str) {
    let mut bytes = Vec::with_capacity(MOST);
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    same_bytes(&bytes, content(), what);
}

#[test]
fn what_is_left_in_a_pseudo_terminal_that_says_its_slave_is_closed_is_read() {
    const LINE: &[u8] = b"the last line\n";
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        for wait in [Wait::Block, Wait::Poll] {
            let (Some((master, slave)), pipe) = (raw_pty(), Pipe::new().unwrap()) else {
                fullbore_tests::skipped("no pseudo-terminal here");
                return;
            };
            rustix::io::write(&slave, LINE).unwrap();
            drop(slave);
            let mut transfer = TransferOptions::new()
                .guarantee(guarantee)
                .wait(wait)
                .open(&master, &pipe.writer);
            let calls = [libc::SYS_read, libc::SYS_preadv2, libc::SYS_splice];
            let Some(ran) = failing_once(&calls, 1, Errno::IO, || transfer.run()) else {
                return;
            };
            // The next EIO is the end.
            let failure = ran.unwrap_err();
            assert!(matches!(
                failure.error,
                Error::Moving {
                    side: TransferSide::Source,
                    ..
                }
            ));
            assert_eq!(failure.error.raw_os_error(), Some(libc::EIO));
            assert_eq!(failure.report.bytes, LINE.len() as u64);
            let mut got = [0; 99];
            let n = rustix::io::read(&pipe.reader, &mut got).unwrap();
            assert_eq!(&got[..n], LINE, "{guarantee:?} {wait:?}");
        }
    }
}

/// The kernel reports such an error of a socket once (`EACCES` after a message of ICMPv6), and then the end.
#[test]
fn a_pending_error_that_looks_like_a_refusal_is_a_failure_and_no_end() {
    let _watch = watch("an error that looks like a refusal");
    let bytes = &content()[..100_000];
    let run = |to_socket: bool| {
        let (source, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(bytes).unwrap();
        drop(peer);
        let (sink, reader): (OwnedFd, OwnedFd) = match to_socket {
            true => UnixStream::pair().map(|(a, b)| (a.into(), b.into())),
            false => Ok(Pipe::new().map(|pipe| (pipe.writer, pipe.reader)).unwrap()),
        }
        .unwrap();
        let reading = thread::spawn(move || {
            let mut got = Vec::new();
            File::from(reader).read_to_end(&mut got).unwrap();
            got
        });
        let job = move || {
            TransferOptions::new()
                .guarantee(Guarantee::Reference)
                .open(&source, sink)
                .run()
        };
        (job, reading)
    };
    for to_socket in [false, true] {
        let mut failed = 0;
        for nth in 0..40 {
            let (job, reading) = run(to_socket);
            let Some(moved) = failing_once(SPLICE, nth, Errno::ACCESS, job) else {
                return;
            };
            let got = reading.join().unwrap();
            match moved {
                Ok(report) => assert_eq!(report.bytes, 100_000, "{nth}"),
                Err(TransferFailure { error, report, .. }) => {
                    failed += 1;
                    let Error::Moving { errno, side, .. } = error else {
                        panic!("{nth}: {error}");
                    };
                    assert_eq!(
                        (errno.raw_os_error(), side),
                        (Some(libc::EACCES), TransferSide::Source)
                    );
                    assert_eq!(report.bytes, 100_000, "{nth}");
                }
            }
            same_bytes(&got, bytes, &format!("{nth}"));
        }
        assert_eq!(failed, 1, "only the one after the last byte");
        let (job, reading) = run(to_socket);
        let always = crate::common::calls::refusing(SPLICE, Errno::ACCESS, job).unwrap();
        assert_eq!(always.unwrap().ended, EndReason::AtEnd);
        same_bytes(&reading.join().unwrap(), bytes, "refused");
    }
}

/// The kernel reports the pending error of a socket once (`EACCES` after a message of ICMPv6), and then an end.
#[test]
fn a_pending_error_of_a_call_that_must_not_wait_is_no_end_and_no_reader_that_has_gone() {
    let far = std::time::Instant::now() + std::time::Duration::from_secs(3600);
    let pair = || std::os::unix::net::UnixStream::pair().unwrap();
    for options in [
        TransferOptions::new().deadline(far),
        TransferOptions::new().plain(true),
    ] {
        let waits = options.clone();
        let (source, peer) = pair();
        drop(peer);
        let sink = tempfile::tempfile().unwrap();
        let (read, write) = ([libc::SYS_recvfrom, libc::SYS_read], [libc::SYS_sendto]);
        let failed = failing_once(&read, 1, Errno::ACCESS, || {
            waits.open(&source, &sink).run().unwrap_err()
        });
        let Some(failed) = failed else { return };
        assert_eq!(failed.error.raw_os_error(), Some(libc::EACCES));

        let ((sink, peer), source) = (pair(), targets::stored(b"some bytes"));
        drop(peer);
        let failed = failing_once(&write, 1, Errno::ACCESS, || {
            options.open(&source, &sink).run().unwrap_err()
        });
        assert_eq!(failed.unwrap().error.raw_os_error(), Some(libc::EACCES));
    }
}

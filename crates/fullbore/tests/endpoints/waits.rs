//! What ends a wait: the timeout of a socket, a deadline, a cancel; and which processes are not blocked meanwhile.

use std::fs::File;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::calls::judging;
use crate::common::ends::{fifo, tcp_pair};
use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{
    Cancel, ConsumerOptions, EndReason, Error, Guarantee, Pipe, ProducerOptions, Stopped,
    TeeOptions, Transfer, TransferFailure, TransferOptions, TransferReport, TransferSide, Wait,
    Way,
};
use fullbore_linux::Waiter;
use fullbore_linux::{self as linux, Calls, Errno};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustix::thread::Pid;

const BOTH: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

/// The waits that sleep.
const SLEEPING: [Wait; 3] = [Wait::Block, Wait::Poll, Wait::Adaptive];

const A_MOMENT: Duration = Duration::from_millis(20);

/// Returns both ends of two connections; the first ends have timeouts, and the second neither write nor read.
fn sockets() -> [(OwnedFd, OwnedFd); 2] {
    let unix = UnixStream::pair().unwrap();
    unix.0.set_read_timeout(Some(A_MOMENT)).unwrap();
    unix.0.set_write_timeout(Some(A_MOMENT)).unwrap();
    let tcp = tcp_pair();
    tcp.0.set_read_timeout(Some(A_MOMENT)).unwrap();
    tcp.0.set_write_timeout(Some(A_MOMENT)).unwrap();
    [(unix.0.into(), unix.1.into()), (tcp.0.into(), tcp.1.into())]
}

/// Returns a file larger than the buffers of any socket here.
fn much() -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&first(32 * MIB)).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file
}

#[track_caller]
fn would_block(error: &Error, on: TransferSide, what: &str) {
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{what}: {error:#}");
    assert!(
        matches!(error, Error::Moving { side, .. } if *side == on),
        "{what}: {error:#}"
    );
}

#[test]
fn the_timeout_of_a_socket_ends_a_consumer() {
    let _watch = watch("the_timeout_of_a_socket_ends_a_consumer");
    for wait in SLEEPING {
        for (ours, _theirs) in sockets() {
            let mut consumer = ConsumerOptions::new().wait(wait).open(ours).unwrap();
            let error = consumer.read(&mut [0; 10]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{wait:?}");
            assert_eq!(error.raw_os_error(), Some(Errno::AGAIN.raw_os_error()));
        }
    }
}

#[test]
fn the_timeout_of_a_socket_ends_a_producer() {
    let _watch = watch("the_timeout_of_a_socket_ends_a_producer");
    for wait in SLEEPING {
        for (ours, _theirs) in sockets() {
            let mut out = ProducerOptions::new().wait(wait).open(ours).unwrap();
            let error = send(&mut out, 0, 32 << 20, 100_000).unwrap_err();
            would_block(&error, TransferSide::Sink, "producer");
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{wait:?}");
        }
    }
}

#[test]
fn the_timeout_of_a_socket_ends_a_transfer_from_it_and_into_it() {
    let _watch = watch("the_timeout_of_a_socket_ends_a_transfer_from_it_and_into_it");
    for guarantee in BOTH {
        for wait in SLEEPING {
            let what = format!("{guarantee:?} {wait:?}");
            for (ours, _theirs) in sockets() {
                let sink = Pipe::new().unwrap();
                let failure = TransferOptions::new()
                    .guarantee(guarantee)
                    .wait(wait)
                    .open(ours, &sink.writer)
                    .run()
                    .unwrap_err();
                would_block(&failure.error, TransferSide::Source, &what);
            }
            for (ours, theirs) in sockets() {
                let mut transfer = TransferOptions::new()
                    .guarantee(guarantee)
                    .wait(wait)
                    .open(much(), ours);
                let failure = transfer.run().unwrap_err();
                would_block(&failure.error, TransferSide::Sink, &what);
                // Bytes in flight are not lost, nor any others.
                let (mut rest, ours, under_way) = transfer.into_parts().unwrap();
                drop(ours);
                let mut arrived = Vec::new();
                File::from(theirs).read_to_end(&mut arrived).unwrap();
                assert_eq!(arrived.len() as u64, failure.report.bytes, "{what}");
                arrived.extend(under_way);
                rest.read_to_end(&mut arrived).unwrap();
                assert!(arrived == first(32 * MIB), "{what}");
            }
            // Out of a pipe, and through a private pipe if references are passed on.
            for (ours, _theirs) in sockets() {
                let source = Pipe::new().unwrap();
                let feeding = feed(source.writer, 32 * MIB);
                let failure = TransferOptions::new()
                    .guarantee(guarantee)
                    .wait(wait)
                    .open(source.reader, ours)
                    .run()
                    .unwrap_err();
                would_block(&failure.error, TransferSide::Sink, &what);
                feeding.join().unwrap();
            }
        }
    }
}

/// Writes until no reader is left.
fn feed(writer: OwnedFd, len: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || drop(File::from(writer).write_all(&first(len))))
}

#[test]
fn the_timeout_of_a_socket_ends_a_tee_from_it_and_drops_one_of_its_sinks() {
    let _watch = watch("the_timeout_of_a_socket_ends_a_tee_from_it_and_drops_one_of_its_sinks");
    for wait in SLEEPING {
        let what = format!("{wait:?}");
        for (ours, _theirs) in sockets() {
            let sink = Pipe::new().unwrap();
            let failure = TeeOptions::new()
                .wait(wait)
                .open(ours, [(&sink.writer, Policy::FAIL_ALL)])
                .run()
                .unwrap_err();
            would_block(&failure.error, TransferSide::Source, &what);
        }
        for (ours, _theirs) in sockets() {
            let file = tempfile::tempfile().unwrap();
            let report = TeeOptions::new()
                .wait(wait)
                .open(
                    much(),
                    [
                        (ours.as_fd(), Policy::DROP),
                        (file.as_fd(), Policy::FAIL_ALL),
                    ],
                )
                .run()
                .unwrap_or_else(|e| panic!("{what}: {e:#}"));
            would_block(
                report.sinks[0].error.as_ref().unwrap(),
                TransferSide::Sink,
                &what,
            );
            assert_eq!(report.sinks[1].bytes, 32 << 20, "{what}");
        }
    }
}

#[test]
fn a_socket_that_does_not_block_has_no_timeout() {
    let _watch = watch("a_socket_that_does_not_block_has_no_timeout");
    for wait in ALL_WAITS {
        for (ours, theirs) in sockets() {
            set_nonblocking(&ours);
            let late = thread::spawn(move || {
                thread::sleep(4 * A_MOMENT);
                File::from(theirs).write_all(b"late").unwrap();
            });
            let mut text = String::new();
            ConsumerOptions::new()
                .wait(wait)
                .open(ours)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "late", "{wait:?}");
            late.join().unwrap();
        }
    }
}

#[test]
fn a_deadline_ends_every_wait_and_loses_nothing() {
    let _watch = watch("a_deadline_ends_every_wait_and_loses_nothing");
    for wait in ALL_WAITS {
        for guarantee in BOTH {
            let what = format!("{wait:?} {guarantee:?}");
            let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
            let mut transfer = TransferOptions::new()
                .guarantee(guarantee)
                .wait(wait)
                .deadline(Instant::now() + A_MOMENT)
                .open(&source.reader, &sink.writer);
            let report = transfer.run().unwrap();
            assert_eq!(report.ended, EndReason::TimedOut, "{what}");
            rustix::io::write(&source.writer, b"then").unwrap();
            // A deadline that has passed stops it before its first call.
            assert_eq!(transfer.run().unwrap().ended, EndReason::TimedOut, "{what}");
            assert_eq!(queued(&source.reader), 4);
            drop(source.writer);
            transfer.set_deadline(None);
            let report = transfer.run().unwrap();
            assert_eq!(
                (report.ended, report.bytes),
                (EndReason::AtEnd, 4),
                "{what}"
            );
        }
        let what = format!("{wait:?}");
        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let mut tee = TeeOptions::new()
            .wait(wait)
            .deadline(Instant::now() + A_MOMENT)
            .open(&source.reader, [(&sink.writer, Policy::FAIL_ALL)]);
        assert_eq!(tee.run().unwrap().ended, EndReason::TimedOut, "{what}");
        rustix::io::write(&source.writer, b"then").unwrap();
        drop(source.writer);
        tee.set_deadline(None);
        let report = tee.run().unwrap();
        assert_eq!(
            (report.ended, report.taken),
            (EndReason::AtEnd, 4),
            "{what}"
        );
        assert_eq!(queued(&sink.reader), 4, "{what}");
        let source = Pipe::new().unwrap();
        let options = ConsumerOptions::new().wait(wait);
        let mut consumer = options
            .deadline(Instant::now() + A_MOMENT)
            .open(&source.reader)
            .unwrap();
        let error = consumer.read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{wait:?}");
        assert!(matches!(
            error.downcast(),
            Ok(Error::Stopped {
                by: Stopped::TimedOut,
                moved: 0,
                ..
            })
        ));
        consumer.set_deadline(None);
        rustix::io::write(&source.writer, b"then").unwrap();
        assert_eq!(consumer.read(&mut [0; 9]).unwrap(), 4);
    }
}

#[test]
fn a_cancel_ends_the_wait_of_a_consumer_and_loses_nothing() {
    let _watch = watch("a_cancel_ends_the_wait_of_a_consumer_and_loses_nothing");
    #[track_caller]
    fn assert_cancelled(error: std::io::Error, taken: u64) {
        assert_eq!(
            error.kind(),
            ErrorKind::Other,
            "callers repeat no call after it"
        );
        let error = inner(error);
        assert!(
            matches!(error, Error::Stopped { by: Stopped::Cancelled, moved, .. } if moved == taken),
            "{error:?}"
        );
    }
    for wait in ALL_WAITS {
        let pipe = Pipe::new().unwrap();
        let cancel = Cancel::new().unwrap();
        let options = ConsumerOptions::new().wait(wait).cancel(&cancel);
        let mut consumer = options.open(pipe.reader).unwrap();
        rustix::io::write(&pipe.writer, b"half a line").unwrap();
        let cancelling = thread::spawn(move || {
            thread::sleep(A_MOMENT);
            cancel.cancel();
        });
        let mut line = Vec::new();
        assert_cancelled(consumer.read_until(b'\n', &mut line).unwrap_err(), 11);
        assert_eq!(line, b"half a line", "{wait:?}");
        cancelling.join().unwrap();
        // What comes later stays in the pipe.
        rustix::io::write(&pipe.writer, b", and the rest\n").unwrap();
        assert_cancelled(consumer.read(&mut [0; 9]).unwrap_err(), 11);
        let error = consumer.discard(9).unwrap_err();
        assert_cancelled(error.into(), 11);
        drop(pipe.writer);
        let (rest, begun) = consumer.into_parts();
        assert!(begun.is_empty());
        File::from(rest).read_to_end(&mut line).unwrap();
        assert_eq!(line, b"half a line, and the rest\n", "{wait:?}");
    }
}

#[test]
fn what_a_consumer_has_read_before_a_cancel_can_be_had_after_it() {
    for wait in ALL_WAITS {
        let pipe = Pipe::new().unwrap();
        let cancel = Cancel::new().unwrap();
        let options = ConsumerOptions::new().wait(wait).cancel(&cancel);
        let mut consumer = options.open(pipe.reader).unwrap();
        rustix::io::write(&pipe.writer, b"0123456789").unwrap();
        consumer.read_exact(&mut [0; 3]).unwrap();
        cancel.cancel();
        assert_eq!(consumer.fill_buf().unwrap(), b"3456789", "{wait:?}");
        consumer.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(consumer.discard(1).unwrap(), 1);
        assert_eq!(consumer.into_parts().1, b"6789", "{wait:?}");
    }
}

#[test]
fn ecanceled_of_the_kernel_is_not_a_cancellation() {
    let cancel = Cancel::new().unwrap();
    for errno in [Errno::CANCELED, Errno::TIMEDOUT] {
        let mut waiter = Waiter::new(Wait::Poll);
        waiter.cancel = Some(cancel.clone());
        let answer: Result<(), _> = waiter.until(|| Err(errno), |_| Ok(()));
        assert_eq!((answer, waiter.stopped()), (Err(errno), None));
    }
    cancel.cancel();
    let mut waiter = Waiter::new(Wait::Poll);
    waiter.cancel = Some(cancel.clone());
    let answer = waiter.until(|| Ok(()), |_| Ok(()));
    assert_eq!(answer, Err(Errno::CANCELED));
    assert_eq!(waiter.stopped(), Some(Stopped::Cancelled));
}

#[test]
fn a_nonblocking_tee_names_the_sinks_without_room_and_continues() {
    let _watch = watch("a_nonblocking_tee_names_the_sinks_without_room_and_continues");
    let bytes = first(3 * MIB);
    let (source, left) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let (right, mut rights_peer) = UnixStream::pair().unwrap();
    rights_peer.set_nonblocking(true).unwrap();
    let mut tee = TeeOptions::new().nonblocking(true).open(
        source.reader,
        [
            (OwnedFd::from(right), Policy::FAIL_ALL),
            (left.writer, Policy::FAIL_ALL),
        ],
    );
    for (fd, name) in [(source.writer.as_fd(), "in"), (left.reader.as_fd(), "left")] {
        set_nonblocking(&fd);
        assert!(fullbore_linux::pipe::of(&fd).unwrap().is_some(), "{name}");
    }
    let (mut input, mut lefts_peer) = (
        Some(File::from(source.writer)),
        File::from(left.reader.try_clone().unwrap()),
    );
    let (mut sent, mut got) = (0, [Vec::new(), Vec::new()]);
    let mut waited = [false; 3];
    loop {
        let report = tee.run().unwrap_or_else(|e| panic!("{e:#}"));
        match report.ended {
            EndReason::AtEnd => break,
            EndReason::WouldBlock(TransferSide::Source) => {
                waited[0] = true;
                match &mut input {
                    Some(file) if sent < bytes.len() => {
                        sent += file.write(&bytes[sent..]).unwrap_or(0);
                    }
                    _ => input = None,
                }
            }
            EndReason::WouldBlock(TransferSide::Sink) => {
                assert!(report.sinks.iter().any(|sink| sink.would_block));
                let mut room = vec![0; 300_000];
                for (i, sink) in report.sinks.iter().enumerate() {
                    if sink.would_block {
                        waited[i + 1] = true;
                        let n = match i {
                            0 => rights_peer.read(&mut room),
                            _ => lefts_peer.read(&mut room),
                        };
                        got[i].extend_from_slice(&room[..n.unwrap_or(0)]);
                    }
                }
            }
            ended => panic!("{ended:?}"),
        }
    }
    assert!(waited[0] && waited[1], "{waited:?}");
    drop(tee);
    rights_peer.set_nonblocking(false).unwrap();
    rights_peer.read_to_end(&mut got[0]).unwrap();
    lefts_peer.read_to_end(&mut got[1]).unwrap();
    assert!(got[0] == bytes && got[1] == bytes);
}

/// Returns how often a thread of this process has gone to sleep, if it sleeps now; an error if /proc does not show it.
fn sleeps(thread: Pid) -> std::io::Result<Option<u64>> {
    let path = format!("/proc/self/task/{}/status", thread.as_raw_nonzero());
    let status = std::fs::read_to_string(path)?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("", str::trim).to_owned()
    };
    let times = value("voluntary_ctxt_switches:").parse();
    let is_asleep = value("State:").starts_with(['S', 'D']);
    Ok(times.ok().filter(|_| is_asleep))
}

/// Waits until a thread sleeps that has slept `times` before; returns how often it has slept by then.
fn until_it_sleeps(thread: Pid, times: u64) -> Option<u64> {
    loop {
        match sleeps(thread) {
            Ok(Some(now)) if now > times => return Some(now),
            Ok(_) => thread::yield_now(),
            Err(error) => {
                fullbore_tests::skipped(&format!("/proc does not show threads: {error}"));
                return None;
            }
        }
    }
}

/// Runs a transfer on a separate thread, and returns that thread.
fn moving<Source, Sink>(mut transfer: Transfer<Source, Sink>) -> (JoinHandle<Ran>, Pid)
where
    Source: AsFd + Send + 'static,
    Sink: AsFd + Send + 'static,
{
    let (tell, told) = mpsc::channel();
    let moving = thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        transfer.run()
    });
    (moving, told.recv().unwrap())
}

type Ran = Result<TransferReport, TransferFailure>;

#[test]
fn a_stalled_socket_does_not_block_writers_of_the_source() {
    let _watch = watch("a_stalled_socket_does_not_block_writers_of_the_source");
    let source = Pipe::new().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = source.reader;
    let transfer = TransferOptions::new()
        .guarantee(Guarantee::Reference)
        .open(reader, ours);
    let (moving, mover) = moving(transfer);
    set_nonblocking(&source.writer);
    // Until nothing fits into the socket, the private pipe, and the source.
    let piece = first(64 * 1024);
    let mut full = 0;
    while full < 5 {
        match rustix::io::write(&source.writer, &piece) {
            Ok(_) => full = 0,
            Err(Errno::AGAIN) => {
                full += 1;
                thread::sleep(A_MOMENT);
            }
            Err(errno) => panic!("{errno}"),
        }
    }
    // It cannot continue, so it stays asleep.
    if until_it_sleeps(mover, 0).is_none() {
        return;
    }
    // All of these take the lock of the pipe.
    let end = fullbore_linux::pipe::of(&source.writer).unwrap().unwrap();
    assert!(end.capacity().unwrap() > 0 && end.queued().unwrap() > 0);
    drop(theirs);
    let failure = moving.join().unwrap().unwrap_err();
    let sink_failed = |error: &Error| {
        matches!(
            error,
            Error::Moving {
                side: TransferSide::Sink,
                ..
            }
        )
    };
    assert!(sink_failed(&failure.error), "{failure:#}");
}

#[test]
fn a_line_that_was_typed_is_delivered_before_the_next_comes() {
    let _watch = watch("a_line_that_was_typed_is_delivered_before_the_next_comes");
    let Some((master, slave)) = raw_pty() else {
        fullbore_tests::skipped("no pseudo-terminal here");
        return;
    };
    let pipe = Pipe::new().unwrap();
    let writer = pipe.writer;
    let transfer = TransferOptions::new()
        .guarantee(Guarantee::Reference)
        .limit(40 * 5)
        .open(slave, writer);
    let (moving, mover) = moving(transfer);
    let mut slept = 0;
    for i in 0..40 {
        let line = format!("{i:4}\n");
        match until_it_sleeps(mover, slept) {
            Some(times) => slept = times,
            None => return,
        }
        rustix::io::write(&master, line.as_bytes()).unwrap();
        // It has the line, and waits for the next; there is none after the last.
        if i < 39 && until_it_sleeps(mover, slept).is_none() {
            return;
        }
        let mut got = [0; 5];
        let n = rustix::io::read(&pipe.reader, &mut got).unwrap();
        assert_eq!(&got[..n], line.as_bytes());
    }
    assert_eq!(moving.join().unwrap().unwrap().bytes, 200);
}

#[test]
fn calls_on_another_fd_do_not_use_the_previous_terminal() {
    let (Some((_master, slave)), pipe) = (raw_pty(), Pipe::new().unwrap()) else {
        fullbore_tests::skipped("no pseudo-terminal here");
        return;
    };
    for wait in [Wait::Poll, Wait::Adaptive] {
        let mut calls = Calls::new(wait);
        assert_eq!(calls.write(slave.as_fd(), b"to the terminal"), Ok(15));
        assert_eq!(calls.write(pipe.writer.as_fd(), b"to the pipe"), Ok(11));
        assert_eq!(queued(&pipe.reader), 11);
        // The same number, but another file.
        let number = slave.try_clone().unwrap();
        assert_eq!(calls.write(number.as_fd(), b"to the terminal"), Ok(15));
        let mut number = number;
        rustix::io::dup2(&pipe.writer, &mut number).unwrap();
        assert_eq!(calls.write(number.as_fd(), b"to the pipe"), Ok(11));
        assert_eq!(queued(&pipe.reader), 22);
        rustix::io::read(&pipe.reader, &mut [0; 99]).unwrap();
    }
}

/// Installs a handler of SIGUSR1 that does nothing and restarts no call.
fn handle_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: zeros are a valid `sigaction`, and the handler only returns.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
}

/// Makes a call while signals arrive at this thread.
fn under_signals<T>(call: impl FnOnce() -> T) -> T {
    handle_signals();
    let (me, done) = (
        // SAFETY: it has no conditions.
        unsafe { libc::pthread_self() },
        AtomicBool::new(false),
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                // SAFETY: this thread waits for the other one.
                unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
                thread::sleep(Duration::from_millis(1));
            }
        });
        let answer = call();
        done.store(true, Ordering::Release);
        answer
    })
}

#[test]
fn a_signal_ends_the_wait_of_what_is_interruptible_and_nothing_is_lost() {
    for wait in SLEEPING {
        let pipe = Pipe::new().unwrap();
        let options = ConsumerOptions::new().wait(wait).interruptible(true);
        let mut consumer = options.open(&pipe.reader).unwrap();
        let error = under_signals(|| consumer.fill_buf().map(<[u8]>::len)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{wait:?}");
        rustix::io::write(&pipe.writer, b"here").unwrap();
        assert_eq!(consumer.fill_buf().unwrap(), b"here");

        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let mut transfer = TransferOptions::new()
            .wait(wait)
            .interruptible(true)
            .open(&source.reader, &sink.writer);
        let ended = under_signals(|| transfer.run().map(|report| report.ended));
        assert_eq!(ended.unwrap(), EndReason::Interrupted, "{wait:?}");
        File::from(source.writer).write_all(b"hello").unwrap();
        assert_eq!(transfer.run().unwrap().ended, EndReason::AtEnd);
        assert_eq!(
            fullbore_linux::pipe::of(&sink.reader)
                .unwrap()
                .unwrap()
                .queued()
                .unwrap(),
            5
        );

        let pipe = Pipe::new().unwrap();
        // More than fits into any pipe of 1 MiB.
        let bytes: Vec<u8> = (0..20u32 << 20).map(|i| (i % 251) as u8).collect();
        let options = ProducerOptions::new().wait(wait).interruptible(true);
        let mut out = options.open(pipe.writer).unwrap();
        let mut written = 0;
        let error = under_signals(|| {
            loop {
                match out.write(&bytes[written..]) {
                    Ok(n) => written += n,
                    Err(error) => break error,
                }
            }
        });
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{wait:?}");
        let mut reader = File::from(pipe.reader);
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        out.write_all(&bytes[written..]).unwrap();
        assert_eq!(out.finish().unwrap().bytes, bytes.len() as u64);
        assert!(reading.join().unwrap().unwrap() == bytes, "{wait:?}");
    }
}

#[test]
fn a_signal_that_cuts_a_write_short_ends_the_next_wait() {
    let pipe = Pipe::new().unwrap();
    let mut out = ProducerOptions::new()
        .interruptible(true)
        .way(Way::Copy)
        .open(pipe.writer)
        .unwrap();
    // More than fits into any pipe of 1 MiB.
    let bytes = vec![7; 20 << 20];
    let written = under_signals(|| out.write(&bytes)).unwrap();
    assert!(written < bytes.len());
    let error = out.write(&bytes[written..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    drop(pipe.reader);
    let error = out.write(&bytes[written..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

/// Makes a call, and sends one signal to this thread once it waits in one of these system calls, which must not end by
/// itself; `None` if /proc does not show in which call a thread is.
fn under_one_signal<T>(system_calls: &[libc::c_long], call: impl FnOnce() -> T) -> Option<T> {
    handle_signals();
    // SAFETY: neither has preconditions.
    let (process, me) = unsafe { (libc::getpid(), libc::gettid()) };
    let read = |name| std::fs::read_to_string(format!("/proc/self/task/{me}/{name}"));
    if let Err(error) = read("syscall") {
        fullbore_tests::skipped(&format!("no system calls in /proc: {error}"));
        return None;
    }
    let waits = || {
        let (call, state) = (read("syscall").unwrap(), read("stat").unwrap());
        let number = call.split(' ').next().unwrap().parse();
        // A thread that waits for a lock or for memory is in another state.
        let sleeps = state.rsplit(") ").next().unwrap().starts_with('S');
        number.is_ok_and(|number| system_calls.contains(&number)) && sleeps
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if waits() {
                    // SAFETY: this thread waits for the other one.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, me, libc::SIGUSR1) };
                    return;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let answer = call();
        done.store(true, Ordering::Release);
        Some(answer)
    })
}

#[test]
fn one_signal_ends_the_wait_of_a_producer_that_has_sent_something_through_a_socket() {
    let _watch = watch("one_signal_ends_the_wait_of_a_producer");
    let pipe = Pipe::new().unwrap();
    // The contents of the socket do not fit, whether a page or a run of pages is moved at a time.
    let end = fullbore_linux::pipe::of(&pipe.writer).unwrap().unwrap();
    end.resize(linux::page_size()).unwrap();
    let options = ProducerOptions::new().interruptible(true).pipe_size(0);
    let mut out = options.way(Way::Socket).open(pipe.writer).unwrap();
    let bytes = first(MIB);
    // It uses write(2) where pages are as long as the runs of a socket.
    let calls = [libc::SYS_ppoll, libc::SYS_write];
    let Some(written) = under_one_signal(&calls, || out.write(&bytes)) else {
        return;
    };
    let written = written.unwrap();
    assert!(written > 0 && written < bytes.len(), "{written}");
    let error = out.write(&bytes[written..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
    out.write_all(&bytes[written..]).unwrap();
    assert_eq!(out.finish().unwrap().bytes, MIB as u64);
    assert_eq!(reading.join().unwrap(), MIB as u64);
}

#[test]
fn one_signal_ends_the_wait_of_a_transfer_that_has_sent_something_into_a_socket() {
    let _watch = watch("one_signal_ends_the_wait_of_a_transfer_into_a_socket");
    for guarantee in BOTH {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut transfer = TransferOptions::new()
            .guarantee(guarantee)
            .interruptible(true)
            .open(much(), ours);
        // The call depends on the guarantee, and on whether there are huge pages.
        let calls = [libc::SYS_ppoll, libc::SYS_sendfile, libc::SYS_sendto];
        let ended = under_one_signal(&calls, || transfer.run().map(|report| report.ended));
        let Some(ended) = ended else { return };
        assert_eq!(ended.unwrap(), EndReason::Interrupted, "{guarantee:?}");
        let reading = Reader::Quick.spawn(theirs.into(), Checker::of_the_stream());
        let report = transfer.run().unwrap();
        assert_eq!(report.ended, EndReason::AtEnd, "{guarantee:?}");
        drop(transfer);
        assert_eq!(reading.join().unwrap(), 32 * MIB as u64);
    }
}

#[test]
fn one_signal_ends_the_wait_of_a_transfer_from_a_pipe_into_a_socket() {
    let _watch = watch("one_signal_ends_the_wait_of_a_transfer_from_a_pipe_into_a_socket");
    const BEGIN: usize = 64 * 1024;
    const ALL: usize = 4 * BEGIN;
    let (source, growth) = fullbore_linux::pipe::with_capacity(ALL).unwrap();
    if growth.after < ALL {
        fullbore_tests::skipped(&format!("no pipe of {ALL} bytes is to be had"));
        return;
    }
    assert_eq!(rustix::io::write(&source.writer, &first(ALL)), Ok(ALL));
    drop(source.writer);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut transfer = TransferOptions::new()
        .guarantee(Guarantee::Reference)
        .limit(BEGIN as u64)
        .interruptible(true)
        .open(&source.reader, &ours);
    let mut theirs = File::from(OwnedFd::from(theirs));
    let mut got = vec![0; ALL];
    thread::scope(|scope| {
        scope.spawn(|| theirs.read_exact(&mut got[..BEGIN]).unwrap());
        // From here on, bytes are passed on by reference.
        assert_eq!(transfer.run().unwrap().ended, EndReason::AtLimit);
    });
    // It accepts only a part of the references in one call.
    sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
    transfer.set_limit(ALL as u64);
    let ended = under_one_signal(&[libc::SYS_ppoll], || {
        transfer.run().map(|report| report.ended)
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.unwrap(), EndReason::Interrupted);
    thread::scope(|scope| {
        scope.spawn(|| theirs.read_exact(&mut got[BEGIN..]).unwrap());
        assert_eq!(transfer.run().unwrap().ended, EndReason::AtLimit);
    });
    assert!(got == first(ALL));
}

#[test]
fn a_short_count_at_the_end_of_a_file_is_not_a_signal() {
    let file = targets::stored(&first(100_000));
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut transfer = TransferOptions::new()
        .guarantee(Guarantee::Reference)
        .interruptible(true)
        .open(file, ours);
    let reading = Reader::Quick.spawn(theirs.into(), Checker::of_the_stream());
    assert_eq!(transfer.run().unwrap().ended, EndReason::AtEnd);
    drop(transfer);
    assert_eq!(reading.join().unwrap(), 100_000);
}

#[test]
fn what_a_producer_has_room_for_needs_no_call() {
    let pipe = Pipe::new().unwrap();
    let mut out = fullbore::Producer::new(&pipe.writer).unwrap();
    let room = out.room();
    out.write_all(&vec![7; room - 1]).unwrap();
    assert_eq!((out.report().calls, out.room()), (0, 1));
    out.write_all(&[7]).unwrap();
    assert!(out.report().calls > 0);
}

#[test]
fn a_nonblocking_consumer_honours_its_cancel_and_its_deadline() {
    let pipe = Pipe::new().unwrap();
    rustix::io::write(&pipe.writer, b"bytes").unwrap();
    let cancel = Cancel::new().unwrap();
    cancel.cancel();
    let options = ConsumerOptions::new().nonblocking(true);
    let mut consumer = options.clone().cancel(&cancel).open(&pipe.reader).unwrap();
    let error: Error = consumer.discard(1).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Stopped {
                by: Stopped::Cancelled,
                ..
            }
        ),
        "{error}"
    );
    let mut consumer = options.deadline(Instant::now()).open(&pipe.reader).unwrap();
    assert_eq!(
        consumer.read(&mut [0; 2]).unwrap_err().kind(),
        ErrorKind::TimedOut
    );
    consumer.set_deadline(None);
    assert_eq!(consumer.fill_buf().unwrap(), b"bytes");
}

/// Fills a socket until its time has come.
type UntilThen<'a> = dyn Fn(&std::net::TcpStream, Instant) + 'a;

/// Returns a connection whose socket is full and has a message in its error queue, so that poll(2) always returns at
/// once; `None` if the kernel makes no such message.
fn full_with_a_message_in_the_error_queue() -> Option<(std::net::TcpStream, std::net::TcpStream)> {
    let (ours, theirs) = tcp_pair();
    let flags: libc::c_int = 1 << 1 | 1 << 4 | 1 << 11; // TX_SOFTWARE, SOFTWARE, OPT_TSONLY
    // SAFETY: the option takes one int.
    let set = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&ours),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            4,
        )
    };
    (&ours).write_all(b"first").unwrap();
    let until = Instant::now() + Duration::from_secs(2);
    while set == 0 && Instant::now() < until {
        let mut fds = [rustix::event::PollFd::new(
            &ours,
            rustix::event::PollFlags::empty(),
        )];
        rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())).unwrap();
        if fds[0].revents().contains(rustix::event::PollFlags::ERR) {
            return Some((ours, theirs));
        }
        thread::sleep(Duration::from_millis(1));
    }
    fullbore_tests::skipped("no timestamps of sent packets here");
    None
}

#[test]
fn a_message_in_the_error_queue_neither_outlasts_a_deadline_nor_keeps_a_cpu_busy() {
    let _watch = watch("a_message_in_the_error_queue");
    let busy = || {
        let mut spent = std::mem::MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: the call fills the struct, for which zeros are valid.
        let spent = unsafe {
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, spent.as_mut_ptr());
            spent.assume_init()
        };
        Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
    };
    let last = Duration::from_millis(600);
    let transfer = |socket: &std::net::TcpStream, at| {
        let zeros = File::open("/dev/zero").unwrap();
        let report = TransferOptions::new()
            .deadline(at)
            .open(zeros, socket)
            .run()
            .unwrap();
        assert_eq!(report.ended, EndReason::TimedOut);
    };
    let tee = |socket: &std::net::TcpStream, at| {
        let zeros = File::open("/dev/zero").unwrap();
        let mut tee = TeeOptions::new()
            .deadline(at)
            .open(zeros, [(socket, Policy::FAIL_ALL)]);
        assert_eq!(tee.run().unwrap().ended, EndReason::TimedOut);
    };
    let producer = |socket: &std::net::TcpStream, at| {
        let mut out = ProducerOptions::new().deadline(at).open(socket).unwrap();
        let error = loop {
            if let Err(error) = out.write_all(&[0; 100_000]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let _ = out.into_parts();
    };
    let ways: [(&str, &UntilThen<'_>); 3] = [
        ("transfer", &transfer),
        ("tee", &tee),
        ("producer", &producer),
    ];
    for (name, way) in ways {
        let Some((ours, theirs)) = full_with_a_message_in_the_error_queue() else {
            return;
        };
        // Filling the socket costs CPU time, too, but not a whole CPU.
        let before = busy();
        way(&ours, Instant::now() + last);
        let spent = busy() - before;
        assert!(spent < last / 2, "{name}: {spent:?} of {last:?}");
        drop(theirs);
    }
}

/// Fills a FIFO, whatever its capacity.
fn fill(fifo: &File) {
    set_nonblocking(fifo);
    while rustix::io::write(fifo, &[0; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(fifo, rustix::fs::OFlags::empty()).unwrap();
}

#[test]
fn a_deadline_holds_where_another_process_is_faster() {
    let _watch = watch("a_deadline_holds_where_another_process_is_faster");
    // The other reader takes the byte, or the other writer the room, between poll(2) and the call that follows it.
    let (reader, writer) = fifo();
    let (other_reader, other_writer) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
    rustix::io::write(&writer, b"x").unwrap();
    let take = |_| {
        if linux::is_ready(other_reader.as_fd(), linux::Ready::ToRead).unwrap() {
            rustix::io::read(&other_reader, &mut [0; 1]).unwrap();
        }
        None
    };
    let at = Instant::now() + Duration::from_millis(300);
    let calls = [libc::SYS_read, libc::SYS_splice];
    let read = judging(&calls, take, || {
        let mut consumer = ConsumerOptions::new().deadline(at).open(&reader).unwrap();
        consumer.read(&mut [0; 2])
    });
    let Some(read) = read else { return };
    assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);

    let at = Instant::now() + Duration::from_millis(300);
    let calls = [libc::SYS_write, libc::SYS_splice];
    let take = |_| {
        fill(&other_writer);
        None
    };
    let wrote = judging(&calls, take, || {
        let mut out = ProducerOptions::new().deadline(at).open(&writer).unwrap();
        out.write_all(&[1; 4096]).unwrap();
        let error = out.flush().unwrap_err();
        let _ = out.into_parts();
        error
    });
    assert_eq!(wrote.unwrap().kind(), ErrorKind::TimedOut);
}

#[test]
fn bytes_through_a_fifo_with_a_deadline_are_right() {
    let _watch = watch("bytes_through_a_fifo_with_a_deadline_are_right");
    for len in [1, 100, 4096, 70_000, MIB] {
        let (reader, writer) = fifo();
        let at = Instant::now() + Duration::from_secs(300);
        let reading = thread::spawn(move || {
            let mut consumer = ConsumerOptions::new().deadline(at).open(reader).unwrap();
            let mut got = Vec::new();
            consumer.read_to_end(&mut got).unwrap();
            got
        });
        let options = ProducerOptions::new().deadline(at).way(Way::Copy);
        let mut out = options.open(writer).unwrap();
        for piece in first(MIB).chunks(len.max(1000)) {
            out.write_all(piece).unwrap();
            out.flush().unwrap();
        }
        out.finish().unwrap();
        assert!(reading.join().unwrap() == first(MIB), "{len}");
    }
}

/// How late calls return that have a deadline, at a FIFO that others read or write too: they take the bytes, or the room,
/// between the poll(2) and the call of this one. Prints how late they were: a machine may be slow, so this is no
/// assertion. Every call has to return.
#[test]
fn calls_at_a_fifo_that_others_use_return_at_their_deadline() {
    let _watch = watch("calls_at_a_fifo_that_others_use_return_at_their_deadline");
    let tries = match std::env::var_os("FULLBORE_TEST_LOAD") {
        None => 20,
        Some(_) => 1_000,
    };
    let mut late = Vec::new();
    for reads in [true, false] {
        let (reader, writer) = fifo();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            // Each has a description of its own that does not block, as another process would.
            let open = |end: &File, to_read: bool| {
                let mut options = File::options();
                options.read(to_read).write(!to_read);
                let options = options.custom_flags(libc::O_NONBLOCK);
                let path = format!("/proc/self/fd/{}", end.as_raw_fd());
                options.open(path).unwrap()
            };
            let use_up = |mut end: File, takes: bool, bytes: usize, wait: fn(&File)| {
                let over = &over;
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        wait(&end);
                        let _ = match takes {
                            true => end.read(&mut vec![0; bytes]),
                            false => end.write(&vec![0; bytes]),
                        };
                    }
                });
            };
            // One takes a byte as soon as there is one, or puts some in as soon as there is room.
            let (end, bytes) = if reads { (&reader, 1) } else { (&writer, 4096) };
            use_up(open(end, reads), reads, bytes, |end| {
                let events = PollFlags::IN | PollFlags::OUT;
                let at_most = Timespec::try_from(Duration::from_millis(10)).unwrap();
                let _ = poll(&mut [PollFd::new(end, events)], Some(&at_most));
            });
            // Bytes, or room, to fight for.
            let (end, bytes) = if reads { (&writer, 5) } else { (&reader, 5000) };
            use_up(open(end, !reads), !reads, bytes, |_| {
                thread::sleep(Duration::from_micros(300));
            });
            for _ in 0..tries {
                let deadline = Instant::now() + Duration::from_millis(20);
                match reads {
                    true => {
                        let options = ConsumerOptions::new().deadline(deadline);
                        let mut from = options.open(&reader).unwrap();
                        while from.read(&mut [0; 100]).is_ok() {}
                    }
                    false => {
                        let options = ProducerOptions::new().deadline(deadline).pipe_size(0);
                        let mut to = options.open(&writer).unwrap();
                        while to.write_all(&[0; 3000]).and_then(|()| to.flush()).is_ok() {}
                        to.into_parts();
                    }
                }
                late.push(deadline.elapsed());
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    late.sort();
    let more = late
        .iter()
        .filter(|late| **late > Duration::from_millis(50))
        .count();
    println!(
        "{} calls: {more} more than 50 ms late, the latest {:?}",
        late.len(),
        late.last()
    );
}

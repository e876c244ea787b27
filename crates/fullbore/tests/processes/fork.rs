//! What a forked child may do with its copies, and how it does not affect its parent.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;

use crate::common::ends::{memfd, tcp_pair};
use crate::common::*;
use fullbore::{
    Cancel, EndReason, Error, Guarantee, Pipe, ProducerOptions, Stopped, TransferOptions, Wait, Way,
};
use fullbore_linux::Waiter;
use fullbore_linux::{Calls, Errno};

pub(crate) const WAYS: [Way; 4] = [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle];

/// Runs `child` in a forked process, and returns its process id.
pub(crate) fn forked(child: impl FnOnce() -> i32) -> libc::pid_t {
    look_up_once();
    // SAFETY: glibc's allocator survives a fork, and the child ends by _exit without returning here.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "{}", io::Error::last_os_error());
    if process == 0 {
        let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: ends the process without running its destructors.
        unsafe { libc::_exit(code) };
    }
    process
}

/// Waits for a forked process, and returns its exit code; 98 if a signal ended it.
pub(crate) fn exit_code(process: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: writes only to `status`.
    let waited = unsafe { libc::waitpid(process, &mut status, 0) };
    assert_eq!(waited, process);
    ExitStatus::from_raw(status).code().unwrap_or(98)
}

/// Runs `child` in a forked process, and checks that it exits successfully.
pub(crate) fn fork_and_wait(child: impl FnOnce()) {
    let process = forked(|| {
        child();
        0
    });
    assert_eq!(exit_code(process), 0);
}

/// Runs `child` in a forked process whose id is 1, in a new PID namespace, and returns its exit code; `None` if no
/// namespace can be created.
fn exit_code_as_process_1(child: impl FnOnce() -> i32) -> Option<i32> {
    const NO_NAMESPACE: i32 = 77;
    let process = forked(|| {
        // SAFETY: only later children of this process are in new namespaces.
        let has_namespace = unsafe {
            libc::unshare(libc::CLONE_NEWPID) == 0
                || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) == 0
        };
        if !has_namespace {
            return NO_NAMESPACE;
        }
        exit_code(forked(|| {
            assert_eq!(std::process::id(), 1);
            child()
        }))
    });
    let code = exit_code(process);
    (code != NO_NAMESPACE).then_some(code)
}

#[test]
fn a_forked_copy_with_the_same_process_id_sends_nothing_twice() {
    let _watch = watch("a_forked_copy_with_the_same_process_id_sends_nothing_twice");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let sink = pipe.writer.try_clone().unwrap();
        let code = exit_code_as_process_1(|| {
            let mut out = open(ProducerOptions::new(), way, sink);
            out.write_all(b"once").unwrap();
            let mut out = Some(out);
            let code = exit_code_as_process_1(|| {
                drop(out.take());
                0
            });
            // The bytes of this process are not sent yet.
            drop(out);
            code.unwrap_or(97)
        });
        drop(pipe.writer);
        if code.is_none_or(|code| code == 97) {
            fullbore_tests::skipped("no PID namespaces here");
            return;
        }
        assert_eq!(code, Some(0), "{way}");
        let mut text = String::new();
        File::from(pipe.reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "once", "{way}");
    }
}

#[test]
fn a_producer_that_a_forked_child_makes_is_the_childs() {
    let _watch = watch("a_producer_that_a_forked_child_makes_is_the_childs");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let sink = pipe.writer.try_clone().unwrap();
        let mut parents = open(ProducerOptions::new(), way, pipe.writer);
        parents.write_all(b"parent ").unwrap();
        fork_and_wait(|| {
            let mut out = open(ProducerOptions::new(), way, sink.try_clone().unwrap());
            out.write_all(b"child ").unwrap();
            drop(out);
        });
        drop(parents);
        drop(sink);
        let mut text = String::new();
        File::from(pipe.reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "child parent ", "{way}");
    }
}

#[test]
fn a_forked_copy_sends_nothing_twice() {
    let _watch = watch("a_forked_copy_sends_nothing_twice");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let mut out = open(ProducerOptions::new(), way, pipe.writer);
        // Pages in the pipe, and gathered bytes.
        send(&mut out, 0, 300_000, 100_000).unwrap();
        let mut bytes = [0; 1000];
        fill(&mut bytes, 300_000);
        out.write_all(&bytes).unwrap();
        let mut out = Some(out);
        fork_and_wait(|| drop(out.take()));
        let mut out = out.unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
        out.flush().unwrap();
        send(&mut out, 301_000, 5_000_000, 100_000).unwrap();
        assert_eq!(out.finish().unwrap().bytes, 5_000_000, "{way}");
        assert_eq!(reading.join().unwrap(), 5_000_000, "{way}");
    }
}

#[test]
fn a_forked_child_that_lives_on_does_not_change_what_is_sent() {
    let _watch = watch("a_forked_child_that_lives_on_does_not_change_what_is_sent");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let mut out = open(ProducerOptions::new(), way, pipe.writer);
        send(&mut out, 0, 500_000, 100_000).unwrap();
        // The child writes to its copy of the memory while the pages are in the pipe.
        let mut out = Some(out);
        fork_and_wait(|| {
            if let Some(mut out) = out.take() {
                if let Ok(bytes) = out.reserve(1000) {
                    bytes.fill(0xEE);
                }
                drop(out);
            }
        });
        let mut out = out.unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
        send(&mut out, 500_000, 5_000_000, 100_000).unwrap();
        out.finish().unwrap();
        assert_eq!(reading.join().unwrap(), 5_000_000, "{way}");
    }
}

/// Every type that has bytes in flight refuses to run in a child, and goes on in the parent.
#[test]
fn a_child_cannot_run_what_its_parent_has_in_flight() {
    let _watch = watch("a_child_cannot_run_what_its_parent_has_in_flight");
    let is_refused = |error: &Error| assert!(matches!(error, Error::Invalid(_)), "{error}");
    let sent = first(3_000_000);
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        let (from, to) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let writing = {
            let (mut from, sent) = (from.0, sent.clone());
            std::thread::spawn(move || from.write_all(&sent).unwrap())
        };
        let mut transfer = TransferOptions::new()
            .guarantee(guarantee)
            .nonblocking(true)
            .open(from.1, to.0);
        // Until the sink is full.
        while transfer.run().unwrap().ended != EndReason::WouldBlock(fullbore::TransferSide::Sink) {
        }
        let mut copy = Some(transfer);
        fork_and_wait(|| {
            let mut transfer = copy.take().unwrap();
            is_refused(&transfer.run().unwrap_err().error);
            is_refused(&transfer.into_parts().unwrap_err());
        });
        let mut transfer = copy.unwrap();
        let reading = Reader::Quick.spawn(to.1.into(), Checker::of_the_stream());
        while transfer.run().unwrap().ended != EndReason::AtEnd {}
        drop(transfer);
        writing.join().unwrap();
        assert_eq!(reading.join().unwrap(), sent.len() as u64, "{guarantee:?}");
    }
    let pipe = Pipe::new().unwrap();
    let mut repeat = ProducerOptions::new().repeat(&pipe.writer, b"abc").unwrap();
    repeat.send(3).unwrap();
    let mut out = fullbore::Producer::new(&pipe.writer).unwrap();
    out.write_all(b"unsent").unwrap();
    let mut tee = fullbore::Tee::new(&pipe.reader, [(&pipe.writer, fullbore::tee::Policy::DROP)]);
    let mut pages = fullbore::Pages::new(4096).unwrap();
    fork_and_wait(|| {
        is_refused(&repeat.send(1).unwrap_err());
        assert!(out.flush().is_err());
        is_refused(&tee.run().unwrap_err().error);
        pages.fill(7);
    });
    assert!(pages.iter().all(|&byte| byte == 0));
    repeat.send(2).unwrap();
    out.flush().unwrap();
    assert_eq!(queued(&pipe.reader), 11);
}

/// A child that is forked at any moment of a run, and lives on, changes nothing of it.
#[test]
fn children_of_a_running_buffer_and_of_a_consumer_do_no_harm() {
    let _watch = watch("children_of_a_running_buffer_and_of_a_consumer_do_no_harm");
    let sent = first(8_000_000);
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let options = fullbore::BufferOptions::new().memory(1 << 20);
    let mut buffer = options.open(
        source.reader,
        [(sink.writer, fullbore::tee::Policy::FAIL_ALL)],
    );
    let buffering = std::thread::spawn(move || buffer.run().unwrap().level.taken);
    let mut writer = std::fs::File::from(source.writer);
    let mut consumer = fullbore::Consumer::new(sink.reader).unwrap();
    let (mut got, mut room) = (Vec::new(), vec![0; 490_000]);
    let mut copy = Some(consumer);
    for piece in sent.chunks(500_000) {
        writer.write_all(piece).unwrap();
        fork_and_wait(|| drop(copy.take()));
        consumer = copy.take().unwrap();
        consumer.read_exact(&mut room).unwrap();
        got.extend_from_slice(&room);
        copy = Some(consumer);
    }
    drop(writer);
    copy.unwrap().read_to_end(&mut got).unwrap();
    assert_eq!(buffering.join().unwrap(), sent.len() as u64);
    assert!(got == sent, "{} bytes", got.len());
}

#[test]
fn a_child_that_shares_a_cancel_is_ended_by_its_parent() {
    let _watch = watch("a_child_that_shares_a_cancel_is_ended_by_its_parent");
    let cancel = Cancel::new().unwrap();
    let empty = Pipe::new().unwrap();
    let process = forked(|| {
        let mut waiter = Waiter::new(Wait::Poll);
        waiter.cancel = Some(cancel.clone());
        let mut calls = Calls::with(waiter);
        let answer = calls.read(empty.reader.as_fd(), &mut [0; 1]);
        assert_eq!(answer, Err(Errno::CANCELED));
        assert_eq!(calls.waiter.stopped(), Some(Stopped::Cancelled));
        0
    });
    cancel.cancel();
    assert_eq!(exit_code(process), 0);
}

#[test]
fn a_socket_whose_peer_is_gone_is_an_error_and_no_signal() {
    fork_and_wait(|| {
        // SAFETY: sets the default action, which a program in C starts with.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        for wait in ALL_WAITS {
            let (ours, theirs) = UnixStream::pair().unwrap();
            drop(theirs);
            let answer = Calls::new(wait).write(ours.as_fd(), b"hello");
            assert_eq!(answer, Err(Errno::PIPE), "{wait:?}");
        }
    });
}

/// Moves bytes into a socket whose peer closes after it has read `read` of them, and returns the error of the transfer.
pub(crate) fn into_a_socket_that_is_left(
    (ours, theirs): (OwnedFd, OwnedFd),
    (from_pipe, guarantee): (bool, Guarantee),
    read: usize,
) -> Error {
    let bytes = first(MIB);
    let source: OwnedFd = match from_pipe {
        true => {
            let (pipe, growth) = fullbore_linux::pipe::with_capacity(MIB).unwrap();
            File::from(pipe.writer)
                .write_all(&bytes[..growth.after.min(MIB)])
                .unwrap();
            pipe.reader
        }
        false => {
            let mut file = memfd();
            for _ in 0..8 {
                file.write_all(&bytes).unwrap();
            }
            file.rewind().unwrap();
            file.into()
        }
    };
    let peer = (read > 0).then(|| {
        forked(|| {
            let mut peer = File::from(theirs.try_clone().unwrap());
            peer.read_exact(&mut vec![0; read]).unwrap();
            0
        })
    });
    drop(theirs);
    let failure = TransferOptions::new()
        .guarantee(guarantee)
        .open(source, ours)
        .run();
    if let Some(peer) = peer {
        assert_eq!(exit_code(peer), 0);
    }
    failure.unwrap_err().error
}

#[test]
fn a_transfer_into_a_socket_whose_peer_is_gone_raises_no_signal() {
    let _watch = watch("a_transfer_into_a_socket_whose_peer_is_gone_raises_no_signal");
    let unix = || -> (OwnedFd, OwnedFd) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours.into(), theirs.into())
    };
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        for from_pipe in [false, true] {
            for read in [0, 1, 300_000] {
                fork_and_wait(|| {
                    // SAFETY: sets the default action, which a program in C starts with.
                    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
                    let error = into_a_socket_that_is_left(unix(), (from_pipe, guarantee), read);
                    let errno = fullbore_linux::error::errno(&error);
                    let is_gone = matches!(errno, Some(Errno::PIPE | Errno::CONNRESET));
                    assert!(is_gone, "{guarantee:?}, {from_pipe}, {read}: {error}");
                });
            }
        }
        fork_and_wait(|| {
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            let (ours, theirs) = tcp_pair();
            into_a_socket_that_is_left((ours.into(), theirs.into()), (false, guarantee), 1);
        });
    }
    // In such a process, the signal would have been seen.
    let process = forked(|| {
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let pipe = Pipe::new().unwrap();
        drop(pipe.reader);
        let _ = rustix::io::write(&pipe.writer, b"hello");
        0
    });
    assert_eq!(exit_code(process), 98);
}

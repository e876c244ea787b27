//! A SIGPIPE that another process has sent is the program's, whatever the library writes meanwhile to what nobody reads.
//!
//! Each test is made in a forked process, whose only thread gets the signals of the process.

use std::io::{ErrorKind, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use crate::fork::{WAYS, exit_code, fork_and_wait, forked, into_a_socket_that_is_left};
use fullbore::{Guarantee, Pipe, ProducerOptions, Wait};
use fullbore_linux::{Calls, Errno, without_sigpipe};

/// Sends SIGPIPE to this process from another one, and returns the process that has sent it.
fn send_from_another_process() -> libc::pid_t {
    // SAFETY: it has no precondition.
    let here = unsafe { libc::getpid() };
    // SAFETY: it sends a signal.
    let sender = forked(|| unsafe { libc::kill(here, libc::SIGPIPE) });
    assert_eq!(exit_code(sender), 0);
    sender
}

fn only_sigpipe() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initializes the set, and the second adds a signal that exists.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

fn block_sigpipe() {
    // SAFETY: the set is valid, and the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &only_sigpipe(), ptr::null_mut()) };
}

/// Takes every SIGPIPE that is pending, and returns the processes that have sent them.
fn pending_from() -> Vec<libc::pid_t> {
    let no_time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut senders = Vec::new();
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set, the time and the place for the answer are of this function.
        let taken = unsafe { libc::sigtimedwait(&only_sigpipe(), info.as_mut_ptr(), &no_time) };
        if taken != libc::SIGPIPE {
            return senders;
        }
        // SAFETY: the call has filled it in, and a signal that kill(2) or the kernel has sent has a sender.
        senders.push(unsafe { info.assume_init().si_pid() });
    }
}

fn write_to_a_socket_without_a_peer() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let answer = Calls::new(Wait::Block).write(ours.as_fd(), b"hello");
    assert_eq!(answer, Err(Errno::PIPE));
}

/// Writes to pipes and sockets that nobody reads, in all ways.
fn write_to_nobody() {
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        drop(pipe.reader);
        let mut out = open(ProducerOptions::new(), way, pipe.writer);
        let error = out.write_all(&first(2 * MIB)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{way}");
    }
    write_to_a_socket_without_a_peer();
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        for from_pipe in [false, true] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let sockets = (ours.into(), theirs.into());
            let error = into_a_socket_that_is_left(sockets, (from_pipe, guarantee), 0);
            assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
        }
    }
}

#[test]
fn a_sigpipe_of_another_process_that_is_pending_stays_pending() {
    fork_and_wait(|| {
        // SAFETY: the default action is what a program in C has.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        block_sigpipe();
        write_to_nobody();
        pending_from();
        let sender = send_from_another_process();
        write_to_nobody();
        let pending = pending_from();
        assert!(pending.contains(&sender), "{sender} in {pending:?}");
    });
}

#[test]
fn a_sigpipe_that_another_process_sends_during_a_call_is_handled_after_it() {
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handle(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    // With and without one of the call itself, which is removed.
    for writes in [false, true] {
        fork_and_wait(|| {
            let handler = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // SAFETY: the handler changes an atomic number.
            unsafe { libc::signal(libc::SIGPIPE, handler) };
            let during = without_sigpipe(|| {
                send_from_another_process();
                if writes {
                    let pipe = Pipe::new().unwrap();
                    drop(pipe.reader);
                    assert_eq!(rustix::io::write(&pipe.writer, b"x"), Err(Errno::PIPE));
                }
                HANDLED.load(Ordering::Relaxed)
            });
            assert_eq!((during, HANDLED.load(Ordering::Relaxed)), (0, 1));
            // If it is blocked before, it is pending after the call.
            block_sigpipe();
            without_sigpipe(send_from_another_process);
            assert_eq!(pending_from().len(), 1);
            assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
        });
    }
}

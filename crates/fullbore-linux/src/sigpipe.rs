//! Keeps a call into a socket from raising SIGPIPE.
//!
//! send(2) has MSG_NOSIGNAL for this. splice(2) and sendfile(2) into a socket have no such flag: if the peer has
//! closed, they raise SIGPIPE, which ends a process that does not ignore it. The kernel sends this signal to the
//! calling thread only (`unix_stream_sendmsg`, net/unix/af_unix.c; `sk_stream_error`, net/core/stream.c). So the thread
//! blocks it during the call, and then removes the signal that the call has raised. Other threads, and signals for the
//! whole process, are not affected.

use std::ffi::c_int;
use std::ptr;

use rustix::process::Signal;

/// A `sigset_t`: an array of `unsigned long` with 1024 bits in glibc and in musl, of which signal 1 is the first.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct SignalSet([usize; WORDS]);

const WORDS: usize = 128 / size_of::<usize>();

/// A `siginfo_t`. It begins with three ints; after them, at the alignment of a pointer, comes the id of the process
/// that sent the signal (`__SIGINFO` in include/uapi/asm-generic/siginfo.h).
#[repr(C, align(16))]
struct Information([c_int; 32]);

impl Information {
    fn sender(&self) -> c_int {
        self.0[3 + usize::from(size_of::<usize>() == 8)]
    }
}

/// A `struct timespec` that is zero.
#[repr(C, align(16))]
struct NoTime([u8; 16]);

const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;

// POSIX functions in the libc that std links to. rustix offers them only for programs without a libc.
unsafe extern "C" {
    fn sigpending(set: *mut SignalSet) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn sigtimedwait(set: *const SignalSet, info: *mut Information, timeout: *const NoTime)
    -> c_int;
}

impl SignalSet {
    const EMPTY: Self = Self([0; WORDS]);

    fn sigpipe() -> Self {
        let mut set = Self::EMPTY;
        set.0[0] = 1 << (Signal::PIPE.as_raw() - 1);
        set
    }

    fn has_sigpipe(&self) -> bool {
        self.0[0] & Self::sigpipe().0[0] != 0
    }
}

/// Makes a call that may raise SIGPIPE, and removes that signal. One that was pending before stays pending.
///
/// The signal may have been raised although the call succeeded, because some bytes were sent before the peer closed.
pub fn without_sigpipe<T>(call: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    call()
}

/// Blocks SIGPIPE in this thread until it is dropped, also by a panic.
struct Blocked {
    /// The mask of the thread before; `None` if it could not be changed.
    before: Option<SignalSet>,
    /// Whether a signal was pending before. It belongs to the caller, who has blocked it.
    was_pending: bool,
}

impl Blocked {
    fn new() -> Self {
        let mut before = SignalSet::EMPTY;
        // SAFETY: both sets are initialized. Blocking a signal in this thread affects no other one.
        let is_blocked =
            unsafe { pthread_sigmask(SIG_BLOCK, &SignalSet::sigpipe(), &mut before) } == 0;
        let was_pending = before.has_sigpipe() && {
            let mut pending = SignalSet::EMPTY;
            // SAFETY: the set is valid for writing.
            unsafe { sigpending(&mut pending) == 0 && pending.has_sigpipe() }
        };
        Self {
            before: is_blocked.then_some(before),
            was_pending,
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Some(before) = &self.before else {
            return;
        };
        if !self.was_pending {
            let (sigpipe, no_time) = (SignalSet::sigpipe(), NoTime([0; 16]));
            let mut information = Information([0; 32]);
            // SAFETY: all three are local, and large enough. The call does not wait: it takes the signal, or finds none.
            let taken = unsafe { sigtimedwait(&sigpipe, &mut information, &no_time) };
            let here = rustix::process::getpid();
            let sender = information.sender();
            // A signal that another process has sent meanwhile is sent again.
            if taken == Signal::PIPE.as_raw() && sender != here.as_raw_nonzero().get() {
                let _ = rustix::process::kill_process(here, Signal::PIPE);
            }
        }
        // SAFETY: this is the mask that the thread had before.
        unsafe { pthread_sigmask(SIG_SETMASK, before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_and_sizes_are_those_of_the_c_library() {
        assert_eq!(
            (SIG_BLOCK, SIG_SETMASK),
            (libc::SIG_BLOCK, libc::SIG_SETMASK)
        );
        assert!(size_of::<SignalSet>() >= size_of::<libc::sigset_t>());
        let mut set = SignalSet::EMPTY;
        // SAFETY: the set is as large as a `sigset_t`, and is valid for writing.
        unsafe { libc::sigaddset((&raw mut set).cast(), libc::SIGPIPE) };
        assert!(set.has_sigpipe() && set.0 == SignalSet::sigpipe().0);
        assert!(size_of::<Information>() >= size_of::<libc::siginfo_t>());
        assert!(size_of::<NoTime>() >= size_of::<libc::timespec>());
    }

    /// Returns whether SIGPIPE is blocked in this thread, and whether it is pending.
    fn state() -> (bool, bool) {
        let (mut mask, mut pending) = (SignalSet::EMPTY, SignalSet::EMPTY);
        // SAFETY: both sets are valid for writing, and the mask stays as it is.
        unsafe {
            pthread_sigmask(SIG_BLOCK, ptr::null(), &mut mask);
            sigpending(&mut pending);
        }
        (mask.has_sigpipe(), pending.has_sigpipe())
    }

    fn raise() {
        unsafe extern "C" {
            fn raise(signal: c_int) -> c_int;
        }
        // SAFETY: the signal goes to this thread, which has blocked it.
        unsafe { raise(Signal::PIPE.as_raw()) };
    }

    #[test]
    fn a_signal_of_the_call_is_removed_and_one_of_the_caller_stays() {
        let during = without_sigpipe(|| {
            raise();
            state()
        });
        assert_eq!((during, state()), ((true, true), (false, false)));
        without_sigpipe(|| {
            // Here the test is a caller that has blocked the signal.
            without_sigpipe(raise);
            assert_eq!(state(), (true, false));
            raise();
            without_sigpipe(|| assert_eq!(state(), (true, true)));
            without_sigpipe(raise);
            assert_eq!(state(), (true, true), "the caller's signal");
        });
        assert_eq!(state(), (false, false));
    }
}

//! Prevents SIGPIPE: a write(2) into a pipe without a reader raises it in the writing thread, and no flag prevents
//! that. It is blocked during a call, and removed at its end.

use std::mem::MaybeUninit;
use std::ptr;

/// Makes calls that may write to a closed pipe, without a SIGPIPE. One that was pending before stays pending.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    work()
}

/// Blocks SIGPIPE for this thread until it is dropped.
struct Blocked {
    before: libc::sigset_t,
    /// Whether a SIGPIPE was pending before: it belongs to the program, and another one cannot be distinguished from
    /// it.
    was_pending: bool,
}

impl Blocked {
    fn new() -> Self {
        let pipe = only_sigpipe();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are local, and the old set is filled in, because the call does not fail with a valid `how`.
        let before = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, before.as_mut_ptr());
            before.assume_init()
        };
        // SAFETY: the set is initialised.
        let was_blocked = unsafe { libc::sigismember(&before, libc::SIGPIPE) } == 1;
        Self {
            before,
            // A signal that is not blocked is not pending either.
            was_pending: was_blocked && is_pending(),
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if !self.was_pending {
            take_away();
        }
        // SAFETY: the set is the one that the thread had, and no old set is requested.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

fn only_sigpipe() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initialises the set, and the second adds a signal that exists.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

fn is_pending() -> bool {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the first call fills in the set, which is also valid as zeros.
    unsafe {
        libc::sigpending(set.as_mut_ptr());
        libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1
    }
}

/// Removes the SIGPIPE that this thread has caused, if any.
fn take_away() {
    let set = only_sigpipe();
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: the set, the time and the place for the result are local.
        let signal = unsafe { libc::sigtimedwait(&set, info.as_mut_ptr(), &now) };
        if signal == libc::SIGPIPE {
            // SAFETY: the call has filled in the result, and a SIGPIPE has the id of its sender.
            let sender = unsafe { info.assume_init_ref().si_pid() };
            // SAFETY: neither has a precondition.
            unsafe {
                let here = libc::getpid();
                if sender != here {
                    // Another process has sent it during the call.
                    libc::kill(here, libc::SIGPIPE);
                }
            }
        } else if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
            continue;
        }
        return;
    }
}

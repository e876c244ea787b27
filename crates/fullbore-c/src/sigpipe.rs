//! No SIGPIPE: a write(2) into a pipe whose reader has gone sends one to the thread that writes, and
//! there is no flag against it. It is blocked for the time of a call, and taken away at its end.

use std::mem::MaybeUninit;
use std::ptr;

/// Does work that may write to a closed pipe, without a SIGPIPE. One that was pending before stays.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    work()
}

/// Blocks SIGPIPE for this thread as long as it exists.
struct Blocked {
    before: libc::sigset_t,
    /// Whether one was pending before: then it is the program's, and another is not told from it.
    was_pending: bool,
}

impl Blocked {
    fn new() -> Self {
        let pipe = only_sigpipe();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are of this function, and a set that was asked for is filled in: the call
        // fails for no valid `how`.
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
        // SAFETY: the set is the one that the thread had, and no old one is asked for.
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
    // SAFETY: the set is filled in by the first call, and is valid as zeros too.
    unsafe {
        libc::sigpending(set.as_mut_ptr());
        libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1
    }
}

/// Takes the SIGPIPE that this thread has caused, if it has.
fn take_away() {
    let set = only_sigpipe();
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: the set, the time and the place for the answer are of this function.
        let signal = unsafe { libc::sigtimedwait(&set, info.as_mut_ptr(), &now) };
        if signal == libc::SIGPIPE {
            // SAFETY: the call filled in the answer, and a SIGPIPE has the id of its sender.
            let sender = unsafe { info.assume_init_ref().si_pid() };
            // SAFETY: neither has a precondition.
            unsafe {
                let here = libc::getpid();
                if sender != here {
                    // Another process sent it while the call lasted.
                    libc::kill(here, libc::SIGPIPE);
                }
            }
        } else if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
            continue;
        }
        return;
    }
}

//! The signals that a process of `run` reads instead of being ended by them.
//!
//! They are blocked, and read from a file descriptor (signalfd(2)), which can be polled together with others
//! and reports the sender of each signal. A signal that was ignored when this process started stays ignored,
//! here and in the programs that this process starts.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result, anyhow};
use fullbore_host::text::error_text;
use fullbore_observe::proc_is_ours;
use nix::sys::signal::{self, SigSet, SigmaskHow};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::getsid;
use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use crate::inherited;

/// The signals that end a pipeline.
const ENDING: [signal::Signal; 4] = [
    signal::SIGINT,
    signal::SIGQUIT,
    signal::SIGTERM,
    signal::SIGHUP,
];

/// The file descriptor from which signals are read.
pub struct Signals {
    fd: SignalFd,
    /// The signals that were blocked before.
    pub before: SigSet,
}

/// A signal that was received.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    /// The signal.
    pub signal: Signal,
    /// Whether a process sent the signal, to this process or to its process group, and not the terminal,
    /// which sends its signals to the whole group.
    pub by_a_process: bool,
}

impl Signals {
    /// Blocks the signals, and opens the file descriptor that reports them: SIGCHLD, the signals that end a
    /// pipeline, SIGTSTP (Ctrl-Z) and SIGCONT.
    ///
    /// # Errors
    /// Fails if a filter refuses rt_sigprocmask(2), or if no signalfd can be opened: EMFILE.
    pub fn noted() -> Result<Self> {
        let mut noted = SigSet::from_iter([signal::SIGCHLD, signal::SIGCONT]);
        let others = ENDING.into_iter().chain([signal::SIGTSTP]);
        noted.extend(others.filter(|&signal| !inherited::was_ignored(signal as i32)));
        let mut before = SigSet::empty();
        // nix takes no error of pthread_sigmask(3) for one, because that returns it.
        signal::sigprocmask(SigmaskHow::SIG_BLOCK, Some(&noted), Some(&mut before))
            .map_err(|errno| error_text(&errno.into()))
            .map_err(|why| anyhow!("signals cannot be blocked: rt_sigprocmask: {why}"))?;
        let fd = SignalFd::with_flags(&noted, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        let fd = fd.context("signalfd")?;
        Ok(Self { fd, before })
    }

    /// Returns the next signal that was received, if there is one.
    pub fn next(&mut self) -> Option<Came> {
        let read = self.fd.read_signal().ok()??;
        let signal = Signal::from_named_raw(read.ssi_signo as i32)?;
        Some(Came {
            signal,
            // A process sends SI_USER, SI_QUEUE or SI_TKILL; the codes of the kernel are above 0
            // (sigaction(2)).
            by_a_process: read.ssi_code <= 0,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Stops this process as the terminal would have, and returns when the process is continued. The kernel stops
/// no process of an orphaned process group in this way (`get_signal` in kernel/signal.c).
pub fn stop() {
    let only = SigSet::from_iter([signal::SIGTSTP]);
    // The signal is blocked, so it is delivered when it is unblocked.
    let _ = signal::raise(signal::SIGTSTP);
    let _ = only.thread_unblock();
    let _ = only.thread_block();
}

/// Returns whether a child of this process is stopped, or another descendant, which only /proc shows.
pub fn is_stopped(child: Pid) -> bool {
    let flags = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(child), flags) {
        Err(Errno::CHILD) if proc_is_ours() => {
            let process = Process::new(child.as_raw_nonzero().get());
            process.is_ok_and(|process| process.stat().is_ok_and(|stat| stat.state == 'T'))
        }
        waited => matches!(waited, Ok(Some(_))),
    }
}

/// Returns whether a process is in the session of this process. A process that has ended is in none.
pub fn is_in_this_session(pid: u32) -> bool {
    // This is nix's getsid, and not rustix's, because the number is 0 if the leader of the session is outside
    // of this PID namespace, as in a container.
    let session = getsid(Some(nix::unistd::Pid::from_raw(pid as i32)));
    session.is_ok() && session == getsid(None)
}

/// Returns whether a signal is one of those that end a pipeline.
pub fn is_ending(signal: i32) -> bool {
    ENDING.iter().any(|&ending| ending as i32 == signal)
}

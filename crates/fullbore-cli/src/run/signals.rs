//! The signals that a process of `run` waits for, instead of being ended by them.
//!
//! They are blocked, and read from a file descriptor (signalfd(2)), which can be waited for together with
//! others and tells who sent them. What was ignored when this process started is left alone, and is so
//! in the programs that it starts.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use nix::sys::signal::{self, SigSet, SigmaskHow};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, setrlimit, waitid};

use crate::inherited;

/// Those that end a pipeline.
const ENDING: [signal::Signal; 4] = [
    signal::SIGINT,
    signal::SIGQUIT,
    signal::SIGTERM,
    signal::SIGHUP,
];

/// Where they are read.
pub struct Signals {
    fd: SignalFd,
    /// What was blocked before.
    before: SigSet,
}

/// A signal that came.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    /// Which.
    pub signal: Signal,
    /// Whether a process sent it, to this one or to the whole group; and not the terminal, which sends
    /// it to the whole group.
    pub by_a_process: bool,
}

impl Signals {
    /// From now on they are noted: that a child has ended or stopped, those that end a pipeline, that it is
    /// to stop (Ctrl-Z), and that it goes on afterwards.
    ///
    /// # Errors
    /// Where there can be no signalfd: EMFILE.
    pub fn noted() -> Result<Self> {
        // Whoever started this process may ignore SIGCHLD, and then no child could be waited for
        // (wait(2), NOTES). A handler ends that, though it is never called.
        signal_hook::flag::register(
            signal_hook::consts::SIGCHLD,
            Arc::new(AtomicBool::new(false)),
        )
        .context("SIGCHLD cannot be handled")?;
        let mut noted = SigSet::from_iter([signal::SIGCHLD, signal::SIGCONT]);
        noted.extend(
            ENDING
                .into_iter()
                .chain([signal::SIGTSTP])
                .filter(|&signal| !inherited::was_ignored(signal as i32)),
        );
        let before = noted
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .context("signals cannot be blocked")?;
        let fd = SignalFd::with_flags(&noted, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .context("signalfd")?;
        Ok(Self { fd, before })
    }

    /// The next one that came, if one did.
    pub fn next(&mut self) -> Option<Came> {
        let read = self.fd.read_signal().ok()??;
        let signal = Signal::from_named_raw(read.ssi_signo as i32)?;
        Some(Came {
            signal,
            // SI_USER, SI_QUEUE and SI_TKILL; what the kernel sends has codes above 0 (sigaction(2)).
            by_a_process: read.ssi_code <= 0,
        })
    }

    /// What was blocked when this process started: so it is in the programs that it starts.
    pub fn before(&self) -> &SigSet {
        &self.before
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Stops this process as the terminal would have, and comes back when it goes on. In a process group that
/// nobody could wake, the kernel stops nobody (`get_signal` in kernel/signal.c).
pub fn stop() {
    let only = SigSet::from_iter([signal::SIGTSTP]);
    // Blocked as it is, it comes when it is let in.
    let _ = signal::raise(signal::SIGTSTP);
    let _ = only.thread_unblock();
    let _ = only.thread_block();
}

/// Whether a child of this process is stopped.
pub fn is_stopped(child: Pid) -> bool {
    let flags = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(child), flags), Ok(Some(_)))
}

/// Whether it is one of those that end a pipeline.
pub fn is_ending(signal: i32) -> bool {
    ENDING.iter().any(|&ending| ending as i32 == signal)
}

/// Ends this process the way the signal would have.
pub fn die_of(signal: i32) -> ! {
    // The core of this process would be of no use to anybody (core(5)).
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // It was one that ends nobody.
    std::process::exit(128 + signal)
}

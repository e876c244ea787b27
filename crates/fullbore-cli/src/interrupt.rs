//! Ctrl-C while a line is on the screen: the line is finished before the process ends, as the signal would have
//! ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getpid, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::inherited::was_ignored;

/// The signal that is to end this process, after it has arrived.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Noted>, Option<u8>);

/// What the handlers write to and read.
#[derive(Debug, Default)]
struct Noted {
    signal: Arc<AtomicUsize>,
    /// Whether nobody looks at the signal any more: then it has its usual effect again.
    is_over: Arc<AtomicBool>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Interrupt {
    /// Notes SIGINT and SIGTERM, as [`of`](Self::of) does. Signals that are ignored (nohup, `&` in a script) stay ignored.
    pub fn noted() -> Self {
        Self::of(&[SIGINT, SIGTERM])
    }

    /// Notes these signals from now on, unless they are ignored, until the last clone of this value is dropped.
    pub fn of(signals: &[i32]) -> Self {
        let noted = Self::default();
        for &signal in signals.iter().filter(|&&signal| !was_ignored(signal)) {
            let flag = Arc::clone(&noted.0.signal);
            // They fail only for signals that cannot be handled.
            let _ = signal_hook::flag::register_usize(signal, flag, signal as usize);
            let is_over = Arc::clone(&noted.0.is_over);
            let _ = signal_hook::flag::register_conditional_default(signal, is_over);
        }
        noted
    }

    /// Ends this process with an exit code instead.
    pub fn ending_with(mut self, code: u8) -> Self {
        self.1 = Some(code);
        self
    }

    /// Returns a socket that becomes readable when a signal arrives, for those who wait for other things
    /// too.
    ///
    /// # Errors
    /// If there are no file descriptors left.
    #[cfg(feature = "metrics")]
    pub fn wakes(&self) -> std::io::Result<std::os::unix::net::UnixStream> {
        let (woken, wakes) = std::os::unix::net::UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM]
            .into_iter()
            .filter(|&signal| !was_ignored(signal))
        {
            // Registered after the flag, it is called after it: the thread that it wakes finds the flag set.
            signal_hook::low_level::pipe::register(signal, wakes.try_clone()?)?;
        }
        Ok(woken)
    }

    /// Whether a signal has arrived.
    pub fn came(&self) -> bool {
        self.0.signal.load(Ordering::Relaxed) != 0
    }

    /// Ends this process as the signal would have, if one has arrived.
    pub fn obey(&self) {
        match (self.0.signal.load(Ordering::Relaxed), self.1) {
            (0, _) => {}
            (_, Some(code)) => std::process::exit(code.into()),
            (signal, None) => die_of(signal as i32),
        }
    }
}

/// Ends this process as the signal would have ended it.
pub fn die_of(signal: i32) -> ! {
    // A core dump of this process would be of no use (core(5)).
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    // The default action of a signal does not end the first process of a PID namespace (pid_namespaces(7)).
    if !getpid().is_init() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    std::process::exit(128 + signal)
}

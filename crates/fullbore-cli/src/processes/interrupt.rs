//! Ctrl-C while a line is on the screen: the line is finished before the process ends, as the signal would have
//! ended it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getpid, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::inherited::was_ignored;

/// Whether the outcome of this process has been decided, so that a signal comes too late; and the flags of those who do
/// not look at signals any more, by which a handler gives a signal its usual effect. They are down while it is decided.
static DECIDED: Mutex<(bool, Vec<Arc<AtomicBool>>)> = Mutex::new((false, Vec::new()));

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
        let mut decided = decided();
        self.is_over.store(!decided.0, Ordering::SeqCst);
        decided.1.push(Arc::clone(&self.is_over));
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

    /// Obeys a signal that has arrived, and decides that no later one ends this process: what follows is done, and the
    /// exit code says so. All threads know it.
    pub fn decide(&self) {
        self.obey();
        decide(true);
    }

    /// Takes back what was decided, because it could not be done.
    pub fn undecide(&self) {
        decide(false);
        self.obey();
    }

    /// Ends this process as the signal would have, if one has arrived, and nothing has been decided.
    pub fn obey(&self) {
        // Held until the process has ended: nobody decides anything meanwhile.
        let decided = decided();
        if decided.0 {
            return;
        }
        match (self.0.signal.load(Ordering::Relaxed), self.1) {
            (0, _) => {}
            (_, Some(code)) => std::process::exit(code.into()),
            (signal, None) => die_of(signal as i32),
        }
    }
}

/// Lets signals end this process again, although its outcome was decided: what is left to do may wait for another
/// process, and may be given up.
pub fn allow() {
    decide(false);
}

fn decide(is: bool) {
    let mut decided = decided();
    decided.0 = is;
    for is_over in &decided.1 {
        is_over.store(!is, Ordering::SeqCst);
    }
}

fn decided() -> MutexGuard<'static, (bool, Vec<Arc<AtomicBool>>)> {
    DECIDED.lock().unwrap_or_else(PoisonError::into_inner)
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

//! Ctrl-C while a line is on the screen: it is ended before the process is.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::inherited;

/// The signal that is to end this process, once there is one.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// From now on SIGINT and SIGTERM are noted. What is ignored (nohup, `&` in a script) stays so.
    pub fn noted() -> Self {
        let noted = Self::default();
        for signal in [SIGINT, SIGTERM] {
            if !inherited::was_ignored(signal) {
                // It fails only for signals that nobody can handle.
                let _ = signal_hook::flag::register_usize(
                    signal,
                    Arc::clone(&noted.0),
                    signal as usize,
                );
            }
        }
        noted
    }

    /// What can be read from once there is one, for those who wait for other things too.
    ///
    /// # Errors
    /// Where there are no fds left.
    pub fn wakes(&self) -> io::Result<UnixStream> {
        let (woken, wakes) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            if !inherited::was_ignored(signal) {
                // Registered after the flag, it is called after it: who is woken finds it set.
                signal_hook::low_level::pipe::register(signal, wakes.try_clone()?)?;
            }
        }
        Ok(woken)
    }

    /// Whether there was one.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Ends this process the way the signal would have, if there was one.
    pub fn obey(&self) {
        match self.0.load(Ordering::Relaxed) {
            0 => {}
            signal => {
                let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
            }
        }
    }
}

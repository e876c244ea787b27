//! The pipe that bytes come from. A small one makes its writer and its reader wake each other for every 64 KiB, so it is
//! enlarged, as `fullbore tune` does it: only if its writers are known not to depend on its capacity.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fullbore_linux as linux;
use fullbore_observe::tune::{self, outcome, target::Target};

/// The capacity that the pipe gets.
const ROOMY: usize = 1 << 20;

/// The memory limit of a cgroup that leaves room for such a pipe.
const MEMORY: u64 = 64 << 20;

/// A stream is fast if so many bytes …
const BYTES: u64 = 32 << 20;

/// … come in less than this. In a slower one, the size of the pipe matters little.
const FAST: Duration = Duration::from_millis(250);

/// With more threads on the machine, looking through /proc could stop the stream for too long.
const MOST_THREADS: u16 = 4096;

/// Decides when a stream is worth looking through /proc for the programs that write it, which takes some milliseconds.
pub struct SourcePipe {
    began: Instant,
    /// The bytes until it is decided; 0 if it was.
    left: u64,
}

impl SourcePipe {
    /// With `stays`, no pipe is enlarged.
    pub fn new(stays: bool) -> Self {
        Self {
            began: Instant::now(),
            left: if stays { 0 } else { BYTES },
        }
    }

    /// Counts bytes that came from `source`, and enlarges that if it is a pipe and the stream is fast. It always returns
    /// that the stream goes on.
    pub fn gave(&mut self, source: impl AsFd, bytes: u64) -> ControlFlow<()> {
        if self.left == 0 || self.left > bytes {
            self.left = self.left.saturating_sub(bytes);
            return ControlFlow::Continue(());
        }
        let is_fast = self.began.elapsed() < FAST;
        *self = Self::new(is_fast);
        if is_fast && rustix::system::sysinfo().procs <= MOST_THREADS {
            enlarge(source);
        }
        ControlFlow::Continue(())
    }
}

/// Enlarges `source` if it is a small pipe with writers that do not depend on its capacity. Otherwise reading is only
/// slower.
pub fn enlarge(source: impl AsFd) {
    let Ok(Some(pipe)) = linux::pipe::of(&source) else {
        return;
    };
    let is_small = pipe.capacity().is_ok_and(|size| size < ROOMY);
    let has_room = || linux::memory_limit().is_none_or(|limit| limit >= MEMORY);
    let is_open = || !linux::is_closed(source.as_fd()).unwrap_or(true);
    if let Some(identity) = (pipe.identity().ok()).filter(|_| is_small && has_room() && is_open()) {
        let _ = tune::tune(&Target::Pipe(identity), outcome::Options::growing(ROOMY));
    }
}

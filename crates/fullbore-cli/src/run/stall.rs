//! `--stalled`: how long no byte of a pipeline has moved.
//!
//! What moves between and beside the stages is observed by [`Watch`]; here are the ends of the pipeline, which only this
//! process is sure to have: its stdin, its stdout, and the file of `-o`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fullbore_host::text::duration;
use fullbore_linux::is_pipe_or_socket;
use fullbore_observe::Watch;
use rustix::stdio::{stdin, stdout};

/// The exit code if nothing has moved for so long. No shell and no common program uses it.
pub const STALLED: u8 = 122;

/// How often it is checked within the time, and the limits of that interval.
const CHECKS: u32 = 20;
const LEAST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_millis(500);

/// How long no byte has moved.
pub struct Stall {
    limit: Duration,
    still: Duration,
    checked_at: Instant,
    /// The file that gets the output.
    output: Option<OwnedFd>,
    ends: [Option<u64>; 4],
}

impl Stall {
    /// Begins now.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn new(limit: Duration, output: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let output = output
            .map(|output| output.try_clone_to_owned())
            .transpose()?;
        let mut stall = Self {
            limit,
            still: Duration::ZERO,
            checked_at: Instant::now(),
            output,
            ends: [None; 4],
        };
        stall.ends = stall.ends();
        Ok(stall)
    }

    /// Returns the time between two checks.
    pub fn interval(&self) -> Duration {
        (self.limit / CHECKS).clamp(LEAST, MOST)
    }

    /// Checks whether a byte has moved, if it is time to; a sample was just taken.
    pub fn check(&mut self, watch: &mut Watch) {
        let elapsed = self.checked_at.elapsed();
        if elapsed < self.interval() {
            return;
        }
        self.checked_at = Instant::now();
        let ends = self.ends();
        // All are asked each time, because each compares with the time before.
        let has_moved = watch.has_moved() | (ends != self.ends);
        self.ends = ends;
        if has_moved {
            self.still = Duration::ZERO;
        } else if !watch.is_stopped() {
            // If this process was stopped as well, or got no CPU, the others may have been so.
            self.still += elapsed.min(self.interval() * 2);
        }
    }

    /// Leaves the time out in which the pipeline was stopped.
    pub fn continues(&mut self) {
        self.checked_at = Instant::now();
    }

    /// Returns which stage the pipeline waits for, if it has waited for too long.
    pub fn stalled(&self, watch: &Watch) -> Option<String> {
        let limit = duration(self.limit);
        (self.still >= self.limit).then(|| {
format!(
"no byte has moved for {limit}: {}; the pipeline is ended, and no stage sees an end of its input",
watch.awaited()
)
})
    }

    /// Returns how far the ends of the pipeline are.
    fn ends(&self) -> [Option<u64>; 4] {
        let output = self.output.as_ref();
        let size = output.and_then(|output| rustix::fs::fstat(output).ok());
        [
            place(stdin()),
            place(stdout()),
            output.and_then(place),
            size.map(|stat| stat.st_size as u64),
        ]
    }
}

/// Returns the position in a file, which all processes share that have inherited it, or the bytes in a pipe.
fn place(end: impl AsFd) -> Option<u64> {
    match is_pipe_or_socket(&end) {
        true => rustix::io::ioctl_fionread(&end).ok(),
        false => rustix::fs::tell(&end).ok(),
    }
}

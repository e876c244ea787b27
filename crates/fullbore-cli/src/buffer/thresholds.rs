//! When the sides of a buffer go on after they had to wait: `-P`, `-p` and `-u`.

use std::time::Duration;

use fullbore::buffer::Gate;

/// The options of a command line.
#[derive(Debug)]
pub struct Thresholds {
    /// At the start, and whenever an output has drained the buffer, it waits until this many percent are filled.
    pub start_writing: f64,
    /// Once the buffer is full, reading waits until no more than this many percent are filled.
    pub start_reading: f64,
    /// How long an output pauses after each write.
    pub pause: Duration,
}

impl Gate for Thresholds {
    fn may_read(&self, held: u64, capacity: u64) -> bool {
        held <= part(self.start_reading, capacity)
    }

    fn may_write(&self, held: u64, capacity: u64) -> bool {
        held >= part(self.start_writing, capacity)
    }

    fn pause_after_write(&self) -> Duration {
        self.pause
    }
}

/// Returns a percentage of the capacity in bytes.
fn part(percent: f64, capacity: u64) -> u64 {
    (capacity as f64 * percent / 100.0) as u64
}

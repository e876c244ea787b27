//! How far a reader has come, and its clock.

use anyhow::{Result, bail};

use super::data::CHECKED;
use crate::catalogue::transports::stream::{Clock, Moved};
use crate::part::Timing;

/// How far a reader has come. Its clock starts when the bytes that are checked have come.
pub struct ReadProgress {
    timing: Timing,
    clock: Option<Clock>,
    /// The number of bytes that have come.
    pub position: u64,
}

impl ReadProgress {
    /// Begins to count.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            clock: None,
            position: 0,
        }
    }

    /// Returns whether the bytes that come now are checked.
    pub fn is_checking(&self) -> bool {
        self.position < CHECKED
    }

    /// Records that `n` more bytes were used; returns the measurement when the time is up.
    ///
    /// # Errors
    /// Fails if the stream has ended, which `n` = 0 means.
    #[inline]
    pub fn add(&mut self, n: usize) -> Result<Option<Moved>> {
        if n == 0 {
            bail!("the stream ended after {} bytes", self.position);
        }
        self.position += n as u64;
        if self.is_checking() {
            return Ok(None);
        }
        let timing = self.timing;
        let clock = self.clock.get_or_insert_with(|| Clock::begin(timing));
        let all = self.position;
        Ok(clock.add(n).map(|moved| Moved { all, ..moved }))
    }
}

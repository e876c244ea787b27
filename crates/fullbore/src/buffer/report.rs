//! What a [`Buffer`](crate::Buffer) reports, while it runs and at its end.

use std::fmt;
use std::time::Instant;

use crate::failure::Failure;
pub use crate::store::{Level, Waits};
use crate::tee::{SinkReport, write_sinks};
use crate::transfer::EndReason;
use fullbore_linux::error::Error;

/// The result of a [`Buffer`](crate::Buffer).
#[derive(Debug)]
#[non_exhaustive]
pub struct BufferReport {
    /// Bytes that were taken from the source.
    pub taken: u64,
    /// The bytes moved, and how full the memory was.
    pub level: Level,
    /// The results of the sinks, in the order in which they were added.
    pub sinks: Vec<SinkReport>,
    /// Why it returned. This is also [`EndReason::AtEnd`] if all sinks have been dropped.
    pub ended: EndReason,
}

/// The error of a [`Buffer`](crate::Buffer), with a report of what it did before.
pub type BufferFailure = Failure<BufferReport>;

/// Returns the failure of a buffer that has moved nothing.
pub(super) fn before(error: Error, began: Instant) -> BufferFailure {
    let report = BufferReport {
        taken: 0,
        level: Level {
            elapsed: began.elapsed(),
            ..Level::default()
        },
        sinks: Vec::new(),
        ended: EndReason::Failed,
    };
    BufferFailure::new(report, None, error)
}

impl fmt::Display for BufferReport {
    /// Writes one line, such as `1048576 bytes taken in 2.1ms, at most 65536 held; sinks: 1048576`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (elapsed, most) = (self.level.elapsed, self.level.most);
        write!(
            f,
            "{} bytes taken in {elapsed:.1?}, at most {most} held",
            self.taken
        )?;
        write_sinks(f, &self.sinks)
    }
}

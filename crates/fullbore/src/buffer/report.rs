//! What a [`Buffer`](crate::Buffer) reports, while it runs and at its end.

use std::fmt;
use std::time::{Duration, Instant};

use crate::failure::Failure;
pub use crate::store::Waits;
use crate::store::{Counts, Look, Store};
use crate::tee::{SinkReport, write_sinks};
use crate::transfer::EndReason;
use fullbore_linux::error::Error;

/// How full a [`Buffer`](crate::Buffer) is, and what it has moved so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Level {
    /// Bytes that were read.
    pub taken: u64,
    /// Of these, the bytes that the slowest sink has not got yet.
    pub held: u64,
    /// Size of the memory in bytes: the requested size, rounded to whole slots.
    pub capacity: u64,
    /// The most bytes that were held at once.
    pub most: u64,
    /// Waits of the first sink for bytes, except before its first byte and after the last.
    pub empty: Waits,
    /// Waits of the source for room.
    pub full: Waits,
    /// How long the first sink waited for bytes after the memory had been full once. A larger memory could have saved
    /// at most this time, and at most the time of the waits for room.
    pub empty_after_full: Duration,
    /// Whether the source has ended.
    pub has_ended: bool,
    /// Whether reading is waiting for room now.
    pub waits_for_room: bool,
    /// Whether all sinks are waiting for bytes now.
    pub waits_for_bytes: bool,
    /// The number of sinks that have neither finished nor failed.
    pub sinks_left: usize,
    /// Time since the start.
    pub elapsed: Duration,
}

impl Level {
    pub(super) fn of(store: &Store, capacity: u64, elapsed: Duration) -> Self {
        let Look {
            counts,
            taken,
            held,
            has_ended,
            waits_for_room,
            waits_for_bytes,
            sinks_left,
        } = store.look();
        let Counts {
            empty,
            full,
            empty_after_full,
            most,
        } = counts;
        Self {
            taken,
            held,
            capacity,
            most,
            empty,
            full,
            empty_after_full,
            has_ended,
            waits_for_room,
            waits_for_bytes,
            sinks_left,
            elapsed,
        }
    }
}

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
    BufferFailure {
        report: Box::new(BufferReport {
            taken: 0,
            level: Level {
                elapsed: began.elapsed(),
                ..Level::default()
            },
            sinks: Vec::new(),
            ended: EndReason::Failed,
        }),
        sink: None,
        error,
    }
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

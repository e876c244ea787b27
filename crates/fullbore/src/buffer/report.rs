//! What a [`Buffer`](crate::Buffer) reports, while it runs and at its end.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

pub use crate::store::Waits;
use crate::store::{Counts, Look, Store};
use crate::tee::SinkReport;
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
#[derive(Debug)]
#[non_exhaustive]
pub struct BufferFailure {
    /// What was done before it failed.
    pub report: Box<BufferReport>,
    /// The index of the sink that failed, from 0; `None` if something else failed, such as the source.
    pub sink: Option<usize>,
    /// The error: which side failed, in which operation, and what the kernel said.
    pub error: Error,
}

/// Gives access to [`Error::kind`] and [`Error::raw_os_error`].
impl std::ops::Deref for BufferFailure {
    type Target = Error;

    fn deref(&self) -> &Error {
        &self.error
    }
}

impl BufferFailure {
    /// Creates the failure of a buffer that has moved nothing.
    pub(super) fn before(error: Error, began: Instant) -> Self {
        Self {
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
}

impl fmt::Display for BufferFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for BufferFailure {}

impl From<BufferFailure> for Error {
    fn from(failure: BufferFailure) -> Self {
        failure.error
    }
}

impl From<BufferFailure> for io::Error {
    fn from(failure: BufferFailure) -> Self {
        failure.error.into()
    }
}

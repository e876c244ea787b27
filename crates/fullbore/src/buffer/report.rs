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
    /// Bytes of them that the slowest sink has not got yet.
    pub held: u64,
    /// Bytes of memory: all that was asked for, in whole pieces.
    pub capacity: u64,
    /// The most bytes that were held at a time.
    pub most: u64,
    /// Waits of the first sink for bytes, without those before the first byte and after the last one.
    pub empty: Waits,
    /// Waits of the source for room.
    pub full: Waits,
    /// How long the first sink waited for bytes after the memory had been full once. A larger memory could have saved
    /// this time at most, and no more than that of the waits for room.
    pub empty_after_full: Duration,
    /// Whether everything was read.
    pub has_ended: bool,
    /// Whether reading waits for room at this moment, or for the memory to be as empty as
    /// [`Buffer::resume_at`](crate::Buffer::resume_at) says.
    pub waits_for_room: bool,
    /// Whether all sinks wait for bytes at this moment, or for as many of them as
    /// [`Buffer::start_at`](crate::Buffer::start_at) says.
    pub waits_for_bytes: bool,
    /// The number of sinks that have neither got everything nor failed.
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
    /// What was moved, and how full the memory was.
    pub level: Level,
    /// The results of the sinks, in the order in which they were added.
    pub sinks: Vec<SinkReport>,
    /// Why it returned. This is also [`EndReason::AtEnd`] if all sinks have been dropped.
    pub ended: EndReason,
}

/// The error of a [`Buffer`](crate::Buffer), with a report of what it had done before.
#[derive(Debug)]
#[non_exhaustive]
pub struct BufferFailure {
    /// What was done before it failed.
    pub report: Box<BufferReport>,
    /// The number of the sink that failed, from 0; `None` if it was the source, or something else.
    pub sink: Option<usize>,
    /// The error: which side failed, in which operation, and what the kernel said.
    pub error: Error,
}

/// So that [`Error::kind`] and [`Error::raw_os_error`] can be called on it.
impl std::ops::Deref for BufferFailure {
    type Target = Error;

    fn deref(&self) -> &Error {
        &self.error
    }
}

impl BufferFailure {
    /// Makes the failure of a buffer that has moved nothing.
    pub(super) fn before(error: Error, began: Instant) -> Self {
        Self {
            report: Box::new(BufferReport {
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

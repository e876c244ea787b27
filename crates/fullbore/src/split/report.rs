//! What errors of one sink mean for the others, and what came of a [`Tee`](super::Tee).

use std::fmt;
use std::io;
use std::time::Duration;

use crate::error::Error;
use crate::transfer::{Ended, Guarantee};

/// What an error of one sink does to the whole [`Tee`](super::Tee).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnError {
    /// It ends everything.
    FailAll,
    /// This sink gets no more, and its report has the error.
    Drop,
    /// This sink gets no more, and that is no error.
    Ignore,
}

/// What the errors of one sink do to the whole [`Tee`](super::Tee).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Nobody reads it any more (`EPIPE`).
    pub closed: OnError,
    /// Any other error.
    pub other: OnError,
}

impl Policy {
    /// Any error ends everything.
    pub const FAIL_ALL: Self = Self::of(OnError::FailAll, OnError::FailAll);
    /// A sink that fails is dropped, and the others go on.
    pub const DROP: Self = Self::of(OnError::Drop, OnError::Drop);
    /// The same, where it is no error that nobody reads a pipe any more.
    pub const IGNORE_CLOSED: Self = Self::of(OnError::Ignore, OnError::Drop);

    /// Creates a policy from both parts.
    pub const fn of(closed: OnError, other: OnError) -> Self {
        Self { closed, other }
    }
}

/// What a [`Tee`](super::Tee) did.
#[derive(Debug)]
#[non_exhaustive]
pub struct TeeReport {
    /// Bytes that were taken from the source.
    pub taken: u64,
    /// What came of each sink, in the order they were added.
    pub sinks: Vec<SinkReport>,
    /// The time that it ran, without the time between runs.
    pub elapsed: Duration,
    /// Why it returned. [`Ended::AtEnd`] also when no sink is left that takes anything.
    pub ended: Ended,
    /// Which guarantee the way rests on that it took: [`Guarantee::Snapshot`] also where
    /// [`Guarantee::Reference`] was asked for and the kernel does not do that.
    pub guarantee: Guarantee,
}

/// What one sink got, and how it ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct SinkReport {
    /// Bytes that arrived there.
    pub bytes: u64,
    /// Why it was dropped, if it was.
    pub error: Option<Error>,
    /// Whether its policy says that this is no error.
    pub ignored: bool,
    /// Whether it has to make room before anything can go on, with [`Ended::WouldWait`].
    pub would_wait: bool,
}

/// The error of a [`Tee`](super::Tee), with a report of what it had done before.
#[derive(Debug)]
#[non_exhaustive]
pub struct TeeFailure {
    /// What had been moved.
    pub report: TeeReport,
    /// The number of the sink that failed, from 0; none where the source did.
    pub sink: Option<usize>,
    /// The side, the operation and the kernel's word.
    pub error: Error,
}

impl fmt::Display for TeeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for TeeFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What this prints is what the error prints.
        self.error.source()
    }
}

impl From<TeeFailure> for Error {
    fn from(failure: TeeFailure) -> Self {
        failure.error
    }
}

impl From<TeeFailure> for io::Error {
    fn from(failure: TeeFailure) -> Self {
        failure.error.into()
    }
}

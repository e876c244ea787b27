//! The report of a [`Transfer`](super::Transfer), at its end and while it runs.

use std::fmt;
use std::io;
use std::time::Duration;

use super::plan::Method;
use crate::kind::Kind;
use fullbore_linux::error::{Error, TransferSide};
use fullbore_linux::wait::Stopped;

/// The result of a [`Transfer`](super::Transfer).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferReport {
    /// Bytes that arrived at the sink.
    pub bytes: u64,
    /// Bytes that were taken from the source. They are more than `bytes` only if the sink failed, or the transfer was
    /// stopped, before all of them arrived; the next run sends the rest first.
    pub taken: u64,
    /// The ways that were used, with the number of bytes that each moved, in the order of their
    /// first byte.
    pub methods: Vec<(Method, u64)>,
    /// How long it ran, without the time between runs.
    pub elapsed: Duration,
    /// System calls that were made to move bytes.
    pub calls: u64,
    /// Why it returned.
    pub ended: EndReason,
    /// The kind of the source.
    pub source: Kind,
    /// The kind of the sink.
    pub sink: Kind,
}

/// The reason why a transfer returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// The source has no more bytes.
    AtEnd,
    /// The limit was reached.
    AtLimit,
    /// [`Cancel::cancel`](crate::Cancel::cancel) was called, or the progress callback returned
    /// [`ControlFlow::Break`](std::ops::ControlFlow::Break).
    Cancelled,
    /// The [`deadline`](super::Transfer::deadline) passed.
    TimedOut,
    /// A signal arrived during a wait, and the transfer is
    /// [`interruptible`](super::Transfer::interruptible).
    Interrupted,
    /// It is nonblocking, and would have to wait for this side.
    WouldBlock(TransferSide),
    /// It failed; [`TransferFailure`] has the error.
    Failed,
}

/// The error of a [`Transfer`](super::Transfer), with a report of what it did before.
#[derive(Debug)]
#[non_exhaustive]
pub struct TransferFailure {
    /// What was done before it failed.
    pub report: TransferReport,
    /// The error: which side failed, in which operation, and what the kernel said.
    pub error: Error,
}

/// Gives access to [`Error::kind`] and [`Error::raw_os_error`].
impl std::ops::Deref for TransferFailure {
    type Target = Error;

    fn deref(&self) -> &Error {
        &self.error
    }
}

impl From<Stopped> for EndReason {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Cancelled => EndReason::Cancelled,
            Stopped::TimedOut => EndReason::TimedOut,
            // By a signal, the only other reason.
            _ => EndReason::Interrupted,
        }
    }
}

impl fmt::Display for TransferFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for TransferFailure {}

impl From<TransferFailure> for Error {
    fn from(failure: TransferFailure) -> Self {
        failure.error
    }
}

impl From<TransferFailure> for io::Error {
    fn from(failure: TransferFailure) -> Self {
        failure.error.into()
    }
}

/// The progress of a transfer, passed to the callback after each step that moved bytes.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Bytes that have arrived in total.
    pub bytes: u64,
    /// Bytes that arrived with this step.
    pub step: u64,
    /// The way in which they were moved.
    pub method: Method,
    /// The bytes themselves, if the transfer is [`visible`](super::Transfer::visible); otherwise empty.
    pub seen: &'a [u8],
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("bytes", &self.bytes)
            .field("step", &self.step)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

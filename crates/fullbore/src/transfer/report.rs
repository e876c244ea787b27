//! The report of a [`Transfer`](super::Transfer), at its end and while it runs.

use std::fmt;
use std::time::Duration;

use crate::failure::Failure;
use crate::kind::Kind;
use crate::way::Way;
use fullbore_linux::{Stopped, TransferSide};

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
    pub ways: Vec<(Way, u64)>,
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
    /// The [`deadline`](crate::Options::deadline) passed.
    TimedOut,
    /// A signal arrived during a wait, and the transfer is
    /// [`interruptible`](crate::Options::interruptible).
    Interrupted,
    /// It is nonblocking, and would have to wait for this side.
    WouldBlock(TransferSide),
    /// It failed; [`TransferFailure`] has the error.
    Failed,
}

/// The error of a [`Transfer`](super::Transfer), with a report of what it did before.
pub type TransferFailure = Failure<TransferReport>;

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

impl fmt::Display for TransferReport {
    /// Writes one line, such as `1048576 bytes in 2.1ms by fresh`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {:.1?}", self.bytes, self.elapsed)?;
        for (i, (way, _)) in self.ways.iter().enumerate() {
            write!(f, "{} {way}", if i == 0 { " by" } else { "," })?;
        }
        match self.taken - self.bytes {
            0 => Ok(()),
            bytes => write!(f, ", and {bytes} under way"),
        }
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
    pub way: Way,
    /// The bytes themselves, if the transfer is [`visible`](super::TransferOptions::visible); otherwise empty.
    pub seen: &'a [u8],
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("bytes", &self.bytes)
            .field("step", &self.step)
            .field("way", &self.way)
            .finish_non_exhaustive()
    }
}

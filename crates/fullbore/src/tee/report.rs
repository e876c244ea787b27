//! How an error of one sink affects the others, and the report of a [`Tee`](super::Tee).

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;

use crate::failure::Failure;
use crate::transfer::EndReason;
use fullbore_linux::{Error, TransferSide, error, is_reader_gone};

/// How an error of one sink affects the whole [`Tee`](super::Tee).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnError {
    /// The whole tee fails.
    FailAll,
    /// The sink is dropped, and its report has the error.
    Drop,
    /// The sink is dropped without an error.
    Ignore,
}

/// How the errors of one sink affect the whole [`Tee`](super::Tee).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// For a pipe, FIFO or socket whose reader has closed it (`EPIPE`; for a socket with unread bytes `ECONNRESET`).
    pub closed: OnError,
    /// For any other error.
    pub other: OnError,
}

impl Policy {
    /// The tee fails with the first error of the sink.
    pub const FAIL_ALL: Self = Self::of(OnError::FailAll, OnError::FailAll);
    /// A sink that fails is dropped, and the others continue.
    pub const DROP: Self = Self::of(OnError::Drop, OnError::Drop);
    /// As [`DROP`](Self::DROP), but a reader that closes does not count as an error.
    pub const IGNORE_CLOSED: Self = Self::of(OnError::Ignore, OnError::Drop);

    const fn of(closed: OnError, other: OnError) -> Self {
        Self { closed, other }
    }

    /// Returns what happens after a write to `sink` failed with `errno`.
    pub(crate) fn after(self, errno: Errno, sink: BorrowedFd<'_>) -> OnError {
        match is_reader_gone(errno, sink) {
            true => self.closed,
            false => self.other,
        }
    }
}

/// The result of a [`Tee`](super::Tee).
#[derive(Debug)]
#[non_exhaustive]
pub struct TeeReport {
    /// Bytes that were taken from the source.
    pub taken: u64,
    /// The results of the sinks, in the order in which they were added.
    pub sinks: Vec<SinkReport>,
    /// How long it ran, without the time between runs.
    pub elapsed: Duration,
    /// Why it returned. This is also [`EndReason::AtEnd`] if all sinks have been dropped.
    pub ended: EndReason,
}

/// The bytes that one sink got, and the error that ended it, if there was one.
#[derive(Debug)]
#[non_exhaustive]
pub struct SinkReport {
    /// Bytes that arrived at the sink.
    pub bytes: u64,
    /// The error for which it was dropped, if it was.
    pub error: Option<Error>,
    /// Whether its policy says that this error does not count.
    pub ignored: bool,
    /// With [`EndReason::WouldBlock`]: whether this sink has to make room before the tee can continue.
    pub would_block: bool,
}

/// Why a sink was dropped: the call, its error, and what its policy says.
pub(crate) type Dropped = (&'static str, Errno, OnError);

impl SinkReport {
    pub(crate) fn of(bytes: u64, dropped: Option<Dropped>) -> Self {
        let error = dropped.map(|(operation, errno, _)| {
            error::moving(TransferSide::Sink, operation, errno, bytes)
        });
        Self {
            bytes,
            error,
            ignored: matches!(dropped, Some((_, _, OnError::Ignore))),
            would_block: false,
        }
    }
}

/// The source and the sinks of a [`Tee`](super::Tee) or a [`Buffer`](crate::Buffer), each sink with the bytes that were
/// taken from the source and have not arrived at it.
pub type Parts<Source, Sink> = (Source, Vec<(Sink, Vec<u8>)>);

/// The error of a [`Tee`](super::Tee), with a report of what it did before.
pub type TeeFailure = Failure<TeeReport>;

impl fmt::Display for TeeReport {
    /// Writes one line, such as `1048576 bytes taken in 2.1ms; sinks: 1048576, 4096 (write on the sink: Broken pipe …)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes taken in {:.1?}", self.taken, self.elapsed)?;
        write_sinks(f, &self.sinks)
    }
}

/// Adds what each sink has got.
pub(crate) fn write_sinks(f: &mut fmt::Formatter<'_>, sinks: &[SinkReport]) -> fmt::Result {
    for (i, sink) in sinks.iter().enumerate() {
        write!(f, "{} {sink}", if i == 0 { "; sinks:" } else { "," })?;
    }
    Ok(())
}

impl fmt::Display for SinkReport {
    /// Writes the number of bytes, and the error for which the sink was dropped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes)?;
        match &self.error {
            None => Ok(()),
            Some(error) => write!(f, " ({error})"),
        }
    }
}

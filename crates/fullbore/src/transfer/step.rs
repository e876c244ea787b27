//! One step of a transfer: its two fds, what it did, and why it could not continue.

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::plan::Kind;
use fullbore_linux::error::{Error, Result, TransferSide};
use fullbore_linux::wait::Stopped;

/// The result of a step.
pub(super) enum Step {
    /// This many bytes arrived.
    Moved(usize),
    /// A hole of this many bytes was skipped on both sides.
    Passed(usize),
    /// Bytes were taken from the source, and none of them has arrived yet.
    Taken,
    /// The source has no more bytes.
    End,
    /// The kernel moved nothing: this is the end, or the fds do not support this way. read(2) and write(2) show which.
    Ambiguous,
}

/// Why a step could not continue.
pub(crate) enum Stop {
    /// A call failed.
    At(TransferSide, &'static str, Errno),
    /// It was cancelled, or the deadline passed. This is not an error.
    EndReason(Stopped),
    /// An operation other than moving bytes failed.
    Other(Error),
}

impl Stop {
    /// Converts the result of a call that failed with `errno`; `stopped` says whether its wait was stopped.
    pub(crate) fn of_call(
        stopped: Option<Stopped>,
        side: TransferSide,
        operation: &'static str,
        errno: Errno,
    ) -> Self {
        match stopped {
            Some(stopped) => Stop::EndReason(stopped),
            None => Stop::At(side, operation, errno),
        }
    }

    /// Returns the same stop with another side, for errors that can only be of this side.
    pub(super) fn of(self, side: TransferSide) -> Self {
        match self {
            Stop::At(_, operation, errno) => Stop::At(side, operation, errno),
            other => other,
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Other(error)
    }
}

pub(super) type Stepped = Result<Step, Stop>;

/// The two fds of a step, and their kinds.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'fd> {
    pub(crate) source: BorrowedFd<'fd>,
    pub(crate) sink: BorrowedFd<'fd>,
    pub(crate) source_kind: Kind,
    pub(crate) sink_kind: Kind,
}

/// Returns whether this flag is set in the open file description of `fd` (F_GETFL).
pub(crate) fn has_flag(fd: BorrowedFd<'_>, flag: OFlags) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(flag))
}

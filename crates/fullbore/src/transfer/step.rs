//! One step of a transfer: its two fds, what it did, and why it could not continue.

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::options::TransferOptions;
use crate::kind::Kind;
use fullbore_linux::outcome::Outcome;
use fullbore_linux::{Error, Result, Stopped, TransferSide};

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
    /// The kernel moved nothing, and only read(2) shows why ([`Outcome::ReadOnce`]).
    Doubtful,
}

/// Why a step could not continue.
pub(crate) enum Stop {
    /// A call failed.
    At(TransferSide, &'static str, Errno),
    /// A call is not supported for these fds; if there is no other, this side has failed.
    Refused(TransferSide, &'static str, Errno),
    /// It was cancelled, or the deadline passed. This is not an error.
    EndReason(Stopped),
    /// An operation other than moving bytes failed.
    Other(Error),
}

/// Converts the outcome of a call. `errno` is its error if it was refused, and `side` finds out which side has failed.
pub(super) fn stepped(
    operation: &'static str,
    outcome: Outcome,
    errno: Errno,
    side: impl FnOnce() -> TransferSide,
) -> Stepped {
    match outcome {
        Outcome::Moved(n) => Ok(Step::Moved(n)),
        Outcome::End => Ok(Step::End),
        Outcome::ReadOnce => Ok(Step::Doubtful),
        Outcome::EmptyMessage | Outcome::Interrupted | Outcome::Ask => Ok(Step::Taken),
        Outcome::WouldBlock(side) => Err(Stop::At(side, operation, Errno::AGAIN)),
        Outcome::Refused | Outcome::RefusedOrPending(_) => {
            Err(Stop::Refused(side(), operation, errno))
        }
        Outcome::Failed(side, errno) => Err(Stop::At(side, operation, errno)),
        Outcome::FailedSomewhere(errno) => Err(Stop::At(side(), operation, errno)),
    }
}

impl From<Stopped> for Stop {
    fn from(stopped: Stopped) -> Self {
        Stop::EndReason(stopped)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Other(error)
    }
}

pub(super) type Stepped = Result<Step, Stop>;

/// The two fds of a step, their kinds, and the options.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'fd> {
    pub(crate) source: BorrowedFd<'fd>,
    pub(crate) sink: BorrowedFd<'fd>,
    pub(crate) source_kind: Kind,
    pub(crate) sink_kind: Kind,
    pub(super) options: &'fd TransferOptions,
}

/// Returns whether this flag is set in the open file description of `fd` (F_GETFL).
pub(crate) fn has_flag(fd: BorrowedFd<'_>, flag: OFlags) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(flag))
}

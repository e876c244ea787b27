//! One step of a transfer: the two fds it is between, what it did, and why it could not go on.

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::plan::Kind;
use crate::error::{Error, Result, Side};
use crate::wait::Stopped;

/// What a step did.
pub(super) enum Step {
    /// This many bytes arrived.
    Moved(usize),
    /// A hole of this many bytes was skipped on both sides.
    Passed(usize),
    /// Bytes were taken, and none has arrived yet.
    Taken,
    /// There is nothing more to take.
    End,
    /// The kernel moved nothing. This may be the end, or mean only that it cannot be done in this
    /// way: read(2) and write(2) find out.
    Perhaps,
}

/// Why a step could not go on.
pub(crate) enum Stop {
    /// A call failed.
    At(Side, &'static str, Errno),
    /// It was cancelled, or the deadline passed: nothing failed.
    Ended(Stopped),
    /// Something other than a call that moves bytes failed.
    Other(Error),
}

impl Stop {
    /// The meaning of a call that failed with `errno`: `stopped` says whether its wait was ended
    /// from outside.
    pub(crate) fn of_call(
        stopped: Option<Stopped>,
        side: Side,
        operation: &'static str,
        errno: Errno,
    ) -> Self {
        match stopped {
            Some(stopped) => Stop::Ended(stopped),
            None => Stop::At(side, operation, errno),
        }
    }

    /// The same with another side, for errors that can only be of this side.
    pub(super) fn of(self, side: Side) -> Self {
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

/// Whether the description of `fd` has this flag (F_GETFL).
pub(crate) fn has_flag(fd: BorrowedFd<'_>, flag: OFlags) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(flag))
}

//! One step of a transfer: the two fds it is between, what it did, and why it could not go on.

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::plan::Kind;
use crate::error::{Error, Result, Side};
use crate::wait::Stopped;

/// What a step did.
pub(super) enum Step {
    /// So many bytes arrived.
    Moved(usize),
    /// So many bytes of a hole were passed over on both sides.
    Passed(usize),
    /// Bytes were taken, and none has arrived yet.
    Taken,
    /// There is nothing more to take.
    End,
    /// The kernel moved nothing. That may be the end, or mean only that it cannot do it this way: read(2)
    /// and write(2) have the last word.
    Perhaps,
}

/// Why a step could not go on.
pub(crate) enum Stop {
    /// A call failed.
    At(Side, &'static str, Errno),
    /// Nobody wants it to go on: what a call failed with is not the kernel's word.
    Ended(Stopped),
    /// Something around it did.
    Other(Error),
}

impl Stop {
    /// What a call means that failed with `errno`, if `stopped` says why its wait ended.
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

    /// The same, where it can only be this side's.
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

/// Two fds, and what the steps need to know of them.
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

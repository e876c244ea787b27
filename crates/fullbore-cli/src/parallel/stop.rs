//! Why no more is written.

use fullbore_linux::Errno;
use rustix::process::Signal;

use crate::error_text::Failed;

/// The reason.
pub enum Stop {
    Signal(Signal),
    /// Nothing reads the output any more.
    Closed,
    Failed(anyhow::Error),
}

impl Stop {
    /// The output or the messages of the worker of a block cannot be read.
    pub fn unread(block: u64, errno: Errno) -> Self {
        Self::of(errno, format_args!("read the output of block {block}"))
    }

    /// Something failed.
    pub fn of(errno: Errno, what: impl std::fmt::Display) -> Self {
        let failed = Err::<(), _>(errno).failed(what);
        Self::Failed(failed.expect_err("it is an error"))
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Stop::Failed(error)
    }
}

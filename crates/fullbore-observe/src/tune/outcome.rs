//! What was asked for, and what became of each pipe.

use fullbore::pipe::Limit;
use rustix::io::Errno;

use super::super::census::Census;
use super::super::error::Error;
use super::evidence::Writers;
use super::producers::Sends;
use super::target::TargetPipes;

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes that each pipe is to hold at least.
    pub size: usize,
    /// Whether less than that is a failure.
    pub is_strict: bool,
    /// Put the old sizes back instead.
    pub revert: bool,
    /// Grow a pipe whatever its writer is.
    pub force: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What became of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its capacity is larger now, or would be.
    Grown {
        /// Bytes before.
        from: usize,
        /// Bytes now.
        to: usize,
    },
    /// Its capacity is that large already, or larger.
    Roomy {
        /// Bytes that it holds.
        size: usize,
    },
    /// A limit stopped it at once.
    Stopped {
        /// Bytes that it holds.
        size: usize,
    },
    /// Its capacity is what it was before it was tuned, or would be.
    Reverted {
        /// Bytes before.
        from: usize,
        /// Bytes now.
        to: usize,
    },
    /// It was never tuned.
    NeverTuned {
        /// Bytes that it holds.
        size: usize,
    },
    /// Another program has resized it since.
    ChangedSince {
        /// Bytes that it holds.
        size: usize,
    },
    /// It is not known whether its writer tolerates it.
    Refused {
        /// Bytes that it holds.
        size: usize,
    },
    /// It held more bytes than would fit (`EBUSY`) for as long as it was tried.
    TooFull {
        /// Bytes that it holds.
        size: usize,
        /// Bytes that it was to hold.
        wanted: usize,
    },
    /// A FIFO that is not open on both sides, or not any more: opening it would let a process in
    /// that waits for the other side.
    HalfOpen,
    /// It could not be opened, or resized.
    Failed(Errno),
}

/// A pipe, and what became of it.
#[derive(Debug)]
pub struct Tuned {
    /// Index into [`Census::pipes`].
    pub pipe: usize,
    /// What became of it.
    pub outcome: Outcome,
    /// What stopped it on the way to the size that was wanted.
    pub limit: Option<Limit>,
    /// The processes that write to it, the worst first. Not asked for where nothing was to be grown.
    pub writers: Writers,
}

/// What became of all pipes.
#[derive(Debug)]
pub struct Tuning {
    /// The processes and pipes that were there.
    pub census: Census,
    /// Which of these pipes were meant.
    pub found: TargetPipes,
    /// What became of each of them.
    pub all: Vec<Tuned>,
    /// What was asked for.
    pub options: Options,
    /// Whether the old sizes could be kept.
    pub kept: Result<(), Error>,
}

/// Whether every writer of a pipe is known to bear any capacity. Without any that can be seen, it is
/// not known.
pub fn is_safe(writers: &Writers) -> bool {
    let mut senders = writers.iter().map(|writer| writer.sends);
    !writers.is_empty() && senders.all(|sends| matches!(sends, Sends::Safely(_)))
}

impl Tuned {
    /// Whether it might be put back in a moment.
    pub(super) fn is_too_full(&self) -> bool {
        matches!(self.outcome, Outcome::TooFull { .. })
    }
}

impl Outcome {
    /// Whether the pipe has another size now.
    pub(super) fn is_change(self) -> bool {
        matches!(self, Self::Grown { .. } | Self::Reverted { .. })
    }
}

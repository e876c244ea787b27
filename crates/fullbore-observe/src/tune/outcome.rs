//! The options of `tune`, and the outcome for each pipe.

use fullbore_linux::PipeLimit;
use rustix::io::Errno;

use super::evidence::Writers;
use super::producers::Sends;
use super::target::TargetPipes;
use crate::census::Census;
use crate::error::Error;

/// The options of [`tune`](super::tune).
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The least capacity that each pipe should have, in bytes.
    pub size: usize,
    /// Whether a smaller capacity is a failure.
    pub is_strict: bool,
    /// Whether to restore the old sizes instead.
    pub revert: bool,
    /// Whether to grow a pipe even if its writer may not tolerate it.
    pub force: bool,
    /// Whether to only report what would be done.
    pub dry_run: bool,
}

/// The outcome for a pipe.
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
        /// Its capacity in bytes.
        size: usize,
    },
    /// A limit stopped it at once.
    Stopped {
        /// Its capacity in bytes.
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
        /// Its capacity in bytes.
        size: usize,
    },
    /// Another program has resized it since.
    ChangedSince {
        /// Its capacity in bytes.
        size: usize,
    },
    /// It is not known whether its writer tolerates it.
    Refused {
        /// Its capacity in bytes.
        size: usize,
    },
    /// It held more bytes than would fit (`EBUSY`) each time that it was tried.
    TooFull {
        /// Its capacity in bytes.
        size: usize,
        /// The capacity that it was to have, in bytes.
        wanted: usize,
    },
    /// It is a FIFO that is not open on both sides, or not any more: opening it would complete the
    /// open(2) of a process that waits for the other side.
    HalfOpen,
    /// It could not be opened, or resized.
    Failed(Errno),
}

/// A pipe, and the outcome for it.
#[derive(Debug)]
pub struct Tuned {
    /// Index into [`Census::pipes`].
    pub pipe: usize,
    /// The outcome for the pipe.
    pub outcome: Outcome,
    /// The limit that kept it from reaching the wanted size.
    pub limit: Option<PipeLimit>,
    /// The processes that write to it, the least safe first. It is empty if nothing was to be grown.
    pub writers: Writers,
}

/// The outcome for all pipes.
#[derive(Debug)]
pub struct Tuning {
    /// The processes and pipes that were found.
    pub census: Census,
    /// The pipes of the target.
    pub found: TargetPipes,
    /// The outcome for each of them.
    pub all: Vec<Tuned>,
    /// The options that were given.
    pub options: Options,
    /// Whether the old sizes could be saved.
    pub kept: Result<(), Error>,
}

/// Returns whether every writer of a pipe is known to tolerate any capacity. If no writer can be
/// seen, this is not known.
pub fn is_safe(writers: &Writers) -> bool {
    let mut senders = writers.iter().map(|writer| writer.sends);
    !writers.is_empty() && senders.all(|sends| matches!(sends, Sends::Safely(_)))
}

impl Tuned {
    /// Returns whether another try in a moment may succeed.
    pub(super) fn is_too_full(&self) -> bool {
        matches!(self.outcome, Outcome::TooFull { .. })
    }
}

impl Outcome {
    /// Returns whether the pipe has another size now.
    pub(super) fn is_change(self) -> bool {
        matches!(self, Self::Grown { .. } | Self::Reverted { .. })
    }
}

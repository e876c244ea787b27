//! The options of `tune`, and the outcome for each pipe.

use fullbore_linux::PipeLimit;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::evidence::Writers;
use super::producers::Sends;
use super::target::TargetPipes;
use crate::census::Census;

/// What `tune` is to do.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The capacity to reach.
    pub size: usize,
    /// Whether a smaller capacity is an error.
    pub is_strict: bool,
    /// Whether to give pipes the kernel's default capacity again.
    pub revert: bool,
    /// Whether to change pipes whatever their writers do.
    pub force: bool,
    /// Whether to change nothing.
    pub dry_run: bool,
}

impl Options {
    /// Enlarges pipes to this capacity, or as far as they may grow.
    pub fn growing(size: usize) -> Self {
        Self {
            size,
            is_strict: false,
            revert: false,
            force: false,
            dry_run: false,
        }
    }
}

/// What was done to a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its capacity is larger now, or would be.
    Grown,
    /// Its capacity is the default again, or would be.
    Reverted,
    /// Its capacity was large enough.
    Roomy,
    /// A limit stopped it at once.
    Stopped,
    /// It was to be reverted, and is not larger than the default.
    NotLarger,
    /// It is not known whether its writer tolerates it.
    Refused,
    /// It held more bytes than would fit.
    TooFull,
    /// It is a FIFO that is not open on both sides.
    HalfOpen,
    /// It could not be opened, or resized.
    Failed,
}

/// The outcome for one pipe.
#[derive(Debug)]
pub struct Tuned {
    /// Index into [`Census::pipes`].
    pub pipe: usize,
    /// What was done.
    pub outcome: Outcome,
    /// Its capacity before, if it could be opened.
    pub from: Option<usize>,
    /// Its capacity now, if it could be opened.
    pub to: Option<usize>,
    /// The limit that prevented a larger capacity.
    pub limit: Option<PipeLimit>,
    /// Why it could not be opened, or resized.
    pub errno: Option<Errno>,
    /// How its writers send.
    pub writers: Writers,
}

/// What was done to all pipes of a target.
#[derive(Debug)]
pub struct Tuning {
    /// The processes and their pipes.
    pub census: Census,
    /// The pipes of the target.
    pub found: TargetPipes,
    /// The outcome for each pipe.
    pub all: Vec<Tuned>,
    /// What was to be done.
    pub options: Options,
}

/// Returns whether all these writers are known to work with any capacity.
pub fn is_safe(writers: &Writers) -> bool {
    let mut all = writers.iter();
    !writers.is_empty() && all.all(|writer| writer.sends == Sends::Safely)
}

//! The options of `tune`, and the outcome for each pipe.

use serde::{Deserialize, Serialize};

/// What `tune` is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The capacity to reach, in bytes.
    pub size: usize,
    /// Whether a smaller capacity is an error.
    #[serde(skip)]
    pub is_strict: bool,
    /// Whether to give pipes the kernel's default capacity again.
    pub revert: bool,
    /// Whether to change pipes whatever their writers do.
    pub force: bool,
    /// Whether to change nothing.
    pub dry_run: bool,
    /// The most file descriptors of processes that are looked at for one pipe, if there is a limit. A process counts as
    /// ten.
    #[serde(skip)]
    pub most_looks: Option<usize>,
}

impl Options {
    /// Enlarges pipes to this capacity, or as far as they may grow.
    pub fn growing(size: usize) -> Self {
        Self {
            size,
            ..Self::default()
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

//! The options of a [`Tee`](super::Tee) that no other object has.

use crate::options::{Moves, Options, Resumes, Sends};

/// The options of a [`Tee`](super::Tee).
pub type TeeOptions = Options<ForTee>;

/// The options that only a [`Tee`](super::Tee) has: methods of [`TeeOptions`] set them.
#[derive(Debug, Clone, Default)]
pub struct ForTee {
    pub(super) fails_without_readers: bool,
}

impl Resumes for ForTee {}
impl Sends for ForTee {}
impl Moves for ForTee {}

impl TeeOptions {
    /// Sets whether the tee also fails at once when no sink has a reader while the source has no bytes, if a policy
    /// says [`OnError::FailAll`](super::OnError::FailAll). By default such a tee waits for the next byte: if the source
    /// ends instead, every sink has got every byte, and readers that have left are no error.
    pub fn fail_without_readers(mut self, fail: bool) -> Self {
        self.own.fails_without_readers = fail;
        self
    }
}

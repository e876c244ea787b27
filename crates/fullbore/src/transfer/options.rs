//! The options of a [`Transfer`](super::Transfer) or a [`Tee`](crate::Tee), and the limits that follow from them for
//! each system call.

use super::plan::Guarantee;
use fullbore_linux::Owner;
use fullbore_linux::error::{Error, Result};
use fullbore_linux::pipe::roomy;
use fullbore_linux::wait::Waiter;

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) guarantee: Guarantee,
    pub(crate) limit: Option<u64>,
    pub(crate) ahead: Vec<u8>,
    pub(crate) source_offset: Option<u64>,
    pub(crate) sink_offset: Option<u64>,
    pub(crate) waiter: Waiter,
    pub(crate) chunk: Option<usize>,
    pub(crate) pipe_size: Option<usize>,
    pub(crate) visible: bool,
    pub(crate) plain: bool,
    /// The process that created them. A private pipe and gathered bytes are not its children's.
    pub(crate) owner: Owner,
}

impl Options {
    /// Returns the default options.
    pub(crate) fn new() -> Self {
        let mut options = Self::default();
        options.waiter.looks = true;
        options
    }

    /// # Errors
    /// [`Error::Invalid`] for options that would never move a byte, and in a child of the process that created them.
    pub(crate) fn check(&self) -> Result<()> {
        self.owner.check("transfer")?;
        if self.chunk == Some(0) {
            return Err(Error::Invalid("a chunk of 0 bytes moves nothing".into()));
        }
        let ahead = self.ahead.len();
        match self.limit {
            Some(limit) if limit < ahead as u64 => Err(Error::Invalid(format!(
                "a limit of {limit} bytes is below the {ahead} bytes that come before those of the source"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns whether the limit is reached after `taken` bytes.
    pub(crate) fn is_at_limit(&self, taken: u64) -> bool {
        self.limit.is_some_and(|limit| taken >= limit)
    }

    /// Returns the most bytes that the next call may take after `taken` bytes, at most `otherwise`.
    pub(crate) fn most(&self, taken: u64, otherwise: usize) -> usize {
        let chunk = self.most_at_once().min(otherwise);
        self.left(taken).min(chunk)
    }

    /// Returns the most bytes that one call moves.
    pub(crate) fn most_at_once(&self) -> usize {
        self.chunk.unwrap_or(usize::MAX)
    }

    /// Returns the most bytes that the next read(2) may take after `taken` bytes. The longest message of the source has
    /// `longest` bytes; only the limit may cut one.
    pub(crate) fn most_to_read(&self, taken: u64, longest: usize) -> usize {
        let chunk = self.read_chunk(longest).unwrap_or(usize::MAX);
        self.left(taken).min(chunk)
    }

    /// Returns the size of the memory for one read(2), if a chunk was set.
    pub(crate) fn read_chunk(&self, longest: usize) -> Option<usize> {
        self.chunk.map(|chunk| chunk.max(longest))
    }

    /// Returns the number of bytes that may still be taken.
    fn left(&self, taken: u64) -> usize {
        let left = self
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(taken));
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Returns the capacity in bytes that output pipes and private pipes are grown to.
    pub(crate) fn pipe_size(&self) -> usize {
        self.pipe_size.unwrap_or_else(roomy)
    }
}

//! The options of a [`Transfer`](super::Transfer) that no other object has.

use super::plan::Guarantee;
use crate::options::{Moves, Options, Resumes, Sends};
use fullbore_linux::error::{Error, Result};

/// The options of a [`Transfer`](super::Transfer).
pub type TransferOptions = Options<ForTransfer>;

/// The options that only a [`Transfer`](super::Transfer) has: methods of [`TransferOptions`] set them.
#[derive(Clone, Default)]
pub struct ForTransfer {
    pub(super) guarantee: Guarantee,
    pub(super) ahead: Vec<u8>,
    pub(super) source_offset: Option<u64>,
    pub(super) sink_offset: Option<u64>,
    pub(super) visible: bool,
}

impl Resumes for ForTransfer {}
impl Sends for ForTransfer {}
impl Moves for ForTransfer {}

impl TransferOptions {
    /// Sets the guarantee for the bytes that are moved. The default is [`Guarantee::Snapshot`], which
    /// [`plain`](Self::plain) always keeps.
    pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
        self.own.guarantee = guarantee;
        self
    }

    /// Sends these bytes first. They were read from the source before, for example by std's `Stdin` or a `BufReader`,
    /// and count as taken from it, also for the [`limit`](Self::limit), which must not be smaller.
    pub fn after(mut self, read_ahead: impl Into<Vec<u8>>) -> Self {
        self.own.ahead = read_ahead.into();
        self
    }

    /// Starts reading at this offset of the source, and does not change the position of its fd.
    pub fn source_offset(mut self, offset: u64) -> Self {
        self.own.source_offset = Some(offset);
        self
    }

    /// Starts writing at this offset of the sink, and does not change the position of its fd.
    pub fn sink_offset(mut self, offset: u64) -> Self {
        self.own.sink_offset = Some(offset);
        self
    }

    /// Sets whether the progress callback gets the bytes themselves. Only methods that bring them into this process's
    /// memory are used then.
    pub fn visible(mut self, visible: bool) -> Self {
        self.own.visible = visible;
        self
    }

    /// Returns whether the bytes that are read and those that are written are apart, if they are of one file.
    pub(super) fn has_ranges_apart(&self) -> bool {
        let offsets = self.own.source_offset.zip(self.own.sink_offset);
        let apart = offsets.map(|(from, to)| from.abs_diff(to));
        apart
            .zip(self.limit)
            .is_some_and(|(apart, len)| apart >= len)
    }

    /// # Errors
    /// [`Error::Invalid`] for options that would never move a byte.
    pub(super) fn check(&self) -> Result<()> {
        self.check_chunk()?;
        let ahead = self.own.ahead.len();
        match self.limit {
            Some(limit) if limit < ahead as u64 => Err(Error::Invalid(format!(
                "a limit of {limit} bytes is below the {ahead} bytes that come before those of the source"
            ))),
            _ => Ok(()),
        }
    }
}

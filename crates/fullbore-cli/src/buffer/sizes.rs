//! The memory of a buffer, and how much of it is moved at a time.

use anyhow::bail;
use fullbore_host::refusal::Usage;
use fullbore_host::size;

use super::memory::{Asked, Memory};
use super::options::Options;

/// The memory, and how much of it is moved at a time.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub memory: usize,
    pub block: Option<usize>,
}

impl Options {
    /// Returns the memory and the block size. As with mbuffer, each follows from two of -m, -s and -b.
    ///
    /// # Errors
    /// If they contradict each other, or the memory does not fit, where the buffer is `in_memory`.
    pub fn sizes(&self, in_memory: bool) -> anyhow::Result<Sizes> {
        let memory = Memory::here()?;
        let asked = match (self.memory, self.block_size, self.blocks) {
            (None, Some(size), Some(blocks)) => Some(Asked::Bytes(size.saturating_mul(blocks))),
            (asked, ..) => asked,
        };
        let bytes = memory.bytes(asked, in_memory)?;
        let block = match (self.block_size, self.blocks) {
            (None, Some(blocks)) => Some(bytes as u64 / blocks),
            (size, _) => size,
        };
        match (self.memory, self.block_size, self.blocks) {
            (Some(Asked::Bytes(bytes)), Some(size), Some(blocks))
                if size.checked_mul(blocks) != Some(bytes) =>
            {
                bail!(Usage(format!(
                    "-m {bytes} is not {blocks} blocks (-b) of {size} bytes (-s): leave one of them out"
                )));
            }
            _ => {}
        }
        let shown = size::format(bytes as u64);
        if let (Some(0), Some(blocks)) = (block, self.blocks) {
            bail!(Usage(format!(
                "a buffer of {shown} has fewer bytes than the {blocks} blocks of -b"
            )));
        }
        if let Some(size) = block.filter(|&size| bytes as u64 / size.max(1) < 5) {
            let size = size::format(size);
            bail!(Usage(format!(
                "a buffer of {shown} holds fewer than five blocks of {size}"
            )));
        }
        let least = 2 * fullbore_linux::page_size();
        if bytes < least {
            bail!(Usage(format!(
                "a buffer of {bytes} bytes is too small: it needs at least {least}"
            )));
        }
        Ok(Sizes {
            memory: bytes,
            block: block.and_then(|block| usize::try_from(block).ok()),
        })
    }
}

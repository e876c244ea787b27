//! The memory of a buffer, and how much of it is moved at a time.

use fullbore_host::refusal::Usage;
use fullbore_host::size;

use super::memory::{Asked, Memory};

/// What the options -m, -s and -b say.
#[derive(Debug, Clone, Copy)]
pub struct AskedSizes {
    pub memory: Option<Asked>,
    pub block: Option<u64>,
    pub blocks: Option<u64>,
}

/// The memory, and how much of it is moved at a time.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub memory: usize,
    pub block: Option<usize>,
}

impl AskedSizes {
    /// Returns the memory and the block size. As with mbuffer, each follows from two of -m, -s and -b.
    ///
    /// # Errors
    /// If they contradict each other, or the memory does not fit, where the buffer is `in_memory`.
    pub fn sizes(self, in_memory: bool) -> anyhow::Result<Sizes> {
        let memory = Memory::here()?;
        let asked = match (self.memory, self.block, self.blocks) {
            (None, Some(size), Some(blocks)) => Some(Asked::Bytes(size.saturating_mul(blocks))),
            (asked, ..) => asked,
        };
        let bytes = memory.bytes(asked, in_memory)?;
        let block = match (self.block, self.blocks) {
            (None, Some(blocks)) => Some(bytes as u64 / blocks),
            (size, _) => size,
        };
        match (self.memory, self.block, self.blocks) {
            (Some(Asked::Bytes(bytes)), Some(size), Some(blocks))
                if size.checked_mul(blocks) != Some(bytes) =>
            {
                return Err(Usage(format!(
                    "-m {bytes} is not {blocks} blocks (-b) of {size} bytes (-s): leave one of them out"
                ))
                .into());
            }
            _ => {}
        }
        if let (Some(0), Some(blocks)) = (block, self.blocks) {
            return Err(Usage(format!(
                "a buffer of {} has fewer bytes than the {blocks} blocks of -b",
                size::format(bytes as u64)
            ))
            .into());
        }
        if let Some(size) = block.filter(|&size| bytes as u64 / size.max(1) < 5) {
            return Err(Usage(format!(
                "a buffer of {} holds fewer than five blocks of {}",
                size::format(bytes as u64),
                size::format(size)
            ))
            .into());
        }
        let least = 2 * fullbore_linux::page_size();
        if bytes < least {
            return Err(Usage(format!(
                "a buffer of {bytes} bytes is too small: it needs at least {least}"
            ))
            .into());
        }
        Ok(Sizes {
            memory: bytes,
            block: block.and_then(|block| usize::try_from(block).ok()),
        })
    }
}

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
        let product = self.block_size.zip(self.blocks);
        let product = product.map(|(size, blocks)| Asked::Bytes(size.saturating_mul(blocks)));
        let bytes = Memory::here().bytes(self.memory.or(product), in_memory)?;
        let quotient = self.blocks.map(|blocks| bytes as u64 / blocks);
        let block = self.block_size.or(quotient);
        // With a percentage of the memory, what follows from it is as good as any.
        let is_contradiction = matches!((self.memory, product),
            (Some(asked @ Asked::Bytes(_)), Some(product)) if asked != product);
        let (shown, least) = (size::format(bytes as u64), 2 * fullbore_linux::page_size());
        let wrong = match (block, self.blocks) {
            (Some(size), Some(blocks)) if is_contradiction => {
                format!(
                    "-m {bytes} is not {blocks} blocks (-b) of {size} bytes (-s): leave one of them out"
                )
            }
            (Some(0), Some(blocks)) => {
                format!("a buffer of {shown} has fewer bytes than the {blocks} blocks of -b")
            }
            (Some(size), _) if bytes as u64 / size.max(1) < 5 => {
                let size = size::format(size);
                format!("a buffer of {shown} holds fewer than five blocks of {size}")
            }
            _ if bytes < least => {
                format!("a buffer of {bytes} bytes is too small: it needs at least {least}")
            }
            _ => {
                let block = block.and_then(|block| usize::try_from(block).ok());
                return Ok(Sizes {
                    memory: bytes,
                    block,
                });
            }
        };
        bail!(Usage(wrong))
    }
}

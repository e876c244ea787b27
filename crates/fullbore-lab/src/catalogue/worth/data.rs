//! The bytes that are brought to a reader: a block of text or of compressed text, again and again.

use anyhow::{Result, bail};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::table::Use;
use crate::catalogue::text::log_lines;

/// How much text there is. It is small enough for the producer's cache.
const TEXT: usize = 1 << 20;

/// The bytes of text in one compressed frame.
const FRAME: usize = 128 << 10;

/// The bytes at the beginning that are checked: several times the capacity of any pipe.
pub const CHECKED: u64 = 4 << 20;

/// A block of bytes that is repeated.
pub struct Block {
    /// The bytes of the block.
    pub bytes: Vec<u8>,
}

impl Block {
    /// Returns the block that a reader with this use gets: log lines, compressed for one that decompresses.
    pub fn sent_to(to: Use) -> Self {
        let bytes = match to {
            Use::Zstd => log_lines(TEXT)
                .chunks(FRAME)
                .flat_map(|text| compress_to_vec(text, CompressionLevel::Fastest))
                .collect(),
            _ => log_lines(TEXT),
        };
        Self { bytes }
    }

    /// Returns what a reader with this use sees: the lines.
    pub fn seen() -> Self {
        Self {
            bytes: log_lines(TEXT),
        }
    }

    /// Checks bytes at this position of the stream of repeated blocks.
    ///
    /// # Errors
    /// Fails if one is wrong.
    pub fn check(&self, bytes: &[u8], position: u64) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = ((position + done as u64) % self.bytes.len() as u64) as usize;
            let n = (bytes.len() - done).min(self.bytes.len() - at);
            if bytes[done..done + n] != self.bytes[at..at + n] {
                bail!(
                    "wrong byte from position {} of the stream on",
                    position + done as u64
                );
            }
            done += n;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_checked_across_its_end_and_a_wrong_byte_is_found() {
        let block = Block::sent_to(Use::Sum);
        let len = block.bytes.len();
        let twice = block.bytes.repeat(2);
        block
            .check(&twice[len - 5..len + 9], (3 * len - 5) as u64)
            .unwrap();
        let mut wrong = twice[..len].to_vec();
        wrong[len / 2] ^= 1;
        assert!(block.check(&wrong, len as u64).is_err());
        assert!(block.check(&wrong[..len / 2], len as u64).is_ok());
    }
}

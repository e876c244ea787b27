//! The bytes that are brought to a reader: a block of text or of compressed text, repeated.

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

/// Returns the block that a reader with this use gets: log lines, compressed for one that decompresses.
pub fn sent_to(to: Use) -> Vec<u8> {
    match to {
        Use::Zstd => seen()
            .chunks(FRAME)
            .flat_map(|text| compress_to_vec(text, CompressionLevel::Fastest))
            .collect(),
        _ => seen(),
    }
}

/// Returns the block that every reader sees: the lines.
pub fn seen() -> Vec<u8> {
    log_lines(TEXT)
}

/// Checks bytes at this position of a stream of repeated blocks.
///
/// # Errors
/// Fails if one is wrong.
pub fn check(block: &[u8], bytes: &[u8], position: u64) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let position = position + done as u64;
        let at = (position % block.len() as u64) as usize;
        let n = (bytes.len() - done).min(block.len() - at);
        if bytes[done..done + n] != block[at..at + n] {
            bail!("wrong byte from position {position} of the stream on");
        }
        done += n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_checked_across_its_end_and_a_wrong_byte_is_found() {
        let block = sent_to(Use::Sum);
        let len = block.len();
        let twice = block.repeat(2);
        check(&block, &twice[len - 5..len + 9], (3 * len - 5) as u64).unwrap();
        let mut wrong = twice[..len].to_vec();
        wrong[len / 2] ^= 1;
        assert!(check(&block, &wrong, len as u64).is_err());
        assert!(check(&block, &wrong[..len / 2], len as u64).is_ok());
    }
}

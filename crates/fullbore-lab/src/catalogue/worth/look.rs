//! Readers that look at every byte.

use std::hint::black_box;
use std::io::BufRead;

use anyhow::{Context, Result};
use memchr::memchr_iter;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest, Sha256};

use super::data::{check, seen};
use super::table::Use;
use crate::catalogue::transports::stream::{Moved, ReadProgress};
use fullbore_bytes::pattern;

/// Reads and uses bytes until the time is up.
///
/// # Errors
/// Fails if a byte is wrong, or the stream ends.
pub fn look(source: impl BufRead, to: Use, progress: ReadProgress) -> Result<Moved> {
    match to {
        Use::Sha256 => {
            let mut hash = Sha256::new();
            let moved = each(source, progress, |bytes, _| hash.update(bytes));
            black_box(hash.finalize());
            moved
        }
        Use::Crc32 => {
            let mut checksum = crc32fast::Hasher::new();
            let moved = each(source, progress, |bytes, _| checksum.update(bytes));
            black_box(checksum.finalize());
            moved
        }
        Use::Lines => {
            let mut lines = 0;
            let moved = each(source, progress, |bytes, _| {
                lines += memchr_iter(b'\n', bytes).count();
            });
            black_box(lines);
            moved
        }
        Use::Zstd => decompress(source, progress),
        _ => {
            let mut sum = 0u64;
            let moved = each(source, progress, |bytes, position| {
                sum = sum.wrapping_add(pattern::sum(bytes, position));
            });
            black_box(sum);
            moved
        }
    }
}

/// Uses the bytes as they come, with their position in the stream. The first ones are also checked.
fn each(
    mut source: impl BufRead,
    mut progress: ReadProgress,
    mut take: impl FnMut(&[u8], u64),
) -> Result<Moved> {
    let expected = seen();
    loop {
        let bytes = source.fill_buf().context("read")?;
        if progress.is_checking() {
            check(&expected, bytes, progress.position)?;
        }
        take(bytes, progress.position);
        let n = bytes.len();
        source.consume(n);
        if let Some(moved) = progress.add(n)? {
            return Ok(moved);
        }
    }
}

/// Decompresses one frame after the other. The first ones are also checked.
fn decompress(mut source: impl BufRead, mut progress: ReadProgress) -> Result<Moved> {
    let expected = seen();
    let mut decoder = FrameDecoder::new();
    let (mut text, mut position) = (Vec::new(), 0);
    loop {
        decoder.reset(&mut source).context("read a frame")?;
        decoder
            .decode_blocks(&mut source, BlockDecodingStrategy::All)
            .context("decompress")?;
        text.clear();
        decoder.collect_to_writer(&mut text)?;
        if progress.is_checking() {
            check(&expected, &text, position)?;
            position += text.len() as u64;
        }
        black_box(&text);
        if let Some(moved) = progress.add(decoder.bytes_read_from_source() as usize)? {
            return Ok(moved);
        }
    }
}

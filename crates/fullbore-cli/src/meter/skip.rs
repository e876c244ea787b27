//! How far to go on behind a place that cannot be read.
//!
//! Nothing here reads a file. The one idea: a read of many bytes fails if a single one of them is bad, so
//! after a failure only what is left of a block of 512 bytes is asked for, and then only as much as would be
//! skipped. When even that fails, it is skipped: a byte at first, and more if many reads fail in a row, as pv
//! does it.

/// The block that disks have at least, and the longest skip.
pub const BLOCK: u64 = 512;

/// What was met so far in one file.
#[derive(Debug, Default)]
pub struct Skipping {
    /// Reads in a row that failed.
    errors: u32,
    /// How many bytes a read asks for, if that is limited.
    pub reach: Option<u64>,
    /// The bytes to leave out at a time, if the user chose that.
    block: Option<u64>,
}

impl Skipping {
    pub fn new(block: Option<u64>) -> Self {
        Self {
            block,
            ..Self::default()
        }
    }

    /// Notes that a read at `position` was right. Twice as much is asked for then, up to no limit.
    pub fn well(&mut self, position: u64) {
        self.errors = 0;
        self.reach = match self.reach {
            Some(reach) if reach < 64 << 10 => Some(aligned(position, reach.max(BLOCK / 2) * 2)),
            _ => None,
        };
    }

    /// Returns how many bytes to leave out after a read at `position` that failed, or `None` to read again, but fewer
    /// bytes; the bytes end at `end`, if that is known.
    pub fn failed(&mut self, position: u64, end: Option<u64>) -> Option<u64> {
        let left = end.map_or(u64::MAX, |end| end.saturating_sub(position).max(1));
        let small = aligned(position, self.step().max(BLOCK)).min(left);
        let skip = aligned(position, self.step()).min(left);
        for fewer in [small, skip] {
            if self.reach.is_none_or(|reach| reach > fewer) {
                self.reach = Some(fewer);
                return None;
            }
        }
        self.errors += 1;
        self.reach = Some(aligned(position + skip, self.step()));
        Some(skip)
    }

    /// Returns how many bytes to leave out after the next error.
    fn step(&self) -> u64 {
        match (self.block, self.errors + 1) {
            (Some(block), _) => block,
            (None, 1..=4) => 1,
            (None, 5..=9) => 2,
            (None, errors @ 10..=19) => 1 << (errors - 10),
            (None, _) => BLOCK,
        }
    }
}

/// Returns the bytes from `position` to the next multiple of `block`.
fn aligned(position: u64, block: u64) -> u64 {
    block - position % block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `len` bytes of which those that are `bad` cannot be read, and returns which were left out, and
    /// how many reads that took.
    fn left_out(len: u64, bad: impl Fn(u64) -> bool, block: Option<u64>) -> (Vec<u64>, u64) {
        let (mut at, mut skipped, mut reads) = (0, Vec::new(), 0);
        let mut skipping = Skipping::new(block);
        while at < len {
            reads += 1;
            let to = len.min(at + skipping.reach.unwrap_or(128 << 10));
            if !(at..to).any(&bad) {
                at = to;
                skipping.well(at);
            } else if let Some(bytes) = skipping.failed(at, Some(len)) {
                skipped.extend(at..at + bytes);
                at += bytes;
            }
        }
        assert_eq!(at, len);
        (skipped, reads)
    }

    #[test]
    fn no_block_is_left_out_that_can_be_read() {
        let block = |n: u64| move |at: u64| at / BLOCK == n;
        for len in [300_000, 512 * 40] {
            for n in [0, 1, 17, 39] {
                let (skipped, _) = left_out(len, block(n), None);
                let expected: Vec<u64> = (n * BLOCK..(n + 1) * BLOCK).collect();
                assert_eq!(skipped, expected, "{len} {n}");
            }
        }
        // The last one, of which there is only a part.
        let (skipped, _) = left_out(300_000, block(300_000 / BLOCK), None);
        assert_eq!(
            skipped,
            (300_000 / BLOCK * BLOCK..300_000).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_single_byte_costs_a_single_byte_and_many_are_passed_in_blocks() {
        let (skipped, _) = left_out(300_000, |at| at == 70_000, None);
        assert_eq!(skipped, [70_000]);
        let (skipped, reads) = left_out(3_000_000, |at| at >= BLOCK, None);
        assert_eq!(skipped.len(), 3_000_000 - 512);
        assert!(reads < 3_000_000 / 512 + 1000, "{reads}");
        let (skipped, reads) = left_out(1 << 20, |at| at >= 4096, Some(4096));
        assert_eq!((skipped.len(), reads < 400), ((1 << 20) - 4096, true));
    }
}

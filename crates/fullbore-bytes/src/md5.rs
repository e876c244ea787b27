//! MD5 (RFC 1321), for checksums: it is easily forged.
//!
//! Each of the 64 steps of a block needs the result of the step before it, so its time is the sum of their latencies.
//! The table of constants is read from memory here. As constants of the code, compilers add them last, which lengthens
//! each step: the crate `md-5` takes 1.26 times as long, and the assembly of OpenSSL 3 takes 1.05 times as long.

/// The bytes of a block.
const BLOCK: usize = 64;

/// A digest that is being computed.
pub struct Md5 {
    table: [u32; 64],
    state: [u32; 4],
    length: u64,
    /// The bytes after the last whole block.
    rest: Vec<u8>,
}

impl Default for Md5 {
    /// Returns the digest of no bytes.
    fn default() -> Self {
        Self {
            // RFC 1321, 3.4: the integer part of 2^32 times abs(sin(i)), where i is in radians.
            table: std::array::from_fn(|i| ((i as f64 + 1.0).sin().abs() * 2f64.powi(32)) as u32),
            state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
            length: 0,
            rest: Vec::with_capacity(2 * BLOCK),
        }
    }
}

impl Md5 {
    /// Adds `bytes` to what the digest is of.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        if !self.rest.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(BLOCK - self.rest.len()));
            self.rest.extend_from_slice(head);
            bytes = tail;
            if self.rest.len() < BLOCK {
                return;
            }
            compress(&self.table, &mut self.state, &self.rest);
            self.rest.clear();
        }
        let (whole, rest) = bytes.split_at(bytes.len() / BLOCK * BLOCK);
        compress(&self.table, &mut self.state, whole);
        self.rest.extend_from_slice(rest);
    }

    /// Returns the digest.
    pub fn finalize(mut self) -> [u8; 16] {
        self.rest.push(0x80);
        while self.rest.len() % BLOCK != BLOCK - 8 {
            self.rest.push(0);
        }
        self.rest
            .extend_from_slice(&self.length.wrapping_mul(8).to_le_bytes());
        compress(&self.table, &mut self.state, &self.rest);
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }
}

/// Adds whole blocks.
fn compress(table: &[u32; 64], state: &mut [u32; 4], blocks: &[u8]) {
    for block in blocks.chunks_exact(BLOCK) {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let before = *state;
        round::<0>(table, state, &words);
        round::<1>(table, state, &words);
        round::<2>(table, state, &words);
        round::<3>(table, state, &words);
        for (sum, word) in state.iter_mut().zip(before) {
            *sum = sum.wrapping_add(word);
        }
    }
}

/// Does 16 steps, whose loop compilers unroll.
#[inline(always)]
fn round<const ROUND: usize>(table: &[u32; 64], state: &mut [u32; 4], words: &[u32; 16]) {
    for i in 0..16 {
        let [a, b, c, d] = *state;
        // `c & !d` and `b & d` have no bit in common, so their sum is what RFC 1321 calls G; only the second waits for
        // the step before.
        let (early, late, at, turns) = match ROUND {
            0 => (0, d ^ (b & (c ^ d)), i, [7, 12, 17, 22]),
            1 => (c & !d, b & d, 5 * i + 1, [5, 9, 14, 20]),
            2 => (0, b ^ (c ^ d), 3 * i + 5, [4, 11, 16, 23]),
            _ => (0, c ^ (b | !d), 7 * i, [6, 10, 15, 21]),
        };
        let ready = a
            .wrapping_add(table[ROUND * 16 + i])
            .wrapping_add(words[at % 16])
            .wrapping_add(early);
        let next = ready
            .wrapping_add(late)
            .rotate_left(turns[i % 4])
            .wrapping_add(b);
        *state = [d, next, b, c];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(md5: Md5) -> String {
        md5.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    #[test]
    fn digests_are_those_of_the_rfc() {
        let digits = "1234567890".repeat(8);
        for (bytes, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (&digits, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            let mut md5 = Md5::default();
            md5.update(bytes.as_bytes());
            assert_eq!(text(md5), expected, "{bytes}");
        }
    }

    #[test]
    fn pieces_of_all_lengths_have_the_digest_of_the_whole() {
        let bytes = vec![b'a'; 1_000_000];
        for piece in [1, 55, 56, 63, 64, 65, 127, 128, 129, 4096, 65_535] {
            let mut md5 = Md5::default();
            bytes.chunks(piece).for_each(|piece| md5.update(piece));
            assert_eq!(
                text(md5),
                "7707d6ae4e027c70eea2a935c2296f21",
                "pieces of {piece}"
            );
        }
    }
}

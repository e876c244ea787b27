//! Defines the pattern that shows whether every byte is right and in the right place.
//!
//! The stream is a sequence of 64-bit little-endian words; word *i* is *i* times an odd constant.
//! Each byte therefore depends on its position, so that a byte that is lost, doubled, moved or
//! changed is detected. Both filling and checking are additions, which the compiler turns into
//! vector code.

/// 2^64 divided by the golden ratio, as an odd integer (Knuth, The Art of Computer Programming,
/// volume 3, 6.4).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
const WORD: usize = size_of::<u64>();

fn word_at(position: u64) -> u64 {
    (position / WORD as u64).wrapping_mul(STEP)
}

fn byte_at(position: u64) -> u8 {
    word_at(position).to_le_bytes()[(position % WORD as u64) as usize]
}

/// Returns the number of bytes before the next whole word, for `len` bytes at `position`.
fn head(position: u64, len: usize) -> usize {
    len.min((position.wrapping_neg() % WORD as u64) as usize)
}

/// Fills `buf` with the part of the stream that begins at `position`.
pub fn fill(buf: &mut [u8], position: u64) {
    let (head, rest) = buf.split_at_mut(head(position, buf.len()));
    fill_bytes(head, position);
    let position = position + head.len() as u64;
    let mut word = word_at(position);
    let mut words = rest.chunks_exact_mut(WORD);
    for bytes in &mut words {
        // Not `copy_from_slice`, which the compiler may leave as a call for each word.
        let bytes: &mut [u8; WORD] = bytes.try_into().expect("a chunk of a word");
        *bytes = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
    let len = rest.len() / WORD * WORD;
    fill_bytes(&mut rest[len..], position + len as u64);
}

fn fill_bytes(buf: &mut [u8], position: u64) {
    for (byte, position) in buf.iter_mut().zip(position..) {
        *byte = byte_at(position);
    }
}

/// Returns the position in the stream of the first wrong byte of `buf`.
pub fn first_wrong(buf: &[u8], position: u64) -> Option<u64> {
    let (head, rest) = buf.split_at(head(position, buf.len()));
    let at = position + head.len() as u64;
    let mut word = word_at(at);
    let mut difference = 0;
    let mut words = rest.chunks_exact(WORD);
    for bytes in &mut words {
        difference |= u64::from_le_bytes(bytes.try_into().expect("a chunk of a word")) ^ word;
        word = word.wrapping_add(STEP);
    }
    let tail = words.remainder();
    let tail_at = at + (rest.len() - tail.len()) as u64;
    let is_right = |bytes: &[u8], from: u64| {
        let mut all = bytes.iter().zip(from..);
        all.all(|(&byte, position)| byte == byte_at(position))
    };
    if difference == 0 && is_right(head, position) && is_right(tail, tail_at) {
        return None;
    }
    let mut wrong = (position..)
        .zip(buf)
        .filter(|(at, byte)| **byte != byte_at(*at));
    wrong.next().map(|(at, _)| at)
}

/// Does the same as [`first_wrong`], for a stream that starts again after every `period` bytes.
pub fn first_wrong_of_period(buf: &[u8], position: u64, period: Option<usize>) -> Option<u64> {
    let Some(period) = period else {
        return first_wrong(buf, position);
    };
    let (mut rest, mut at) = (buf, position);
    while !rest.is_empty() {
        let phase = at % period as u64;
        let len = rest.len().min(period - phase as usize);
        if let Some(wrong) = first_wrong(&rest[..len], phase) {
            return Some(at + (wrong - phase));
        }
        rest = &rest[len..];
        at += len as u64;
    }
    None
}

/// Returns the wrapping sum of the words of `buf`, which begins at `position` of the stream. The
/// sums of adjacent parts add up to the sum of the whole, wherever they are divided.
pub fn sum(buf: &[u8], position: u64) -> u64 {
    let (head, rest) = buf.split_at(head(position, buf.len()));
    let words = rest.chunks_exact(WORD);
    let tail = words.remainder();
    let tail_at = position + (buf.len() - tail.len()) as u64;
    let ends = sum_bytes(head, position).wrapping_add(sum_bytes(tail, tail_at));
    words.fold(ends, |sum, bytes| {
        let bytes = bytes.try_into().expect("a chunk of a word");
        sum.wrapping_add(u64::from_le_bytes(bytes))
    })
}

fn sum_bytes(buf: &[u8], position: u64) -> u64 {
    buf.iter().zip(position..).fold(0u64, |sum, (&byte, at)| {
        sum.wrapping_add(u64::from(byte) << (8 * (at % WORD as u64)))
    })
}

/// Returns the sum of the first `len` bytes of the stream.
pub fn sum_of_stream(len: u64) -> u64 {
    let words = u128::from(len / WORD as u64);
    let pairs = words * words.saturating_sub(1) / 2;
    let whole = (pairs as u64).wrapping_mul(STEP);
    let words_end = len / WORD as u64 * WORD as u64;
    let tail: Vec<u8> = (words_end..len).map(byte_at).collect();
    whole.wrapping_add(sum_bytes(&tail, words_end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stretches_fit_together_wherever_the_stream_is_cut(
            cuts in prop::collection::vec(0usize..70, 1..20),
        ) {
            let len: usize = cuts.iter().sum();
            let whole: Vec<u8> = (0..len as u64).map(byte_at).collect();
            let (mut at, mut total) = (0u64, 0u64);
            for cut in cuts {
                let mut piece = vec![0; cut];
                fill(&mut piece, at);
                prop_assert_eq!(&piece[..], &whole[at as usize..][..cut]);
                prop_assert_eq!(first_wrong(&piece, at), None);
                total = total.wrapping_add(sum(&piece, at));
                at += cut as u64;
            }
            prop_assert_eq!(total, sum_of_stream(len as u64));
        }

        #[test]
        fn every_changed_byte_is_found(len in 1usize..300, at in 0u64..100, which in 0usize..300, by in 1u8..=255) {
            let mut buf = vec![0; len];
            fill(&mut buf, at);
            let which = which % len;
            buf[which] ^= by;
            prop_assert_eq!(first_wrong(&buf, at), Some(at + which as u64));
        }
    }

    #[test]
    fn a_lost_page_shows() {
        let mut stream = vec![0; 4 * 4096];
        fill(&mut stream, 0);
        stream.drain(4096..8192);
        // Two different words may begin with the same byte.
        assert!((4096..4104).contains(&first_wrong(&stream, 0).unwrap()));
    }
}

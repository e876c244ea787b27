//! FizzBuzz at the speed of memory, to any last number up to 2^63.
//!
//! `fizzbuzz 100`, `fizzbuzz 1000000000 | wc -c`. `--recycle` reuses pages, which is right only for a reader that
//! copies, such as wc.
//!
//! Why it is fast: the words and the last three digits of the numbers repeat every 3000 lines, and the leading digits
//! stay the same for 1000 lines. So every block of 3000 lines is made from one template, which stays in the L1 cache
//! and has zeros in place of the leading digits. These are at the same places in every group of fifteen lines, and are
//! ORed into it. Each byte is written once.

use std::env;
use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use fullbore::{Producer, ProducerOptions, Way};

/// The number of lines after which the words and the last three digits repeat.
const LINES: u64 = 3000;

/// The lines of a group of 15 that are numbers, counted from 1.
const NUMBERS: [usize; 8] = [1, 2, 4, 7, 8, 11, 13, 14];

/// Bytes of words before each of these numbers in a group of 15 lines.
const WORDS: [usize; 8] = [0, 0, 5, 15, 15, 25, 30, 30];

/// Bytes of all words in 15 lines: 4 times Fizz, 2 times Buzz, once FizzBuzz.
const ALL_WORDS: usize = 6 * 5 + 9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let recycle = arguments.first().is_some_and(|first| first == "--recycle");
    if recycle {
        arguments.remove(0);
    }
    let last = match &arguments[..] {
        [] => 1 << 63,
        [last] => last
            .parse()
            .ok()
            .filter(|&last| last <= 1 << 63)
            .ok_or("LAST is a number up to 2^63")?,
        _ => return Err("usage: fizzbuzz [--recycle] [LAST]".into()),
    };
    let out = if recycle {
        // This way is right only for readers that copy.
        ProducerOptions::new()
            .way(Way::Recycle)
            .open(io::stdout())?
    } else {
        Producer::new(io::stdout())?
    };
    match play(out, last) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Plays from 1 to `last`.
fn play<Fd: AsFd>(mut out: Producer<Fd>, last: u64) -> io::Result<()> {
    let mut digits = 4;
    let mut model = model_of(digits);
    let mut next = 1;
    while next <= last {
        let end = next + (LINES - 1);
        // A block is whole, and all of its numbers have the same number of digits, at least four.
        if end > last || next < 1000 || digits_of(next) != digits_of(end) {
            play_slowly(&mut out, next, end.min(last))?;
            next = end + 1;
            continue;
        }
        if digits != digits_of(next) {
            digits = digits_of(next);
            model = model_of(digits);
        }
        let limit = last.min(10u64.saturating_pow(digits as u32) - 1);
        let chunk = out.chunk();
        let buffer = out.reserve(chunk)?;
        let mut filled = 0;
        for block in buffer.chunks_exact_mut(model.len()) {
            if next + (LINES - 1) > limit {
                break;
            }
            fill(block, &model, digits - 3, next / 1000);
            filled += block.len();
            next += LINES;
        }
        out.commit(filled)?;
    }
    out.finish()?;
    Ok(())
}

fn play_slowly(out: &mut impl Write, first: u64, last: u64) -> io::Result<()> {
    (first..=last).try_for_each(|n| match (n % 3, n % 5) {
        (0, 0) => out.write_all(b"FizzBuzz\n"),
        (0, _) => out.write_all(b"Fizz\n"),
        (_, 0) => out.write_all(b"Buzz\n"),
        _ => writeln!(out, "{n}"),
    })
}

fn digits_of(n: u64) -> usize {
    n.ilog10() as usize + 1
}

/// Returns the template of a block for numbers with this many digits: the leading digits are 0, the last three are
/// filled in.
fn model_of(digits: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for n in 1..=LINES {
        match (n % 3, n % 5) {
            (0, 0) => text.extend(b"FizzBuzz\n"),
            (0, _) => text.extend(b"Fizz\n"),
            (_, 0) => text.extend(b"Buzz\n"),
            _ => {
                text.resize(text.len() + digits - 3, 0);
                text.extend(format!("{:03}\n", n % 1000).bytes());
            }
        }
    }
    text
}

/// Fills `block` with `prefix` as the leading digits of its first 1000 lines, `prefix` + 1 for the next 1000, and so
/// on.
fn fill(block: &mut [u8], model: &[u8], digits: usize, prefix: u64) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: this CPU has AVX2.
        return unsafe { fill_by_avx2(block, model, digits, prefix) };
    }
    fill_by_digits(block, model, digits, prefix);
}

/// The same function, compiled for CPUs that move 32 bytes at once.
///
/// # Safety
/// This CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_by_avx2(block: &mut [u8], model: &[u8], digits: usize, prefix: u64) {
    fill_by_digits(block, model, digits, prefix);
}

#[inline(always)]
fn fill_by_digits(block: &mut [u8], model: &[u8], digits: usize, prefix: u64) {
    macro_rules! by_digits {
        ($($n:literal)*) => {
            match digits {
                $($n => fill_with::<$n>(block, model, prefix),)*
                _ => unreachable!("numbers up to 2^63 have 19 digits"),
            }
        };
    }
    by_digits!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

/// The number of digits is a constant, so the compiler knows all offsets.
#[inline(always)]
fn fill_with<const DIGITS: usize>(block: &mut [u8], model: &[u8], prefix: u64) {
    let number = DIGITS + 4;
    let group = NUMBERS.len() * number + ALL_WORDS;
    let prefixes: [[u8; DIGITS]; 3] = std::array::from_fn(|k| decimal(prefix + k as u64));
    // Lines 1000 and 2000 are in groups 66 and 133, which contain numbers with either prefix.
    for groups in [0..66, 66..67, 67..133, 133..134, 134..200] {
        let mut over = [0; NUMBERS.len() * 20 + ALL_WORDS];
        for (i, line) in NUMBERS.into_iter().enumerate() {
            let place = WORDS[i] + i * number;
            let digits = &prefixes[(groups.start * 15 + line) / 1000];
            over[place..place + DIGITS].copy_from_slice(digits);
        }
        let bytes = groups.start * group..groups.end * group;
        let models = model[bytes.clone()].chunks_exact(group);
        for (lines, model) in block[bytes].chunks_exact_mut(group).zip(models) {
            put_over(lines, model, &over[..group]);
        }
    }
}

/// Writes `model | over` into `lines`.
#[inline(always)]
fn put_over(lines: &mut [u8], model: &[u8], over: &[u8]) {
    let whole = lines.len() / AT_ONCE;
    for i in 0..whole {
        put_at(i * AT_ONCE, lines, model, over);
    }
    // The last register of a group overlaps the one before it.
    put_at(lines.len() - AT_ONCE, lines, model, over);
}

/// Bytes of an AVX2 register.
const AT_ONCE: usize = 32;

#[inline(always)]
fn put_at(at: usize, lines: &mut [u8], model: &[u8], over: &[u8]) {
    let range = at..at + AT_ONCE;
    let (lines, model, over) = (
        &mut lines[range.clone()],
        &model[range.clone()],
        &over[range],
    );
    for i in 0..AT_ONCE {
        lines[i] = model[i] | over[i];
    }
}

/// The last digits of `n`.
fn decimal<const DIGITS: usize>(mut n: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (n % 10) as u8;
        n /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_what_playing_slowly_gives_at_every_number_of_digits() {
        for digits in 4..=19usize {
            let from = 10u64.pow(digits as u32 - 1);
            for block in [from / LINES + 1, from * 2 / LINES, (from - 1) * 9 / LINES] {
                let first = block * LINES + 1;
                if digits_of(first) != digits || digits_of(first + LINES - 1) != digits {
                    continue;
                }
                let mut slow = Vec::new();
                play_slowly(&mut slow, first, first + LINES - 1).unwrap();
                let model = model_of(digits);
                for fill in [fill, fill_by_digits] {
                    let mut block = vec![0; model.len()];
                    fill(&mut block, &model, digits - 3, first / 1000);
                    assert!(block == slow, "{digits} digits, from {first}");
                }
            }
        }
    }

    #[test]
    fn it_is_right_across_powers_of_ten_and_stops_exactly() {
        for last in [
            0, 1, 2, 15, 100, 2999, 3000, 3001, 9_999, 10_000, 123_456, 1_000_001,
        ] {
            let mut right = Vec::new();
            play_slowly(&mut right, 1, last).unwrap();
            let file = tempfile::tempfile().unwrap();
            play(Producer::new(&file).unwrap(), last).unwrap();
            let mut written = Vec::new();
            use std::io::{Read, Seek};
            (&file).rewind().unwrap();
            (&file).read_to_end(&mut written).unwrap();
            assert!(written == right, "to {last}");
        }
    }
}

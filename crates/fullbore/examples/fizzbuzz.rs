//! FizzBuzz at the speed of memory, to any last number up to 2^63.
//!
//! `fizzbuzz 100`, `fizzbuzz 1000000000 | wc -c`. `--recycle` sends by the way that needs a reader that
//! copies, such as wc.
//!
//! How it is fast: both the game and the last three digits repeat themselves after 3000 lines. Such a
//! block becomes the next one when the digits in front of the last three are changed in its 1600
//! numbers. They are the same for a thousand lines, they stand at places that depend on nothing but
//! their count, and mostly only the last two of them change.

use std::env;
use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use fullbore::{Producer, ProducerOptions};

/// Lines after which the game and the last three digits begin anew.
const LINES: u64 = 3000;

/// Which of 15 lines are numbers, counted from 1.
const NUMBERS: [usize; 8] = [1, 2, 4, 7, 8, 11, 13, 14];

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
        // SAFETY: by its name this option is only for readers that copy.
        unsafe { ProducerOptions::new().recycle(io::stdout()) }?
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
        // A block has numbers of one length, of four digits at least, and ends where it should.
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
        for block in buffer.chunks_exact_mut(model.text.len()) {
            if next + (LINES - 1) > limit {
                break;
            }
            fill(block, &mut model, digits - 3, next / 1000);
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

/// The block that the next one is made of.
struct Model {
    text: Vec<u8>,
    /// What all digits but the last two of the prefixes in it say; `None` while they are not alike.
    hundreds: Option<u64>,
}

/// A block of numbers with this many digits, of which only the last three are filled in.
fn model_of(digits: usize) -> Model {
    let mut text = Vec::new();
    for n in 1..=LINES {
        match (n % 3, n % 5) {
            (0, 0) => text.extend(b"FizzBuzz\n"),
            (0, _) => text.extend(b"Fizz\n"),
            (_, 0) => text.extend(b"Buzz\n"),
            _ => text.extend(format!("{:0digits$}\n", n % 1000).bytes()),
        }
    }
    Model {
        text,
        hundreds: None,
    }
}

/// Makes `block` the one whose numbers have `prefix` in front of their last three digits, `prefix` + 1
/// from its line 1000 on, and so forth. `model` is the block before it, and becomes this one.
fn fill(block: &mut [u8], model: &mut Model, digits: usize, prefix: u64) {
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

/// With the number of digits known at compile time, all places are, too.
fn fill_with<const DIGITS: usize>(block: &mut [u8], model: &mut Model, prefix: u64) {
    let prefixes: [[u8; DIGITS]; 3] = std::array::from_fn(|k| decimal(prefix + k as u64));
    let hundreds = Some(prefix / 100).filter(|&hundreds| hundreds == (prefix + 2) / 100);
    if DIGITS >= 2 && hundreds.is_some() && model.hundreds == hundreds {
        let last_two = prefixes.map(|digits| [digits[DIGITS - 2], digits[DIGITS - 1]]);
        advance(&mut model.text, block, DIGITS + 4, DIGITS - 2, last_two);
    } else {
        advance(&mut model.text, block, DIGITS + 4, 0, prefixes);
        model.hundreds = hundreds;
    }
}

/// Puts the digits for each thousand lines `at` so many bytes into the numbers of the model, which
/// are `number` bytes long, and copies the model into `block`.
#[inline(always)]
fn advance<const N: usize>(
    model: &mut [u8],
    block: &mut [u8],
    number: usize,
    at: usize,
    digits: [[u8; N]; 3],
) {
    // Fifteen lines: 8 numbers, 4 times Fizz, 2 times Buzz, once FizzBuzz.
    let group = 8 * number + 6 * 5 + 9;
    // The numbers stand after so many bytes of words.
    let places: [usize; 8] =
        std::array::from_fn(|i| [0, 0, 5, 15, 15, 25, 30, 30][i] + i * number + at);
    // The lines 1000 and 2000 are in the groups 66 and 133, which have numbers of both sides.
    for (digits, groups) in digits.into_iter().zip([0..66, 67..133, 134..200]) {
        let bytes = groups.start * group..groups.end * group;
        let model = &mut model[bytes.clone()];
        for lines in model.chunks_exact_mut(group) {
            for place in places {
                lines[place..place + N].copy_from_slice(&digits);
            }
        }
        // This part of the model is still in the fastest cache.
        block[bytes].copy_from_slice(model);
    }
    for mixed in [66, 133] {
        let bytes = mixed * group..(mixed + 1) * group;
        let lines = &mut model[bytes.clone()];
        for (line, place) in NUMBERS.into_iter().zip(places) {
            let digits = digits[(mixed * 15 + line) / 1000];
            lines[place..place + N].copy_from_slice(&digits);
        }
        block[bytes].copy_from_slice(lines);
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
                let mut model = model_of(digits);
                let mut block = vec![0; model.text.len()];
                fill(&mut block, &mut model, digits - 3, first / 1000);
                assert!(block == slow, "{digits} digits, from {first}");
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

//! What a receiver of a sealed stream says over the same connection (docs/seal.md, 'The answer'): a greeting at once, and
//! at its end whether the content is in place.

use std::io::{self, Read, Write};

/// The greeting: its last byte is the version.
pub const GREETING: [u8; 8] = *b"\x8Ffbansw\x01";

/// The length of an answer.
const ANSWER: usize = 1 + SEAL;

/// The bytes of a seal that an answer repeats: the length and the digest of the content.
pub const SEAL: usize = 40;

/// What became of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has failed, and no output file was replaced by it.
    Failed,
    /// Every output has all of it.
    InPlace,
    /// So it is, and files and their names are on the disk.
    OnDisk,
}

/// The answers, in the order of their numbers.
const OUTCOMES: [Outcome; 3] = [Outcome::Failed, Outcome::InPlace, Outcome::OnDisk];

/// Writes the answer about the stream with this seal.
///
/// # Errors
/// Those of writing.
pub fn write(mut to: impl Write, outcome: Outcome, seal: &[u8; SEAL]) -> io::Result<()> {
    let mut answer = [0; ANSWER];
    if outcome != Outcome::Failed {
        answer[1..].copy_from_slice(seal);
    }
    answer[0] = OUTCOMES.iter().position(|one| *one == outcome).unwrap_or(0) as u8;
    to.write_all(&answer)
}

/// Reads the answer about the stream with this seal, up to the end of the connection.
///
/// # Errors
/// Those of reading; `InvalidData` if it is no such answer.
pub fn read(mut from: impl Read, seal: &[u8; SEAL]) -> io::Result<Outcome> {
    let mut answer = [0; ANSWER];
    from.read_exact(&mut answer)?;
    let outcome = OUTCOMES.get(usize::from(answer[0])).copied();
    let is_right = match outcome {
        Some(Outcome::Failed) => answer[1..] == [0; SEAL],
        _ => answer[1..] == *seal,
    };
    // What follows makes something else of it. That the connection is reset behind it does not.
    let goes_on = matches!(from.read(&mut [0]), Ok(1..));
    let why = "this is no answer about this stream";
    let outcome = outcome.filter(|_| is_right && !goes_on);
    outcome.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Passes bytes on, and keeps the last of them: those of the seal, once all have passed.
pub struct Tail<T> {
    inner: T,
    last: [u8; SEAL],
}

impl<T> Tail<T> {
    pub fn new(inner: T) -> Self {
        Self {
            inner,
            last: [0; SEAL],
        }
    }

    pub fn last(&self) -> [u8; SEAL] {
        self.last
    }

    fn passed(&mut self, bytes: &[u8]) {
        let new = bytes.len().min(SEAL);
        self.last.copy_within(new.., 0);
        self.last[SEAL - new..].copy_from_slice(&bytes[bytes.len() - new..]);
    }
}

impl<T: Write> Write for Tail<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.passed(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Tail<T> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(room)?;
        self.passed(&room[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_vectors_of_the_page_are_right() {
        let page = include_str!("../../../../docs/seal.md");
        let (_, page) = page.split_once("## The answer").unwrap();
        let bytes = |text: &str| -> Vec<u8> {
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
            digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
        };
        let row = |name: &str| {
            let start = format!("| {name} | `");
            let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("{name}"));
            bytes(rest.split_once('`').unwrap().0)
        };
        assert_eq!(row("greeting"), GREETING);
        let stream = row("stream");
        let mut tail = Tail::new(io::sink());
        for part in stream.chunks(7) {
            tail.write_all(part).unwrap();
        }
        for (name, outcome) in ["failed", "in place", "on the disk"].iter().zip(OUTCOMES) {
            let mut answer = Vec::new();
            write(&mut answer, outcome, &tail.last()).unwrap();
            assert_eq!(row(name), answer, "{name}");
            assert_eq!(read(&answer[..], &tail.last()).unwrap(), outcome);
        }
    }

    #[test]
    fn nothing_but_the_answer_about_this_stream_is_one() {
        let seal = std::array::from_fn(|at| at as u8);
        let mut answer = Vec::new();
        write(&mut answer, Outcome::InPlace, &seal).unwrap();
        for at in 0..answer.len() {
            assert!(read(&answer[..at], &seal).is_err(), "{at}");
            for bit in 0..8 {
                let mut wrong = answer.clone();
                wrong[at] ^= 1 << bit;
                // That it is on the disk too is another answer.
                let is_other = at == 0 && wrong[0] == 2;
                let read = read(&wrong[..], &seal);
                assert!(
                    read.is_err() || is_other || at > 0 && wrong[0] == 0,
                    "{at} {bit}"
                );
            }
        }
        answer.push(0);
        assert!(read(&answer[..], &seal).is_err());
    }
}

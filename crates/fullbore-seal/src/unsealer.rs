//! Reads a sealed stream.

use std::fmt;
use std::io::{self, BufRead, Read};

use blake3::Hasher;

use crate::damage::Damage;
use crate::format::{CHECK, DIGEST, FRAME, LENGTH, MAGIC, TOTAL, VERSION};

/// Reads the content of a sealed stream. Its end of file means that the stream is complete: the seal was right, and the
/// source has ended.
///
/// It reads a few bytes before each frame: read a file through a [`BufReader`](io::BufReader).
///
/// An incomplete stream is an error that contains a [`Damage`], after the content before the damage has been returned.
/// An error of the source is returned unchanged, and the next call continues where it happened.
pub struct Unsealer<R> {
    source: R,
    hasher: Hasher,
    /// Content bytes of all verified frames.
    content: u64,
    /// Bytes of the stream before those in `part`.
    before: u64,
    /// The part of the stream that is being read: the header, the length of a frame, a frame or the seal.
    part: Vec<u8>,
    /// How much of the part has been read.
    filled: usize,
    /// The content in the part that has not been returned.
    ready: std::ops::Range<usize>,
    next: Next,
}

impl<R: fmt::Debug> fmt::Debug for Unsealer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsealer")
            .field("source", &self.source)
            .field("content", &self.content)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// The part of the stream that comes next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Header,
    Length,
    Frame(usize),
    Seal,
    End,
    /// Nothing: the stream is complete, or damaged.
    Nothing(Option<Damage>),
}

impl<R: Read> Unsealer<R> {
    /// Reads the stream from its beginning.
    pub fn new(source: R) -> Self {
        Self {
            source,
            hasher: Hasher::new(),
            content: 0,
            before: 0,
            part: Vec::new(),
            filled: 0,
            ready: 0..0,
            next: Next::Header,
        }
    }

    /// Returns the source, from which at most the bytes up to the next frame, or to its end, have been read.
    pub fn into_inner(self) -> R {
        self.source
    }

    /// Reads the next part of the stream, and checks it.
    fn step(&mut self) -> io::Result<()> {
        let checked = match self.next {
            Next::Header => self.header()?,
            Next::Length => self.fill(LENGTH)?.and_then(|()| self.length()),
            Next::Frame(len) => (self.fill(len + CHECK)?).and_then(|()| self.frame(len)),
            Next::Seal => (self.fill(TOTAL + DIGEST)?).and_then(|()| self.seal()),
            Next::End => match self.fill(1)? {
                Ok(()) => Err(Damage::GoesOn { after: self.before }),
                Err(_) => Ok(Next::Nothing(None)),
            },
            Next::Nothing(None) => return Ok(()),
            Next::Nothing(Some(damage)) => return Err(damage.into()),
        };
        match checked {
            Ok(next) => {
                self.before += self.filled as u64;
                self.filled = 0;
                self.next = next;
                Ok(())
            }
            Err(damage) => {
                self.next = Next::Nothing(Some(damage));
                Err(damage.into())
            }
        }
    }

    /// Reads until the part has `len` bytes.
    fn fill(&mut self, len: usize) -> io::Result<Result<(), Damage>> {
        if self.part.len() < len {
            self.part.resize(len, 0);
        }
        while self.filled < len {
            match self.source.read(&mut self.part[self.filled..len]) {
                Ok(0) => {
                    let after = self.before + self.filled as u64;
                    return Ok(Err(Damage::NoSeal { after }));
                }
                Ok(n) => self.filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(()))
    }

    /// Reads the header byte by byte, so that anything but a sealed stream is refused at its first wrong byte.
    fn header(&mut self) -> io::Result<Result<Next, Damage>> {
        for (at, &expected) in MAGIC.iter().enumerate() {
            if let Err(damage) = self.fill(at + 1)? {
                return Ok(Err(damage));
            }
            if self.part[at] != expected {
                return Ok(Err(Damage::NotSealed));
            }
        }
        Ok(self
            .fill(MAGIC.len() + 1)?
            .and_then(|()| match self.part[MAGIC.len()] {
                VERSION => Ok(Next::Length),
                other => Err(Damage::Version(other)),
            }))
    }

    fn length(&self) -> Result<Next, Damage> {
        match u32::from_le_bytes(array(&self.part)) as usize {
            0 => Ok(Next::Seal),
            len @ 1..=FRAME => Ok(Next::Frame(len)),
            _ => Err(self.changed()),
        }
    }

    fn frame(&mut self, len: usize) -> Result<Next, Damage> {
        self.hasher.update(&self.part[..len]);
        let digest = self.hasher.finalize();
        if digest.as_bytes()[..CHECK] != self.part[len..len + CHECK] {
            return Err(self.changed());
        }
        self.content += len as u64;
        self.ready = 0..len;
        Ok(Next::Length)
    }

    fn seal(&self) -> Result<Next, Damage> {
        let total = u64::from_le_bytes(array(&self.part));
        let digest: [u8; DIGEST] = array(&self.part[TOTAL..]);
        match total == self.content && self.hasher.finalize() == digest {
            true => Ok(Next::End),
            false => Err(self.changed()),
        }
    }

    fn changed(&self) -> Damage {
        Damage::Changed { after: self.before }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

impl<R: Read> Read for Unsealer<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        let n = self.fill_buf()?.read(room)?;
        self.consume(n);
        Ok(n)
    }
}

impl<R: Read> BufRead for Unsealer<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.ready.is_empty() && !matches!(self.next, Next::Nothing(None)) {
            self.step()?;
        }
        Ok(&self.part[self.ready.clone()])
    }

    fn consume(&mut self, n: usize) {
        self.ready.start = (self.ready.start + n).min(self.ready.end);
    }
}

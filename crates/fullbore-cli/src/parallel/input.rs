//! Reads the input into blocks that end at a record. A block is complete when it is returned: a block that the end of
//! the input cuts short is the last one, and there is none after an error.
//!
//! The input is read into the memory that a worker's bytes are written from. Only the part of a record behind the last
//! end in a block is copied.

use std::io;
use std::os::fd::BorrowedFd;

use fullbore::Pages;
use fullbore_linux::messages::{self, longest_message};
use fullbore_linux::outcome::Outcome;
use fullbore_linux::{Calls, Errno, Wait};

use super::memory::{Memory, Part};
use super::records::Records;

/// The most bytes of one read(2).
const READ: usize = 1 << 20;

/// What the records about a block, and an empty one, count.
pub const OVERHEAD: usize = 1 << 10;

/// The most bytes that are kept of the first record of a block, for messages.
const SHOWN: usize = 60;

/// A part of the input for one worker.
pub struct Block {
    /// Counts from 1.
    pub number: u64,
    /// Where it begins in the input.
    pub start: u64,
    pub bytes: u64,
    /// The start of its first line.
    pub first: Vec<u8>,
    /// Its bytes.
    pub parts: Vec<Part>,
}

/// How the input is cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The bytes of the memory that a block is read into, and the least ones of a block behind a long input.
    pub block: usize,
    /// The least bytes of the first block.
    pub first: usize,
    /// A later one has this part of what came before it.
    pub part: u64,
    /// The records of a block, if they are counted.
    pub records: Option<u64>,
    /// The records at the start of the input that every worker gets.
    pub header: u64,
}

/// The input.
pub struct Input<'fd> {
    fd: BorrowedFd<'fd>,
    calls: Calls,
    /// See [`longest_message`].
    longest: usize,
    /// What was read from here on did not fit into the memory of its block, because messages are read whole.
    aside: Vec<u8>,
    records: Records,
    cut: Cut,
    /// The records of the header, when they are complete.
    pub header: Vec<u8>,
    header_left: u64,
    /// Memory that is filled, without the end of a record.
    full: Vec<Part>,
    current: Option<Pages>,
    /// The bytes of `current` from here have not been returned, …
    start: usize,
    /// … up to here they were looked at …
    scanned: usize,
    /// … and up to here they were read.
    len: usize,
    /// Where the last record ends, in `current`.
    end: Option<usize>,
    counted: u64,
    /// The part of a record that was cut off the last block.
    carried: Vec<u8>,
    number: u64,
    /// The bytes that were returned.
    position: u64,
    pub at_end: bool,
    /// Bytes that were read.
    pub read: u64,
}

impl<'fd> Input<'fd> {
    /// # Errors
    /// As fstat(2).
    pub fn new(fd: BorrowedFd<'fd>, records: Records, cut: Cut) -> io::Result<Self> {
        Ok(Self {
            fd,
            calls: Calls::new(Wait::Block),
            longest: longest_message(fd, &rustix::fs::fstat(fd)?),
            aside: Vec::new(),
            records,
            header: Vec::new(),
            header_left: cut.header,
            cut,
            full: Vec::new(),
            current: None,
            start: 0,
            scanned: 0,
            len: 0,
            end: None,
            counted: 0,
            carried: Vec::new(),
            number: 0,
            position: 0,
            at_end: false,
            read: 0,
        })
    }

    /// Returns whether bytes wait here for the next [`read`](Self::read).
    pub fn has_bytes(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Returns the least bytes of the next block: with few at the start, short inputs are shared too, and with more later,
    /// few processes are started.
    fn least(&self) -> usize {
        let part = usize::try_from(self.position / self.cut.part).unwrap_or(usize::MAX);
        part.clamp(self.cut.first, self.cut.block)
    }

    fn is_full(&self) -> bool {
        self.current.is_some() && self.len >= self.least()
    }

    /// Returns whether memory is left to read more.
    pub fn may_read(&self, memory: &mut Memory) -> bool {
        !self.at_end && (self.current.is_some() || memory.has(self.cut.block))
    }

    /// Returns whether this input has all memory that is in use: then a record is too long.
    pub fn has_all(&self, memory: &Memory) -> bool {
        let pages = self.full.len() + usize::from(self.current.is_some());
        memory.used() <= pages * self.cut.block + self.carried.len() + self.header.len()
    }

    /// Reads once, if bytes are there.
    ///
    /// # Errors
    /// Those of read(2), and `ENOMEM`.
    pub fn read(&mut self, memory: &mut Memory) -> Result<(), Errno> {
        if self.current.is_none() {
            let mut pages = memory.pages(self.cut.block).ok_or(Errno::NOMEM)?;
            memory.give_back(self.carried.len());
            self.len = self.carried.len();
            pages[..self.len].copy_from_slice(&self.carried);
            self.carried = Vec::new();
            self.current = Some(pages);
        }
        let to = self.least().min(self.len + READ);
        let pages = self.current.as_mut().expect("it was just made");
        debug_assert!(self.len < to, "what was read is cut first");
        let room = &mut pages[self.len..to];
        let n = match self.aside.is_empty() && room.len() >= self.longest {
            true => read(&mut self.calls, self.fd, self.longest, room)?,
            false => {
                if self.aside.is_empty() {
                    let mut whole = vec![0; self.longest];
                    let n = read(&mut self.calls, self.fd, self.longest, &mut whole)?;
                    self.at_end = n == Some(0);
                    whole.truncate(n.unwrap_or(0));
                    self.aside = whole;
                }
                let n = self.aside.len().min(room.len());
                room[..n].copy_from_slice(&self.aside[..n]);
                self.aside.drain(..n);
                (n > 0 || self.at_end).then_some(n)
            }
        };
        self.at_end = n == Some(0);
        self.len += n.unwrap_or(0);
        self.read += n.unwrap_or(0) as u64;
        Ok(())
    }

    /// Returns the next block of what was read, if one is complete.
    pub fn next(&mut self, memory: &mut Memory) -> Option<Block> {
        while self.header_left > 0 && self.scan_for_one() {
            self.header_left -= 1;
            if self.header_left == 0 {
                self.take_header(memory);
            }
        }
        if self.header_left == 0 {
            if let Some(records) = self.cut.records {
                while self.scan_for_one() {
                    self.counted += 1;
                    if self.counted == records {
                        self.counted = 0;
                        return Some(self.returned(self.scanned, memory));
                    }
                }
            } else if let Some(pages) = self.current.as_ref().filter(|_| self.scanned < self.len) {
                let end = self.records.last(&pages[self.scanned..self.len]);
                self.end = end.map(|at| self.scanned + at).or(self.end);
                self.scanned = self.len;
            }
            if let Some(end) = self.end.filter(|_| self.is_full()) {
                return Some(self.returned(end, memory));
            }
        }
        if self.at_end {
            if self.header_left > 0 {
                self.header_left = 0;
                self.take_header(memory);
            }
            let is_left = self.len > self.start || !self.full.is_empty();
            return (is_left || self.number == 0).then(|| self.returned(self.len, memory));
        }
        if self.is_full() {
            match self.start {
                0 => {
                    let current = self.current.take();
                    (self.full).extend(current.map(|pages| Part::Pages(pages, self.len)));
                }
                _ => self.carry_from(self.start, memory),
            }
            (self.start, self.scanned, self.len) = (0, self.carried.len(), 0);
        }
        None
    }

    /// Looks for the end of a record, and returns whether it was found.
    fn scan_for_one(&mut self) -> bool {
        let Some(pages) = &self.current else {
            return false;
        };
        let found = self.records.first(&pages[self.scanned..self.len]);
        self.scanned = found.map_or(self.len, |at| self.scanned + at);
        found.is_some()
    }

    /// Makes what was looked at the header.
    fn take_header(&mut self, memory: &mut Memory) {
        for part in self.full.drain(..) {
            self.header.extend_from_slice(&part);
            memory.free(part);
        }
        if let Some(pages) = &self.current {
            self.header
                .extend_from_slice(&pages[self.start..self.scanned]);
        }
        memory.take_anyway(self.header.len());
        self.start = self.scanned;
        self.position = self.header.len() as u64;
    }

    /// Returns the bytes up to `end` in the current memory as a block.
    fn returned(&mut self, end: usize, memory: &mut Memory) -> Block {
        let mut parts = std::mem::take(&mut self.full);
        memory.take_anyway(OVERHEAD);
        // What is carried comes back with the next bytes that are read: it may be no complete block, nor the last one.
        let may_carry = !self.at_end && self.cut.records.is_none();
        let is_mostly_block = end == self.len || may_carry && end > self.len - end;
        let takes = self.start == 0 && is_mostly_block;
        if let Some(current) = self.current.take_if(|_| takes) {
            self.carried = current[end..self.len].to_vec();
            memory.take_anyway(self.carried.len());
            parts.push(Part::Pages(current, end));
            // What was looked at stays so.
            (self.scanned, self.start) = (self.scanned - end, 0);
            self.len = 0;
        } else if let Some(current) = &self.current {
            let rest = current[self.start..end].to_vec();
            memory.take_anyway(rest.len());
            parts.push(Part::Bytes(rest));
            self.start = end;
        }
        self.end = None;
        self.number += 1;
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let first = parts.first().map_or(&[][..], |part| part);
        let first = &first[..first.len().min(SHOWN)];
        let line = memchr::memchr(b'\n', first).unwrap_or(first.len());
        let first = first[..line].to_vec();
        let block = Block {
            number: self.number,
            start: self.position,
            bytes,
            first,
            parts,
        };
        self.position += bytes;
        block
    }

    /// Takes the bytes from here out of the current memory.
    fn carry_from(&mut self, start: usize, memory: &mut Memory) {
        if let Some(pages) = self.current.take() {
            self.carried = pages[start..self.len].to_vec();
            memory.take_anyway(self.carried.len());
            memory.free(Part::Pages(pages, 0));
        }
    }

    /// Returns where the next block begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns whether all of it was returned.
    pub fn is_finished(&self) -> bool {
        self.at_end && self.number > 0 && self.len == self.start && self.full.is_empty()
    }
}

/// Reads once, and returns how many bytes; 0 is the end. `None` if none are there.
fn read(
    calls: &mut Calls,
    fd: BorrowedFd<'_>,
    longest: usize,
    room: &mut [u8],
) -> Result<Option<usize>, Errno> {
    match messages::read(fd, longest, room, |room| calls.try_read(fd, room)) {
        Outcome::Moved(n) => Ok(Some(n)),
        Outcome::End => Ok(Some(0)),
        Outcome::Failed(_, errno) => Err(errno),
        _ => Ok(None),
    }
}

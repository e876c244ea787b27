//! Reads the input, and cuts it into blocks that end at a record. A worker gets the start of its block while the rest is
//! read: the bytes up to the last end of a record surely belong to it. A block that the end of the input cuts short is the
//! last one; after an error, the block at hand has no end.
//!
//! The input is read into the memory that a worker's bytes are written from. Only what is behind the last whole page is
//! copied.
//!
//! Each block begins where a page does, and its worker gets whole pages as long as more comes at once: on some CPUs (AMD
//! Zen 3) a copy takes four times as long if its target begins 1 to 31 bytes further behind the start of a page than its
//! source. This is a property of `rep movsb`, by which the kernel copies; docs/methodology.md has figures.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use fullbore::Pages;
use fullbore_linux::messages::{self, longest_message};
use fullbore_linux::outcome::Outcome;
use fullbore_linux::{Calls, Errno, Wait, page_size};

use super::memory::{Memory, Part};
use super::records::Records;

/// What the records about a block, and an empty one, count.
pub const OVERHEAD: usize = 1 << 10;

/// Where the input lies this much less behind the start of a page than a block does, reading is slow: see above.
const SLOW: usize = 32;

/// The most bytes that are kept of the first record of a block, for messages.
const SHOWN: usize = 60;

/// A part of the input for one worker, or what was cut of it until now.
pub struct Block {
    /// Counts from 1.
    pub number: u64,
    /// Where it begins in the input.
    pub start: u64,
    pub bytes: u64,
    /// Its first bytes.
    pub first: Vec<u8>,
    /// Its bytes, without those that were given to a worker.
    pub parts: VecDeque<Part>,
    /// Whether more of it comes.
    pub is_open: bool,
}

impl Block {
    /// Adds what follows.
    pub fn add(&mut self, next: Block) {
        self.bytes += next.bytes;
        let more = SHOWN - self.first.len();
        self.first.extend(next.first.iter().take(more));
        self.parts.extend(next.parts);
        self.is_open = next.is_open;
    }

    /// Returns the start of its first line.
    pub fn first_line(&self) -> &[u8] {
        self.first
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default()
    }
}

/// How the input is cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The bytes of a piece of memory.
    pub piece: usize,
    /// The least bytes of a block behind a long input.
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
    /// Where the last record ends that was read, in the same bytes.
    end: Option<usize>,
    /// Whether records at hand wait for the rest of a page.
    pub holds: bool,
    counted: u64,
    /// What was cut off the last memory.
    carried: Vec<u8>,
    /// The block at hand ends at the last record that ends in so many bytes, if one does, …
    window: usize,
    /// … of which these were read.
    filled: usize,
    /// The blocks that were returned whole.
    number: u64,
    /// Where the block at hand begins.
    begins: u64,
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
        let mut new = Self {
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
            holds: false,
            counted: 0,
            carried: Vec::new(),
            window: 0,
            filled: 0,
            number: 0,
            begins: 0,
            position: 0,
            at_end: false,
            read: 0,
        };
        new.begin_block();
        Ok(new)
    }

    /// Returns whether bytes wait here for the next [`read`](Self::read).
    pub fn has_bytes(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Begins a block. With few bytes in the first ones, short inputs are shared too, and with more later, few processes
    /// are started.
    fn begin_block(&mut self) {
        self.begins = self.position;
        let part = usize::try_from(self.position / self.cut.part).unwrap_or(usize::MAX);
        self.window = match self.cut.records {
            None => part.clamp(self.cut.first, self.cut.block),
            Some(_) => usize::MAX,
        };
    }

    /// Returns whether a part of the block at hand was returned.
    fn has_begun(&self) -> bool {
        self.position > self.begins
    }

    /// Returns whether memory is left to read more.
    pub fn may_read(&self, memory: &mut Memory) -> bool {
        !self.at_end && (self.current.is_some() || memory.has(self.cut.piece))
    }

    /// Returns the bytes of memory that are in use for what was not returned.
    pub fn used(&self) -> usize {
        let full: usize = self.full.iter().map(Part::used).sum();
        let current = self.current.as_ref().map_or(0, |pages| pages.len());
        full + current + self.carried.len() + self.header.len()
    }

    /// Reads once, if bytes are there.
    ///
    /// # Errors
    /// Those of read(2), and `ENOMEM`.
    pub fn read(&mut self, memory: &mut Memory) -> Result<(), Errno> {
        if self.current.is_none() {
            let mut pages = memory.pages(self.cut.piece).ok_or(Errno::NOMEM)?;
            let carried = std::mem::take(&mut self.carried);
            memory.give_back(carried.len());
            self.start = self.place(carried.len(), pages.len());
            self.scanned += self.start;
            self.end = self.end.map(|end| self.start + end);
            self.len = self.start + carried.len();
            pages[self.start..self.len].copy_from_slice(&carried);
            self.current = Some(pages);
        }
        let pages = self.current.as_mut().expect("it was just made");
        let to = pages
            .len()
            .min(self.len.saturating_add(self.window - self.filled));
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
        let n = n.unwrap_or(0);
        (self.len, self.filled) = (self.len + n, self.filled + n);
        self.read += n as u64;
        self.holds = false;
        Ok(())
    }

    /// Returns where the bytes that are carried go in new memory.
    fn place(&self, carried: usize, len: usize) -> usize {
        let page = page_size();
        if len < carried + 2 * page {
            return 0;
        }
        let at = (self.read - self.begins) as usize - carried;
        let is_slow = self.begins as usize % page > page - SLOW;
        at % page + if is_slow { SLOW } else { 0 }
    }

    /// Returns what was read of a block, if that is complete, or if the memory for it is full. An `eager` worker gets the
    /// records that are complete, but for the rest of a page, which it gets after the next read, or as soon as this
    /// [`holds`](Self::holds) nothing any more.
    pub fn next(&mut self, eager: bool, memory: &mut Memory) -> Option<Block> {
        while self.header_left > 0 && self.scan_for_one() {
            self.header_left -= 1;
            if self.header_left == 0 {
                self.take_header(memory);
            }
        }
        let is_block = self.header_left == 0;
        if let Some(records) = self.cut.records.filter(|_| is_block) {
            while self.scan_for_one() {
                self.end = Some(self.scanned);
                self.counted += 1;
                if self.counted == records {
                    self.counted = 0;
                    return Some(self.returned(self.end, false, memory));
                }
            }
        } else if is_block && self.scanned < self.len {
            let pages = self.current.as_ref()?;
            let end = self.records.last(&pages[self.scanned..self.len]);
            self.end = end.map(|at| self.scanned + at).or(self.end);
            self.scanned = self.len;
        }
        if self.at_end {
            if self.header_left > 0 {
                self.header_left = 0;
                self.take_header(memory);
            }
            let is_left = self.read > self.begins || self.number == 0;
            self.end = Some(self.len);
            return is_left.then(|| self.returned(self.end, false, memory));
        }
        if self.filled >= self.window {
            if self.end.is_some() || self.has_begun() {
                return Some(self.returned(self.end, false, memory));
            }
            self.filled = 0;
        }
        let is_full = self
            .current
            .as_ref()
            .is_some_and(|pages| pages.len() == self.len);
        if let Some(end) = self.end.filter(|_| is_full || eager && !self.holds) {
            let most = end - self.start;
            let whole = most - most % page_size();
            let given = if whole == 0 { most } else { whole };
            self.holds = given < most;
            return Some(self.returned(Some(self.start + given), true, memory));
        }
        if is_full {
            let end = self.len;
            let part = self.take(end, memory);
            self.full.extend(part);
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
        self.begin_block();
    }

    /// Takes the bytes up to `end` out of the current memory, or copies them if more are left.
    fn take(&mut self, end: usize, memory: &mut Memory) -> Option<Part> {
        let is_behind = |at: &usize| *at > end;
        if self.current.is_none() {
            let left = self.carried.split_off(end);
            self.end = self.end.filter(is_behind).map(|at| at - end);
            self.scanned = left.len();
            return Some(Part::Bytes(std::mem::replace(&mut self.carried, left)));
        }
        let (start, left) = (self.start, self.len - end);
        // What is carried comes back with the next bytes that are read, so all of it was looked at.
        let takes = self.scanned == self.len && end - start >= left;
        if let Some(current) = self.current.take_if(|_| takes) {
            self.carried = current[end..self.len].to_vec();
            memory.take_anyway(left);
            // What was looked at stays so.
            (self.start, self.scanned, self.len) = (0, left, 0);
            self.end = self.end.filter(is_behind).map(|at| at - end);
            return Some(Part::Pages(current, start..end));
        }
        self.end = self.end.filter(is_behind);
        let rest = self.current.as_ref()?[start..end].to_vec();
        memory.take_anyway(rest.len());
        self.start = end;
        Some(Part::Bytes(rest))
    }

    /// Returns the block at hand up to an end of a record, or nothing of it.
    fn returned(&mut self, end: Option<usize>, is_open: bool, memory: &mut Memory) -> Block {
        let mut parts = VecDeque::new();
        if let Some(end) = end {
            parts.extend(self.full.drain(..));
            parts.extend(self.take(end, memory));
        }
        let first = parts.iter().flat_map(|part| part.iter().copied());
        let block = Block {
            number: self.number + 1,
            start: self.begins,
            bytes: parts.iter().map(|part| part.len() as u64).sum(),
            first: first.take(SHOWN).collect(),
            parts,
            is_open,
        };
        self.position += block.bytes;
        if !is_open {
            self.number += 1;
            self.filled = (self.read - self.position) as usize;
            self.begin_block();
        }
        block
    }

    /// Returns where the record at hand begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns whether all of it was returned.
    pub fn is_finished(&self) -> bool {
        self.at_end && self.number > 0 && self.read == self.begins
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

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;

    use super::*;
    use crate::parallel::records::Ends;

    #[test]
    fn no_copy_into_or_out_of_a_pipe_begins_where_rep_movsb_is_slow() {
        // Blocks begin 1 to 12 bytes before a page does.
        let input = b"twelve bytes\n".repeat(1_000_000);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&input).unwrap();
        file.rewind().unwrap();
        let cut = Cut {
            piece: 256 << 10,
            block: 1 << 20,
            first: 1 << 20,
            part: 2,
            records: None,
            header: 0,
        };
        let records = Records::new(Ends::Delimiter(b"\n".to_vec()));
        let mut opened = Input::new(file.as_fd(), records, cut).unwrap();
        let mut memory = Memory::new(16 << 20, 0);
        let (mut came, mut whole) = (Vec::new(), 0);
        while !opened.is_finished() {
            let read = opened.read;
            opened.read(&mut memory).unwrap();
            let at = opened.len - (opened.read - read) as usize;
            let behind = (at + page_size() - read as usize % page_size()) % page_size();
            assert!(behind == 0 || behind >= SLOW, "read {behind} bytes further");
            while let Some(block) = opened.next(true, &mut memory) {
                for part in &block.parts {
                    let before = part.as_ptr() as usize % page_size();
                    assert!(before <= page_size() - SLOW, "written from {before}");
                    came.extend_from_slice(part);
                }
                let bytes = block.bytes as usize;
                whole += usize::from(block.is_open && bytes % page_size() == 0);
                block.parts.into_iter().for_each(|part| memory.free(part));
            }
        }
        assert!(came == input);
        assert!(whole > 12, "{whole} parts of whole pages");
    }
}

//! The memory for what has been read and not been written: a limit, and who may use how much of it.
//!
//! Memory is used again, which costs less than fresh pages: the kernel clears those. So its bytes are only ever copied
//! into pipes, and never given to them as pages.

use std::ops::{Deref, Range};
use std::sync::Arc;

use fullbore::Pages;

/// Some bytes, and the memory that they are in.
pub enum Part {
    /// These of the bytes of the pages.
    Pages(Pages, Range<usize>),
    Bytes(Vec<u8>),
    /// Memory that does not count.
    Shared(Arc<[u8]>),
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Part::Pages(pages, range) => &pages[range.clone()],
            Part::Bytes(bytes) => bytes,
            Part::Shared(bytes) => bytes,
        }
    }
}

impl Part {
    /// Returns the bytes of memory that it uses.
    pub fn used(&self) -> usize {
        match self {
            Part::Pages(pages, _) => pages.len(),
            Part::Bytes(bytes) => bytes.len(),
            Part::Shared(_) => 0,
        }
    }
}

/// The least pages that are huge: more of a huge page than that would not be used.
const HUGE: usize = 1 << 20;

/// Bytes of memory in use, and the limit on them.
pub struct Memory {
    limit: usize,
    /// What is left free for the part of a record that is cut off a block.
    reserve: usize,
    used: usize,
    /// The most bytes that were in use.
    pub peak: usize,
    /// Whether some use had to wait.
    pub is_short: bool,
    /// Whether the kernel had no more.
    is_refused: bool,
    /// Pages to use again, the last used ones last, and their bytes.
    free: Vec<Pages>,
    free_bytes: usize,
}

impl Memory {
    /// Returns memory of `limit` bytes, of which `reserve` are only for [`take_anyway`](Self::take_anyway).
    pub fn new(limit: usize, reserve: usize) -> Self {
        Self {
            limit,
            reserve,
            used: 0,
            peak: 0,
            is_short: false,
            is_refused: false,
            free: Vec::new(),
            free_bytes: 0,
        }
    }

    /// Returns so many bytes in pages, which count as used; `None` if the kernel has none.
    pub fn pages(&mut self, len: usize) -> Option<Pages> {
        let pages = match self.free.iter().rposition(|pages| pages.len() == len) {
            Some(at) => {
                self.free_bytes -= len;
                self.free.remove(at)
            }
            None if len < HUGE => Pages::new(len).ok()?,
            None => Pages::huge(len).ok()?,
        };
        self.take_anyway(len);
        Some(pages)
    }

    /// Takes memory back.
    pub fn free(&mut self, part: Part) {
        self.give_back(part.used());
        if let Part::Pages(pages, _) = part {
            self.free_bytes += pages.len();
            self.free.push(pages);
        }
    }

    /// Returns whether so many bytes are free.
    pub fn has(&mut self, bytes: usize) -> bool {
        let has = !self.is_refused && self.used + bytes + self.reserve <= self.limit;
        self.is_short |= !has;
        has
    }

    /// Uses so many bytes more, also of the reserve.
    pub fn take_anyway(&mut self, bytes: usize) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        while self.used + self.free_bytes > self.limit && !self.free.is_empty() {
            self.free_bytes -= self.free.remove(0).len();
        }
    }

    /// Uses so many bytes less.
    pub fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
        if bytes > 0 {
            self.try_again();
        }
    }

    /// Has no more for now, because the kernel has not.
    pub fn refuse(&mut self) {
        (self.is_refused, self.is_short) = (true, true);
        self.free.clear();
        self.free_bytes = 0;
    }

    /// Memory may be free that was not.
    pub fn try_again(&mut self) {
        (self.is_refused, self.is_short) = (false, false);
    }

    pub fn used(&self) -> usize {
        self.used
    }
}

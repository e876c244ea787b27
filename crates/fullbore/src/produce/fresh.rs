//! *fresh*: pages are given to the pipe once, and never written to again.
//!
//! The memory is filled from its start to its end, a window at a time. A huge page that has been
//! passed is given back to the kernel at once (`MADV_DONTNEED`): the mapping lets go of it, the pipe
//! keeps it for as long as anybody refers to it, and the next lap faults a new one in. So whatever a
//! reader does with the pages, nobody is left who could write to them; and the memory that this
//! process holds on to is a few huge pages, however long the reader stops.

use std::ops::Range;

use crate::error::Result;
use crate::linux;
use crate::pages::Pages;

/// Where *fresh* is in its memory.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// All bytes before this one were given to the pipe in this lap.
    at: usize,
    /// All bytes before this one were given back to the kernel in this lap.
    given_back: usize,
}

/// Bytes of memory for chunks of this size: whole huge pages, and two chunks at least. So a lap sends
/// a chunk or more, however little of each window is used, and what is queued cannot hold on to a
/// huge page for each few bytes.
pub(super) fn memory_for(chunk: usize) -> usize {
    (2 * chunk).next_multiple_of(linux::page_table_span())
}

impl Fresh {
    /// The next window, of at least `at_least` bytes and at most `chunk`.
    pub(super) fn window(
        &mut self,
        memory: &mut Pages,
        chunk: usize,
        at_least: usize,
    ) -> Result<Range<usize>> {
        let start = self.at.next_multiple_of(linux::page_size());
        if start + at_least <= memory.len() {
            return Ok(start..memory.len().min(start + chunk));
        }
        memory.give_back(self.given_back..memory.len())?;
        *self = Self::default();
        Ok(0..memory.len().min(chunk))
    }

    /// Notes that the pipe now refers to `given`.
    pub(super) fn gave(&mut self, memory: &mut Pages, given: Range<usize>) -> Result<()> {
        self.at = given.end;
        // Only whole huge pages: giving a part of one back would split it.
        let passed = self.at / linux::page_table_span() * linux::page_table_span();
        if passed > self.given_back {
            memory.give_back(self.given_back..passed)?;
            self.given_back = passed;
        }
        Ok(())
    }
}

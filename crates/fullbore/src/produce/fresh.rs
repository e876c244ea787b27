//! *fresh*: pages are given to the pipe once, and never written to again.
//!
//! The memory is filled from its start to its end, a window at a time. A stretch that has been
//! passed (a huge page, where there are any) is given back to the kernel at once (`MADV_DONTNEED`):
//! the mapping lets go of it, the pipe keeps it for as long as anybody refers to it, and the next lap
//! faults a new one in. So whatever a reader does with the pages, nobody is left who could write to
//! them; and the memory that this process holds on to is a few such stretches, however long the reader
//! stops.

use std::ops::Range;

use crate::error::Result;
use crate::linux;
use crate::memory::Geometry;
use crate::pages::Pages;

/// Where *fresh* is in its memory.
#[derive(Debug)]
pub(super) struct Fresh {
    /// Bytes of memory that it goes through in a lap.
    lap: usize,
    /// Bytes of one stretch that is given back.
    stretch: usize,
    /// All bytes before this one were given to the pipe in this lap.
    at: usize,
    /// All bytes before this one were given back to the kernel in this lap.
    given_back: usize,
}

impl Fresh {
    /// For chunks of this size, and memory on huge pages if there are any that suit.
    ///
    /// A lap is whole stretches, and two chunks at least. So a lap sends a chunk or more, however
    /// little of each window is used, and what is queued cannot hold on to a huge page for each few
    /// bytes.
    pub(super) fn new(chunk: usize, huge: bool, geometry: &Geometry) -> Self {
        let stretch = geometry.given_back_at_once(huge);
        Self {
            lap: (2 * chunk).next_multiple_of(stretch),
            stretch,
            at: 0,
            given_back: 0,
        }
    }

    /// Bytes of memory that it needs.
    pub(super) fn memory(&self) -> usize {
        self.lap
    }

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
        (self.at, self.given_back) = (0, 0);
        Ok(0..memory.len().min(chunk))
    }

    /// Notes that the pipe now refers to `given`.
    pub(super) fn gave(&mut self, memory: &mut Pages, given: Range<usize>) -> Result<()> {
        self.at = given.end;
        let passed = self.at / self.stretch * self.stretch;
        if passed > self.given_back {
            memory.give_back(self.given_back..passed)?;
            self.given_back = passed;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_of_usual_chunks_is_bounded_on_pages_of_every_size() {
        for (page, huge) in [(4, 2 << 10), (16, 32 << 10), (64, 512 << 10)] {
            for limit in [None, Some(4 << 20), Some(1 << 30)] {
                let geometry = Geometry {
                    page: page << 10,
                    huge: Some(huge << 10),
                    limit,
                };
                for chunk in [64 << 10, 256 << 10, 512 << 10, 1 << 20] {
                    let fresh = Fresh::new(chunk, true, &geometry);
                    let lap = fresh.memory();
                    assert!((2 * chunk..=4 << 20).contains(&lap), "{lap} on {page} KiB");
                    assert!(lap.is_multiple_of(fresh.stretch));
                }
            }
        }
    }
}

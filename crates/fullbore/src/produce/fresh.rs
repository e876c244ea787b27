//! *fresh*: pages are given to the pipe once, and never written to again.
//!
//! The memory is filled from its start to its end, one window at a time. A stretch (one huge page, if
//! there are any) that has been filled and sent is given back to the kernel at once (`MADV_DONTNEED`):
//! this process no longer maps it, the pipe keeps it for as long as anything refers to it, and the
//! next lap faults in a new one. So whatever a reader does with the pages, no process can write to
//! them any more. This process holds the memory of a few such stretches at most, however long the
//! reader pauses.

use std::ops::Range;

use crate::error::Result;
use crate::linux;
use crate::memory::Geometry;
use crate::pages::Pages;

/// The position of *fresh* in its memory.
#[derive(Debug)]
pub(super) struct Fresh {
    /// Bytes of memory that one lap fills.
    lap: usize,
    /// Bytes of one stretch that is given back.
    stretch: usize,
    /// All bytes before this one were given to the pipe in this lap.
    at: usize,
    /// All bytes before this one were given back to the kernel in this lap.
    given_back: usize,
}

impl Fresh {
    /// Creates the state for chunks of this size, with memory on huge pages if there are any of a
    /// suitable size.
    ///
    /// A lap consists of whole stretches, and of at least two chunks. So each lap sends at least
    /// one chunk, however little of each window is used, and queued bytes cannot keep one huge page
    /// each for a few bytes.
    pub(super) fn new(chunk: usize, huge: bool, geometry: &Geometry) -> Self {
        let stretch = geometry.given_back_at_once(huge);
        Self {
            lap: (2 * chunk).next_multiple_of(stretch),
            stretch,
            at: 0,
            given_back: 0,
        }
    }

    /// Returns the number of bytes of memory that it needs.
    pub(super) fn memory(&self) -> usize {
        self.lap
    }

    /// Returns the next window, of at least `at_least` bytes and at most `chunk`.
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

    /// Records that the pipe now refers to `given`.
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
                    assert!(lap % fresh.stretch == 0);
                }
            }
        }
    }
}

//! *fresh*: pages are given to the pipe once, and never written to again.
//!
//! The memory is filled from start to end, one window at a time, and then again from its start. Before a stretch (a
//! huge page, if available) is filled again, it is released to the kernel (`MADV_DONTNEED`): this process no longer
//! maps its pages, the pipe keeps them as long as anything refers to them, and new pages are faulted in. So whatever a
//! reader does with the pages, no process can write to them any more. This process maps at least two stretches, however
//! long the reader pauses.
//!
//! Stretches are released as late as this because the reader has usually finished with them by then. So the page is
//! freed on this CPU, which then allocates it again while it is in its caches. If the reader drops the last reference,
//! the page is freed on the reader's CPU, and zeroing a different one takes about twice as long.

use std::ops::Range;

use crate::memory::Geometry;
use fullbore_linux as linux;
use fullbore_linux::{Pages, Result};

/// The position of *fresh* in its memory.
#[derive(Debug)]
pub(crate) struct Fresh {
    /// Bytes of memory that one lap fills.
    lap: usize,
    /// Bytes that are released at once.
    stretch: usize,
    /// All bytes before this one were given to the pipe in this lap.
    at: usize,
    /// The memory before this byte, and none after it, was released since the last lap. In the first lap, there is
    /// nothing to release.
    given_back: usize,
}

impl Fresh {
    /// Creates the state for chunks of this size, in huge pages if the machine has any of a suitable size.
    ///
    /// A lap is at least two stretches and at least two chunks. So each lap sends at least one chunk, however little of
    /// each window is used, and a few queued bytes cannot keep a whole huge page each.
    pub(crate) fn new(chunk: usize, huge: bool, geometry: &Geometry) -> Self {
        let stretch = geometry.given_back_at_once(huge);
        let lap = (2 * chunk).max(2 * stretch).next_multiple_of(stretch);
        Self {
            lap,
            stretch,
            at: 0,
            given_back: lap,
        }
    }

    /// Returns the number of bytes of memory that it needs.
    pub(crate) fn memory(&self) -> usize {
        self.lap
    }

    /// Returns the next window, of at least `at_least` bytes and at most `chunk`.
    pub(crate) fn window(
        &mut self,
        memory: &mut Pages,
        chunk: usize,
        at_least: usize,
    ) -> Result<Range<usize>> {
        let mut start = self.at.next_multiple_of(linux::page_size());
        if start + at_least > memory.len() {
            start = 0;
            (self.at, self.given_back) = (0, 0);
        }
        let end = memory.len().min(start + chunk);
        if end > self.given_back {
            let until = end.next_multiple_of(self.stretch);
            memory.give_back(self.given_back..until)?;
            self.given_back = until;
        }
        Ok(start..end)
    }

    /// Records that the pipe now refers to `given`.
    pub(crate) fn gave(&mut self, given: Range<usize>) {
        self.at = given.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn a_window_never_holds_what_a_pipe_was_given() {
        let geometry = Geometry::here();
        for (chunk, huge) in [(64, true), (512, true), (3 << 10, true), (256, false)] {
            let chunk = chunk << 10;
            let zeros = vec![0; chunk];
            let mut fresh = Fresh::new(chunk, huge, &geometry);
            let mut memory = Memory::map(fresh.memory(), huge).unwrap();
            for turn in 0..300 {
                let window = fresh
                    .window(&mut memory, chunk, linux::page_size())
                    .unwrap();
                assert!(memory[window.clone()] == zeros[..window.len()], "{turn}");
                let given = window.start..window.start + 1 + turn * 104_729 % window.len();
                memory[given.clone()].fill(1);
                fresh.gave(given);
            }
        }
    }

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

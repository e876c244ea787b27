//! The memory that a [`Producer`](super::Producer) fills, one *window* at a time: a range that no pipe refers to. The
//! ways to produce differ in how they find the next window.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::options::ProducerOptions;
use super::recycle::Recycle;
use crate::fresh::Fresh;
use crate::memory::{self, Geometry, Memory};
use crate::outlet::{Sent, least_to_give};
use crate::way::Way;
use fullbore_linux as linux;
use fullbore_linux::{PipeEnd, Result, Waiter, error};

/// When memory may be filled again.
#[derive(Debug)]
pub(super) enum Reuse {
    /// At once: the bytes were copied.
    AtOnce,
    /// Never the same pages, once they were given. `None` before memory is mapped.
    Fresh(Option<Fresh>),
    /// Once the pipe no longer refers to it.
    Recycle(Recycle),
}

#[derive(Debug)]
pub(super) struct Windows {
    reuse: Reuse,
    memory: Memory,
    /// The most bytes of a window.
    pub(super) chunk: usize,
    /// Whether memory for a long output has been set up.
    pub(super) settled: bool,
    pub(super) window: Range<usize>,
    /// The number of bytes at the start of the window that are to be sent.
    pub(super) gathered: usize,
    /// Whether a pipe was ever given any of the memory.
    gave: bool,
}

impl Windows {
    /// Creates a small window, which needs no system call.
    pub(super) fn new(chunk: usize, reuse: Reuse) -> Self {
        Self {
            reuse,
            memory: Memory::first(chunk),
            chunk,
            settled: false,
            window: 0..chunk.min(memory::FIRST),
            gathered: 0,
            gave: false,
        }
    }

    #[inline]
    pub(super) fn way(&self) -> Way {
        match self.reuse {
            Reuse::AtOnce => Way::Copy,
            Reuse::Fresh(_) => Way::Fresh,
            Reuse::Recycle(_) => Way::Recycle,
        }
    }

    /// Returns the bytes that are to be sent.
    #[inline]
    pub(super) fn gathered(&self) -> &[u8] {
        &self.memory[self.window.start..][..self.gathered]
    }

    /// Returns how many bytes fit after the gathered ones.
    #[inline]
    pub(super) fn room(&self) -> usize {
        (self.window.end).saturating_sub(self.window.start + self.gathered)
    }

    /// Returns whether at least `n` bytes can be lent.
    #[inline]
    pub(super) fn has(&self, n: usize) -> bool {
        self.settled && self.window.len() >= n
    }

    /// Gathers as many of `bytes` as fit, and returns how many.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.room());
        let start = self.window.start + self.gathered;
        self.memory[start..][..n].copy_from_slice(&bytes[..n]);
        self.gathered += n;
        n
    }

    /// Returns the first `n` bytes of the window, to be filled.
    #[inline]
    pub(super) fn lend(&mut self, n: usize) -> &mut [u8] {
        debug_assert_eq!(self.gathered, 0);
        &mut self.memory[self.window.start..][..n]
    }

    /// Returns whether a pipe may refer to the gathered bytes.
    #[inline]
    pub(super) fn may_be_given(&self) -> bool {
        self.memory.is_pages() && matches!(self.reuse, Reuse::Fresh(Some(_)) | Reuse::Recycle(_))
    }

    /// Copies everything from now on, from the same memory each time, unless a pipe may refer to it: fresh memory stays
    /// fresh once any of it was given, even if the rest is copied.
    pub(super) fn copy_only(&mut self) {
        if !self.gave {
            self.reuse = Reuse::AtOnce;
        }
    }

    /// Records that the first gathered bytes were sent, which makes `total` bytes.
    pub(super) fn went(&mut self, sent: Sent, total: u64) {
        let went = self.window.start..self.window.start + sent.bytes();
        self.window.start = went.end;
        self.gathered -= sent.bytes();
        self.gave |= matches!(sent, Sent::Given(_));
        match (&mut self.reuse, sent) {
            (Reuse::Fresh(Some(fresh)), Sent::Given(_)) => fresh.gave(went),
            (Reuse::Recycle(ring), Sent::Given(_)) => ring.gave(went, total),
            _ => {}
        }
    }

    /// Moves the window to the next page after all gathered bytes were given to a pipe.
    pub(super) fn after_giving(&mut self) {
        let next = self.window.start.next_multiple_of(linux::page_size());
        self.window.start = next.min(self.window.end);
    }

    /// Moves the window after the gathered bytes, which start at `from`, were copied. No pipe refers to them, so their
    /// memory can be filled again at once.
    pub(super) fn after_copying(&mut self, from: usize) {
        let filled = self.window.start == self.window.end;
        self.window = match &self.reuse {
            // The initial memory has been filled: the output is long enough for more memory to pay off.
            _ if !self.settled && filled => 0..0,
            _ if !self.settled => 0..self.memory.len(),
            Reuse::AtOnce => 0..self.chunk.min(self.memory.len()),
            _ => {
                let (start, end) = (from.next_multiple_of(linux::page_size()), self.window.end);
                // The rest of the window must be long enough to be sent by reference; otherwise it would be filled and
                // copied again and again.
                match start + least_to_give(self.chunk) <= end {
                    true => start..end,
                    false => end..end,
                }
            }
        };
    }

    /// Allocates the memory for a long output. If none can be mapped, bytes are copied from the initial memory.
    ///
    /// # Errors
    /// `ENOMEM` if the initial memory has fewer than `at_least` bytes.
    pub(super) fn settle(
        &mut self,
        at_least: usize,
        options: &ProducerOptions,
        sink: BorrowedFd<'_>,
    ) -> Result<()> {
        let huge = !options.own.base_pages;
        let chunk = self.chunk.next_multiple_of(linux::page_size());
        let mapped = match &mut self.reuse {
            Reuse::AtOnce => Memory::map(chunk, huge),
            Reuse::Fresh(fresh) => {
                let fresh = fresh.insert(Fresh::new(chunk, huge, &Geometry::here()));
                Memory::map(fresh.memory(), huge)
            }
            Reuse::Recycle(ring) => {
                let enough = PipeEnd::new(sink)?.capacity()? + 2 * chunk;
                let len = ring.set_len(options.own.memory.unwrap_or(enough));
                Memory::map(len, huge)
            }
        };
        match mapped {
            Ok(pages) => self.memory = Memory::Pages(pages),
            Err(error) => {
                self.memory.grow_for_copying(self.chunk, huge);
                if self.memory.len() < self.at_least(at_least) {
                    return Err(error);
                }
                self.copy_only();
            }
        }
        self.settled = true;
        Ok(())
    }

    /// Moves the window to the next stretch of at least `at_least` bytes that no pipe refers to. `sent` bytes have been
    /// sent to `sink`.
    ///
    /// # Errors
    /// `ENOMEM`; [`Error::Moving`](error::Error::Moving) and [`Error::Stopped`](error::Error::Stopped) as
    /// [`Recycle::window`].
    pub(super) fn next(
        &mut self,
        at_least: usize,
        sent: u64,
        sink: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<()> {
        debug_assert_eq!(self.gathered, 0);
        let (chunk, at_least) = (self.chunk, self.at_least(at_least));
        self.window = match (&mut self.reuse, &mut self.memory) {
            (Reuse::Fresh(Some(fresh)), Memory::Pages(memory)) => {
                fresh.window(memory, chunk, at_least)?
            }
            (Reuse::Recycle(ring), _) => ring.window(chunk, at_least, sent, sink, waiter)?,
            (_, memory) => 0..chunk.min(memory.len()),
        };
        match self.window.len() < at_least {
            true => Err(error::system("mmap")(Errno::NOMEM)),
            false => Ok(()),
        }
    }

    /// Returns the length that the next window needs. A window too short to be sent by reference would be copied, and
    /// the next window would be the same one again.
    fn at_least(&self, wanted: usize) -> usize {
        wanted.max(least_to_give(self.chunk))
    }

    /// Waits until the pipe no longer refers to recycled pages.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(super) fn wait_for_readers(
        &self,
        sent: u64,
        sink: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<()> {
        match &self.reuse {
            Reuse::Recycle(ring) if !waiter.never => {
                ring.wait_until_released(sent, sent, sink, waiter).map(drop)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use fullbore_linux::pipe::Pipe;

    #[test]
    fn memory_that_a_pipe_was_given_is_not_filled_again_after_copying_only() {
        let pipe = Pipe::new().unwrap();
        let (sink, mut waiter) = (pipe.writer.as_fd(), Waiter::default());
        let mut windows = Windows::new(64 << 10, Reuse::Fresh(None));
        windows.settle(1, &ProducerOptions::new(), sink).unwrap();
        let mut given: Vec<Range<usize>> = Vec::new();
        for turn in 0..20 {
            windows.next(1, 0, sink, &mut waiter).unwrap();
            let window = windows.window.clone();
            if given.last().is_some_and(|last| window.start < last.end) {
                break;
            }
            windows.gathered = 40 << 10;
            let from = windows.window.start;
            match turn {
                0..3 => {
                    windows.went(Sent::Given(40 << 10), 0);
                    windows.after_giving();
                    given.push(from..windows.window.start);
                }
                // Pages are no longer given, as after a trial that has found that the kernel copies them.
                _ => {
                    windows.copy_only();
                    windows.went(Sent::Copied(40 << 10), 0);
                    windows.after_copying(from);
                }
            }
            let mut all = given.iter();
            assert!(
                all.all(|given| window.start >= given.end || turn < 3),
                "{turn}: {window:?}"
            );
        }
        assert_eq!(windows.way(), Way::Fresh);
    }
}

//! Bytes between a source and its sinks: read once, and sent to one sink or to many, by reference
//! where a sink is a pipe.
//!
//! This is correct for the same reason as *fresh* (`fresh.rs`): memory that was given to a pipe is never written to
//! again.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::fresh::Fresh;
use crate::memory::{self, Geometry, Memory};
use crate::outlet::{Failed, Outlet, Sent, least_to_give, pages_pay_off};
use fullbore_linux as linux;
use fullbore_linux::choice::{Choice, Trials};
use fullbore_linux::error::Result;

/// The largest memory of a stage, whatever the chunk.
const MOST: usize = 16 << 20;

/// When to find out whether giving pages to pipes and Unix sockets is faster than writing, which needs less memory. A
/// reader that copies takes as long for either, and a writer at the other end goes on while a write(2) takes its time; a
/// reader that splices, or a pipe that is never empty, gains from pages. The bytes that arrive are the same.
const GIVING: Trials = Trials {
    from: 0,
    each: 4 << 20,
    period: 512 << 20,
    within: 64,
};

/// Bytes that were read and have not reached every sink yet, and the memory that holds them.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    memory: Memory,
    /// The source of fresh memory, if the held bytes may be given to pipes.
    fresh: Option<Fresh>,
    /// Bytes of one read(2).
    chunk: usize,
    /// Memory to fill, which no pipe refers to.
    window: Range<usize>,
    /// The bytes that have been read and not been sent to every sink.
    held: Range<usize>,
    /// The number of held bytes that at least one pipe refers to.
    given: usize,
    grown: bool,
    /// Memory to write from, and whether that is faster; `None` if bytes are always sent in one way.
    written: Option<(Choice, Memory)>,
    /// Whether the held bytes are in the memory to write from.
    is_written: bool,
}

impl Stage {
    /// Allocates the initial memory, whose bytes are always copied, if there is none yet: at least the `longest` message
    /// that the source keeps whole (see [`longest_message`](fullbore_linux::messages::longest_message)), otherwise
    /// `first` bytes, which need no system call.
    pub(crate) fn begin(&mut self, longest: usize, first: usize) {
        if self.chunk == 0 {
            self.grown = longest == memory::MESSAGE;
            self.memory = match self.grown {
                true => Memory::for_messages(),
                false => Memory::first(first.max(1)),
            };
            self.chunk = self.memory.len();
            self.window = 0..self.chunk;
        }
    }

    /// Allocates full-size memory: `chunk` bytes for each read, and fresh memory each time if the bytes are to be
    /// `given` to sinks and there is enough memory. If all sinks take pages, but writing up to so many bytes at once may
    /// be faster (`written`), that is used while it is. If no memory can be mapped, the stage keeps what it has. The
    /// stage must be empty.
    pub(crate) fn grow(&mut self, chunk: Option<usize>, given: bool, written: Option<usize>) {
        debug_assert!(self.held.is_empty());
        self.grown = true;
        if given && pages_pay_off() {
            let chunk = chunk.unwrap_or(memory::CHUNK).min(MOST);
            let fresh = Fresh::new(chunk, true, &Geometry::here());
            if let Ok(pages) = Memory::map(fresh.memory(), true) {
                self.memory = Memory::Pages(pages);
                self.fresh = Some(fresh);
                self.chunk = chunk;
                self.window = 0..0;
                if let Some(at_once) = written {
                    let mut memory = Memory::first(memory::FIRST);
                    memory.grow_for_copying(chunk.min(at_once), false);
                    self.written = Some((Choice::new(&GIVING, false), memory));
                }
                return;
            }
        }
        let chunk = chunk.unwrap_or_else(memory::suits_copying).min(MOST);
        self.memory.grow_for_copying(chunk, linux::has_huge_pages());
        self.chunk = chunk.min(self.memory.len());
        self.window = 0..self.chunk;
        self.fresh = None;
    }

    /// Returns whether it is still the initial, small stage.
    pub(crate) fn is_small(&self) -> bool {
        !self.grown
    }

    /// Returns the number of bytes that are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the bytes that are held.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.written {
            Some((_, memory)) if self.is_written => &memory[self.held.clone()],
            _ => &self.memory[self.held.clone()],
        }
    }

    /// Returns the memory to read at most `most` bytes into. The stage must be empty.
    ///
    /// # Errors
    /// The kernel's error if memory cannot be released to it.
    pub(crate) fn room(&mut self, most: usize) -> Result<&mut [u8]> {
        debug_assert!(self.held.is_empty());
        let writes = |(choice, _): &(Choice, _)| !choice.takes_second();
        self.is_written = self.written.as_ref().is_some_and(writes);
        if let Some((_, memory)) = self.written.as_mut().filter(|_| self.is_written) {
            let len = memory.len().min(self.chunk).min(most);
            return Ok(&mut memory[..len]);
        }
        let at_least = least_to_give(self.chunk);
        if self.window.len() < at_least {
            if let (Some(fresh), Memory::Pages(pages)) = (&mut self.fresh, &mut self.memory) {
                self.window = fresh.window(pages, self.chunk, at_least)?;
            }
        }
        let len = self.window.len().min(self.chunk).min(most);
        let start = self.window.start;
        Ok(&mut self.memory[start..start + len])
    }

    /// Records that the first `n` bytes of the room were filled.
    pub(crate) fn filled(&mut self, n: usize) {
        let start = match self.is_written {
            true => 0,
            false => self.window.start,
        };
        self.held = start..start + n;
        self.given = 0;
    }

    /// Sends at most `most` of the held bytes to `sink`, starting at byte `from`, and returns how many were sent.
    ///
    /// # Errors
    /// The errors of write(2), vmsplice(2) and splice(2), with the name of the call.
    pub(crate) fn send(
        &mut self,
        outlet: &mut Outlet,
        sink: BorrowedFd<'_>,
        from: usize,
        most: usize,
        at: Option<u64>,
    ) -> Result<usize, Failed> {
        let bytes = &self.bytes()[from..];
        let bytes = &bytes[..bytes.len().min(most)];
        if self.is_written {
            return outlet.write(sink, bytes);
        }
        let offered = self.fresh.is_some() && bytes.len() >= least_to_give(self.chunk);
        // SAFETY: `given` records the bytes, and `let_go` passes them to `Fresh`, which releases their pages to the
        // kernel before anything is written there again. Fresh memory is a private mapping.
        let sent = unsafe { outlet.send(sink, bytes, offered, at) };
        if outlet.is_under_way() {
            self.given = self.held.len();
        }
        let sent = sent?;
        if let Sent::Given(n) = sent {
            self.given = self.given.max(from + n);
        }
        Ok(sent.bytes())
    }

    /// Empties the stage, once every remaining sink has got the held bytes.
    pub(crate) fn let_go(&mut self) {
        let held = std::mem::take(&mut self.held);
        if let Some((choice, _)) = &mut self.written {
            choice.moved(held.len());
        }
        if self.given > 0 {
            self.given = 0;
            if let Some(fresh) = &mut self.fresh {
                let next = held.end.next_multiple_of(linux::page_size());
                self.window.start = next.min(self.window.end);
                fresh.gave(held);
            }
        }
    }
}

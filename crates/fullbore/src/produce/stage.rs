//! Bytes between a source and its sinks: read once, and sent to one sink or to many, by reference
//! where a sink is a pipe.
//!
//! What makes that right is what makes *fresh* right (`fresh.rs`): memory of which a pipe was given a
//! part is never written to again.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::fresh::Fresh;
use super::options::{self, BY_REFERENCE_FROM};
use super::output::own_writable;
use crate::error::Result;
use crate::linux::{self, Calls};
use crate::memory::{self, Geometry, Memory};
use crate::wait::uninterrupted;

/// Bytes of a stage at most, whatever chunk was asked for.
const MOST: usize = 16 << 20;

/// Bytes that were read and have not reached every sink yet, and the memory they lie in.
#[derive(Debug)]
pub(crate) struct Stage {
    memory: Memory,
    /// Where fresh memory comes from, if what is held may be given to pipes.
    fresh: Option<Fresh>,
    /// Bytes of one read(2).
    chunk: usize,
    /// Memory to fill, which no pipe refers to.
    window: Range<usize>,
    /// What has been read.
    held: Range<usize>,
    /// How much of what is held some pipe was given.
    given: usize,
    grown: bool,
}

/// How one sink is written to.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) calls: Calls,
    /// Whether the sink is given pages: it is the write end of a pipe, and the kernel has not refused.
    takes_pages: bool,
    /// A duplicate of the write end, which nobody else can replace by another file.
    pipe: Option<OwnedFd>,
    /// Bytes that went by reference.
    pub(crate) given: u64,
}

impl Outlet {
    pub(crate) fn new(calls: Calls) -> Self {
        Self {
            calls,
            takes_pages: false,
            pipe: None,
            given: 0,
        }
    }

    /// Gives pages to `sink` from now on if it is the write end of a pipe, and says whether it is.
    pub(crate) fn take_pages(&mut self, sink: BorrowedFd<'_>) -> bool {
        self.pipe = own_writable(sink).ok();
        self.takes_pages = self.pipe.is_some();
        self.takes_pages
    }

    /// Closes what it has of the sink, so that a reader finds the end once the caller has closed it
    /// too. If there is more to send after all, it opens that again.
    pub(crate) fn let_go(&mut self) {
        self.pipe = None;
    }

    /// The descriptor that is written to, and waited for: the sink's own pipe once it takes pages, as
    /// `sink` may refer to something else by then.
    pub(crate) fn fd<'fd>(&'fd self, sink: BorrowedFd<'fd>) -> BorrowedFd<'fd> {
        self.pipe.as_ref().map_or(sink, AsFd::as_fd)
    }
}

impl Stage {
    /// One without any memory yet.
    pub(crate) fn none() -> Self {
        Self {
            memory: Memory::none(),
            fresh: None,
            chunk: 0,
            window: 0..0,
            held: 0..0,
            given: 0,
            grown: false,
        }
    }

    /// A small one, which takes no system call to make, and only copies.
    pub(crate) fn small(most: usize) -> Self {
        let memory = Memory::first(most.max(1));
        Self {
            chunk: memory.len(),
            window: 0..memory.len(),
            memory,
            ..Self::none()
        }
    }

    /// Gets memory of full size: `chunk` bytes at a time, and fresh ones each time if they are to
    /// be `given` to pipes and there is memory for that. Where there is none, it goes on with what it
    /// has. Nothing may be held.
    pub(crate) fn grow(&mut self, chunk: Option<usize>, given: bool) {
        debug_assert!(self.held.is_empty());
        self.grown = true;
        let geometry = Geometry::here();
        // Base pages, faulted in one by one, cost more than the copy that they save.
        if given && geometry.huge_that_suits().is_some() {
            let chunk = chunk.unwrap_or(options::CHUNK).min(MOST);
            let fresh = Fresh::new(chunk, true, &geometry);
            if let Ok(pages) = Memory::map(fresh.memory(), true) {
                self.memory = Memory::Pages(pages);
                self.fresh = Some(fresh);
                self.chunk = chunk;
                self.window = 0..0;
                return;
            }
        }
        let chunk = chunk.unwrap_or_else(memory::suits_copying).min(MOST);
        self.memory.grow_for_copying(chunk, linux::has_huge_pages());
        self.chunk = chunk.min(self.memory.len());
        self.window = 0..self.chunk;
        self.fresh = None;
    }

    /// Whether it has no memory yet.
    pub(crate) fn is_none(&self) -> bool {
        self.chunk == 0
    }

    /// Whether it is still the small one of the start.
    pub(crate) fn is_small(&self) -> bool {
        !self.grown
    }

    /// Bytes that are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// What is held.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.held.clone()]
    }

    /// The memory to read the next bytes into, at most `most` of them; nothing may be held.
    ///
    /// # Errors
    /// Where memory cannot be given back to the kernel.
    pub(crate) fn room(&mut self, most: usize) -> Result<&mut [u8]> {
        debug_assert!(self.held.is_empty());
        if let Some(fresh) = &mut self.fresh
            && self.window.len() < BY_REFERENCE_FROM.min(self.chunk)
            && let Memory::Pages(pages) = &mut self.memory
        {
            let at_least = BY_REFERENCE_FROM.min(self.chunk);
            self.window = fresh.window(pages, self.chunk, at_least)?;
        }
        let len = self.window.len().min(self.chunk).min(most);
        let start = self.window.start;
        Ok(&mut self.memory[start..start + len])
    }

    /// Notes that the first `n` bytes of the room were filled.
    pub(crate) fn filled(&mut self, n: usize) {
        self.held = self.window.start..self.window.start + n;
        self.given = 0;
    }

    /// Sends what is held, from the byte `from` of it on, to `sink`, and says how many bytes went.
    ///
    /// # Errors
    /// As write(2) and vmsplice(2), with the name of the call.
    pub(crate) fn send(
        &mut self,
        outlet: &mut Outlet,
        sink: BorrowedFd<'_>,
        from: usize,
        at: Option<u64>,
    ) -> Result<usize, (&'static str, Errno)> {
        if outlet.takes_pages && outlet.pipe.is_none() {
            outlet.take_pages(sink);
        }
        let bytes = &self.memory[self.held.start + from..self.held.end];
        let pays = bytes.len() >= BY_REFERENCE_FROM.min(self.chunk);
        if let Some(pipe) = &outlet.pipe
            && self.fresh.is_some()
            && pays
        {
            // SAFETY: what a pipe was given is noted, and `let_go` sees to it that it is given back
            // to the kernel before anything could be written to it again. The pages are a mapping of
            // our own, which lives on in the pipe after munmap. `own_writable` made sure that the
            // outlet's pipe is the write end of one, and no one else can change what its descriptor
            // refers to.
            let answer = unsafe {
                outlet
                    .calls
                    .vmsplice(pipe.as_fd(), bytes, SpliceFlags::empty())
            };
            match answer {
                Ok(n) => {
                    outlet.given += n as u64;
                    self.given = self.given.max(from + n);
                    return Ok(n);
                }
                Err(errno) if linux::is_refusal(errno) && outlet.given == 0 => {
                    outlet.takes_pages = false;
                    outlet.pipe = None;
                }
                Err(errno) => return Err(("vmsplice", errno)),
            }
        }
        // What is short goes to where the rest went.
        let sink = outlet.pipe.as_ref().map_or(sink, AsFd::as_fd);
        let answer = match at {
            None => outlet.calls.write(sink, bytes),
            Some(at) => uninterrupted(|| rustix::io::pwrite(sink, bytes, at)),
        };
        answer.map_err(|errno| ("write", errno))
    }

    /// Empties the stage: every sink has got what it held, or will never get it.
    ///
    /// # Errors
    /// Where memory cannot be given back to the kernel.
    pub(crate) fn let_go(&mut self) -> Result<()> {
        if self.given > 0
            && let Memory::Pages(pages) = &mut self.memory
            && let Some(fresh) = &mut self.fresh
        {
            let held = std::mem::take(&mut self.held);
            self.given = 0;
            self.window.start = held
                .end
                .next_multiple_of(linux::page_size())
                .min(self.window.end);
            fresh.gave(pages, held)?;
        }
        self.held = 0..0;
        Ok(())
    }
}

//! Bytes between a source and its sinks: read once, and sent to one sink or to many, by reference
//! where a sink is a pipe.
//!
//! This is correct for the same reason as *fresh* (`fresh.rs`): once a pipe was given a part of some
//! memory, that memory is never written to again.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::fresh::Fresh;
use super::into_socket::{IntoSocket, Refused};
use super::options::{self, BY_REFERENCE_FROM, Way};
use super::socket::Through;
use crate::memory::{self, Geometry, Memory};
use fullbore_linux::error::Result;
use fullbore_linux::pipe::own_writable;
use fullbore_linux::wait::uninterrupted;
use fullbore_linux::{self as linux, Calls};

/// The most bytes that a stage has memory for, whatever chunk was asked for.
const MOST: usize = 16 << 20;

/// Bytes that were read and have not reached every sink yet, and the memory that holds them.
#[derive(Debug)]
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
    /// The number of held bytes that at least one pipe was given.
    given: usize,
    grown: bool,
}

/// The way in which one sink is written to.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) calls: Calls,
    /// Whether to write to a duplicate of the sink, which is the write end of a pipe.
    is_pipe: bool,
    /// The duplicate, which no other code can replace by another file.
    pipe: Option<OwnedFd>,
    /// The way of pages into a sink that is a Unix socket.
    into_socket: Option<IntoSocket>,
    /// Whether the kernel refuses to give pages to the pipe.
    refuses: bool,
    /// How bytes are written into the pipe that are not given.
    through: Through,
    /// Bytes that were sent by reference.
    pub(crate) given: u64,
    /// How bytes were sent the last time.
    pub(crate) last: Way,
}

/// How some bytes were sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sent {
    /// A pipe refers to this many.
    Given(usize),
    /// They were copied.
    Copied(usize),
}

impl Sent {
    /// Returns how many.
    pub(super) fn bytes(self) -> usize {
        match self {
            Sent::Given(bytes) | Sent::Copied(bytes) => bytes,
        }
    }
}

impl Outlet {
    pub(crate) fn new(calls: Calls) -> Self {
        Self {
            calls,
            is_pipe: false,
            pipe: None,
            into_socket: None,
            refuses: false,
            through: Through::Nothing,
            given: 0,
            last: Way::Copy,
        }
    }

    /// Gives pages to `sink` from now on if it is the write end of a pipe, and what is not given goes
    /// through a socket if `capacity` bytes of pipe may be full of that. Returns whether either can be.
    pub(crate) fn take_pages(&mut self, sink: BorrowedFd<'_>, capacity: usize) -> bool {
        if !self.calls.waiter().never_waits() {
            self.through = Through::for_capacity(capacity);
        }
        if linux::has_huge_pages() || self.through.is_socket() {
            self.duplicate(sink);
            self.is_pipe = self.pipe.is_some();
        }
        self.is_pipe
    }

    /// Gives pages to a sink that is a Unix stream socket from now on, through a pipe of up to `capacity`
    /// bytes. Returns whether they can be.
    pub(crate) fn take_pages_for_a_socket(&mut self, capacity: usize) -> bool {
        if linux::has_huge_pages() {
            self.into_socket = IntoSocket::new(capacity);
        }
        self.into_socket.is_some()
    }

    /// Only writes to a socket from now on. What its pipe holds has not been sent.
    pub(crate) fn give_no_pages_to_a_socket(&mut self) {
        self.into_socket = None;
    }

    fn duplicate(&mut self, sink: BorrowedFd<'_>) {
        self.pipe = own_writable(sink).ok();
    }

    /// Closes its duplicate of the sink, so that a reader sees the end of file once the caller has
    /// closed the sink too. If there is more to send after all, the duplicate is made again.
    pub(crate) fn let_go(&mut self) {
        self.pipe = None;
    }

    /// Sends some of `bytes` to `sink`. A pipe is given them if they `may_be_given`, and if that `pays`.
    ///
    /// # Safety
    /// Memory that may be given is a mapping of our own, and what the answer says was given is not written
    /// to again before it was given back to the kernel.
    ///
    /// # Errors
    /// The errors of write(2), vmsplice(2) and splice(2), with the name of the call.
    pub(super) unsafe fn send(
        &mut self,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
        may_be_given: bool,
        pays: bool,
        at: Option<u64>,
    ) -> Result<Sent, (&'static str, Errno)> {
        if self.is_pipe && self.pipe.is_none() {
            self.duplicate(sink);
        }
        let can_be_given = may_be_given && pays && !self.refuses && !self.through.has_failed();
        if let Some(pipe) = self.pipe.as_ref().filter(|_| can_be_given) {
            // SAFETY: the caller vouches for the memory, which lives on in the pipe after munmap.
            // `own_writable` made sure that this is the write end of a pipe, and no one else can change
            // what its descriptor refers to.
            let answer = unsafe {
                self.calls
                    .vmsplice(pipe.as_fd(), bytes, SpliceFlags::empty())
            };
            match answer {
                Ok(n) => {
                    self.given += n as u64;
                    self.last = Way::Fresh;
                    return Ok(Sent::Given(n));
                }
                Err(errno) if linux::is_refusal(errno) && self.given == 0 => {
                    self.refuses = true;
                }
                Err(errno) => return Err(("vmsplice", errno)),
            }
        }
        self.last = Way::Copy;
        let answer = match (&self.pipe, at) {
            // A short rest is written to the same file as the bytes before it.
            (Some(pipe), None) => {
                let written = self.through.write(&mut self.calls, pipe.as_fd(), bytes);
                return written.map(|(n, way)| {
                    self.last = way;
                    Sent::Copied(n)
                });
            }
            (None, None) => self.calls.write(sink, bytes),
            (_, Some(at)) => {
                self.calls.also_made(1);
                uninterrupted(|| rustix::io::pwrite(sink, bytes, at))
            }
        };
        answer.map(Sent::Copied).map_err(|errno| ("write", errno))
    }

    /// Returns the descriptor to write to and to wait for. If there is a duplicate, this is it,
    /// because `sink` may refer to another file by then.
    pub(crate) fn fd<'fd>(&'fd self, sink: BorrowedFd<'fd>) -> BorrowedFd<'fd> {
        self.pipe.as_ref().map_or(sink, AsFd::as_fd)
    }
}

impl Stage {
    /// Creates a stage without any memory.
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

    /// Creates a small stage, which needs no system call, and whose bytes are only copied.
    pub(crate) fn small(most: usize) -> Self {
        let memory = Memory::first(most.max(1));
        Self {
            chunk: memory.len(),
            window: 0..memory.len(),
            memory,
            ..Self::none()
        }
    }

    /// Creates a stage that takes a whole message of a socket in each read, and whose bytes are only copied.
    pub(crate) fn for_messages() -> Self {
        let memory = Memory::for_messages();
        Self {
            chunk: memory.len(),
            window: 0..memory.len(),
            memory,
            grown: true,
            ..Self::none()
        }
    }

    /// Gets memory of full size: `chunk` bytes for each read, and fresh memory each time if the bytes
    /// are to be `given` to pipes and there is enough memory. If no memory can be mapped, the stage
    /// keeps what it has. The stage must not hold any bytes.
    pub(crate) fn grow(&mut self, chunk: Option<usize>, given: bool) {
        debug_assert!(self.held.is_empty());
        self.grown = true;
        let geometry = Geometry::here();
        // Faulting in base pages one by one costs more than the copy that it would save.
        if given && geometry.huge_that_suits().is_some() && linux::shares_pages() {
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

    /// Returns whether it has no memory yet.
    pub(crate) fn is_none(&self) -> bool {
        self.chunk == 0
    }

    /// Returns whether it is still the small stage from the start.
    pub(crate) fn is_small(&self) -> bool {
        !self.grown
    }

    /// Returns the number of bytes that are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the bytes that are held.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.held.clone()]
    }

    /// Returns the memory to read at most `most` bytes into. The stage must not hold any bytes.
    ///
    /// # Errors
    /// The kernel's error, if memory cannot be given back to it.
    pub(crate) fn room(&mut self, most: usize) -> Result<&mut [u8]> {
        debug_assert!(self.held.is_empty());
        let at_least = BY_REFERENCE_FROM.min(self.chunk);
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
        self.held = self.window.start..self.window.start + n;
        self.given = 0;
    }

    /// Sends the held bytes, starting with byte number `from`, to `sink`, at most `most` of them, and
    /// returns how many were sent.
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
    ) -> Result<usize, (&'static str, Errno)> {
        let bytes = &self.memory[self.held.start + from..self.held.end];
        let bytes = &bytes[..bytes.len().min(most)];
        let pays = bytes.len() >= BY_REFERENCE_FROM.min(self.chunk);
        let is_fresh = self.fresh.is_some();
        let into = outlet.into_socket.as_mut();
        if let Some(into) = into.filter(|into| is_fresh && (pays || into.is_under_way())) {
            self.given = self.held.len();
            // SAFETY: what is given was noted, and `let_go` tells it to `Fresh`, which gives it back to the
            // kernel before anything could be written to it again. The pages are a mapping of our own.
            match unsafe { into.send(&mut outlet.calls, sink, bytes) } {
                Ok(n) => {
                    outlet.given += n as u64;
                    outlet.last = Way::Fresh;
                    return Ok(n);
                }
                Err(Refused::Failed(operation, errno)) => return Err((operation, errno)),
                Err(Refused::Always) => outlet.into_socket = None,
            }
        }
        // SAFETY: what a pipe was given is noted, and `let_go` tells it to `Fresh`, which gives it back to
        // the kernel before anything could be written to it again. Fresh memory is a mapping of our own.
        let sent = unsafe {
            let may_be_given = self.fresh.is_some();
            outlet.send(sink, bytes, may_be_given, pays, at)
        }?;
        if let Sent::Given(n) = sent {
            self.given = self.given.max(from + n);
        }
        Ok(sent.bytes())
    }

    /// Empties the stage, when every sink has got the held bytes or will never get them.
    pub(crate) fn let_go(&mut self) {
        let held = std::mem::take(&mut self.held);
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

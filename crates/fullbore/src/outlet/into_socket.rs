//! Fresh pages into a Unix stream socket, through a pipe of our own.
//!
//! vmsplice(2) gives pages only to a pipe, and splice(2) moves references from there into the socket. The
//! receiver then has references to the pages, too, and may splice them on (H5). What was given is never
//! written to again, so it gets the bytes as they were, as from a pipe.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::memory;
use fullbore_linux::pipe::{self, Pipe};
use fullbore_linux::wait::Ready;
use fullbore_linux::{self as linux, Calls, without_sigpipe};

/// The pipe before a Unix stream socket.
#[derive(Debug)]
pub(super) struct IntoSocket {
    pipe: Pipe,
    /// Bytes in the pipe: the next ones of those that are to be sent.
    held: usize,
    /// Whether bytes have arrived through it.
    works: bool,
}

/// Why bytes did not arrive.
pub(super) enum Refused {
    /// The kernel or a sandbox does not do it for this socket: write(2) has to be used.
    Always,
    /// The call failed.
    Failed(&'static str, Errno),
}

impl IntoSocket {
    /// Creates a pipe of up to `capacity` bytes; `None` if there is none that is worthwhile.
    pub(super) fn new(capacity: usize) -> Option<Self> {
        let (pipe, growth) = pipe::with_capacity(capacity).ok()?;
        (growth.after >= memory::FIRST).then_some(Self {
            pipe,
            held: 0,
            works: false,
        })
    }

    /// Returns whether bytes are in the pipe that have not arrived.
    pub(super) fn is_under_way(&self) -> bool {
        self.held > 0
    }

    /// Gives as many of `bytes` to the pipe as it takes, if it is empty, and moves them into `sink`.
    /// Returns how many have arrived. After an error, or if it returns fewer than all, it must be called
    /// with the rest of these bytes.
    ///
    /// # Safety
    /// The bytes must be in a mapping of our own, and must not be written to again.
    ///
    /// # Errors
    /// [`Refused`]. All bytes that have not arrived are still in the memory.
    pub(super) unsafe fn send(
        &mut self,
        calls: &mut Calls,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
    ) -> Result<usize, Refused> {
        if self.held == 0 {
            // SAFETY: the caller vouches for the pages, and this is the write end of a pipe.
            let given =
                unsafe { calls.vmsplice(self.pipe.writer.as_fd(), bytes, SpliceFlags::NONBLOCK) };
            self.held = given.map_err(|errno| self.why("vmsplice", errno))?;
        }
        let (pipe, held) = (self.pipe.reader.as_fd(), self.held);
        calls.also_made(1);
        let spliced = calls.waiter().until_ready(sink, Ready::ToWrite, || {
            without_sigpipe(|| {
                rustix::pipe::splice(pipe, None, sink, None, held, SpliceFlags::empty())
            })
        });
        match spliced {
            Ok(0) => Err(Refused::Always),
            Ok(n) => {
                if n < held {
                    calls.waiter().note_short(sink);
                }
                self.held -= n;
                self.works = true;
                Ok(n)
            }
            Err(errno) => Err(self.why("splice", errno)),
        }
    }

    fn why(&self, operation: &'static str, errno: Errno) -> Refused {
        match linux::is_refusal(errno) && !self.works {
            true => Refused::Always,
            false => Refused::Failed(operation, errno),
        }
    }
}

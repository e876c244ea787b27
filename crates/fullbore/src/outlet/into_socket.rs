//! Fresh pages into a Unix stream socket, through a private pipe.
//!
//! vmsplice(2) gives pages only to a pipe, and splice(2) moves references from there into the socket. The receiver then
//! refers to the pages, too, and may splice them on (H5). They are never written to again, so it gets the bytes as they
//! were, as from a pipe.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::memory;
use crate::splice::Splice;
use fullbore_linux::outcome::{End, Outcome};
use fullbore_linux::pipe::{self, Pipe};
use fullbore_linux::{self as linux, Calls};

/// The private pipe before a Unix stream socket.
#[derive(Debug)]
pub(super) struct IntoSocket {
    pipe: Pipe,
    /// Bytes in the pipe: the first ones of those that remain to be sent.
    held: usize,
}

/// Why bytes did not arrive.
pub(super) enum Refused {
    /// The kernel or a sandbox does not allow it for this socket: use write(2).
    Always,
    /// The call failed.
    Failed(&'static str, Errno),
}

impl IntoSocket {
    /// Creates a pipe of up to `capacity` bytes; `None` if no pipe of a useful size can be made.
    pub(super) fn new(capacity: usize) -> Option<Self> {
        let (pipe, growth) = pipe::with_capacity(capacity).ok()?;
        (growth.after >= memory::FIRST).then_some(Self { pipe, held: 0 })
    }

    /// Returns whether bytes in the pipe have not arrived yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.held > 0
    }

    /// Gives as many of `bytes` to the pipe as it accepts, if it is empty, and moves them into `sink`. Returns how many
    /// have arrived. After an error or a short count, the next call must pass the rest of these bytes.
    ///
    /// # Safety
    /// The bytes must be in a private mapping, and must not be written to again.
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
            self.held = given.map_err(|errno| match linux::is_refusal(errno) {
                true => Refused::Always,
                false => Refused::Failed("vmsplice", errno),
            })?;
        }
        calls.also_made(1);
        let splice = Splice {
            source: self.pipe.reader.as_fd(),
            sink,
            ends: (End::Own, End::Socket),
            from: None,
            to: None,
            most: self.held,
        };
        match splice.run(calls.waiter()) {
            Ok(Outcome::Moved(n)) => {
                self.held -= n;
                Ok(n)
            }
            // write(2) either works, or returns the reason why not.
            Ok(Outcome::Refused) => Err(Refused::Always),
            Ok(Outcome::Failed(_, errno)) => Err(Refused::Failed("splice", errno)),
            Ok(_) | Err(_) => Err(Refused::Failed("splice", Errno::AGAIN)),
        }
    }
}

//! Fresh pages into a Unix stream socket, through a private pipe.
//!
//! vmsplice(2) gives pages only to a pipe, and splice(2) moves references from there into the socket. The receiver then
//! refers to the pages, too, and may splice them on (H5). They are never written to again, so it gets the bytes as they
//! were, as from a pipe.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::socket::Failed;
use crate::memory;
use crate::own_pipe::OwnPipe;
use fullbore_linux::outcome::{End, Outcome};
use fullbore_linux::{self as linux, Calls};

/// Creates the private pipe before a Unix stream socket, of up to `capacity` bytes; `None` if no pipe of a useful size
/// can be made.
pub(super) fn pipe_before(capacity: usize) -> Option<OwnPipe> {
    let own = OwnPipe::new(capacity).ok()?;
    (own.capacity >= memory::FIRST).then_some(own)
}

/// Gives as many of `bytes` to the pipe as it accepts, if it is empty, and moves them into `sink`. Returns how many
/// have arrived; `None` if the kernel or a sandbox does not allow it for this socket. After an error or a short count,
/// the next call must pass the rest of these bytes.
///
/// # Safety
/// The bytes must be in a private mapping, and must not be written to again.
///
/// # Errors
/// The call that failed, and its error. All bytes that have not arrived are still in the memory.
pub(super) unsafe fn send(
    own: &mut OwnPipe,
    calls: &mut Calls,
    sink: BorrowedFd<'_>,
    bytes: &[u8],
) -> Result<Option<usize>, Failed> {
    if own.held == 0 {
        let (pipe, flags) = (own.pipe.writer.as_fd(), SpliceFlags::NONBLOCK);
        // SAFETY: the caller vouches for the pages, and this is the write end of a pipe.
        own.held = match unsafe { calls.vmsplice(pipe, bytes, flags) } {
            Ok(given) => given,
            Err(errno) if linux::is_refusal(errno) => return Ok(None),
            Err(errno) => return Err(("vmsplice", errno)),
        };
    }
    calls.also_made(1);
    match own.send_on(&mut calls.waiter, (sink, End::Socket, None), usize::MAX) {
        Ok(Outcome::Moved(n)) => Ok(Some(n)),
        // write(2) either works, or returns the reason why not.
        Ok(Outcome::Refused) => Ok(None),
        Ok(Outcome::Failed(_, errno)) => Err(("splice", errno)),
        Ok(_) | Err(_) => Err(("splice", Errno::AGAIN)),
    }
}

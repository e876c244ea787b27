//! *socket*: bytes are copied into a private Unix stream socket, and spliced from it into the pipe.
//!
//! The kernel copies what is sent into such a socket into compound pages of 32 KiB (`unix_stream_sendmsg`,
//! net/unix/af_unix.c: the fragments of a buffer are of order 3), which are not zeroed first, and splice(2) moves each
//! of these runs as one slot. write(2) into the pipe allocates a page and uses a slot for every 4 KiB. No process can
//! access the pages of a run: a reader gets the bytes as they were, as with write(2). No vmsplice(2) is needed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::SpliceFlags;

use crate::memory::Geometry;
use crate::way::Way;
use fullbore_linux::{self as linux, Calls, PipeEnd, Ready, Stopped, uninterrupted};

/// Bytes of one run in a Unix stream socket: `UNIX_SKB_FRAGS_SZ`.
pub(crate) const RUN: usize = 32 * 1024;

/// How bytes are copied into a pipe: through a socket, if there is one.
#[derive(Debug)]
pub(super) enum Through {
    /// By write(2).
    Nothing,
    /// Through a socket that is created once there are enough bytes.
    NewSocket,
    /// Through this socket, which is empty between two calls.
    Socket { near: OwnedFd, far: OwnedFd },
    /// The next call returns this deferred error: the last one had sent some bytes before it.
    Failed(&'static str, Errno),
}

/// A number of bytes and how they were sent, or the call that failed.
pub(super) type Written = Result<(usize, Way), Failed>;

/// The call that failed, and its errno.
pub(crate) type Failed = (&'static str, Errno);

impl Through {
    /// Returns the way for a pipe of `capacity` bytes: through a socket, unless base pages are at least as long as
    /// runs, or the memory cgroup has no room for a pipe full of runs.
    pub(super) fn for_capacity(capacity: usize) -> Self {
        match linux::page_size() < RUN && has_room_for_runs(capacity) {
            true => Through::NewSocket,
            false => Through::Nothing,
        }
    }

    /// Returns whether long copies go through a socket, as far as is known.
    pub(super) fn is_socket(&self) -> bool {
        !matches!(self, Through::Nothing)
    }

    /// Returns whether the next call returns a deferred error.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Through::Failed(..))
    }

    /// Writes to the pipe `sink`, and returns how many bytes were sent, at most a socket full, and how. Less than a
    /// run, and nonblocking sends, are written directly; so is everything once a socket or splice(2) is refused.
    ///
    /// # Errors
    /// The errors of write(2) and splice(2); `EIO` if write(2) moves nothing.
    pub(super) fn write(
        &mut self,
        calls: &mut Calls,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
    ) -> Written {
        if let Through::Failed(operation, errno) = *self {
            *self = Through::NewSocket;
            return Err((operation, errno));
        }
        match self.is_socket() && !calls.waiter.never && bytes.len() >= RUN {
            true => self.through_the_socket(calls, sink, bytes),
            false => directly(calls, sink, bytes),
        }
    }

    /// Copies as many bytes into the socket as it accepts, and moves them into the pipe. If that fails, the bytes left in
    /// the socket are discarded with it, and the caller still has them.
    fn through_the_socket(
        &mut self,
        calls: &mut Calls,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
    ) -> Written {
        let queued = self.fill(calls, sink, bytes);
        let (Through::Socket { far, .. }, 1..) = (&*self, queued) else {
            *self = Through::Nothing;
            return directly(calls, sink, bytes);
        };
        let mut sent = 0;
        let errno = loop {
            let (left, flags) = (queued - sent, SpliceFlags::NONBLOCK);
            if left == 0 {
                return Ok((sent, Way::Socket));
            }
            match calls.splice(far.as_fd(), sink, left, flags, Ready::ToWrite) {
                Ok(n @ 1..) => sent += n,
                Err(errno) if !linux::is_refusal(errno) => break errno,
                // The socket holds bytes: write(2) either works, or returns the reason why not.
                _ => {
                    *self = Through::Nothing;
                    return match sent {
                        0 => directly(calls, sink, bytes),
                        _ => Ok((sent, Way::Socket)),
                    };
                }
            }
        };
        *self = Through::NewSocket;
        match (sent, calls.waiter.stopped()) {
            (0, _) => return Err(("splice", errno)),
            (_, None) => *self = Through::Failed("splice", errno),
            (_, Some(Stopped::Interrupted)) => calls.waiter.note_signal(),
            (_, Some(_)) => {}
        }
        Ok((sent, Way::Socket))
    }

    /// Copies the first bytes into the socket, and returns how many; 0 if no socket can be used.
    fn fill(&mut self, calls: &mut Calls, sink: BorrowedFd<'_>, bytes: &[u8]) -> usize {
        if matches!(self, Through::NewSocket)
            && PipeEnd::new(sink)
                .and_then(|pipe| pipe.capacity())
                .is_ok_and(has_room_for_runs)
        {
            let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
            let pair = socketpair(family, kind, SocketFlags::CLOEXEC, None);
            let pair = pair.and_then(|(near, far)| {
                Ok((linux::not_standard(near)?, linux::not_standard(far)?))
            });
            if let Ok((near, far)) = pair {
                *self = Through::Socket { near, far };
            }
        }
        let Through::Socket { near, .. } = self else {
            return 0;
        };
        let mut queued = 0;
        for run in bytes.chunks(RUN) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            calls.also_made(1);
            let sent = uninterrupted(|| send(&*near, run, flags)).unwrap_or(0);
            queued += sent;
            if sent < run.len() {
                break;
            }
        }
        queued
    }
}

/// Returns whether the memory cgroup has room for a pipe of this capacity full of runs.
fn has_room_for_runs(capacity: usize) -> bool {
    let full = (RUN / linux::page_size().min(RUN)).saturating_mul(capacity);
    Geometry::here().buffer(full) == full
}

/// Writes to any sink by write(2).
pub(super) fn directly(calls: &mut Calls, sink: BorrowedFd<'_>, bytes: &[u8]) -> Written {
    written(calls.write(sink, bytes))
}

/// Converts the result of write(2).
pub(super) fn written(result: Result<usize, Errno>) -> Written {
    match result {
        Ok(0) => Err(("write", Errno::IO)),
        Ok(n) => Ok((n, Way::Copy)),
        Err(errno) => Err(("write", errno)),
    }
}

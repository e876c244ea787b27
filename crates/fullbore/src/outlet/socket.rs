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
use fullbore_linux::pipe::PipeEnd;
use fullbore_linux::wait::{Ready, uninterrupted};
use fullbore_linux::{self as linux, Calls};

/// Bytes of one run in a Unix stream socket: `UNIX_SKB_FRAGS_SZ`.
pub(crate) const RUN: usize = 32 * 1024;

/// How bytes are copied into a pipe: through a socket, if there is one.
#[derive(Debug)]
pub(super) enum Through {
    /// By write(2).
    Nothing,
    /// Through a socket that is created once there are enough bytes.
    NewSocket,
    /// Through this socket.
    Socket {
        near: OwnedFd,
        far: OwnedFd,
        /// Bytes in the socket: the first ones of those that remain to be sent.
        left: usize,
        /// Whether bytes have ever arrived through it.
        works: bool,
    },
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

    /// Returns whether bytes in the socket have not arrived yet: they come first.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self, Through::Socket { left: 1.., .. })
    }

    /// Writes to the pipe `sink`, and returns how many bytes were sent, at most a socket full, and how. After a short
    /// count, the next call must pass the rest of these bytes. Less than a run, and nonblocking sends, are written
    /// directly; so is everything once a socket or splice(2) is refused.
    ///
    /// # Errors
    /// The errors of write(2) and splice(2); `EIO` if a call moves nothing.
    pub(super) fn write(
        &mut self,
        calls: &mut Calls,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
    ) -> Written {
        let may_fill = bytes.len() >= RUN && !calls.waiter().never;
        if !self.is_under_way() && may_fill && self.is_socket() {
            self.fill(calls, sink, bytes);
        }
        let Through::Socket {
            far,
            left: left @ 1..,
            works,
            ..
        } = self
        else {
            return directly(calls, sink, bytes);
        };
        let (most, flags) = (bytes.len().min(*left), SpliceFlags::NONBLOCK);
        // One call, so that what has arrived is counted while a full pipe is waited for.
        let answer = calls.splice(far.as_fd(), sink, most, flags, Ready::ToWrite);
        if let Ok(n @ 1..) = answer {
            *left -= n;
            *works = true;
            return Ok((n, Way::Socket));
        }
        // The bytes in the socket are discarded with it. The caller still has them.
        let (errno, worked) = (answer.err().unwrap_or(Errno::IO), *works);
        if linux::is_refusal(errno) && !worked {
            *self = Through::Nothing;
            return directly(calls, sink, bytes);
        }
        *self = Through::NewSocket;
        Err(("splice", errno))
    }

    /// Copies the first bytes into the socket. If that is not possible, no socket is used from now on.
    fn fill(&mut self, calls: &mut Calls, sink: BorrowedFd<'_>, bytes: &[u8]) {
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
                let (left, works) = (0, false);
                *self = Through::Socket {
                    near,
                    far,
                    left,
                    works,
                };
            }
        }
        if let Through::Socket { near, left, .. } = self {
            for run in bytes.chunks(RUN) {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                calls.also_made(1);
                let sent = uninterrupted(|| send(&*near, run, flags)).unwrap_or(0);
                *left += sent;
                if sent < run.len() {
                    break;
                }
            }
        }
        if !self.is_under_way() {
            *self = Through::Nothing;
        }
    }
}

/// Returns whether the memory cgroup has room for a pipe of this capacity full of runs.
fn has_room_for_runs(capacity: usize) -> bool {
    let full = (RUN / linux::page_size().min(RUN)).saturating_mul(capacity);
    Geometry::here().buffer(full) == full
}

/// Writes to any sink by write(2).
pub(super) fn directly(calls: &mut Calls, sink: BorrowedFd<'_>, bytes: &[u8]) -> Written {
    match calls.write(sink, bytes) {
        Ok(0) => Err(("write", Errno::IO)),
        Ok(n) => Ok((n, Way::Copy)),
        Err(errno) => Err(("write", errno)),
    }
}

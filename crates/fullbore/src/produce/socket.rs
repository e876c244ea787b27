//! *socket*: bytes are copied into a Unix stream socket of our own, and spliced from it into the pipe.
//!
//! What is written into such a socket is put into compound pages of 32 KiB (`unix_stream_sendmsg`,
//! net/unix/af_unix.c: the fragments of a buffer are of order 3), which are not zeroed first, and
//! splice(2) moves each of these runs as one slot. write(2) into the pipe allocates a page and uses a
//! slot for every 4 KiB. No process can reach the pages that a run consists of: a reader gets the bytes
//! as they were, as with write(2). This needs no vmsplice(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::SpliceFlags;

use crate::linux::{self, Calls};
use crate::memory::Geometry;
use crate::pipe::roomy;
use crate::wait::{Ready, uninterrupted};

/// Bytes that one write into a Unix stream socket puts into one run: `UNIX_SKB_FRAGS_SZ`.
pub(super) const RUN: usize = 32 * 1024;

/// The way to write into a pipe: through a socket, if there is one.
#[derive(Debug)]
pub(crate) enum Through {
    /// By write(2).
    Nothing,
    /// Through a socket that is made once there are enough bytes.
    NewSocket,
    /// Through this socket, which is empty between two calls.
    Socket {
        near: OwnedFd,
        far: OwnedFd,
        /// Whether bytes have arrived through it.
        works: bool,
    },
    /// This error has to be returned by the next call, because the last one had sent some bytes.
    Failed(Errno),
}

impl Through {
    /// Returns a way through a socket, if it can be faster on this machine, and the memory cgroup has
    /// room for a pipe that is full of runs.
    pub(crate) fn a_socket() -> Self {
        let full = RUN / linux::page_size().min(RUN) * roomy();
        if linux::page_size() < RUN && Geometry::here().buffer(full) == full {
            Through::NewSocket
        } else {
            Through::Nothing
        }
    }

    /// Returns whether many bytes at a time go through a socket, as far as is known.
    pub(crate) fn is_socket(&self) -> bool {
        !matches!(self, Through::Nothing)
    }

    /// Writes to the pipe `sink`, and returns how many bytes it has got. Only few bytes, and calls that
    /// must not wait, are written directly; so are all bytes once a socket or splice(2) is refused.
    ///
    /// # Errors
    /// The errors of write(2) and splice(2), with the name of the call.
    pub(crate) fn write(
        &mut self,
        calls: &mut Calls,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
    ) -> Result<usize, (&'static str, Errno)> {
        if let Through::Failed(errno) = *self {
            *self = Through::NewSocket;
            return Err(("splice", errno));
        }
        let direct = |calls: &mut Calls| calls.write(sink, bytes).map_err(|errno| ("write", errno));
        if bytes.len() < RUN || calls.waiter().never_waits() {
            return direct(calls);
        }
        let works = matches!(self, Through::Socket { works: true, .. });
        match self.fill(bytes) {
            0 => *self = Through::Nothing,
            queued => match self.empty_into(calls, sink, queued) {
                Err(errno) if linux::is_refusal(errno) && !works => {
                    *self = Through::Nothing;
                }
                answer => return answer.map_err(|errno| ("splice", errno)),
            },
        }
        direct(calls)
    }

    /// Copies the first bytes into the socket, and returns how many; 0 if there is none to be had.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        if let Through::NewSocket = self
            && let Ok((near, far)) = socketpair(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )
        {
            let works = false;
            *self = Through::Socket { near, far, works };
        }
        let Through::Socket { near, .. } = self else {
            return 0;
        };
        let mut queued = 0;
        for run in bytes.chunks(RUN) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = uninterrupted(|| send(&*near, run, flags)).unwrap_or(0);
            queued += sent;
            if sent < run.len() {
                break;
            }
        }
        queued
    }

    /// Moves all bytes of the socket into the pipe, and returns how many have got there.
    fn empty_into(
        &mut self,
        calls: &mut Calls,
        sink: BorrowedFd<'_>,
        queued: usize,
    ) -> Result<usize, Errno> {
        let Through::Socket { far, works, .. } = self else {
            return Ok(0);
        };
        let mut sent = 0;
        while sent < queued {
            let (left, flags) = (queued - sent, SpliceFlags::empty());
            match calls.splice(far.as_fd(), sink, left, flags, Ready::ToWrite) {
                Ok(n @ 1..) => {
                    sent += n;
                    *works = true;
                }
                answer => {
                    // The caller still has what is left in the socket, which is discarded.
                    *self = match answer {
                        Err(errno) if sent > 0 && calls.stopped().is_none() => {
                            Through::Failed(errno)
                        }
                        _ => Through::NewSocket,
                    };
                    return if sent > 0 { Ok(sent) } else { answer };
                }
            }
        }
        Ok(sent)
    }
}

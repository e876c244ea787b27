//! Writing to a pipe without sleeping where `RWF_NOWAIT` is refused: on FIFOs, before Linux 6.5, and on descriptions that
//! were used for splice(2) or vmsplice(2).
//!
//! poll(2) before a plain call promises nothing: another process may take the room in between. splice(2)
//! with `SPLICE_F_NONBLOCK` does not sleep. So the bytes go through a private pipe, which is empty between two calls.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use crate::errno::is_refusal;
use crate::own::not_standard;
use crate::owner::Owner;
use crate::pipe::keeps_packets;
use crate::wait::uninterrupted;

/// The private pipe, once there is one.
#[derive(Debug, Default)]
pub(crate) struct Relay(Option<Ends>);

#[derive(Debug)]
struct Ends {
    /// A forked child must not use the same pipe.
    owner: Owner,
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Clone for Relay {
    /// The clone gets a pipe of its own.
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl Relay {
    /// Calls write(2) without sleeping. If there can be no private pipe, it is a plain call with at most `otherwise`
    /// bytes, which may sleep.
    pub(crate) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        buf: &[u8],
        otherwise: usize,
    ) -> Result<usize, Errno> {
        let plain = || rustix::io::write(fd, &buf[..buf.len().min(otherwise)]);
        // Pages that are spliced are no packets.
        let Some(ends) = self.ends().filter(|_| !keeps_packets(fd)) else {
            return plain();
        };
        let given = uninterrupted(|| rustix::io::write(&ends.writer, buf))?;
        let sent = pass(ends.reader.as_fd(), fd, given);
        if sent != Ok(given) {
            // The caller still has the rest.
            self.0 = None;
        }
        match sent {
            Err(errno) if is_refusal(errno) => plain(),
            sent => sent,
        }
    }

    fn ends(&mut self) -> Option<&Ends> {
        if !self.0.as_ref().is_some_and(|ends| ends.owner.is_here()) {
            let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
            let (reader, writer) = pipe_with(flags).ok()?;
            self.0 = Some(Ends {
                owner: Owner::this(),
                reader: not_standard(reader).ok()?,
                writer: not_standard(writer).ok()?,
            });
        }
        self.0.as_ref()
    }
}

/// Moves at most `most` bytes from one pipe to another, without sleeping.
fn pass(from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
    uninterrupted(|| splice(from, None, to, None, most, SpliceFlags::NONBLOCK))
}

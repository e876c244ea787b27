//! Writing to a pipe without sleeping where `RWF_NOWAIT` is refused: on FIFOs, before Linux 6.5, and on descriptions that
//! were used for splice(2) or vmsplice(2).
//!
//! poll(2) before a plain call promises nothing: another process may take the room in between. splice(2)
//! with `SPLICE_F_NONBLOCK` does not sleep. So the bytes go through a private pipe, which is empty between two calls.

use std::os::fd::BorrowedFd;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use crate::errno::is_refusal;
use crate::owner::Owner;
use crate::pipe::{Pipe, keeps_packets};
use crate::wait::uninterrupted;

/// The private pipe, once there is one, and its process: a forked child must not use the same pipe.
#[derive(Debug, Default)]
pub(crate) struct Relay(Option<(Pipe, Owner)>);

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
        let Some(pipe) = self.pipe().filter(|_| !keeps_packets(fd)) else {
            return plain();
        };
        let given = uninterrupted(|| rustix::io::write(&pipe.writer, buf))?;
        let flags = SpliceFlags::NONBLOCK;
        let sent = uninterrupted(|| splice(&pipe.reader, None, fd, None, given, flags));
        if sent != Ok(given) {
            // The caller still has the rest.
            self.0 = None;
        }
        match sent {
            Ok(n @ 1..) => Ok(n),
            Err(errno) if !is_refusal(errno) => Err(errno),
            // The pipe held bytes, so a 0 is a refusal, too (outcome.rs).
            _ => plain(),
        }
    }

    fn pipe(&mut self) -> Option<&Pipe> {
        if !self.0.as_ref().is_some_and(|(_, owner)| owner.is_here()) {
            let pipe = Pipe::new().ok()?;
            fcntl_setfl(&pipe.writer, OFlags::NONBLOCK).ok()?;
            self.0 = Some((pipe, Owner::this()));
        }
        self.0.as_ref().map(|(pipe, _)| pipe)
    }
}

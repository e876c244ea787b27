//! Write ends of pipes that stay open although no process has them in its table of open files.
//!
//! They are in a message that nobody has received yet (unix(7), SCM_RIGHTS). Both processes of `run` have the
//! socket, so the ends stay open until neither of them is left, or until the runner takes them back. No tool
//! that lists the holders of a pipe finds another writer.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// How many descriptors one message can carry (`SCM_MAX_FD` in include/net/scm.h).
pub const MOST: usize = 253;

/// The space that they need in the message.
const SPACE: usize = rustix::cmsg_space!(ScmRights(MOST));

/// The two ends of a socket with at most one message in it.
pub struct Shelf {
    into: OwnedFd,
    from: OwnedFd,
}

impl Shelf {
    /// Makes an empty shelf.
    ///
    /// # Errors
    /// Fails if there are too many open files.
    pub fn new() -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (into, from) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .context("socketpair")?;
        Ok(Self { into, from })
    }

    /// Returns duplicates of the descriptors on the shelf, in their order.
    pub fn contents(&self) -> Vec<OwnedFd> {
        self.receive(RecvFlags::PEEK)
    }

    /// Puts `ends` on the shelf, and then takes off what was there before.
    ///
    /// # Errors
    /// Fails, and changes nothing, if the kernel refuses: ETOOMANYREFS beyond the limit of open files.
    pub fn replace(&self, ends: &[BorrowedFd<'_>]) -> Result<()> {
        let had_some = !self.contents().is_empty();
        if !ends.is_empty() {
            let mut space = [MaybeUninit::uninit(); SPACE];
            let mut rights = SendAncillaryBuffer::new(&mut space);
            assert!(rights.push(SendAncillaryMessage::ScmRights(ends)), "MOST");
            let byte = [IoSlice::new(&[0])];
            sendmsg(&self.into, &byte, &mut rights, SendFlags::NOSIGNAL)
                .context("keep the write ends of the pipes open")?;
        }
        if had_some {
            self.receive(RecvFlags::empty());
        }
        Ok(())
    }

    /// Receives the first message.
    fn receive(&self, flags: RecvFlags) -> Vec<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        // Nothing was received if it fails.
        let _ = recvmsg(self.from.as_fd(), &mut bytes, &mut control, flags);
        let fds = |message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        };
        control.drain().filter_map(fds).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_on_the_shelf_stays_open_until_it_is_taken_off() {
        let shelf = Shelf::new().unwrap();
        let (one_reader, one) = rustix::pipe::pipe().unwrap();
        let (two_reader, two) = rustix::pipe::pipe().unwrap();
        shelf.replace(&[one.as_fd(), two.as_fd()]).unwrap();
        drop((one, two));
        let mut both = shelf.contents();
        assert_eq!(both.len(), 2);
        let kept = both.remove(1);
        shelf.replace(&[kept.as_fd()]).unwrap();
        drop(both);
        // The first pipe has lost its last writer, and the second has not.
        let mut text = String::new();
        File::from(one_reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
        drop(kept);
        let again = shelf.contents().remove(0);
        File::from(again).write_all(b"x").unwrap();
        shelf.replace(&[]).unwrap();
        File::from(two_reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert!(shelf.contents().is_empty());
    }
}

//! The thread that reads.

use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::fs::{MemfdFlags, Stat};
use rustix::io::Errno;

use super::ends::Ends;
use super::options::{Before, BufferOptions};
use crate::store::Filler;
use fullbore_linux::{
    self as linux, Calls, Pace, Ready, Result, TransferSide, error, messages, uninterrupted,
};

/// The side that reads.
pub(super) struct Reading<'a> {
    pub(super) filler: Filler<'a>,
    pub(super) calls: Calls,
    pub(super) source: BorrowedFd<'a>,
    pub(super) options: &'a BufferOptions,
    pub(super) pace: Option<Pace>,
    pub(super) messages: Messages,
    /// Bytes that were read.
    /// What to do once the source is ready.
    pub(super) before: Option<Before>,
    pub(super) ends: &'a Ends,
}

/// How to read a source that may preserve message boundaries: read(2) discards the part of a message that does not fit,
/// and the room at the end of a slot can be shorter than a message.
pub(super) struct Messages {
    /// The longest message in bytes.
    most: usize,
    /// A message that did not fit into the room.
    aside: Vec<u8>,
    /// The part of it that was not returned yet.
    left: Range<usize>,
    /// A file in memory with the same bytes, if only system calls may access the room.
    copied: Option<File>,
}

impl Messages {
    /// Creates the state for a source whose fstat(2) is `stat`. `only_calls` says whether only system calls may access
    /// the room.
    ///
    /// # Errors
    /// As memfd_create(2).
    pub(super) fn of(source: BorrowedFd<'_>, stat: &Stat, only_calls: bool) -> Result<Self> {
        let most = messages::longest_message(source, stat);
        let memfd = || linux::memfd("fullbore-message", MemfdFlags::empty());
        let copied = (only_calls && most > 0).then(memfd).transpose();
        Ok(Self {
            most,
            aside: Vec::new(),
            left: 0..0,
            copied: copied
                .map_err(error::system("memfd_create"))?
                .map(File::from),
        })
    }

    /// Reads into `room`. The next calls return what does not fit. Takes at most `left` bytes, which may cut a message.
    fn read(
        &mut self,
        calls: &mut Calls,
        source: BorrowedFd<'_>,
        room: &mut [u8],
        left: usize,
    ) -> Result<usize, Errno> {
        if self.left.is_empty() {
            let mut read = |into: &mut [u8]| {
                messages::read_next(source, self.most, into, |into| calls.read(source, into))
            };
            let longest = self.most.min(left);
            if room.len() >= longest {
                return read(room);
            }
            let mut aside = std::mem::take(&mut self.aside);
            aside.resize(longest, 0);
            let read = read(&mut aside);
            self.aside = aside;
            let n = read?;
            if let Some(file) = &self.copied {
                let written = file.write_all_at(&self.aside[..n], 0);
                written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            }
            self.left = 0..n;
        }
        let start = self.left.start;
        let n = room.len().min(self.left.len());
        let n = match &self.copied {
            Some(file) => uninterrupted(|| rustix::io::pread(file, &mut room[..n], start as u64))?,
            None => {
                room[..n].copy_from_slice(&self.aside[start..start + n]);
                n
            }
        };
        self.left.start += n;
        Ok(n)
    }
}

impl Reading<'_> {
    /// Reads until the source ends, the limit is reached or no sink is left, and pauses to keep to the rate.
    pub(super) fn run(mut self) -> Result<()> {
        if let Some(before) = self.before.take() {
            if linux::can_be_read(self.source).is_ok() {
                // What ends this wait ends the first read(2), too.
                let ready = &[(self.source, PollFlags::IN)];
                let _ = self.calls.waiter.poll(ready, None);
            }
            before();
        }
        let mut taken = 0;
        loop {
            let (chunk, left) = (self.options.piece(), self.options.left(taken));
            let most = self.pace.as_ref().map_or(chunk, |p| p.chunk().min(chunk));
            if left == 0 {
                return Ok(());
            }
            let (calls, source, messages) = (&mut self.calls, self.source, &mut self.messages);
            let calls = RefCell::new(calls);
            let has_more = || calls.borrow_mut().waiter.look(source, Ready::ToRead);
            let read = |room: &mut [u8]| messages.read(&mut calls.borrow_mut(), source, room, left);
            match self.filler.fill(most.min(left), has_more, read) {
                None | Some(Ok(0)) => return Ok(()),
                Some(Ok(n)) => {
                    taken += n as u64;
                    self.ends.moved();
                    if let Some(pace) = &mut self.pace {
                        self.filler.wake();
                        self.filler
                            .store
                            .pause(pace.wait_after(n as u64, Instant::now()));
                    }
                }
                Some(Err(_)) if self.calls.waiter.stopped().is_some() => return Ok(()),
                Some(Err(errno)) => {
                    return Err(error::moving(TransferSide::Source, "read", errno, taken));
                }
            }
        }
    }
}

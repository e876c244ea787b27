//! The thread that reads.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::error::{Error, Result, Side};
use crate::linux::{self, Calls};
use crate::memory;
use crate::produce::store::{Filler, Store};
use crate::transfer;
use crate::wait::Pace;

/// The side that reads.
pub(super) struct Reading<'a> {
    pub(super) store: &'a Store,
    pub(super) filler: Filler<'a>,
    pub(super) calls: Calls,
    pub(super) source: BorrowedFd<'a>,
    pub(super) chunk: usize,
    pub(super) pace: Option<Pace>,
    pub(super) messages: Messages,
}

/// What a source may keep together: a read(2) into less memory than a whole message has loses the rest of
/// it. The memory of a buffer has less room than that at the ends of its parts.
pub(super) struct Messages {
    /// The most bytes of a message.
    most: usize,
    /// Whether a longer one is an error. The kernel keeps those of a pipe short.
    may_be_longer: bool,
    /// A message for which there was too little room.
    aside: Vec<u8>,
    /// What is left of it.
    left: Range<usize>,
}

impl Messages {
    /// Creates the state for a source of which fstat(2) returned `stat`.
    pub(super) fn of(source: BorrowedFd<'_>, stat: &Stat) -> Self {
        let may_be_longer = transfer::keeps_messages(source, stat);
        Self {
            most: match FileType::from_raw_mode(stat.st_mode) {
                _ if may_be_longer => memory::MESSAGE,
                // A writer may use it in packet mode (pipe(7)).
                FileType::Fifo => linux::page_size(),
                _ => 0,
            },
            may_be_longer,
            aside: Vec::new(),
            left: 0..0,
        }
    }

    /// Reads into `room`. What does not fit is returned by the next calls.
    fn read(
        &mut self,
        calls: &mut Calls,
        source: BorrowedFd<'_>,
        room: &mut [u8],
    ) -> Result<usize, Errno> {
        if self.left.is_empty() {
            let is_aside = room.len() < self.most;
            self.aside.resize(self.most * usize::from(is_aside), 0);
            let into = match is_aside {
                true => &mut self.aside[..],
                false => &mut *room,
            };
            let n = calls.read(source, into)?;
            if self.may_be_longer && n == into.len() {
                return Err(Errno::MSGSIZE);
            }
            if !is_aside {
                return Ok(n);
            }
            self.left = 0..n;
        }
        let n = room.len().min(self.left.len());
        room[..n].copy_from_slice(&self.aside[self.left.start..][..n]);
        self.left.start += n;
        Ok(n)
    }
}

impl Reading<'_> {
    /// Reads until the source ends, or nobody needs more.
    pub(super) fn run(mut self) -> Result<()> {
        let chunk = self.chunk;
        let most = self.pace.as_ref().map_or(chunk, |p| p.chunk().min(chunk));
        let mut taken = 0;
        loop {
            let (calls, source, messages) = (&mut self.calls, self.source, &mut self.messages);
            match self
                .filler
                .fill(most, |room| messages.read(calls, source, room))
            {
                None | Some(Ok(0)) => return Ok(()),
                Some(Ok(n)) => {
                    taken += n as u64;
                    if let Some(pace) = &mut self.pace {
                        self.store.pause(pace.wait_after(n as u64, Instant::now()));
                    }
                }
                Some(Err(_)) if self.calls.stopped().is_some() => return Ok(()),
                Some(Err(errno)) => {
                    return Err(Error::moving(Side::Source, "read", errno, taken));
                }
            }
        }
    }
}

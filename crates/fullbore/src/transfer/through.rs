//! Splicing through a pipe of the transfer itself: between two fds that are not pipes, and into
//! pipes.
//!
//! An error of the first splice is the source's, one of the second the sink's. What lies in the pipe
//! when the sink refuses to be spliced to is read back, and written.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::direct;
use super::plan::Kind;
use super::step::{Ends, Stop};
use crate::error::{Result, Side};
use crate::pipe::Pipe;
use crate::wait::{Waiter, uninterrupted};

/// Bytes at a time from pipe to pipe: the writer and the reader on both sides have work while these are on
/// their way.
const FROM_A_PIPE: usize = 256 * 1024;

/// A pipe of the transfer itself, and how much it holds.
#[derive(Debug)]
pub(crate) struct OwnPipe {
    pub(crate) pipe: Pipe,
    capacity: usize,
    /// Bytes that were taken from the source and have not arrived.
    pub(crate) held: usize,
}

impl OwnPipe {
    /// One towards `size` bytes; smaller is slower, and right too.
    ///
    /// # Errors
    /// As [`Pipe::with_capacity`].
    pub(crate) fn new(size: usize) -> Result<Self> {
        let (pipe, growth) = Pipe::with_capacity(size)?;
        Ok(Self {
            pipe,
            capacity: growth.after,
            held: 0,
        })
    }

    /// Bytes that one splice(2) from such a source is to take at most.
    pub(super) fn at_once(&self, source: Kind) -> usize {
        match source {
            Kind::Pipe => self.capacity.min(FROM_A_PIPE),
            _ => self.capacity,
        }
    }

    /// Takes at most `most` bytes from the source; nothing may be held. Any error is the source's:
    /// a pipe of our own has none, and nothing else fills or empties it.
    pub(crate) fn fill(
        &mut self,
        waiter: &mut Waiter,
        (source, source_kind): (BorrowedFd<'_>, Kind),
        from: Option<u64>,
        most: usize,
    ) -> Result<usize, Stop> {
        let ends = Ends {
            source,
            source_kind,
            sink: self.pipe.writer.as_fd(),
            sink_kind: Kind::Pipe,
        };
        self.held = direct::splice(waiter, &ends, from, None, most)
            .map_err(|stop| stop.of(Side::Source))?;
        Ok(self.held)
    }

    /// Sends on what is held. Any error is the sink's.
    pub(crate) fn send_on(
        &mut self,
        waiter: &mut Waiter,
        (sink, sink_kind): (BorrowedFd<'_>, Kind),
        to: Option<u64>,
    ) -> Result<usize, Stop> {
        let ends = Ends {
            source: self.pipe.reader.as_fd(),
            source_kind: Kind::Pipe,
            sink,
            sink_kind,
        };
        let most = self.held.min(sink_kind.splice_at_once());
        let n =
            direct::splice(waiter, &ends, None, to, most).map_err(|stop| stop.of(Side::Sink))?;
        self.held -= n;
        Ok(n)
    }

    /// Reads what is held back into memory.
    ///
    /// # Errors
    /// As read(2), without `EINTR`.
    pub(crate) fn take_back(&mut self, room: &mut [u8]) -> Result<usize, Errno> {
        let n = uninterrupted(|| rustix::io::read(&self.pipe.reader, &mut *room))?;
        self.held -= n;
        Ok(n)
    }

    /// Reads all that is held back, behind what is in `bytes` already.
    ///
    /// # Errors
    /// As read(2), without `EINTR`.
    pub(super) fn take_all_back(&mut self, bytes: &mut Vec<u8>) -> Result<(), Errno> {
        while self.held > 0 {
            let begun = bytes.len();
            bytes.resize(begun + self.held, 0);
            let n = self.take_back(&mut bytes[begun..])?;
            bytes.truncate(begun + n);
        }
        Ok(())
    }
}

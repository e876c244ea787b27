//! Splices through a private pipe: between two fds that are not pipes, and into pipes.
//!
//! An error of the first splice is an error of the source, and one of the second is an error of the sink. If the sink
//! does not support splice(2), the bytes in the pipe are read back and written.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::direct;
use super::plan::Kind;
use super::step::{Ends, Stop};
use fullbore_linux::error::{Result, TransferSide};
use fullbore_linux::pipe::{self, Pipe};
use fullbore_linux::wait::{Waiter, uninterrupted};

/// The private pipe of a transfer, and the number of bytes in it.
#[derive(Debug)]
pub(crate) struct OwnPipe {
    pub(crate) pipe: Pipe,
    /// The most bytes that one splice(2) takes from the source: the capacity of the pipe. So each pair of calls drains
    /// a roomy source pipe, and each side is woken once.
    pub(super) capacity: usize,
    /// Bytes that were taken from the source and have not arrived at the sink.
    pub(crate) held: usize,
}

impl OwnPipe {
    /// Creates a pipe of up to `size` bytes. A smaller pipe is slower, but not an error.
    ///
    /// # Errors
    /// As [`pipe::with_capacity`].
    pub(crate) fn new(size: usize) -> Result<Self> {
        let (pipe, growth) = pipe::with_capacity(size)?;
        Ok(Self {
            pipe,
            capacity: growth.after,
            held: 0,
        })
    }

    /// Takes at most `most` bytes from the source; the pipe must be empty. Every error is an error of the source: the
    /// private pipe has none, and no other process fills or drains it.
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
            .map_err(|stop| stop.of(TransferSide::Source))?;
        Ok(self.held)
    }

    /// Sends the held bytes to the sink. Every error is an error of the sink.
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
        let n = direct::splice(waiter, &ends, None, to, most)
            .map_err(|stop| stop.of(TransferSide::Sink))?;
        self.held -= n;
        Ok(n)
    }

    /// Reads held bytes back into memory, as many as one read(2) returns.
    ///
    /// # Errors
    /// As read(2), without `EINTR`.
    pub(crate) fn take_back(&mut self, room: &mut [u8]) -> Result<usize, Errno> {
        let n = uninterrupted(|| rustix::io::read(&self.pipe.reader, &mut *room))?;
        self.held -= n;
        Ok(n)
    }

    /// Reads all held bytes back, and appends them to `bytes`.
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

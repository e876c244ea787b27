//! A private pipe that bytes are spliced through: between two fds that are not pipes, into pipes, and into Unix sockets.
//!
//! An error of the first splice is an error of the source, and one of the second is an error of the sink. If the sink
//! does not support splice(2), the bytes in the pipe are read back and written.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::splice::{Side, splice};
use fullbore_linux::error::Stopped;
use fullbore_linux::outcome::{End, Outcome};
use fullbore_linux::{Pipe, Result, Waiter, pipe, uninterrupted};

/// The private pipe of a transfer, and the number of bytes in it.
#[derive(Debug)]
pub(crate) struct OwnPipe {
    pub(crate) pipe: Pipe,
    /// The most bytes that one splice(2) takes from the source: the capacity of the pipe. So each pair of calls drains
    /// a roomy source pipe, and each side is woken once.
    pub(crate) capacity: usize,
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

    /// Takes at most `most` bytes from `source`; the pipe must be empty.
    ///
    /// # Errors
    /// What stopped the wait.
    pub(crate) fn fill(
        &mut self,
        waiter: &mut Waiter,
        source: Side<'_>,
        most: usize,
    ) -> Result<Outcome, Stopped> {
        let own = (self.pipe.writer.as_fd(), End::Own, None);
        let outcome = splice(waiter, source, own, most.min(self.capacity))?;
        if let Outcome::Moved(n) = outcome {
            self.held = n;
        }
        Ok(outcome)
    }

    /// Sends at most `most` of the held bytes to `sink`.
    ///
    /// # Errors
    /// What stopped the wait.
    pub(crate) fn send_on(
        &mut self,
        waiter: &mut Waiter,
        sink: Side<'_>,
        most: usize,
    ) -> Result<Outcome, Stopped> {
        let own = (self.pipe.reader.as_fd(), End::Own, None);
        let outcome = splice(waiter, own, sink, self.held.min(most))?;
        if let Outcome::Moved(n) = outcome {
            self.held -= n;
        }
        Ok(outcome)
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
}

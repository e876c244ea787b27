//! Splicing through a pipe of our own: for two fds of which none is a pipe, and into pipes.
//!
//! An error of the first splice is the source's, one of the second the sink's. What lies in the pipe
//! when the sink refuses to be spliced to is read back, and written.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::direct;
use super::plan::Kind;
use super::{Ends, Options, State, Step, Stepped, Stop};
use crate::error::{Result, Side};
use crate::pipe::Pipe;
use crate::wait::uninterrupted;

/// Bytes at a time from pipe to pipe: the writer and the reader on both sides have work while these are on
/// their way.
const FROM_A_PIPE: usize = 256 * 1024;

/// A pipe of our own, and how much it holds.
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

impl Stop {
    /// The same of this side: a pipe of our own has no errors, and nobody else fills or empties it.
    fn of(self, side: Side) -> Self {
        match self {
            Stop::At(_, operation, errno) => Stop::At(side, operation, errno),
            other => other,
        }
    }
}

impl State {
    pub(super) fn splice_through(&mut self, ends: &Ends<'_>, options: &Options) -> Stepped {
        let through = match &mut self.through {
            Some(through) => through,
            none => match OwnPipe::new(options.pipe_size()) {
                Ok(through) => none.insert(through),
                // No pipe to be had (EMFILE): another way may do without.
                Err(_) => return Err(Stop::At(Side::Source, "pipe2", Errno::OPNOTSUPP)),
            },
        };
        self.calls += 1;
        if through.held > 0 {
            let out = Ends {
                source: through.pipe.reader.as_fd(),
                source_kind: Kind::Pipe,
                ..*ends
            };
            let most = through.held.min(ends.sink_kind.splice_at_once());
            let n = direct::splice(&mut self.waiter, &out, None, self.sink_offset, most)
                .map_err(|stop| stop.of(Side::Sink))?;
            through.held -= n;
            return Ok(match n {
                // What the sink does not take so, write(2) gets it to take, or to say why not.
                0 => Step::Perhaps,
                n => Step::Moved(n),
            });
        }
        let capacity = match ends.source_kind {
            Kind::Pipe => through.capacity.min(FROM_A_PIPE),
            _ => through.capacity,
        };
        let most = self.most(options, capacity);
        let Some(through) = &mut self.through else {
            return Ok(Step::End);
        };
        let into = Ends {
            sink: through.pipe.writer.as_fd(),
            sink_kind: Kind::Pipe,
            ..*ends
        };
        let n = direct::splice(&mut self.waiter, &into, self.source_offset, None, most)
            .map_err(|stop| stop.of(Side::Source))?;
        through.held = n;
        self.took(n);
        Ok(match n {
            0 => Step::Perhaps,
            _ => Step::Taken,
        })
    }
}

//! Splicing through a pipe of our own: for two fds of which none is a pipe.
//!
//! An error of the first splice is the source's, one of the second the sink's. What lies in the pipe
//! when the sink refuses to be spliced to is read back, and written.

use std::os::fd::AsFd;

use super::direct;
use super::plan::Kind;
use super::{Ends, Options, PIPE_SIZE, State, Step, Stepped, Stop};
use crate::error::{Result, Side};
use crate::pipe::{Pipe, PipeEnd};
use crate::wait::uninterrupted;

/// The pipe, and how much it holds.
#[derive(Debug)]
pub(super) struct Through {
    pipe: Pipe,
    capacity: usize,
    held: usize,
}

impl Through {
    fn new(size: usize) -> Result<Self> {
        let pipe = Pipe::new()?;
        let capacity = {
            let end = PipeEnd::new(pipe.writer.as_fd())?;
            match end.grow(size) {
                Ok(growth) => growth.after,
                Err(_) => end.capacity()?,
            }
        };
        Ok(Self {
            pipe,
            capacity,
            held: 0,
        })
    }

    /// Bytes that were taken from the source and have not arrived.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Reads what is held back into memory.
    pub(super) fn take_back(&mut self, room: &mut [u8]) -> Result<usize, Stop> {
        let n = uninterrupted(|| rustix::io::read(&self.pipe.reader, &mut *room))
            .map_err(|errno| Stop::At(Side::Source, "read", errno))?;
        self.held -= n;
        Ok(n)
    }
}

impl State {
    pub(super) fn splice_through(&mut self, ends: &Ends<'_>, options: &Options) -> Stepped {
        let through = match &mut self.through {
            Some(through) => through,
            none => none.insert(Through::new(options.pipe_size.unwrap_or(PIPE_SIZE))?),
        };
        self.calls += 1;
        if through.held > 0 {
            let out = Ends {
                source: through.pipe.reader.as_fd(),
                source_kind: Kind::Pipe,
                ..*ends
            };
            let n = direct::splice(&mut self.waiter, &out, None, self.sink_offset, through.held)?;
            through.held -= n;
            return Ok(Step::Moved(n));
        }
        let capacity = through.capacity;
        let most = self.most(options, capacity);
        let Some(through) = &mut self.through else {
            return Ok(Step::End);
        };
        let into = Ends {
            sink: through.pipe.writer.as_fd(),
            sink_kind: Kind::Pipe,
            ..*ends
        };
        let n = direct::splice(&mut self.waiter, &into, self.source_offset, None, most)?;
        through.held = n;
        self.took(n);
        Ok(match n {
            0 if ends.source_kind.is_storage() => Step::Perhaps,
            0 => Step::End,
            _ => Step::Taken,
        })
    }
}

//! The options of a [`Buffer`](super::Buffer) that no other object has.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::options::{Moves, Options, Sends};
use fullbore_linux::error::{Error, Result};

/// The options of a [`Buffer`](super::Buffer).
pub type BufferOptions = Options<ForBuffer>;

/// The options that only a [`Buffer`](super::Buffer) has: methods of [`BufferOptions`] set them.
#[derive(Debug)]
pub struct ForBuffer {
    pub(super) memory: usize,
    pub(super) whole_chunks: bool,
    pub(super) read_rate: Option<u64>,
    pub(super) write_rate: Option<u64>,
    pub(super) start: f64,
    pub(super) resume: f64,
    pub(super) pause: Duration,
    pub(super) file: Option<OwnedFd>,
    pub(super) before_reading: Option<Before>,
}

/// What to do before the first read(2).
pub(super) struct Before(pub(super) Box<dyn FnOnce() + Send + Sync>);

impl fmt::Debug for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Before")
    }
}

impl Sends for ForBuffer {}
impl Moves for ForBuffer {}

impl Default for ForBuffer {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            whole_chunks: false,
            read_rate: None,
            write_rate: None,
            start: 0.0,
            resume: 100.0,
            pause: Duration::ZERO,
            file: None,
            before_reading: None,
        }
    }
}

impl BufferOptions {
    /// Sets the maximum size of the memory in bytes. Memory is allocated as the buffer fills, in huge pages if they are
    /// available and fit, and freed as it drains. The default is 64 MiB.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.own.memory = bytes;
        self
    }

    /// Sets whether each write has exactly the bytes of a [`chunk`](Self::chunk), and only the last one fewer, as tapes
    /// and sockets that preserve message boundaries need it. Bytes wait until a chunk is full. If a sink takes a part of
    /// a chunk, the next write has the rest. The memory has to hold at least five chunks. By default, bytes are passed
    /// on as soon as they arrive.
    pub fn whole_chunks(mut self, whole: bool) -> Self {
        self.own.whole_chunks = whole;
        self
    }

    /// Limits the rate of reading to this many bytes per second.
    pub fn read_rate(mut self, per_second: impl Into<Option<u64>>) -> Self {
        self.own.read_rate = per_second.into();
        self
    }

    /// Limits the rate of writing to this many bytes per second, for each sink.
    pub fn write_rate(mut self, per_second: impl Into<Option<u64>>) -> Self {
        self.own.write_rate = per_second.into();
        self
    }
}

impl BufferOptions {
    /// Returns the number of bytes of one system call.
    pub(super) fn piece(&self) -> usize {
        self.chunk.unwrap_or(1 << 20)
    }

    /// # Errors
    /// [`Error::Invalid`] for options that make no sense.
    pub(super) fn check(&self) -> Result<()> {
        self.check_chunk()?;
        let own = &self.own;
        for (option, percent) in [("start at", own.start), ("resume at", own.resume)] {
            if !(0.0..=100.0).contains(&percent) {
                return Err(Error::Invalid(format!(
                    "{option} {percent}: expected a number of percent from 0 to 100"
                )));
            }
        }
        for (side, rate) in [("read", own.read_rate), ("write", own.write_rate)] {
            if rate == Some(0) {
                return Err(Error::Invalid(format!(
                    "a {side} rate of 0 bytes per second moves nothing"
                )));
            }
        }
        Ok(())
    }
}

/// Options that only mbuffer has, for the command `fullbore`. They are no part of the interface of this crate.
#[cfg(feature = "unstable")]
impl BufferOptions {
    /// Sets a start threshold in percent: at the start, and whenever a sink has drained the buffer, the sink waits
    /// until the memory is this full. It stops waiting when the source ends or reading is paused. The default is 0:
    /// sinks never wait for a threshold.
    pub fn start_at(mut self, percent: f64) -> Self {
        self.own.start = percent;
        self
    }

    /// Sets a refill threshold in percent: once the memory is full, reading pauses until no more than this much of it
    /// is in use. The default is 100: reading continues as soon as there is room.
    pub fn resume_at(mut self, percent: f64) -> Self {
        self.own.resume = percent;
        self
    }

    /// Sets how long a sink pauses after each write. The default is no pause.
    pub fn pause_after_write(mut self, pause: Duration) -> Self {
        self.own.pause = pause;
        self
    }

    /// Calls `before` once, in the thread that reads: when the source is ready to be read for the first time, and before
    /// the first read(2).
    pub fn before_reading(mut self, before: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.own.before_reading = Some(Before(Box::new(before)));
        self
    }

    /// Keeps the bytes in this regular file instead of memory. Its old contents are lost. Disk space for
    /// [`memory`](Self::memory) bytes is allocated at the start.
    pub fn in_file(mut self, file: impl Into<OwnedFd>) -> Self {
        self.own.file = Some(file.into());
        self
    }
}

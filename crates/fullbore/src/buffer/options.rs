//! The options of a [`Buffer`](super::Buffer) that no other object has.

use crate::options::{Moves, Options, Sends};
use crate::store::{Gate, Map};
use fullbore_linux::error::{Error, Result};

/// The options of a [`Buffer`](super::Buffer).
pub type BufferOptions = Options<ForBuffer>;

/// The options that only a [`Buffer`](super::Buffer) has: methods of [`BufferOptions`] set them.
#[derive(Default)]
pub struct ForBuffer {
    pub(super) memory: Option<usize>,
    pub(super) whole_chunks: bool,
    pub(super) read_rate: Option<u64>,
    pub(super) write_rate: Option<u64>,
    pub(super) gate: Option<Box<dyn Gate>>,
    pub(super) map: Option<Map>,
    pub(super) before_reading: Option<Before>,
}

/// What to do before the first read(2).
pub(super) type Before = Box<dyn FnOnce() + Send + Sync>;

impl Sends for ForBuffer {}
impl Moves for ForBuffer {}

impl BufferOptions {
    /// Sets the maximum size of the memory in bytes. Memory is allocated as the buffer fills, in huge pages if they are
    /// available and fit, and freed as it drains. The default is 64 MiB.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.own.memory = Some(bytes);
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

/// What only a program needs that decides more by itself. It is no part of the stable interface of this crate.
#[cfg(feature = "unstable")]
impl BufferOptions {
    /// Lets `gate` decide when the sides go on after they had to wait.
    pub fn gate(mut self, gate: impl Gate + 'static) -> Self {
        self.own.gate = Some(Box::new(gate));
        self
    }

    /// Calls `before` once, in the thread that reads: when the source is ready to be read for the first time, and before
    /// the first read(2).
    pub fn before_reading(mut self, before: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.own.before_reading = Some(Box::new(before));
        self
    }

    /// Calls `map` with the memory before the first byte, so that it can put other pages in its place (mmap(2) of a file
    /// with `MAP_FIXED`). From then on only system calls access the memory, and no pipe refers to it: where a page cannot
    /// be had, because the file is shorter or its disk fails, they return `EFAULT`, and no signal is raised.
    pub fn mapped_by(
        mut self,
        map: impl FnOnce(&mut [u8]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.own.map = Some(Box::new(map));
        self
    }
}

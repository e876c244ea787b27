//! The options and the report of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat).

use std::fmt;

use crate::memory;
use crate::options::{Options, Resumes, Sends};
use crate::way::Way;
use fullbore_linux::error::Result;

/// The options of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat).
pub type ProducerOptions = Options<ForProducer>;

/// The options that only a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat) has: methods of
/// [`ProducerOptions`] set them.
#[derive(Debug, Clone, Default)]
pub struct ForProducer {
    pub(super) way: Option<Way>,
    pub(super) memory: Option<usize>,
    pub(super) base_pages: bool,
    /// Whether the producer may choose the way.
    pub(super) any_way: bool,
}

impl Resumes for ForProducer {}
impl Sends for ForProducer {}

impl ProducerOptions {
    /// Sets the way in which the producer sends. By default, and with `None`, it depends on the output: see
    /// [`open`](Self::open).
    pub fn way(mut self, way: impl Into<Option<Way>>) -> Self {
        self.own.way = way.into();
        self
    }

    /// Sets how many bytes of memory [`Way::Recycle`] uses in rotation. The default, and `None`, is the capacity of
    /// the pipe plus two chunks.
    pub fn memory(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.own.memory = bytes.into();
        self
    }

    /// Sets whether to use transparent huge pages. By default they are used if the kernel has them.
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.own.base_pages = !huge;
        self
    }

    /// Returns the size of a chunk, after checking that it is neither 0 nor larger than the address space.
    pub(super) fn checked_chunk(&self, otherwise: usize) -> Result<usize> {
        self.check_chunk()?;
        memory::checked("chunk", self.chunk.unwrap_or(otherwise))
    }
}

/// The totals of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat), and how it sent the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerReport {
    /// Bytes that were sent.
    pub bytes: u64,
    /// How bytes are sent now. The first long send changes it to [`Way::Socket`] or [`Way::Copy`] if the kernel refuses
    /// vmsplice(2), copies the bytes in it, or cannot map memory, and also if [`ProducerOptions::open`] chose the way
    /// and there are no huge pages, or the memory cgroup has no room for them. A [`Repeat`](super::Repeat) sends by
    /// [`Way::Repeat`], or by [`Way::Copy`] if the output does not accept references.
    pub way: Way,
    /// System calls that were made to send them.
    pub calls: u64,
}

impl fmt::Display for ProducerReport {
    /// Writes one line, such as `1048576 bytes by fresh`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes by {}", self.bytes, self.way)
    }
}

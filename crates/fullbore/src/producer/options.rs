//! The options and the report of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat).

use std::time::Instant;

use crate::memory;
use crate::way::Way;
use fullbore_linux::error::{Error, Result};
use fullbore_linux::wait::{Cancel, Wait, Waiter};

/// The options of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat).
#[derive(Debug, Clone, Default)]
pub struct ProducerOptions {
    pub(super) chunk: Option<usize>,
    pub(super) way: Option<Way>,
    pub(super) memory: Option<usize>,
    pub(super) pipe_size: Option<usize>,
    pub(super) base_pages: bool,
    /// Whether the producer may choose the way.
    pub(super) any_way: bool,
    pub(super) waiter: Waiter,
}

impl ProducerOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the way in which the producer sends. By default it depends on the output: see [`open`](Self::open).
    pub fn way(mut self, way: Way) -> Self {
        self.way = Some(way);
        self
    }

    /// Sets the most bytes that one system call sends. The default is 512 KiB, and 256 KiB for
    /// [`Way::Recycle`].
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = Some(bytes);
        self
    }

    /// Sets how many bytes of memory [`Way::Recycle`] uses in rotation. The default is the capacity of the pipe plus
    /// two chunks.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the capacity in bytes that an output pipe is grown to, as far as the user's limits allow, once more than 64
    /// KiB are to be sent. The default is 1 MiB, and less in a small memory cgroup. 0 leaves the pipe as it is. A pipe
    /// is never shrunk. A [`Repeat`](super::Repeat) grows the pipe when it is created.
    ///
    /// A large pipe makes most outputs faster, but it can slow down other programs of the user. All pipes of an
    /// unprivileged user may have 64 MiB together (`/proc/sys/fs/pipe-user-pages-soft`), so 64 pipes of 1 MiB use that
    /// up: until some of them are closed, every new pipe of this user has one or two pages instead of 16, and no pipe
    /// can be grown. A program that has many pipes open at once should set a smaller size, or 0.
    ///
    /// With [`Way::Socket`], a full pipe holds up to eight times its capacity.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.pipe_size = Some(bytes);
        self
    }

    /// Sets whether to use transparent huge pages. By default they are used if the kernel has them.
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.base_pages = !huge;
        self
    }

    /// Sets how to wait while the output is full.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waiter.wait = wait;
        self
    }

    /// Sets whether calls that would have to wait fail with [`WouldBlock`](std::io::ErrorKind::WouldBlock). Bytes that
    /// were gathered or committed before stay in the producer, and the next call sends them first.
    /// [`Producer`](super::Producer) describes how to continue.
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.waiter.never = nonblocking;
        self
    }

    /// Ends all waits, and refuses to send, as soon as `cancel` is cancelled. Calls then fail with [`Error::Stopped`].
    /// Unsent bytes stay in the producer.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.waiter.cancel = Some(cancel.clone());
        self
    }

    /// Ends all waits, and refuses to send, from this time on. Calls then fail with [`Error::Stopped`], whose kind is
    /// [`TimedOut`](std::io::ErrorKind::TimedOut). Unsent bytes stay in the producer.
    /// [`Producer::set_deadline`](super::Producer::set_deadline) changes the deadline.
    pub fn deadline(mut self, at: Instant) -> Self {
        self.waiter.deadline = Some(at);
        self
    }

    /// Sets whether a signal that arrives during a wait ends it. The call then fails with [`Error::Stopped`], whose
    /// kind is [`Interrupted`](std::io::ErrorKind::Interrupted), and can be retried: unsent bytes stay in the producer.
    /// By default, waits are resumed after a signal.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.waiter.interruptible = interruptible;
        self
    }

    /// Returns the size of a chunk, after checking that it is neither 0 nor larger than the address space.
    pub(super) fn checked_chunk(&self, otherwise: usize) -> Result<usize> {
        match self.chunk.unwrap_or(otherwise) {
            0 => Err(Error::Invalid("a chunk of 0 bytes sends nothing".into())),
            chunk => memory::checked("chunk", chunk),
        }
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

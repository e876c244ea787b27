//! The options of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat), and what both
//! report at their end.

use std::time::Instant;

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
    pub(super) wait: Wait,
    pub(super) never: bool,
    pub(super) cancel: Option<Cancel>,
    pub(super) deadline: Option<Instant>,
    pub(super) interruptible: bool,
}

impl ProducerOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the way in which the producer sends. The default is the one that suits the output.
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

    /// Sets the bytes of memory that [`Way::Recycle`] uses in rotation. The default is the capacity of
    /// the pipe and two chunks.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the capacity in bytes that an output pipe is grown to, as far as this user may, once
    /// more than 64 KiB are to be sent. The default is 1 MiB, and less in a small memory cgroup. 0
    /// leaves the pipe as it is. A pipe is never shrunk. A [`Repeat`](super::Repeat) grows the pipe
    /// when it is created.
    ///
    /// A large pipe makes most outputs faster, but it can slow down other programs of the user. All
    /// pipes of an unprivileged user together may have 64 MiB
    /// (`/proc/sys/fs/pipe-user-pages-soft`), so 64 pipes of 1 MiB use that up: until some are
    /// closed, every pipe that a program of this user makes has one or two pages instead of 16, and
    /// no pipe can be grown. A program that has many pipes open at a time should set a smaller size
    /// here, or 0.
    ///
    /// By [`Way::Socket`] a full pipe holds up to eight times as many bytes as its capacity.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.pipe_size = Some(bytes);
        self
    }

    /// Sets whether to ask for transparent huge pages. The default is to ask for them if the kernel
    /// has any.
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.base_pages = !huge;
        self
    }

    /// Sets what to do while the output is full.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Sets whether calls that would have to wait fail with
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock). What was gathered or committed until then
    /// stays in the producer and is sent first by the next call. [`Producer`](super::Producer)
    /// describes how to continue.
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.never = nonblocking;
        self
    }

    /// Ends all waits, and refuses to send, as soon as `cancel` is cancelled. Calls then fail with
    /// [`Error::Stopped`]. What was not sent stays in the producer.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Ends all waits, and refuses to send, from this time on. Calls then fail with
    /// [`Error::Stopped`], whose kind is [`TimedOut`](std::io::ErrorKind::TimedOut). What was not
    /// sent stays in the producer. [`Producer::set_deadline`](super::Producer::set_deadline)
    /// changes the deadline later.
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// Sets whether a signal that arrives during a wait ends it. The call then fails with
    /// [`Error::Stopped`], whose kind is [`Interrupted`](std::io::ErrorKind::Interrupted), and can be
    /// made again: what was not sent stays in the producer. Without this, a wait goes on after a
    /// signal.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.interruptible = interruptible;
        self
    }

    pub(super) fn waiter(&self) -> Waiter {
        let mut waiter = Waiter::new(self.wait).until_deadline(self.deadline);
        if self.never {
            waiter = waiter.never_waiting();
        }
        if self.interruptible {
            waiter = waiter.interruptible();
        }
        match &self.cancel {
            Some(cancel) => waiter.until_cancelled(cancel),
            None => waiter,
        }
    }

    /// Returns the size of a chunk, after checking that it is not 0 and not more than memory can
    /// hold.
    pub(super) fn checked_chunk(&self, otherwise: usize) -> Result<usize> {
        match self.chunk.unwrap_or(otherwise) {
            0 => Err(Error::Invalid("a chunk of 0 bytes sends nothing".into())),
            chunk if chunk > isize::MAX as usize / 8 => Err(Error::Invalid(format!(
                "a chunk of {chunk} bytes is more than memory can hold"
            ))),
            chunk => Ok(chunk),
        }
    }
}

/// What a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat) has sent, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerReport {
    /// Bytes that were sent.
    pub bytes: u64,
    /// How bytes are sent now. The first long send changes it to [`Way::Socket`] or [`Way::Copy`] if the kernel
    /// refuses vmsplice(2), copies what it is given, or cannot map memory, and also if
    /// [`ProducerOptions::open`] chose the way and there are no huge pages, or the memory cgroup of the process has no
    /// room for them. A [`Repeat`](super::Repeat) sends by [`Way::Repeat`], or by [`Way::Copy`] if the output cannot
    /// be given references.
    pub way: Way,
    /// System calls that were made to send them.
    pub calls: u64,
}

//! The options of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat), and what both
//! report at their end.

use std::fmt;
use std::time::Instant;

use fullbore_linux::error::{Error, Result};
use fullbore_linux::wait::{Cancel, Wait, Waiter};

/// The default number of bytes of one system call: half of a pipe of 1 MiB, so that one chunk is
/// filled while another is read.
pub(super) const CHUNK: usize = 512 * 1024;

/// Sends that are shorter than this are copied, because looking up the pages and replacing them
/// would cost more than the copy.
pub(super) const BY_REFERENCE_FROM: usize = 32 * 1024;

/// How the bytes of a [`Producer`](super::Producer) are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// The bytes are copied by write(2).
    Copy,
    /// The bytes are copied into a socket, and spliced from there into the pipe.
    Socket,
    /// vmsplice(2) sends pages that are never written to again.
    Fresh,
    /// vmsplice(2) sends pages that are used again once the pipe no longer refers to them.
    Recycle,
    /// References to pages that never change are sent.
    Repeat,
    /// The consumer reads the bytes in memory that it shares with the producer.
    Ring,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Copy => "copy",
            Way::Socket => "socket",
            Way::Fresh => "fresh",
            Way::Recycle => "recycle",
            Way::Repeat => "repeat",
            Way::Ring => "ring",
        })
    }
}

/// The options of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat).
#[derive(Debug, Clone, Default)]
pub struct ProducerOptions {
    pub(super) chunk: Option<usize>,
    pub(super) ring: Option<usize>,
    pub(super) pipe_size: Option<usize>,
    pub(super) base_pages: bool,
    /// Whether the producer may choose the way.
    pub(super) any_way: bool,
    pub(super) shared: bool,
    pub(super) only_writer: bool,
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

    /// Sets the most bytes that one system call sends. The default is 512 KiB, and 256 KiB for
    /// [`recycle`](Self::recycle).
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = Some(bytes);
        self
    }

    /// Sets the bytes of memory that [`recycle`](Self::recycle) uses in rotation. The default is
    /// the capacity of the pipe and two chunks.
    pub fn ring(mut self, bytes: usize) -> Self {
        self.ring = Some(bytes);
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
    /// By [`socket`](Self::socket) a full pipe holds up to eight times as many bytes as its capacity.
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

    /// Sets whether to share memory with the consumer of the pipe, if that is a
    /// [`Consumer`](crate::Consumer) of the same user which allows it too
    /// ([`ConsumerOptions::shared`](crate::ConsumerOptions::shared)). The default is not to.
    ///
    /// The two ends of a pipe of pipe(2) find each other, without a byte in the pipe and without a file,
    /// and only if no third process holds either end. From then on the bytes no longer go through the
    /// pipe, and [`Producer::way`](super::Producer::way) returns [`Way::Ring`]. If either end goes, what
    /// was not consumed goes into the pipe, at the latest when the producer finishes or is dropped. A producer
    /// that has a [`deadline`](Self::deadline) or a [`cancel`](Self::cancel), either of which could stop it
    /// on the way, leaves it to the consumer when it is dropped.
    ///
    /// What others write into the pipe in the meantime keeps its place among what the producer sends.
    /// The size of the pipe does not matter. It has no effect for [`copy`](Self::copy), and for a
    /// producer that is [`nonblocking`](Self::nonblocking), because poll(2) does not know about the
    /// shared memory.
    pub fn shared(mut self, shared: bool) -> Self {
        self.shared = shared;
        self
    }

    /// Promises that nothing but the producer writes into the pipe while the producer exists. With
    /// [`shared`](Self::shared) this saves a system call for each send. If something else does write into
    /// the pipe, a consumer gets its bytes sooner or later than their place would be.
    pub fn only_writer(mut self) -> Self {
        self.only_writer = true;
        self
    }

    /// Sets what to do while the output is full.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Makes calls that would have to wait fail with
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock). What was gathered or committed until then
    /// stays in the producer and is sent first by the next call. [`Producer`](super::Producer)
    /// describes how to continue.
    pub fn nonblocking(mut self) -> Self {
        self.never = true;
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

    /// Makes a signal that arrives during a wait end it. The call then fails with
    /// [`Error::Stopped`], whose kind is [`Interrupted`](std::io::ErrorKind::Interrupted), and can be
    /// made again: what was not sent stays in the producer. Without this, a wait goes on after a
    /// signal.
    pub fn interruptible(mut self) -> Self {
        self.interruptible = true;
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

/// The result of a producer: what it has sent, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Produced {
    /// Bytes that were sent.
    pub bytes: u64,
    /// How they were sent.
    pub way: Way,
    /// System calls that were made to send them.
    pub calls: u64,
}

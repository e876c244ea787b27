//! What is wanted of a [`Producer`](super::Producer) or a [`Repeat`](super::Repeat), and what either
//! says that it has done.

use std::fmt;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::wait::{Cancel, Wait, Waiter};

/// Bytes of one system call unless told otherwise: half of a pipe of 1 MiB, so that one chunk is
/// filled while another is read.
pub(super) const CHUNK: usize = 512 * 1024;

/// Sends shorter than this are copied: below it, looking pages up and replacing them costs more
/// than the copy.
pub(super) const BY_REFERENCE_FROM: usize = 32 * 1024;

/// How the bytes of a [`Producer`](super::Producer) go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// write(2).
    Copy,
    /// vmsplice(2) of pages that are never written to again.
    Fresh,
    /// vmsplice(2) of pages that are used again once the pipe has let go of them.
    Recycle,
    /// Duplicates of pages that never change.
    Repeat,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Copy => "copy",
            Way::Fresh => "fresh",
            Way::Recycle => "recycle",
            Way::Repeat => "repeat",
        })
    }
}

/// What is wanted of a [`Producer`](super::Producer).
#[derive(Debug, Clone, Default)]
pub struct ProducerOptions {
    pub(super) chunk: Option<usize>,
    pub(super) ring: Option<usize>,
    pub(super) pipe_size: Option<usize>,
    pub(super) base_pages: bool,
    /// Whether the way was left to the producer.
    pub(super) any_way: bool,
    pub(super) wait: Wait,
    pub(super) never: bool,
    pub(super) cancel: Option<Cancel>,
    pub(super) deadline: Option<Instant>,
}

impl ProducerOptions {
    /// The choices that suit most.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of one system call; 512 KiB unless told otherwise, 256 KiB for
    /// [`recycle`](Self::recycle).
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = Some(bytes);
        self
    }

    /// Bytes of memory that [`recycle`](Self::recycle) uses in turn; what the pipe holds and two
    /// chunks unless told otherwise.
    pub fn ring(mut self, bytes: usize) -> Self {
        self.ring = Some(bytes);
        self
    }

    /// Bytes that an output pipe is grown to once more than 64 KiB are to be sent, as far as this
    /// user may; 1 MiB unless told otherwise, and less in a small memory cgroup. 0 leaves the pipe as it
    /// is. A pipe is never shrunk. A [`Repeat`](super::Repeat) grows it when it is made.
    ///
    /// A roomy pipe is what makes most outputs fast, and it has a price that others pay too. All pipes
    /// of an unprivileged user may have 64 MiB together (`/proc/sys/fs/pipe-user-pages-soft`), so 64
    /// pipes of 1 MiB use that up: until some are closed, every pipe that any program of this user makes
    /// has one or two pages instead of 16, and none can be grown. A program that has many pipes open at a time
    /// should ask for less here, or for 0.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.pipe_size = Some(bytes);
        self
    }

    /// Whether to ask for transparent huge pages, where there are any; yes unless told otherwise.
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.base_pages = !huge;
        self
    }

    /// What to do while the output is full.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Never waits: a call that would have to returns an error of the kind
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) instead. What was gathered or committed by then stays
    /// in the producer, and goes first with the next call; [`Producer`](super::Producer) says how to go on.
    pub fn nonblocking(mut self) -> Self {
        self.never = true;
        self
    }

    /// Ends the producer's waits, and refuses to send, as soon as `cancel` is cancelled: what was called
    /// then fails with [`Error::Stopped`]. What was not sent stays in the producer.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Ends the producer's waits, and refuses to send, from this time on: what was called then fails
    /// with [`Error::Stopped`], which is [`TimedOut`](std::io::ErrorKind::TimedOut). What was not sent
    /// stays in the producer. [`Producer::set_deadline`](super::Producer::set_deadline) gives it another one.
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    pub(super) fn waiter(&self) -> Waiter {
        let mut waiter = Waiter::new(self.wait).until_deadline(self.deadline);
        if self.never {
            waiter = waiter.never_waiting();
        }
        match &self.cancel {
            Some(cancel) => waiter.until_cancelled(cancel),
            None => waiter,
        }
    }

    /// The chunk, of a size that memory can be had for.
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

/// What a producer has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Produced {
    /// Bytes that went out.
    pub bytes: u64,
    /// How they went.
    pub way: Way,
    /// Moves of bytes that the kernel was asked for.
    pub calls: u64,
}

//! The options that everything that moves bytes has in common: [`Options`].

use std::fmt;
use std::time::Instant;

use fullbore_linux::pipe::roomy;
use fullbore_linux::{Cancel, Error, Result, Wait, Waiter};

/// The options of a [`Producer`](crate::Producer) or [`Repeat`](crate::Repeat), a [`Consumer`](crate::Consumer), a
/// [`Transfer`](crate::Transfer), a [`Tee`](crate::Tee) or a [`Buffer`](crate::Buffer). Each has a name for its own:
/// [`ProducerOptions`](crate::ProducerOptions), [`ConsumerOptions`](crate::ConsumerOptions),
/// [`TransferOptions`](crate::TransferOptions), [`TeeOptions`](crate::TeeOptions) and
/// [`BufferOptions`](crate::BufferOptions). Their method `open` takes the file descriptors, and creates the object.
///
/// ```
/// use std::time::{Duration, Instant};
/// use fullbore::{EndReason, Pipe, TransferOptions};
/// let (source, sink) = (Pipe::new()?, Pipe::new()?);
/// let deadline = Instant::now() + Duration::from_millis(5);
/// let mut transfer = TransferOptions::new().deadline(deadline).open(&source.reader, &sink.writer);
/// // No process writes into this pipe.
/// assert_eq!(transfer.run()?.ended, EndReason::TimedOut);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # A call that does not wait
/// There is one convention for a call that would have to wait and may not ([`nonblocking`](Self::nonblocking)), and for
/// one whose wait has ended early ([`cancel`](Self::cancel), [`deadline`](Self::deadline),
/// [`interruptible`](Self::interruptible)): nothing has failed, no byte is lost, and the next call continues.
///
/// - A run of a `Transfer`, a `Tee` or a `Buffer` returns `Ok` with a report, whose `ended` has the
///   [`EndReason`](crate::EndReason).
/// - Every other call returns [`Error::Stopped`], with the same reason ([`Stopped`](crate::Stopped)). As a
///   [`std::io::Error`] it has the kind that std has for it.
#[derive(Clone, Default)]
pub struct Options<For> {
    pub(crate) waiter: Waiter,
    pub(crate) chunk: Option<usize>,
    pub(crate) pipe_size: Option<usize>,
    pub(crate) limit: Option<u64>,
    pub(crate) plain: bool,
    /// The options that only this kind of object has.
    pub(crate) own: For,
}

/// Objects whose next call continues after one that ended early.
pub trait Resumes {}

/// Objects that send bytes.
pub trait Sends {}

/// Objects that move bytes from a source until it ends.
pub trait Moves: Sends {}

impl<For: Default> Options<For> {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<For> Options<For> {
    /// Sets how to wait while there is nothing to read or no room to write. The default is [`Wait::Block`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waiter.wait = wait;
        self
    }

    /// Ends all waits, and moves nothing any more, as soon as `cancel` is cancelled. With another `Cancel`, a `Transfer`
    /// or a `Tee` can continue (`set_cancel`). Bytes that have not arrived are kept. `None` removes it.
    pub fn cancel<'a>(mut self, cancel: impl Into<Option<&'a Cancel>>) -> Self {
        self.waiter.cancel = cancel.into().cloned();
        self
    }

    /// Ends all waits, and moves nothing any more, from this time on; `None` removes the deadline. `set_deadline` of the
    /// object changes it later, so that it can continue. Bytes that have not arrived are kept.
    pub fn deadline(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.waiter.deadline = at.into();
        self
    }
}

impl<For: Resumes> Options<For> {
    /// Sets whether calls return instead of waiting. Bytes that were accepted before are kept, and the next call moves
    /// them first.
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.waiter.never = nonblocking;
        self
    }

    /// Sets whether a signal that arrives during a wait ends it. By default, waits are resumed after a signal.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.waiter.interruptible = interruptible;
        self
    }
}

impl<For: Sends> Options<For> {
    /// Sets the most bytes that one system call moves. The default depends on the way: 512 KiB for a `Producer`, and 256
    /// KiB with [`Way::Recycle`](crate::Way::Recycle); 1 MiB for a `Buffer`. A read from a pipe has room for at least a
    /// page, and one from a socket that preserves message boundaries for a whole message, because the kernel discards
    /// what does not fit. `None` is the default.
    pub fn chunk(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.chunk = bytes.into();
        self
    }

    /// Sets the capacity in bytes that output pipes, and private pipes, are grown to, as far as the user's limits allow,
    /// once more than 64 KiB are to be sent. The default is 1 MiB, and less in a small memory cgroup. 0 leaves an output
    /// pipe as it is. A pipe is never shrunk. A [`Repeat`](crate::Repeat) grows the pipe when it is created.
    ///
    /// A large pipe makes most outputs faster, but it can slow down other programs of the user. All pipes of an
    /// unprivileged user may have 64 MiB together (`/proc/sys/fs/pipe-user-pages-soft`), so 64 pipes of 1 MiB use that
    /// up: until some of them are closed, every new pipe of this user has one or two pages instead of 16, and no pipe
    /// can be grown. A program that has many pipes open at once should set a smaller size, or 0.
    ///
    /// With [`Way::Socket`](crate::Way::Socket), a full pipe holds up to eight times its capacity. `None` is the default.
    pub fn pipe_size(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.pipe_size = bytes.into();
        self
    }
}

impl<For: Moves> Options<For> {
    /// Sets the maximum number of bytes to move. No more than that are taken from the source; `None` means no
    /// limit, which is the default.
    pub fn limit(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.limit = bytes.into();
        self
    }

    /// Sets whether to use only read(2) and write(2), for sandboxes and kernels whose other system calls are not
    /// trusted. This is slower. Holes of files are kept.
    pub fn plain(mut self, plain: bool) -> Self {
        self.plain = plain;
        self
    }
}

impl<For> Options<For> {
    /// # Errors
    /// [`Error::Invalid`] for a chunk that would never move a byte.
    pub(crate) fn check_chunk(&self) -> Result<()> {
        match self.chunk {
            Some(0) => Err(Error::Invalid("a chunk of 0 bytes moves nothing".into())),
            _ => Ok(()),
        }
    }

    /// Returns the most bytes that the next call may take after `taken` bytes, at most `otherwise`.
    pub(crate) fn most(&self, taken: u64, otherwise: usize) -> usize {
        let chunk = self.most_at_once().min(otherwise);
        self.left(taken).min(chunk)
    }

    /// Returns the most bytes that one call moves.
    pub(crate) fn most_at_once(&self) -> usize {
        self.chunk.unwrap_or(usize::MAX)
    }

    /// Returns the most bytes that the next read(2) may take after `taken` bytes. The longest message of the source has
    /// `longest` bytes; only the limit may cut one.
    pub(crate) fn most_to_read(&self, taken: u64, longest: usize) -> usize {
        let chunk = self.read_chunk(longest).unwrap_or(usize::MAX);
        self.left(taken).min(chunk)
    }

    /// Returns the size of the memory for one read(2), if a chunk was set.
    pub(crate) fn read_chunk(&self, longest: usize) -> Option<usize> {
        self.chunk.map(|chunk| chunk.max(longest))
    }

    /// Returns the number of bytes that may still be taken.
    pub(crate) fn left(&self, taken: u64) -> usize {
        let left = self
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(taken));
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Returns the capacity in bytes that output pipes and private pipes are grown to.
    pub(crate) fn roomy(&self) -> usize {
        self.pipe_size.unwrap_or_else(roomy)
    }
}

impl<For> fmt::Debug for Options<For> {
    /// Writes no bytes of the user, which a transfer may have to send first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("waiter", &self.waiter)
            .field("chunk", &self.chunk)
            .field("pipe_size", &self.pipe_size)
            .field("limit", &self.limit)
            .field("plain", &self.plain)
            .finish_non_exhaustive()
    }
}

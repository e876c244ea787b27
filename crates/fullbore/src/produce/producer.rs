//! [`Producer`]: lending memory, accepting bytes and pages, and finishing.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::io::Errno;

use super::fresh::Fresh;
use super::options::{CHUNK, Produced, ProducerOptions, Way};
use super::output::Output;
use super::recycle::Recycle;
use super::socket::Through;
use crate::memory::{self, Memory};
use crate::pages_to_send::Pages;
use fullbore_linux::error::{Error, Result};
use fullbore_linux::{BackedBy, Calls, Owner};

/// The way of sending, with the state that provides the next window.
#[derive(Debug)]
pub(super) enum Policy {
    Copy,
    /// `None` until there is memory.
    Fresh(Option<Fresh>),
    Recycle(Recycle),
}

impl Policy {
    /// Returns whether it keeps track of the memory that a pipe refers to.
    #[inline]
    pub(super) fn has_memory(&self) -> bool {
        matches!(self, Policy::Fresh(Some(_)) | Policy::Recycle(_))
    }

    pub(super) fn way(&self) -> Way {
        match self {
            Policy::Copy => Way::Copy,
            Policy::Fresh(_) => Way::Fresh,
            Policy::Recycle(_) => Way::Recycle,
        }
    }
}

/// Sends bytes from memory to any fd as fast as its guarantee allows.
///
/// It writes to the descriptor. std's `Stdout` holds the line that was printed last: flush it before
/// `Producer::new(stdout())`, and print nothing until the producer has finished.
///
/// Either lend a slice with [`reserve`](Self::reserve), fill it, and send it with
/// [`commit`](Self::commit); or hand over memory of your own with [`send_pages`](Self::send_pages); or use it
/// through [`io::Write`], which gathers small writes and sends them in chunks.
/// [`finish`](Self::finish) sends what is left, and returns how much was sent.
///
/// ```
/// use std::io::Write;
/// let pipe = fullbore::Pipe::new()?;
/// let mut out = fullbore::Producer::new(&pipe.writer)?;
/// writeln!(out, "hello")?;
/// assert_eq!(out.finish()?.bytes, 6);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Which file it writes to
/// A producer that gives pages to a pipe, or sends through a socket, sends everything to the pipe that
/// `sink` was when the producer was made, through a duplicate of its descriptor, even if standard output is replaced by another file
/// (dup2(2)) afterwards. The pipe has no end of file before the producer is dropped. The producer grows
/// the pipe; [`ProducerOptions::pipe_size`] says what that costs other programs.
///
/// # Errors and waiting
/// After an error, what was not sent stays in the producer and is sent first by the next call: it must not
/// be written, committed or sent again. [`unsent`](Self::unsent) returns how much that is. An error that a
/// [`write`](io::Write::write) could not return, because it had accepted the bytes, is returned by the next
/// call.
///
/// To continue after [`WouldBlock`](io::ErrorKind::WouldBlock) with [`ProducerOptions::nonblocking`],
/// wait until the sink can be written to (poll(2)), and call [`flush`](io::Write::flush) until it
/// returns `Ok`.
///
/// ```
/// use std::io::{ErrorKind, Read, Write};
/// let mut pipe = fullbore::Pipe::new()?;
/// let mut out = fullbore::ProducerOptions::new().nonblocking().open(&pipe.writer)?;
/// let bytes = vec![7; 3 << 20];
/// let mut written = 0;
/// let mut read = 0;
/// let mut reader = std::fs::File::from(pipe.reader.try_clone()?);
/// let mut buffer = vec![0; 1 << 20];
/// while written < bytes.len() || out.unsent() > 0 {
///     let answer = match written < bytes.len() {
///         true => out.write(&bytes[written..]).map(|n| written += n),
///         false => out.flush(),
///     };
///     match answer {
///         Ok(()) => {}
///         // A program would wait with poll(2) here; this one is its own reader.
///         Err(error) if error.kind() == ErrorKind::WouldBlock => read += reader.read(&mut buffer)?,
///         Err(error) => return Err(error),
///     }
/// }
/// assert_eq!(out.finish()?.bytes, 3 << 20);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Dropping
/// Dropping a producer sends what it still has, and ignores errors, as [`io::BufWriter`] does: call
/// [`finish`](Self::finish) to see them. Nothing is sent if a call has returned an error, other
/// than `WouldBlock` and [`Error::Stopped`], since the caller last passed bytes in.
///
/// # fork
/// A child that fork(2) made must not use its copy of a producer: what was gathered in it would be
/// sent twice. A copy that is dropped in the child sends nothing.
#[derive(Debug)]
pub struct Producer<Fd: AsFd> {
    pub(super) sink: Output<Fd>,
    pub(super) calls: Calls,
    pub(super) policy: Policy,
    pub(super) options: ProducerOptions,
    /// How bytes are written that are not given.
    pub(super) through: Through,
    pub(super) memory: Memory,
    /// Whether memory for a long output has been set up.
    pub(super) settled: bool,
    /// Whether the producer has tried to grow the output pipe.
    pub(super) roomy: bool,
    pub(super) chunk: usize,
    /// The stretch of memory that is being filled: no pipe refers to it.
    pub(super) window: Range<usize>,
    /// Bytes at the start of the window that are still to be sent.
    pub(super) gathered: usize,
    /// Pages from the caller that are to be sent after that.
    pub(super) handed_over: VecDeque<HandedOver>,
    /// Bytes lent by the last `reserve`.
    pub(super) reserved: usize,
    pub(super) sent: u64,
    pub(super) sent_by_reference: u64,
    /// The error of a send that has not been returned to the caller yet.
    pub(super) untold: Option<(&'static str, Errno)>,
    /// Whether an error about the gathered bytes has been returned to the caller.
    pub(super) told: bool,
    owner: Owner,
}

/// Pages that the caller handed over, and how much of them has been sent.
#[derive(Debug)]
pub(super) struct HandedOver {
    pages: Pages,
    pub(super) sent: usize,
}

impl<Fd: AsFd> Producer<Fd> {
    /// Creates a producer that sends in the way that suits `sink`; see [`ProducerOptions::open`].
    ///
    /// # Errors
    /// As [`ProducerOptions::open`].
    pub fn new(sink: Fd) -> Result<Self> {
        ProducerOptions::new().open(sink)
    }

    pub(super) fn make(options: ProducerOptions, sink: Output<Fd>, policy: Policy) -> Result<Self> {
        let chunk = options.checked_chunk(CHUNK)?;
        let policy = if sink.is_own() { policy } else { Policy::Copy };
        Ok(Self {
            calls: Calls::with(options.waiter()),
            policy,
            through: Through::Nothing,
            memory: Memory::first(chunk),
            settled: false,
            roomy: false,
            options,
            chunk,
            window: 0..chunk.min(memory::FIRST),
            gathered: 0,
            handed_over: VecDeque::new(),
            reserved: 0,
            sent: 0,
            sent_by_reference: 0,
            untold: None,
            told: false,
            owner: Owner::this(),
            sink,
        })
    }

    /// Returns the way in which bytes are sent now. The first long send changes it to
    /// [`Way::Socket`] or [`Way::Copy`] if the kernel refuses vmsplice(2), copies what it is given,
    /// or cannot map memory, and also if [`ProducerOptions::open`] chose the way and there are no
    /// huge pages, or the memory cgroup of the process has no room for them.
    pub fn way(&self) -> Way {
        match self.policy.way() {
            Way::Copy if self.through.is_socket() => Way::Socket,
            way => way,
        }
    }

    /// Returns the number of bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of bytes that were accepted and not sent yet.
    pub fn unsent(&self) -> u64 {
        let handed_over = self.handed_over.iter().map(|h| h.rest().len() as u64);
        self.gathered as u64 + handed_over.sum::<u64>()
    }

    /// Returns the bytes that were gathered through [`io::Write`] or committed, and not sent yet.
    /// Pages that were handed over to [`send_pages`](Self::send_pages) come after them and are not included.
    pub fn buffer(&self) -> &[u8] {
        &self.memory[self.window.start..][..self.gathered]
    }

    /// Returns a number of bytes: fewer than these are gathered by a [`write`](io::Write::write) without
    /// a system call.
    #[inline]
    pub fn room(&self) -> usize {
        match self.handed_over.is_empty() {
            true => (self.window.end).saturating_sub(self.window.start + self.gathered),
            false => 0,
        }
    }

    /// Returns the sink that the producer was created with.
    pub fn get_ref(&self) -> &Fd {
        self.sink.given()
    }

    /// Sets the time at which to stop waiting and sending; `None` removes it. See
    /// [`ProducerOptions::deadline`].
    pub fn set_deadline(&mut self, at: Option<Instant>) {
        self.options.deadline = at;
        self.calls.wait_as(self.options.waiter());
    }

    /// Sends what is left, and returns the sink that the producer was created with.
    ///
    /// # Errors
    /// The errors of sending. The error contains the producer, which still has what was not sent.
    pub fn into_inner(mut self) -> Result<Fd, Unfinished<Fd>> {
        match self.send_gathered() {
            Ok(()) => Ok(self.sink.take_back()),
            Err(error) => Err(self.unfinished(error)),
        }
    }

    /// Returns the sink that the producer was created with, and the bytes that were not sent. Sends
    /// nothing.
    pub fn into_parts(mut self) -> (Fd, Vec<u8>) {
        let mut unsent = self.buffer().to_vec();
        self.gathered = 0;
        for handed_over in self.handed_over.drain(..) {
            unsent.extend_from_slice(handed_over.rest());
        }
        (self.sink.take_back(), unsent)
    }

    /// Returns the number of system calls that it has made to send bytes.
    pub fn calls(&self) -> u64 {
        self.calls.made()
    }

    /// Returns what the kernel backs the producer's memory with now.
    pub fn backed_by(&self) -> BackedBy {
        match &self.memory {
            Memory::Pages(pages) => pages.backed_by(),
            Memory::First(_) => BackedBy::Unknown {
                reason: "nothing has been mapped yet".into(),
            },
        }
    }

    /// Returns the size of a chunk in bytes: the most that one [`reserve`](Self::reserve) lends.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Lends `n` bytes of memory to fill, whose contents are unspecified at first. Bytes that were
    /// gathered through [`io::Write`] are sent first.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than [`chunk`](Self::chunk) bytes; `ENOMEM` if there is not enough
    /// memory; the errors of sending.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Result<&mut [u8]> {
        if n > self.chunk {
            return Err(Error::Invalid(format!(
                "{n} bytes are more than a chunk of {}",
                self.chunk
            )));
        }
        self.reserved = 0;
        self.send_gathered()?;
        if self.window.len() < n || !self.settled {
            self.next_window(n)?;
        }
        self.reserved = n;
        let start = self.window.start;
        Ok(&mut self.memory[start..start + n])
    }

    /// Sends the first `n` bytes of the memory that [`reserve`](Self::reserve) lent last.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than was lent; [`Error::Moving`] as write(2) or vmsplice(2).
    #[inline]
    pub fn commit(&mut self, n: usize) -> Result<()> {
        if n > self.reserved {
            return Err(Error::Invalid(format!(
                "{n} bytes committed, {} reserved",
                self.reserved
            )));
        }
        if self.reserved == 0 {
            return Ok(());
        }
        self.reserved = 0;
        self.told = false;
        self.gathered = n;
        self.send_gathered()
    }

    /// Sends all of `pages`, after what was gathered before. A pipe gets the pages themselves, and
    /// no process can write to them any more. Any other output, and a pipe that cannot be given
    /// pages, gets a copy of the bytes.
    ///
    /// ```
    /// let pipe = fullbore::Pipe::new()?;
    /// let mut out = fullbore::Producer::new(&pipe.writer)?;
    /// let mut pages = fullbore::Pages::new(64 * 1024)?;
    /// pages.fill(7);
    /// out.send_pages(pages)?;
    /// assert_eq!(out.sent(), 64 * 1024);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Moving`] as write(2) or vmsplice(2). The producer keeps the pages even then: what
    /// was not sent of them is sent first by the next call.
    pub fn send_pages(&mut self, pages: Pages) -> Result<()> {
        // If the lent memory were committed now, its bytes would be sent before the pages.
        self.reserved = 0;
        self.told = false;
        if pages.len() > memory::FIRST {
            self.make_roomy();
        }
        if !pages.is_empty() {
            self.handed_over.push_back(HandedOver { pages, sent: 0 });
        }
        self.send_gathered()
    }

    /// Sends what is left, and returns the totals of what was sent. With [`Way::Recycle`] it
    /// returns only when the last byte has been read, unless the producer is
    /// [`nonblocking`](ProducerOptions::nonblocking).
    ///
    /// # Errors
    /// The errors of sending. The error contains the producer, which still has what was not sent,
    /// so that a nonblocking producer, or one whose deadline has passed, can continue:
    ///
    /// ```
    /// use std::io::{ErrorKind, Read, Write};
    /// let pipe = fullbore::Pipe::new()?;
    /// let mut reader = std::fs::File::from(pipe.reader);
    /// let mut other = std::fs::File::from(pipe.writer.try_clone()?);
    /// let full = fullbore::PipeEnd::of(&reader)?.unwrap().capacity()?;
    /// other.write_all(&vec![0; full])?;
    /// let mut out = fullbore::ProducerOptions::new().nonblocking().open(pipe.writer)?;
    /// out.write_all(b"hello")?;
    /// let produced = loop {
    ///     match out.finish() {
    ///         Ok(produced) => break produced,
    ///         Err(unfinished) if unfinished.error().kind() == ErrorKind::WouldBlock => {
    ///             // A program would wait with poll(2) here; this one is its own reader.
    ///             reader.read_exact(&mut vec![0; full])?;
    ///             out = unfinished.into_parts().1;
    ///         }
    ///         Err(unfinished) => return Err(unfinished.into()),
    ///     }
    /// };
    /// assert_eq!(produced.bytes, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn finish(mut self) -> Result<Produced, Unfinished<Fd>> {
        match self.send_gathered().and_then(|()| self.wait_for_readers()) {
            Ok(()) => Ok(Produced {
                bytes: self.sent,
                way: self.way(),
                calls: self.calls.made(),
            }),
            Err(error) => Err(self.unfinished(error)),
        }
    }

    fn unfinished(mut self, error: Error) -> Unfinished<Fd> {
        // The number of sent bytes in the error would become wrong if dropping the producer sent
        // the rest.
        self.told = true;
        Unfinished {
            error,
            producer: Box::new(self),
        }
    }
}

impl HandedOver {
    pub(super) fn rest(&self) -> &[u8] {
        &self.pages[self.sent..]
    }
}

impl<Fd: AsFd> Drop for Producer<Fd> {
    fn drop(&mut self) {
        if self.owner.is_here() {
            self.send_the_rest();
        }
    }
}

impl<Fd: AsFd> Producer<Fd> {
    /// Sends what is left before the producer is dropped, unless an error about it has been returned.
    pub(super) fn send_the_rest(&mut self) {
        let is_interrupted = |error: &Error| error.kind() == io::ErrorKind::Interrupted;
        if self.unsent() > 0 && !self.told {
            // No one could make it go on after a signal.
            while self.send_gathered().as_ref().is_err_and(is_interrupted) {}
        }
    }
}

/// The error of [`Producer::finish`] or [`Producer::into_inner`], with the producer whose last
/// bytes could not be sent.
///
/// Dropping it sends nothing: the unsent bytes are lost.
pub struct Unfinished<Fd: AsFd> {
    error: Error,
    producer: Box<Producer<Fd>>,
}

impl<Fd: AsFd> Unfinished<Fd> {
    /// Returns the error: why the bytes could not be sent.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the error, and the producer, which still has the bytes that were not sent.
    pub fn into_parts(self) -> (Error, Producer<Fd>) {
        (self.error, *self.producer)
    }
}

impl<Fd: AsFd> fmt::Display for Unfinished<Fd> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<Fd: AsFd> fmt::Debug for Unfinished<Fd> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished")
            .field("error", &self.error)
            .field("unsent", &self.producer.unsent())
            .finish_non_exhaustive()
    }
}

impl<Fd: AsFd> std::error::Error for Unfinished<Fd> {}

impl<Fd: AsFd> From<Unfinished<Fd>> for Error {
    fn from(unfinished: Unfinished<Fd>) -> Self {
        unfinished.error
    }
}

impl<Fd: AsFd> From<Unfinished<Fd>> for io::Error {
    fn from(unfinished: Unfinished<Fd>) -> Self {
        unfinished.error.into()
    }
}

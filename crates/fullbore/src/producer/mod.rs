//! Memory to fd: [`Producer`], and [`Repeat`] for a repeated pattern.
//!
//! | way | guarantee | how a chunk goes out |
//! |---|---|---|
//! | copy | snapshot | write(2) |
//! | socket | snapshot | send(2) into a private socket, and splice(2) from it |
//! | fresh | snapshot | vmsplice(2); its pages are never written to again |
//! | recycle | needs a reader that copies | vmsplice(2); its pages are reused once the pipe no longer refers to them |
//! | repeat | snapshot | tee(2) or vmsplice(2) of pages that never change |
//!
//! A producer fills *windows* of its memory (`windows.rs`), and sends each of them through its outlet, which decides
//! how (`outlet/`). This file follows the bytes: they are lent, written or handed over, gathered, and sent.

mod options;
mod output;
mod recycle;
mod repeat;
mod windows;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::io::Errno;

use crate::failure::stands_for_its_error;
use crate::memory;
use crate::outlet::{Failed, Outlet, RUN, Sent, least_to_give, pages_pay_off};
use crate::pages_to_send::Pages;
use crate::way::Way;
use fullbore_linux as linux;
use fullbore_linux::error::{self, Stopped};
use fullbore_linux::{Calls, Error, Owner, Result, TransferSide, pipe};
pub use options::{ForProducer, ProducerOptions, ProducerReport};
use output::Output;
use recycle::Recycle;
pub use repeat::Repeat;
use windows::{Reuse, Windows};

/// Sends bytes from memory to any fd as fast as its guarantee allows.
///
/// It writes to the descriptor. std's `Stdout` buffers the last line: flush it before `Producer::new(stdout())`, and
/// print nothing until the producer has finished.
///
/// Either lend a slice with [`reserve`](Self::reserve), fill it, and send it with [`commit`](Self::commit); or hand
/// over your own memory with [`send_pages`](Self::send_pages); or use [`io::Write`], which gathers small writes and
/// sends them in chunks. [`finish`](Self::finish) sends the remaining bytes, and returns how many were sent.
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
/// A producer that gives pages to a pipe, or sends through a socket, duplicates the descriptor of `sink` when it is
/// created, and sends everything to that pipe, even if dup2(2) replaces standard output by another file afterwards. The
/// reader sees no end of file until the producer is dropped. The producer grows the pipe;
/// [`ProducerOptions::pipe_size`] says what that costs other programs.
///
/// # Errors and waiting
/// After an error, unsent bytes stay in the producer, and the next call sends them first: do not write, commit or send
/// them again. [`unsent`](Self::unsent) returns their number. If a [`write`](io::Write::write) has accepted bytes
/// before an error, it cannot return the error; the next call returns this deferred error.
///
/// To continue after [`Stopped::WouldBlock`] with [`ProducerOptions::nonblocking`],
/// wait until the sink can be written to (poll(2)), and call [`flush`](io::Write::flush) until it
/// returns `Ok`.
///
/// ```
/// use std::io::{ErrorKind, Read, Write};
/// let mut pipe = fullbore::Pipe::new()?;
/// let mut out = fullbore::ProducerOptions::new().nonblocking(true).open(&pipe.writer)?;
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
/// Dropping a producer sends its unsent bytes, and ignores errors, as [`io::BufWriter`] does: call
/// [`finish`](Self::finish) to get them. It sends nothing if a call has returned an error, other than
/// [`Error::Stopped`], since the caller last passed bytes in.
///
/// # fork
/// A child of fork(2) must not use its copy of a producer: a call that sends returns an error there, so that gathered
/// bytes are not sent twice. If the child drops its copy, the copy sends nothing.
// The bound is that of `Drop`.
#[derive(Debug)]
pub struct Producer<Fd: AsFd> {
    sink: Output<Fd>,
    outlet: Outlet,
    windows: Windows,
    options: ProducerOptions,
    /// Pages from the caller, to be sent after the gathered bytes.
    handed_over: VecDeque<Pages>,
    /// Bytes of the first of them that were sent.
    sent_of_first: usize,
    /// The last pages that were sent whole, to be filled again.
    spare: Option<Pages>,
    /// Bytes lent by the last `reserve`.
    reserved: usize,
    sent: u64,
    /// Whether an error of sending was returned since the caller last passed bytes in: dropping the producer then sends
    /// nothing.
    reported: bool,
    /// An error that was not returned, because the call had accepted bytes. The next call that sends returns it.
    deferred: Option<Error>,
    owner: Owner,
}

/// The default number of bytes of one system call with recycled pages. Smaller chunks are reused sooner, while they are
/// still in the CPU cache.
const RECYCLED_CHUNK: usize = 256 * 1024;

impl ProducerOptions {
    /// Creates a producer that sends to `sink` in the chosen [`way`](Self::way). By default, the way is [`Way::Fresh`]
    /// into a pipe if there are huge pages, [`Way::Socket`] into a pipe otherwise, and [`Way::Copy`] into anything
    /// else.
    ///
    /// # Errors
    /// [`Error::NotAPipe`] if the way needs a pipe; [`Error::Invalid`] for a chunk of 0 bytes, for less
    /// [`memory`](Self::memory) than two chunks, and for a [`Way`] of a `Repeat` or a `Transfer`; `ENOMEM`.
    pub fn open<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        let way = match self.own.way {
            Some(way) => way,
            None if pipe::of(&sink)?.is_some() => {
                self.own.any_way = true;
                Way::Fresh
            }
            None => Way::Copy,
        };
        match way {
            Way::Copy => Producer::make(self, Output::shared(sink), Reuse::AtOnce),
            Way::Socket => {
                let mut producer = Producer::make(self, Output::own(sink)?, Reuse::AtOnce)?;
                producer.outlet.copy_only();
                Ok(producer)
            }
            Way::Fresh => Producer::make(self, Output::own(sink)?, Reuse::Fresh(None)),
            Way::Recycle => self.recycle(sink),
            Way::Repeat => Err(Error::Invalid(
                "only a Repeat sends in the way 'repeat'".into(),
            )),
            way => Err(Error::Invalid(format!(
                "only a Transfer moves bytes in the way '{way}'"
            ))),
        }
    }

    fn recycle<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        let output = Output::own(sink)?;
        let chunk = self.checked_chunk(RECYCLED_CHUNK)?;
        self.chunk = Some(chunk);
        let two = 2 * chunk.next_multiple_of(linux::page_size());
        match self.own.memory {
            Some(memory) if memory < two => Err(Error::Invalid(format!(
                "memory of {memory} bytes has no room for two chunks of {chunk} bytes"
            ))),
            _ => Producer::make(self, output, Reuse::Recycle(Recycle::default())),
        }
    }

    /// Creates a [`Repeat`], which sends `pattern` repeatedly from pages that never change.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty pattern; `ENOMEM`.
    pub fn repeat<Fd: AsFd>(self, sink: Fd, pattern: &[u8]) -> Result<Repeat<Fd>> {
        Repeat::make(sink, pattern, self)
    }
}

impl<Fd: AsFd> Producer<Fd> {
    /// Creates a producer that chooses the way by the kind of `sink`; see [`ProducerOptions::open`].
    ///
    /// # Errors
    /// As [`ProducerOptions::open`].
    pub fn new(sink: Fd) -> Result<Self> {
        ProducerOptions::new().open(sink)
    }

    fn make(options: ProducerOptions, sink: Output<Fd>, reuse: Reuse) -> Result<Self> {
        let chunk = options.checked_chunk(memory::CHUNK)?;
        let calls = Calls::with(options.waiter.clone());
        let outlet = match sink.is_own() {
            true => {
                let may_use_socket = !options.waiter.never && chunk >= RUN;
                Outlet::into_pipe(calls, may_use_socket.then_some(options.pipe_size))
            }
            false => Outlet::new(calls),
        };
        let reuse = if sink.is_own() { reuse } else { Reuse::AtOnce };
        Ok(Self {
            outlet,
            windows: Windows::new(chunk, reuse),
            options,
            handed_over: VecDeque::new(),
            sent_of_first: 0,
            spare: None,
            reserved: 0,
            sent: 0,
            reported: false,
            deferred: None,
            owner: Owner::this(),
            sink,
        })
    }

    /// Returns what was sent so far, and how.
    pub fn report(&self) -> ProducerReport {
        ProducerReport {
            bytes: self.sent,
            way: match self.windows.way() {
                way if self.outlet.gives() && way != Way::Copy => way,
                _ => self.outlet.way_of_copies(),
            },
            calls: self.outlet.calls.made(),
        }
    }

    /// Returns the number of bytes that were accepted and not sent yet.
    pub fn unsent(&self) -> u64 {
        let handed_over: usize = self.handed_over.iter().map(|pages| pages.len()).sum();
        (self.windows.gathered().len() + handed_over - self.sent_of_first) as u64
    }

    /// Returns the bytes that were gathered through [`io::Write`] or committed, and not sent yet.
    /// Pages that were handed over to [`send_pages`](Self::send_pages) come after them and are not included.
    pub fn buffer(&self) -> &[u8] {
        self.windows.gathered()
    }

    /// Returns the number of bytes that are left in the window: a shorter [`write`](io::Write::write) makes no system
    /// call.
    #[inline]
    pub fn room(&self) -> usize {
        match self.handed_over.is_empty() {
            true => self.windows.room(),
            false => 0,
        }
    }

    /// Returns the sink that the producer was created with.
    pub fn get_ref(&self) -> &Fd {
        self.sink.given()
    }

    /// Sets the deadline for waiting and sending; `None` removes it. See [`ProducerOptions::deadline`].
    pub fn set_deadline(&mut self, at: impl Into<Option<Instant>>) {
        self.options.waiter.deadline = at.into();
        self.outlet.calls.wait_as(self.options.waiter.clone());
    }

    /// Returns the sink that the producer was created with, and the bytes that were not sent. Sends
    /// nothing; after a [`flush`](io::Write::flush) that has succeeded, there are no such bytes.
    pub fn into_parts(mut self) -> (Fd, Vec<u8>) {
        let mut unsent = self.buffer().to_vec();
        self.windows.gathered = 0;
        for pages in self.handed_over.drain(..) {
            unsent.extend_from_slice(&pages[std::mem::take(&mut self.sent_of_first)..]);
        }
        (self.sink.take_back(), unsent)
    }

    /// Returns the size of a chunk in bytes: the most that one [`reserve`](Self::reserve) lends.
    pub fn chunk(&self) -> usize {
        self.windows.chunk
    }

    /// Lends `n` bytes of memory to fill. Their contents are unspecified. Bytes that were gathered through
    /// [`io::Write`] are sent first.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than [`chunk`](Self::chunk) bytes; `ENOMEM` if there is not enough
    /// memory; the errors of sending.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Result<&mut [u8]> {
        if n > self.chunk() {
            return Err(Error::Invalid(format!(
                "{n} bytes are more than a chunk of {}",
                self.chunk()
            )));
        }
        self.reserved = 0;
        self.send_gathered()?;
        if !self.windows.has(n) {
            self.next_window(n)?;
        }
        self.reserved = n;
        Ok(self.windows.lend(n))
    }

    /// Sends the first `n` bytes of the memory that the last [`reserve`](Self::reserve) lent.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more bytes than were lent; [`Error::Moving`] as write(2) or vmsplice(2).
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
        self.reported = false;
        self.windows.gathered = n;
        self.send_gathered()
    }

    /// Sends all of `pages`, after the gathered bytes. A pipe gets the pages themselves, and no process can write to
    /// them any more. Any other output, and a pipe that does not accept pages, gets a copy of the bytes.
    ///
    /// ```
    /// let pipe = fullbore::Pipe::new()?;
    /// let mut out = fullbore::Producer::new(&pipe.writer)?;
    /// let mut pages = fullbore::Pages::new(64 * 1024)?;
    /// pages.fill(7);
    /// out.send_pages(pages)?;
    /// assert_eq!(out.report().bytes, 64 * 1024);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Moving`] as write(2) or vmsplice(2). The producer keeps the pages: the next call sends the rest of them
    /// first.
    pub fn send_pages(&mut self, pages: Pages) -> Result<()> {
        // If the lent memory were committed now, its bytes would be sent before the pages.
        self.reserved = 0;
        self.reported = false;
        if pages.len() > memory::FIRST {
            self.make_roomy();
        }
        if !pages.is_empty() {
            self.handed_over.push_back(pages);
        }
        self.send_gathered()
    }

    /// Returns the last pages that were [sent](Self::send_pages) whole, to be filled and sent again; `None` if there are
    /// none. They have their whole length and unspecified contents, and are on new pages where a pipe refers to the old
    /// ones, which is cheaper than another mapping.
    pub fn reuse_pages(&mut self) -> Option<Pages> {
        let mut pages = self.spare.take()?;
        pages.renew().is_ok().then_some(pages)
    }

    /// Sends the remaining bytes, and returns the totals. With [`Way::Recycle`] it returns once the last byte has been
    /// read, unless the producer is [`nonblocking`](ProducerOptions::nonblocking).
    ///
    /// # Errors
    /// The errors of sending. The error contains the producer with its unsent bytes, so that a nonblocking producer, or
    /// one whose deadline has passed, can continue:
    ///
    /// ```
    /// use std::io::{ErrorKind, Read, Write};
    /// use std::os::fd::AsFd;
    /// let pipe = fullbore::Pipe::new()?;
    /// let mut reader = std::fs::File::from(pipe.reader);
    /// let mut other = std::fs::File::from(pipe.writer.try_clone()?);
    /// let full = fullbore::PipeEnd::new(reader.as_fd())?.capacity()?;
    /// other.write_all(&vec![0; full])?;
    /// let mut out = fullbore::ProducerOptions::new().nonblocking(true).open(pipe.writer)?;
    /// out.write_all(b"hello")?;
    /// let produced = loop {
    ///     match out.finish() {
    ///         Ok(produced) => break produced,
    ///         Err(unfinished) if unfinished.error.kind() == ErrorKind::WouldBlock => {
    ///             // A program would wait with poll(2) here; this one is its own reader.
    ///             reader.read_exact(&mut vec![0; full])?;
    ///             out = *unfinished.producer;
    ///         }
    ///         Err(unfinished) => return Err(unfinished.into()),
    ///     }
    /// };
    /// assert_eq!(produced.bytes, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn finish(mut self) -> Result<ProducerReport, Unfinished<Self>> {
        let sent = self.send_gathered().and_then(|()| {
            let (sink, waiter) = (self.sink.as_fd(), &mut self.outlet.calls.waiter);
            self.windows.wait_for_readers(self.sent, sink, waiter)
        });
        match sent {
            Ok(()) => Ok(self.report()),
            Err(error) => {
                // If dropping the producer sent the rest, the number of sent bytes in the error would be wrong.
                self.reported = true;
                Err(Unfinished {
                    error,
                    producer: Box::new(self),
                })
            }
        }
    }
}

impl<Fd: AsFd> io::Write for Producer<Fd> {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(self.take(buf)?)
    }

    /// Gathers as many bytes of `bufs` as it can, with no more system calls than for a single slice of
    /// their total length.
    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for buf in bufs {
            match self.take(buf) {
                Ok(n) => {
                    taken += n;
                    if n < buf.len() {
                        break;
                    }
                }
                Err(error) if taken > 0 => {
                    self.defer(error);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.send_gathered()?)
    }
}

impl<Fd: AsFd> Producer<Fd> {
    /// Gathers bytes of `buf`, and returns how many.
    #[inline]
    fn take(&mut self, buf: &[u8]) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        // This overwrites the lent memory, and the caller has got no error about the bytes that are written now.
        self.reserved = 0;
        self.reported = false;
        if buf.len() < self.room() {
            return Ok(self.windows.put(buf));
        }
        self.take_past_the_window(buf)
    }

    /// Continues `take` where the window is full: sends it, and gets a new one.
    #[cold]
    fn take_past_the_window(&mut self, buf: &[u8]) -> Result<usize> {
        if self.deferred.is_some() || !self.handed_over.is_empty() {
            self.send_gathered()?;
        }
        let is_copied = matches!(self.windows.way(), Way::Copy);
        if self.buffer().is_empty() && buf.len() >= self.chunk() && is_copied {
            // Nothing to gather: once the pipe has been grown, the bytes are sent from the caller's memory.
            if !self.windows.settled {
                self.next_window(1)?;
            }
            return self.copy_from(buf);
        }
        if self.windows.room() == 0 {
            self.send_gathered()?;
        }
        if self.windows.room() == 0 {
            self.next_window(1)?;
        }
        let n = self.windows.put(buf);
        if self.windows.room() == 0 {
            // The bytes are accepted, whether or not they can be sent now: unsent bytes stay gathered, and the next
            // call returns the error.
            if let Err(error) = self.send_gathered() {
                self.defer(error);
            }
        }
        Ok(n)
    }

    /// Sends bytes of `buf` from where they are, and returns how many. One call sends no more than a socket holds, and
    /// what is left would be gathered if it is less than a chunk, so it makes more of them.
    fn copy_from(&mut self, buf: &[u8]) -> Result<usize> {
        let mut sent = 0;
        loop {
            let copied = self.outlet.copy(self.sink.as_fd(), &buf[sent..], None);
            match self.went(copied.map(Sent::Copied)) {
                Ok(copied) => sent += copied.bytes(),
                Err(error) if sent > 0 => {
                    self.defer(error);
                    return Ok(sent);
                }
                Err(error) => return Err(error),
            }
            if buf.len() - sent < RUN || self.outlet.way_of_copies() != Way::Socket {
                return Ok(sent);
            }
        }
    }

    /// Sends the gathered bytes, and then the pages that were handed over. Unsent bytes stay where they are.
    #[inline]
    fn send_gathered(&mut self) -> Result<()> {
        self.owner.check("producer")?;
        if let Some(error) = self.deferred.take() {
            self.reported = true;
            return Err(error);
        }
        if !self.buffer().is_empty() {
            self.send_window()?;
        }
        if !self.handed_over.is_empty() {
            self.send_handed_over()?;
        }
        Ok(())
    }

    fn send_window(&mut self) -> Result<()> {
        let mut from = self.windows.window.start;
        let is_long = self.buffer().len() >= least_to_give(self.chunk());
        let offered = is_long && self.windows.may_be_given();
        let mut given = false;
        while !self.windows.gathered().is_empty() {
            let bytes = self.windows.gathered();
            // SAFETY: fresh pages are released to the kernel before they could be written to again; recycled pages are
            // written to after the pipe has released them, and `Way::Recycle` documents that readers have to copy. The
            // memory is a private mapping.
            let sent = unsafe { self.outlet.send(self.sink.as_fd(), bytes, offered, None) };
            let sent = self.went(sent)?;
            given = matches!(sent, Sent::Given(_));
            self.windows.went(sent, self.sent);
            if given {
                // If the rest is copied, only its memory can be filled again.
                from = self.windows.window.start;
            }
        }
        match given {
            true => self.windows.after_giving(),
            false => self.windows.after_copying(from),
        }
        Ok(())
    }

    #[cold]
    fn send_handed_over(&mut self) -> Result<()> {
        while let Some(first) = self.handed_over.front() {
            let bytes = &first[self.sent_of_first..];
            let (len, offered) = (
                first.len(),
                bytes.len() >= least_to_give(self.windows.chunk),
            );
            // SAFETY: no other code can access the pages, nothing writes to them any more, and they are a private
            // mapping, whose pages may live on in the pipe after munmap.
            let sent = unsafe { self.outlet.send(self.sink.as_fd(), bytes, offered, None) };
            self.sent_of_first += self.went(sent)?.bytes();
            if self.sent_of_first == len {
                self.sent_of_first = 0;
                self.spare = self.handed_over.pop_front();
            }
        }
        Ok(())
    }

    /// Records the result of a call of the outlet.
    fn went(&mut self, sent: Result<Sent, Failed>) -> Result<Sent> {
        if self.sink.is_own() && !self.outlet.gives() {
            self.windows.copy_only();
        }
        match sent {
            Ok(sent) => {
                self.sent += sent.bytes() as u64;
                Ok(sent)
            }
            Err((operation, errno)) => {
                let waiter = &self.outlet.calls.waiter;
                self.reported = waiter.stopped().is_none() && errno != Errno::AGAIN;
                Err(waiter.error(TransferSide::Sink, operation, errno, self.sent))
            }
        }
    }

    /// Gets the next window, of at least `at_least` bytes.
    fn next_window(&mut self, at_least: usize) -> Result<()> {
        if !self.windows.settled {
            self.make_roomy();
            let pays_off = match self.options.own.any_way {
                true => pages_pay_off(),
                false => linux::shares_pages(),
            };
            if self.outlet.gives() && !pays_off {
                self.outlet.copy_only();
                self.windows.copy_only();
            }
            self.windows
                .settle(at_least, &self.options, self.sink.as_fd())?;
        }
        let waiter = &mut self.outlet.calls.waiter;
        self.windows
            .next(at_least, self.sent, self.sink.as_fd(), waiter)
    }

    /// Grows the output once, if it is a pipe and the options allow it.
    fn make_roomy(&mut self) {
        let capacity = self.options.roomy();
        self.outlet.make_roomy(self.sink.as_fd(), capacity);
    }

    /// Keeps an error for the next call, because this one cannot return it.
    #[cold]
    fn defer(&mut self, error: Error) {
        self.reported = false;
        match error {
            // The signal was consumed.
            Error::Stopped {
                by: Stopped::Interrupted,
                ..
            } => self.outlet.calls.waiter.note_signal(),
            // The next call finds out by itself whether it may continue, or would have to wait.
            Error::Stopped { .. } => {}
            _ if error::errno(&error) == Some(Errno::AGAIN) => {}
            _ => self.deferred = Some(error),
        }
    }
}

/// The sink, or the duplicate of it that a pipe is written through.
impl<Fd: AsFd> AsFd for Producer<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }
}

impl<Fd: AsFd> Drop for Producer<Fd> {
    fn drop(&mut self) {
        // What is left is sent, unless an error about it has been returned.
        let is_interrupted = |error: &Error| error.kind() == io::ErrorKind::Interrupted;
        if self.owner.is_here() && self.unsent() > 0 && !self.reported {
            // A caller could not resume after a signal any more.
            while self.send_gathered().as_ref().is_err_and(is_interrupted) {}
        }
    }
}

/// The error of a producer that could not finish, with the producer and its unsent bytes.
///
/// Dropping it sends nothing: the unsent bytes are lost.
///
/// # fork
/// As [`Producer`].
pub struct Unfinished<Producer> {
    /// Why the bytes could not be sent.
    pub error: Error,
    /// The producer, which can continue.
    pub producer: Box<Producer>,
}

stands_for_its_error!(Unfinished);

impl<Producer> fmt::Debug for Unfinished<Producer> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<Producer> std::error::Error for Unfinished<Producer> {}

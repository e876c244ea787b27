//! Memory to fd: [`Producer`], and the ways it can send.
//!
//! | way | guarantee | how a chunk goes out | file |
//! |---|---|---|---|
//! | copy | snapshot | write(2) | this one |
//! | fresh | snapshot | vmsplice(2); its pages are never written to again | `fresh.rs` |
//! | recycle | needs a reader that copies | vmsplice(2); its pages are used again once the pipe has let go of them | `recycle.rs` |
//! | repeat | snapshot | tee(2) or vmsplice(2) of pages that never change | `repeat.rs` |
//!
//! The one idea: all ways fill a *window*, a stretch of memory that no pipe refers to. They differ
//! in how a window is sent, and in where the next one comes from.

mod fresh;
mod options;
mod output;
mod owner;
mod recycle;
mod repeat;
pub(crate) mod stage;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::error::{Error, Result, Side};
use crate::linux::{self, Calls};
use crate::memory::{self, Geometry, Memory};
use crate::pages::{BackedBy, Pages};
use crate::pipe::{PipeEnd, roomy};
use fresh::Fresh;
use options::{BY_REFERENCE_FROM, CHUNK};
pub use options::{Produced, ProducerOptions, Way};
use output::Output;
use owner::Owner;
use recycle::Recycle;
pub use repeat::Repeat;

/// The same for recycled pages, which come back sooner, and so nearer, in smaller chunks.
const RECYCLED_CHUNK: usize = 256 * 1024;

impl ProducerOptions {
    /// The way that suits the output: [`fresh`](Self::fresh) on a pipe where there are huge
    /// pages, [`copy`](Self::copy) elsewhere.
    ///
    /// # Errors
    /// As the two.
    pub fn open<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        if PipeEnd::of(&sink)?.is_some() {
            self.any_way = true;
            self.fresh(sink)
        } else {
            self.copy(sink)
        }
    }

    /// Sends by write(2), to anything that can be written to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a chunk of 0 bytes; `ENOMEM`.
    pub fn copy<Fd: AsFd>(self, sink: Fd) -> Result<Producer<Fd>> {
        Producer::make(self, Output::shared(sink), Policy::Copy)
    }

    /// Sends pages into a pipe and never writes to them again: the reader gets what the bytes
    /// were when they were sent, whatever it does with them.
    ///
    /// Where the kernel refuses vmsplice(2), which shows before the first byte has gone, bytes are
    /// sent by [`copy`](Self::copy) instead; [`Producer::way`] then says so.
    ///
    /// # Errors
    /// [`Error::NotAPipe`]; otherwise as [`copy`](Self::copy).
    pub fn fresh<Fd: AsFd>(self, sink: Fd) -> Result<Producer<Fd>> {
        Producer::make(self, Output::own(sink)?, Policy::Fresh(None))
    }

    /// Sends pages into a pipe and uses them again once the number of queued bytes proves that
    /// the pipe has let go of them, however often somebody resizes it. Degrades as
    /// [`fresh`](Self::fresh) does.
    ///
    /// # Safety
    /// Every reader of the pipe must *copy* the bytes out of it, as read(2) does, or drop them. A
    /// reader that moves them on by reference (splice(2) or tee(2) into another pipe or into a socket)
    /// takes them out of the queue while they can still be read elsewhere, and what is read
    /// there changes as the pages are written to again. `cat`, `tee`, `pv` and others do just that in
    /// their newer versions.
    ///
    /// Bytes that others write into the same pipe count as ours: while they keep it from running
    /// empty, this waits.
    ///
    /// # Errors
    /// [`Error::NotAPipe`]; [`Error::Invalid`] for a ring of less than two chunks; otherwise as
    /// [`copy`](Self::copy).
    pub unsafe fn recycle<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        let output = Output::own(sink)?;
        let chunk = self.checked_chunk(RECYCLED_CHUNK)?;
        self.chunk = Some(chunk);
        let two = 2 * chunk.next_multiple_of(linux::page_size());
        match self.ring {
            Some(ring) if ring < two => Err(Error::Invalid(format!(
                "a ring of {ring} bytes has no room for two chunks of {chunk} bytes"
            ))),
            _ => Producer::make(self, output, Policy::Recycle(Recycle::default())),
        }
    }

    /// Sends `pattern` again and again, from pages that never change.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty pattern; `ENOMEM`.
    pub fn repeat<Fd: AsFd>(self, sink: Fd, pattern: &[u8]) -> Result<Repeat<Fd>> {
        Repeat::make(sink, pattern, self)
    }
}

/// Where the next window comes from, and whether windows are sent by reference.
#[derive(Debug)]
enum Policy {
    Copy,
    /// `None` until there is memory.
    Fresh(Option<Fresh>),
    Recycle(Recycle),
}

impl Policy {
    /// Whether it knows which of the producer's memory a pipe refers to.
    #[inline]
    fn has_memory(&self) -> bool {
        matches!(self, Policy::Fresh(Some(_)) | Policy::Recycle(_))
    }

    fn way(&self) -> Way {
        match self {
            Policy::Copy => Way::Copy,
            Policy::Fresh(_) => Way::Fresh,
            Policy::Recycle(_) => Way::Recycle,
        }
    }
}

/// Writes to any fd as fast as its guarantee allows.
///
/// Either lend a slice with [`reserve`](Self::reserve), fill it, and send it with
/// [`commit`](Self::commit); or hand over memory of your own with [`send`](Self::send); or use it
/// through [`io::Write`], which gathers small writes and sends them in chunks.
/// [`finish`](Self::finish) sends what is left, and says how much went out.
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
/// A producer that gives pages to a pipe sends everything to the pipe that `sink` was when the producer
/// was made, through a duplicate of its descriptor: also when another file is put behind standard
/// output (dup2(2)) afterwards. The pipe has no end of file before the producer is dropped. A pipe
/// is made roomy for it; [`ProducerOptions::pipe_size`] says what that costs others.
///
/// # Errors and waiting
/// After an error, what was not sent stays in the producer, and goes first with the next call: it must
/// not be written, committed or sent again. [`unsent`](Self::unsent) says how much that is. An error that a
/// [`write`](io::Write::write) could not return, because it had taken the bytes, is returned by
/// the next call.
///
/// With [`ProducerOptions::nonblocking`] this is how to go on after
/// [`WouldBlock`](io::ErrorKind::WouldBlock): wait until the sink can be written to (poll(2)), and call
/// [`flush`](io::Write::flush) until it returns `Ok`.
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
/// What is in a producer when it is dropped is sent as far as that goes, and errors are lost, as with
/// [`io::BufWriter`]: call [`finish`](Self::finish) to see them. Nothing is sent if the caller has
/// seen an error since the last bytes were taken, other than `WouldBlock` and [`Error::Stopped`].
///
/// # fork
/// A child that fork(2) made must not use its copy of a producer: what was gathered in it would go out
/// twice. Dropped in the child, a copy sends nothing.
#[derive(Debug)]
pub struct Producer<Fd: AsFd> {
    sink: Output<Fd>,
    calls: Calls,
    policy: Policy,
    options: ProducerOptions,
    memory: Memory,
    /// Whether the output is known to be long: what suits that has been set up.
    settled: bool,
    /// Whether the output was asked to hold more.
    roomy: bool,
    chunk: usize,
    /// The stretch of memory that is being filled: no pipe refers to it.
    window: Range<usize>,
    /// Bytes at the start of the window that wait to be sent.
    gathered: usize,
    /// Memory of the caller's that waits to be sent after that.
    handed_over: VecDeque<HandedOver>,
    /// Bytes lent by the last `reserve`.
    reserved: usize,
    sent: u64,
    sent_by_reference: u64,
    /// The error of a send that nobody has been told of yet.
    untold: Option<(&'static str, Errno)>,
    /// Whether the caller knows that what is gathered could not be sent.
    told: bool,
    owner: Owner,
}

/// Memory that was the caller's, and how much of it has gone out.
#[derive(Debug)]
struct HandedOver {
    pages: Pages,
    sent: usize,
}

impl<Fd: AsFd> Producer<Fd> {
    /// A producer that sends the way that suits `sink`; see [`ProducerOptions::open`].
    ///
    /// # Errors
    /// As [`ProducerOptions::open`].
    pub fn new(sink: Fd) -> Result<Self> {
        ProducerOptions::new().open(sink)
    }

    fn make(options: ProducerOptions, sink: Output<Fd>, policy: Policy) -> Result<Self> {
        let chunk = options.checked_chunk(CHUNK)?;
        let policy = if sink.is_own() { policy } else { Policy::Copy };
        Ok(Self {
            calls: Calls::with(options.waiter()),
            policy,
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

    /// The way bytes go out now. It turns to [`Way::Copy`] with the first long send where the kernel
    /// refuses vmsplice(2) or has no memory to map, or where the way was left open and there are no huge
    /// pages, or none that the process's memory cgroup has room for.
    pub fn way(&self) -> Way {
        self.policy.way()
    }

    /// Bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that were taken and have not been sent yet.
    pub fn unsent(&self) -> u64 {
        let handed_over = self.handed_over.iter().map(|h| h.rest().len() as u64);
        self.gathered as u64 + handed_over.sum::<u64>()
    }

    /// The bytes that were gathered through [`io::Write`] or committed, and have not been sent yet.
    /// Pages that were handed over to [`send`](Self::send) come after them, and are not among them.
    pub fn buffer(&self) -> &[u8] {
        &self.memory[self.window.start..][..self.gathered]
    }

    /// What the producer was made with.
    pub fn get_ref(&self) -> &Fd {
        self.sink.given()
    }

    /// Stops waiting and sending at this time, or with `None` never; see
    /// [`ProducerOptions::deadline`].
    pub fn set_deadline(&mut self, at: Option<Instant>) {
        self.options.deadline = at;
        self.calls.wait_as(self.options.waiter());
    }

    /// Sends what is left, and gives back what the producer was made with.
    ///
    /// # Errors
    /// As sending; the error gives the producer back, with what was not sent still in it.
    pub fn into_inner(mut self) -> Result<Fd, Unfinished<Fd>> {
        match self.send_gathered() {
            Ok(()) => Ok(self.sink.take_back()),
            Err(error) => Err(self.unfinished(error)),
        }
    }

    /// Sends nothing, and gives back what the producer was made with, and the bytes that were not
    /// sent.
    pub fn into_parts(mut self) -> (Fd, Vec<u8>) {
        let mut unsent = self.buffer().to_vec();
        self.gathered = 0;
        for handed_over in self.handed_over.drain(..) {
            unsent.extend_from_slice(handed_over.rest());
        }
        (self.sink.take_back(), unsent)
    }

    /// System calls made so far to send.
    pub fn calls(&self) -> u64 {
        self.calls.made()
    }

    /// What the kernel backs the producer's memory with now.
    pub fn backed_by(&self) -> BackedBy {
        match &self.memory {
            Memory::Pages(pages) => pages.backed_by(),
            Memory::First(_) => BackedBy::Unknown {
                reason: "nothing has been mapped yet".into(),
            },
        }
    }

    /// Bytes of one chunk: the most that one [`reserve`](Self::reserve) lends.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Lends `n` bytes of memory to fill. What they hold at first is unspecified. Bytes that were
    /// gathered through [`io::Write`] are sent before.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than [`chunk`](Self::chunk) bytes; `ENOMEM` where there is no memory
    /// for so much; those of sending.
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

    /// Sends the first `n` bytes of what [`reserve`](Self::reserve) lent last.
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
    /// nobody can write to them any more; anything else, and a pipe that takes no pages, gets their
    /// bytes.
    ///
    /// ```
    /// let pipe = fullbore::Pipe::new()?;
    /// let mut out = fullbore::Producer::new(&pipe.writer)?;
    /// let mut pages = fullbore::Pages::new(64 * 1024)?;
    /// pages.fill(7);
    /// out.send(pages)?;
    /// assert_eq!(out.sent(), 64 * 1024);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Moving`] as write(2) or vmsplice(2). The pages are the producer's all the same: what
    /// was not sent of them goes first with the next call.
    pub fn send(&mut self, pages: Pages) -> Result<()> {
        // What was lent would lie in front of the pages if it were committed now.
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

    /// Sends what is left and says what went out. With [`Way::Recycle`] it returns when the last
    /// byte was taken, unless it is [`nonblocking`](ProducerOptions::nonblocking).
    ///
    /// # Errors
    /// As sending; the error gives the producer back, with what was not sent still in it, so that a
    /// nonblocking one, or one whose deadline has passed, can go on:
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
    ///             out = unfinished.into_inner();
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
                way: self.policy.way(),
                calls: self.calls.made(),
            }),
            Err(error) => Err(self.unfinished(error)),
        }
    }

    fn unfinished(mut self, error: Error) -> Unfinished<Fd> {
        // What the error says was sent would not be true any more if dropping it sent the rest.
        self.told = true;
        Unfinished {
            error,
            producer: Box::new(self),
        }
    }

    /// Waits until nobody needs recycled pages any more.
    fn wait_for_readers(&mut self) -> Result<()> {
        match &self.policy {
            Policy::Recycle(ring) if !self.options.never => ring
                .wait_until_released(self.sent, self.sent, self.sink.as_fd(), self.calls.waiter())
                .map(drop)
                .map_err(|errno| self.failed("vmsplice", errno)),
            _ => Ok(()),
        }
    }

    /// Makes the window the next stretch of at least `at_least` bytes that no pipe refers to.
    fn next_window(&mut self, at_least: usize) -> Result<()> {
        debug_assert_eq!(self.gathered, 0);
        // A window too short to go by reference would be copied, and so be the next one again.
        let at_least = at_least.max(BY_REFERENCE_FROM.min(self.chunk));
        if !self.settled {
            self.settle(at_least)?;
        }
        let chunk = self.chunk;
        self.window = match (&mut self.policy, &mut self.memory) {
            (Policy::Fresh(Some(fresh)), Memory::Pages(memory)) => {
                fresh.window(memory, chunk, at_least)?
            }
            (Policy::Recycle(ring), _) => ring
                .window(
                    chunk,
                    at_least,
                    self.sent,
                    self.sink.as_fd(),
                    self.calls.waiter(),
                )
                .map_err(|errno| self.failed("vmsplice", errno))?,
            (_, memory) => 0..chunk.min(memory.len()),
        };
        if self.window.len() < at_least {
            return Err(Error::system("mmap")(Errno::NOMEM));
        }
        Ok(())
    }

    /// Makes room in the output, once, if it is a pipe and the caller does not mind.
    fn make_roomy(&mut self) {
        if !std::mem::replace(&mut self.roomy, true)
            && self.options.pipe_size != Some(0)
            && let Ok(Some(pipe)) = PipeEnd::of(&self.sink)
        {
            // A pipe that stays small is only slower.
            let _ = pipe.grow(self.options.pipe_size.unwrap_or_else(roomy));
        }
    }

    /// Once there is more to send than fits into the memory of the start: makes room in the pipe, and
    /// gets the memory that the way needs. Where there is none to be had, bytes are copied, from what
    /// memory there is.
    fn settle(&mut self, at_least: usize) -> Result<()> {
        self.make_roomy();
        let geometry = Geometry::here();
        let huge = !self.options.base_pages;
        if self.options.any_way
            && !(linux::has_huge_pages() && geometry.huge_that_suits().is_some())
        {
            // Fresh base pages, faulted in one by one, are slower than the copy that they save.
            self.policy = Policy::Copy;
        }
        let chunk = self.chunk.next_multiple_of(linux::page_size());
        let mapped = match &mut self.policy {
            Policy::Copy => Memory::map(chunk, huge),
            Policy::Fresh(fresh) => {
                let fresh = fresh.insert(Fresh::new(chunk, huge, &geometry));
                Memory::map(fresh.memory(), huge)
            }
            Policy::Recycle(ring) => {
                let enough = PipeEnd::new(self.sink.as_fd())?.capacity()? + 2 * chunk;
                let len = ring.set_len(self.options.ring.unwrap_or(enough));
                Memory::map(len, huge)
            }
        };
        match mapped {
            Ok(pages) => self.memory = Memory::Pages(pages),
            Err(error) => {
                self.memory.grow_for_copying(self.chunk, huge);
                if self.memory.len() < at_least {
                    return Err(error);
                }
                self.policy = Policy::Copy;
            }
        }
        self.settled = true;
        Ok(())
    }

    #[inline]
    fn send_gathered(&mut self) -> Result<()> {
        if let Some((operation, errno)) = self.untold.take() {
            self.told = true;
            return Err(self.moving(operation, errno));
        }
        if self.gathered > 0 {
            let from_pages = self.memory.is_pages() && self.policy.has_memory();
            if from_pages && self.is_worth_a_reference(self.gathered) {
                self.send_by_reference()?;
            } else {
                self.send_by_copy()?;
            }
        }
        if !self.handed_over.is_empty() {
            self.send_handed_over()?;
        }
        Ok(())
    }

    /// Whether it pays to send so many bytes by reference.
    #[inline]
    fn is_worth_a_reference(&self, bytes: usize) -> bool {
        bytes >= BY_REFERENCE_FROM.min(self.chunk)
    }

    fn send_by_copy(&mut self) -> Result<()> {
        let from = self.window.start;
        let filled = self.gathered == self.window.len();
        while self.gathered > 0 {
            let bytes = &self.memory[self.window.start..][..self.gathered];
            match self.calls.write(self.sink.as_fd(), bytes) {
                Ok(0) => return Err(self.broke_off("write", Errno::IO)),
                Ok(n) => self.went(n),
                Err(errno) => return Err(self.broke_off("write", errno)),
            }
        }
        // No pipe refers to what was copied: it can be filled again at once.
        self.window = match &self.policy {
            // Once the memory of the start was full, there is enough to send for more.
            _ if !self.settled && filled => 0..0,
            _ if !self.settled => 0..self.memory.len(),
            Policy::Copy => 0..self.chunk.min(self.memory.len()),
            _ => {
                let (start, end) = (from.next_multiple_of(linux::page_size()), self.window.end);
                // What is left has to be enough to go by reference, or it would never be left.
                if start + BY_REFERENCE_FROM.min(self.chunk) <= end {
                    start..end
                } else {
                    end..end
                }
            }
        };
        Ok(())
    }

    fn send_by_reference(&mut self) -> Result<()> {
        let page = linux::page_size();
        while self.gathered > 0 {
            let start = self.window.start;
            let bytes = &self.memory[start..][..self.gathered];
            // SAFETY: fresh pages are given back to the kernel before they could be written to
            // again; recycled ones are written to after the pipe has let go of them, and the
            // caller of `recycle` vouched for readers that copy. The pages are a mapping of our
            // own, which lives on in the pipe after munmap. `Output::own` made sure of the
            // direction, of a descriptor that nobody else can change.
            let answer = unsafe {
                self.calls
                    .vmsplice(self.sink.as_fd(), bytes, SpliceFlags::empty())
            };
            match answer {
                Ok(0) => return Err(self.broke_off("vmsplice", Errno::IO)),
                Ok(n) => {
                    self.went(n);
                    self.sent_by_reference += n as u64;
                    match &mut self.policy {
                        Policy::Fresh(Some(fresh)) => {
                            if let Memory::Pages(pages) = &mut self.memory
                                && let Err(error) = fresh.gave(pages, start..start + n)
                            {
                                self.told = true;
                                return Err(error);
                            }
                        }
                        Policy::Recycle(ring) => ring.gave(start..start + n, self.sent),
                        Policy::Copy | Policy::Fresh(None) => {}
                    }
                }
                Err(errno) if self.is_refused(errno) => return self.send_by_copy(),
                Err(errno) => return Err(self.broke_off("vmsplice", errno)),
            }
        }
        self.window.start = self
            .window
            .start
            .next_multiple_of(page)
            .min(self.window.end);
        Ok(())
    }

    #[cold]
    fn send_handed_over(&mut self) -> Result<()> {
        while let Some(first) = self.handed_over.front() {
            let bytes = first.rest();
            let len = bytes.len();
            let sink = self.sink.as_fd();
            let by_reference = self.is_worth_a_reference(len) && self.way() != Way::Copy;
            let (operation, answer) = if by_reference {
                // SAFETY: the pages belong to nobody else, nothing writes to them from here on, and
                // they live on in the pipe after munmap. The direction is as above.
                let answer = unsafe { self.calls.vmsplice(sink, bytes, SpliceFlags::empty()) };
                ("vmsplice", answer)
            } else {
                ("write", self.calls.write(sink, bytes))
            };
            match answer {
                Ok(0) => return Err(self.broke_off(operation, Errno::IO)),
                Ok(n) => {
                    self.sent += n as u64;
                    if by_reference {
                        self.sent_by_reference += n as u64;
                    }
                    if n == len {
                        self.handed_over.pop_front();
                    } else if let Some(first) = self.handed_over.front_mut() {
                        first.sent += n;
                    }
                }
                Err(errno) if by_reference && self.is_refused(errno) => {}
                Err(errno) => return Err(self.broke_off(operation, errno)),
            }
        }
        Ok(())
    }

    /// Whether the kernel does not give pages to this output at all, which shows before the first of
    /// them; from then on, bytes are copied.
    fn is_refused(&mut self, errno: Errno) -> bool {
        let refused = linux::is_refusal(errno) && self.sent_by_reference == 0;
        if refused {
            self.policy = Policy::Copy;
        }
        refused
    }

    /// Notes that the first `n` gathered bytes went out.
    fn went(&mut self, n: usize) {
        self.sent += n as u64;
        self.gathered -= n;
        self.window.start += n;
    }

    /// Notes that sending broke off; what did not go out stays gathered.
    #[cold]
    fn broke_off(&mut self, operation: &'static str, errno: Errno) -> Error {
        self.told = errno != Errno::AGAIN && self.calls.stopped().is_none();
        self.failed(operation, errno)
    }

    /// Keeps an error for the next call, where this one cannot return it.
    #[cold]
    fn keep_for_later(&mut self, error: &Error) {
        self.told = false;
        let (operation, errno) = match error {
            // The next call finds out by itself whether it may go on.
            Error::Stopped { .. } => return,
            Error::Moving {
                operation, errno, ..
            }
            | Error::System { operation, errno } => (*operation, Errno::from_io_error(errno)),
            _ => ("write", None),
        };
        // And whether it would have to wait.
        if errno != Some(Errno::AGAIN) {
            self.untold = Some((operation, errno.unwrap_or(Errno::IO)));
        }
    }

    /// What a call means that failed with `errno`: nothing failed where its wait was ended.
    fn failed(&self, operation: &'static str, errno: Errno) -> Error {
        match self.calls.stopped() {
            Some(by) => Error::Stopped {
                by,
                moved: self.sent,
            },
            None => self.moving(operation, errno),
        }
    }

    fn moving(&self, operation: &'static str, errno: Errno) -> Error {
        Error::Moving {
            side: Side::Sink,
            operation,
            errno: errno.into(),
            moved: self.sent,
        }
    }
}

impl HandedOver {
    fn rest(&self) -> &[u8] {
        &self.pages[self.sent..]
    }
}

impl<Fd: AsFd> io::Write for Producer<Fd> {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(self.take(buf)?)
    }

    /// Takes all of `bufs` that can be gathered, with no more system calls than for one slice of their
    /// length together.
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
                    self.keep_for_later(&error);
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
    /// Gathers bytes of `buf`, and says how many.
    #[inline]
    fn take(&mut self, buf: &[u8]) -> Result<usize> {
        let start = self.window.start + self.gathered;
        let room = self.window.end.saturating_sub(start);
        if buf.is_empty() {
            return Ok(0);
        }
        // What was lent is overwritten now, and what is written now nobody knows to be unsendable.
        self.reserved = 0;
        self.told = false;
        if buf.len() < room && self.handed_over.is_empty() {
            self.memory[start..start + buf.len()].copy_from_slice(buf);
            self.gathered += buf.len();
            return Ok(buf.len());
        }
        self.take_past_the_window(buf)
    }

    /// The rest of `take`: fills the window, sends it, and takes a new one.
    #[cold]
    fn take_past_the_window(&mut self, buf: &[u8]) -> Result<usize> {
        if self.untold.is_some() || !self.handed_over.is_empty() {
            self.send_gathered()?;
        }
        if self.gathered == 0 && buf.len() >= self.chunk && self.way() == Way::Copy {
            // Nothing to gather: straight from the caller's memory, once the pipe is roomy.
            if !self.settled {
                self.next_window(1)?;
            }
            return match self.calls.write(self.sink.as_fd(), buf) {
                Ok(n) => {
                    self.sent += n as u64;
                    Ok(n)
                }
                Err(errno) => Err(self.broke_off("write", errno)),
            };
        }
        if self.gathered == self.window.len() {
            self.send_gathered()?;
        }
        if self.window.is_empty() {
            self.next_window(1)?;
        }
        let start = self.window.start + self.gathered;
        let n = buf.len().min(self.window.end - start);
        self.memory[start..start + n].copy_from_slice(&buf[..n]);
        self.gathered += n;
        if start + n == self.window.end {
            // The bytes are taken, whatever comes of sending them: what could not be sent stays
            // gathered, and the next call shows the error.
            if let Err(error) = self.send_gathered() {
                self.keep_for_later(&error);
            }
        }
        Ok(n)
    }
}

impl<Fd: AsFd> Drop for Producer<Fd> {
    fn drop(&mut self) {
        if self.unsent() > 0 && !self.told && self.owner.is_here() {
            // There is nobody to tell.
            let _ = self.send_gathered();
        }
    }
}

/// A producer whose last bytes could not be sent, and why; from [`Producer::finish`] and
/// [`Producer::into_inner`].
///
/// Dropped, it sends nothing: what is unsent is lost then.
pub struct Unfinished<Fd: AsFd> {
    error: Error,
    producer: Box<Producer<Fd>>,
}

impl<Fd: AsFd> Unfinished<Fd> {
    /// Why they could not be sent.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The producer, with what was not sent still in it.
    pub fn into_inner(self) -> Producer<Fd> {
        *self.producer
    }

    /// Both.
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

impl<Fd: AsFd> std::error::Error for Unfinished<Fd> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What this prints is what the error prints.
        self.error.source()
    }
}

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

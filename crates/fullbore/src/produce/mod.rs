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
mod recycle;
mod repeat;
pub(crate) mod stage;

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use rustix::process::{Pid, getpid};

use crate::error::{Error, Result, Side};
use crate::linux::{self, Calls};
use crate::memory::{self, Memory};
use crate::pages::{BackedBy, Pages};
use crate::pipe::{PipeEnd, ROOMY};
use crate::wait::Wait;
use fresh::Fresh;
use recycle::Recycle;
pub use repeat::Repeat;

/// Bytes of one system call unless told otherwise: half of a pipe of 1 MiB, so that one chunk is
/// filled while another is read.
const CHUNK: usize = 512 * 1024;

/// The same for recycled pages, which come back sooner, and so nearer, in smaller chunks.
const RECYCLED_CHUNK: usize = 256 * 1024;

/// Sends shorter than this are copied: below it, looking pages up and replacing them costs more
/// than the copy.
const BY_REFERENCE_FROM: usize = 32 * 1024;

/// How the bytes of a [`Producer`] go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// What is wanted of a [`Producer`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ProducerOptions {
    chunk: Option<usize>,
    ring: Option<usize>,
    pipe_size: Option<usize>,
    base_pages: bool,
    /// Whether the way was left to the producer.
    any_way: bool,
    wait: Wait,
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

    /// Bytes that an output pipe is grown to, as far as this user may; 1 MiB unless told
    /// otherwise. 0 leaves the pipe as it is. A pipe is never shrunk.
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

    /// The way that suits the output: [`fresh`](Self::fresh) on a pipe where there are huge
    /// pages, [`copy`](Self::copy) elsewhere.
    ///
    /// # Errors
    /// As the two.
    pub fn open<Fd: AsFd>(self, sink: Fd) -> Result<Producer<Fd>> {
        if PipeEnd::of(&sink)?.is_some() {
            Self {
                any_way: true,
                ..self
            }
            .fresh(sink)
        } else {
            self.copy(sink)
        }
    }

    /// Sends by write(2), to anything that can be written to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a chunk of 0 bytes; `ENOMEM`.
    pub fn copy<Fd: AsFd>(self, sink: Fd) -> Result<Producer<Fd>> {
        Producer::make(self, sink, Policy::Copy)
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
        writable(&sink)?;
        Producer::make(self, sink, Policy::Fresh(Fresh::default()))
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
    /// their newer versions. And `sink` must go on to refer to the same pipe until
    /// [`finish`](Producer::finish) has returned: nobody may put another one in its place (dup2(2)).
    ///
    /// Bytes that others write into the same pipe count as ours: while they keep it from running
    /// empty, this waits.
    ///
    /// # Errors
    /// [`Error::NotAPipe`]; [`Error::Invalid`] for a ring of less than two chunks; otherwise as
    /// [`copy`](Self::copy).
    pub unsafe fn recycle<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        writable(&sink)?;
        let chunk = self.checked_chunk(RECYCLED_CHUNK)?;
        self.chunk = Some(chunk);
        let two = 2 * chunk.next_multiple_of(linux::page_size());
        match self.ring {
            Some(ring) if ring < two => Err(Error::Invalid(format!(
                "a ring of {ring} bytes has no room for two chunks of {chunk} bytes"
            ))),
            _ => Producer::make(self, sink, Policy::Recycle(Recycle::default())),
        }
    }

    /// Sends `pattern` again and again, from pages that never change.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty pattern; `ENOMEM`.
    pub fn repeat<Fd: AsFd>(self, sink: Fd, pattern: &[u8]) -> Result<Repeat<Fd>> {
        Repeat::make(sink, pattern, self.pipe_size, self.wait)
    }

    /// The chunk, of a size that memory can be had for.
    fn checked_chunk(self, otherwise: usize) -> Result<usize> {
        match self.chunk.unwrap_or(otherwise) {
            0 => Err(Error::Invalid("a chunk of 0 bytes sends nothing".into())),
            chunk if chunk > isize::MAX as usize / 8 => Err(Error::Invalid(format!(
                "a chunk of {chunk} bytes is more than memory can hold"
            ))),
            chunk => Ok(chunk),
        }
    }
}

/// The pipe that `sink` is the write end of. On a read end, vmsplice(2) would write into the memory.
pub(crate) fn writable<Fd: AsFd>(sink: &Fd) -> Result<PipeEnd<'_>> {
    let pipe = PipeEnd::new(sink.as_fd())?;
    if pipe.is_writer()? {
        Ok(pipe)
    } else {
        Err(Error::system("vmsplice")(Errno::BADF))
    }
}

/// Where the next window comes from, and whether windows are sent by reference.
#[derive(Debug)]
enum Policy {
    Copy,
    Fresh(Fresh),
    Recycle(Recycle),
}

impl Policy {
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
/// [`commit`](Self::commit); or use it through [`io::Write`], which gathers small writes and
/// sends them in chunks. [`finish`](Self::finish) sends what is left, and says how much went out.
///
/// ```
/// use std::io::Write;
/// let pipe = fullbore::Pipe::new()?;
/// let mut out = fullbore::Producer::new(&pipe.writer)?;
/// writeln!(out, "hello")?;
/// assert_eq!(out.finish()?.bytes, 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Dropping
/// What was gathered is sent when a producer is dropped, as far as that goes: an error then is a
/// panic, unless the reader is gone or the thread is panicking already. Call
/// [`finish`](Self::finish) to handle it. A copy of a producer that fork(2) made in a child sends
/// nothing when dropped there.
#[derive(Debug)]
pub struct Producer<Fd: AsFd> {
    sink: Fd,
    calls: Calls,
    policy: Policy,
    options: ProducerOptions,
    memory: Memory,
    chunk: usize,
    /// The stretch of memory that is being filled: no pipe refers to it.
    window: Range<usize>,
    /// Bytes at the start of the window that wait to be sent.
    gathered: usize,
    /// Bytes lent by the last `reserve`.
    reserved: usize,
    sent: u64,
    sent_by_reference: u64,
    /// The error of a send that nobody has been told of yet.
    untold: Option<(&'static str, Errno)>,
    /// Whether the caller knows that what is gathered could not be sent.
    told: bool,
    owner: Pid,
}

/// What a producer has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    /// Bytes that went out.
    pub bytes: u64,
    /// How they went.
    pub way: Way,
    /// Moves of bytes that the kernel was asked for.
    pub calls: u64,
}

impl<Fd: AsFd> Producer<Fd> {
    /// A producer that sends the way that suits `sink`; see [`ProducerOptions::open`].
    ///
    /// # Errors
    /// As [`ProducerOptions::open`].
    pub fn new(sink: Fd) -> Result<Self> {
        ProducerOptions::new().open(sink)
    }

    fn make(options: ProducerOptions, sink: Fd, policy: Policy) -> Result<Self> {
        let chunk = options.checked_chunk(CHUNK)?;
        Ok(Self {
            calls: Calls::new(options.wait),
            policy,
            memory: Memory::first(chunk),
            options,
            chunk,
            window: 0..chunk.min(memory::FIRST),
            gathered: 0,
            reserved: 0,
            sent: 0,
            sent_by_reference: 0,
            untold: None,
            told: false,
            owner: getpid(),
            sink,
        })
    }

    /// The way bytes go out now. It turns to [`Way::Copy`] with the first long send where the kernel
    /// refuses vmsplice(2), or where the way was left open and there are no huge pages.
    pub fn way(&self) -> Way {
        self.policy.way()
    }

    /// Bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
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
    /// [`Error::Invalid`] for more than [`chunk`](Self::chunk) bytes; those of sending.
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
        if self.window.len() < n || !self.memory.is_pages() {
            self.next_window(n)?;
        }
        self.reserved = n;
        let start = self.window.start;
        Ok(&mut self.memory[start..start + n])
    }

    /// Sends the first `n` bytes of what [`reserve`](Self::reserve) lent last.
    ///
    /// After an error, what was not sent stays gathered and goes first with the next call: it must
    /// not be committed again. Dropping the producer then does not send it.
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
        self.gathered = n;
        self.send_gathered()
    }

    /// Sends what is left and says what went out. With [`Way::Recycle`] it returns when the last
    /// byte was taken, so that the memory may go.
    ///
    /// # Errors
    /// As sending.
    pub fn finish(mut self) -> Result<Produced> {
        self.send_gathered()?;
        if let Policy::Recycle(ring) = &mut self.policy {
            let sent = self.sent;
            ring.wait_until_released(sent, sent, self.sink.as_fd(), self.calls.wait())
                .map_err(|errno| Error::Moving {
                    side: Side::Sink,
                    operation: "vmsplice",
                    errno: errno.into(),
                    moved: sent,
                })?;
        }
        Ok(Produced {
            bytes: self.sent,
            way: self.policy.way(),
            calls: self.calls.made(),
        })
    }

    /// Makes the window the next stretch of at least `at_least` bytes that no pipe refers to.
    fn next_window(&mut self, at_least: usize) -> Result<()> {
        debug_assert_eq!(self.gathered, 0);
        // A window too short to go by reference would be copied, and so be the next one again.
        let at_least = at_least.max(BY_REFERENCE_FROM.min(self.chunk));
        let chunk = self.chunk;
        let memory = match &mut self.memory {
            Memory::Pages(pages) => pages,
            Memory::First(_) => {
                self.memory = Memory::Pages(self.settle()?);
                return self.next_window(at_least);
            }
        };
        self.window = match &mut self.policy {
            Policy::Copy => 0..chunk,
            Policy::Fresh(fresh) => fresh.window(memory, chunk, at_least)?,
            Policy::Recycle(ring) => {
                let (sent, wait) = (self.sent, self.calls.wait());
                ring.window(chunk, at_least, sent, self.sink.as_fd(), wait)
                    .map_err(|errno| self.moving("vmsplice", errno))?
            }
        };
        Ok(())
    }

    /// Once there is more to send than fits into the memory of the start: makes room in the pipe, and
    /// gets the memory that the way needs.
    fn settle(&mut self) -> Result<Pages> {
        let pipe = PipeEnd::of(&self.sink)?;
        if let Some(pipe) = &pipe
            && self.options.pipe_size != Some(0)
        {
            // A pipe that stays small is only slower.
            let _ = pipe.grow(self.options.pipe_size.unwrap_or(ROOMY));
        }
        if self.options.any_way && !linux::has_huge_pages() {
            // Fresh base pages, faulted in one by one, are slower than the copy that they save.
            self.policy = Policy::Copy;
        }
        let chunk = self.chunk.next_multiple_of(linux::page_size());
        let len = match (&mut self.policy, &pipe) {
            (Policy::Fresh(_), _) => fresh::memory_for(chunk),
            (Policy::Recycle(ring), Some(pipe)) => {
                let enough = pipe.capacity()? + 2 * chunk;
                ring.set_len(self.options.ring.unwrap_or(enough))
            }
            (Policy::Recycle(_), None) => return Err(Error::NotAPipe),
            (Policy::Copy, _) => chunk,
        };
        Memory::map(len, !self.options.base_pages)
    }

    #[inline]
    fn send_gathered(&mut self) -> Result<()> {
        if let Some((operation, errno)) = self.untold.take() {
            return Err(self.stopped(operation, errno));
        }
        if self.gathered == 0 {
            return Ok(());
        }
        let n = self.gathered;
        let by_reference = self.memory.is_pages()
            && n >= BY_REFERENCE_FROM.min(self.chunk)
            && self.policy.way() != Way::Copy;
        if by_reference {
            self.send_by_reference()
        } else {
            self.send_by_copy()
        }
    }

    fn send_by_copy(&mut self) -> Result<()> {
        let from = self.window.start;
        let filled = self.gathered == self.window.len();
        while self.gathered > 0 {
            let bytes = &self.memory[self.window.start..][..self.gathered];
            match self.calls.write(self.sink.as_fd(), bytes) {
                Ok(0) => return Err(self.stopped("write", Errno::IO)),
                Ok(n) => self.went(n),
                Err(errno) => return Err(self.stopped("write", errno)),
            }
        }
        // No pipe refers to what was copied: it can be filled again at once.
        self.window = match (&self.policy, &self.memory) {
            // Once the memory of the start was full, there is enough to send for more.
            (_, Memory::First(_)) if filled => 0..0,
            (_, Memory::First(first)) => 0..first.len(),
            (Policy::Copy, _) => 0..self.chunk,
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
            // own, which lives on in the pipe after munmap. `writable` made sure of the direction.
            let answer = unsafe {
                self.calls
                    .vmsplice(self.sink.as_fd(), bytes, SpliceFlags::empty())
            };
            match answer {
                Ok(0) => return Err(self.stopped("vmsplice", Errno::IO)),
                Ok(n) => {
                    self.went(n);
                    self.sent_by_reference += n as u64;
                    match &mut self.policy {
                        Policy::Copy => {}
                        Policy::Fresh(fresh) => {
                            if let Memory::Pages(pages) = &mut self.memory
                                && let Err(error) = fresh.gave(pages, start..start + n)
                            {
                                self.told = true;
                                return Err(error);
                            }
                        }
                        Policy::Recycle(ring) => ring.gave(start..start + n, self.sent),
                    }
                }
                Err(errno) if linux::is_refusal(errno) && self.sent_by_reference == 0 => {
                    self.policy = Policy::Copy;
                    return self.send_by_copy();
                }
                Err(errno) => return Err(self.stopped("vmsplice", errno)),
            }
        }
        self.window.start = self
            .window
            .start
            .next_multiple_of(page)
            .min(self.window.end);
        Ok(())
    }

    /// Notes that the first `n` gathered bytes went out.
    fn went(&mut self, n: usize) {
        self.sent += n as u64;
        self.gathered -= n;
        self.window.start += n;
    }

    /// Notes that sending broke off; what did not go out stays gathered.
    #[cold]
    fn stopped(&mut self, operation: &'static str, errno: Errno) -> Error {
        self.told = true;
        self.moving(operation, errno)
    }

    /// Keeps an error for the next call, where this one cannot return it.
    #[cold]
    fn keep_for_later(&mut self, error: &Error) {
        self.told = false;
        self.untold = match error {
            Error::Moving {
                operation, errno, ..
            }
            | Error::System { operation, errno } => {
                Some((operation, Errno::from_io_error(errno).unwrap_or(Errno::IO)))
            }
            _ => Some(("write", Errno::IO)),
        };
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

impl<Fd: AsFd> io::Write for Producer<Fd> {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let start = self.window.start + self.gathered;
        let room = self.window.end.saturating_sub(start);
        if buf.is_empty() {
            return Ok(0);
        }
        // What was lent is overwritten now, and what is written now nobody knows to be unsendable.
        self.reserved = 0;
        self.told = false;
        if buf.len() < room {
            self.memory[start..start + buf.len()].copy_from_slice(buf);
            self.gathered += buf.len();
            return Ok(buf.len());
        }
        self.write_past_the_window(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.send_gathered()?)
    }
}

impl<Fd: AsFd> Producer<Fd> {
    /// The rest of `write`: fills the window, sends it, and takes a new one.
    #[cold]
    fn write_past_the_window(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.untold.is_some() {
            self.send_gathered()?;
        }
        if self.gathered == 0 && buf.len() >= self.chunk && self.way() == Way::Copy {
            // Nothing to gather: straight from the caller's memory, once the pipe is roomy.
            if !self.memory.is_pages() {
                self.next_window(1)?;
            }
            return match self.calls.write(self.sink.as_fd(), buf) {
                Ok(n) => {
                    self.sent += n as u64;
                    Ok(n)
                }
                Err(errno) => Err(self.stopped("write", errno).into()),
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
        if self.gathered == 0 || self.told || getpid() != self.owner {
            return;
        }
        let unsent = self.gathered;
        if let Err(error) = self.send_gathered()
            && error.kind() != io::ErrorKind::BrokenPipe
            && !std::thread::panicking()
        {
            panic!("a Producer was dropped with {unsent} bytes unsent: {error}");
        }
    }
}

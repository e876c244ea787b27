//! Fd to memory: [`Consumer`], a [`BufRead`] for any readable fd.
//!
//! Its buffer is half of the L2 cache, so that bytes are still cached when they are used. It never resizes the pipe
//! that it reads from, because the writer may infer from the capacity when a page is free.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::memory::{self, Memory};
use crate::options::{Options, Resumes};
use fullbore_linux::messages::{MESSAGE, keeps_messages, read_next};
use fullbore_linux::{self as linux, Calls, Error, Ready, Result, TransferSide, pipe};

/// Bytes of one splice(2) to `/dev/null`: more than the capacity of most pipes.
const DISCARD_AT_ONCE: u64 = 16 * 1024 * 1024;

/// The options of a [`Consumer`].
pub type ConsumerOptions = Options<ForConsumer>;

/// The options that only a [`Consumer`] has: methods of [`ConsumerOptions`] set them.
#[derive(Debug, Clone, Default)]
pub struct ForConsumer {
    buffer: Option<usize>,
}

impl Resumes for ForConsumer {}

impl ConsumerOptions {
    /// Sets the size of the buffer in bytes. The default is half of the L2 cache. For a socket that preserves message
    /// boundaries it is always 512 KiB, because read(2) discards what does not fit. A longer message can be the error
    /// `EMSGSIZE`. A pipe in packet mode needs at least 4096 bytes, the longest packet. `None` is the default.
    pub fn buffer(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.own.buffer = bytes.into();
        self
    }

    /// Creates a consumer of `source`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a buffer of 0 bytes, or of more than memory can hold; `EBADF`; `ENOMEM`.
    pub fn open<Fd: AsFd>(self, source: Fd) -> Result<Consumer<Fd>> {
        let size = match self.own.buffer.unwrap_or(memory::FIRST) {
            0 => return Err(Error::Invalid("a buffer of 0 bytes reads nothing".into())),
            size => memory::checked("buffer", size)?,
        };
        let (longest, buffer) = match keeps_messages(source.as_fd()) {
            true => (MESSAGE, Memory::for_messages()),
            false => (0, Memory::first(size)),
        };
        Ok(Consumer {
            is_pipe: pipe::of(&source)?.is_some(),
            longest,
            calls: Calls::with(self.waiter.clone()),
            buffer,
            unread: 0..0,
            taken: 0,
            options: self,
            null: None,
            source,
        })
    }
}

/// Reads bytes from any fd through a buffer.
///
/// The stream ends when all writers have closed. Signals do not interrupt it. It waits even if another program has set
/// `O_NONBLOCK` on the fd, unless it is [`nonblocking`](ConsumerOptions::nonblocking). When the timeout of a blocking
/// socket (`SO_RCVTIMEO`) passes, reading fails with [`io::ErrorKind::WouldBlock`].
///
/// ```
/// use std::io::{BufRead, Write};
/// let pipe = fullbore::Pipe::new()?;
/// std::fs::File::from(pipe.writer).write_all(b"one\ntwo\n")?;
/// let lines = fullbore::Consumer::new(pipe.reader)?.lines().count();
/// assert_eq!(lines, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To read a header with a consumer and move the body with [`Transfer`](crate::Transfer), call
/// [`into_parts`](Self::into_parts), which returns the bytes that were read beyond the header:
///
/// ```
/// use std::io::{BufRead, Read, Write};
/// let (source, sink) = (fullbore::Pipe::new()?, fullbore::Pipe::new()?);
/// std::fs::File::from(source.writer).write_all(b"length 4\nbody")?;
///
/// let mut consumer = fullbore::Consumer::new(source.reader)?;
/// let mut header = String::new();
/// consumer.read_line(&mut header)?;
/// let (rest, begun) = consumer.into_parts();
/// let mut out = std::fs::File::from(sink.writer);
/// out.write_all(&begun)?;
/// fullbore::copy(&rest, &out)?;
/// # drop(out);
/// # let mut body = String::new();
/// # std::fs::File::from(sink.reader).read_to_string(&mut body)?;
/// # assert_eq!((header.as_str(), body.as_str()), ("length 4\n", "body"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) has a copy of the bytes in the buffer, and shares the source with its parent: each gets a part of
/// the bytes that follow, as with read(2). So only one of the two should use it. Dropping it takes nothing.
#[derive(Debug)]
pub struct Consumer<Fd> {
    source: Fd,
    is_pipe: bool,
    /// [`MESSAGE`] for a socket that preserves message boundaries, and 0 otherwise.
    longest: usize,
    calls: Calls,
    buffer: Memory,
    /// The part of the buffer that the caller has not read yet.
    unread: Range<usize>,
    /// Bytes taken from the source.
    taken: u64,
    options: ConsumerOptions,
    /// `/dev/null`, once bytes have been discarded into it.
    null: Option<OwnedFd>,
}

/// What a [`Consumer`] has taken from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerReport {
    /// Bytes that the caller has read or discarded.
    pub bytes: u64,
    /// Bytes that were taken from the source. They are more than `bytes` by those in the buffer.
    pub taken: u64,
    /// System calls that were made to read or discard bytes.
    pub calls: u64,
}

impl fmt::Display for ConsumerReport {
    /// Writes one line, such as `1048576 bytes, and 4096 in the buffer`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.taken - self.bytes;
        write!(f, "{} bytes, and {held} in the buffer", self.bytes)
    }
}

impl<Fd: AsFd> Consumer<Fd> {
    /// Creates a consumer of `source` with the default options; it blocks.
    ///
    /// # Errors
    /// As [`ConsumerOptions::open`].
    pub fn new(source: Fd) -> Result<Self> {
        ConsumerOptions::new().open(source)
    }

    /// Returns what was taken from the source so far.
    pub fn report(&self) -> ConsumerReport {
        ConsumerReport {
            bytes: self.taken - self.unread.len() as u64,
            taken: self.taken,
            calls: self.calls.made(),
        }
    }

    /// Sets the deadline for waits; `None` removes it. See [`ConsumerOptions::deadline`].
    pub fn set_deadline(&mut self, at: impl Into<Option<Instant>>) {
        self.options.waiter.deadline = at.into();
        self.calls.wait_as(self.options.waiter.clone());
    }

    /// Returns the buffered bytes that the caller has not read yet. Makes no system call.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer[self.unread.clone()]
    }

    /// Returns the source. Bytes that are read from it directly bypass the consumer, and come after those in the
    /// [`buffer`](Self::buffer).
    pub fn get_ref(&self) -> &Fd {
        &self.source
    }

    /// Returns the source and the buffered bytes that the caller has not read yet.
    pub fn into_parts(self) -> (Fd, Vec<u8>) {
        let unread = self.buffer().to_vec();
        (self.source, unread)
    }

    /// Discards the next `n` bytes, or all up to the end, and returns how many. Bytes in a pipe are discarded without
    /// being copied.
    ///
    /// # Errors
    /// [`Error::Moving`] as read(2) or splice(2); bytes that were discarded before the error are
    /// lost.
    pub fn discard(&mut self, n: u64) -> Result<u64> {
        let mut left = n;
        loop {
            let buffered = left.min(self.unread.len() as u64);
            self.consume(buffered as usize);
            left -= buffered;
            if left == 0 {
                return Ok(n);
            }
            let dropped = self.splice_away(left)?;
            left -= dropped;
            // A 0 from splice(2) means the end only if read(2) returns 0 as well.
            if dropped == 0 && self.fill()? == 0 {
                return Ok(n - left);
            }
        }
    }

    /// Splices up to `most` bytes to `/dev/null`; 0 if the kernel does not support that, or if there are no more.
    fn splice_away(&mut self, most: u64) -> Result<u64> {
        if self.is_pipe && self.null.is_none() {
            self.null = linux::null().ok();
        }
        let Some(null) = self.null.as_ref().filter(|_| self.is_pipe) else {
            self.is_pipe = false;
            return Ok(0);
        };
        // It sleeps in poll(2), where nothing is locked.
        let (most, flags) = (most.min(DISCARD_AT_ONCE) as usize, SpliceFlags::NONBLOCK);
        let source = self.source.as_fd();
        let spliced = self
            .calls
            .splice(source, null.as_fd(), most, flags, Ready::ToRead);
        match spliced {
            Ok(n) => {
                self.taken += n as u64;
                Ok(n as u64)
            }
            Err(errno) if linux::is_refusal(errno) => {
                self.is_pipe = false;
                Ok(0)
            }
            Err(errno) => Err(self.failed("splice", errno)),
        }
    }

    /// Reads into the buffer, which must be empty, and returns the number of bytes; 0 is the end.
    fn fill(&mut self) -> Result<usize> {
        debug_assert!(self.unread.is_empty());
        // More bytes were read than the small initial buffer holds.
        if self.taken >= memory::FIRST as u64 && !self.buffer.is_pages() && self.longest == 0 {
            let len = self.options.own.buffer;
            let len = len.unwrap_or_else(memory::suits_copying);
            self.buffer.grow_for_copying(len, linux::has_huge_pages());
        }
        let n = self.read_source(None)?;
        self.unread = 0..n;
        Ok(n)
    }

    /// Calls read(2) into the buffer or the caller's memory, and repeats it only after an empty message.
    fn read_source(&mut self, into: Option<&mut [u8]>) -> Result<usize> {
        let (source, calls) = (self.source.as_fd(), &mut self.calls);
        let into = into.unwrap_or(&mut self.buffer);
        let read = read_next(source, self.longest, into, |into| calls.read(source, into));
        let n = read.map_err(|errno| self.failed("read", errno))?;
        self.taken += n as u64;
        Ok(n)
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> Error {
        (self.calls.waiter).error(TransferSide::Source, operation, errno, self.taken)
    }
}

/// The source.
impl<Fd: AsFd> AsFd for Consumer<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }
}

impl<Fd: AsFd> Read for Consumer<Fd> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if self.unread.is_empty() && buf.len() >= self.buffer.len() {
            // Read directly into the caller's memory: the buffer would only add a copy.
            return Ok(self.read_source(Some(buf))?);
        }
        let n = self.fill_buf()?.read(buf)?;
        self.consume(n);
        Ok(n)
    }
}

impl<Fd: AsFd> BufRead for Consumer<Fd> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread.is_empty() {
            self.fill()?;
        }
        Ok(self.buffer())
    }

    fn consume(&mut self, n: usize) {
        self.unread.start = self.unread.start.saturating_add(n).min(self.unread.end);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use std::fs::File;
    use std::io::Write;

    use super::*;
    use fullbore_linux::Wait;
    use fullbore_linux::pipe::Pipe;

    /// Returns a pipe into which another thread writes these pieces, with a pause between them.
    fn pieces(pieces: &'static [&'static [u8]]) -> std::os::fd::OwnedFd {
        let pipe = Pipe::new().unwrap();
        let mut writer = File::from(pipe.writer);
        thread::spawn(move || {
            for piece in pieces {
                writer.write_all(piece).unwrap();
                thread::sleep(Duration::from_millis(2));
            }
        });
        pipe.reader
    }

    #[test]
    fn a_closed_writer_is_the_end_of_the_file_for_every_wait() {
        for wait in [Wait::Block, Wait::Poll, Wait::Spin, Wait::Adaptive] {
            let source = pieces(&[b"one ", b"two ", b"three"]);
            let mut consumer = ConsumerOptions::new().wait(wait).open(source).unwrap();
            let mut text = String::new();
            consumer.read_to_string(&mut text).unwrap();
            assert_eq!(text, "one two three");
            assert_eq!(consumer.fill_buf().unwrap(), b"");
            assert_eq!(consumer.report().bytes, 13);
        }
    }

    #[test]
    fn o_nonblock_set_by_another_program_has_no_effect() {
        let source = pieces(&[b"late", b"r"]);
        rustix::fs::fcntl_setfl(&source, rustix::fs::OFlags::NONBLOCK).unwrap();
        let mut text = String::new();
        Consumer::new(source)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "later");
    }

    #[test]
    fn nonblocking_fails_with_would_block_without_bytes() {
        let pipe = Pipe::new().unwrap();
        let mut consumer = ConsumerOptions::new()
            .nonblocking(true)
            .open(&pipe.reader)
            .unwrap();
        let error = consumer.read(&mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        rustix::io::write(&pipe.writer, b"here").unwrap();
        assert_eq!(consumer.fill_buf().unwrap(), b"here");
        assert_eq!(
            consumer.discard(9).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn discarding_stops_after_the_given_number_of_bytes_in_pipes_and_files() {
        let source = pieces(&[b"0123456789", b"abcdef"]);
        let mut consumer = ConsumerOptions::new().buffer(4).open(source).unwrap();
        assert_eq!(consumer.fill_buf().unwrap(), b"0123");
        assert_eq!(consumer.discard(12).unwrap(), 12);
        let mut rest = String::new();
        consumer.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "cdef");
        assert_eq!(consumer.discard(5).unwrap(), 0);

        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        io::Seek::rewind(&mut file).unwrap();
        let mut consumer = ConsumerOptions::new().buffer(4).open(file).unwrap();
        assert_eq!(consumer.discard(7).unwrap(), 7);
        assert_eq!(consumer.discard(7).unwrap(), 3);
    }

    #[test]
    fn a_source_that_cannot_be_read_is_named_as_the_side() {
        let pipe = Pipe::new().unwrap();
        let error = Consumer::new(&pipe.writer).unwrap().discard(1).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Moving {
                    side: TransferSide::Source,
                    moved: 0,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn the_pipe_it_reads_from_keeps_its_capacity() {
        let pipe = Pipe::new().unwrap();
        let capacity = || pipe::of(&pipe.reader).unwrap().unwrap().capacity().unwrap();
        let before = capacity();
        let _consumer = Consumer::new(&pipe.reader).unwrap();
        assert_eq!(capacity(), before);
    }
}

//! [`Consumer`]: a consumer of `fullbore` that checks for the offer of a ring before it reads.
//!
//! The inner consumer reads the bytes that come through the pipe before the ring begins and after it has ended. Bytes
//! of the ring, and bytes that another writer puts into the pipe meanwhile, use the buffer here.

use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Instant;

use fullbore::{Result, TransferSide};
use fullbore_linux::{Calls, Errno, Waiter, error, pipe, suits_copying};

use crate::errors::after;
use crate::memory;
use crate::taking::{Joining, Next};
use fullbore_linux::error::of_io;

/// The most bytes of a ring that are lent at once, unless the caller sets the size of the buffer.
const LENT: usize = 256 * 1024;

/// Reads bytes from a pipe, or from memory that its [`Producer`](crate::Producer) shares with it.
///
/// The bytes are copied out of the shared memory before they are lent, so the producer cannot change them afterwards.
/// While memory is shared, nothing else may read from the source, and poll(2) on it does not report the bytes in the
/// ring. If the consumer is dropped, the next reader of the pipe gets its unread bytes when the producer sends or
/// finishes.
///
/// If the producer of the ring is killed, or exits or calls exec without dropping its `Producer`, and no other process
/// writes into the pipe afterwards, reading fails once with `ECONNRESET` after the last byte, instead of an end that
/// would pass for that of the stream.
///
/// ```
/// use std::io::{BufRead, Write};
/// use fullbore_linux::{Wait, Waiter};
/// let pipe = fullbore::Pipe::new()?;
/// std::fs::File::from(pipe.writer).write_all(b"one\ntwo\n")?;
/// let inner = fullbore::Consumer::new(pipe.reader)?;
/// let consumer = fullbore_ring::Consumer::new(inner, Waiter::new(Wait::Block));
/// assert_eq!(consumer.lines().count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) does not have the shared memory, and must not use its copy: a call that would read through the ring
/// returns an error there. The child may drop it, which does not disturb its parent.
pub struct Consumer<Fd: AsFd> {
    inner: fullbore::Consumer<Fd>,
    waiter: Waiter,
    joining: Joining,
    /// Reads bytes of other writers from the pipe while there is a ring.
    calls: Calls,
    /// The size of the buffer, if the caller has set it.
    size: Option<usize>,
    /// Allocated when it is needed.
    buffer: Vec<u8>,
    /// The bytes of the buffer, or of the ring if it is lent, that were not consumed yet.
    unread: Range<usize>,
    /// Whether the shared memory itself is lent instead of a copy.
    in_place: bool,
    /// Whether `unread` is a part of the ring.
    lent: bool,
    /// Bytes that did not come through the inner consumer.
    taken: u64,
    /// Whether the producer of the last ring was killed, and nothing has come since.
    cut: bool,
}

impl<Fd: AsFd> From<fullbore::Consumer<Fd>> for Consumer<Fd> {
    /// Creates a consumer that accepts no ring, and reads everything as `inner` does.
    fn from(inner: fullbore::Consumer<Fd>) -> Self {
        let waiter = Waiter::new(fullbore::Wait::Block);
        Self {
            inner,
            calls: Calls::with(waiter.clone()),
            waiter,
            joining: Joining::Never,
            size: None,
            buffer: Vec::new(),
            unread: 0..0,
            in_place: false,
            lent: false,
            taken: 0,
            cut: false,
        }
    }
}

impl<Fd: AsFd> Consumer<Fd> {
    /// Creates a consumer that accepts a ring if `inner` reads from a pipe. It waits for bytes in the ring with
    /// `waiter`, which must have the settings of `inner`. A `waiter` that never waits accepts no ring, because poll(2)
    /// does not see the ring.
    pub fn new(inner: fullbore::Consumer<Fd>, waiter: Waiter) -> Self {
        let is_pipe = matches!(pipe::of(inner.get_ref()), Ok(Some(_)));
        let joining = match is_pipe && !waiter.never {
            true => Joining::Looking { reads: 0 },
            false => Joining::Never,
        };
        Self {
            calls: Calls::with(waiter.clone()),
            waiter,
            joining,
            ..Self::from(inner)
        }
    }

    /// Lends the shared memory itself instead of a copy.
    ///
    /// # Safety
    /// The producer, and every other process of this user that could take its place, must be one of this library, or
    /// equally honest: it must not change bytes of the shared memory after it has published them.
    #[allow(unsafe_code)] // It only passes the condition on.
    pub unsafe fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    /// Sets the size of the buffer for the bytes of a ring, in bytes, at most the largest ring: 64 MiB. The default is
    /// half of the L2 cache.
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        self.size = Some(bytes.clamp(1, memory::MOST));
        self
    }

    /// Returns the number of bytes taken from the source so far, including those in the buffer.
    pub fn taken(&self) -> u64 {
        self.taken + self.inner.report().taken
    }

    /// Sets the deadline for waits; `None` removes it.
    pub fn set_deadline(&mut self, at: Option<Instant>) {
        self.waiter.deadline = at;
        self.inner.set_deadline(at);
    }

    /// Returns the buffered bytes that the caller has not read yet. Makes no system call.
    #[inline]
    pub fn buffer(&self) -> &[u8] {
        match self.joining.ring() {
            _ if self.unread.is_empty() => self.inner.buffer(),
            Some(ring) if self.lent => ring.claimed(self.unread.clone()),
            _ => &self.buffer[self.unread.clone()],
        }
    }

    /// Returns whether bytes come through memory shared with the producer.
    pub fn is_sharing(&self) -> bool {
        self.joining.ring().is_some()
    }

    /// Returns the source. Bytes that are read from it directly come after those in the [`buffer`](Self::buffer).
    pub fn get_ref(&self) -> &Fd {
        self.inner.get_ref()
    }

    /// Returns the source and the bytes that the caller has not read yet, including all bytes in the shared memory.
    pub fn into_parts(mut self) -> (Fd, Vec<u8>) {
        let mut unread = self.buffer().to_vec();
        if let Some(ring) = self.joining.ring_mut() {
            ring.release(0);
            unread.append(&mut ring.claim_all());
        }
        (self.inner.into_parts().0, unread)
    }

    /// Returns the number of system calls that it has made to read or discard bytes.
    pub fn calls(&self) -> u64 {
        self.inner.report().calls + self.calls.made()
    }

    /// Discards the next `n` bytes, or all up to the end, and returns how many.
    ///
    /// # Errors
    /// As [`fullbore::Consumer::discard`].
    pub fn discard(&mut self, n: u64) -> Result<u64> {
        let mut left = n;
        loop {
            let buffered = left.min(self.buffer().len() as u64);
            self.consume(buffered as usize);
            left -= buffered;
            if left == 0 {
                return Ok(n);
            }
            if self.joining.is_away() {
                let discarded = self.inner.discard(left);
                return match discarded.map_err(|error| after(self.taken, error))? {
                    // The next call finds out how the stream has ended.
                    0 if left < n => Ok(n - left),
                    discarded => {
                        self.came_by_the_pipe(discarded as usize)?;
                        Ok(n - left + discarded)
                    }
                };
            }
            match self.fill() {
                Ok(0) => return Ok(n - left),
                Ok(_) => {}
                Err(error) => {
                    let error = of_io(error, TransferSide::Source, self.taken());
                    let was_cut = error.raw_os_error() == Some(Errno::CONNRESET.raw_os_error());
                    if !was_cut || left == n {
                        return Err(error);
                    }
                    self.cut = true;
                    return Ok(n - left);
                }
            }
        }
    }
}

impl<Fd: AsFd> Consumer<Fd> {
    /// Returns the size of the buffer once it is allocated.
    fn buffer_len(&self) -> usize {
        self.size.unwrap_or_else(suits_copying)
    }

    /// Reads into the buffer, which must be empty, and returns the number of bytes; 0 is the end.
    #[cold]
    fn fill(&mut self) -> io::Result<usize> {
        self.lent = false;
        loop {
            let most = match self.in_place {
                true => self.size.unwrap_or(LENT),
                false => self.buffer_len(),
            };
            let n = match self.next(most)? {
                Next::Pipe => {
                    let filled = self.inner.fill_buf().map(<[u8]>::len);
                    let n = filled.map_err(|error| self.of_inner(error))?;
                    return Ok(self.came_by_the_pipe(n)?);
                }
                Next::Claimed(claimed) if self.in_place => {
                    let n = claimed.len();
                    self.taken += n as u64;
                    self.unread = claimed;
                    self.lent = true;
                    return Ok(n);
                }
                found => {
                    let len = self.buffer_len();
                    let mut buffer = std::mem::take(&mut self.buffer);
                    buffer.resize(len, 0);
                    let got = self.get(found, &mut buffer);
                    self.buffer = buffer;
                    got?
                }
            };
            if n > 0 {
                self.unread = 0..n;
                return Ok(n);
            }
        }
    }

    /// Returns where the next bytes are, at most `most`.
    #[inline]
    fn next(&mut self, most: usize) -> Result<Next> {
        let source = self.inner.get_ref().as_fd();
        let next = (self.joining).next(source, most, &mut self.waiter, &mut self.cut);
        next.map_err(|errno| (self.waiter).error(TransferSide::Source, "ring", errno, self.taken()))
    }

    /// Gets the bytes that were found in the ring, or in the pipe while there is a ring. Returns 0 if another process
    /// has read them.
    fn get(&mut self, found: Next, into: &mut [u8]) -> Result<usize> {
        let n = match found {
            Next::Claimed(claimed) => {
                let n = claimed.len();
                if let Some(ring) = self.joining.ring_mut() {
                    ring.copy(claimed, into);
                    ring.release(0);
                }
                n
            }
            Next::Queued(most) => {
                let most = most.min(into.len());
                let source = self.inner.get_ref().as_fd();
                match self.calls.try_read(source, &mut into[..most]) {
                    Ok(n) => n,
                    // Returning 0 makes the caller check again, because a ring may come before the end.
                    Err(Errno::AGAIN) => 0,
                    Err(errno) => {
                        return Err(error::moving(
                            TransferSide::Source,
                            "read",
                            errno,
                            self.taken(),
                        ));
                    }
                }
            }
            Next::Pipe => 0,
        };
        self.taken += n as u64;
        Ok(n)
    }

    /// Returns `n`, the number of bytes that have come through the pipe, or an error instead of the end if the producer of
    /// the ring was killed: no other process has written since, so the stream is cut off.
    fn came_by_the_pipe(&mut self, n: usize) -> Result<usize> {
        match std::mem::take(&mut self.cut) && n == 0 {
            true => {
                let (side, taken) = (TransferSide::Source, self.taken());
                Err(error::moving(side, "ring", Errno::CONNRESET, taken))
            }
            false => Ok(n),
        }
    }

    /// Returns an error of the inner consumer, which does not count the bytes of the ring, with those.
    fn of_inner(&self, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::WouldBlock {
            return error;
        }
        let inside = self.inner.report().taken;
        after(self.taken, of_io(error, TransferSide::Source, inside)).into()
    }

    /// Releases the shared memory once the caller has consumed all of it.
    #[inline]
    fn release(&mut self) {
        if let Some(ring) = self.joining.ring_mut() {
            if self.unread.is_empty() {
                ring.release(0);
                self.unread = 0..0;
                self.lent = false;
            } else {
                ring.keep(self.unread.len());
            }
        }
    }
}

impl<Fd: AsFd> Read for Consumer<Fd> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if self.buffer().is_empty() && buf.len() >= self.buffer_len() {
            // Read directly into the caller's memory: the buffer would only add a copy.
            loop {
                let n = match self.next(buf.len())? {
                    Next::Pipe => {
                        let n = self.inner.read(buf).map_err(|error| self.of_inner(error))?;
                        return Ok(self.came_by_the_pipe(n)?);
                    }
                    found => self.get(found, buf)?,
                };
                if n > 0 {
                    return Ok(n);
                }
            }
        }
        let n = self.fill_buf()?.read(buf)?;
        self.consume(n);
        Ok(n)
    }
}

impl<Fd: AsFd> BufRead for Consumer<Fd> {
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.buffer().is_empty() {
            self.fill()?;
        }
        Ok(self.buffer())
    }

    #[inline]
    fn consume(&mut self, n: usize) {
        if self.unread.is_empty() {
            return self.inner.consume(n);
        }
        self.unread.start = self.unread.start.saturating_add(n).min(self.unread.end);
        if self.lent {
            self.release();
        }
    }
}

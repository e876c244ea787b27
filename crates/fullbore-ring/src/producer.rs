//! [`Producer`]: a producer of `fullbore` that offers a ring to its consumer, fills it as long as the consumer reads
//! it, and then continues with its inner producer.
//!
//! While there is a ring, the inner producer has nothing to send. When the ring is closed, the unclaimed bytes are in
//! its memory just before the window: the window is extended to begin there, and they become *gathered* bytes, as if
//! they had never been sent. They are passed to the inner producer.

use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Instant;

use fullbore::{Error, Result, TransferSide, Unfinished, Way};
use fullbore_linux::pipe::own_writable;
use fullbore_linux::{Calls, Errno, Geometry, Owner, Wait, Waiter};

use crate::errors::after;
use crate::giving::{Giving, Offering, size_for};
use fullbore_linux::error::of_io;

/// The producer waits for this much room in the ring, unless a chunk is smaller: a window costs an atomic operation
/// that the consumer's CPU sees.
const LEAST_WINDOW: usize = 32 * 1024;

/// Sends bytes from memory to a pipe, or through memory that it shares with the consumer of the pipe, if that is a
/// [`Consumer`](crate::Consumer) of the same user.
///
/// The two ends of a pipe from pipe(2) connect without a byte in the pipe and without a file, and only if no third
/// process holds either end. From then on the bytes bypass the pipe, and [`is_sharing`](Self::is_sharing) returns
/// `true`. If either end is dropped or exits, unconsumed bytes are written into the pipe, at the latest when the
/// producer finishes or is dropped. A producer whose [`Waiter`] has a deadline or a [`Cancel`](fullbore::Cancel), which
/// could stop that write, leaves them to the consumer when it is dropped.
///
/// Bytes of other writers into the pipe keep their place in the order. The size of the pipe does not matter.
///
/// ```
/// use std::io::Write;
/// use fullbore_linux::{Wait, Waiter};
/// let pipe = fullbore::Pipe::new()?;
/// let inner = fullbore::Producer::new(pipe.writer)?;
/// let mut out = fullbore_ring::Producer::new(inner, Waiter::new(Wait::Block));
/// out.write_all(b"hello")?;
/// let produced = out.finish()?;
/// assert_eq!((produced.bytes, produced.shared), (5, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) does not have the shared memory, and must not use its copy: a call that would send through the ring
/// returns an error there. The child may drop it, which does not disturb its parent.
pub struct Producer<Fd: AsFd> {
    /// `None` while it finishes.
    inner: Option<fullbore::Producer<Fd>>,
    waiter: Waiter,
    sharing: Sharing,
    /// Bytes that were sent through the ring.
    sent: u64,
    /// Whether an error about the gathered bytes has been returned to the caller.
    error_reported: bool,
    /// Whether the inner producer has lent memory.
    lent_inside: bool,
    is_dropped: bool,
    owner: Owner,
}

enum Sharing {
    /// There is no ring, and none is offered.
    No,
    /// There is no ring; a consumer may connect.
    Offering(Offering),
    Ring(Box<Filling>),
}

/// A ring, and the bytes to be published.
struct Filling {
    ring: Giving,
    /// The memory to fill; the gathered bytes are at its start.
    window: Range<usize>,
    /// Bytes at the start of the window that were accepted and not published.
    gathered: usize,
    /// Bytes lent by the last `reserve`.
    reserved: usize,
}

/// The totals of a [`Producer`], and how it sent the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerReport {
    /// Bytes that were sent, through the ring or through the pipe.
    pub bytes: u64,
    /// How the inner producer sent.
    pub way: Way,
    /// Whether the last bytes went through a ring.
    pub shared: bool,
}

impl<Fd: AsFd> From<fullbore::Producer<Fd>> for Producer<Fd> {
    /// Creates a producer that offers no ring, and sends everything as `inner` does.
    fn from(inner: fullbore::Producer<Fd>) -> Self {
        Self {
            inner: Some(inner),
            waiter: Waiter::new(fullbore::Wait::Block),
            sharing: Sharing::No,
            sent: 0,
            error_reported: false,
            lent_inside: false,
            is_dropped: false,
            owner: Owner::this(),
        }
    }
}

impl<Fd: AsFd> Producer<Fd> {
    /// Creates a producer that offers a ring if `inner` sends to a pipe. It waits for room in the ring with `waiter`,
    /// which must have the settings of `inner`. A `waiter` that never waits offers none, because poll(2) does not see
    /// the ring.
    pub fn new(inner: fullbore::Producer<Fd>, waiter: Waiter) -> Self {
        let size = size_for(inner.chunk())
            // A small memory cgroup has no room for a ring.
            .filter(|&size| !waiter.never && Geometry::here().buffer(size) == size);
        let sharing = size.and_then(|size| {
            let pipe = own_writable(inner.get_ref().as_fd()).ok()?;
            Offering::new(pipe, size)
        });
        let mut this = Self::from(inner);
        this.waiter = waiter;
        this.sharing = sharing.map_or(Sharing::No, Sharing::Offering);
        this
    }

    /// Promises that only the producer writes into the pipe, which saves a system call for each send. If another
    /// process does write into it, bytes may be reordered.
    pub fn only_writer(mut self) -> Self {
        if let Sharing::Offering(offering) = &mut self.sharing {
            offering.only_writer = true;
        }
        self
    }

    /// Returns the inner producer, which does not count bytes that went through a ring.
    pub fn inner(&self) -> &fullbore::Producer<Fd> {
        self.inner.as_ref().expect(FINISHING)
    }

    fn inner_mut(&mut self) -> &mut fullbore::Producer<Fd> {
        self.inner.as_mut().expect(FINISHING)
    }

    /// Returns whether bytes are sent through memory shared with the consumer.
    pub fn is_sharing(&self) -> bool {
        matches!(self.sharing, Sharing::Ring(_))
    }

    /// Returns the number of bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent + self.inner().report().bytes
    }

    /// Returns the number of bytes that were accepted and not sent yet.
    pub fn unsent(&self) -> u64 {
        let here = match &self.sharing {
            Sharing::Ring(filling) => filling.gathered,
            _ => 0,
        };
        here as u64 + self.inner().unsent()
    }

    /// Returns the bytes that were accepted and not sent yet. While a ring is being closed, these are only the bytes that
    /// the inner producer has accepted.
    pub fn buffer(&self) -> &[u8] {
        match &self.sharing {
            Sharing::Ring(filling) if self.inner().unsent() == 0 => filling.gathered(),
            _ => self.inner().buffer(),
        }
    }

    /// Returns the number of bytes that are left in the window: a shorter [`write`](Write::write) makes no system call.
    #[inline]
    pub fn room(&self) -> usize {
        match &self.sharing {
            Sharing::Ring(filling) => filling.room(),
            _ => self.inner().room(),
        }
    }

    /// Returns the size of a chunk in bytes: the most that one [`reserve`](Self::reserve) lends.
    pub fn chunk(&self) -> usize {
        self.inner().chunk()
    }

    /// Sets the deadline for waiting and sending; `None` removes it.
    pub fn set_deadline(&mut self, at: Option<Instant>) {
        self.waiter.deadline = at;
        self.inner_mut().set_deadline(at);
    }

    /// Lends `n` bytes of memory to fill, as [`fullbore::Producer::reserve`] does.
    ///
    /// # Errors
    /// As [`fullbore::Producer::reserve`].
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Result<&mut [u8]> {
        if n <= self.chunk() {
            // A repeated call lends the same memory.
            if !self.lent_inside {
                self.look()?;
            }
            self.prepare(n)?;
        }
        match &mut self.sharing {
            Sharing::Ring(filling) if n <= self.inner.as_ref().expect(FINISHING).chunk() => {
                filling.reserved = n;
                let start = filling.window.start;
                Ok(&mut filling.ring.bytes_mut()[start..start + n])
            }
            _ => {
                let sent = self.sent;
                let inner = self.inner.as_mut().expect(FINISHING);
                self.lent_inside = true;
                inner.reserve(n).map_err(|error| after(sent, error))
            }
        }
    }

    /// Publishes the gathered bytes, and extends the window of the ring to `n` bytes, if there is a ring.
    fn prepare(&mut self, n: usize) -> Result<()> {
        if let Sharing::Ring(filling) = &mut self.sharing {
            filling.reserved = 0;
            self.send_gathered()?;
        }
        match &self.sharing {
            Sharing::Ring(filling) if filling.window.len() < n => self.next_window(n),
            _ => Ok(()),
        }
    }

    /// Sends the first `n` bytes of the memory that the last [`reserve`](Self::reserve) lent.
    ///
    /// # Errors
    /// As [`fullbore::Producer::commit`].
    #[inline]
    pub fn commit(&mut self, n: usize) -> Result<()> {
        let lent_inside = mem::take(&mut self.lent_inside);
        let Sharing::Ring(filling) = &mut self.sharing else {
            if n > 0 && !lent_inside {
                return Err(Error::Invalid(format!("{n} bytes committed, 0 reserved")));
            }
            let sent = self.sent;
            return (self.inner_mut().commit(n)).map_err(|error| after(sent, error));
        };
        if n > filling.reserved {
            let reserved = filling.reserved;
            let message = format!("{n} bytes committed, {reserved} reserved");
            return Err(Error::Invalid(message));
        }
        if mem::take(&mut filling.reserved) == 0 {
            return Ok(());
        }
        filling.gathered = n;
        self.error_reported = false;
        self.send_gathered()
    }

    /// Sends `n` bytes that `fill` produces. It is called with memory for all of them, or repeatedly with one piece
    /// after the other; the length of each piece but the last is a multiple of 4096 bytes. The initial contents of a
    /// piece are unspecified. Bytes that were gathered by [`Write`] are sent first.
    ///
    /// It combines [`reserve`](Self::reserve) and [`commit`](Self::commit), and lets the producer choose how the bytes
    /// get into the ring: if the CPUs of the two sides are far apart, it is faster to produce them in the cache and
    /// copy them with non-temporal stores.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), if `fill` was not called; or as [`commit`](Self::commit), and then the producer
    /// has the bytes, and they must not be produced again.
    pub fn fill(&mut self, n: usize, mut fill: impl FnMut(&mut [u8])) -> Result<()> {
        self.reserve(n)?;
        if n == 0 {
            return Ok(());
        }
        match &mut self.sharing {
            // If `fill` panics, nothing is lent.
            Sharing::Ring(filling) => {
                filling.reserved = 0;
                let start = filling.window.start;
                filling.ring.fill(start..start + n, fill);
                filling.reserved = n;
            }
            _ => {
                let inner = self.inner.as_mut().expect(FINISHING);
                let memory = inner.reserve(n)?;
                self.lent_inside = false;
                fill(memory);
                self.lent_inside = true;
            }
        }
        self.commit(n)
    }

    /// Sends the remaining bytes, and returns the sink.
    ///
    /// # Errors
    /// The errors of sending. The error contains the producer with its unsent bytes.
    pub fn into_inner(mut self) -> Result<Fd, Unfinished<Self>> {
        match self.end_ring().and_then(|()| self.flush_inside()) {
            Ok(()) => Ok(self.inner.take().expect(FINISHING).into_parts().0),
            Err(error) => Err(self.unfinished(error)),
        }
    }

    /// Returns the sink and the unsent bytes, including those of a ring that the consumer has not claimed. Sends
    /// nothing. If another process has written to the pipe after flushed bytes of the ring, this first waits until the
    /// consumer has claimed those, as [`finish`](Self::finish) does; a deadline or a cancel ends the wait.
    pub fn into_parts(mut self) -> (Fd, Vec<u8>) {
        let _ = self.wait_if_others_wrote();
        let _ = self.close_ring();
        let (sink, mut unsent) = self.inner.take().expect(FINISHING).into_parts();
        if let Sharing::Ring(filling) = mem::replace(&mut self.sharing, Sharing::No) {
            unsent.extend_from_slice(filling.gathered());
        }
        (sink, unsent)
    }

    /// Sends the remaining bytes, and returns the totals.
    ///
    /// # Errors
    /// The errors of sending. The error contains the producer with its unsent bytes.
    pub fn finish(mut self) -> Result<ProducerReport, Unfinished<Self>> {
        let shared = self.is_sharing();
        if let Err(error) = self.end_ring() {
            return Err(self.unfinished(error));
        }
        match self.inner.take().expect(FINISHING).finish() {
            Ok(report) => Ok(ProducerReport {
                bytes: self.sent + report.bytes,
                way: report.way,
                shared,
            }),
            Err(Unfinished { error, producer }) => {
                self.inner = Some(*producer);
                let error = after(self.sent, error);
                Err(self.unfinished(error))
            }
        }
    }

    fn unfinished(mut self, error: Error) -> Unfinished<Self> {
        // If dropping the producer sent the rest, the number of sent bytes in the error would be wrong.
        self.error_reported = true;
        Unfinished {
            error,
            producer: Box::new(self),
        }
    }
}

/// Only methods that consume this producer take the inner one.
const FINISHING: &str = "a producer is not used after it has finished";

impl Filling {
    fn gathered(&self) -> &[u8] {
        &self.ring.bytes()[self.window.start..][..self.gathered]
    }

    #[inline]
    fn room(&self) -> usize {
        (self.window.end).saturating_sub(self.window.start + self.gathered)
    }

    /// Copies as many of `bytes` into the window as fit, and returns how many.
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> usize {
        let start = self.window.start + self.gathered;
        let n = bytes.len().min(self.window.end - start);
        self.ring.put(start, &bytes[..n]);
        self.gathered += n;
        n
    }

    /// Passes all unsent bytes to the inner producer, which may send them now or later.
    fn hand_over<Fd: AsFd>(&mut self, inner: &mut fullbore::Producer<Fd>) -> Result<()> {
        while self.gathered > 0 {
            let sent = inner.report().bytes;
            let n = (inner.write(self.gathered()))
                .map_err(|error| of_io(error, TransferSide::Sink, sent))?;
            self.gathered -= n;
            self.window.start += n;
        }
        Ok(())
    }
}

impl<Fd: AsFd> Producer<Fd> {
    /// If it is time to, checks whether a consumer has connected, and begins a ring. Bytes that the inner producer has
    /// gathered are sent first.
    #[inline]
    fn look(&mut self) -> Result<()> {
        match &mut self.sharing {
            Sharing::Offering(offering) => {
                let sent = self.inner.as_ref().expect(FINISHING).report().bytes;
                if offering.is_due(sent) && offering.is_asked() {
                    return self.begin_ring();
                }
                if offering.is_exhausted() {
                    self.sharing = Sharing::No;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes the inner producer send its gathered bytes.
    fn flush_inside(&mut self) -> Result<()> {
        let (sent, inner) = (self.sent, self.inner.as_mut().expect(FINISHING));
        inner.flush().map_err(|error| {
            let error = of_io(error, TransferSide::Sink, inner.report().bytes);
            after(sent, error)
        })
    }

    #[cold]
    fn begin_ring(&mut self) -> Result<()> {
        self.flush_inside()?;
        let chunk = self.chunk();
        if let Sharing::Offering(offering) = mem::replace(&mut self.sharing, Sharing::No) {
            self.sharing = match offering.offer(&mut self.waiter) {
                Ok(ring) => Sharing::Ring(Box::new(Filling {
                    ring,
                    window: 0..chunk,
                    gathered: 0,
                    reserved: 0,
                })),
                Err(Some(offering)) => Sharing::Offering(offering),
                Err(None) => Sharing::No,
            };
        }
        Ok(())
    }

    /// Sets the next window, of at least `at_least` bytes. If the ring must be closed, there is no ring afterwards.
    fn next_window(&mut self, at_least: usize) -> Result<()> {
        let chunk = self.chunk();
        let Sharing::Ring(filling) = &mut self.sharing else {
            return Ok(());
        };
        let at_least = at_least.max(LEAST_WINDOW.min(chunk));
        if filling.ring.is_open() {
            match filling.ring.window(chunk, at_least, &mut self.waiter) {
                Ok(Some(window)) => {
                    filling.window = window;
                    return Ok(());
                }
                Ok(None) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        self.leave_ring()
    }

    /// Sends the gathered bytes through the ring. If the ring must be closed, passes them to the inner producer.
    fn send_gathered(&mut self) -> Result<()> {
        let Sharing::Ring(filling) = &mut self.sharing else {
            return Ok(());
        };
        if !filling.ring.is_open() {
            return self.leave_ring();
        }
        let n = filling.gathered;
        if n == 0 {
            return Ok(());
        }
        match filling.ring.publish(n, &mut self.waiter) {
            Ok(true) => {
                filling.window.start += n;
                filling.gathered = 0;
                self.sent += n as u64;
            }
            Ok(false) => return self.leave_ring(),
            Err(errno) => return Err(self.broke_off(errno)),
        }
        match filling.ring.over {
            true => self.leave_ring(),
            false => Ok(()),
        }
    }

    /// Closes the ring, if there is one. Unclaimed bytes become gathered bytes; returns how many.
    fn close_ring(&mut self) -> Result<usize> {
        let Sharing::Ring(filling) = &mut self.sharing else {
            return Ok(0);
        };
        if !filling.ring.is_open() && !filling.ring.is_broken {
            return Ok(0);
        }
        let twice = filling.ring.bytes().len();
        match filling.ring.close() {
            Ok(left) => {
                let window = &mut filling.window;
                if window.start < left {
                    // The same memory follows a second time.
                    window.start += twice / 2;
                    window.end = (window.end + twice / 2).min(twice);
                }
                window.start -= left;
                filling.gathered += left;
                self.sent -= left as u64;
                if left > 0 {
                    self.error_reported = false;
                }
                Ok(left)
            }
            Err(errno) => Err(self.broke_off(errno)),
        }
    }

    /// Closes the ring, passes the unclaimed bytes to the inner producer, and continues with that.
    #[cold]
    fn leave_ring(&mut self) -> Result<()> {
        let left = self.close_ring()?;
        if self.is_dropped {
            self.write_flushed(left);
        }
        let (sent, inner) = (self.sent, self.inner.as_mut().expect(FINISHING));
        let left = match &mut self.sharing {
            Sharing::Ring(filling) => filling.hand_over(inner),
            _ => return Ok(()),
        };
        let left = match left {
            Ok(()) => {
                self.sharing = Sharing::No;
                self.flush_inside()
            }
            Err(error) => Err(after(sent, error)),
        };
        if let Err(error) = &left {
            self.error_reported = !matches!(error, Error::Stopped { .. });
        }
        left
    }

    /// Ends the ring, if there is one: all of its bytes are in the pipe, or have been claimed.
    fn end_ring(&mut self) -> Result<()> {
        if let Sharing::Offering(_) = self.sharing {
            self.sharing = Sharing::No;
        }
        self.send_gathered()?;
        if self.is_sharing() {
            if let Err(errno) = self.waiter.check_stopped() {
                return Err(self.failed(errno));
            }
            self.wait_if_others_wrote()?;
            self.leave_ring()?;
        }
        Ok(())
    }

    fn wait_if_others_wrote(&mut self) -> Result<()> {
        if let Sharing::Ring(filling) = &mut self.sharing {
            if filling.ring.is_open() {
                let waited = filling.ring.wait_if_others_wrote(&mut self.waiter);
                return waited.map(drop).map_err(|errno| self.failed(errno));
            }
        }
        Ok(())
    }

    /// Ends the ring before the producer is dropped. If a deadline or a cancel could stop writing its bytes into the
    /// pipe, which would lose them, the ring is left to the consumer.
    fn end_ring_before_drop(&mut self) {
        let may_close = self.waiter.may_wait() && self.wait_if_others_wrote().is_ok();
        if !may_close {
            self.send_the_rest();
            if let Sharing::Ring(filling) = &mut self.sharing {
                filling.ring.leave_to_consumer();
            }
        }
        if let Ok(left) = self.close_ring() {
            self.write_flushed(left);
        }
        self.send_the_rest();
    }

    /// Writes the first `left` gathered bytes into the pipe, which were sent before and which the consumer, who has gone,
    /// has not claimed. Into a pipe, the call that sent them would have waited until they are there, and a drop returns
    /// no error. So neither the deadline nor a cancel ends the wait.
    fn write_flushed(&mut self, left: usize) {
        let Sharing::Ring(filling) = &mut self.sharing else {
            return;
        };
        let mut calls = Calls::new(Wait::Block);
        let mut written = 0;
        while written < left {
            let rest = &filling.gathered()[written..left];
            match calls.write(filling.ring.pipe.as_fd(), rest) {
                Ok(n) => written += n,
                // No reader is left.
                Err(_) => break,
            }
        }
        filling.window.start += written;
        filling.gathered -= written;
        self.sent += written as u64;
    }

    /// Sends the remaining bytes before the producer is dropped, unless an error about them has been returned.
    fn send_the_rest(&mut self) {
        let is_interrupted = |error: &Error| error.kind() == io::ErrorKind::Interrupted;
        let has_rest = matches!(&self.sharing, Sharing::Ring(filling) if filling.gathered > 0);
        if has_rest && !self.error_reported {
            // A caller could not resume after a signal any more.
            while self.send_gathered().as_ref().is_err_and(is_interrupted) {}
        }
    }

    /// Records that sending stopped early; unsent bytes stay gathered.
    #[cold]
    fn broke_off(&mut self, errno: Errno) -> Error {
        self.error_reported = self.waiter.stopped().is_none();
        self.failed(errno)
    }

    fn failed(&self, errno: Errno) -> Error {
        (self.waiter).error(TransferSide::Sink, "ring", errno, self.sent())
    }
}

impl<Fd: AsFd> Write for Producer<Fd> {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.lent_inside = false;
        // Gathered bytes would have to go through the pipe first, and the offer would wait until they are read. So a
        // producer that flushes each message can make an offer only here.
        let is_offering = matches!(self.sharing, Sharing::Offering(_));
        if is_offering && (self.inner().unsent() == 0 || buf.len() >= self.inner().room()) {
            self.look()?;
        }
        if let Sharing::Ring(filling) = &mut self.sharing {
            // This overwrites the lent memory, and the caller has got no error about the bytes that are written now.
            filling.reserved = 0;
            self.error_reported = false;
            if filling.room() == 0 {
                self.send_gathered()?;
                if matches!(&self.sharing, Sharing::Ring(filling) if filling.window.is_empty()) {
                    self.next_window(1)?;
                }
            }
        }
        match &mut self.sharing {
            Sharing::Ring(filling) => Ok(filling.put(buf)),
            _ => self.inner_mut().write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lent_inside = false;
        self.send_gathered()?;
        self.inner_mut().flush()
    }
}

impl<Fd: AsFd> Drop for Producer<Fd> {
    fn drop(&mut self) {
        if self.owner.is_here() && self.inner.is_some() && self.is_sharing() {
            self.is_dropped = true;
            self.end_ring_before_drop();
        }
    }
}

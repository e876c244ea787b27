//! The producer's side of a ring.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::control::{Giver, Sleep};
use crate::meeting::{self, Listener};
use crate::memory::{MOST, Shared};
use crate::sleeping::{self, Looks};
use crate::stores::{PIECE, copy_past_caches, fill_past_caches};
use crate::turns::{Lengths, Turns};
use fullbore_linux as linux;
use fullbore_linux::wait::{Waiter, uninterrupted};

/// While spinning, the number of tries between two system calls that check whether the other side still exists.
pub(crate) const TRIES_BETWEEN_LOOKS: u32 = 1024;

/// Shorter copies use ordinary stores: after non-temporal stores, the CPU waits until they are complete.
const PAST_CACHES_FROM: usize = 16 * 1024;

/// Returns the lengths of the trial that compares ordinary with non-temporal stores. The host of a virtual machine may
/// move its CPUs at any time, so the trial is repeated.
fn lengths(size: u64) -> Lengths {
    Lengths {
        // By then, all pages of the ring have been touched.
        before: 8 * size,
        lead: size,
        timed: 2 * size,
        again: 8 << 30,
    }
}

/// The ring of a producer that has offered it to a consumer.
#[derive(Debug)]
pub(crate) struct Giving {
    shared: Shared,
    giver: Giver,
    link: OwnedFd,
    /// A duplicate of the output's descriptor, which no other code can redirect.
    pub(crate) pipe: OwnedFd,
    /// The file of the words, which observers find here (`view.rs`).
    _words: OwnedFd,
    /// Any process that connects now is a second reader.
    listener: Listener,
    /// Whether the producer is the only writer of the pipe.
    only_writer: bool,
    /// The tick of the last check.
    looked: Tick,
    /// Whether the ring must be closed, because the consumer has exited, or because there is another reader or writer.
    pub(crate) over: bool,
    closed: bool,
    /// Whether the consumer has written a number that no honest one writes, which ends the stream.
    pub(crate) is_broken: bool,
    looks: Looks,
    /// Its second way is non-temporal stores.
    stores: Turns,
    /// Whether `stores` chose how the bytes to be published were stored.
    chosen: bool,
}

/// A producer that has not offered a ring yet.
#[derive(Debug)]
pub(crate) struct Offering {
    listener: Listener,
    /// A duplicate of the output's descriptor.
    pipe: OwnedFd,
    /// The size of the ring in bytes.
    size: usize,
    /// Whether the producer is the only writer of the pipe.
    pub(crate) only_writer: bool,
    /// The number of sends.
    sends: u64,
    /// The number of bytes that were sent at the last check.
    looked_at: u64,
    /// The connection of the consumer, once it has connected.
    link: Option<OwnedFd>,
    /// How often the producer has waited for the pipe to drain.
    waits: u32,
}

impl Offering {
    /// Bytes between two checks for a consumer; a check takes less than a microsecond.
    const LOOK_EVERY: u64 = 256 * 1024;

    /// Listens for the consumer of `pipe`, without blocking, to offer it a ring of `size` bytes; `None` if that is
    /// impossible.
    pub(crate) fn new(pipe: OwnedFd, size: usize) -> Option<Self> {
        Some(Self {
            listener: Listener::new(pipe.as_fd())?,
            pipe,
            size,
            only_writer: false,
            sends: 0,
            looked_at: 0,
            link: None,
            waits: 0,
        })
    }

    /// Returns whether to check for a consumer: often at first, and then every few hundred kilobytes. `sent` is the
    /// number of bytes sent so far.
    pub(crate) fn is_due(&mut self, sent: u64) -> bool {
        self.sends += 1;
        let due =
            self.sends.is_power_of_two() || sent.saturating_sub(self.looked_at) >= Self::LOOK_EVERY;
        if due {
            self.looked_at = sent;
        }
        due
    }

    /// Returns whether the consumer of the pipe has connected.
    pub(crate) fn is_asked(&mut self) -> bool {
        if self.link.is_none() {
            self.link = self.listener.accept(self.pipe.as_fd());
        }
        self.link.is_some()
    }

    /// Returns whether no consumer can be found any more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.link.is_none() && self.listener.is_exhausted()
    }

    /// Offers a ring to the consumer of the pipe, if it has connected and drained the pipe. From then on, everything must
    /// be sent through the ring, and nothing into the pipe before the ring is closed.
    ///
    /// Returns itself if no consumer has connected yet, and `None` if there will be no ring.
    pub(crate) fn offer(mut self, waiter: &mut Waiter) -> Result<Giving, Option<Self>> {
        let Some(link) = self.link.take() else {
            return Err(Some(self));
        };
        // After an empty pipe, all bytes found in the pipe were written by another process.
        if !self.wait_until_empty(waiter) {
            self.link = Some(link);
            return Err(Some(self));
        }
        let size = self.size;
        let inode = rustix::fs::fstat(&self.pipe).map_err(|_| None)?.st_ino;
        let (shared, files) = Shared::create(inode, size).map_err(|_| None)?;
        if meeting::offer(link.as_fd(), size, &files).is_err() {
            return Err(Some(self));
        }
        let [words, _] = files;
        Ok(Giving {
            shared,
            giver: Giver::new(size as u64),
            link,
            pipe: self.pipe,
            _words: words,
            listener: self.listener,
            only_writer: self.only_writer,
            looked: Tick::now(),
            over: false,
            closed: false,
            is_broken: false,
            looks: Looks::new(),
            stores: Turns::new(lengths(size as u64)),
            chosen: false,
        })
    }
}

impl Offering {
    /// Waits briefly until the pipe is empty, and returns whether it is. A consumer that takes longer gains little from
    /// a ring, because it always has bytes to read.
    fn wait_until_empty(&mut self, waiter: &mut Waiter) -> bool {
        const MOST: Duration = Duration::from_millis(2);
        const PAUSE: Duration = Duration::from_micros(20);
        const MOST_WAITS: u32 = 32;
        let pipe = self.pipe.as_fd();
        if !is_anything_in(pipe) {
            return true;
        }
        self.waits += 1;
        let began = Instant::now();
        while self.waits <= MOST_WAITS
            && began.elapsed() < MOST
            && waiter
                .poll(&[(pipe, PollFlags::empty())], Some(PAUSE))
                .is_ok()
        {
            if !is_anything_in(pipe) {
                return true;
            }
        }
        false
    }
}

/// Returns the size in bytes of a ring for chunks of this size; `None` if they are too large.
pub(crate) fn size_for(chunk: usize) -> Option<usize> {
    /// One chunk is filled and one is read; the others absorb pauses of either side.
    const CHUNKS: usize = 4;
    /// A smaller ring is refilled sooner, while its memory is still in the cache of the consumer's CPU, which slows the
    /// stores: with 1 MiB, 22 GiB/s were measured instead of 33. With 8 MiB, which hardly fit into the other caches, it
    /// was 27.
    const LEAST: usize = 4 << 20;
    let bytes = chunk.checked_mul(CHUNKS)?.max(LEAST);
    let size = bytes.checked_next_power_of_two()?;
    (size <= MOST).then_some(size)
}

impl Giving {
    /// Returns the memory of the ring, mapped twice in a row.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.shared.bytes()
    }

    /// As [`bytes`](Self::bytes). Only windows may be written to.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.shared.bytes_mut()
    }

    /// Copies `bytes` to offset `at` of the last window.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        let past_caches = self.stores_past_caches(bytes.len(), PAST_CACHES_FROM);
        let to = &mut self.shared.bytes_mut()[at..][..bytes.len()];
        match past_caches {
            true => copy_past_caches(bytes, to),
            false => to.copy_from_slice(bytes),
        }
    }

    /// Fills a part of the last window, in one or several pieces.
    pub(crate) fn fill(&mut self, part: Range<usize>, mut fill: impl FnMut(&mut [u8])) {
        let past_caches = self.stores_past_caches(part.len(), 2 * PIECE);
        let to = &mut self.shared.bytes_mut()[part];
        match past_caches {
            true => fill_past_caches(to, fill),
            false => fill(to),
        }
    }

    /// Returns whether to use non-temporal stores for this many bytes; never for fewer than `from`.
    #[inline]
    fn stores_past_caches(&mut self, bytes: usize, from: usize) -> bool {
        let chooses = bytes >= from;
        self.chosen |= chooses;
        chooses && self.stores.is_second()
    }

    /// Returns whether bytes can still be published.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed
    }

    fn position(&self) -> usize {
        (self.giver.head() % self.shared.size() as u64) as usize
    }

    /// Returns the next window, of at least `at_least` bytes and at most `chunk`, once the consumer has released it;
    /// `None` if the ring must be closed.
    pub(crate) fn window(
        &mut self,
        chunk: usize,
        at_least: usize,
        waiter: &mut Waiter,
    ) -> Result<Option<Range<usize>>, Errno> {
        self.check()?;
        let start = self.position();
        let free = self.wait_for_room(at_least as u64, waiter, false)?;
        Ok(free.map(|free| start..start + chunk.min(free as usize)))
    }

    /// Publishes the first `n` bytes of the last window, and returns whether it has: otherwise they and everything after
    /// them must go through the pipe.
    pub(crate) fn publish(&mut self, n: usize, waiter: &mut Waiter) -> Result<bool, Errno> {
        self.check()?;
        waiter.check_stopped()?;
        let now = Tick::now();
        if now != self.looked {
            self.look();
            self.looked = now;
        }
        // Bytes that another process has written into the pipe belong between the bytes published before and these.
        self.over |= self.wait_if_others_wrote(waiter)?;
        if self.over {
            return Ok(false);
        }
        if let Some(sleep) = self.giver.publish(self.shared.control(), n as u64) {
            self.over = self.wake_consumer(sleep);
        }
        if std::mem::take(&mut self.chosen) {
            let (giver, control) = (&self.giver, self.shared.control());
            self.stores.sent(n, || giver.unreleased(control));
        }
        Ok(true)
    }

    /// If another process has written into the pipe, waits until the consumer has released everything: bytes taken back
    /// from the ring would be reordered behind that process's bytes. Returns whether these are still in the pipe then.
    pub(crate) fn wait_if_others_wrote(&mut self, waiter: &mut Waiter) -> Result<bool, Errno> {
        self.check()?;
        if self.over || self.only_writer || !is_anything_in(self.pipe.as_fd()) {
            return Ok(false);
        }
        let all = self.shared.size() as u64;
        let free = self.wait_for_room(all, waiter, true)?;
        Ok(free == Some(all) && is_anything_in(self.pipe.as_fd()))
    }

    /// Closes the ring, and returns how many published bytes the consumer will never claim. They are still in the
    /// memory before the last window.
    pub(crate) fn close(&mut self) -> Result<usize, Errno> {
        self.check()?;
        self.closed = true;
        let left = self.giver.close(self.shared.control());
        self.is_broken = left.is_err();
        let left = left?;
        if let Some(sleep) = self.giver.wakes(self.shared.control()) {
            self.wake_consumer(sleep);
        }
        Ok(left as usize)
    }

    fn wake_consumer(&self, sleep: Sleep) -> bool {
        sleeping::wake(self.shared.consumer(), sleep, self.link.as_fd())
    }

    /// Publishes nothing more, and takes nothing back, if the consumer still exists: it claims the rest, as if the
    /// producer had been killed.
    pub(crate) fn leave_to_consumer(&mut self) {
        let is_there = !meeting::has_exited(self.link.as_fd());
        self.closed |= is_there && self.giver.leave(self.shared.control());
    }

    /// # Errors
    /// `EPERM` in a forked child; `EPROTO` once the consumer was found to be dishonest.
    #[inline]
    fn check(&self) -> Result<(), Errno> {
        match self.shared.is_here() {
            true if self.is_broken => Err(Errno::PROTO),
            true => Ok(()),
            false => Err(Errno::PERM),
        }
    }

    /// Waits until `wanted` bytes can be filled, or, if it `may_empty`, until the pipe is empty, and returns how many can
    /// be; `None` if the ring must be closed.
    fn wait_for_room(
        &mut self,
        wanted: u64,
        waiter: &mut Waiter,
        may_empty: bool,
    ) -> Result<Option<u64>, Errno> {
        let pipe = self.pipe.as_fd();
        let or_until = || may_empty && !is_anything_in(pipe);
        let (control, flag) = (self.shared.control(), self.shared.producer());
        let needed = self.giver.released_for(wanted);
        let (giver, over, looks) = (&mut self.giver, &mut self.over, &mut self.looks);
        let (link, listener) = (self.link.as_fd(), &self.listener);
        let has_slept = Cell::new(false);
        let mut tries = 0u32;
        let waited = waiter.until(
            || {
                let free = giver.free(control, wanted)?;
                if free >= wanted || or_until() {
                    return Ok(Some(free));
                }
                tries = tries.wrapping_add(1);
                if has_slept.take() || tries % TRIES_BETWEEN_LOOKS == 0 {
                    *over |= giver.is_closed(control)
                        || meeting::has_exited(link)
                        || linux::is_closed(pipe)?
                        || listener.has_second_reader(pipe);
                }
                match *over {
                    true => Ok(None),
                    false => Err(Errno::AGAIN),
                }
            },
            |waiter| {
                has_slept.set(true);
                let is_there = || control.is_released(needed) || or_until();
                let fds = [
                    (link, PollFlags::IN),
                    (listener.as_fd(), PollFlags::IN),
                    (pipe, PollFlags::empty()),
                ];
                sleeping::sleep(looks, flag, waiter, is_there, &fds)
            },
        );
        self.is_broken |= waited == Err(Errno::PROTO);
        waited
    }

    /// Checks whether the ring must be closed.
    fn look(&mut self) {
        self.over |= self.giver.is_closed(self.shared.control())
            || meeting::has_exited(self.link.as_fd())
            || self.listener.has_second_reader(self.pipe.as_fd());
    }
}

/// A coarse clock that advances every few milliseconds: how often a producer that fills the ring checks that the
/// consumer still exists. Reading it costs a fraction of an exact clock (`CLOCK_MONOTONIC_COARSE`, clock_gettime(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tick(i64, i64);

impl Tick {
    #[inline]
    fn now() -> Self {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::MonotonicCoarse);
        Self(tv_sec, tv_nsec)
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        if !self.closed && self.shared.is_here() {
            let _ = self.giver.close(self.shared.control());
        }
    }
}

fn is_anything_in(pipe: BorrowedFd<'_>) -> bool {
    // If FIONREAD fails, treat the pipe as empty.
    uninterrupted(|| rustix::io::ioctl_fionread(pipe)).is_ok_and(|queued| queued > 0)
}

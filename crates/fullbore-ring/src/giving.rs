//! The producer's side of a ring.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::control::{Broken, Giver, Sleep};
use crate::meeting::{self, Listener, Peer};
use crate::memory::{MOST, Shared};
use crate::sleeping::{self, Looks};
use crate::stores::{PIECE, copy_past_caches, fill_past_caches};
use crate::turns::{Lengths, Turns};
use fullbore_linux as linux;
use fullbore_linux::wait::{Waiter, uninterrupted};

/// How often a side tries to go on between two system calls that show whether the other side is gone,
/// while it spins.
pub(crate) const TRIES_BETWEEN_LOOKS: u32 = 1024;

/// Fewer bytes than these are copied by ordinary stores: after stores that bypass the caches, the CPU waits
/// until they are done.
const PAST_CACHES_FROM: usize = 16 * 1024;

/// Returns the lengths of the trial that compares ordinary stores with those that bypass the caches. The host of a
/// virtual machine may move its CPUs at any time, so the trial is repeated.
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
    /// The file of the words, which others find here (`view.rs`).
    _words: OwnedFd,
    /// Whoever connects now is a second reader.
    listener: Listener,
    /// Whether the producer is the only writer of the pipe.
    only_writer: bool,
    /// The tick of the last look.
    looked: Tick,
    /// Whether nothing may be published any more.
    over: bool,
    closed: bool,
    /// Whether the consumer has written a number that no honest one writes. The stream has ended then.
    is_broken: bool,
    looks: Looks,
    /// The second way are stores that bypass the caches.
    stores: Turns,
    /// Whether `stores` chose how the bytes that are published next were stored.
    chosen: bool,
}

/// What became of bytes that were to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// The consumer may claim them.
    Yes,
    /// They were not, because they and all that follow must go through the pipe.
    No,
}

/// A producer that has offered nothing yet.
#[derive(Debug)]
pub(crate) struct Offering {
    listener: Listener,
    /// Bytes of the ring.
    size: usize,
    /// Whether the producer is the only writer of the pipe.
    pub(crate) only_writer: bool,
    /// How often the producer has sent something.
    sends: u64,
    /// The number of bytes that were sent at the last look.
    looked_at: u64,
    /// The connection to the consumer, once it has asked.
    link: Option<OwnedFd>,
    /// How often the producer has waited for an empty pipe.
    waits: u32,
}

impl Offering {
    /// Bytes that are sent between two looks for a consumer; a look takes less than a microsecond.
    const LOOK_EVERY: u64 = 256 * 1024;

    /// Waits for the consumer of `pipe`, without blocking, to offer it a ring of `size` bytes; `None` if
    /// there cannot be one.
    pub(crate) fn new(pipe: BorrowedFd<'_>, size: usize) -> Option<Self> {
        Some(Self {
            listener: Listener::new(pipe)?,
            size,
            only_writer: false,
            sends: 0,
            looked_at: 0,
            link: None,
            waits: 0,
        })
    }

    /// Returns whether it is time to look for a consumer: often at first, and then after every few
    /// hundred kilobytes. `sent` is the number of bytes sent so far.
    pub(crate) fn is_due(&mut self, sent: u64) -> bool {
        self.sends += 1;
        let due =
            self.sends.is_power_of_two() || sent.saturating_sub(self.looked_at) >= Self::LOOK_EVERY;
        if due {
            self.looked_at = sent;
        }
        due
    }

    /// Returns whether the consumer of `pipe` has asked for a ring.
    pub(crate) fn is_asked(&mut self, pipe: BorrowedFd<'_>) -> bool {
        if self.link.is_none() {
            self.link = self.listener.accept(pipe);
        }
        self.link.is_some()
    }

    /// Returns whether no consumer will be found any more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.link.is_none() && self.listener.is_exhausted()
    }

    /// Offers a ring to the consumer of `pipe`, if it has asked for one and has read everything in the
    /// pipe. From then on, everything must be sent through the ring, and nothing into the pipe before
    /// the ring is closed.
    ///
    /// Returns itself if no consumer has connected yet, and `None` if there will be no ring.
    pub(crate) fn offer(
        mut self,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<Giving, Option<Self>> {
        let Some(link) = self.link.take() else {
            return Err(Some(self));
        };
        // With an empty pipe, all that is found in the pipe later was written by another process.
        if !self.wait_until_empty(pipe, waiter) {
            self.link = Some(link);
            return Err(Some(self));
        }
        let size = self.size;
        let inode = rustix::fs::fstat(pipe).map_err(|_| None)?.st_ino;
        let (shared, files) = Shared::create(inode, size).map_err(|_| None)?;
        if meeting::offer(link.as_fd(), size, &files).is_err() {
            return Err(Some(self));
        }
        let [words, _] = files;
        Ok(Giving {
            shared,
            giver: Giver::new(size as u64),
            link,
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
    /// Waits a little until `pipe` is empty, and returns whether it is. A consumer that takes longer than
    /// that gains little from a ring, and has bytes to read all the time.
    fn wait_until_empty(&mut self, pipe: BorrowedFd<'_>, waiter: &mut Waiter) -> bool {
        const MOST: Duration = Duration::from_millis(2);
        const PAUSE: Duration = Duration::from_micros(20);
        const MOST_WAITS: u32 = 32;
        if !is_anything_in(pipe) {
            return true;
        }
        self.waits += 1;
        let began = Instant::now();
        while self.waits <= MOST_WAITS
            && began.elapsed() < MOST
            && waiter.pause(pipe, PAUSE).is_ok()
        {
            if !is_anything_in(pipe) {
                return true;
            }
        }
        false
    }
}

/// Returns the number of bytes of a ring for chunks of this size; `None` if they are too large.
pub(crate) fn size_for(chunk: usize) -> Option<usize> {
    /// One chunk is filled and one is read, and the others make up for pauses of either side.
    const CHUNKS: usize = 4;
    /// Memory that the consumer has read is written again sooner if there is less of it. While it is still
    /// in the cache of the consumer's CPU, writing takes longer: with 1 MiB, 22 GiB/s were measured instead
    /// of 33, and with 8 MiB, which the other caches hardly hold, 27.
    const LEAST: usize = 4 << 20;
    let bytes = chunk.checked_mul(CHUNKS)?.max(LEAST);
    let size = bytes.checked_next_power_of_two()?;
    (size <= MOST).then_some(size)
}

impl Giving {
    /// Returns all memory of the ring, twice in a row.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.shared.bytes()
    }

    /// As [`bytes`](Self::bytes). Only windows may be written to.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.shared.bytes_mut()
    }

    /// Copies `bytes` to `at` in the last window.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        let past_caches = self.stores_past_caches(bytes.len(), PAST_CACHES_FROM);
        let to = &mut self.shared.bytes_mut()[at..][..bytes.len()];
        match past_caches {
            true => copy_past_caches(bytes, to),
            false => to.copy_from_slice(bytes),
        }
    }

    /// Fills a part of the last window, in one piece or in several.
    pub(crate) fn fill(&mut self, part: Range<usize>, mut fill: impl FnMut(&mut [u8])) {
        let past_caches = self.stores_past_caches(part.len(), 2 * PIECE);
        let to = &mut self.shared.bytes_mut()[part];
        match past_caches {
            true => fill_past_caches(to, fill),
            false => fill(to),
        }
    }

    /// Returns whether to store this many bytes past the caches, which is not worthwhile for fewer than `from`.
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

    /// Returns whether the consumer was found to be dishonest, which ends the stream.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Returns whether the ring has to be closed, because the consumer is gone, or because there is
    /// another reader.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    fn position(&self) -> usize {
        (self.giver.head() % self.shared.size() as u64) as usize
    }

    /// Returns the next window, of at least `at_least` bytes and at most `chunk`, once the consumer has
    /// released it; `None` if the ring has to be closed.
    pub(crate) fn window(
        &mut self,
        chunk: usize,
        at_least: usize,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<Option<Range<usize>>, Errno> {
        self.check()?;
        let start = self.position();
        let free = self.wait_for_room(at_least as u64, pipe, waiter, || false)?;
        Ok(free.map(|free| start..start + chunk.min(free as usize)))
    }

    /// Publishes the first `n` bytes of the last window.
    pub(crate) fn publish(
        &mut self,
        n: usize,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<Published, Errno> {
        self.check()?;
        waiter.check_stopped()?;
        let now = Tick::now();
        if now != self.looked {
            self.look(pipe);
            self.looked = now;
        }
        // What another process has written into the pipe comes before these bytes, and after those that
        // were published before.
        if !self.over && !self.only_writer && is_anything_in(pipe) {
            let all = self.shared.size() as u64;
            let free = self.wait_for_room(all, pipe, waiter, || !is_anything_in(pipe))?;
            if free.is_none_or(|free| free == all && is_anything_in(pipe)) {
                self.over = true;
            }
        }
        if self.over {
            return Ok(Published::No);
        }
        if let Some(sleep) = self.giver.publish(self.shared.control(), n as u64) {
            self.over = self.wake_consumer(sleep) == Peer::Gone;
        }
        if std::mem::take(&mut self.chosen) {
            let (giver, control) = (&self.giver, self.shared.control());
            self.stores.sent(n, || giver.unreleased(control));
        }
        Ok(Published::Yes)
    }

    /// If another process has written into the pipe, waits until the consumer has released everything: what is taken
    /// back from the ring would come after those bytes.
    pub(crate) fn wait_if_others_wrote(
        &mut self,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<(), Errno> {
        self.check()?;
        if !self.over && !self.only_writer && is_anything_in(pipe) {
            let all = self.shared.size() as u64;
            self.wait_for_room(all, pipe, waiter, || !is_anything_in(pipe))?;
        }
        Ok(())
    }

    /// Closes the ring, and returns how many bytes at the end of what was published the consumer will
    /// never have. They are still in the memory before the last window.
    pub(crate) fn close(&mut self) -> Result<usize, Errno> {
        self.check()?;
        self.closed = true;
        let left = self.giver.close(self.shared.control());
        self.is_broken = left.is_err();
        let left = left.map_err(broken)?;
        if let Some(sleep) = self.giver.wakes(self.shared.control()) {
            self.wake_consumer(sleep);
        }
        Ok(left as usize)
    }

    fn wake_consumer(&self, sleep: Sleep) -> Peer {
        sleeping::wake(self.shared.consumer(), sleep, self.link.as_fd())
    }

    /// Publishes nothing any more, and takes nothing back, if the consumer is there: it claims what there
    /// is, as if the producer had been killed.
    pub(crate) fn leave_to_consumer(&mut self) {
        let is_there = meeting::is_woken(self.link.as_fd()) == Peer::Here;
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

    /// Waits until `wanted` bytes can be filled, or `or_until`, and returns how many can be; `None` if
    /// the ring has to be closed.
    fn wait_for_room(
        &mut self,
        wanted: u64,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
        or_until: impl Fn() -> bool,
    ) -> Result<Option<u64>, Errno> {
        let (control, flag) = (self.shared.control(), self.shared.producer());
        let needed = self.giver.released_for(wanted);
        let (giver, over, looks) = (&mut self.giver, &mut self.over, &mut self.looks);
        let (link, listener) = (self.link.as_fd(), &self.listener);
        let has_slept = Cell::new(false);
        let mut tries = 0u32;
        let waited = waiter.until(
            || {
                let free = giver.free(control, wanted).map_err(broken)?;
                if free >= wanted || or_until() {
                    return Ok(Some(free));
                }
                tries = tries.wrapping_add(1);
                if has_slept.take() || tries % TRIES_BETWEEN_LOOKS == 0 {
                    *over |= giver.is_closed(control)
                        || meeting::is_woken(link) == Peer::Gone
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

    /// Finds out whether the ring has to be closed.
    fn look(&mut self, pipe: BorrowedFd<'_>) {
        self.over |= self.giver.is_closed(self.shared.control())
            || meeting::is_woken(self.link.as_fd()) == Peer::Gone
            || self.listener.has_second_reader(pipe);
    }
}

/// A time that changes every few milliseconds, which is how often a producer that writes to the ring looks
/// whether the consumer is still there. Reading it costs a fraction of reading an exact one
/// (`CLOCK_MONOTONIC_COARSE`, clock_gettime(2)).
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
    // A pipe whose bytes cannot be counted is one that nothing more is said about.
    uninterrupted(|| rustix::io::ioctl_fionread(pipe)).is_ok_and(|queued| queued > 0)
}

/// The error for a side that is not honest, or whose memory was overwritten.
pub(crate) fn broken(Broken: Broken) -> Errno {
    Errno::PROTO
}

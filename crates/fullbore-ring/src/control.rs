//! The words that the two sides of a ring share, and their rules. No memory is accessed here.
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | head | producer | bytes published: the consumer may claim up to here |
//! | claim | consumer; `CLOSED` by either | bytes that the consumer has claimed and owns |
//! | released | consumer | bytes whose memory the producer may fill again |
//! | two flags | the side that sleeps; cleared by the side that wakes it | whether and how that side must be woken ([`Sleep`]) |
//!
//! All of them count from the start of the ring and never decrease, except that a consumer gives claimed bytes back
//! when it closes the ring. The main idea is `CLOSED`, a bit of the word that the consumer claims with. Either side
//! sets it, in one atomic operation that also returns how much was claimed. So each byte belongs either to the
//! consumer, or to the producer, which sends it through the pipe, and both sides agree on it, whenever one ends.
//!
//! Three more bits of that word decide who sends the unclaimed bytes. A producer that ends without closing the ring
//! sets `LEFT`: then the consumer owns everything. This bit cannot be set once the ring is closed. The producer's close
//! sets `TAKEN_BACK`; a consumer that has closed the ring and finds that the producer has exited sets `RETURNED`. Of
//! these two, the first bit that is set decides who owns the bytes.
//!
//! docs/ring-memory-order.md explains each ordering.
//!
//! Each side keeps its own copies of the numbers that it writes, and checks each number of the other side when it reads
//! it: `BROKEN` means that no honest side could have written it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::io::Errno;

/// Set in `claim` once nothing more can be claimed.
pub(crate) const CLOSED: u64 = 1 << 63;

/// Set in `claim` by the producer, which sends the unclaimed bytes through the pipe.
const TAKEN_BACK: u64 = 1 << 62;

/// Set in `claim` by a consumer, which writes the unclaimed bytes into the pipe because the producer has exited.
const RETURNED: u64 = 1 << 61;

/// Set in `claim` by a producer that ends and leaves all published bytes to the consumer.
const LEFT: u64 = 1 << 60;

/// All bits of `claim` that are not part of the number of bytes.
pub(crate) const BITS: u64 = CLOSED | TAKEN_BACK | RETURNED | LEFT;

/// A shared word. The model check has its own implementation.
pub(crate) trait Word: Debug {
    fn load(&self, ordering: Ordering) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
    fn swap(&self, value: u64, ordering: Ordering) -> u64;
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
    fn fetch_or(&self, bits: u64) -> u64;
    /// A sequentially consistent fence.
    fn fence();
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self, ordering: Ordering) -> u64 {
        AtomicU64::load(self, ordering)
    }

    #[inline]
    fn store(&self, value: u64, ordering: Ordering) {
        AtomicU64::store(self, value, ordering);
    }

    #[inline]
    fn swap(&self, value: u64, ordering: Ordering) -> u64 {
        AtomicU64::swap(self, value, ordering)
    }

    #[inline]
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        AtomicU64::compare_exchange(self, current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    #[inline]
    fn fetch_or(&self, bits: u64) -> u64 {
        AtomicU64::fetch_or(self, bits, Ordering::AcqRel)
    }

    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// A word on its own cache lines: CPUs fetch lines of 64 bytes in pairs, and some have lines of 128 bytes.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Line<W>(pub(crate) W);

/// The shared words. All zeros are the state of a new ring.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Control<W> {
    pub(crate) head: Line<W>,
    pub(crate) claim: Line<W>,
    pub(crate) released: Line<W>,
    pub(crate) consumer_sleeps: Line<W>,
    pub(crate) producer_sleeps: Line<W>,
}

/// Where a side sleeps, as encoded in its flag; 0 means that it is awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// On its flag, by futex(2).
    OnFlag,
    /// On the socket and the pipe, by poll(2).
    OnSocket,
}

impl Sleep {
    pub(crate) fn flag(self) -> u64 {
        match self {
            Sleep::OnFlag => 1,
            Sleep::OnSocket => 2,
        }
    }

    fn of(flag: u64) -> Option<Self> {
        match flag {
            0 => None,
            1 => Some(Sleep::OnFlag),
            _ => Some(Sleep::OnSocket),
        }
    }
}

/// Announces that a side is about to sleep. It must check once more afterwards.
pub(crate) fn will_sleep<W: Word>(flag: &W, sleep: Sleep) {
    // All changes of a flag are read-modify-write operations, which gives them one order, also in loom (`model.rs`).
    flag.swap(sleep.flag(), Ordering::Relaxed);
    W::fence();
}

pub(crate) fn is_awake<W: Word>(flag: &W) {
    flag.swap(0, Ordering::Relaxed);
}

impl<W: Word> Control<W> {
    /// Returns whether a producer that waits for `released` bytes to be released can continue.
    pub(crate) fn is_released(&self, released: u64) -> bool {
        self.released.0.load(Ordering::Acquire) >= released
            || self.claim.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Returns whether a consumer that has claimed `claimed` bytes has something to see.
    pub(crate) fn is_published(&self, claimed: u64) -> bool {
        self.head.0.load(Ordering::Acquire) != claimed
            || self.claim.0.load(Ordering::Acquire) & CLOSED != 0
    }
}

/// Clears the flag of a side that sleeps; returns how to wake it.
fn has_to_be_woken<W: Word>(flag: &W) -> Option<Sleep> {
    // The flag is read after the data has been written: either this side sees the flag, or the other side sees the data
    // when it checks once more before it sleeps.
    W::fence();
    match flag.load(Ordering::Relaxed) {
        0 => None,
        _ => Sleep::of(flag.swap(0, Ordering::Relaxed)),
    }
}

/// The error if the other side has written a number that no honest side writes.
const BROKEN: Errno = Errno::PROTO;

/// The numbers of the producer.
#[derive(Debug)]
pub(crate) struct Giver {
    size: u64,
    head: u64,
    /// The last value of `released` that was read.
    released: u64,
}

impl Giver {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size,
            head: 0,
            released: 0,
        }
    }

    /// Returns the number of bytes that were published.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Returns how many bytes can be filled; it reads `released` again only if these are less than `wanted`.
    #[inline]
    pub(crate) fn free<W: Word>(
        &mut self,
        control: &Control<W>,
        wanted: u64,
    ) -> Result<u64, Errno> {
        let free = self.size - (self.head - self.released);
        if free >= wanted {
            return Ok(free);
        }
        let released = control.released.0.load(Ordering::Acquire);
        if released < self.released || released > self.head {
            return Err(BROKEN);
        }
        self.released = released;
        Ok(self.size - (self.head - released))
    }

    /// Returns how many bytes an honest consumer has not released.
    pub(crate) fn unreleased<W: Word>(&self, control: &Control<W>) -> u64 {
        let released = control.released.0.load(Ordering::Relaxed);
        self.head.saturating_sub(released)
    }

    /// Returns the value of `released` from which on `wanted` bytes can be filled.
    pub(crate) fn released_for(&self, wanted: u64) -> u64 {
        (self.head + wanted).saturating_sub(self.size)
    }

    /// Publishes the next `n` bytes, which have been filled; returns how to wake the consumer.
    #[inline]
    pub(crate) fn publish<W: Word>(&mut self, control: &Control<W>, n: u64) -> Option<Sleep> {
        self.head += n;
        control.head.0.store(self.head, Ordering::Release);
        has_to_be_woken(&control.consumer_sleeps.0)
    }

    /// Returns whether the consumer has closed the ring.
    pub(crate) fn is_closed<W: Word>(&self, control: &Control<W>) -> bool {
        control.claim.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Closes the ring, and returns how many bytes at the end the consumer has not claimed and never will. The consumer
    /// must be [woken](Self::wakes) afterwards.
    pub(crate) fn close<W: Word>(&mut self, control: &Control<W>) -> Result<u64, Errno> {
        let found = control.claim.0.fetch_or(CLOSED | TAKEN_BACK);
        let claimed = found & !BITS;
        if claimed < self.released || claimed > self.head {
            return Err(BROKEN);
        }
        match found & RETURNED {
            0 => Ok(self.head - claimed),
            _ => Ok(0),
        }
    }

    /// Leaves all published bytes to the consumer; returns `false` if it has closed the ring before, or has not claimed
    /// anything: it may end before it receives the offer, and never know of these bytes. After `true`, nothing may be
    /// published, and the ring must not be closed.
    pub(crate) fn leave<W: Word>(&self, control: &Control<W>) -> bool {
        let mut found = control.claim.0.load(Ordering::Acquire);
        while found & CLOSED == 0 && found & !BITS > 0 {
            match control.claim.0.compare_exchange(found, found | LEFT) {
                Ok(_) => return true,
                Err(newer) => found = newer,
            }
        }
        false
    }

    /// Returns how to wake the consumer.
    pub(crate) fn wakes<W: Word>(&self, control: &Control<W>) -> Option<Sleep> {
        has_to_be_woken(&control.consumer_sleeps.0)
    }
}

/// What a consumer finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This many bytes, after those claimed before, are the consumer's.
    Bytes(u64),
    /// The ring is empty.
    Nothing,
    /// The ring was closed: the following bytes come through the pipe.
    Closed,
}

/// The numbers of the consumer.
#[derive(Debug)]
pub(crate) struct Taker {
    size: u64,
    claimed: u64,
    released: u64,
    /// The last value of `head` that was read.
    head: u64,
    /// `LEFT` once this side has seen it, and 0 before.
    left: u64,
}

impl Taker {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size,
            claimed: 0,
            released: 0,
            head: 0,
            left: 0,
        }
    }

    /// Returns the number of bytes that were claimed.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Claims the next bytes, at most `most`.
    #[inline]
    pub(crate) fn claim<W: Word>(
        &mut self,
        control: &Control<W>,
        most: u64,
    ) -> Result<Claim, Errno> {
        if self.head == self.claimed {
            let head = control.head.0.load(Ordering::Acquire);
            if head < self.claimed || head - self.released > self.size {
                return Err(BROKEN);
            }
            self.head = head;
        }
        let n = most.min(self.head - self.claimed);
        if n == 0 {
            let closed = control.claim.0.load(Ordering::Acquire) & CLOSED != 0;
            return Ok(if closed {
                Claim::Closed
            } else {
                Claim::Nothing
            });
        }
        match self.exchange(control, self.claimed + n) {
            Ok(()) => {
                self.claimed += n;
                Ok(Claim::Bytes(n))
            }
            Err(found) if found & CLOSED != 0 && found & !BITS == self.claimed => Ok(Claim::Closed),
            Err(_) => Err(BROKEN),
        }
    }

    /// Sets the `claim` word if it has the value that this side has left there; otherwise returns its value.
    #[inline]
    fn exchange<W: Word>(&mut self, control: &Control<W>, new: u64) -> Result<(), u64> {
        loop {
            let current = self.claimed | self.left;
            match control.claim.0.compare_exchange(current, new | self.left) {
                Ok(_) => return Ok(()),
                Err(found) if found == current | LEFT && self.left == 0 => self.left = LEFT,
                Err(found) => return Err(found),
            }
        }
    }

    /// Releases all claimed bytes but the last `kept`; returns how to wake the producer.
    #[inline]
    pub(crate) fn release<W: Word>(&mut self, control: &Control<W>, kept: u64) -> Option<Sleep> {
        let released = self.claimed - kept;
        if released == self.released {
            return None;
        }
        self.released = released;
        control.released.0.store(released, Ordering::Release);
        has_to_be_woken(&control.producer_sleeps.0)
    }

    /// Closes the ring. The last `unread` of the claimed bytes, which were not released, go back to the producer,
    /// unless it has closed the ring before. Returns the number of bytes at the end that this side does not read, of
    /// those published so far, or `None` if the producer has closed the ring before; and how to wake the producer.
    pub(crate) fn close<W: Word>(
        &mut self,
        control: &Control<W>,
        unread: u64,
    ) -> (Option<u64>, Option<Sleep>) {
        let back_to = self.claimed - unread;
        // An error means that the producer was first, or is not honest; either way there is nothing to do.
        let closed = self.exchange(control, back_to | CLOSED);
        let left = closed.ok().and_then(|()| self.left_from(control, back_to));
        (left, has_to_be_woken(&control.producer_sleeps.0))
    }

    /// Returns whether the producer has ended and left everything to this side, as far as this side has seen.
    pub(crate) fn is_left_to_this_side(&self) -> bool {
        self.left != 0
    }

    /// Makes this side the owner of the unclaimed bytes of a ring that it has [closed](Self::close) with so many
    /// `unread` bytes, in order to write them into the pipe, and returns their number; `None` if the producer has taken
    /// them back.
    pub(crate) fn own_the_rest<W: Word>(&self, control: &Control<W>, unread: u64) -> Option<u64> {
        let back_to = self.claimed - unread;
        let closed = back_to | CLOSED | self.left;
        let owned = control.claim.0.compare_exchange(closed, closed | RETURNED);
        // The producer may have published more since this side closed the ring.
        owned.ok().and_then(|_| self.left_from(control, back_to))
    }

    fn left_from<W: Word>(&self, control: &Control<W>, from: u64) -> Option<u64> {
        let left = control.head.0.load(Ordering::Acquire).saturating_sub(from);
        (left <= self.size).then_some(left)
    }
}

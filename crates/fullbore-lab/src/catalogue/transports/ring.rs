//! Implements a ring in shared memory: the sender copies a block in, the receiver copies it out, and
//! two counters keep them apart. Neither calls the kernel unless one of them sleeps.
//!
//! The only `unsafe` code copies into and out of memory that the other process has mapped too, and reads it
//! where it lies.

#![allow(unsafe_code)]

use std::io::{self, BufRead, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use fullbore_linux::{Waiter, page_size};
use rustix::io::Errno;

use super::carry::Carry;
use super::shared::{self, APART, Shared, sleep_unless, wake_if_asleep};

/// Bytes of a block: the most that is sent at once.
const BLOCK: usize = 64 << 10;

/// Blocks of a ring: 1 MiB in total, as large as pipes may be.
const BLOCKS: u32 = 16;

/// Counters of a ring: those below, and the length of each block.
const COUNTERS: usize = 4 + BLOCKS as usize;
const SENT: usize = 0;
const RECEIVED: usize = 1;
const SENDER_SLEEPS: usize = 2;
const RECEIVER_SLEEPS: usize = 3;
const LENGTHS: usize = 4;

/// Returns the bytes before the blocks of the first ring, which hold the counters of both.
fn head() -> usize {
    (2 * COUNTERS * APART).next_multiple_of(page_size())
}

fn len() -> usize {
    head() + 2 * BLOCKS as usize * BLOCK
}

/// Creates memory for two rings, one for each direction.
///
/// # Errors
/// Fails if memfd_create(2) is not available.
pub fn make() -> Result<OwnedFd> {
    shared::make(len())
}

/// The two rings, as one of the processes uses them.
pub struct Rings {
    memory: Shared,
    sends: usize,
    waiter: Waiter,
}

impl Rings {
    /// Maps the memory, to send into ring `sends` and to receive from the other one.
    ///
    /// # Errors
    /// Fails if it cannot be mapped.
    pub fn open(memory: BorrowedFd<'_>, sends: usize, waiter: Waiter) -> Result<Self> {
        anyhow::ensure!(sends < 2, "there are two rings");
        Ok(Self {
            memory: Shared::map(memory, len())?,
            sends,
            waiter,
        })
    }
}

/// One ring.
struct Ring<'a>(&'a Shared, usize);

impl<'a> Ring<'a> {
    fn counter(&self, which: usize) -> &'a AtomicU32 {
        self.0.counter(self.1 * COUNTERS + which)
    }

    /// Returns where the block of this turn begins, and its length.
    fn block(&self, turn: u32) -> (usize, &'a AtomicU32) {
        let index = (turn % BLOCKS) as usize;
        let at = head() + (self.1 * BLOCKS as usize + index) * BLOCK;
        (at, self.counter(LENGTHS + index))
    }
}

impl Carry for Rings {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let ring = Ring(&self.memory, self.sends);
        let (sent, received) = (ring.counter(SENT), ring.counter(RECEIVED));
        let turn = sent.load(Ordering::Relaxed);
        let room = || match turn.wrapping_sub(received.load(Ordering::SeqCst)) {
            BLOCKS.. => Err(Errno::AGAIN),
            _ => Ok(()),
        };
        let flag = ring.counter(SENDER_SLEEPS);
        self.waiter
            .until(room, |_| sleep_unless(flag, || room().is_ok()))?;
        let bytes = &bytes[..bytes.len().min(BLOCK)];
        let (at, length) = ring.block(turn);
        // SAFETY: the receiver has released this block, as its counter says, and will not read it
        // before our counter says so.
        unsafe { self.memory.write(at, bytes) };
        length.store(bytes.len() as u32, Ordering::Relaxed);
        sent.store(turn.wrapping_add(1), Ordering::SeqCst);
        wake_if_asleep(ring.counter(RECEIVER_SLEEPS));
        Ok(bytes.len())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (at, n) = self.arrived()?;
        // A message is received whole or not at all, as from a queue.
        if n > buffer.len() {
            return Err(Errno::MSGSIZE);
        }
        // SAFETY: the sender has filled this block, as its counter says, and will not access it before
        // our counter says so.
        buffer[..n].copy_from_slice(unsafe { self.memory.slice(at, n) });
        self.release();
        Ok(n)
    }
}

impl Rings {
    /// Waits for a block, and returns where it begins and its length.
    fn arrived(&mut self) -> Result<(usize, usize), Errno> {
        let ring = Ring(&self.memory, 1 - self.sends);
        let (sent, received) = (ring.counter(SENT), ring.counter(RECEIVED));
        let turn = received.load(Ordering::Relaxed);
        let there = || match sent.load(Ordering::SeqCst) == turn {
            true => Err(Errno::AGAIN),
            false => Ok(()),
        };
        let flag = ring.counter(RECEIVER_SLEEPS);
        self.waiter
            .until(there, |_| sleep_unless(flag, || there().is_ok()))?;
        let (at, length) = ring.block(turn);
        Ok((at, (length.load(Ordering::Relaxed) as usize).min(BLOCK)))
    }

    /// Gives the block that has arrived back to the sender.
    fn release(&self) {
        let ring = Ring(&self.memory, 1 - self.sends);
        ring.counter(RECEIVED).fetch_add(1, Ordering::SeqCst);
        wake_if_asleep(ring.counter(SENDER_SLEEPS));
    }
}

/// The receiving end of a ring, whose blocks are read where they lie.
pub struct InPlace {
    rings: Rings,
    /// How much of the block that has arrived was consumed.
    used: usize,
    /// The length of that block.
    len: usize,
}

impl InPlace {
    /// Receives from these rings.
    pub fn new(rings: Rings) -> Self {
        Self {
            rings,
            used: 0,
            len: 0,
        }
    }
}

impl Read for InPlace {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for InPlace {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let (at, len) = self.rings.arrived()?;
        self.len = len;
        // SAFETY: the sender has filled this block, as its counter says, and will not access it before
        // `consume` has released it, for which it borrows this value exclusively.
        let block = unsafe { self.rings.memory.slice(at, len) };
        Ok(&block[self.used..])
    }

    fn consume(&mut self, n: usize) {
        self.used += n;
        if n > 0 && self.used >= self.len {
            self.used = 0;
            self.rings.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use fullbore::Wait;

    use super::*;
    use fullbore_bytes::pattern;

    const ALL: [Wait; 4] = [Wait::Block, Wait::Poll, Wait::Spin, Wait::Adaptive];

    /// Returns lengths around every possible boundary, more of them than a ring has blocks.
    fn lengths() -> impl Iterator<Item = usize> {
        let around = [1, 7, 8, 4096, BLOCK / 2, BLOCK - 1, BLOCK];
        around.into_iter().cycle().take(7 * BLOCKS as usize + 3)
    }

    #[test]
    fn every_byte_comes_through_both_ways_however_the_two_wait() {
        for (here, there) in ALL.iter().flat_map(|a| ALL.iter().map(move |b| (*a, *b))) {
            let memory = make().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut far = Rings::open(memory.as_fd(), 1, Waiter::new(there)).unwrap();
                    let mut message = vec![0; BLOCK];
                    for len in lengths() {
                        far.receive_all(&mut message[..len]).unwrap();
                        far.send_all(&message[..len]).unwrap();
                    }
                });
                let mut near = Rings::open(memory.as_fd(), 0, Waiter::new(here)).unwrap();
                let (mut sent, mut back) = (vec![0; BLOCK], vec![0; BLOCK]);
                for (turn, len) in lengths().enumerate() {
                    pattern::fill(&mut sent[..len], (turn * BLOCK) as u64);
                    near.send_all(&sent[..len]).unwrap();
                    near.receive_all(&mut back[..len]).unwrap();
                    assert_eq!(sent[..len], back[..len], "{here:?} {there:?} {turn}");
                }
            });
        }
    }

    #[test]
    fn a_stream_is_whole_when_the_ring_is_full_and_when_it_is_empty() {
        for wait in ALL {
            let memory = make().unwrap();
            let messages = 40 * u64::from(BLOCKS);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut sender = Rings::open(memory.as_fd(), 0, Waiter::new(wait)).unwrap();
                    let mut message = vec![0; 4096];
                    for turn in 0..messages {
                        pattern::fill(&mut message, turn * 4096);
                        sender.send_all(&message).unwrap();
                        if turn % 97 == 0 {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
                let mut receiver = Rings::open(memory.as_fd(), 1, Waiter::new(wait)).unwrap();
                let mut message = vec![0; 4096];
                for turn in 0..messages {
                    if turn % 61 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                    receiver.receive_all(&mut message).unwrap();
                    assert_eq!(pattern::first_wrong(&message, turn * 4096), None);
                }
            });
        }
    }

    #[test]
    fn nobody_sleeps_on_when_there_is_something_to_do() {
        // Both sides sleep and wake all the time, so a lost wake-up stops them permanently.
        const MESSAGES: u32 = 2_000_000;
        let memory = make().unwrap();
        let come = Arc::new(AtomicU32::new(0));
        for sends in [0, 1] {
            let (memory, come) = (memory.try_clone().unwrap(), Arc::clone(&come));
            thread::spawn(move || {
                let waiter = Waiter::new(Wait::Block);
                let mut end = Rings::open(memory.as_fd(), sends, waiter).unwrap();
                for turn in 0..MESSAGES {
                    if sends == 0 {
                        end.send_all(&turn.to_ne_bytes()).unwrap();
                        continue;
                    }
                    let mut message = [0; 4];
                    end.receive_all(&mut message).unwrap();
                    assert_eq!(u32::from_ne_bytes(message), turn);
                    come.store(turn + 1, Ordering::Relaxed);
                }
            });
        }
        let mut before = 0;
        while before < MESSAGES {
            // A busy machine may be slow, but the count must still increase.
            let stands_still = (0..2400).all(|_| {
                thread::sleep(Duration::from_millis(50));
                come.load(Ordering::Relaxed) == before
            });
            assert!(!stands_still, "both sleep after {before} messages");
            before = come.load(Ordering::Relaxed);
        }
    }

    #[test]
    fn a_message_that_has_no_room_stays() {
        let memory = make().unwrap();
        let open = |sends| Rings::open(memory.as_fd(), sends, Waiter::new(Wait::Block)).unwrap();
        let (mut sender, mut receiver) = (open(0), open(1));
        assert_eq!(sender.send(&[7; 100]), Ok(100));
        assert_eq!(receiver.receive(&mut [0; 99]), Err(Errno::MSGSIZE));
        let mut buffer = [0; 200];
        assert_eq!(receiver.receive(&mut buffer), Ok(100));
        assert_eq!(buffer[..100], [7; 100]);
    }

    #[test]
    fn what_is_read_in_place_is_whole_and_released_when_it_was_consumed() {
        let memory = make().unwrap();
        let open = |sends| Rings::open(memory.as_fd(), sends, Waiter::new(Wait::Block)).unwrap();
        let (mut sender, mut receiver) = (open(0), InPlace::new(open(1)));
        let mut message = vec![0; 1000];
        for turn in 0..3 * u64::from(BLOCKS) {
            pattern::fill(&mut message, turn * 1000);
            sender.send_all(&message).unwrap();
            for (from, to) in [(0, 10), (10, 999), (999, 1000)] {
                assert_eq!(receiver.fill_buf().unwrap(), &message[from..]);
                receiver.consume(to - from);
            }
            sender.send_all(&message).unwrap();
            let mut read = vec![0; 1000];
            receiver.read_exact(&mut read).unwrap();
            assert_eq!(read, message);
        }
    }

    #[test]
    fn what_is_too_short_is_no_ring() {
        let memory = shared::make(4096).unwrap();
        assert!(Rings::open(memory.as_fd(), 0, Waiter::new(Wait::Block)).is_err());
    }
}

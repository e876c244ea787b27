//! The start: memory in which the processes of an experiment say that they are ready, and learn when they begin.
//!
//! Starting all of them takes longer than a measurement, so none begins before the last one is there.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use anyhow::Result;
use fullbore_linux::page_size;

use crate::catalogue::latency::clock::now;
use crate::catalogue::transports::shared::{self, Shared, sleep_while, wake_all};

/// The number of the counter of processes that are ready.
const READY: usize = 0;
/// The counter on which they sleep: 1 from the start on.
const BEGUN: usize = 1;
/// The time of the start, in nanoseconds of the monotonic clock.
const BEGAN_AT: usize = 2;

/// The memory, mapped.
pub struct Board(Shared);

impl Board {
    /// Creates the memory.
    ///
    /// # Errors
    /// Fails if memfd_create(2) is not available.
    pub fn make() -> Result<OwnedFd> {
        shared::make(page_size())
    }

    /// Maps it.
    ///
    /// # Errors
    /// Fails as mmap(2) does.
    pub fn open(fd: impl AsFd) -> Result<Self> {
        Ok(Self(Shared::map(fd, page_size())?))
    }

    /// Says that this process is ready, sleeps until the start, and returns its time.
    ///
    /// # Errors
    /// Fails as futex(2) does.
    pub fn wait_for_the_start(&self) -> Result<u64> {
        self.0.counter(READY).fetch_add(1, Ordering::SeqCst);
        let begun = self.0.counter(BEGUN);
        while begun.load(Ordering::SeqCst) == 0 {
            sleep_while(begun, 0)?;
        }
        Ok(self.0.long(BEGAN_AT).load(Ordering::SeqCst))
    }

    /// Returns how many processes are ready.
    pub fn ready(&self) -> usize {
        self.0.counter(READY).load(Ordering::SeqCst) as usize
    }

    /// Lets all begin.
    pub fn begin(&self) {
        self.0.long(BEGAN_AT).store(now(), Ordering::SeqCst);
        self.0.counter(BEGUN).store(1, Ordering::SeqCst);
        wake_all(self.0.counter(BEGUN));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn all_begin_at_the_same_time() {
        let memory = Board::make().unwrap();
        let board = Board::open(&memory).unwrap();
        let times: Vec<u64> = thread::scope(|scope| {
            let wait = || Board::open(&memory).unwrap().wait_for_the_start().unwrap();
            let waiting = [0; 3].map(|_| scope.spawn(wait));
            while board.ready() < waiting.len() {
                thread::yield_now();
            }
            board.begin();
            waiting.map(|thread| thread.join().unwrap()).into()
        });
        assert!(times[0] > 0 && times.iter().all(|time| *time == times[0]));
    }
}

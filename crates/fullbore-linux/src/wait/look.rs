//! Looking before sleeping: whether the peer is about to make an fd ready, so that no sleep and no wake-up is needed.
//!
//! Waking a sleeping task on an idle CPU costs far more than copying a chunk. So a wait looks with poll(2) for a short
//! time before the call that would sleep. Whether this pays is learned from each look of this transfer: if too few of
//! them find something in time, they become rare. Whether they make a long stream faster shows from time to time: where
//! waking costs little, who is woken finds more at once than who looks, and spends less on waiting for the pipe's lock. It
//! never looks on one CPU, where the peer cannot run meanwhile, nor for a while after it noticed that other programs want
//! its CPU.

use std::time::{Duration, Instant};

use crate::choice::{Choice, Trials};

/// Waits before the first look: a few bytes need no more system calls than without it.
const FIRST: u32 = 8;

/// The longest look: about what a sleep and a wake-up cost in a virtual machine, so a look costs at most twice what
/// would have been spent without it (the two-competitive bound).
const MOST: Duration = Duration::from_micros(50);

/// A look that took longer is no success, because a processor was busy for as long as a sleep would have taken.
const SHORT: Duration = Duration::from_micros(25);

/// A look that takes this much longer than its time was preempted: another program wants this CPU.
const PREEMPTED: Duration = Duration::from_micros(200);

/// How long not to look after being preempted.
const BUSY: Duration = Duration::from_millis(100);

/// The share of looks that succeed, in 256ths, from which on looking pays.
const PAYS: u32 = 64;

/// The most waits between two looks while looking does not pay: a look in vain then costs a small message 0.1 µs.
const RAREST: u32 = 512;

/// Waits that were ready at once until the next one is not looked at.
const READY: u32 = 32;

/// When to find out whether looking is faster than sleeping. Bytes count once for each call that moves them. The first
/// trial comes after a long stream has got larger pipes and pages, or not.
const LOOKING: Trials = Trials {
    from: 80 << 20,
    each: 8 << 20,
    period: 1 << 30,
    within: 61,
};

/// Learns from the looks of one side.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// Waits before the next look.
    skip: u32,
    /// How many waits were skipped before the last look, while looking does not pay.
    skipped: u32,
    /// The share of the last looks that succeeded, in 256ths.
    succeeded: u32,
    /// How many waits in a row were ready at once.
    ready: u32,
    /// Not before this time.
    not_before: Option<Instant>,
    /// Whether the peer can run meanwhile, once known.
    has_cpus: Option<bool>,
    /// Whether looking, the second way, makes the stream faster.
    choice: Choice,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            skip: FIRST,
            skipped: 0,
            succeeded: 2 * PAYS,
            ready: 0,
            not_before: None,
            has_cpus: None,
            choice: Choice::new(&LOOKING, true),
        }
    }
}

impl Look {
    /// Looks until `is_ready`, or for as long as it is likely to pay, and returns whether it was ready in time; `None`
    /// if it has not looked.
    pub(super) fn look(&mut self, is_ready: impl FnMut() -> bool) -> Option<bool> {
        if !self.choice.takes_second() {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.look_now(is_ready)
    }

    /// Records that a call has moved so many bytes.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.choice.moved(bytes);
    }

    fn look_now(&mut self, mut is_ready: impl FnMut() -> bool) -> Option<bool> {
        let has_cpus = *self.has_cpus.get_or_insert_with(has_cpus);
        if !has_cpus {
            self.skip = u32::MAX;
            return None;
        }
        if is_ready() {
            self.ready += 1;
            self.skip = (self.ready / READY).min(RAREST);
            return Some(true);
        }
        self.ready = 0;
        let began = Instant::now();
        if self.not_before.is_some_and(|at| began < at) {
            return Some(false);
        }
        loop {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            let found = is_ready();
            let elapsed = began.elapsed();
            if elapsed > MOST + PREEMPTED {
                self.not_before = Some(began + elapsed + BUSY);
                // A trial would find no difference meanwhile.
                self.choice.postpone(true);
            }
            if found || elapsed >= MOST {
                self.note(elapsed < SHORT);
                return Some(found);
            }
        }
    }

    /// Learns from a look.
    fn note(&mut self, succeeded: bool) {
        self.succeeded = (self.succeeded * 7 + if succeeded { 256 } else { 0 }) / 8;
        self.skipped = match self.succeeded < PAYS {
            true => (self.skipped * 2).clamp(1, RAREST),
            false => 0,
        };
        self.skip = self.skipped;
    }
}

/// Returns whether this thread may run on more than one CPU.
fn has_cpus() -> bool {
    rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look on a machine with several CPUs, at its next wait.
    fn ready_to_look() -> Look {
        Look {
            skip: 0,
            has_cpus: Some(true),
            ..Look::default()
        }
    }

    #[test]
    fn a_few_waits_are_not_looked_at() {
        let mut look = Look::default();
        for _ in 0..FIRST {
            assert_eq!(look.look(|| panic!("looked")), None);
        }
    }

    #[test]
    fn on_one_cpu_it_never_looks() {
        let mut look = Look {
            has_cpus: Some(false),
            ..ready_to_look()
        };
        for _ in 0..1000 {
            assert_eq!(look.look(|| panic!("looked")), None);
        }
    }

    #[test]
    fn where_sleeping_is_as_fast_it_does_not_look() {
        let mut look = Look {
            choice: Choice::new(&LOOKING, false),
            ..ready_to_look()
        };
        for _ in 0..1000 {
            assert_eq!(look.look(|| panic!("looked")), None);
        }
    }

    #[test]
    fn what_is_found_keeps_it_looking_and_what_is_not_makes_it_rare() {
        let mut look = ready_to_look();
        for _ in 0..10 {
            look.note(true);
            assert_eq!(look.skip, 0);
        }
        let mut looked = 0;
        for _ in 0..1000 {
            match look.skip {
                0 => {
                    looked += 1;
                    look.note(false);
                }
                _ => look.skip -= 1,
            }
        }
        assert!((1..40).contains(&looked), "{looked}");
    }

    #[test]
    fn what_is_always_ready_is_rarely_looked_at() {
        let (mut look, mut looks) = (ready_to_look(), 0);
        for _ in 0..1000 {
            let found = look.look(|| {
                looks += 1;
                true
            });
            assert_ne!(found, Some(false));
        }
        assert!(looks < 300, "{looks}");
    }
}

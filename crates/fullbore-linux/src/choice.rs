//! Which of two ways moves a stream faster.
//!
//! What a way costs depends on the machine and on what is at the other ends, and nothing but the time shows it. So both
//! ways are tried in turn, and the faster one moves the bytes until the next trial.

use std::time::{Duration, Instant};

/// Tries of each way in a trial, of which the fastest counts: what else the machine does only makes them slower.
const TRIES: u32 = 3;

/// A way that takes so many times as long is given up after two tries.
const HOPELESS: u32 = 2;

/// When ways are tried, and which is taken.
#[derive(Debug)]
pub struct Trials {
    /// Bytes before the first trial.
    pub from: u64,
    /// Bytes of one try: many times what a pipe holds, so that the way before it matters little.
    pub each: u64,
    /// Bytes between two trials.
    pub period: u64,
    /// The second way is taken if its time is less than so many 64ths of the time of the first.
    pub within: u32,
}

/// Chooses one of two ways.
#[derive(Debug, Clone)]
pub struct Choice {
    trials: &'static Trials,
    takes_second: bool,
    /// Tries that are left in this trial.
    left: u32,
    /// Bytes until the end of this try, or until the next trial.
    bytes: u64,
    began: Option<Instant>,
    /// The fastest try of each way.
    fastest: [Duration; 2],
}

impl Choice {
    /// Starts with the second way, or with the first.
    pub fn new(trials: &'static Trials, takes_second: bool) -> Self {
        let (left, bytes) = match trials.from {
            0 => (2 * TRIES, trials.each),
            from => (0, from),
        };
        Self {
            trials,
            takes_second,
            left,
            bytes,
            began: None,
            fastest: [Duration::MAX; 2],
        }
    }

    /// Returns whether the next bytes take the second way.
    pub fn takes_second(&self) -> bool {
        self.takes_second
    }

    /// Records that `bytes` more have been moved.
    pub fn moved(&mut self, bytes: usize) {
        let began = *self.began.get_or_insert_with(Instant::now);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        if self.bytes == 0 {
            let now = Instant::now();
            match self.left {
                0 => {
                    self.fastest = [Duration::MAX; 2];
                    self.left = 2 * TRIES;
                    self.next(self.takes_second, now);
                }
                _ => self.tried(now - began, now),
            }
        }
    }

    /// Ends a trial, if there is one, without a result: the next one comes as late as the first, and until then, this way
    /// moves the bytes.
    pub fn postpone(&mut self, takes_second: bool) {
        (self.takes_second, self.left, self.bytes) = (takes_second, 0, self.trials.from);
    }

    /// Records that a try took this long.
    fn tried(&mut self, time: Duration, now: Instant) {
        let of_this = &mut self.fastest[usize::from(self.takes_second)];
        *of_this = time.min(*of_this);
        self.left -= 1;
        let [first, second] = self.fastest;
        if self.left <= 2 * TRIES - 4 && first.max(second) > HOPELESS * first.min(second) {
            self.left = 0;
        }
        match self.left {
            0 => self.next(second < first / 64 * self.trials.within, now),
            _ => self.next(!self.takes_second, now),
        }
    }

    fn next(&mut self, takes_second: bool, now: Instant) {
        self.takes_second = takes_second;
        self.began = Some(now);
        self.bytes = match self.left {
            0 => self.trials.period,
            _ => self.trials.each,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIALS: Trials = Trials {
        from: 0,
        each: 4 << 20,
        period: 512 << 20,
        within: 64,
    };

    /// Moves bytes where a try of each way takes so many milliseconds, until the trial is over, and returns the number of
    /// tries.
    fn try_out(choice: &mut Choice, first: u64, second: u64) -> u32 {
        let now = Instant::now();
        for tries in 1.. {
            let millis = if choice.takes_second() { second } else { first };
            choice.tried(Duration::from_millis(millis), now);
            if choice.left == 0 {
                return tries;
            }
        }
        unreachable!()
    }

    #[test]
    fn the_faster_way_is_taken() {
        for (first, second) in [(5, 4), (4, 5), (4, 4)] {
            let mut choice = Choice::new(&TRIALS, false);
            assert_eq!(try_out(&mut choice, first, second), 2 * TRIES);
            assert_eq!(choice.takes_second(), second < first);
        }
    }

    #[test]
    fn a_way_that_is_far_slower_is_tried_twice() {
        let mut choice = Choice::new(&TRIALS, false);
        assert_eq!(try_out(&mut choice, 9, 3), 4);
        assert!(choice.takes_second());
    }

    #[test]
    fn one_disturbance_decides_nothing() {
        let mut choice = Choice::new(&TRIALS, true);
        for millis in [9, 4, 2, 4, 2, 4] {
            choice.tried(Duration::from_millis(millis), Instant::now());
        }
        assert!(choice.takes_second());
    }

    #[test]
    fn a_trial_that_is_postponed_has_no_result() {
        const LATER: Trials = Trials {
            from: 8 << 20,
            ..TRIALS
        };
        let mut choice = Choice::new(&LATER, true);
        choice.moved(LATER.from as usize);
        choice.tried(Duration::from_millis(9), Instant::now());
        choice.tried(Duration::from_millis(3), Instant::now());
        choice.postpone(true);
        choice.moved(LATER.from as usize - 1);
        assert!(choice.takes_second() && choice.left == 0);
        choice.moved(1);
        assert_eq!(choice.left, 2 * TRIES);
    }

    #[test]
    fn it_is_tried_again_after_a_period() {
        let mut choice = Choice::new(&TRIALS, false);
        try_out(&mut choice, 9, 3);
        assert_eq!(choice.left, 0);
        choice.moved(TRIALS.period as usize);
        assert_eq!(choice.left, 2 * TRIES);
        try_out(&mut choice, 3, 9);
        assert!(!choice.takes_second());
    }

    #[test]
    fn a_second_way_that_costs_more_has_to_be_faster_by_so_much() {
        const DEAR: Trials = Trials {
            from: 1 << 20,
            within: 60,
            ..TRIALS
        };
        for (first, second, takes_second) in [(100, 95, false), (100, 92, true)] {
            let mut choice = Choice::new(&DEAR, true);
            choice.moved((1 << 20) - 1);
            assert!(choice.takes_second() && choice.left == 0);
            choice.moved(1);
            try_out(&mut choice, first, second);
            assert_eq!(choice.takes_second(), takes_second);
        }
    }
}

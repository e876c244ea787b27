//! How long to spin before sleeping.

use std::time::Duration;

/// How long to spin, learned from earlier waits.
///
/// A wait that ended while spinning sets the budget to four times the running mean of such waits; one that ended in a
/// sleep halves it. To detect that a peer has become fast again, it tries a full spin from time to time, as long as
/// waits are short enough for it to help.
///
/// Times are in nanoseconds: for a wait that ends at once, the accounting must cost no more than a few additions.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    now: u64,
    mean: u64,
    short_sleeps: u32,
}

impl Budget {
    /// Spinning for longer than a sleep and a wakeup cannot gain much (the classical two-competitive bound), and
    /// wakeups of 100 µs are among the slowest in virtual machines.
    const MOST: u64 = 100_000;
    const LEAST: u64 = 1_000;
    /// A full spin is tried once per this many short sleeps.
    const PROBE_EVERY: u32 = 8;

    pub(super) fn spin_for(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    pub(super) fn spun(&mut self, waited: Duration) {
        self.short_sleeps = 0;
        self.mean = (self.mean * 7 + nanoseconds(waited).min(Self::MOST)) / 8;
        self.now = (self.mean * 4).clamp(Self::LEAST * 10, Self::MOST);
    }

    pub(super) fn slept(&mut self, waited: Duration) {
        self.now = (self.now / 2).max(Self::LEAST);
        if nanoseconds(waited) < Self::MOST * 3 {
            self.short_sleeps += 1;
            if self.short_sleeps % Self::PROBE_EVERY == 0 {
                self.now = Self::MOST;
            }
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            now: Self::MOST,
            mean: Self::MOST / 4,
            short_sleeps: 0,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_shrinks_when_idle_and_comes_back_when_waits_are_short() {
        let mut budget = Budget::default();
        for _ in 0..20 {
            budget.slept(Duration::from_millis(10));
        }
        assert_eq!(budget.spin_for(), Duration::from_nanos(Budget::LEAST));
        let mut tries = 0;
        while budget.spin_for() < Duration::from_nanos(Budget::MOST) {
            budget.slept(Duration::from_micros(60));
            tries += 1;
        }
        assert!(tries <= Budget::PROBE_EVERY);
        for _ in 0..40 {
            budget.spun(Duration::from_micros(5));
        }
        assert!(budget.spin_for() < Duration::from_micros(40));
        assert!(budget.spin_for() >= Duration::from_micros(10));
    }
}

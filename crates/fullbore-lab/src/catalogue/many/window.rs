//! The time that counts, which is the same for all processes of an experiment.

use crate::part::Timing;

/// A span of the monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    from: u64,
    to: u64,
}

impl Window {
    /// Returns the time that is measured, if the warm-up has begun at `began`.
    pub fn of(timing: Timing, began: u64) -> Self {
        let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
        let from = began + nanoseconds(timing.warm_up_seconds);
        Self {
            from,
            to: from + nanoseconds(timing.seconds),
        }
    }

    /// Returns whether what happens now counts.
    #[inline]
    pub fn contains(&self, now: u64) -> bool {
        (self.from..self.to).contains(&now)
    }

    /// Returns whether nothing counts any more.
    #[inline]
    pub fn is_over(&self, now: u64) -> bool {
        now >= self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_the_warm_up_or_too_late_does_not_count() {
        let timing = Timing {
            seconds: 2.0,
            warm_up_seconds: 1.0,
        };
        let window = Window::of(timing, 5_000_000_000);
        for (now, counts, over) in [
            (5_900_000_000, false, false),
            (6_000_000_000, true, false),
            (7_999_999_999, true, false),
            (8_000_000_000, false, true),
        ] {
            assert_eq!((window.contains(now), window.is_over(now)), (counts, over));
        }
    }
}

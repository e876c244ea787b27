//! A rate limit: how much to move at a time, and how long to wait afterwards.
//!
//! The limit alone determines when bytes are due. A sleep that took too long shortens the next ones, so the rate is
//! right over time. Time in which the source delivered nothing is made up for only in part, because otherwise a late
//! source would lift the limit.

use std::time::{Duration, Instant};

/// The longest delay that is made up for.
const CREDIT: Duration = Duration::from_millis(200);

/// Shorter waits are accumulated, because a sleep takes longer than requested.
const SHORTEST: Duration = Duration::from_micros(500);

/// Chunks per second: enough for a smooth flow.
const PIECES: u64 = 20;

/// The largest chunk: larger ones do not save CPU time.
const LARGE: u64 = 1024 * 1024;

/// A limit in bytes per second.
#[derive(Debug)]
pub struct Pace {
    per_second: u64,
    /// The time at which all bytes moved so far are due.
    due: Instant,
}

impl Pace {
    /// Limits the rate to `per_second` bytes per second from `now` on.
    pub fn new(per_second: u64, now: Instant) -> Self {
        Self {
            per_second,
            due: now,
        }
    }

    /// Returns how many bytes to move at a time.
    pub fn chunk(&self) -> usize {
        (self.per_second / PIECES).clamp(1, LARGE) as usize
    }

    /// Returns how long to wait after `bytes` were moved at `now`.
    pub fn wait_after(&mut self, bytes: u64, now: Instant) -> Duration {
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        let takes = Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
        self.due = self.due.max(earliest) + takes;
        let wait = self.due.saturating_duration_since(now);
        if wait < SHORTEST {
            Duration::ZERO
        } else {
            wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves `bytes` in pieces of `piece`, where each sleep is `late`, and returns the time it took in seconds.
    fn time_for(per_second: u64, bytes: u64, piece: u64, late: Duration) -> f64 {
        let began = Instant::now();
        let (mut now, mut left) = (began, bytes);
        let mut pace = Pace::new(per_second, began);
        while left > 0 {
            let moved = left.min(piece);
            left -= moved;
            let wait = pace.wait_after(moved, now);
            if !wait.is_zero() {
                now += wait + late;
            }
        }
        (now - began).as_secs_f64()
    }

    #[test]
    fn the_rate_is_right_over_time_also_where_sleeps_take_too_long() {
        for (per_second, piece) in [(100 << 10, 5 << 10), (1 << 30, 256 << 10), (10, 1)] {
            for late in [0, 60, 1000] {
                let late = Duration::from_micros(late);
                let time = time_for(per_second, per_second * 4, piece, late);
                assert!((3.99..4.01).contains(&time), "{per_second}: {time}");
            }
        }
    }

    #[test]
    fn idle_time_is_made_up_for_only_in_part() {
        let began = Instant::now();
        let mut pace = Pace::new(1000, began);
        let later = began + Duration::from_secs(60);
        assert_eq!(pace.wait_after(200, later), Duration::ZERO);
        assert_eq!(pace.wait_after(100, later), Duration::from_millis(100));
    }

    #[test]
    fn every_limit_is_cut_into_pieces() {
        let chunk = |per_second| Pace::new(per_second, Instant::now()).chunk();
        assert_eq!(chunk(1), 1);
        assert_eq!(chunk(100 << 10), 5 << 10);
        assert_eq!(chunk(1 << 30), 1 << 20);
    }
}

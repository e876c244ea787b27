//! Rates of a count: the current one, the average, and the remaining time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// After this many seconds, an old rate has half its weight in the estimate of the remaining time.
const HALF_LIFE: f64 = 10.0;

/// How a count has changed over time.
#[derive(Debug, Clone)]
pub struct Rate {
    /// The count at the beginning.
    first: (Instant, u64),
    last: (Instant, u64),
    now: f64,
    smooth: Option<f64>,
    /// The time over which the average is taken, if that is not the whole time, and the counts in it.
    window: Option<(Duration, VecDeque<(Instant, u64)>)>,
}

impl Rate {
    /// Starts at this count.
    pub fn new(count: u64, began: Instant) -> Self {
        Self {
            first: (began, count),
            last: (began, count),
            now: 0.0,
            smooth: None,
            window: None,
        }
    }

    /// Takes the average, and estimates the remaining time, over this time.
    pub fn over(mut self, window: Option<Duration>) -> Self {
        let begin = self.last;
        self.window = window.map(|window| (window, VecDeque::from([begin])));
        self
    }

    /// Notes that the count is `count` now.
    pub fn update(&mut self, count: u64, at: Instant) {
        let seconds = (at - self.last.0).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        self.now = count.saturating_sub(self.last.1) as f64 / seconds;
        self.last = (at, count);
        if let Some((window, counts)) = &mut self.window {
            counts.push_back(self.last);
            // The first one that is kept is at the beginning of the window, or before it.
            while counts.get(1).is_some_and(|&(then, _)| at - then >= *window) {
                counts.pop_front();
            }
        }
        // An exponentially weighted mean, for steps of any length.
        let weight = 1.0 - 0.5f64.powf(seconds / HALF_LIFE);
        self.smooth = Some(match self.smooth {
            None => self.now,
            Some(smooth) => smooth + (self.now - smooth) * weight,
        });
    }

    /// Returns the count of the last update.
    pub fn count(&self) -> u64 {
        self.last.1
    }

    /// Returns the rate per second between the last two updates.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Returns the rate per second since the beginning.
    pub fn average(&self) -> f64 {
        self.since(self.first)
    }

    fn since(&self, (then, count): (Instant, u64)) -> f64 {
        let seconds = (self.last.0 - then).as_secs_f64();
        if seconds > 0.0 {
            self.last.1.saturating_sub(count) as f64 / seconds
        } else {
            0.0
        }
    }

    /// Returns the average rate per second over the window, or since the beginning.
    pub fn recent(&self) -> f64 {
        let begin = self.window.as_ref().and_then(|(_, counts)| counts.front());
        self.since(begin.copied().unwrap_or(self.first))
    }

    /// Returns the time from the beginning to the last update.
    pub fn elapsed(&self) -> Duration {
        self.last.0 - self.first.0
    }

    /// Returns the estimated time until the count reaches `total`, if there is an estimate.
    pub fn left(&self, total: u64) -> Option<Duration> {
        let left = total.checked_sub(self.last.1)?;
        let rate = match self.window {
            Some(_) => Some(self.recent()),
            None => self.smooth,
        };
        let smooth = rate.filter(|&rate| rate > 0.0)?;
        Duration::try_from_secs_f64(left as f64 / smooth).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_a_rate_that_changes() {
        let began = Instant::now();
        let mut rate = Rate::new(1000, began);
        assert_eq!(rate.left(2000), None, "nothing is known yet");
        rate.update(1100, began + Duration::from_secs(1));
        assert_eq!(rate.left(1300), Some(Duration::from_secs(2)));
        assert_eq!((rate.now(), rate.average()), (100.0, 100.0));
        // It stands still: both the average and the estimate notice.
        rate.update(1100, began + Duration::from_secs(11));
        assert_eq!(rate.now(), 0.0);
        assert_eq!(rate.left(1200), Some(Duration::from_secs(2)));
        assert!((rate.average() - 100.0 / 11.0).abs() < 0.01);
    }

    #[test]
    fn an_average_can_be_that_of_the_last_seconds() {
        let began = Instant::now();
        let mut rate = Rate::new(0, began).over(Some(Duration::from_secs(2)));
        for (second, count) in [(1, 100), (2, 200), (3, 210), (4, 220)] {
            rate.update(count, began + Duration::from_secs(second));
        }
        assert_eq!((rate.recent(), rate.average()), (10.0, 55.0));
        assert_eq!(rate.left(240), Some(Duration::from_secs(2)));
    }

    #[test]
    fn more_than_there_should_be_has_no_time_left() {
        let began = Instant::now();
        let mut rate = Rate::new(0, began);
        rate.update(20, began + Duration::from_secs(1));
        assert_eq!(rate.left(10), None);
    }
}

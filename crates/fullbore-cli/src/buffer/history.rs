//! How full a buffer was over time: at most [`MOST`] samples, however long it runs.

use std::time::Duration;

use super::summary::Fill;

/// When there are this many, every second one is left out, and the others are taken half as often.
const MOST: usize = 240;

/// Samples at a regular interval.
#[derive(Debug, Default)]
pub struct History {
    /// The samples, the oldest first.
    pub samples: Vec<Fill>,
    interval: Duration,
    due: Duration,
}

impl History {
    /// Takes a sample in every `interval` at first.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    /// Takes a sample if it is time for one.
    pub fn note(&mut self, at: Duration, percent: f64) {
        if at < self.due {
            return;
        }
        self.samples.push(Fill {
            seconds: at.as_secs_f64(),
            percent,
        });
        if self.samples.len() >= MOST {
            self.samples = self.samples.drain(..).step_by(2).collect();
            self.interval *= 2;
        }
        self.due = at + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_few_samples_of_all_of_its_time() {
        let mut history = History::new(Duration::from_millis(500));
        for tick in 0..2_000_000u64 {
            history.note(Duration::from_millis(tick * 50), (tick % 100) as f64);
        }
        let samples = &history.samples;
        assert!((MOST / 4..MOST).contains(&samples.len()));
        assert!(samples[0].seconds < 1.0);
        assert!(samples.last().unwrap().seconds > 98_000.0);
        assert!(samples.is_sorted_by(|a, b| a.seconds < b.seconds));
    }
}

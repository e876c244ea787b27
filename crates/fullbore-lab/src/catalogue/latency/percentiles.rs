//! Summarizes many times of the same operation by their percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::measurement::{Measured, Stop};
use fullbore_results::run::Unit;

/// The longest time that is distinguished from longer ones, in nanoseconds: a minute.
const LONGEST: u64 = 60_000_000_000;

/// The number of times below which the 99.9th percentile says little.
const FEW: u64 = 2_000;

/// Percentiles of times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of the times are shorter.
    pub median: f64,
    /// One in a hundred is longer.
    pub p99: f64,
    /// One in a thousand is longer.
    pub p999: f64,
    /// The number of times.
    pub count: u64,
}

/// Collects times in an HdrHistogram with three significant digits, which costs the same few
/// nanoseconds for each time, and no further memory.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    /// Returns no times.
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are fixed ones"))
    }
}

impl Times {
    /// Adds a time, in nanoseconds.
    #[inline]
    pub fn add(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    /// Returns the percentiles.
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        Percentiles {
            median: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            count: self.0.len(),
        }
    }
}

impl Percentiles {
    /// Turns them into a measurement, with further figures.
    ///
    /// # Errors
    /// Fails if there were no times.
    pub fn taken(self, also: Vec<(&'static str, Unit, f64)>) -> Result<Measured, Stop> {
        if self.count == 0 {
            return Err(Stop::NothingCame);
        }
        let us = Unit::Microseconds;
        let tail = [("p99", us, self.p99), ("p99.9", us, self.p999)];
        let few = (self.count < FEW)
            .then(|| format!("fewer than {FEW} samples per round: p99.9 is unreliable"));
        Ok(Measured {
            figure: self.median,
            also: tail.into_iter().chain(also).collect(),
            notes: few.into_iter().collect(),
            ..Measured::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_times() {
        let mut times = Times::default();
        for time in 1..=1000 {
            times.add(time * 1000);
        }
        let is_near = |figure: f64, expected: f64| (figure / expected - 1.0).abs() < 0.002;
        let percentiles = times.percentiles();
        assert_eq!(percentiles.count, 1000);
        assert!(is_near(percentiles.median, 500.0), "{percentiles:?}");
        assert!(is_near(percentiles.p99, 990.0), "{percentiles:?}");
        assert!(is_near(percentiles.p999, 999.0), "{percentiles:?}");
    }

    #[test]
    fn a_time_of_nothing_or_of_an_hour_is_taken_too() {
        let mut times = Times::default();
        times.add(0);
        times.add(3_600_000_000_000);
        assert_eq!(times.percentiles().count, 2);
    }

    #[test]
    fn no_times_are_no_figure() {
        let none = Times::default().percentiles().taken(vec![]);
        assert!(matches!(none, Err(Stop::NothingCame)));
    }

    #[test]
    fn few_times_are_said_to_be_few() {
        let mut times = Times::default();
        times.add(1000);
        let notes = |times: &Times| times.percentiles().taken(vec![]).unwrap().notes;
        assert_eq!(notes(&times).len(), 1);
        for _ in 0..FEW {
            times.add(1000);
        }
        assert!(notes(&times).is_empty());
    }
}

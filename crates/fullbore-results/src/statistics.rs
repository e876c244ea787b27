//! The median of several rounds of one measurement, and how far the rounds disagree.
//!
//! A few rounds on a shared machine do not have a normal distribution, so there is no mean, no standard
//! deviation and no interval that assumes one. The median says where the rounds lie, the smallest and the
//! largest show their range. Every round is kept, so that a reader can apply another statistic.

use serde::{Deserialize, Serialize};

/// The [disagreement](Spread::disagreement) above which a figure is shown with a warning.
pub const DISAGREEMENT_WORTH_A_WARNING: f64 = 0.20;

/// The share of CPU time above which the work of others makes what was measured uncertain.
pub const BUSY: f64 = 0.15;

/// The rounds of one measurement with their median and their range, all in the unit of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle round; the mean of the two middle ones where their number is even.
    pub median: f64,
    /// The smallest round.
    pub min: f64,
    /// The largest round.
    pub max: f64,
    /// Every round, in the order measured. Only this shows whether figures drift.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// Returns the spread of `rounds`; `None` where there are none, or where one is not a finite
    /// number.
    pub fn of(rounds: &[f64]) -> Option<Spread> {
        if !rounds.iter().all(|round| round.is_finite()) {
            return None;
        }
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Spread {
            median: median_of_sorted(&sorted)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            rounds: rounds.to_vec(),
        })
    }

    /// Returns how far the rounds disagree: (max − min) / median, so 0.2 for 20%.
    ///
    /// Rounds that are all the same do not disagree, whatever they are. Rounds that differ around
    /// a median of zero disagree infinitely.
    pub fn disagreement(&self) -> f64 {
        let range = self.max - self.min;
        if range == 0.0 {
            0.0
        } else {
            range / self.median
        }
    }

    /// Returns whether the rounds disagree by more than [`DISAGREEMENT_WORTH_A_WARNING`].
    pub fn is_noisy(&self) -> bool {
        self.disagreement() > DISAGREEMENT_WORTH_A_WARNING
    }
}

/// Returns the median of numbers in ascending order; `None` where there are none.
fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        Some(upper)
    } else {
        Some(f64::midpoint(sorted[middle - 1], upper))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_number_of_rounds_has_its_middle_one_as_median() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
    }

    #[test]
    fn an_even_number_of_rounds_has_the_mean_of_its_two_middle_ones() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 4.0));
    }

    #[test]
    fn one_round_is_its_own_median_and_agrees_with_itself() {
        let spread = Spread::of(&[7.5]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (7.5, 7.5, 7.5));
        assert_eq!(spread.disagreement(), 0.0);
        assert!(!spread.is_noisy());
    }

    #[test]
    fn no_rounds_have_no_spread() {
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_round_that_is_no_number_has_no_spread() {
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
        assert_eq!(Spread::of(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn rounds_keep_the_order_in_which_they_were_measured() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread.rounds, [3.0, 1.0, 2.0]);
    }

    #[test]
    fn a_median_of_zero_is_no_division_by_zero() {
        assert_eq!(Spread::of(&[0.0, 0.0]).unwrap().disagreement(), 0.0);
        let stalled = Spread::of(&[0.0, 0.0, 5.0]).unwrap();
        assert_eq!(stalled.disagreement(), f64::INFINITY);
        assert!(stalled.is_noisy());
    }

    #[test]
    fn a_disagreement_is_noisy_from_just_above_the_threshold() {
        assert!(!Spread::of(&[9.5, 10.0, 11.0]).unwrap().is_noisy());
        assert!(Spread::of(&[9.0, 10.0, 11.5]).unwrap().is_noisy());
    }
}

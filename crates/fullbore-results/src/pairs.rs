//! How many times as fast one experiment is as another, pair by pair.
//!
//! Two experiments of a table are measured one after the other in each round, in a random order. Whatever
//! changes slowly, such as other guests of the host, changes both of a pair, and not their ratio. So the
//! median of the pairs' ratios tells smaller differences apart than the ratio of two medians does.
//!
//! The interval around it is that of the sign test: the ratios between two ranks, counted from both ends.
//! It holds the median of all possible pairs with a probability of 95% or more, whatever the distribution
//! of the ratios is, as long as the pairs are independent of each other (H. A. David, H. N. Nagaraja:
//! Order Statistics, 3rd edition (2003), section 7.1).

use serde::{Deserialize, Serialize};

use crate::statistics::Spread;

/// How many times as fast an experiment is as the first one of its table, pair by pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// Whether the two CPUs were far apart in both measurements of each of these pairs, rather than near in
    /// both. A pair in which they were moved is left out.
    pub apart: bool,
    /// The number of pairs.
    pub pairs: usize,
    /// The median of the pairs' ratios. Above 1 is better in every unit.
    pub ratio: f64,
    /// The interval that holds the median of all possible pairs with a probability of at least 95%; `None`
    /// for less than six pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The median of the time in nanoseconds that a cache line took from one CPU to the other and back, at
    /// these measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_round_trip_ns: Option<f64>,
}

impl Pairs {
    /// Returns the statistics of pairs, of each the ratio and the distances of the CPUs that are known;
    /// `None` without any pair.
    pub fn of(apart: bool, pairs: &[(f64, Vec<f64>)]) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|(ratio, _)| *ratio).collect();
        let lines: Vec<f64> = pairs.iter().flat_map(|(_, lines)| lines).copied().collect();
        Some(Self {
            apart,
            pairs: ratios.len(),
            ratio: Spread::of(&ratios)?.median,
            interval: interval(&ratios),
            line_round_trip_ns: Spread::of(&lines).map(|spread| spread.median),
        })
    }
}

/// The probability that the interval misses the median, in both directions together.
const MISSES: f64 = 0.05;

/// The most values for which the ranks are exact. For more, their distribution is nearly normal.
const COUNTED_UP_TO: usize = 1000;

/// Returns the interval of these values.
fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let left_out = left_out(values.len())?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some([sorted[left_out], sorted[sorted.len() - 1 - left_out]])
}

/// Returns how many of `count` values are outside of the interval at each end; `None` if not even the
/// smallest and the largest one are far enough apart.
fn left_out(count: usize) -> Option<usize> {
    let n = count as f64;
    if count > COUNTED_UP_TO {
        return Some(((n - 1.96 * n.sqrt()) / 2.0) as usize - 1);
    }
    // The probability that exactly `k` of the values are below the median.
    let mut exactly = 0.5_f64.powi(count as i32);
    let mut at_most = exactly;
    let mut left_out = None;
    for k in 0..count {
        if at_most > MISSES / 2.0 {
            break;
        }
        left_out = Some(k);
        exactly *= (n - k as f64) / (k as f64 + 1.0);
        at_most += exactly;
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_are_those_of_the_sign_test() {
        // The ranks in tables of the sign test, counted from 1.
        let ranks = [
            (6, 1),
            (8, 1),
            (9, 2),
            (10, 2),
            (12, 3),
            (15, 4),
            (20, 6),
            (25, 8),
            (30, 10),
            (40, 14),
            (50, 18),
            (100, 40),
        ];
        for (count, rank) in ranks {
            assert_eq!(left_out(count), Some(rank - 1), "{count}");
        }
        for count in 0..6 {
            assert_eq!(left_out(count), None, "{count}");
        }
    }

    #[test]
    fn the_approximation_continues_what_is_counted() {
        let counted = left_out(COUNTED_UP_TO).unwrap();
        let approximated = left_out(COUNTED_UP_TO + 1).unwrap();
        assert!(
            counted.abs_diff(approximated) <= 1,
            "{counted} {approximated}"
        );
    }

    #[test]
    fn a_pair_that_a_disturbance_hit_does_not_move_the_ratio() {
        let mut pairs: Vec<(f64, Vec<f64>)> = (0..20)
            .map(|i| (1.0 + f64::from(i) / 1000.0, vec![60.0, 62.0]))
            .collect();
        pairs[0].0 = 0.01;
        pairs[19].0 = 50.0;
        let found = Pairs::of(false, &pairs).unwrap();
        assert_eq!((found.pairs, found.line_round_trip_ns), (20, Some(61.0)));
        assert!((found.ratio - 1.0095).abs() < 1e-9);
        assert_eq!(found.interval, Some([1.005, 1.014]));
    }

    #[test]
    fn few_pairs_have_a_ratio_and_no_interval() {
        let found = Pairs::of(true, &[(2.0, vec![]), (3.0, vec![])]).unwrap();
        assert_eq!((found.ratio, found.interval), (2.5, None));
        assert_eq!(found.line_round_trip_ns, None);
        assert!(found.apart && Pairs::of(true, &[]).is_none());
    }
}

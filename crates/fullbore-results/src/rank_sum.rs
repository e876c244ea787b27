//! Whether two samples differ by more than chance: the rank-sum test of Wilcoxon, Mann and Whitney.
//!
//! Rounds on a shared machine do not have a normal distribution: they have outliers, and often two
//! clusters. This test uses only the order of the rounds, so that an outlier has no more weight than any
//! other round. It assumes that the rounds of a sample are independent of each other. Those of one run
//! are not entirely: see docs/methodology.md, "Comparing runs".
//!
//! - H. B. Mann, D. R. Whitney: On a Test of Whether one of Two Random Variables is Stochastically
//!   Larger than the Other. Annals of Mathematical Statistics 18 (1947), 50–60: the test, and counting
//!   its distribution by a recurrence.
//! - E. L. Lehmann: Nonparametrics: Statistical Methods Based on Ranks (1975), section 1.4 and
//!   appendix: midranks, the permutation distribution with ties, and the variance with ties.
//!
//! Go's benchstat decides by the same test.

use std::f64::consts::{PI, SQRT_2};

/// The result of the test of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankSum {
    /// The probability that two samples of one distribution are at least as far apart, in either
    /// direction.
    pub p: f64,
    /// Above zero where the first sample has the higher ranks, below where the second has.
    pub lean: f64,
}

/// The most values in both samples together for which `p` is exact; otherwise it is the normal approximation.
const COUNTED_UP_TO: usize = 50;

/// Tests whether `a` and `b`, of finite numbers, come from one distribution; two-sided.
pub fn rank_sum(a: &[f64], b: &[f64]) -> RankSum {
    let ranks = Ranks::of(a, b);
    RankSum {
        p: match ranks.doubled.len() <= COUNTED_UP_TO {
            true => ranks.counted_p(),
            false => ranks.approximate_p(),
        },
        lean: ranks.distance() as f64,
    }
}

/// The ranks of two samples in both together. Ties share the mean of their ranks, which may be a
/// half: so all ranks are doubled, and whole.
struct Ranks {
    /// Of all values, in ascending order.
    doubled: Vec<u64>,
    /// How many of them are the first sample's.
    n: usize,
    /// Their sum.
    sum: u64,
    /// How many values are equal, for each value that there is.
    ties: Vec<usize>,
}

impl Ranks {
    fn of(a: &[f64], b: &[f64]) -> Self {
        let of_a = a.iter().map(|value| (*value, true));
        let mut values: Vec<_> = of_a.chain(b.iter().map(|value| (*value, false))).collect();
        values.sort_by(|(x, _), (y, _)| x.total_cmp(y));
        let mut ranks = Self {
            doubled: Vec::with_capacity(values.len()),
            n: a.len(),
            sum: 0,
            ties: Vec::new(),
        };
        // Not by `total_cmp`: 0.0 and -0.0 are the same time.
        for tied in values.chunk_by(|(x, _), (y, _)| x == y) {
            let first = ranks.doubled.len() as u64 + 1;
            let last = first + tied.len() as u64 - 1;
            let of_a = tied.iter().filter(|(_, of_a)| *of_a).count();
            ranks.sum += (first + last) * of_a as u64;
            ranks
                .doubled
                .resize(ranks.doubled.len() + tied.len(), first + last);
            ranks.ties.push(tied.len());
        }
        ranks
    }

    /// Returns how far the first sample's doubled sum is from its expected value.
    fn distance(&self) -> i64 {
        // n (N + 1) / 2, doubled.
        self.sum as i64 - (self.n * (self.doubled.len() + 1)) as i64
    }

    /// Returns the share of all ways to choose `n` of the ranks whose sum is at least as far from
    /// the expected one.
    fn counted_p(&self) -> f64 {
        let total = self.doubled.len();
        // Either sample has the same distance: the smaller one is less to count.
        let chosen = self.n.min(total - self.n);
        let average = chosen * (total + 1);
        let largest: usize = self.doubled.iter().rev().take(chosen).sum::<u64>() as usize;
        // ways[k][s]: how many ways there are to choose k ranks of sum s. No way is subtracted, so
        // that what f64 rounds, beyond 2^53, is in the last digits.
        let mut ways = vec![vec![0.0_f64; largest + 1]; chosen + 1];
        ways[0][0] = 1.0;
        for &rank in &self.doubled {
            let rank = rank as usize;
            for k in (0..chosen).rev() {
                let (fewer, more) = ways.split_at_mut(k + 1);
                let (from, to) = (&fewer[k], &mut more[0]);
                for (to, from) in to.iter_mut().skip(rank).zip(from) {
                    *to += from;
                }
            }
        }
        let distance = self.distance().unsigned_abs() as usize;
        let all: f64 = ways[chosen].iter().sum();
        let sums = ways[chosen].iter().enumerate();
        let as_far = sums.filter(|(sum, _)| sum.abs_diff(average) >= distance);
        (as_far.map(|(_, ways)| ways).sum::<f64>() / all).min(1.0)
    }

    /// Returns the normal approximation, with the variance for ties and a continuity correction of
    /// one half.
    fn approximate_p(&self) -> f64 {
        let total = self.doubled.len() as f64;
        let (n, m) = (self.n as f64, total - self.n as f64);
        let ties = self.ties.iter().map(|&ties| ties as f64);
        let tied: f64 = ties.map(|ties| ties.powi(3) - ties).sum();
        let variance = n * m / 12.0 * (total + 1.0 - tied / (total * (total - 1.0)));
        let distance = (self.distance().unsigned_abs() as f64 / 2.0 - 0.5).max(0.0);
        if variance <= 0.0 {
            return 1.0;
        }
        erfc(distance / variance.sqrt() / SQRT_2).min(1.0)
    }
}

/// Returns the complementary error function of `x` ≥ 0, to about 14 digits.
///
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964): the series 7.1.6 near
/// zero, the continued fraction 7.1.14 elsewhere.
fn erfc(x: f64) -> f64 {
    if x < 2.5 {
        let mut term = x;
        let mut sum = x;
        for k in 1..100 {
            term *= 2.0 * x * x / f64::from(2 * k + 1);
            sum += term;
        }
        1.0 - 2.0 / PI.sqrt() * (-x * x).exp() * sum
    } else {
        let ks = (1..=100).rev();
        let fraction = ks.fold(x, |below, k| x + f64::from(k) / 2.0 / below);
        (-x * x).exp() / PI.sqrt() / fraction
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found}, {expected}");
    }

    /// Returns the smallest `p` that samples of `n` and `m` values without ties can have: 2 / C(n + m,
    /// n), that of samples which do not overlap.
    fn smallest_p(n: usize, m: usize) -> f64 {
        let (few, many) = (n.min(m), n.max(m));
        let mut ways = 1.0_f64;
        for i in 1..=few {
            ways *= (many + i) as f64 / i as f64;
            if ways > 1e300 {
                break;
            }
        }
        (2.0 / ways).min(1.0)
    }

    /// `from` and the whole numbers after it.
    fn counting(from: usize, len: usize) -> Vec<f64> {
        (from..from + len).map(|n| n as f64).collect()
    }

    #[test]
    fn samples_that_do_not_overlap_have_the_smallest_p() {
        for (n, m, ways) in [
            (1, 1, 2.0),
            (3, 3, 20.0),
            (4, 4, 70.0),
            (5, 5, 252.0),
            (3, 10, 286.0),
            (10, 10, 184_756.0),
        ] {
            let (low, high) = (counting(0, n), counting(n, m));
            assert_near(rank_sum(&low, &high).p, 2.0 / ways, 1e-15);
            assert_near(smallest_p(n, m), 2.0 / ways, 1e-15);
            assert!(rank_sum(&low, &high).lean < 0.0 && rank_sum(&high, &low).lean > 0.0);
        }
        assert_eq!(smallest_p(0, 7), 1.0);
        assert!(smallest_p(100_000, 100_000) < 1e-200);
    }

    /// Hollander and Wolfe, Nonparametric Statistical Methods (1999), table 4.1: permeability of the
    /// human chorioamnion. R's wilcox.test and coin say W = 35 and p = 0.2544.
    #[test]
    fn without_ties_it_is_what_the_textbook_has() {
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let earlier = [1.15, 0.88, 0.90, 0.74, 1.21];
        let test = rank_sum(&term, &earlier);
        assert_near(test.p, 764.0 / 3003.0, 1e-14);
        assert_near(test.p, 0.2544, 5e-5);
        assert!(test.lean > 0.0);
    }

    /// The StatXact-4 manual, page 221 (in the examples of R's exactRankTests): diastolic blood
    /// pressure, exact p = 0.0989.
    #[test]
    fn with_ties_it_is_the_permutation_distribution() {
        let treated = [94.0, 108.0, 110.0, 90.0];
        let control = [
            80.0, 94.0, 85.0, 90.0, 90.0, 90.0, 108.0, 94.0, 78.0, 105.0, 88.0,
        ];
        assert_near(rank_sum(&treated, &control).p, 135.0 / 1365.0, 1e-14);
        assert_near(rank_sum(&control, &treated).p, 0.0989, 5e-5);
    }

    /// SAS/STAT, PROC NPAR1WAY, "The Exact Wilcoxon Two-Sample Test": reaction times, in which nearly
    /// all are tied. Standard deviation 11.004784, Z = 1.7265, two-sided 0.0843 by the normal
    /// approximation.
    #[test]
    fn the_normal_approximation_allows_for_ties() {
        let first = [
            1.94, 1.94, 2.92, 2.92, 2.92, 2.92, 3.27, 3.27, 3.27, 3.27, 3.70, 3.70, 3.74,
        ];
        let second = [3.27, 3.27, 3.27, 3.70, 3.70, 3.74];
        assert_near(Ranks::of(&first, &second).approximate_p(), 0.0843, 5e-5);
        // All 27132 ways to choose, counted one by one.
        assert_near(rank_sum(&first, &second).p, 2860.0 / 27_132.0, 1e-12);
    }

    /// R's `pwilcox` and the tables of Mann and Whitney: the critical values of U at 0.01, two-sided.
    #[test]
    fn the_critical_values_are_those_of_the_tables() {
        for (n, critical) in [(5, 0), (6, 2), (7, 4), (8, 7), (9, 11), (10, 16), (20, 105)] {
            assert!(p_of_u(n, critical) <= 0.01, "{n}");
            assert!(p_of_u(n, critical + 1) > 0.01, "{n}");
        }
    }

    /// The p of two samples of `n` values without ties, in which `u` pairs are in the other order.
    fn p_of_u(n: usize, u: usize) -> f64 {
        // Each value of the second sample above another one of the first is a pair.
        let mut second: Vec<f64> = counting(n, n);
        let (whole, rest) = (u / n, u % n);
        for (index, value) in second.iter_mut().enumerate() {
            // The lowest values of the second sample sink below `below` values of the first.
            let below = match index {
                _ if index < whole => n,
                _ if index == whole => rest,
                _ => 0,
            };
            if below > 0 {
                *value = (n - below) as f64 - 0.5 + index as f64 * 1e-6;
            }
        }
        rank_sum(&counting(0, n), &second).p
    }

    #[test]
    fn equal_samples_do_not_differ() {
        for n in [1, 5, 10, 40] {
            assert_eq!(rank_sum(&counting(0, n), &counting(0, n)).p, 1.0);
            assert_eq!(rank_sum(&vec![7.0; n], &vec![7.0; n]).p, 1.0);
        }
        assert_eq!(rank_sum(&[0.0; 5], &[-0.0; 5]).p, 1.0);
    }

    #[test]
    fn no_values_tell_nothing() {
        assert_eq!(rank_sum(&[], &[]).p, 1.0);
        assert_eq!(rank_sum(&[], &[1.0]).p, 1.0);
        assert_eq!(rank_sum(&counting(0, 100), &[]).p, 1.0);
    }

    #[test]
    fn thousands_of_values_are_no_trouble() {
        let test = rank_sum(&counting(0, 10_000), &counting(5_000, 10_000));
        assert!(test.p < 1e-100);
        assert!(rank_sum(&vec![1.0; 10_000], &vec![1.0; 10_000]).p == 1.0);
    }

    /// Abramowitz and Stegun, table 7.1, and the usual quantiles of the normal distribution.
    #[test]
    fn the_error_function_has_the_digits_of_the_tables() {
        assert_eq!(erfc(0.0), 1.0);
        assert_near(erfc(0.5), 1.0 - 0.520_499_877_8, 1e-10);
        assert_near(erfc(1.0), 1.0 - 0.842_700_792_9, 1e-10);
        assert_near(erfc(2.575_829_303_548_901 / SQRT_2), 0.01, 1e-14);
        assert_near(erfc(2.499_999_999), erfc(2.500_000_001), 1e-11);
        assert_near(erfc(5.0) / 1.537_459_794_428_035e-12, 1.0, 1e-12);
        assert_eq!(erfc(100.0), 0.0);
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        // Few different ones, so that there are ties; also such as have nothing to do with speed.
        let value = prop_oneof![(-4..8_i32).prop_map(f64::from), -1e300..1e300];
        proptest::collection::vec(value, 0..30)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn p_is_a_probability_and_the_order_of_samples_does_not_matter(a in values(), b in values()) {
            let (one, other) = (rank_sum(&a, &b), rank_sum(&b, &a));
            prop_assert!(one.p > 0.0 && one.p <= 1.0, "{}", one.p);
            prop_assert!((one.p - other.p).abs() <= 1e-12);
            prop_assert_eq!(one.lean, -other.lean);
            // Ties can leave one of the two tails empty, and half of that p.
            let least = smallest_p(a.len(), b.len()) / 2.0;
            let is_exact = a.len() + b.len() <= COUNTED_UP_TO;
            prop_assert!(!is_exact || one.p >= least * (1.0 - 1e-12));
        }

        #[test]
        fn only_the_order_of_values_matters(a in values(), b in values()) {
            // Halving loses no digit, and changes no order.
            let halved = |values: &[f64]| values.iter().map(|v| v / 2.0).collect::<Vec<_>>();
            prop_assert_eq!(rank_sum(&a, &b), rank_sum(&halved(&a), &halved(&b)));
        }

        #[test]
        fn the_approximation_is_near_what_is_counted(shift in 0.0..30.0, seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut sample = |shift: f64| -> Vec<f64> {
                (0..25).map(|_| random.f64() * 100.0 + shift).collect()
            };
            let ranks = Ranks::of(&sample(0.0), &sample(shift));
            prop_assert!((ranks.counted_p() - ranks.approximate_p()).abs() < 0.01);
        }
    }
}

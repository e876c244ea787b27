//! What placement gains: the same writer and reader on two CPUs, and both on one.
//!
//! On one CPU nothing has to be woken on another CPU and no byte goes from one cache to another, but nothing
//! runs in parallel. Where waking another CPU is expensive, as in many virtual machines, one CPU carries
//! several times as much.

use serde::{Deserialize, Serialize};

use crate::statistics::Spread;

/// The smallest ratio of the medians that counts as a gain. A figure whose rounds differ by 20% is marked as
/// uncertain everywhere else, and a smaller gain is not worth the price.
const LEAST_RATIO: f64 = 1.2;

/// What placement costs, as a sentence.
pub const PRICE: &str = "The price is that nothing runs in parallel, so it pays only where the stages \
                         compute little.";

/// The figures of both places, and their comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// The experiment that was measured, such as `write_read`.
    pub experiment: String,
    /// The CPU on which both ends were.
    pub cpu: usize,
    /// The GiB/s with each end on a CPU of its own.
    pub two_cpus: Spread,
    /// The GiB/s with both ends on one CPU.
    pub one_cpu: Spread,
    /// How many times as fast one CPU is, by the medians.
    pub ratio: f64,
    /// Whether one CPU is clearly faster: by at least [`LEAST_RATIO`], and with its slowest round faster than the
    /// fastest round on two CPUs. With five rounds each, chance alone does that once in 252 times.
    pub gains: bool,
    /// The microseconds from waking a process to its first instruction on another CPU, if that could be
    /// measured.
    pub wake_up_us: Option<f64>,
}

/// What `doctor` found: the figures of both places, and what they say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementReport {
    /// The figures; `None` if there is only one CPU to use, or they could not be measured.
    pub figures: Option<Placement>,
    /// What the figures say, or why there are none, in sentences.
    pub words: String,
}

impl Placement {
    /// Compares the rounds of both places, in GiB/s; `None` if there are none, or nothing moved in one of them.
    pub fn of(
        experiment: &str,
        cpu: usize,
        two_cpus: &[f64],
        one_cpu: &[f64],
        wake_up_us: Option<f64>,
    ) -> Option<Self> {
        let (two_cpus, one_cpu) = (Spread::of(two_cpus)?, Spread::of(one_cpu)?);
        if two_cpus.min <= 0.0 || one_cpu.min <= 0.0 {
            return None;
        }
        let ratio = one_cpu.median / two_cpus.median;
        let gains = ratio >= LEAST_RATIO && one_cpu.min > two_cpus.max;
        Some(Self {
            experiment: experiment.to_owned(),
            cpu,
            two_cpus,
            one_cpu,
            ratio,
            gains,
            wake_up_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(two_cpus: &[f64], one_cpu: &[f64]) -> bool {
        let placement = Placement::of("write_read", 0, two_cpus, one_cpu, None).unwrap();
        placement.gains
    }

    #[test]
    fn a_clear_gain_is_one_whose_rounds_do_not_overlap() {
        let two_cpus = [0.9, 1.0, 0.8, 0.9, 1.1];
        assert!(gains(&two_cpus, &[2.9, 2.8, 3.0, 1.2, 2.9]));
        assert!(!gains(&two_cpus, &[2.9, 2.8, 3.0, 1.0, 2.9]));
    }

    #[test]
    fn a_small_gain_or_a_loss_is_none() {
        let two_cpus = [1.0, 1.01, 1.02];
        assert!(!gains(&two_cpus, &[1.15, 1.16, 1.17]));
        assert!(!gains(&two_cpus, &[0.3, 0.3, 0.3]));
        assert!(gains(&[1.0], &[1.2]));
    }

    #[test]
    fn without_rounds_or_without_bytes_there_is_no_comparison() {
        assert_eq!(Placement::of("write_read", 0, &[], &[1.0], None), None);
        assert_eq!(Placement::of("write_read", 0, &[0.0], &[1.0], None), None);
        assert_eq!(
            Placement::of("write_read", 0, &[1.0], &[f64::NAN], None),
            None
        );
    }
}

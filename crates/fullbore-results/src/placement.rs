//! What placement gains: the same writer and reader on two CPUs, and both on one.
//!
//! On one CPU nothing has to be woken on another CPU and no byte goes from one cache to another, but nothing
//! runs in parallel. Where waking another CPU is expensive, as in many virtual machines, one CPU carries
//! several times as much.

use serde::{Deserialize, Serialize};

use crate::statistics::Spread;

/// The smallest ratio of the medians that counts as a gain. A figure whose rounds differ by 20% is marked as
/// uncertain everywhere else, and a smaller gain is not worth the price.
pub const LEAST_RATIO: f64 = 1.2;

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
    /// What the comparison says.
    pub verdict: Gain,
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

/// What `explain` found: what all sides on one CPU gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementAdvice {
    /// Whether it is advised.
    pub advised: bool,
    /// How many times as fast it is: measured for an experiment, and estimated for a command, which is not run
    /// again.
    pub worth: f64,
    /// Whether `worth` is an estimate.
    pub estimated: bool,
    /// How many CPUs all sides together would have used if none had waited for a CPU.
    pub cpus_used: f64,
    /// The measurement: of the experiment, or of an ordinary pipe.
    pub figures: Placement,
    /// The advice in sentences.
    pub words: String,
}

/// Whether one CPU is faster than two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gain {
    /// It is faster by at least [`LEAST_RATIO`], and its slowest round is faster than the fastest round on two
    /// CPUs. With five rounds each, chance alone does that once in 252 times.
    Gains,
    /// The medians differ by that much, but the rounds overlap.
    Unclear,
    /// It is not faster, or by less than that.
    GainsNothing,
    /// The machine was busy: beside other processes, one CPU can be faster only because it wakes fewer of them up.
    Busy,
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
        let verdict = match (ratio >= LEAST_RATIO, one_cpu.min > two_cpus.max) {
            (false, _) => Gain::GainsNothing,
            (true, false) => Gain::Unclear,
            (true, true) => Gain::Gains,
        };
        Some(Self {
            experiment: experiment.to_owned(),
            cpu,
            two_cpus,
            one_cpu,
            ratio,
            verdict,
            wake_up_us,
        })
    }

    /// Returns whether one CPU is clearly faster.
    pub fn gains(&self) -> bool {
        self.verdict == Gain::Gains
    }

    /// Returns how many times as fast a pipeline is on one CPU, of whose time the programs themselves compute
    /// for the fraction `own`, all of them added up, and whose other time becomes shorter by the measured ratio
    /// (Amdahl's law).
    pub fn estimate(&self, own: f64) -> f64 {
        1.0 / (own + (1.0 - own).max(0.0) / self.ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(two_cpus: &[f64], one_cpu: &[f64]) -> Gain {
        let placement = Placement::of("write_read", 0, two_cpus, one_cpu, None).unwrap();
        placement.verdict
    }

    #[test]
    fn a_clear_gain_is_one_whose_rounds_do_not_overlap() {
        let two_cpus = [0.9, 1.0, 0.8, 0.9, 1.1];
        assert_eq!(verdict(&two_cpus, &[2.9, 2.8, 3.0, 1.2, 2.9]), Gain::Gains);
        assert_eq!(
            verdict(&two_cpus, &[2.9, 2.8, 3.0, 1.0, 2.9]),
            Gain::Unclear
        );
    }

    #[test]
    fn a_small_gain_or_a_loss_is_none() {
        let two_cpus = [1.0, 1.01, 1.02];
        assert_eq!(verdict(&two_cpus, &[1.15, 1.16, 1.17]), Gain::GainsNothing);
        assert_eq!(verdict(&two_cpus, &[0.3, 0.3, 0.3]), Gain::GainsNothing);
        assert_eq!(verdict(&[1.0], &[1.2]), Gain::Gains);
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

    #[test]
    fn the_programs_own_time_limits_the_estimate() {
        let placement = Placement::of("write_read", 0, &[1.0], &[3.0], None).unwrap();
        assert_eq!(placement.estimate(0.0), 3.0);
        assert_eq!(placement.estimate(0.25), 2.0);
        assert_eq!(placement.estimate(1.0), 1.0);
        assert_eq!(placement.estimate(1.25), 0.8);
    }
}

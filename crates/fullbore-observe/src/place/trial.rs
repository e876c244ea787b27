//! The comparison of two placements, which a pipeline has by turns: a short time in the one that it had, a
//! short time in the new one, and so on. So what changes slowly changes both.

use serde::{Deserialize, Serialize};

use super::window::{Score, median};

/// What placement is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Goal {
    /// More bytes per second, or as many with less CPU time.
    #[default]
    Speed,
    /// Less CPU time per byte, even if up to 5% of the rate is lost.
    SaveCpu,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The new placement moves more bytes per second.
    Faster,
    /// It moves about as many, with less CPU time.
    Cheaper,
    /// It moves fewer bytes per second.
    Slower,
    /// There is no difference that is larger than the noise.
    NoDifference,
    /// The pipeline changed during the trial.
    Interrupted,
}

impl Outcome {
    /// Returns whether the new placement is kept.
    pub fn is_won(self) -> bool {
        matches!(self, Self::Faster | Self::Cheaper)
    }
}

/// The windows of the new placement that a verdict needs, and those after which there is one in any case.
const ENOUGH: usize = 3;
const AT_MOST: usize = 6;

/// A rate below this part of the old one ends the trial at once.
const HOPELESS: f64 = 0.75;

/// The least differences that count.
const FASTER: f64 = 1.02;
const CHEAPER: f64 = 0.92;

/// The scores of the windows of a trial, in the order in which they were observed.
#[derive(Debug, Clone)]
pub struct Trial {
    old: Vec<Score>,
    new: Vec<Score>,
    /// The spread of the rate before the trial.
    noise: f64,
}

/// A comparison of one number under both placements.
#[derive(Debug, Clone, Copy)]
struct Compared {
    /// The median under the new placement as a multiple of the median under the old one.
    ratio: f64,
    /// Whether the two differ by more than the noise.
    is_clear: bool,
    /// The uncertainty of the ratio.
    error: f64,
}

impl Trial {
    /// Begins a trial with what was observed of the old placement just before, and the [spread] of its rate.
    pub fn new(before: Score, noise: f64) -> Self {
        Self {
            old: vec![before],
            new: Vec::new(),
            noise,
        }
    }

    /// Adds a window of the old placement.
    pub fn add_old(&mut self, score: Score) {
        self.old.push(score);
    }

    /// Adds a window of the new placement.
    pub fn add_new(&mut self, score: Score) {
        self.new.push(score);
    }

    /// Returns the number of windows.
    pub fn windows(&self) -> usize {
        self.old.len() + self.new.len()
    }

    /// Returns the rate under the new placement as a multiple of the rate under the old one; `None` before
    /// its first window.
    pub fn rate(&self) -> Option<f64> {
        (!self.new.is_empty()).then(|| self.compare(|score| score.rate).ratio)
    }

    /// Returns the part of the rate that the new placement may lose, given the noise; `None` before its first
    /// window.
    pub fn loss(&self) -> Option<f64> {
        let rate = self.compare(|score| score.rate);
        (!self.new.is_empty()).then(|| (1.0 - rate.ratio + rate.error).clamp(0.0, 1.0))
    }

    /// Returns the CPU time per byte under the new placement as a multiple of that under the old one.
    pub fn cost(&self) -> Option<f64> {
        (!self.new.is_empty()).then(|| self.compare(|score| score.cost).ratio)
    }

    /// Returns the outcome as soon as it is known.
    pub fn outcome(&self, goal: Goal) -> Option<Outcome> {
        if self.rate()? < HOPELESS {
            return Some(Outcome::Slower);
        }
        if self.new.len() < ENOUGH {
            return None;
        }
        let rate = self.compare(|score| score.rate);
        let cost = self.compare(|score| score.cost);
        let least_rate = match goal {
            Goal::Speed => 0.98,
            Goal::SaveCpu => 0.95,
        };
        let is_faster = rate.is_clear && rate.ratio >= FASTER;
        let is_cheaper = cost.is_clear && cost.ratio <= CHEAPER;
        // A little more speed is not worth much more CPU time; least so to those who want to save it.
        let is_worth_it = match goal {
            Goal::Speed => cost.ratio <= 1.05 || rate.ratio - rate.error > 1.03,
            Goal::SaveCpu => cost.ratio <= 1.0 || rate.ratio - 2.0 * rate.error > 1.05,
        };
        if is_faster && is_worth_it {
            return Some(Outcome::Faster);
        }
        if rate.ratio < least_rate && rate.is_clear {
            return Some(Outcome::Slower);
        }
        if is_cheaper && rate.ratio >= least_rate && rate.error <= 0.05 {
            return Some(Outcome::Cheaper);
        }
        (self.new.len() >= AT_MOST).then_some(match rate.ratio < least_rate {
            true => Outcome::Slower,
            false => Outcome::NoDifference,
        })
    }

    fn compare(&self, of: impl Fn(&Score) -> f64) -> Compared {
        let old: Vec<f64> = self.old.iter().map(&of).collect();
        let new: Vec<f64> = self.new.iter().map(&of).collect();
        let ratio = median(new.clone()) / median(old.clone()).max(1e-9);
        let spread = spread(&old).max(spread(&new));
        let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // By chance, three windows are all above or all below four others in 2 of 35 cases.
        let is_apart = least(&new) > most(&old) || most(&new) < least(&old);
        Compared {
            ratio,
            is_clear: is_apart || (ratio - 1.0).abs() > 2.0 * spread,
            // The median distance of normally distributed numbers is 0.67 standard deviations, and that of few
            // numbers can be 0 by chance.
            error: (1.5 * spread.max(self.noise)).max(0.015) / (new.len().max(1) as f64).sqrt(),
        }
    }
}

/// Returns the median distance from the median, as a share of the median.
pub fn spread(numbers: &[f64]) -> f64 {
    let middle = median(numbers.to_vec());
    let distances = numbers.iter().map(|number| (number - middle).abs());
    median(distances.collect()) / middle.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds windows by turns, until there is an outcome.
    fn outcome(goal: Goal, old: &[(f64, f64)], new: &[(f64, f64)]) -> (Option<Outcome>, usize) {
        let score = |&(rate, cost): &(f64, f64)| Score { rate, cost };
        let mut trial = Trial::new(score(&old[0]), 0.0);
        for (at, window) in new.iter().enumerate() {
            trial.add_new(score(window));
            if let Some(outcome) = trial.outcome(goal) {
                return (Some(outcome), at + 1);
            }
            trial.add_old(score(&old[(at + 1) % old.len()]));
        }
        (trial.outcome(goal), new.len())
    }

    const OLD: &[(f64, f64)] = &[(1.0, 1.0), (1.02, 1.01), (0.99, 1.0)];

    #[test]
    fn a_clear_loss_ends_a_trial_after_one_window() {
        let found = outcome(Goal::Speed, OLD, &[(0.55, 0.9)]);
        assert_eq!(found, (Some(Outcome::Slower), 1));
    }

    #[test]
    fn what_is_faster_in_every_window_wins() {
        let found = outcome(Goal::Speed, OLD, &[(1.3, 0.6), (1.2, 0.7), (1.4, 0.6)]);
        assert_eq!(found, (Some(Outcome::Faster), 3));
    }

    #[test]
    fn what_costs_less_at_the_same_rate_wins() {
        let cheap = [(1.0, 0.7), (0.99, 0.72), (1.01, 0.7)];
        let found = outcome(Goal::Speed, OLD, &cheap);
        assert_eq!(found, (Some(Outcome::Cheaper), 3));
        // 4% slower is only good enough for those who want to save CPU time.
        let slower = [(0.96, 0.7), (0.95, 0.72), (0.96, 0.7)];
        assert_eq!(
            outcome(Goal::SaveCpu, OLD, &slower).0,
            Some(Outcome::Cheaper)
        );
        assert_eq!(outcome(Goal::Speed, OLD, &slower).0, Some(Outcome::Slower));
        // Faster, at half again the CPU time.
        let dear = [
            (1.06, 1.5),
            (1.06, 1.52),
            (1.06, 1.5),
            (1.06, 1.5),
            (1.06, 1.5),
            (1.06, 1.5),
        ];
        assert_eq!(outcome(Goal::Speed, OLD, &dear).0, Some(Outcome::Faster));
        assert_eq!(
            outcome(Goal::SaveCpu, OLD, &dear).0,
            Some(Outcome::NoDifference)
        );
    }

    #[test]
    fn what_differs_less_than_the_noise_does_not_win() {
        let old = [(1.0, 1.0), (1.4, 1.0), (0.8, 1.0), (1.2, 1.1)];
        let new = [
            (1.1, 1.0),
            (0.9, 1.05),
            (1.5, 1.0),
            (1.0, 1.1),
            (1.3, 1.0),
            (1.1, 1.0),
        ];
        let found = outcome(Goal::Speed, &old, &new);
        assert_eq!(found, (Some(Outcome::NoDifference), 6));
    }
}

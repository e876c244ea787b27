//! What placement did to a pipeline: which placements were tried, what was gained, as data and in words.

use fullbore_host::text::Percent;
use serde::{Deserialize, Serialize};

use super::candidates::Untried;
use super::placement::Placement;
use super::trial::Outcome;

/// What placement did to a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// On which CPUs the stages may run now, or did at the end.
    #[serde(flatten)]
    pub placement: Placement,
    /// The rate as a multiple of the rate under the scheduler's placement; `None` if that is not known.
    pub rate: Option<f64>,
    /// The CPU time per byte as a multiple of that under the scheduler's placement.
    pub cost: Option<f64>,
    /// The trials, in the order in which they were made.
    pub trials: Vec<Tried>,
    /// How often a placement was given up because the pipeline behaved differently.
    pub changes: usize,
    /// Seconds of the pipeline's time that were lost in trials of slower placements.
    pub lost_seconds: f64,
    /// Why nothing was tried, if so.
    pub untried: Option<Untried>,
    /// All of this as a sentence.
    pub words: String,
}

/// What was done to the placement of a pipeline that another program has started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedPipeline {
    /// The names of the processes of each stage.
    pub stages: Vec<Vec<String>>,
    /// What placement did; `None` if the pipeline got its CPUs back.
    pub placement: Option<Placed>,
    /// How many of its processes got back their CPUs; `None` if it was placed.
    pub reverted: Option<usize>,
}

/// A placement that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The age of the pipeline at the end of the trial, in seconds.
    pub at: f64,
    /// The placement.
    #[serde(flatten)]
    pub placement: Placement,
    /// The number of windows that were compared.
    pub windows: usize,
    /// The rate as a multiple of the rate before.
    pub rate: f64,
    /// The CPU time per byte as a multiple of that before.
    pub cost: f64,
    /// How the trial ended.
    pub outcome: Outcome,
}

impl Placed {
    /// Returns the report on a placement that was given and not tried.
    pub fn given(placement: Placement) -> Self {
        let report = Self {
            placement,
            rate: None,
            cost: None,
            trials: Vec::new(),
            changes: 0,
            lost_seconds: 0.0,
            untried: None,
            words: String::new(),
        };
        report.with_words()
    }

    /// Adds the report as a sentence.
    pub(super) fn with_words(mut self) -> Self {
        self.words = self.sentence();
        self
    }

    fn sentence(&self) -> String {
        let mut words = format!("placement: {}", self.placement);
        match (self.rate, self.cost) {
            (Some(rate), Some(cost)) if !self.placement.is_none() => {
                words += &format!(
                    ", {rate:.2} times as fast as the scheduler's placement, with {} of its CPU time \
                     per byte",
                    Percent(cost)
                );
            }
            _ => {}
        }
        // The scheduler's placement is compared again with one that was kept.
        let is_new = |tried: &&Tried| !tried.placement.is_none();
        let trials: Vec<&Tried> = self.trials.iter().filter(is_new).collect();
        match (trials.as_slice(), self.untried) {
            ([], None) => {}
            ([], Some(why)) => words += &format!(": {}", why.in_words()),
            (trials, _) => {
                let lost: Vec<String> = trials
                    .iter()
                    .filter(|tried| !tried.outcome.is_won())
                    .map(|tried| tried.in_words())
                    .collect();
                words += &format!(
                    " ({} tried{}{})",
                    match trials.len() {
                        1 => "1 placement".to_owned(),
                        more => format!("{more} placements"),
                    },
                    match lost.as_slice() {
                        [] => String::new(),
                        // The last ones are of most interest.
                        [.., a, b] => format!("; {a}; {b}"),
                        [one] => format!("; {one}"),
                    },
                    match self.changes {
                        0 => String::new(),
                        1 => "; given up once because the pipeline changed".to_owned(),
                        more => format!("; given up {more} times because the pipeline changed"),
                    }
                );
            }
        }
        words
    }
}

impl Tried {
    fn in_words(&self) -> String {
        let Self {
            placement,
            rate,
            cost,
            ..
        } = self;
        match self.outcome {
            Outcome::Interrupted => {
                format!("{placement}: the pipeline changed before it could be compared")
            }
            Outcome::NoDifference => format!("{placement}: no clear difference"),
            _ => format!(
                "{placement}: {rate:.2} times as fast, with {} of the CPU time per byte",
                Percent(*cost)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_was_done_and_gained() {
        let mut report = Placed::given(Placement::together(2, 1));
        assert_eq!(report.words, "placement: all stages on CPU 1");
        let tried = Tried {
            at: 0.7,
            placement: Placement::together(2, 1),
            windows: 7,
            rate: 1.4,
            cost: 0.5,
            outcome: Outcome::Faster,
        };
        report.trials.push(tried.clone());
        (report.rate, report.cost) = (Some(1.4), Some(0.5));
        assert_eq!(
            report.sentence(),
            "placement: all stages on CPU 1, 1.40 times as fast as the scheduler's placement, with \
             50% of its CPU time per byte (1 placement tried)"
        );
        let mut left = Placed::given(Placement::none(2));
        left.untried = Some(Untried::OneCpu);
        assert_eq!(
            left.sentence(),
            "placement: left to the scheduler: it may use only one CPU"
        );
        left.untried = None;
        left.trials.push(Tried {
            rate: 0.6,
            cost: 0.9,
            outcome: Outcome::Slower,
            ..tried
        });
        assert_eq!(
            left.sentence(),
            "placement: left to the scheduler (1 placement tried; all stages on CPU 1: 0.60 times \
             as fast, with 90% of the CPU time per byte)"
        );
    }
}

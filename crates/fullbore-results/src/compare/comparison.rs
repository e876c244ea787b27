//! What a comparison of runs holds: the shape of the JSON that `fullbore bench --compare --json` prints.

use serde::{Deserialize, Serialize};

use crate::run::{Unit, missing};

/// The version of the JSON's shape.
pub const COMPARISON_SCHEMA: u32 = 1;

/// A difference is more than noise where its probability by chance alone is below this.
pub const P_BELOW: f64 = 0.01;

/// A difference matters where one median is more than this many times the other.
pub const TIMES_ABOVE: f64 = 1.02;

/// The fewest rounds of each run that can have a `p` below [`P_BELOW`]: five of each that do not overlap have 2/252.
pub const ROUNDS_AT_LEAST: usize = 5;

/// Several runs side by side: what `fullbore bench --compare --json` prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// The version of this shape, [`COMPARISON_SCHEMA`].
    pub comparison_schema: u32,
    /// The runs, in the order they were named; ratios are to the first.
    pub runs: Vec<ComparedRun>,
    /// The facts that figures depend on and that are not the same in all runs.
    pub differences: Vec<Difference>,
    /// Why the runs may not be comparable, in words.
    pub warnings: Vec<String>,
    /// Each figure that any of the runs has.
    pub rows: Vec<ComparedFigure>,
}

/// One of the runs that are compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComparedRun {
    /// The letter that stands for it: `A` for the first.
    pub label: String,
    /// The file it was read from.
    pub file: String,
    /// When it was taken.
    pub taken_at: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPU's model.
    pub cpu_model: Option<String>,
}

/// A fact that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The name of the fact, such as `kernel`.
    pub fact: String,
    /// The value in each run; `None` where it is unknown.
    pub values: Vec<Option<String>>,
}

/// One figure of an experiment in all runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// The experiment's group.
    pub group: String,
    /// The table of the group that it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The experiment's name.
    pub name: String,
    /// Which of its figures, such as `p99`; `None` for the main one.
    pub figure: Option<String>,
    /// What each run measured.
    pub runs: Vec<Measured>,
    /// Each further run compared with the first.
    pub to_first: Vec<Pair>,
}

/// The figure in one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// The label of the run.
    pub run: String,
    /// The unit of the figure; `None` where the run does not have the experiment.
    pub unit: Option<Unit>,
    /// The middle round.
    pub median: Option<f64>,
    /// The smallest round.
    pub min: Option<f64>,
    /// The largest round.
    pub max: Option<f64>,
    /// How many rounds there are.
    pub rounds: usize,
    /// Why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// The error, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Measured {
    /// Returns why there is no figure, such as `skipped in B: no huge pages`; `None` where there
    /// is one, or where the run does not have the experiment.
    pub fn reason(&self) -> Option<String> {
        let (what, reason) = missing(self.failed.as_ref(), self.skipped.as_ref())?;
        Some(format!("{what} in {}: {reason}", self.run))
    }
}

/// A further run compared with the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The label of the further run.
    pub run: String,
    /// How many times as fast the further run is, by the medians.
    pub ratio: Option<f64>,
    /// The probability that rounds are this far apart by chance; `None` where that was not tested.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Change,
}

/// Whether the further run is faster or slower than the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The further run is faster, by more than noise.
    Faster,
    /// The further run is slower, by more than noise.
    Slower,
    /// No difference was shown. That does not mean that there is none.
    WithinNoise,
    /// However far apart the rounds are, there are too few to tell.
    TooFewRounds,
    /// One of the two runs has no such figure, or has it in another unit, or a median is not above zero.
    NotComparable,
}

impl Change {
    /// Every verdict.
    pub(super) const ALL: [(Change, char, &str); 5] = [
        (Change::Faster, '▲', "faster"),
        (Change::Slower, '▼', "slower"),
        (Change::WithinNoise, '≈', "within noise"),
        (Change::TooFewRounds, '?', "too few rounds"),
        (Change::NotComparable, '–', "not comparable"),
    ];

    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

/// Returns the label of the run at `index`: A, B, C. There are at most 26 runs.
pub(super) fn label(index: usize) -> String {
    char::from(b'A' + (index % 26) as u8).to_string()
}

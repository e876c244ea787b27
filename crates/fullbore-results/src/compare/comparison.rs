//! What a comparison of runs holds: the shape of the JSON that `fullbore bench --compare --json` prints.

use serde::{Deserialize, Serialize};

use crate::run::Unit;

/// The version of the JSON's shape.
pub const COMPARISON_SCHEMA: u32 = 1;

/// A difference is beyond the noise where chance alone makes one as large more rarely than this.
pub const P_BELOW: f64 = 0.01;

/// A difference matters where one median is more than so many times the other.
pub const TIMES_ABOVE: f64 = 1.02;

/// Several runs side by side: what `fullbore bench --compare --json` prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// The version of this shape, [`COMPARISON_SCHEMA`].
    pub comparison_schema: u32,
    /// By what verdicts were given.
    pub rule: Rule,
    /// The runs, in the order they were named; ratios are to the first.
    pub runs: Vec<ComparedRun>,
    /// The facts in which the runs differ, of those that figures depend on.
    pub differences: Vec<Difference>,
    /// Why the runs may not be comparable, in words.
    pub warnings: Vec<String>,
    /// A row for each figure that any of the runs has.
    pub rows: Vec<ComparedFigure>,
    /// How many pairs of figures were tested.
    pub tested: usize,
    /// How many of these would be beyond the noise by chance alone, at most.
    pub by_chance: f64,
}

/// By what a verdict is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rule {
    /// The test.
    pub test: String,
    /// Its `p` must be below this,
    pub p_below: f64,
    /// and one median more than so many times the other.
    pub times_above: f64,
    /// Fewer rounds of each run can not have such a `p`.
    pub rounds_at_least: usize,
}

/// One of the runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComparedRun {
    /// `A` for the first.
    pub label: String,
    /// The file it was read from.
    pub file: String,
    /// When it was taken; `None` where the file does not say.
    pub taken_at: Option<String>,
    /// When the file was last written, where `taken_at` is not known.
    pub file_written_at: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPU's model.
    pub cpu_model: Option<String>,
}

/// A fact that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What it is about, such as `kernel`.
    pub fact: String,
    /// What each run says of it; `None` where it says nothing.
    pub values: Vec<Option<String>>,
}

/// A figure in all runs.
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
    /// Each further run beside the first.
    pub to_first: Vec<Pair>,
    /// What a person should know besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What one run has for a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Which run.
    pub run: String,
    /// What the figures are in; `None` where the run does not have the experiment.
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
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Measured {
    /// Why there is no figure, such as `skipped in B: no huge pages`; `None` where there is one, or
    /// the run does not have the experiment.
    pub fn reason(&self) -> Option<String> {
        let (what, reason) = match (&self.failed, &self.skipped) {
            (Some(reason), _) => ("failed", reason),
            (None, Some(reason)) => ("skipped", reason),
            (None, None) => return None,
        };
        Some(format!("{what} in {}: {reason}", self.run))
    }
}

/// A further run beside the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The further run.
    pub run: String,
    /// How many times as fast the further run is, by the medians.
    pub ratio: Option<f64>,
    /// How often rounds would be this far apart by chance; `None` where that was not tested.
    pub p: Option<f64>,
    /// Whether `p` was counted; it is approximate elsewhere.
    pub exact: Option<bool>,
    /// What that comes to.
    pub verdict: Verdict,
}

/// What came of the further run beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The further run is faster, beyond the noise of both.
    Faster,
    /// The further run is slower, beyond the noise of both.
    Slower,
    /// No difference was shown, which does not mean that there is none.
    WithinNoise,
    /// However far apart the rounds are, there are too few to tell.
    TooFewRounds,
    /// The further run has no such figure.
    OnlyInFirst,
    /// The first run has no such figure.
    OnlyInFurther,
    /// Neither run has one.
    InNeither,
    /// Both have one, and not in the same unit.
    DifferentUnits,
    /// Both have one, and there is no ratio of the two: a median is no number above zero.
    NoRatio,
}

impl Verdict {
    /// In words, of the run labelled `further` beside the one labelled `first`.
    pub fn words(self, first: &str, further: &str) -> String {
        match self {
            Verdict::Faster => "faster".into(),
            Verdict::Slower => "slower".into(),
            Verdict::WithinNoise => "within noise".into(),
            Verdict::TooFewRounds => "too few rounds".into(),
            Verdict::OnlyInFirst => format!("only in {first}"),
            Verdict::OnlyInFurther => format!("only in {further}"),
            Verdict::InNeither => "in neither".into(),
            Verdict::DifferentUnits => "different units".into(),
            Verdict::NoRatio => "no ratio".into(),
        }
    }
}

/// The label of the run at `index`: A, B, C. There are no more than [`MOST_RUNS`].
pub(super) fn label(index: usize) -> String {
    char::from(b'A' + (index % 26) as u8).to_string()
}

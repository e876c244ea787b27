//! The verdict: which stage of a pipeline is the slow one, and how sure that is.

mod derived;
mod judge;
mod lines_alone;
pub mod next;
pub mod numbers;
mod sentence;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sampling::moment::Cause;
use crate::verdict::numbers::Numbers;

/// The findings about a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    /// The name of the machine, in a report that is read together with those of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// Which stage is the slow one.
    pub verdict: Verdict,
}

impl Findings {
    /// Returns the number and the text of the slow stage, if there is one.
    pub fn slow_stage(&self) -> Option<(usize, &str)> {
        let number = self.verdict.slow_stage()?;
        Some((number, &self.numbers.stages[number - 1].text))
    }
}

impl From<Numbers> for Findings {
    fn from(numbers: Numbers) -> Self {
        Self {
            host: None,
            verdict: Verdict::of(&numbers),
            numbers,
        }
    }
}

/// Which stage is the slow one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The statement of the verdict.
    pub kind: VerdictKind,
    /// The numbers of the slow stages, in ascending order; none for other kinds than `Stage`, `Shared` and `ByTurns`.
    pub stages: Vec<usize>,
    /// What the slow stage spends its time on; `Some` only for `Stage`.
    pub bound_by: Option<Bound>,
    /// How sure it is.
    pub sure: Sureness,
    /// The verdict in words, as one line.
    pub words: String,
    /// What to type next, as one line, if anything is known.
    #[serde(default)]
    pub next: Option<String>,
}

/// The statement of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// One stage is slow.
    Stage,
    /// Several stages are slow together, and busy at the same time.
    Shared,
    /// Several stages are slow at different times.
    ByTurns,
    /// There are too few CPUs for all stages that could run.
    Cpus,
    /// No stage is slow: they alternate, and the time is spent on waking each other.
    Waking,
    /// No stage is clearly the slow one.
    Nobody,
    /// The pipeline ran for too short a time for a verdict.
    TooShort,
    /// There is only one stage.
    Alone,
}

/// What a slow stage spends its time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// It runs.
    Cpu,
    /// It waits for a CPU.
    Queue,
    /// It waits for this cause.
    Cause(Cause),
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// All observations agree.
    Sure,
    /// Most observations agree.
    Likely,
    /// The verdict may be wrong.
    NotSure,
}

impl fmt::Display for Sureness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sureness::Sure => "sure",
            Sureness::Likely => "likely",
            Sureness::NotSure => "not sure",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Verdict {
    /// Returns the number of the slow stage, if there is one.
    pub fn slow_stage(&self) -> Option<usize> {
        let is_one = self.kind == VerdictKind::Stage;
        self.stages.first().copied().filter(|_| is_one)
    }
}

impl Cause {
    /// Returns the words for it in a line of text.
    pub fn in_words(self) -> &'static str {
        self.names().1
    }

    /// Returns the word for it in a table.
    pub fn in_short(self) -> &'static str {
        self.names().0
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Cause::Disk => ("disk", "a disk or device"),
            Cause::Network => ("socket", "a socket"),
            Cause::Terminal => ("terminal", "the terminal"),
            Cause::OtherPipe => ("pipe", "another pipe"),
            Cause::Several => ("poll", "something else (poll)"),
            Cause::Timer => ("timer", "a timer"),
            Cause::Stopped => ("stopped", "a SIGCONT"),
            Cause::Lock => ("lock", "a lock"),
            Cause::Signal => ("signal", "a signal"),
            Cause::Child => ("child", "a child process"),
            Cause::Unknown => ("unknown", "something unknown"),
        }
    }
}

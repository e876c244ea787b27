//! The verdict: which stage of a pipeline is the slow one, and how sure that is.

mod derived;
pub(crate) mod findings;
mod judge;
pub mod numbers;
mod sentence;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sampling::moment::Cause;

/// Which stage is the slow one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Shape", try_from = "Shape")]
pub struct Verdict {
    /// The statement of the verdict.
    pub kind: VerdictKind,
    /// How sure it is.
    pub sure: Sureness,
    /// The verdict in words, as one line.
    pub words: String,
}

/// The statement of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictKind {
    /// This stage, by its number, is slow, with the reason.
    Stage(usize, Bound),
    /// These stages are slow together, and busy at the same time.
    Shared(Vec<usize>),
    /// These stages are slow at different times.
    ByTurns(Vec<usize>),
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

/// The shape of a verdict in JSON: the stages are a list, however many there are.
#[derive(Serialize, Deserialize)]
struct Shape {
    kind: ShapeKind,
    stages: Vec<usize>,
    bound_by: Option<Bound>,
    sure: Sureness,
    words: String,
}

/// The word for a [`VerdictKind`] in JSON.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ShapeKind {
    Stage,
    Shared,
    ByTurns,
    Cpus,
    Waking,
    Nobody,
    TooShort,
    Alone,
}

impl From<Verdict> for Shape {
    fn from(verdict: Verdict) -> Self {
        let (kind, bound_by) = match &verdict.kind {
            VerdictKind::Stage(_, bound) => (ShapeKind::Stage, Some(*bound)),
            VerdictKind::Shared(_) => (ShapeKind::Shared, None),
            VerdictKind::ByTurns(_) => (ShapeKind::ByTurns, None),
            VerdictKind::Cpus => (ShapeKind::Cpus, None),
            VerdictKind::Waking => (ShapeKind::Waking, None),
            VerdictKind::Nobody => (ShapeKind::Nobody, None),
            VerdictKind::TooShort => (ShapeKind::TooShort, None),
            VerdictKind::Alone => (ShapeKind::Alone, None),
        };
        Self {
            kind,
            stages: verdict.stages(),
            bound_by,
            sure: verdict.sure,
            words: verdict.words,
        }
    }
}

impl TryFrom<Shape> for Verdict {
    type Error = &'static str;

    fn try_from(shape: Shape) -> Result<Self, Self::Error> {
        let kind = match (shape.kind, shape.stages.as_slice(), shape.bound_by) {
            (ShapeKind::Stage, &[number], Some(bound)) => VerdictKind::Stage(number, bound),
            (ShapeKind::Stage, ..) => return Err("a slow stage needs one number and 'bound_by'"),
            (ShapeKind::Shared, ..) => VerdictKind::Shared(shape.stages),
            (ShapeKind::ByTurns, ..) => VerdictKind::ByTurns(shape.stages),
            (ShapeKind::Cpus, ..) => VerdictKind::Cpus,
            (ShapeKind::Waking, ..) => VerdictKind::Waking,
            (ShapeKind::Nobody, ..) => VerdictKind::Nobody,
            (ShapeKind::TooShort, ..) => VerdictKind::TooShort,
            (ShapeKind::Alone, ..) => VerdictKind::Alone,
        };
        Ok(Self {
            kind,
            sure: shape.sure,
            words: shape.words,
        })
    }
}

impl Verdict {
    /// Returns the number of the slow stage, if there is one.
    pub fn slow_stage(&self) -> Option<usize> {
        match self.kind {
            VerdictKind::Stage(number, _) => Some(number),
            _ => None,
        }
    }

    /// Returns the numbers of the stages that it names.
    pub fn stages(&self) -> Vec<usize> {
        match &self.kind {
            VerdictKind::Stage(number, _) => vec![*number],
            VerdictKind::Shared(numbers) | VerdictKind::ByTurns(numbers) => numbers.clone(),
            _ => Vec::new(),
        }
    }
}

impl Cause {
    /// Returns the words for it in a line of text.
    pub fn in_words(self) -> &'static str {
        match self {
            Cause::Disk => "a disk or device",
            Cause::Network => "a socket",
            Cause::Terminal => "the terminal",
            Cause::OtherPipe => "another pipe",
            Cause::Several => "something else (poll)",
            Cause::Timer => "a timer",
            Cause::Stopped => "a SIGCONT",
            Cause::Lock => "a lock",
            Cause::Signal => "a signal",
            Cause::Child => "a child process",
            Cause::Unknown => "something unknown",
        }
    }

    /// Returns the word for it in a table.
    pub fn in_short(self) -> &'static str {
        match self {
            Cause::Disk => "disk",
            Cause::Network => "socket",
            Cause::Terminal => "terminal",
            Cause::OtherPipe => "pipe",
            Cause::Several => "poll",
            Cause::Timer => "timer",
            Cause::Stopped => "stopped",
            Cause::Lock => "lock",
            Cause::Signal => "signal",
            Cause::Child => "child",
            Cause::Unknown => "unknown",
        }
    }
}

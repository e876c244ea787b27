//! What an experiment does, as the runner sees it: something that can be measured once.
//!
//! Each group of the catalogue has its own kind of work, in its own file or folder; the runner and
//! the reports know none of them. Work runs in processes of its own, on the CPUs that it is given,
//! and ends within a time that follows from the settings.

use std::fmt::Debug;

use anyhow::Result;

use super::machine::CpuPair;
use super::movers::SourceFile;
use super::pipelines::Inputs;
use super::result::{EndpointReport, Outcome, Settings, Unit};
use super::soundness::Soundness;
use super::transports::RereadFile;

/// What one experiment does.
pub trait Work: Debug + Sync {
    /// Measures once.
    ///
    /// # Errors
    /// Where not even a pipe or a process can be made, and nothing else could be measured either.
    /// What this experiment alone cannot do, or breaks at, goes into the [`Measurement`].
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measurement>;

    /// The table of its group that it stands in; `None` where the group is one table.
    fn table(&self) -> Option<&'static str> {
        None
    }

    /// Who it is, where the tables of its group set the same few against the first of them: then their
    /// ratios are summed up over the tables.
    fn contestant(&self) -> Option<&'static str> {
        None
    }

    /// Adds to an outcome what only this kind of work knows.
    fn describe(&self, _outcome: &mut Outcome, _settings: &Settings) {}

    /// Whether its bytes are right whatever stands behind it; `None` where that is no question.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    fn check(&self, _cpus: &CpuPair) -> Result<Option<Soundness>> {
        Ok(None)
    }

    /// The command line of the program in `peers/` that does the same, its name first; `None` where
    /// there is none. Where and for how long it measures is added by whoever runs it.
    fn peer(&self, _settings: &Settings) -> Option<String> {
        None
    }

    /// The options of `fullbore write` and `fullbore read` that it stands for, if it does. Tests ask.
    #[cfg_attr(not(test), allow(dead_code))]
    fn endpoints(&self) -> Option<(&'static str, &'static str)> {
        None
    }
}

/// What measurements share.
#[derive(Debug)]
pub struct Bench<'a> {
    /// How to measure.
    pub settings: &'a Settings,
    /// Where.
    pub cpus: &'a CpuPair,
    /// What jobs with a file for a source read.
    pub source_file: SourceFile,
    /// What is read again and again.
    pub reread_file: RereadFile,
    /// What pipelines read.
    pub inputs: Inputs,
}

impl<'a> Bench<'a> {
    /// Without any of the files yet.
    pub fn new(settings: &'a Settings, cpus: &'a CpuPair) -> Self {
        Self {
            settings,
            cpus,
            source_file: SourceFile::default(),
            reread_file: RereadFile::default(),
            inputs: Inputs::default(),
        }
    }
}

/// One measurement, or why there is none.
pub type Measurement = Result<Taken, Stop>;

/// What was measured.
#[derive(Debug, Default)]
pub struct Taken {
    /// The figure, in the experiment's unit.
    pub figure: f64,
    /// Further figures.
    pub also: Vec<(&'static str, Unit, f64)>,
    /// The endpoints' reports, where there is one.
    pub writer: Option<EndpointReport>,
    pub reader: Option<EndpointReport>,
    /// Bytes and seconds, where it was timed from its start to its end.
    pub into_file: Option<(u64, f64)>,
    /// What a person should know beside the figure.
    pub notes: Vec<String>,
}

/// Why an experiment was given up.
#[derive(Debug)]
pub enum Stop {
    /// This machine does not allow it.
    Skipped(String),
    /// It broke.
    Failed(String),
    /// It was over before anything came through, as a short one on a busy machine may be. That is no
    /// figure of zero, and may be tried again.
    NothingCame,
}

impl Stop {
    /// The reason, for people.
    pub fn reason(&self) -> &str {
        match self {
            Stop::Skipped(reason) | Stop::Failed(reason) => reason,
            Stop::NothingCame => "nothing came through while it was measured",
        }
    }
}

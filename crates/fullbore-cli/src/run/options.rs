//! The options that a caller of `run` chooses.

use std::path::PathBuf;
use std::time::Duration;

use super::place::Place;

/// How to run a pipeline, and what to report about it.
#[derive(Debug, Default)]
pub struct Options {
    /// The capacity of each pipe, in bytes.
    pub pipe_size: usize,
    /// Whether the pipeline fails if any stage fails, and not only if the last one does.
    pub pipefail: bool,
    /// Whether a stage counts as failed if SIGPIPE ended it because a later stage had read enough.
    pub sigpipe_fails: bool,
    /// Whether a failure must not look like the end of the input to the stages behind.
    pub whole: bool,
    /// The file that the output replaces when everything has succeeded.
    pub output: Option<PathBuf>,
    /// Whether it is on the disk when everything has succeeded.
    pub sync: bool,
    /// How long processes that are asked to end may take before they are killed.
    pub grace: Duration,
    /// Who chooses the CPUs on which the stages run.
    pub place: Place,
    /// Whether to print a report at the end.
    pub report: bool,
    /// Whether to show the report while the pipeline runs, if stderr is a terminal.
    pub live: bool,
    /// Whether to show one line of progress while the pipeline runs, and how many bytes are to go through the first
    /// pipe, if the user has said that.
    pub progress: Option<Option<u64>>,
    /// The file to which the report is written as JSON.
    pub json: Option<PathBuf>,
    /// Whether to suppress messages about requests that could not be met.
    pub quiet: bool,
    /// Whether to print each program that is started.
    pub verbose: bool,
}

impl Options {
    /// Returns whether the pipeline has to be observed for a report.
    pub fn watched(&self) -> bool {
        self.report || self.live || self.progress.is_some() || self.json.is_some()
    }
}

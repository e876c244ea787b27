//! What a caller of `run` chooses.

use std::path::PathBuf;

/// How to run it, and what to say of it.
#[derive(Debug, Default)]
pub struct Options {
    /// Bytes that each pipe is to hold.
    pub pipe_size: usize,
    /// Whether any stage that fails counts, and not only the last one.
    pub pipefail: bool,
    /// Whether a stage fails that was ended by SIGPIPE because a later one had read enough.
    pub sigpipe_fails: bool,
    /// Whether to say how the pipeline did.
    pub report: bool,
    /// Whether to say it all the time, where stderr is a terminal.
    pub live: bool,
    /// Where to write how it did, as JSON.
    pub json: Option<PathBuf>,
    /// Whether to keep silent where something is not as it was asked for.
    pub quiet: bool,
    /// Whether to say what is started.
    pub verbose: bool,
}

impl Options {
    /// Whether somebody wants to know how the pipeline did.
    pub fn watched(&self) -> bool {
        self.report || self.live || self.json.is_some()
    }
}

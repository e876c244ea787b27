//! What was done to the pipes of a pipeline, in the shape of the JSON that `fullbore tune --json` prints:
//! a [`Tuning`] without indices into a census. docs/tune.md documents it.

use fullbore_linux::PipeLimit;
use serde::{Deserialize, Serialize};

use super::evidence::Writer;
use super::outcome::{Outcome, Tuned, Tuning};
use super::producers::Sends;
use crate::census::{Census, Holder};
use fullbore_host::text::error_text;

/// What was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningReport {
    /// The capacity that was asked for, in bytes.
    pub size: usize,
    /// Whether the default capacity was to be restored.
    pub revert: bool,
    /// Whether pipes were changed whatever their writers do.
    pub force: bool,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// One entry for each pipe.
    pub pipes: Vec<TunedPipe>,
    /// The number of pipes that do not connect two processes.
    pub left_out: usize,
}

/// A pipe, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedPipe {
    /// The device number of its inode.
    pub device: u64,
    /// The number of its inode.
    pub inode: u64,
    /// The path of a FIFO.
    pub path: Option<String>,
    /// The processes that write to it.
    pub writers: Vec<PipeUser>,
    /// The processes that read from it.
    pub readers: Vec<PipeUser>,
    /// What was done.
    pub outcome: Outcome,
    /// Its capacity before, in bytes, if it could be read.
    pub from: Option<usize>,
    /// Its capacity now, in bytes.
    pub to: Option<usize>,
    /// The limit that prevented a larger capacity.
    pub limit: Option<String>,
    /// The error, if it could not be opened or changed.
    pub error: Option<String>,
    /// How each writer sends, the least safe first.
    pub judged: Vec<JudgedWriter>,
}

/// A process that has the pipe open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeUser {
    /// Its process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub command: String,
}

/// A writer, and how it sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedWriter {
    /// Its process id.
    pub pid: u32,
    /// How it sends.
    pub sends: Sends,
    /// How this is known.
    pub because: String,
}

impl Tuning {
    /// Returns the report on it.
    pub fn report(&self) -> TuningReport {
        TuningReport {
            size: self.options.size,
            revert: self.options.revert,
            force: self.options.force,
            dry_run: self.options.dry_run,
            pipes: (self.all.iter())
                .map(|one| TunedPipe::of(&self.census, one))
                .collect(),
            left_out: self.found.left_out,
        }
    }
}

impl TunedPipe {
    fn of(census: &Census, one: &Tuned) -> Self {
        let pipe = &census.pipes[one.pipe];
        let user = |holder: &Holder| {
            let process = &census.processes[holder.process];
            PipeUser {
                pid: process.id.pid,
                name: process.name.clone(),
                command: process.command.clone(),
            }
        };
        let judged = |writer: &Writer| JudgedWriter {
            pid: census.processes[writer.process].id.pid,
            sends: writer.sends,
            because: writer.because.to_owned(),
        };
        Self {
            device: pipe.identity.device,
            inode: pipe.identity.inode,
            path: pipe.name.clone(),
            writers: pipe.writers().map(user).collect(),
            readers: pipe.readers().map(user).collect(),
            outcome: one.outcome,
            from: one.from,
            to: one.to,
            limit: one.limit.as_ref().map(PipeLimit::to_string),
            error: one.errno.map(|errno| error_text(&errno.into())),
            judged: one.writers.iter().map(judged).collect(),
        }
    }
}

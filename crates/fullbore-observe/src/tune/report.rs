//! What was done to the pipes of a pipeline, in the shape of the JSON that `fullbore tune --json` prints;
//! docs/tune.md documents it.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::outcome::{Options, Outcome};
use super::producers::Sends;
use crate::census::{Census, Holder, Pipe, Process};

/// What was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningReport {
    /// What was to be done.
    #[serde(flatten)]
    pub options: Options,
    /// One entry for each pipe.
    pub pipes: Vec<TunedPipe>,
    /// The number of pipes that do not connect two processes.
    pub left_out: usize,
    /// The processes with the given name, if there are several.
    #[serde(skip)]
    pub several: Vec<u32>,
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
    pub writers: Vec<Process>,
    /// The processes that read from it.
    pub readers: Vec<Process>,
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
    /// The errno of `error`.
    #[serde(skip)]
    pub errno: Option<Errno>,
    /// How each writer sends, the least safe first.
    pub judged: Vec<JudgedWriter>,
}

/// A writer, and how it sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedWriter {
    /// Its process id.
    pub pid: u32,
    /// Its name.
    #[serde(skip)]
    pub name: String,
    /// How it sends.
    pub sends: Sends,
    /// How this is known.
    pub because: String,
}

impl TunedPipe {
    /// A pipe to which nothing was done yet, and how its writers send.
    pub(super) fn new(census: &Census, pipe: &Pipe, judged: Vec<JudgedWriter>) -> Self {
        let user = |holder: &Holder| census.processes[holder.process].clone();
        Self {
            device: pipe.identity.device,
            inode: pipe.identity.inode,
            path: pipe.name.clone(),
            writers: pipe.writers().map(user).collect(),
            readers: pipe.readers().map(user).collect(),
            outcome: Outcome::HalfOpen,
            from: None,
            to: None,
            limit: None,
            error: None,
            errno: None,
            judged,
        }
    }

    /// Returns whether all its writers are known to work with any capacity.
    pub fn is_safe(&self) -> bool {
        let mut all = self.judged.iter();
        !self.judged.is_empty() && all.all(|writer| writer.sends == Sends::Safely)
    }
}

//! What is known about a stage apart from samples: how it was started, how it ended, and which other pipes it may
//! use.

use std::process::ExitStatus;

use super::attribution::Attribution;
use super::moment::Ways;

/// A command of the pipeline, as it was started. Its index in the pipeline begins with 0.
#[derive(Debug, Clone, Default)]
pub struct StartedStage {
    /// The text of the command as it was given. It may contain any characters.
    pub text: String,
    /// The command as it would be typed in a shell; empty if it is not known.
    pub command: String,
    /// Its first process, whose descendants belong to the stage too.
    pub pid: u32,
}

/// Whether a stage may also read from and write to other pipes, and whether other processes may use its
/// pipes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mixes {
    /// It reads from other pipes too.
    pub reads: bool,
    /// It writes to other pipes too.
    pub writes: bool,
    /// How far its figures are its own, given that processes outside of the stage may read from its
    /// input.
    pub others_read: Attribution,
    /// How far its figures are its own, given that processes outside of the stage may write to its
    /// output.
    pub others_write: Attribution,
}

/// What is known about a stage, apart from its sums.
#[derive(Debug, Default)]
pub struct StageFacts {
    /// How it was started.
    pub started: StartedStage,
    /// How it was seen to use its pipes.
    pub ways: Ways,
    /// How it ended.
    pub status: Option<ExitStatus>,
    /// What was accepted of its failure.
    pub accepted: Option<String>,
    /// Whether it may also use other pipes.
    pub mixes: Mixes,
    /// Whether the caller names its processes, so that they are not searched for.
    pub told: bool,
}

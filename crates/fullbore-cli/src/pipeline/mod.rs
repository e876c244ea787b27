//! What can be learnt about a pipeline that runs: its processes, the pipes between them, who waits for
//! whom, and so who is the slow one.
//!
//! Nothing here starts or ends a process, and nothing here is between two of them: all is looked up in
//! /proc, and by opening a pipe for the moment that it takes to ask how full it is ([`link`]).

mod attribution;
mod below;
mod blame;
pub mod census;
pub mod chains;
pub mod cpus;
mod findings;
mod foot;
mod link;
mod live;
mod moment;
mod process;
pub mod report;
mod sums;
pub mod verdict;
mod waiting;
mod watch;

pub use attribution::Attribution;
pub use below::below;
pub use findings::{Bytes, Findings, Known, Shares};
pub use foot::give_back;
pub use link::{Fill, Link, Witness, open_for_writing};
pub use live::Live;
pub use moment::{Cause, Moment};
pub use process::{THREADS, awaits_a_child, call};
pub use verdict::{Bound, Kind as VerdictKind, Percent, Verdict};
pub use watch::{Mixes, PROCESSES, Watch};

/// A command of the pipeline, as it was started. Its number is its place in the pipeline, from 0.
#[derive(Debug, Clone)]
pub struct Stage {
    /// What a person wrote. It may hold anything.
    pub text: String,
    /// Its first process; those below it belong to it too.
    pub pid: u32,
}

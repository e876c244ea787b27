//! Pipelines that run, observed from outside: their processes, the pipes between them, which process waits
//! for which, and so which stage is slow; and `tune`, which makes their pipes larger.
//!
//! Nothing here starts or ends a process, and no byte passes through it. All is read from /proc, and by
//! opening a pipe for the moment that it takes to ask how full it is ([`link`]). Nothing here knows a
//! verb, a command line or a terminal: this folder imports only the library and `host`.
//!
//! | file | holds |
//! |---|---|
//! | `census.rs` | all processes with pipes, and their pipes, at one moment |
//! | `chains.rs` | which of these pipes form a pipeline |
//! | `watch.rs` | samples of one pipeline, from its start to its end |
//! | `numbers.rs` | what samples and counters add up to |
//! | `verdict.rs` | which stage is slow, from these numbers |
//! | `monitor.rs` | all pipelines of a machine, looked at again and again |
//! | `overview.rs` | what a monitor has seen, for those who show it |
//! | `tune/` | larger pipes for a pipeline that runs |

mod attribution;
pub mod below;
mod blame;
pub mod census;
pub mod chains;
mod cpus;
mod derived;
pub mod error;
pub mod findings;
mod history;
mod judge;
pub mod link;
pub mod moment;
pub mod monitor;
pub mod numbers;
pub mod overview;
mod proc_files;
mod process;
pub mod scope;
mod stage;
mod sums;
pub mod tune;
pub mod verdict;
mod waiting;
mod walk;
pub mod watch;
mod watched;
mod words;

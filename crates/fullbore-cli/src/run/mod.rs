//! Runs a pipeline as a shell would, in roomier pipes.
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | what is to be started: |
//! | `line.rs` | … of a line for the shell, cut at its pipes |
//! | `tokens.rs` | … what its tokens tell |
//! | `words.rs` | … of words, without any shell |
//! | `keeper.rs` | the process that was called: it keeps watch over the one that runs the pipeline |
//! | `fork.rs` | how there come to be two of them |
//! | `bounded.rs` | a computation that may not end, in a process of its own |
//! | `runner.rs` | that one |
//! | `background.rs` | … and what it does about processes in the background |
//! | `options.rs`, `status.rs` | what a caller chooses; the status of a pipeline |
//! | `start.rs` | making pipes, starting programs |
//! | `signals.rs` | Ctrl-C and the others |
//! | `failure.rs` | what can go wrong, and its exit code |
//!
//! The one idea: there are two processes, and each would end everything if the other were gone. So nothing
//! is left behind by whatever happens to one of them. Neither touches a byte: the stages have the pipes,
//! and all processes stay in the process group that the user's shell made, where the terminal and job
//! control find them.

mod background;
mod bounded;
mod failure;
mod fork;
mod keeper;
mod line;
mod options;
mod plan;
mod runner;
mod signals;
mod start;
mod status;
mod tokens;
mod words;

pub use failure::{FAILED, Failure};
pub use keeper::keep;
pub use options::Options;
pub use plan::Plan;
pub use runner::run;

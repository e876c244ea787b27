//! Runs a pipeline as a shell would, with larger pipes.
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | the stages that a command line asks for |
//! | `command_line.rs` | … from a line for the shell, which is cut at its pipes |
//! | `scan.rs` | … the borders of the line's tokens |
//! | `argv.rs` | … from words, without a shell |
//! | `keeper.rs` | the process that the user started, which watches the runner |
//! | `runner.rs` | the process that runs the pipeline |
//! | `observer.rs` | … and observes it, for a report |
//! | `stall.rs` | … and finds out that nothing moves |
//! | `reap.rs` | … and waits for the children that have ended |
//! | `background.rs` | … and how it waits for processes in the background |
//! | `options.rs`, `status.rs` | the options of a caller; the status of a pipeline |
//! | `shown.rs` | … which `parallel` has too: what is shown and reported |
//! | `accept.rs` | `--accept`: failures that are none |
//! | `judge.rs` | … and what a stage that has ended was |
//! | `whole.rs` | `--whole`: no stage sees an end that a failure has caused |
//! | `settle.rs` | … and what follows from the end of a stage |
//! | `shelf.rs` | … and where the write ends of the pipes are kept open |
//! | `elsewhere.rs` | the warning about a last stage that passes its input to another machine |
//! | `holder.rs` | … and the process that keeps them open when the others are gone; what the runner shares with it and the keeper |
//! | `left.rs` | messages; what is said of processes that could not be ended |
//! | `start.rs` | making pipes, starting programs |
//! | `enlarge.rs` | enlarging the pipes that a shell has made |
//! | `place.rs` | the CPUs on which the stages run |
//! | `signals.rs` | Ctrl-C and other signals |
//! | `failure.rs` | the failure to start a stage, and its exit code |
//!
//! Two processes run a pipeline, and each of them ends all stages if the other one is gone. So no process is
//! left behind, whatever happens to one of the two. Neither of them reads or writes the data: the stages have
//! the pipes, and all processes stay in the process group that the user's shell made, where the terminal and
//! job control find them. With `--whole` there is a third process, the holder, in a session of its own.

mod accept;
mod argv;
mod background;
mod command_line;
mod elsewhere;
mod enlarge;
mod failure;
mod holder;
mod judge;
mod keeper;
mod left;
mod observer;
mod options;
mod place;
mod plan;
mod reap;
mod runner;
mod scan;
mod settle;
mod shelf;
mod shown;
mod signals;
mod stall;
mod start;
mod status;
mod whole;

pub use accept::Codes;
pub use failure::{FAILED, Failure};
pub use holder::Others;
pub use keeper::keep;
pub use left::{called, say_left};
pub use options::Options;
pub use plan::Plan;
pub use runner::{run, stay_below_the_keeper};
pub use shown::{Shown, write_json};
pub use signals::{Came, Signals, stop};
pub use start::{Command, Starting, WHOLE};
pub use status::{code, how_it_failed};

//! Runs one stage of a pipeline in several processes: `fullbore parallel`.
//!
//! | file | holds |
//! |---|---|
//! | `options.rs` | the options, and the sizes that follow from them |
//! | `records.rs` | where records end: no input, no clock |
//! | `memory.rs` | the memory for what has been read and not been written |
//! | `input.rs` | the input, in blocks that end at a record |
//! | `worker.rs` | one process with its block, and its output |
//! | `messages.rs` | the lines of the workers on stderr |
//! | `queue.rs` | the workers in the order of their blocks, and whose turn it is |
//! | `outlet.rs` | stdout, and the bytes on their way there |
//! | `drain.rs` | the thread that writes the output of the block whose turn it is |
//! | `failures.rs` | which workers have failed, and what follows from it |
//! | `report.rs` | what the workers did, and what was slow |
//! | `display.rs` | the progress, and the lines of the log |
//! | `stop.rs` | why no more is written |
//! | `runner.rs` | the process that does it all: starting, writing, ending |
//! | `rest.rs` | how often the pipes of the workers are looked at |
//! | `wait.rs` | what it waits for with poll(2), and what it does then |
//!
//! The block whose turn it is goes straight from its process to the output, and needs no memory for that. All others
//! wait for memory. So there is always one that goes on, and nothing can deadlock.

mod display;
mod drain;
mod failures;
mod input;
mod memory;
mod messages;
mod options;
mod outlet;
mod queue;
mod records;
mod report;
mod rest;
mod runner;
mod stop;
mod wait;
mod worker;

pub use options::Options;
pub use runner::{GRACE, run};

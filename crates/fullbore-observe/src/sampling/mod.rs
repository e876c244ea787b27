//! Samples the processes of a pipeline: what they do at a moment, what they have used, and what they wait for.
//!
//! | file | holds |
//! |---|---|
//! | `waiting.rs` | what a thread waits for, from its system call or the kernel function in which it sleeps |
//! | `process_files.rs`, `resources.rs` | the files of a process in /proc; what it has used |
//! | `process.rs` | what the threads of a process do at a moment |
//! | `rings.rs` | memory that two processes share instead of a pipe |
//! | `attribution.rs` | how certain it is that the figures of a stage are those of the process that others wait for |
//! | `moment.rs` | what a stage does at a moment |
//! | `facts.rs` | what is known about a stage apart from samples |
//! | `input_file.rs` | how far a stage is in the file that it reads |
//! | `stage.rs` | the processes of a stage, and what they have used |
//! | `blame.rs` | which stages keep the others waiting at a moment |
//! | `cpus.rs` | the idle time of the CPUs |
//! | `sums.rs` | the sums of all samples |
//! | `pipeline.rs` | all of this for the stages and pipes of one pipeline |

pub mod attribution;
pub mod blame;
pub mod cpus;
pub mod facts;
pub mod input_file;
pub mod moment;
pub mod pipeline;
pub mod process;
pub mod process_files;
mod resources;
mod rings;
pub mod stage;
pub mod sums;
pub mod waiting;

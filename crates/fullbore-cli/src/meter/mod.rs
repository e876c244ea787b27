//! Shows how bytes pass, and which side of the pipeline makes the other wait.
//!
//! | file | holds |
//! |---|---|
//! | `pass.rs` | passing the bytes on |
//! | `live.rs` | the meter of what passes |
//! | `display.rs` | where lines are drawn |
//! | `format.rs` | pv's line, and its formats |
//! | `sample.rs` | one sample of the pipes on both sides |
//! | `verdict.rs` | what many samples mean |
//! | `options.rs` | what is shown, and how; what can be changed while it runs |
//! | `pv.rs` | the table of pv's options, and those that are refused |
//! | `pipeline.rs` | how far a whole pipeline is that is already running |
//! | `remote.rs` | telling and asking a meter that is running |
//! | `query.rs` | the line of a meter that is running, shown by another one |
//! | `skip.rs` | how far to go on behind a read error |
//! | `pid_file.rs` | the file with the PID |
//! | `watch.rs` | the files of a process that is already running |

mod display;
mod format;
mod live;
mod options;
mod pass;
mod pid_file;
mod pipeline;
pub mod pv;
mod query;
pub mod remote;
mod sample;
mod skip;
mod verdict;
mod watch;

pub use crate::terminal::line::Unit;
pub use display::Display;
pub use format::{Format, Scale};
pub use live::Meter;
pub use options::{Changes, Look, Numbers, Options};
pub use pass::{How, Passing};
pub use pid_file::PidFile;
pub use pipeline::follow;
pub use query::query;
pub use watch::{Target, Watches};

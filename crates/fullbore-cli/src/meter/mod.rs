//! Shows how bytes pass, and which side of the pipeline makes the other wait.
//!
//! | file | holds |
//! |---|---|
//! | `line_options.rs` | the options that say what is shown |
//! | `transfer_options.rs` | the options that say what is copied |
//! | `pass.rs`, `lines.rs` | passing the bytes on; the lines among them |
//! | `live.rs` | the meter of what passes |
//! | `display.rs` | where lines are drawn |
//! | `manner.rs` | the words and exit codes: its own, or those of pv |
//! | `look.rs` | how a reading is shown |
//! | `format.rs`, `bar.rs`, `appearance.rs` | pv's line: its formats, bars, colours, and units |
//! | `extra.rs` | the line in the title of the window |
//! | `stats.rs` | how the rate differed |
//! | `sample.rs` | one sample of the pipes on both sides |
//! | `verdict.rs` | what many samples mean |
//! | `remote.rs` | telling and asking a meter that is running |
//! | `skip.rs` | how far to go on behind a read error |
//! | `pid_file.rs` | the file with the PID |
//! | `watch.rs`, `target.rs` | the files of a process that is already running; how it is named |

mod appearance;
mod bar;
mod display;
mod extra;
mod format;
mod line_options;
mod lines;
mod live;
mod look;
pub mod manner;
mod pass;
mod pid_file;
pub mod remote;
mod sample;
mod skip;
mod stats;
mod target;
mod transfer_options;
mod verdict;
mod watch;

pub use display::Display;
pub use line_options::{LineOptions, expected};
pub use lines::lines_of_all;
pub use live::Meter;
pub use pass::Passing;
pub use pid_file::PidFile;

pub use target::Target;
pub use transfer_options::TransferOptions;
pub use watch::Watches;

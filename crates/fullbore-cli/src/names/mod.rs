//! The programs that this one can be called as: a link named `pv`, `mbuffer`, `tee` or `cat` is that program, with its
//! options, its words and its exit codes. The bytes are moved as the verbs move them.
//!
//! | file | holds |
//! |---|---|
//! | `getopt.rs` | the command line as getopt_long(3) reads it |
//! | `call.rs` | how a program was called, and what all of them say and do |
//! | `cat.rs`, `tee.rs`, `tables.rs` | those of GNU coreutils, and their options |
//! | `pv.rs`, `mbuffer.rs`, `mbuffer_words.rs` | pv and mbuffer, by the options of `fullbore meter` and `fullbore buffer` |
//! | `monitor.rs` | what `pv -M` starts |
//! | `lines.rs` | what the options of cat do to lines |

mod call;
mod cat;
mod getopt;
mod lines;
mod mbuffer;
mod mbuffer_words;
mod monitor;
mod pv;
mod tables;
mod tee;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use call::Call;

/// Returns the exit code. `Err` is an exit code too, and only ends the program early.
type Program = fn(&Call) -> Result<ExitCode, ExitCode>;

/// The programs by name: a link with the name makes this program that one.
pub const NAMES: [(&str, Program); 4] = [
    ("cat", cat::run),
    ("mbuffer", mbuffer::run),
    ("pv", pv::run),
    ("tee", tee::run),
];

/// Runs the program whose name this process was called by; `None` if that is `fullbore` or any other.
pub fn run() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let who = args.next()?;
    let name = Path::new(&who).file_name().and_then(OsStr::to_str)?;
    let (_, run) = NAMES.into_iter().find(|(known, _)| *known == name)?;
    crate::exit::end_where_no_thread_starts(name.to_owned());
    let args: Vec<OsString> = args.collect();
    Some(run(&Call::new(&who, args)).unwrap_or_else(|code| code))
}

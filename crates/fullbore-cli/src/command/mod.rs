//! The verbs: each file parses its options, calls what does the work, and prints.

pub mod bench;
pub mod buffer;
pub mod complete;
pub mod completions;
pub mod copy;
pub mod doctor;
pub mod explain;
pub mod man;
pub mod meter;
pub mod middleman;
mod output;
pub mod part;
pub mod read;
pub mod run;
pub mod tee;
pub mod top;
pub mod tune;
pub mod write;

use fullbore_lab::program::Program;

/// Returns this program, even if its file has been replaced since.
fn program() -> Program {
    Program::at("/proc/self/exe")
}

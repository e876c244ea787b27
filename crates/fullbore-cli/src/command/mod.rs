//! The verbs: each file parses its options, calls what does the work, and prints.

#[cfg(feature = "lab")]
pub mod bench;
pub mod buffer;
pub mod copy;
#[cfg(feature = "lab")]
pub mod doctor;
#[cfg(feature = "lab")]
pub mod explain;
pub mod generate;
mod json;
pub mod meter;
#[cfg(feature = "lab")]
pub mod middleman;
mod output;
pub mod parallel;
#[cfg(feature = "lab")]
pub mod part;
#[cfg(feature = "lab")]
pub mod read;
#[cfg(feature = "lab")]
mod reports;
pub mod run;
pub mod tee;
pub mod top;
pub mod tune;
#[cfg(feature = "lab")]
pub mod write;

#[cfg(feature = "lab")]
use fullbore_lab::program::Program;

/// Returns this program, even if its file has been replaced since.
#[cfg(feature = "lab")]
fn program() -> Program {
    Program::at("/proc/self/exe")
}

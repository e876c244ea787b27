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

use std::ffi::OsString;

use fullbore_host::refusal::Usage;
#[cfg(feature = "lab")]
use fullbore_lab::program::Program;

/// Returns this program, even if its file has been replaced since.
#[cfg(feature = "lab")]
fn program() -> Program {
    Program::at("/proc/self/exe")
}

/// Returns the line that was given, or `None` for words after `--`: of a `what`, of which the examples are one as a line
/// and one as words.
///
/// # Errors
/// If neither was given, or both, or a line in several arguments.
fn line_or_words<'a>(
    line: &'a [OsString],
    words: &[OsString],
    what: &str,
    [as_line, as_words]: [&str; 2],
) -> Result<Option<&'a OsString>, Usage> {
    Err(Usage(match (line, words) {
        ([line], []) => return Ok(Some(line)),
        ([], [_, ..]) => return Ok(None),
        ([], []) => format!("no {what} was given"),
        (_, []) => format!(
            "give the {what} as one argument in quotes, such as '{as_line}', or as words after '--', such as -- \
             {as_words}"
        ),
        _ => "give a line, or words after '--', not both".to_owned(),
    }))
}

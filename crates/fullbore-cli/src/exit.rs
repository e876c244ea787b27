//! Exit codes, and the errors that choose one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; also when the reader of the output went away early |
//! | 1 | something failed on the way: an I/O error, wrong bytes, an experiment that broke |
//! | 2 | the command line is wrong, or asks for what contradicts itself |
//! | 3 | this machine or this user may not do what was asked for |

use std::io::{self, Write, stderr};
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::Context;

use crate::moving::failure::{close_failed, is_closed_output};
use fullbore_host::refusal::{UNSUPPORTED, Unsupported, Usage};
use fullbore_host::text::clean;
use fullbore_observe::Error;

/// Says on stderr what went wrong with a verb. Unlike eprintln!, without a panic where stderr is
/// closed.
pub fn say(verb: &str, error: &anyhow::Error) {
    // It may name what others have named: files, arguments, programs.
    let words = clean(&format!("{error:#}"));
    let _ = writeln!(stderr(), "fullbore {verb}: {words}");
}

/// Writes what is still in the buffer of stdout, and asks the file system whether it has everything:
/// the last thing that a verb does.
///
/// A duplicate is closed: close(2) asks the file system each time, and stdout stays open for whoever
/// prints from a thread that still runs.
///
/// # Errors
/// Where stdout does not take it, or could not store it.
pub fn close_stdout() -> anyhow::Result<()> {
    let stdout = io::stdout();
    stdout.lock().flush().context("write to stdout")?;
    let duplicate = stdout.as_fd().try_clone_to_owned().context("dup stdout")?;
    fullbore::close(duplicate).map_err(|error| close_failed("stdout", error))
}

/// The exit code for an error, and whether a person should read of it: a reader that went away is
/// no news.
pub fn code(error: &anyhow::Error) -> Option<ExitCode> {
    if is_closed_output(error) {
        None
    } else if error.is::<Usage>() {
        Some(ExitCode::from(2))
    } else if is_unsupported(error) {
        Some(ExitCode::from(UNSUPPORTED))
    } else {
        Some(ExitCode::FAILURE)
    }
}

fn is_unsupported(error: &anyhow::Error) -> bool {
    error.is::<Unsupported>() || matches!(error.downcast_ref(), Some(Error::Unsupported(_)))
}

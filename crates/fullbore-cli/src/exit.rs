//! Exit codes, and the errors that choose one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; also when the reader of the output went away early |
//! | 1 | something failed on the way: an I/O error, wrong bytes, an experiment that broke |
//! | 2 | the command line is wrong, or asks for what contradicts itself |
//! | 3 | this machine or this user may not do what was asked for |

use std::fmt;
use std::io::{self, Write, stderr};
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use fullbore::Side;
use rustix::io::Errno;

use crate::moving::{Broken, said};
use fullbore_host::refusal::{UNSUPPORTED, Unsupported, Usage};
use fullbore_host::text::clean;

/// An input that could not be opened or read: other inputs are not affected.
#[derive(Debug)]
pub struct BadInput(pub String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Whether the error is one input's, and of no consequence for others.
pub fn is_about_an_input(error: &anyhow::Error) -> bool {
    error.is::<BadInput>()
        || error
            .downcast_ref::<Broken>()
            .is_some_and(|broken| broken.side == Side::Source)
}

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

/// The error of close(2) on `what`.
pub fn close_failed(what: &str, error: fullbore::Error) -> anyhow::Error {
    match error {
        fullbore::Error::System { errno, .. } => anyhow!("close {what}: {}", said(&errno)),
        error => anyhow::Error::new(error).context(format!("close {what}")),
    }
}

/// The exit code for an error, and whether a person should read of it: a reader that went away is
/// no news.
pub fn code(error: &anyhow::Error) -> Option<ExitCode> {
    if is_closed_output(error) {
        None
    } else if error.is::<Usage>() {
        Some(ExitCode::from(2))
    } else if error.is::<Unsupported>() {
        Some(ExitCode::from(UNSUPPORTED))
    } else {
        Some(ExitCode::FAILURE)
    }
}

fn is_closed_output(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
            // It keeps the error of the writer to itself.
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
            || cause
                .downcast_ref::<Broken>()
                .is_some_and(Broken::is_closed_output)
            || cause.downcast_ref::<Errno>() == Some(&Errno::PIPE)
            || cause
                .downcast_ref::<fullbore::Error>()
                .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

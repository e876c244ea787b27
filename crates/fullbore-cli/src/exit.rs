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
use std::process::ExitCode;

use fullbore::Side;
use rustix::io::Errno;

use crate::moving::Broken;
use crate::text::clean;

/// The command line is wrong: code 2.
#[derive(Debug)]
pub struct Usage(pub String);

/// This machine or this user may not do it: code 3.
#[derive(Debug)]
pub struct Unsupported(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
impl std::error::Error for Unsupported {}

/// The code of [`Unsupported`].
pub const UNSUPPORTED: u8 = 3;

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

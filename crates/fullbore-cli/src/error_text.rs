//! Names and errors of the system as they are printed.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;

use crate::limits::{limit_of_files, limit_of_processes};
use anyhow::anyhow;
use fullbore_host::text::{clean, error_text};
use rustix::io::Errno;

/// Returns a name that others chose, without what a terminal would obey.
pub fn shown(name: impl AsRef<OsStr>) -> String {
    clean(&name.as_ref().to_string_lossy())
}

/// Returns the words for an error of starting a process or a thread, with the limit that was hit, if one was.
pub fn with_limit(error: &io::Error) -> String {
    let text = error_text(error);
    let limit = Errno::from_io_error(error).and_then(limit_of_processes);
    match limit {
        Some(limit) => format!("{text} ({limit})"),
        None => text,
    }
}

/// Adds what failed to an error of the system.
pub trait Failed<T> {
    /// Returns `open 'a': No such file or directory`. The error is kept as text only, so that its
    /// `EPIPE` is not taken for that of stdout.
    ///
    /// # Errors
    /// If `self` is an error.
    fn failed(self, what: impl Display) -> anyhow::Result<T>;
}

impl<T, E: Into<io::Error>> Failed<T> for Result<T, E> {
    fn failed(self, what: impl Display) -> anyhow::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let text = error_text(&error);
            match Errno::from_io_error(&error).and_then(limit_of_files) {
                Some(limit) => anyhow!("{what}: {text} ({limit})"),
                None => anyhow!("{what}: {text}"),
            }
        })
    }
}

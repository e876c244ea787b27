//! Names and errors of the system as they are printed.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;

use anyhow::anyhow;
use fullbore_host::text::{clean, error_text};

/// Returns a name that others chose, without what a terminal would obey.
pub fn shown(name: impl AsRef<OsStr>) -> String {
    clean(&name.as_ref().to_string_lossy())
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
        self.map_err(|error| anyhow!("{what}: {}", error_text(&error.into())))
    }
}

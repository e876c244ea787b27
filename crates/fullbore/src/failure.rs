//! The error of everything that moves bytes from a source: [`Failure`].

use std::fmt;
use std::io;

use fullbore_linux::Error;

/// The error of a run, with a report of what it did before. It becomes its [`Error`], or the kernel's [`io::Error`], by
/// `?`.
#[derive(Debug)]
pub struct Failure<Report> {
    /// What was done before it failed.
    pub report: Box<Report>,
    /// The index of the sink that failed, from 0; `None` if something else failed, such as the source.
    pub sink: Option<usize>,
    /// The error: which side failed, in which operation, and what the kernel said.
    pub error: Error,
}

impl<Report> fmt::Display for Failure<Report> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<Report: fmt::Debug> std::error::Error for Failure<Report> {}

impl<Report> From<Failure<Report>> for Error {
    fn from(failure: Failure<Report>) -> Self {
        failure.error
    }
}

impl<Report> From<Failure<Report>> for io::Error {
    fn from(failure: Failure<Report>) -> Self {
        failure.error.into()
    }
}

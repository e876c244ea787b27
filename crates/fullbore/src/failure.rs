//! The error of everything that moves bytes from a source: [`Failure`].

use std::fmt;

use fullbore_linux::Error;

/// The error of a run, with a report of what it did before. It becomes its [`Error`], or the kernel's [`std::io::Error`], by
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

impl<Report> Failure<Report> {
    pub(crate) fn new(report: Report, sink: Option<usize>, error: Error) -> Self {
        Self {
            report: Box::new(report),
            sink,
            error,
        }
    }
}

/// Makes a type with the field `error` print as this error, and convert into it by `?`.
macro_rules! stands_for_its_error {
    ($failure:ident) => {
        impl<T> std::fmt::Display for $failure<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.error.fmt(f)
            }
        }

        impl<T> From<$failure<T>> for fullbore_linux::Error {
            fn from(failure: $failure<T>) -> Self {
                failure.error
            }
        }

        impl<T> From<$failure<T>> for std::io::Error {
            fn from(failure: $failure<T>) -> Self {
                failure.error.into()
            }
        }
    };
}

pub(crate) use stands_for_its_error;

stands_for_its_error!(Failure);

impl<Report: fmt::Debug> std::error::Error for Failure<Report> {}

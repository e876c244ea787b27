//! Why something could not be observed, or changed.

use std::fmt;
use std::io;

use fullbore_host::refusal::Unsupported;

/// Why something could not be observed, or changed. Its text says what failed, and for which
/// object.
#[derive(Debug)]
pub enum Error {
    /// This machine does not support it, or this user may not do it.
    Unsupported(Unsupported),
    /// There is no such process or pipe, or it has ended.
    NotFound(String),
    /// A call to the kernel failed.
    System {
        /// What was attempted.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function for `map_err` that adds `what` was attempted to an error.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        |error| Self::System {
            what,
            source: error.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(error) => error.fmt(f),
            Self::NotFound(text) => f.write_str(text),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Unsupported> for Error {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

//! Why something could not be observed, or changed.

use std::io;

use fullbore_host::refusal::Unsupported;

/// Why something could not be observed, or changed. Its text says what failed, and for which
/// object.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine does not support it, or this user may not do it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// There is no such process or pipe, or it has ended.
    #[error("{0}")]
    NotFound(String),
    /// A call to the kernel failed.
    #[error("{what}: {why}")]
    System {
        /// What was attempted.
        what: String,
        /// The kernel's error.
        why: io::Error,
    },
}

impl Error {
    /// Returns a function for `map_err` that adds `what` was attempted to an error.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        |error| Self::System {
            what,
            why: error.into(),
        }
    }
}

//! The two errors that are no failures of the program: what a person asked for contradicts itself, or
//! this machine does not allow it. Each has an exit code of its own.

/// The command line is wrong: code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// This machine or this user may not do it: code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// The code of [`Unsupported`].
pub const UNSUPPORTED: u8 = 3;

//! The two errors that are not failures of the program: the command line is wrong, or this machine does
//! not allow what was asked for. Each has an exit code of its own.

/// The command line is wrong: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// This machine, or this user on it, does not allow what was asked for: exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// The exit code of [`Unsupported`].
pub const UNSUPPORTED: u8 = 3;

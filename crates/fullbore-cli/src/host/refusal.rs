//! The two errors that are no failures of the program: what a person asked for contradicts itself, or
//! this machine does not allow it. Each has an exit code of its own.

use std::fmt;

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

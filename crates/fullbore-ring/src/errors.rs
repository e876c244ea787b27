//! The errors of an end whose bytes go through a ring as well as through its inner end.

use std::io;

use fullbore::{Error, TransferSide};
use fullbore_linux::{Errno, error};

/// Adds `moved` bytes, which went through the ring, to the count in an error of the inner end.
pub(crate) fn after(moved: u64, mut error: Error) -> Error {
    if let Error::Moving { moved: inside, .. } | Error::Stopped { moved: inside, .. } = &mut error {
        *inside += moved;
    }
    error
}

/// Returns the error of `fullbore` that an error of [`io::Write`] or [`io::Read`] was converted from.
pub(crate) fn of_io(
    error: io::Error,
    side: TransferSide,
    operation: &'static str,
    moved: u64,
) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        error::moving(side, operation, errno, moved)
    })
}

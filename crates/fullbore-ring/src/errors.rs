//! The errors of an end whose bytes go through a ring as well as through its inner end.

use std::io;

use fullbore::{Error, TransferSide};

/// Adds `moved` bytes, which went through the ring, to the count in an error of the inner end.
pub(crate) fn after(moved: u64, mut error: Error) -> Error {
    if let Error::Moving { moved: inside, .. } | Error::Stopped { moved: inside, .. } = &mut error {
        *inside += moved;
    }
    error
}

/// Returns the error of `fullbore` that an error of [`io::Write`] or [`io::Read`] was converted from; for any other, the
/// error of write(2) or read(2) on this side, after `moved` bytes.
pub fn of_io(error: io::Error, side: TransferSide, moved: u64) -> Error {
    let operation = match side {
        TransferSide::Source => "read",
        TransferSide::Sink => "write",
    };
    error.downcast().unwrap_or_else(|errno| Error::Moving {
        side,
        operation,
        errno,
        moved,
    })
}

//! The errors of an end whose bytes go through a ring as well as through its inner end.

use fullbore::Error;

/// Adds `moved` bytes, which went through the ring, to the count in an error of the inner end.
pub(crate) fn after(moved: u64, mut error: Error) -> Error {
    if let Error::Moving { moved: inside, .. } | Error::Stopped { moved: inside, .. } = &mut error {
        *inside += moved;
    }
    error
}

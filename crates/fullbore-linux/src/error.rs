//! Conversions from an errno into the error type.

use std::io;

use rustix::io::Errno;

pub use fullbore_types::{Error, Result, Stopped, TransferSide, system};

/// Returns the errno of the call that failed, if one did.
pub fn errno(error: &Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

/// Returns the [`Error`] of a call that moves bytes.
pub fn moving(side: TransferSide, operation: &'static str, errno: Errno, moved: u64) -> Error {
    Error::Moving {
        side,
        operation,
        errno: errno.into(),
        moved,
    }
}

/// Returns the [`Error`] that an error of [`io::Write`] or [`io::Read`] was converted from; for any other, the error of
/// write(2) or read(2) on this side, after `moved` bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_operation_and_what_the_kernel_said() {
        let error = system("F_SETPIPE_SZ")(Errno::PERM);
        assert_eq!(error.to_string(), "F_SETPIPE_SZ: Operation not permitted");
        let error = Error::Moving {
            side: TransferSide::Sink,
            operation: "write",
            errno: Errno::NOSPC.into(),
            moved: 4096,
        };
        assert_eq!(
            error.to_string(),
            "write on the sink: No space left on device (after 4096 bytes)"
        );
        let error = io::Error::from(error);
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        let refused = io::Error::from(Error::NotAPipe);
        assert!(matches!(refused.downcast(), Ok(Error::NotAPipe)));
    }
}

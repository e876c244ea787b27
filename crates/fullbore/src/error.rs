//! The one error type of the library: which operation failed, on which side, and the kernel's word.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which end of a movement of bytes something happened at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the bytes come from.
    Source,
    /// Where the bytes go.
    Sink,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Source => "source",
            Side::Sink => "sink",
        })
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{operation}: {}", said(.errno))]
    System {
        /// The call or step as a person would name it, such as `F_SETPIPE_SZ` or `map 2 MiB`.
        operation: &'static str,
        /// What the kernel answered.
        errno: io::Error,
    },
    /// Moving bytes failed; what was moved before is not lost.
    #[error("{operation} on the {side}: {} (after {moved} bytes)", said(.errno))]
    Moving {
        /// The side that failed.
        side: Side,
        /// The call that failed, as its manual page names it.
        operation: &'static str,
        /// What the kernel answered.
        errno: io::Error,
        /// Bytes that went through before.
        moved: u64,
    },
    /// A pipe was needed, and the file descriptor is none.
    #[error("not a pipe")]
    NotAPipe,
    /// The request makes no sense whatever the machine.
    #[error("{0}")]
    Invalid(String),
    /// This kernel, or this process's limits, do not offer what was asked for.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    pub(crate) fn system(operation: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Error::System {
            operation,
            errno: errno.into(),
        }
    }

    /// The kernel's error, where there is one.
    pub fn errno(&self) -> Option<&io::Error> {
        match self {
            Error::System { errno, .. } | Error::Moving { errno, .. } => Some(errno),
            _ => None,
        }
    }

    /// The kind of [`errno`](Self::errno), or what suits the error otherwise.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::System { errno, .. } | Error::Moving { errno, .. } => errno.kind(),
            Error::NotAPipe | Error::Invalid(_) => io::ErrorKind::InvalidInput,
            Error::Unsupported(_) => io::ErrorKind::Unsupported,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

/// The kernel's words without the number that [`io::Error`] adds to them.
fn said(errno: &io::Error) -> String {
    let text = errno.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_operation_and_what_the_kernel_said() {
        let error = Error::system("F_SETPIPE_SZ")(Errno::PERM);
        assert_eq!(error.to_string(), "F_SETPIPE_SZ: Operation not permitted");
        let error = Error::Moving {
            side: Side::Sink,
            operation: "write",
            errno: Errno::NOSPC.into(),
            moved: 4096,
        };
        assert_eq!(
            error.to_string(),
            "write on the sink: No space left on device (after 4096 bytes)"
        );
        assert_eq!(
            io::Error::from(error).kind(),
            io::ErrorKind::StorageFull,
            "the kind survives the way into std"
        );
    }
}

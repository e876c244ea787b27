//! The error type: which operation failed, on which side, and the kernel's error.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The end of a transfer at which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferSide {
    /// The end that bytes are read from.
    Source,
    /// The end that bytes are written to.
    Sink,
}

impl fmt::Display for TransferSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransferSide::Source => "source",
            TransferSide::Sink => "sink",
        })
    }
}

/// Why a wait ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stopped {
    /// [`Cancel::cancel`](crate::Cancel::cancel) was called.
    Cancelled,
    /// The deadline passed.
    TimedOut,
    /// A signal arrived, and the wait is interruptible.
    Interrupted,
    /// The call would have to wait, and is nonblocking.
    WouldBlock,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stopped::Cancelled => "cancelled",
            Stopped::TimedOut => "the deadline passed",
            Stopped::Interrupted => "interrupted by a signal",
            Stopped::WouldBlock => "would have to wait",
        })
    }
}

/// An error of this library. It prints what failed, on which side, and the kernel's error.
///
/// ```
/// let pipe = fullbore::Pipe::new()?;
/// // The end that cannot be read.
/// let error = fullbore::Consumer::new(&pipe.writer)?.discard(1).unwrap_err();
/// assert_eq!(error.to_string(), "splice on the source: Bad file descriptor (after 0 bytes)");
/// assert_eq!(error.raw_os_error(), Some(9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # As an [`io::Error`]
/// An error of the kernel becomes an `io::Error` with its number ([`raw_os_error`](io::Error::raw_os_error)), without
/// an allocation. It no longer contains the side, which the caller knows, nor the number of bytes moved, which `sent`,
/// `taken` or the report has. An error without a number becomes an `io::Error` that wraps this error;
/// [`io::Error::downcast`] returns it.
///
/// ```
/// use std::io::Read;
/// let pipe = fullbore::Pipe::new()?;
/// let error = fullbore::Consumer::new(&pipe.writer)?.read(&mut [0; 4]).unwrap_err();
/// assert_eq!(error.raw_os_error(), Some(9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    System {
        /// The name of the call or step, such as `F_SETPIPE_SZ` or `map 2 MiB`.
        operation: &'static str,
        /// The kernel's error.
        errno: io::Error,
    },
    /// Moving bytes failed; the bytes that were moved before are not lost.
    Moving {
        /// The side that failed.
        side: TransferSide,
        /// The call that failed, by the name of its manual page.
        operation: &'static str,
        /// The kernel's error.
        errno: io::Error,
        /// Bytes that were moved before the error.
        moved: u64,
    },
    /// A cancel, a deadline or a signal ended the wait, or the call would have to wait and is nonblocking; none failed.
    Stopped {
        /// What ended the wait.
        by: Stopped,
        /// Bytes that were moved before the wait ended.
        moved: u64,
    },
    /// A pipe is needed, and the file descriptor is not one.
    NotAPipe,
    /// The request is invalid on any machine.
    Invalid(String),
    /// The kernel or the limits of this process do not support the request.
    Unsupported(String),
}

impl Error {
    /// Returns the number of the kernel's error, if there is one: `EAGAIN` too for [`Stopped::WouldBlock`].
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Stopped {
                by: Stopped::WouldBlock,
                ..
            } => Some(Errno::AGAIN.raw_os_error()),
            error => said_by_the_kernel(error)?.raw_os_error(),
        }
    }

    /// Returns the kind of the kernel's error, or a kind that fits this error if it has none.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::System { errno, .. } | Error::Moving { errno, .. } => errno.kind(),
            Error::NotAPipe | Error::Invalid(_) => io::ErrorKind::InvalidInput,
            Error::Unsupported(_) => io::ErrorKind::Unsupported,
            Error::Stopped { by, .. } => match by {
                Stopped::TimedOut => io::ErrorKind::TimedOut,
                Stopped::Interrupted => io::ErrorKind::Interrupted,
                Stopped::WouldBlock => io::ErrorKind::WouldBlock,
                // Not `Interrupted`: callers retry after that.
                Stopped::Cancelled => io::ErrorKind::Other,
            },
        }
    }
}

fn said_by_the_kernel(error: &Error) -> Option<&io::Error> {
    match error {
        Error::System { errno, .. } | Error::Moving { errno, .. } => Some(errno),
        _ => None,
    }
}

/// Converts the errno of a system call into an [`Error`].
#[doc(hidden)]
pub fn system(operation: &'static str) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::System {
        operation,
        errno: errno.into(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::System { operation, .. } => f.write_str(operation)?,
            Error::Moving {
                side, operation, ..
            } => write!(f, "{operation} on the {side}")?,
            Error::Stopped { by, .. } => write!(f, "{by}")?,
            Error::NotAPipe => f.write_str("not a pipe")?,
            Error::Invalid(text) | Error::Unsupported(text) => f.write_str(text)?,
        }
        if let Some(errno) = said_by_the_kernel(self) {
            write!(f, ": {}", said(errno))?;
        }
        match self {
            Error::Moving { moved, .. } | Error::Stopped { moved, .. } => {
                write!(f, " (after {moved} bytes)")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::System { errno, .. } | Error::Moving { errno, .. } => errno,
            error => match error.raw_os_error() {
                Some(errno) => io::Error::from_raw_os_error(errno),
                None => io::Error::new(error.kind(), error),
            },
        }
    }
}

/// Returns the kernel's message without the number that [`io::Error`] appends.
fn said(errno: &io::Error) -> String {
    let text = errno.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

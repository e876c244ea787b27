//! A call from C: how its errors are returned, and its panics caught.

use std::any::Any;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fullbore::{Error, Stopped, TransferSide};

/// The side of an error: none, because the call does not move bytes.
pub const FULLBORE_SIDE_NONE: i32 = 0;
/// The side of an error: the source, which bytes are read from.
pub const FULLBORE_SIDE_SOURCE: i32 = 1;
/// The side of an error: the sink, which bytes are written to.
pub const FULLBORE_SIDE_SINK: i32 = 2;

/// The cause of an error: a system call failed, and the code is its errno.
pub const FULLBORE_CAUSE_SYSTEM: i32 = 1;
/// The cause of an error: an argument is wrong on every machine (-EINVAL, or -EBADF for a file
/// descriptor that is not open).
pub const FULLBORE_CAUSE_ARGUMENT: i32 = 2;
/// The cause of an error: a fullbore_cancel (-ECANCELED) or a deadline (-ETIMEDOUT) ended the call.
pub const FULLBORE_CAUSE_STOPPED: i32 = 3;
/// The cause of an error: this kernel, or this user's limits, do not support the request (-EOPNOTSUPP).
pub const FULLBORE_CAUSE_UNSUPPORTED: i32 = 4;
/// The cause of an error: the object is in use by another call (-EBUSY).
pub const FULLBORE_CAUSE_IN_USE: i32 = 5;
/// The cause of an error: there is no such process, or it has ended (-ESRCH).
pub const FULLBORE_CAUSE_NOT_FOUND: i32 = 6;
/// The cause of an error: a defect of this library (-ENOTRECOVERABLE), which has printed a message to stderr. Free the
/// object; its contents are not reliable.
pub const FULLBORE_CAUSE_DEFECT: i32 = 7;

/// Describes an error.
///
/// A function that takes a pointer to this structure fills it in if it fails, and does not change it if it succeeds.
/// The pointer may be NULL. The structure needs no initialization, and nothing in it has to be freed. Its size is 256
/// bytes in all versions.
#[repr(C)]
pub struct fullbore_error {
    /// The code that the function returned: a negative errno.
    pub code: c_int,
    /// The side that failed: FULLBORE_SIDE_...
    pub side: i32,
    /// The cause: FULLBORE_CAUSE_...
    pub cause: i32,
    /// The index of the sink that failed, from 0, for a fullbore_tee; otherwise -1.
    pub sink: i32,
    /// Bytes that the object had moved before the error. They are not lost.
    pub moved: u64,
    /// The message, as one line of UTF-8 that ends with a NUL. It is truncated if it is too long.
    pub message: [c_char; 232],
}

const _: () = assert!(size_of::<fullbore_error>() == 256);

/// An error, before it is written into a [`fullbore_error`].
#[derive(Debug)]
pub struct Failure {
    code: c_int,
    pub side: i32,
    cause: i32,
    pub sink: i32,
    moved: u64,
    message: String,
}

impl Failure {
    pub fn new(errno: c_int, cause: i32, message: impl Into<String>) -> Self {
        Self {
            code: -errno,
            side: FULLBORE_SIDE_NONE,
            cause,
            sink: -1,
            moved: 0,
            message: message.into(),
        }
    }

    /// Returns the error of an argument that is wrong on every machine.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, FULLBORE_CAUSE_ARGUMENT, message)
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = (panic.downcast_ref::<&str>().copied())
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("a panic");
        let message = format!("this is a defect of fullbore: {text}");
        Self::new(libc::ENOTRECOVERABLE, FULLBORE_CAUSE_DEFECT, message)
    }

    /// Fills in the caller's structure, and returns the code.
    pub fn tell(&self, error: Option<&mut fullbore_error>) -> c_int {
        if let Some(error) = error {
            let mut message = [0; 232];
            let mut len = self.message.len().min(message.len() - 1);
            while !self.message.is_char_boundary(len) {
                len -= 1;
            }
            for (to, &byte) in message.iter_mut().zip(&self.message.as_bytes()[..len]) {
                *to = byte as c_char;
            }
            *error = fullbore_error {
                code: self.code,
                side: self.side,
                cause: self.cause,
                sink: self.sink,
                moved: self.moved,
                message,
            };
        }
        self.code
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let (errno, cause) = match error {
            Error::NotAPipe | Error::Invalid(_) => (libc::EINVAL, FULLBORE_CAUSE_ARGUMENT),
            Error::Unsupported(_) => (libc::EOPNOTSUPP, FULLBORE_CAUSE_UNSUPPORTED),
            Error::Stopped { by, .. } => match by {
                Stopped::TimedOut => (libc::ETIMEDOUT, FULLBORE_CAUSE_STOPPED),
                Stopped::WouldBlock => (libc::EAGAIN, FULLBORE_CAUSE_SYSTEM),
                _ => (libc::ECANCELED, FULLBORE_CAUSE_STOPPED),
            },
            _ => (
                error.raw_os_error().unwrap_or(libc::EIO),
                FULLBORE_CAUSE_SYSTEM,
            ),
        };
        let (side, moved) = match error {
            Error::Moving { side, moved, .. } => (Some(*side), *moved),
            Error::Stopped { moved, .. } => (None, *moved),
            _ => (None, 0),
        };
        Self {
            side: side.map_or(FULLBORE_SIDE_NONE, number_of_side),
            moved,
            ..Self::new(errno, cause, format!("{error:#}"))
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

pub fn number_of_side(side: TransferSide) -> i32 {
    match side {
        TransferSide::Source => FULLBORE_SIDE_SOURCE,
        TransferSide::Sink => FULLBORE_SIDE_SINK,
    }
}

/// Runs a function called from C, and returns its result, or the code of its error.
pub fn number(
    error: Option<&mut fullbore_error>,
    work: impl FnOnce() -> Result<u64, Failure>,
) -> i64 {
    match code(error, work) {
        Ok(number) => i64::try_from(number).unwrap_or(i64::MAX),
        Err(code) => code.into(),
    }
}

/// Runs a function called from C, and returns its result, 0 or another small number, or the code of its error.
pub fn status(
    error: Option<&mut fullbore_error>,
    work: impl FnOnce() -> Result<c_int, Failure>,
) -> c_int {
    code(error, work).unwrap_or_else(|code| code)
}

fn code<T>(
    error: Option<&mut fullbore_error>,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, c_int> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
        .map_err(|failure| failure.tell(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> fullbore_error {
        fullbore_error {
            code: 0,
            side: 0,
            cause: 0,
            sink: 0,
            moved: 0,
            message: [0; 232],
        }
    }

    fn message(error: &fullbore_error) -> String {
        let bytes = error.message.iter().take_while(|&&byte| byte != 0);
        String::from_utf8(bytes.map(|&byte| byte as u8).collect()).unwrap()
    }

    #[test]
    fn a_panic_is_an_error_code() {
        let mut error = empty();
        assert_eq!(
            status(Some(&mut error), || panic!("on purpose")),
            -libc::ENOTRECOVERABLE
        );
        assert_eq!(error.cause, FULLBORE_CAUSE_DEFECT);
        assert!(message(&error).ends_with("on purpose"));
        assert_eq!(
            number(None, || panic!("on purpose")),
            i64::from(-libc::ENOTRECOVERABLE)
        );
    }

    #[test]
    fn a_message_that_is_too_long_ends_with_a_whole_character() {
        let mut error = empty();
        let long = "ü".repeat(200);
        Failure::invalid(long.clone()).tell(Some(&mut error));
        assert_eq!(message(&error).len(), 230);
        assert!(long.starts_with(&message(&error)));
    }
}

//! Conversion of arguments from C: file descriptors, memory, text, options and times.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::slice;
use std::time::{Duration, Instant};

use fullbore::Wait;
use rustix::time::{ClockId, clock_gettime};

use crate::call::{FULLBORE_CAUSE_ARGUMENT, Failure};

/// Sleep in the call itself, as a blocking file descriptor does. This is the default.
pub const FULLBORE_WAIT_BLOCK: i32 = 0;
/// Try without waiting, and sleep in poll(2) before the next try.
pub const FULLBORE_WAIT_POLL: i32 = 1;
/// Try without waiting, repeatedly. This uses a whole CPU. It is the fastest if a CPU is idle, and the slowest if the
/// peer has to run on the same CPU.
pub const FULLBORE_WAIT_SPIN: i32 = 2;
/// Spin as long as recent waits were short, at most 100 microseconds at a time, then sleep.
pub const FULLBORE_WAIT_ADAPTIVE: i32 = 3;

/// A flag of all options: a call that would have to wait fails with -EAGAIN, or, for a fullbore_transfer and a
/// fullbore_tee, returns FULLBORE_ENDED_SOURCE_WOULD_BLOCK or FULLBORE_ENDED_SINK_WOULD_BLOCK.
pub const FULLBORE_FLAG_NONBLOCKING: u32 = 1;

/// Options, which begin with their size, so that programs built with an older or a newer header can pass them.
///
/// # Safety
/// The type begins with a `usize`, and all zeros are a valid value.
pub unsafe trait Options: Copy {
    /// The size in the first version of the library.
    const FIRST: usize;
}

/// Larger than any options will ever be.
const MOST: usize = 4096;

/// Returns a copy of the options, with zeros for fields that the caller's header does not have.
///
/// # Errors
/// `EINVAL` for a size that no version has had, and for options unknown to this version.
pub fn options<O: Options>(given: *const O) -> Result<O, Failure> {
    let mut options = MaybeUninit::<O>::zeroed();
    // Not through a reference: the caller's options may be shorter than this version's.
    if !given.is_null() {
        // SAFETY: it is not null, and the options begin with a size, which the caller has set.
        let size = unsafe { given.cast::<usize>().read() };
        if !(O::FIRST..=MOST).contains(&size) {
            return Err(Failure::invalid(format!(
                "the options have a size of {size} bytes, and not {}: set `size` to `sizeof options`",
                size_of::<O>()
            )));
        }
        let known = size.min(size_of::<O>());
        // SAFETY: the caller's options have `size` bytes, of which the first `known` also fit into this version's; the
        // rest, if any, follows them.
        let rest = unsafe {
            let bytes = given.cast::<u8>();
            ptr::copy_nonoverlapping(bytes, options.as_mut_ptr().cast::<u8>(), known);
            slice::from_raw_parts(bytes.add(known), size - known)
        };
        if rest.iter().any(|&byte| byte != 0) {
            return Err(Failure::invalid(
                "the options have one that this version of the library does not know",
            ));
        }
    }
    // SAFETY: all zeros are valid options, and so is every value that a caller can set.
    Ok(unsafe { options.assume_init() })
}

/// # Errors
/// `EINVAL` for a flag that is not one of these, and for a reserved field that is not 0.
pub fn only(flags: u32, known: u32, reserved: u32) -> Result<(), Failure> {
    match (flags & !known, reserved) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::invalid("a reserved option is not 0")),
        (unknown, _) => Err(Failure::invalid(format!("there is no flag {unknown:#x}"))),
    }
}

/// Returns a size, or the default for 0.
pub fn size(given: usize) -> Option<usize> {
    (given != 0).then_some(given)
}

/// # Errors
/// `EINVAL` for a number that is none of `FULLBORE_WAIT_…`.
pub fn wait(number: i32) -> Result<Wait, Failure> {
    match number {
        FULLBORE_WAIT_BLOCK => Ok(Wait::Block),
        FULLBORE_WAIT_POLL => Ok(Wait::Poll),
        FULLBORE_WAIT_SPIN => Ok(Wait::Spin),
        FULLBORE_WAIT_ADAPTIVE => Ok(Wait::Adaptive),
        _ => Err(Failure::invalid(format!("there is no wait {number}"))),
    }
}

/// Returns a file descriptor.
///
/// # Errors
/// `EBADF` if it is not open.
pub fn fd(name: &str, fd: c_int) -> Result<BorrowedFd<'static>, Failure> {
    if fd >= 0 {
        // SAFETY: the number is not -1, and the header requires the caller to keep it open as long as the object
        // exists.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        if rustix::io::fcntl_getfd(fd).is_ok() {
            return Ok(fd);
        }
    }
    let message = format!("the {name}, file descriptor {fd}, is not open");
    Err(Failure::new(libc::EBADF, FULLBORE_CAUSE_ARGUMENT, message))
}

/// Returns memory to read from.
///
/// # Errors
/// `EINVAL` for null, unless `len` is 0, and for more bytes than the address space has.
pub fn bytes<'a>(memory: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    check(memory, len)?;
    match len {
        0 => Ok(&[]),
        // SAFETY: it is not null, and the header requires memory of this length that does not change during the call.
        _ => Ok(unsafe { slice::from_raw_parts(memory.cast(), len) }),
    }
}

/// Returns memory to write to, which may be uninitialized.
///
/// # Errors
/// As [`bytes`].
pub fn room<'a>(memory: *mut c_void, len: usize) -> Result<&'a mut [MaybeUninit<u8>], Failure> {
    check(memory, len)?;
    match len {
        0 => Ok(&mut []),
        // SAFETY: it is not null, and the header requires memory of this length that no other code uses during the
        // call.
        _ => Ok(unsafe { slice::from_raw_parts_mut(memory.cast(), len) }),
    }
}

fn check(memory: *const c_void, len: usize) -> Result<(), Failure> {
    if memory.is_null() && len > 0 {
        return Err(Failure::invalid("the memory is NULL"));
    }
    if isize::try_from(len).is_err() {
        let message = format!("{len} bytes are more than any memory has");
        return Err(Failure::invalid(message));
    }
    Ok(())
}

/// Returns text.
///
/// # Errors
/// `EINVAL` for null, and for text that is not UTF-8.
pub fn text<'a>(name: &str, text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("the {name} is NULL")));
    }
    // SAFETY: it is not null, and the header requires a terminating NUL.
    let text = unsafe { CStr::from_ptr(text) };
    (text.to_str()).map_err(|_| Failure::invalid(format!("the {name} is not UTF-8")))
}

/// Returns the place to store a result.
///
/// # Errors
/// `EINVAL` for null.
pub fn place<'a, T>(
    name: &str,
    place: Option<&'a mut MaybeUninit<T>>,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    place.ok_or_else(|| Failure::invalid(format!("the place for the {name} is NULL")))
}

/// Returns the current time, in nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Converts a deadline, in nanoseconds of CLOCK_MONOTONIC; 0 means none.
///
/// # Errors
/// `EINVAL` for a negative number.
pub fn deadline(at: i64) -> Result<Option<Instant>, Failure> {
    match at {
        0 => Ok(None),
        ..0 => Err(Failure::invalid(format!(
            "{at} is no time of CLOCK_MONOTONIC"
        ))),
        // An `Instant` uses the same clock.
        1.. => Ok(Instant::now().checked_add(span(at.saturating_sub(now())))),
    }
}

/// Converts a duration; a negative number is zero.
pub fn span(nanoseconds: i64) -> Duration {
    Duration::from_nanos(nanoseconds.try_into().unwrap_or(0))
}

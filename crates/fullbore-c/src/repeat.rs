//! Sending a pattern repeatedly.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use fullbore::Repeat;

use crate::arguments::{self, bytes, fd};
use crate::call::{Failure, fullbore_error, status};
use crate::handle::{Exclusive, counted, done, free, make, object, using};
use crate::producer::{
    FULLBORE_WAY_AUTO, fullbore_producer_options, library_options, number_of_way,
};
use fullbore_linux::without_sigpipe;

/// Sends a pattern repeatedly, into a pipe from pages that never change.
pub struct fullbore_repeat(Exclusive<Repeat<BorrowedFd<'static>>>);

object!(fullbore_repeat is "repeat", of Repeat<BorrowedFd<'static>>);

/// Creates a repeat that sends the `len` bytes of `pattern` to `sink`, and stores it in `*repeat`. The
/// pattern is copied. Free it with fullbore_repeat_free.
///
/// The caller owns `sink`, and must keep it open as long as the repeat exists. A repeat that sends to a pipe keeps a
/// duplicate of it: the pipe's reader sees no end of file until it is freed. `options` may be NULL; its `way` must be
/// FULLBORE_WAY_AUTO, and `chunk` and `memory` have no effect.
///
/// Returns 0; -EBADF if `sink` is not open, or is the read end of a pipe; -EINVAL for an empty pattern, for invalid
/// options, and if `pattern` or `repeat` is NULL; -ENOMEM.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_repeat_new(
    sink: c_int,
    pattern: *const c_void,
    len: usize,
    options: *const fullbore_producer_options,
    repeat: Option<&mut MaybeUninit<*mut fullbore_repeat>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        make(repeat, || {
            let options = arguments::options(options)?;
            if options.way != FULLBORE_WAY_AUTO {
                return Err(Failure::invalid("a repeat takes no way"));
            }
            let sink = fd("sink", sink)?;
            let repeat = library_options(&options)?.repeat(sink, bytes(pattern, len)?)?;
            Ok(fullbore_repeat(Exclusive::new(repeat)))
        })
    })
}

/// Sends `len` more bytes, from where the last call stopped in the pattern. UINT64_MAX sends until the reader closes
/// the pipe.
///
/// Returns 0; -EPIPE if no reader is left, and other errors of write(2), tee(2) and splice(2), with FULLBORE_SIDE_SINK;
/// -EAGAIN with FULLBORE_FLAG_NONBLOCKING; -ETIMEDOUT; -ECANCELED; -EINVAL if `repeat` is NULL; -EBUSY while another
/// call uses it. fullbore_repeat_sent counts the bytes sent before an error, and the next call continues from there.
/// Threads: one at a time for one repeat.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_repeat_send(
    repeat: *mut fullbore_repeat,
    len: u64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, repeat, |repeat| {
        Ok(without_sigpipe(|| repeat.send(len))?)
    })
}

/// Sets the deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
///
/// Returns 0; -EINVAL if `repeat` is NULL or `deadline` is negative; -EBUSY while another call uses it.
/// Threads: one at a time for one repeat.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_repeat_set_deadline(
    repeat: *mut fullbore_repeat,
    deadline: i64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, repeat, |repeat| {
        repeat.set_deadline(arguments::deadline(deadline)?);
        Ok(())
    })
}

/// Returns the number of bytes sent so far; -EINVAL if `repeat` is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one repeat.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_repeat_sent(repeat: *mut fullbore_repeat) -> i64 {
    counted(None, repeat, |repeat| Ok(repeat.report().bytes))
}

/// Returns FULLBORE_WAY_REPEAT, or FULLBORE_WAY_COPY if the output does not accept references; -EINVAL if `repeat` is
/// NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one repeat.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_repeat_way(repeat: *mut fullbore_repeat) -> c_int {
    using(None, repeat, |repeat| {
        Ok(number_of_way(repeat.report().way))
    })
}

/// Frees a repeat. Sends nothing. NULL is allowed.
///
/// Threads: any, once no other call uses this repeat.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_repeat_free(repeat: *mut fullbore_repeat) {
    free(repeat);
}

//! Ending a wait from another thread, and deadlines.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use fullbore::Cancel;

use crate::arguments::now;
use crate::call::{fullbore_error, number, status};
use crate::handle::{Handle, free, given, make, some};

/// Ends the calls of other objects, from another thread or from a signal handler. Objects get it through their options.
pub struct fullbore_cancel(pub Cancel);

impl Handle for fullbore_cancel {
    const NAME: &str = "cancel";
}

/// Returns the cancel in the options, if any.
pub fn named(cancel: *const fullbore_cancel) -> Option<Cancel> {
    some(cancel).map(|cancel| cancel.0.clone())
}

/// Creates a cancel, and stores it in `*cancel`. Free it with fullbore_cancel_free.
///
/// Returns 0; -EMFILE, -ENFILE or -ENOMEM as eventfd(2); -EINVAL if `cancel` is NULL.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_cancel_new(
    cancel: Option<&mut MaybeUninit<*mut fullbore_cancel>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        make(cancel, || Ok(fullbore_cancel(Cancel::new()?)))
    })
}

/// Permanently ends all calls of the objects with this cancel, and refuses further ones. They fail with -ECANCELED, or
/// return FULLBORE_ENDED_CANCELLED.
///
/// Returns 0, or -EINVAL if `cancel` is NULL.
/// Threads: any, at any time; also in a signal handler, where it does not change errno.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_cancel_now(cancel: *const fullbore_cancel) -> c_int {
    match some(cancel) {
        Some(cancel) => {
            cancel.0.cancel();
            0
        }
        // A message would need memory, which a signal handler must not allocate.
        None => -libc::EINVAL,
    }
}

/// Returns 1 if fullbore_cancel_now was called, 0 if it was not, or -EINVAL if `cancel` is NULL.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_cancel_is_cancelled(cancel: *const fullbore_cancel) -> c_int {
    status(None, || Ok(given(cancel)?.0.is_cancelled().into()))
}

/// Frees a cancel. It may be freed before the objects that were created with it. NULL is allowed.
///
/// Threads: any, while no other call uses this cancel.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_cancel_free(cancel: *mut fullbore_cancel) {
    free(cancel);
}

/// Returns the deadline that is `nanoseconds` from now, in nanoseconds of CLOCK_MONOTONIC; never 0, which means no
/// deadline. A negative number gives a time in the past.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_deadline_in(nanoseconds: i64) -> i64 {
    number(None, || {
        Ok(now().saturating_add(nanoseconds).max(1).unsigned_abs())
    })
}

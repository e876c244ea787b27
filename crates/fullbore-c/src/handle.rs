//! Objects that C refers to by a pointer: how they are created, used and freed.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::{Mutex, TryLockError};

use crate::arguments;
use crate::call::{FULLBORE_CAUSE_IN_USE, Failure, fullbore_error, number, status};

/// A value that only one call at a time may use.
pub struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Uses the value.
    ///
    /// # Errors
    /// `EBUSY` while another call uses it; those of `work`.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        match self.0.try_lock() {
            Ok(mut value) => work(&mut value),
            Err(TryLockError::Poisoned(after_a_panic)) => work(&mut after_a_panic.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let message = "this object is in use by another call";
                Err(Failure::new(libc::EBUSY, FULLBORE_CAUSE_IN_USE, message))
            }
        }
    }
}

/// An object that C refers to by a pointer.
pub trait Handle: Sized + Send + Sync {
    /// The name of the object in error messages.
    const NAME: &str;

    /// Returns an error if a call uses the object.
    fn is_unused(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// An object that only one call at a time may use.
pub trait Object: Handle {
    type Value;

    fn value(&self) -> &Exclusive<Self::Value>;
}

/// Declares an object that only one call at a time may use, and the type of its value.
macro_rules! object {
    ($object:ident is $name:literal, of $value:ty) => {
        impl $crate::handle::Handle for $object {
            const NAME: &str = $name;

            fn is_unused(&self) -> Result<(), $crate::call::Failure> {
                self.0.with(|_| Ok(()))
            }
        }

        impl $crate::handle::Object for $object {
            type Value = $value;

            fn value(&self) -> &Exclusive<$value> {
                &self.0
            }
        }
    };
}
pub(crate) use object;

/// Returns the object that an argument points to, unless it is null.
pub fn some<'a, H: Handle>(handle: *const H) -> Option<&'a H> {
    // SAFETY: it is null, or a pointer that `make` has stored and that has not been freed, as the header requires.
    unsafe { handle.as_ref() }
}

/// Returns the object that an argument points to.
///
/// # Errors
/// `EINVAL` for null.
pub fn given<'a, H: Handle>(handle: *const H) -> Result<&'a H, Failure> {
    some(handle).ok_or_else(|| Failure::invalid(format!("the {} is NULL", H::NAME)))
}

/// Runs a function called from C that uses an object, and returns its result, 0 or another small number, or the code of
/// its error.
pub fn using<O: Object>(
    error: Option<&mut fullbore_error>,
    object: *const O,
    work: impl FnOnce(&mut O::Value) -> Result<c_int, Failure>,
) -> c_int {
    status(error, || given(object)?.value().with(work))
}

/// As [`using`], for a function that returns 0.
pub fn done<O: Object>(
    error: Option<&mut fullbore_error>,
    object: *const O,
    work: impl FnOnce(&mut O::Value) -> Result<(), Failure>,
) -> c_int {
    using(error, object, |value| work(value).map(|()| 0))
}

/// As [`using`], for a function that returns a number.
pub fn counted<O: Object>(
    error: Option<&mut fullbore_error>,
    object: *const O,
    work: impl FnOnce(&mut O::Value) -> Result<u64, Failure>,
) -> i64 {
    number(error, || given(object)?.value().with(work))
}

/// Creates an object, and stores a pointer to it.
///
/// # Errors
/// `EINVAL` if there is no place to store it; those of `make`.
pub fn make<H: Handle>(
    place: Option<&mut MaybeUninit<*mut H>>,
    make: impl FnOnce() -> Result<H, Failure>,
) -> Result<c_int, Failure> {
    let place = arguments::place(H::NAME, place)?;
    place.write(std::ptr::null_mut());
    place.write(Box::into_raw(Box::new(make()?)));
    Ok(0)
}

/// Frees an object. An object that another thread is using, which is an error in the program, is not freed.
pub fn free<H: Handle>(handle: *mut H) {
    let _ = status(None, || {
        if some(handle).is_some_and(|handle| handle.is_unused().is_ok()) {
            // SAFETY: the header requires that C does not use it afterwards.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(0)
    });
}

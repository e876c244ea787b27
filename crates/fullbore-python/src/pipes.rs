//! Pipes: creating and growing them, their capacity, and their queued bytes.

use std::ffi::OsStr;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fullbore::{Pipe, PipeEnd};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::exception;
use crate::file::{duplicate, number_of};
use crate::sizes::Size;

/// Creates a pipe, and returns the numbers of its two ends, as os.pipe() does: (reader, writer).
///
/// It has a capacity of `size` bytes, or less if this user's limits do not allow it, as capacity() shows. Without a
/// size it has the kernel's default, 64 KiB. The ends are not inherited by programs.
#[pyfunction]
#[pyo3(signature = (size = None))]
pub fn pipe(py: Python<'_>, size: Option<Size>) -> PyResult<(RawFd, RawFd)> {
    let made = match size {
        None => Pipe::new(),
        Some(Size(bytes)) => fullbore_linux::pipe::with_capacity(bytes).map(|(pipe, _)| pipe),
    };
    let pipe = made.map_err(|error| exception(py, &error, &py.None()))?;
    Ok((pipe.reader.into_raw_fd(), pipe.writer.into_raw_fd()))
}

/// Returns the capacity of a pipe in bytes.
///
/// `file` is an end of a pipe: a descriptor, or an object with fileno(). Raises ValueError if it is not a pipe.
#[pyfunction]
pub fn capacity(file: &Bound<'_, PyAny>) -> PyResult<usize> {
    with_end(file, |end| end.capacity())
}

/// Grows a pipe to `size` bytes, as far as this user's limits allow, and returns its capacity. It is never shrunk.
#[pyfunction]
pub fn grow(file: &Bound<'_, PyAny>, size: Size) -> PyResult<usize> {
    with_end(file, |end| end.grow(size.0).map(|growth| growth.after))
}

/// Returns the number of bytes in a pipe.
#[pyfunction]
pub fn queued(file: &Bound<'_, PyAny>) -> PyResult<usize> {
    with_end(file, |end| end.queued())
}

fn with_end<T>(
    file: &Bound<'_, PyAny>,
    call: impl FnOnce(&PipeEnd<'_>) -> fullbore::Result<T>,
) -> PyResult<T> {
    let py = file.py();
    let (number, name) = number_of(file)?;
    let name = name.unbind();
    let fd: OwnedFd = duplicate(py, number, &name)?;
    let failed = |error: fullbore::Error| match error {
        fullbore::Error::NotAPipe => PyValueError::new_err(format!("{name} is not a pipe")),
        error => exception(py, &error, &name),
    };
    let end = PipeEnd::new(fd.as_fd()).map_err(failed)?;
    call(&end).map_err(failed)
}

/// Returns the descriptor that a path such as `/dev/stdout` or `/dev/fd/3` names.
#[pyfunction]
pub fn descriptor_of(path: &[u8]) -> Option<RawFd> {
    fullbore_host::named::descriptor_of(Path::new(OsStr::from_bytes(path)))
}

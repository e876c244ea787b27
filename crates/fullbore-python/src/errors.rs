//! Conversion of the library's errors to exceptions.

use std::io;

use fullbore::Error;
use fullbore_host::text::error_text;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rustix::io::Errno;

/// Returns the exception for an error of the library about this file, which becomes its `filename`.
pub fn exception(py: Python<'_>, error: &Error, file: &Py<PyAny>) -> PyErr {
    match (error.raw_os_error(), error) {
        (Some(errno), _) => os_error(py, errno, file),
        (None, Error::Invalid(_) | Error::NotAPipe) => PyValueError::new_err(error.to_string()),
        (None, Error::Unsupported(text)) => PyOSError::new_err((
            Errno::OPNOTSUPP.raw_os_error(),
            text.clone(),
            file.clone_ref(py),
        )),
        // A stopped call is resumed, or raises the exception of a signal handler.
        (None, _) => PyOSError::new_err((Errno::CANCELED.raw_os_error(), error.to_string())),
    }
}

/// Returns the `OSError`, or its subclass, for this errno and file.
pub fn os_error(py: Python<'_>, errno: i32, file: &Py<PyAny>) -> PyErr {
    PyOSError::new_err((
        errno,
        error_text(&io::Error::from_raw_os_error(errno)),
        file.clone_ref(py),
    ))
}

/// As [`os_error`], without a file. An exception that PyO3 creates from an `io::Error` has no errno.
pub fn without_file(errno: Errno) -> PyErr {
    let errno = errno.raw_os_error();
    PyOSError::new_err((errno, error_text(&io::Error::from_raw_os_error(errno))))
}

/// Returns whether a signal has ended a wait, so that the call must be repeated.
fn is_interrupted(error: &Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

/// Makes a blocking call without the interpreter's lock, and repeats it after every signal whose handler raises no
/// exception.
///
/// # Errors
/// The exception of a signal handler, and of the call.
pub fn waiting<T: Send>(
    py: Python<'_>,
    file: &Py<PyAny>,
    mut call: impl FnMut() -> Result<T, Error> + Send,
) -> PyResult<T> {
    loop {
        match py.detach(&mut call) {
            Ok(value) => return Ok(value),
            Err(error) if is_interrupted(&error) => py.check_signals()?,
            Err(error) => return Err(exception(py, &error, file)),
        }
    }
}

/// Calls Python code while an object is freed, which may happen while an exception is being raised.
pub fn while_freed(call: impl FnOnce(Python<'_>)) {
    Python::attach(|py| {
        let raised = PyErr::take(py);
        call(py);
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}

/// Returns the library's error in an error of std.
pub fn inner(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(errno) => Error::System {
            operation: "",
            errno,
        },
    }
}

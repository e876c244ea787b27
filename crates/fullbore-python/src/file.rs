//! The file that a producer or a consumer was created from: a duplicate of its descriptor, and the caller's object.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::errors::os_error;

/// The caller's file: the number of a descriptor, or an object with `fileno()`.
pub struct File {
    /// The object, or the number.
    pub given: Py<PyAny>,
    /// Its name in errors: the `name` of the object, or the number.
    pub name: Py<PyAny>,
    /// Whether closing also closes the caller's file.
    closes: bool,
}

impl File {
    /// Returns a duplicate of its descriptor, which no other code can close or redirect, the file, and the bytes that
    /// its object has read ahead. Bytes that the object has buffered for writing are written first.
    ///
    /// # Errors
    /// `TypeError` if it is not a file, or its object changes the bytes; `OSError` if it is not open.
    pub fn open(
        given: &Bound<'_, PyAny>,
        writes: bool,
        closes: bool,
    ) -> PyResult<(OwnedFd, Self, Vec<u8>)> {
        let py = given.py();
        let files = py.import("fullbore._files")?;
        let taken = files.call_method1("taken", (given, writes))?;
        let (number, name, ahead): (RawFd, Py<PyAny>, Vec<u8>) = taken.extract()?;
        let own = duplicate(py, number, &name)?;
        let file = Self {
            given: given.clone().unbind(),
            name,
            closes,
        };
        Ok((own, file, ahead))
    }

    /// Returns the exception for an error of the kernel about this file.
    pub fn failed(&self, py: Python<'_>, errno: Errno) -> PyErr {
        os_error(py, errno.raw_os_error(), &self.name)
    }

    /// Returns the number of the caller's descriptor, or of the duplicate if the caller's is closed.
    pub fn fileno(&self, py: Python<'_>, own: &OwnedFd) -> RawFd {
        match number_of(self.given.bind(py)) {
            Ok((number, _)) => number,
            Err(_) => own.as_raw_fd(),
        }
    }

    /// Returns the position of the descriptor.
    ///
    /// # Errors
    /// `OSError`: `ESPIPE`.
    pub fn tell(&self, py: Python<'_>, own: &OwnedFd) -> PyResult<u64> {
        rustix::fs::tell(own).map_err(|errno| self.failed(py, errno))
    }

    /// Sets the position of the descriptor, and returns the new position.
    ///
    /// # Errors
    /// `OSError`: `ESPIPE`, `EINVAL`.
    pub fn seek(&self, py: Python<'_>, own: &OwnedFd, to: SeekFrom) -> PyResult<u64> {
        rustix::fs::seek(own, to).map_err(|errno| self.failed(py, errno))
    }

    /// Returns the `repr()` of an object of this class.
    ///
    /// # Errors
    /// Those of the `repr()` of the name.
    pub fn repr(&self, py: Python<'_>, class: &str) -> PyResult<String> {
        let name = self.name.bind(py).repr()?;
        Ok(format!("<fullbore.{class} name={name}>"))
    }

    /// Closes the caller's file, if `closes` says so.
    ///
    /// # Errors
    /// `OSError`.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.closes {
            return Ok(());
        }
        let given = self.given.bind(py);
        match given.extract::<RawFd>() {
            Ok(number) => {
                let os = py.import("os")?;
                os.call_method1("close", (number,)).map(drop)
            }
            Err(_) => given.call_method0("close").map(drop),
        }
    }

    /// Closes the descriptor number that the caller passed, as an object that was never closed does when it is freed,
    /// if it still refers to the same file as `own`. An object of the caller closes itself when its last reference is
    /// dropped.
    pub fn let_go(&self, py: Python<'_>, own: &OwnedFd) {
        let Ok(number @ 0..) = self.given.bind(py).extract::<RawFd>() else {
            return;
        };
        // SAFETY: it is not -1, and is used only for one call, which fails if it is not open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        let identity = |fd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
        if identity(borrowed) == identity(own.as_fd()) {
            let _ = self.close(py);
        }
    }
}

/// Returns the number of a descriptor and its name.
///
/// # Errors
/// `TypeError` if it is neither an `int` nor an object with `fileno()`.
pub fn number_of<'py>(given: &Bound<'py, PyAny>) -> PyResult<(RawFd, Bound<'py, PyAny>)> {
    if let Ok(number) = given.extract::<RawFd>() {
        return Ok((number, given.clone()));
    }
    let Ok(fileno) = given.getattr("fileno") else {
        return Err(PyTypeError::new_err(format!(
            "expected a file descriptor (int) or an object with fileno(), not {}",
            given.get_type().name()?
        )));
    };
    let number = fileno.call0()?.extract()?;
    let name = match given.getattr("name") {
        Ok(name) if !name.is_none() => name,
        _ => fileno.call0()?,
    };
    Ok((number, name))
}

/// Duplicates a descriptor (F_DUPFD_CLOEXEC).
///
/// # Errors
/// `OSError`: `EBADF`, `EMFILE`.
pub fn duplicate(py: Python<'_>, number: RawFd, name: &Py<PyAny>) -> PyResult<OwnedFd> {
    let failed = |errno: Errno| os_error(py, errno.raw_os_error(), name);
    if number < 0 {
        return Err(failed(Errno::BADF));
    }
    // SAFETY: it is not -1, and is used only for this call, which fails if it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 3).map_err(failed)
}

/// Converts the arguments of `seek()`.
///
/// # Errors
/// `ValueError`.
pub fn seek_from(offset: i64, whence: i32) -> PyResult<SeekFrom> {
    match (whence, u64::try_from(offset)) {
        (0, Ok(offset)) => Ok(SeekFrom::Start(offset)),
        (0, Err(_)) => Err(PyValueError::new_err(format!(
            "negative seek position {offset}"
        ))),
        (1, _) => Ok(SeekFrom::Current(offset)),
        (2, _) => Ok(SeekFrom::End(offset)),
        _ => Err(PyValueError::new_err(format!(
            "invalid whence ({whence}): expected 0, 1 or 2"
        ))),
    }
}

pyo3::import_exception!(io, UnsupportedOperation);

/// The methods of a file object that both classes have. `$fd` is the descriptor of `$open`, whose turn it is.
macro_rules! file_methods {
    ($class:ident, $name:literal, $mode:literal, |$open:ident| $fd:expr) => {
        #[pymethods]
        impl $class {
            /// Whether it is closed.
            #[getter]
            fn closed(&self) -> bool {
                self.turns.is_closed()
            }

            /// The file that it was created from.
            #[getter]
            fn raw(&self, py: Python<'_>) -> Py<PyAny> {
                self.file.given.clone_ref(py)
            }

            /// The name of the file, or the number of its descriptor.
            #[getter]
            fn name(&self, py: Python<'_>) -> Py<PyAny> {
                self.file.name.clone_ref(py)
            }

            /// The mode: 'rb' or 'wb'.
            #[getter]
            fn mode(&self) -> &'static str {
                $mode
            }

            /// The number of the file's descriptor.
            fn fileno(&self, py: Python<'_>) -> PyResult<std::os::fd::RawFd> {
                let $open = self.turns.take(py)?;
                Ok(self.file.fileno(py, $fd))
            }

            fn isatty(&self, py: Python<'_>) -> PyResult<bool> {
                let $open = self.turns.take(py)?;
                Ok(rustix::termios::isatty($fd))
            }

            fn readable(&self, py: Python<'_>) -> PyResult<bool> {
                self.turns.take(py).map(|_| $mode == "rb")
            }

            fn writable(&self, py: Python<'_>) -> PyResult<bool> {
                self.turns.take(py).map(|_| $mode == "wb")
            }

            fn seekable(&self, py: Python<'_>) -> PyResult<bool> {
                let $open = self.turns.take(py)?;
                Ok(rustix::fs::tell($fd).is_ok())
            }

            fn __enter__<'py>(
                slf: &Bound<'py, Self>,
                py: Python<'py>,
            ) -> PyResult<Bound<'py, Self>> {
                slf.get().turns.take(py)?;
                Ok(slf.clone())
            }

            #[pyo3(signature = (*_exception))]
            fn __exit__(
                slf: &Bound<'_, Self>,
                _exception: &Bound<'_, pyo3::types::PyTuple>,
            ) -> PyResult<()> {
                // A subclass may close more.
                slf.call_method0("close").map(drop)
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                self.file.repr(py, $name)
            }
        }
    };
}
pub(crate) use file_methods;

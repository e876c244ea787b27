//! Sizes from the caller: a number of bytes, or text such as "1M".

use fullbore_host::size;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A number of bytes that fits into the address space.
#[derive(Debug, Clone, Copy)]
pub struct Size(pub usize);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.extract::<String>() {
            let bytes = size::parse_in_memory(&text).map_err(PyValueError::new_err)?;
            return Ok(Self(bytes));
        }
        match object.extract::<i128>() {
            Ok(bytes) => usize::try_from(bytes).map(Self).map_err(|_| {
                PyValueError::new_err(format!(
                    "invalid size {bytes}: expected a number of bytes from 0 to {}",
                    usize::MAX
                ))
            }),
            Err(_) => Err(PyTypeError::new_err(
                "expected a size: a number of bytes (int), or a text such as '64K' or '1M'",
            )),
        }
    }
}

/// Parses a size: a number of bytes, or text such as '64K', '1M' or '1MiB' (powers of 1024).
#[pyfunction]
pub fn parse_size(size: Size) -> usize {
    size.0
}

//! Memory shared with Python through the buffer protocol: bytes that a caller passes in, and memory of a producer or a
//! consumer that is lent to the caller.
//!
//! Memory is lent as a `memoryview` of a [`Lender`]. Every view, slice and array of it counts as an export of the
//! lender, and while there is an export, the memory is neither given to a pipe nor written to by other code: a loan
//! [ends](Loan::end) only without exports.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::{self, Py_buffer, Py_ssize_t};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyWeakrefMethods, PyWeakrefReference};

/// The bytes of an object of the caller, which stay in place as long as this exists.
///
/// As with the file objects of CPython, a thread that changes the bytes of a `bytearray` or an array during the call
/// determines which bytes are moved.
pub struct Shared<'py> {
    view: Box<Py_buffer>,
    py: PhantomData<Python<'py>>,
}

impl<'py> Shared<'py> {
    fn of(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(Py_buffer::new());
        // SAFETY: the object is alive, and the view is released once, on drop.
        match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } {
            0 => Ok(Self {
                view,
                py: PhantomData,
            }),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    /// Returns the bytes of a bytes-like object.
    ///
    /// # Errors
    /// `TypeError` if the object is not bytes-like, `BufferError` if its memory is not contiguous.
    pub fn to_read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::of(object, ffi::PyBUF_SIMPLE)
    }

    /// Returns the memory of a writable bytes-like object.
    ///
    /// # Errors
    /// `TypeError` if the object is not a writable bytes-like object.
    pub fn to_write(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::of(object, ffi::PyBUF_WRITABLE).map_err(|error| {
            let class = object.get_type();
            let text = format!("expected a writable bytes-like object, not {class}");
            let refused = PyTypeError::new_err(text);
            refused.set_cause(object.py(), Some(error));
            refused
        })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the exporter keeps `len` bytes at `buf` until the view is released. The address of an empty buffer
        // may be null.
        unsafe {
            match self.view.buf.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize),
            }
        }
    }

    /// Returns the memory to write to.
    pub fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: as in `bytes`; the memory is writable, because the constructor requested that wherever this is
        // called.
        unsafe {
            match self.view.buf.is_null() || self.view.readonly != 0 {
                true => &mut [],
                false => {
                    std::slice::from_raw_parts_mut(self.view.buf.cast(), self.view.len as usize)
                }
            }
        }
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was filled by PyObject_GetBuffer, and the lifetime shows that this thread is attached.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) }
    }
}

/// A new `bytes` of `len` bytes that is filled before any Python code sees it.
pub struct NewBytes<'py>(Bound<'py, PyBytes>);

impl<'py> NewBytes<'py> {
    /// # Errors
    /// `MemoryError`.
    pub fn new(py: Python<'py>, len: usize) -> PyResult<Self> {
        // SAFETY: with a null pointer the contents stay uninitialized. The result is a new `bytes`, or null with an
        // exception set.
        unsafe {
            let new = ffi::PyBytes_FromStringAndSize(ptr::null(), len as Py_ssize_t);
            let new = Bound::from_owned_ptr_or_err(py, new)?.cast_into_unchecked();
            Ok(Self(new))
        }
    }

    /// Returns its memory, which no other code has seen yet.
    pub fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: this is the only reference to the new object.
        unsafe {
            let start = ffi::PyBytes_AsString(self.0.as_ptr());
            let len = ffi::PyBytes_Size(self.0.as_ptr());
            std::slice::from_raw_parts_mut(start.cast(), len as usize)
        }
    }

    /// Returns the first `n` bytes.
    ///
    /// # Safety
    /// All of them must have been filled.
    pub unsafe fn finish(self, n: usize) -> Bound<'py, PyBytes> {
        let py = self.0.py();
        // SAFETY: the caller has filled the first `n` bytes.
        unsafe {
            if ffi::PyBytes_Size(self.0.as_ptr()) as usize == n {
                return self.0;
            }
            let start = ffi::PyBytes_AsString(self.0.as_ptr());
            PyBytes::new(py, std::slice::from_raw_parts(start.cast(), n))
        }
    }
}

/// Memory that is lent, and the number of its views.
#[derive(Debug, Default)]
struct Exports {
    count: AtomicUsize,
    is_over: AtomicBool,
}

/// Memory that is lent to the caller as a `memoryview`.
#[derive(Debug)]
pub struct Loan {
    exports: Arc<Exports>,
    /// Bytes that are lent.
    pub len: usize,
    /// The view that was returned. It refers to the owner of the memory, so the owner does not refer to it.
    view: Py<PyWeakrefReference>,
}

impl Loan {
    /// Lends memory of `owner`.
    ///
    /// # Safety
    /// Until the loan has [ended](Self::end) or `owner` is freed, the memory must stay in place, no other code may
    /// write to it, and if it is `writable`, no other code may read it.
    pub unsafe fn new<'py>(
        owner: &Bound<'py, PyAny>,
        memory: *const [u8],
        writable: bool,
    ) -> PyResult<(Self, Bound<'py, PyMemoryView>)> {
        let exports = Arc::new(Exports::default());
        let lender = Lender {
            memory: Lent(memory as *mut [u8]),
            writable,
            exports: exports.clone(),
            _owner: owner.clone().unbind(),
        };
        let view = PyMemoryView::from(Bound::new(owner.py(), lender)?.as_any())?;
        let weak = PyWeakrefReference::new(&view)?.unbind();
        Ok((
            Self {
                exports,
                len: memory.len(),
                view: weak,
            },
            view,
        ))
    }

    /// Ends the loan, if any, like [`end`](Self::end).
    pub fn end_any(loan: &mut Option<Self>, py: Python<'_>) -> PyResult<()> {
        if let Some(lent) = loan {
            lent.end(py)?;
            *loan = None;
        }
        Ok(())
    }

    /// Ends the loan: from now on its views raise `ValueError`, and no new ones can be created.
    ///
    /// # Errors
    /// `BufferError` if slices or arrays of the view still exist. The loan then continues.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(view) = self.view.bind(py).upgrade() {
            // It fails if an array uses this very view.
            view.call_method0("release")
                .map_err(|_| still_used(&self.exports))?;
        }
        match self.exports.count.load(Ordering::Acquire) {
            0 => {
                self.exports.is_over.store(true, Ordering::Release);
                Ok(())
            }
            _ => Err(still_used(&self.exports)),
        }
    }
}

fn still_used(exports: &Exports) -> PyErr {
    PyBufferError::new_err(format!(
        "the memory that was lent is still used by {} other objects (slices of the view, or arrays made from \
         it): release or delete them first",
        exports.count.load(Ordering::Acquire).max(1)
    ))
}

/// Memory of another object.
struct Lent(*mut [u8]);

// SAFETY: the condition of `Loan::new` is that the memory stays, and that no other code uses it, from any thread.
unsafe impl Send for Lent {}
// SAFETY: as above. The program is responsible for concurrent use of views, as with a `bytearray`.
unsafe impl Sync for Lent {}

/// The exporter of lent memory.
#[pyclass(frozen, module = "fullbore._fullbore")]
struct Lender {
    memory: Lent,
    writable: bool,
    exports: Arc<Exports>,
    _owner: Py<PyAny>,
}

#[pymethods]
impl Lender {
    /// # Safety
    /// Python passes a view to be filled.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let lender = slf.get();
        let memory = lender.memory.0;
        // SAFETY: Python passes a view to be filled. The memory stays as long as the lender, which the view keeps
        // alive.
        unsafe {
            if lender.exports.is_over.load(Ordering::Acquire) {
                (*view).obj = ptr::null_mut();
                let text = "the memory was given back to the pipe";
                return Err(PyBufferError::new_err(text));
            }
            let filled = ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                memory.cast(),
                memory.len() as Py_ssize_t,
                c_int::from(!lender.writable),
                flags,
            );
            if filled != 0 {
                return Err(PyErr::fetch(slf.py()));
            }
        }
        lender.exports.count.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// # Safety
    /// None: the view is not used.
    unsafe fn __releasebuffer__(&self, _view: *mut Py_buffer) {
        self.exports.count.fetch_sub(1, Ordering::AcqRel);
    }
}

//! Memory that is shared with Python through the buffer protocol: bytes that a caller passes in, and memory
//! of a producer or a consumer that is lent to the caller.
//!
//! The stable interface has had the buffer protocol since Python 3.11. Python 3.10 has the same functions,
//! slots and structure, and does not count them to the stable interface yet, so PyO3 does not declare them
//! for it; they are declared here. (`Py_buffer` has not changed since Python 3.3, and slots of types made
//! from a specification may be those of buffers since 3.9.)
//!
//! Memory is lent as a `memoryview` of a [`Lender`]. Every view, slice and array that is made from it is
//! counted as an export of the lender, and as long as there is one the memory is neither given to a pipe
//! nor written to by anybody else: a loan [ends](Loan::end) only without exports.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::{self, Py_ssize_t, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView, PyWeakrefMethods, PyWeakrefReference};

/// `Py_buffer` of Include/pybuffer.h.
#[repr(C)]
struct Buffer {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: Py_ssize_t,
    itemsize: Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut Py_ssize_t,
    strides: *mut Py_ssize_t,
    suboffsets: *mut Py_ssize_t,
    internal: *mut c_void,
}

const SIMPLE: c_int = 0;
const WRITABLE: c_int = 1;
/// `Py_bf_getbuffer` and `Py_bf_releasebuffer` of Include/typeslots.h.
const GET_BUFFER: c_int = 1;
const RELEASE_BUFFER: c_int = 2;
/// `Py_TPFLAGS_DISALLOW_INSTANTIATION`, since Python 3.10.
const NO_INSTANCES: u32 = 1 << 7;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut Buffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut Buffer);
    fn PyBuffer_FillInfo(
        view: *mut Buffer,
        object: *mut PyObject,
        buf: *mut c_void,
        len: Py_ssize_t,
        readonly: c_int,
        flags: c_int,
    ) -> c_int;
}

/// Bytes of an object of the caller, which stay where they are as long as this exists.
///
/// As with the file objects of CPython, another thread that changes the bytes of a `bytearray` or an array
/// during the call decides itself what is moved.
pub struct Shared<'py> {
    view: Box<Buffer>,
    py: PhantomData<Python<'py>>,
}

impl<'py> Shared<'py> {
    fn of(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Self> {
        // SAFETY: zeros are a valid `Py_buffer`: null pointers and numbers.
        let mut view: Box<Buffer> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: the object is alive, and the view is released once, when this is dropped.
        match unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } {
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
    /// `TypeError` if it is none, `BufferError` if its memory is not contiguous.
    pub fn to_read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::of(object, SIMPLE)
    }

    /// Returns the memory of a writable bytes-like object.
    ///
    /// # Errors
    /// `TypeError` if it is none.
    pub fn to_write(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::of(object, WRITABLE).map_err(|error| {
            let class = object.get_type();
            let text = format!("expected a writable bytes-like object, not {class}");
            let refused = PyTypeError::new_err(text);
            refused.set_cause(object.py(), Some(error));
            refused
        })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the exporter keeps `len` bytes at `buf` until the view is released. An empty buffer may
        // have no address.
        unsafe {
            match self.view.buf.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize),
            }
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the memory is writable, because the constructor asked for that where this
        // is called.
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
        // SAFETY: the view was filled by PyObject_GetBuffer, and this thread is attached, as the lifetime says.
        unsafe { PyBuffer_Release(&raw mut *self.view) }
    }
}

/// A new `bytes` of `len` bytes that is filled before any Python code sees it.
pub struct NewBytes<'py>(Bound<'py, PyBytes>);

impl<'py> NewBytes<'py> {
    /// # Errors
    /// `MemoryError`.
    pub fn new(py: Python<'py>, len: usize) -> PyResult<Self> {
        // SAFETY: with a null pointer the contents are left alone. The result is a new `bytes`, or null with an
        // exception set.
        unsafe {
            let new = ffi::PyBytes_FromStringAndSize(ptr::null(), len as Py_ssize_t);
            let new = Bound::from_owned_ptr_or_err(py, new)?.cast_into_unchecked();
            Ok(Self(new))
        }
    }

    /// Returns its memory, which nobody else has seen yet. It is to be filled from its start, as read(2) does,
    /// and not to be read before that: filling it with zeros first would cost a third of the speed of a pipe.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: this is the only reference to the new object.
        unsafe {
            let start = ffi::PyBytes_AsString(self.0.as_ptr());
            let len = ffi::PyBytes_Size(self.0.as_ptr());
            std::slice::from_raw_parts_mut(start.cast(), len as usize)
        }
    }

    /// Returns the first `n` bytes, all of which were filled.
    pub fn finish(self, n: usize) -> Bound<'py, PyBytes> {
        match self.0.as_bytes() {
            all if all.len() == n => self.0,
            all => PyBytes::new(self.0.py(), &all[..n]),
        }
    }
}

/// A part of memory that is lent, and the views of it that exist.
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
    /// The view that was returned. The view holds the owner of the memory, so the owner does not hold it.
    view: Py<PyWeakrefReference>,
}

impl Loan {
    /// Lends memory of `owner`.
    ///
    /// # Safety
    /// As long as the loan has not [ended](Self::end), or `owner` exists, the memory must stay where it is,
    /// nobody else may write to it, and if it is `writable` nobody else may read from it.
    pub unsafe fn new<'py>(
        owner: &Bound<'py, PyAny>,
        memory: *const [u8],
        writable: bool,
    ) -> PyResult<(Self, Bound<'py, PyMemoryView>)> {
        let exports = Arc::new(Exports::default());
        let lender = Lender {
            memory: memory as *mut [u8],
            writable,
            exports: exports.clone(),
            owner: owner.clone().unbind(),
        }
        .into_object(owner.py())?;
        let view = PyMemoryView::from(&lender)?;
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

    /// Ends the loan if there is one, as [`end`](Self::end) does.
    pub fn end_any(loan: &mut Option<Self>, py: Python<'_>) -> PyResult<()> {
        if let Some(lent) = loan {
            lent.end(py)?;
            *loan = None;
        }
        Ok(())
    }

    /// Ends the loan: from here on its views raise `ValueError`, and no other can be made.
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

/// What a `fullbore._fullbore.Lender` consists of, besides what every object has.
struct Lender {
    memory: *mut [u8],
    writable: bool,
    exports: Arc<Exports>,
    owner: Py<PyAny>,
}

#[repr(C)]
struct LenderObject {
    base: PyObject,
    lender: *mut Lender,
}

impl Lender {
    fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        static TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = TYPE.get_or_try_init(py, || lender_type(py))?;
        // SAFETY: the type was made by `lender_type`, so its objects are `LenderObject`s. The pointer is set
        // before any Python code sees the object.
        unsafe {
            let object = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
            let object = Bound::from_owned_ptr_or_err(py, object)?;
            (*object.as_ptr().cast::<LenderObject>()).lender = Box::into_raw(Box::new(self));
            Ok(object)
        }
    }
}

fn lender_type(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let mut slots = [
        ffi::PyType_Slot {
            slot: ffi::Py_tp_dealloc,
            pfunc: dealloc as *mut c_void,
        },
        ffi::PyType_Slot {
            slot: GET_BUFFER,
            pfunc: get_buffer as *mut c_void,
        },
        ffi::PyType_Slot {
            slot: RELEASE_BUFFER,
            pfunc: release_buffer as *mut c_void,
        },
        ffi::PyType_Slot::default(),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"fullbore._fullbore.Lender".as_ptr(),
        basicsize: size_of::<LenderObject>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as u32 | NO_INSTANCES,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification has a static name, the size of its objects, and slots with functions of the
    // types that they require.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
    Ok(class.unbind())
}

/// # Safety
/// `object` is a live [`LenderObject`] whose lender was set.
unsafe fn lender<'a>(object: *mut PyObject) -> &'a Lender {
    // SAFETY: the caller's promise.
    unsafe { &*(*object.cast::<LenderObject>()).lender }
}

unsafe extern "C" fn dealloc(object: *mut PyObject) {
    // SAFETY: Python calls this once, when the last reference has gone. The object holds a reference to its
    // type, as all objects of types that are made at run time do.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let lender = (*object.cast::<LenderObject>()).lender;
        if !lender.is_null() {
            // PyO3 does not know that this thread is attached, and refuses to attach it at the end of the
            // interpreter.
            let Lender { owner, .. } = *Box::from_raw(lender);
            ffi::Py_DECREF(owner.into_ptr());
        }
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn get_buffer(object: *mut PyObject, view: *mut Buffer, flags: c_int) -> c_int {
    // SAFETY: Python passes a live object of this type and a view to be filled, and holds its lock.
    unsafe {
        let lender = lender(object);
        if lender.exports.is_over.load(Ordering::Acquire) {
            (*view).obj = ptr::null_mut();
            let text = c"the memory was given back to the pipe";
            ffi::PyErr_SetString(ffi::PyExc_BufferError, text.as_ptr());
            return -1;
        }
        let memory = lender.memory;
        let filled = PyBuffer_FillInfo(
            view,
            object,
            memory.cast(),
            memory.len() as Py_ssize_t,
            c_int::from(!lender.writable),
            flags,
        );
        if filled == 0 {
            lender.exports.count.fetch_add(1, Ordering::AcqRel);
        }
        filled
    }
}

unsafe extern "C" fn release_buffer(object: *mut PyObject, _view: *mut Buffer) {
    // SAFETY: as in `get_buffer`.
    unsafe { lender(object).exports.count.fetch_sub(1, Ordering::AcqRel) };
}

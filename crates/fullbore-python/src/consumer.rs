//! `Consumer`: any file to memory, like `io.BufferedReader`, and views of its buffer.

#![allow(unsafe_code)]

use std::io::BufRead;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use fullbore::ConsumerOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView};
use rustix::fs::SeekFrom;

use crate::buffer::{Loan, NewBytes, Shared};
use crate::errors::{inner, waiting, while_freed};
use crate::file::{self, File, file_methods};
use crate::ring::{self, *};
use crate::sizes::Size;
use crate::turn::{Turn, Turns};

/// Reads bytes from any file through a buffer sized for this machine's caches.
///
/// It has the interface of io.BufferedReader. It never changes the capacity of a pipe that it reads from. See
/// help(fullbore) for `file` and threads.
#[pyclass(name = "Consumer", module = "fullbore", frozen, subclass, weakref)]
pub struct PyConsumer {
    turns: Turns<Input>,
    file: File,
}

struct Input {
    consumer: Consumer<OwnedFd>,
    loan: Option<Loan>,
    /// Bytes that a call had read when a signal handler raised an exception. They come before those of the consumer.
    kept: Vec<u8>,
    /// How many of them have been read again.
    read_again: usize,
}

impl Input {
    /// Returns the bytes that can be read without a system call.
    fn buffer(&self) -> &[u8] {
        match &self.kept[self.read_again..] {
            [] => self.consumer.buffer(),
            kept => kept,
        }
    }

    fn consume(&mut self, n: usize) {
        if self.read_again == self.kept.len() {
            self.consumer.consume(n);
            return;
        }
        self.read_again += n;
        if self.read_again == self.kept.len() {
            self.kept = Vec::new();
            self.read_again = 0;
        }
    }

    /// Keeps bytes for the next call. All others were read.
    fn keep(&mut self, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(&self.kept[self.read_again..]);
        (self.kept, self.read_again) = (bytes, 0);
    }

    /// Fills the buffer if it is empty, and returns whether it has bytes: otherwise the file has ended.
    fn fill(&mut self, py: Python<'_>, file: &File) -> PyResult<bool> {
        if !self.buffer().is_empty() {
            return Ok(true);
        }
        let consumer = &mut self.consumer;
        let n = waiting(py, &file.name, || {
            consumer.fill_buf().map(<[u8]>::len).map_err(inner)
        })?;
        Ok(n > 0)
    }

    /// Takes bytes from the buffer.
    fn take(&mut self, into: &mut [MaybeUninit<u8>]) -> usize {
        let n = copied(self.buffer(), into);
        self.consume(n);
        n
    }

    /// Reads until `into` is full or the file has ended, and returns how many bytes it has read.
    fn read_full(
        &mut self,
        py: Python<'_>,
        file: &File,
        into: &mut [MaybeUninit<u8>],
    ) -> PyResult<usize> {
        let mut n = self.take(into);
        if n == into.len() {
            return Ok(n);
        }
        let (consumer, filled, memory) = (&mut self.consumer, &mut n, &mut *into);
        let read = waiting(py, &file.name, || {
            while *filled < memory.len() {
                match copied(consumer.fill_buf().map_err(inner)?, &mut memory[*filled..]) {
                    0 => break,
                    more => {
                        consumer.consume(more);
                        *filled += more;
                    }
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            // SAFETY: the first `n` bytes were written.
            let read = unsafe { std::slice::from_raw_parts(into.as_ptr().cast::<u8>(), n) };
            self.keep(read.to_vec());
            return Err(error);
        }
        Ok(n)
    }

    /// Reads all bytes up to the end.
    fn read_all<'py>(&mut self, py: Python<'py>, file: &File) -> PyResult<Bound<'py, PyBytes>> {
        let mut all =
            std::mem::take(&mut self.kept).split_off(std::mem::take(&mut self.read_again));
        let consumer = &mut self.consumer;
        // Signals cannot interrupt `read_to_end`.
        let read = waiting(py, &file.name, || {
            loop {
                let bytes = consumer.fill_buf().map_err(inner)?;
                if bytes.is_empty() {
                    return Ok(());
                }
                all.extend_from_slice(bytes);
                let n = bytes.len();
                consumer.consume(n);
            }
        });
        match read {
            Ok(()) => Ok(PyBytes::new(py, &all)),
            Err(error) => {
                self.keep(all);
                Err(error)
            }
        }
    }

    /// Returns the next line with its end, if it is completely buffered and nothing is lent.
    #[inline]
    fn buffered_line<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let buffer = match &self.loan {
            None => self.buffer(),
            Some(_) => return None,
        };
        let at = memchr::memchr(b'\n', buffer)?;
        let line = PyBytes::new(py, &buffer[..=at]);
        self.consume(at + 1);
        Some(line)
    }

    /// Returns the next line with its end, or the rest up to the end of the file or the limit; `None` if that is empty.
    fn line<'py>(
        &mut self,
        py: Python<'py>,
        file: &File,
        limit: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut begun = Vec::new();
        loop {
            let buffer = self.buffer();
            let most = buffer.len().min(limit - begun.len());
            let (n, is_whole) = match memchr::memchr(b'\n', &buffer[..most]) {
                Some(at) => (at + 1, true),
                None => (most, begun.len() + most == limit),
            };
            begun.extend_from_slice(&buffer[..n]);
            self.consume(n);
            let goes_on = !is_whole
                && match self.fill(py, file) {
                    Ok(goes_on) => goes_on,
                    Err(error) => {
                        self.keep(begun);
                        return Err(error);
                    }
                };
            if !goes_on {
                return Ok((!begun.is_empty()).then(|| PyBytes::new(py, &begun)));
            }
        }
    }
}

/// Copies as many bytes as fit, and returns how many.
fn copied(bytes: &[u8], into: &mut [MaybeUninit<u8>]) -> usize {
    let n = into.len().min(bytes.len());
    // SAFETY: both have `n` bytes, and `into` is borrowed mutably, so they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.as_mut_ptr().cast(), n) };
    n
}

/// Returns how many bytes were read from the consumer.
fn read_from(consumer: &Consumer<OwnedFd>) -> u64 {
    consumer.taken() - consumer.buffer().len() as u64
}

/// Returns the size of an argument that may be -1 or None for no limit.
fn limit_of(size: Option<i64>) -> usize {
    size.and_then(|size| usize::try_from(size).ok())
        .unwrap_or(usize::MAX)
}

impl PyConsumer {
    /// Waits for the turn, and ends the loan of memory.
    fn turn(&self, py: Python<'_>) -> PyResult<Turn<'_, Input>> {
        let mut input = self.turns.take(py)?;
        Loan::end_any(&mut input.loan, py)?;
        Ok(input)
    }

    /// Returns the next line like [`Input::line`]. A buffered line needs no turn, which would take a tenth of the time
    /// of a short line.
    #[inline]
    fn line<'py>(&self, py: Python<'py>, limit: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let buffered = match limit {
            usize::MAX => self.turns.at_once(|input| input.buffered_line(py)),
            _ => None,
        };
        match buffered {
            Some(line) => Ok(Some(line)),
            None => self.turn(py)?.line(py, &self.file, limit),
        }
    }
}

#[pymethods]
impl PyConsumer {
    #[new]
    #[pyo3(signature = (file, *, buffer = None, shared = false, closefd = true))]
    fn new(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        buffer: Option<Size>,
        shared: bool,
        closefd: bool,
    ) -> PyResult<Self> {
        let (own, file, ahead) = File::open(file, false, closefd)?;
        let buffer = buffer.map(|Size(bytes)| bytes);
        let consumer = ConsumerOptions::new()
            .interruptible(true)
            .buffer(buffer)
            .open(own)
            .map_err(|error| crate::errors::exception(py, &error, &file.name))?;
        let consumer = ring::consumer(py, consumer, shared, buffer)?;
        Ok(Self {
            turns: Turns::new(Input {
                consumer,
                loan: None,
                kept: ahead,
                read_again: 0,
            }),
            file,
        })
    }

    /// Reads size bytes, or fewer at the end of the file; by default all bytes up to the end.
    #[pyo3(signature = (size = None, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        let mut input = self.turn(py)?;
        let Some(len) = size.and_then(|size| usize::try_from(size).ok()) else {
            return input.read_all(py, &self.file);
        };
        if let Some(bytes) = input.buffer().get(..len) {
            let bytes = PyBytes::new(py, bytes);
            input.consume(len);
            return Ok(bytes);
        }
        let mut new = NewBytes::new(py, len)?;
        let n = input.read_full(py, &self.file, new.room())?;
        // SAFETY: `read_full` has filled them.
        Ok(unsafe { new.finish(n) })
    }

    /// Reads up to size bytes with at most one read(2), which waits only if no bytes are available.
    #[pyo3(signature = (size = None, /))]
    fn read1<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        let mut input = self.turn(py)?;
        let most = limit_of(size);
        if most > 0 {
            input.fill(py, &self.file)?;
        }
        let n = most.min(input.buffer().len());
        let bytes = PyBytes::new(py, &input.buffer()[..n]);
        input.consume(n);
        Ok(bytes)
    }

    /// Reads into a writable bytes-like object until it is full or the file has ended; returns the number of bytes.
    fn readinto(&self, py: Python<'_>, into: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut shared = Shared::to_write(into)?;
        self.turn(py)?.read_full(py, &self.file, shared.room())
    }

    /// Reads into a writable bytes-like object with at most one read(2); returns the number of bytes.
    fn readinto1(&self, py: Python<'_>, into: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut shared = Shared::to_write(into)?;
        let mut input = self.turn(py)?;
        let memory = shared.room();
        if !memory.is_empty() {
            input.fill(py, &self.file)?;
        }
        Ok(input.take(memory))
    }

    /// Reads one line with its end, or at most size bytes of it. Returns b"" at the end of the file.
    #[pyo3(signature = (size = None, /))]
    fn readline<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        let line = self.line(py, limit_of(size))?;
        Ok(line.unwrap_or_else(|| PyBytes::new(py, b"")))
    }

    /// Reads lines up to the end of the file, or until their total length reaches hint bytes.
    #[pyo3(signature = (hint = None, /))]
    fn readlines<'py>(&self, py: Python<'py>, hint: Option<i64>) -> PyResult<Bound<'py, PyList>> {
        let most = match limit_of(hint) {
            0 => usize::MAX,
            most => most,
        };
        let lines = PyList::empty(py);
        let mut bytes = 0;
        while bytes < most {
            let line = match self.line(py, usize::MAX) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    let mut taken = Vec::with_capacity(bytes);
                    for line in &lines {
                        taken.extend_from_slice(line.extract()?);
                    }
                    self.turn(py)?.keep(taken);
                    return Err(error);
                }
            };
            bytes += line.as_bytes().len();
            lines.append(line)?;
        }
        Ok(lines)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, Self>> {
        slf.get().turns.take(py)?;
        Ok(slf.clone())
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.line(py, usize::MAX)
    }

    /// Returns the next bytes without consuming them: all that are buffered, and at least one unless the file has
    /// ended. `size` is ignored, as by io.BufferedReader.
    #[pyo3(signature = (_size = 0, /))]
    fn peek<'py>(&self, py: Python<'py>, _size: i64) -> PyResult<Bound<'py, PyBytes>> {
        let mut input = self.turn(py)?;
        input.fill(py, &self.file)?;
        Ok(PyBytes::new(py, input.buffer()))
    }

    /// Returns all buffered bytes, without a system call.
    fn _buffered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let input = self.turn(py)?;
        let kept = &input.kept[input.read_again..];
        Ok(PyBytes::new(py, &[kept, input.consumer.buffer()].concat()))
    }

    /// Consumes up to n bytes, by default all that are buffered, and returns them as a read-only memoryview of the
    /// buffer, without a copy. It has at least one byte unless the file has ended.
    ///
    /// The next call of this object ends the view: using it then raises ValueError. While slices of the view or arrays
    /// made from it exist, that call raises BufferError, and does nothing.
    #[pyo3(signature = (n = -1, /))]
    fn read_view<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        n: i64,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let this = slf.get();
        let mut input = this.turn(py)?;
        let most = limit_of(Some(n));
        if most > 0 {
            input.fill(py, &this.file)?;
        }
        // Kept bytes are freed once they have been read, so they are not lent.
        if input.read_again < input.kept.len() {
            let kept = &input.kept[input.read_again..];
            let bytes = PyBytes::new(py, &kept[..kept.len().min(most)]);
            input.consume(bytes.as_bytes().len());
            return PyMemoryView::from(bytes.as_any());
        }
        let memory = input.buffer();
        let memory = std::ptr::from_ref(&memory[..memory.len().min(most)]);
        // SAFETY: every method that reads into the buffer or frees it ends the loan first, and the view keeps the
        // consumer alive.
        let (loan, view) = unsafe { Loan::new(slf.as_any(), memory, false)? };
        input.loan = Some(loan);
        input.consume(memory.len());
        Ok(view)
    }

    /// Discards the next n bytes, or all up to the end, and returns how many. Bytes in a pipe are discarded without
    /// being copied.
    fn discard(&self, py: Python<'_>, n: u64) -> PyResult<u64> {
        let mut input = self.turn(py)?;
        let kept =
            (input.kept.len() - input.read_again).min(usize::try_from(n).unwrap_or(usize::MAX));
        if kept > 0 {
            input.consume(kept);
        }
        let left = n - kept as u64;
        let consumer = &mut input.consumer;
        let before = read_from(consumer);
        let mut gone = 0;
        waiting(py, &self.file.name, || {
            let answer = consumer.discard(left - gone);
            // An interrupted call has discarded some bytes.
            gone = read_from(consumer) - before;
            answer.map(drop)
        })?;
        Ok(kept as u64 + gone)
    }

    /// Closes the file (unless closefd is false).
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.turns.is_here() || self.turns.is_closed() {
            return Ok(());
        }
        drop(self.turn(py)?.close());
        self.file.close(py)
    }

    /// Returns the file. This object cannot be used any more, and its buffered bytes are lost.
    fn detach(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        drop(self.turn(py)?.close());
        Ok(self.file.given.clone_ref(py))
    }

    /// Bytes taken from the file so far, including those in the buffer.
    #[getter]
    fn taken(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.turns.take(py)?.consumer.taken())
    }

    /// Whether bytes come through memory shared with the producer.
    #[getter]
    fn shares(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.turns.take(py)?.consumer.is_sharing())
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        let input = self.turns.take(py)?;
        let ahead = input.kept.len() - input.read_again + input.consumer.buffer().len();
        let at = self.file.tell(py, input.consumer.get_ref())?;
        Ok(at.saturating_sub(ahead as u64))
    }

    #[pyo3(signature = (offset, whence = 0, /))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        let to = match file::seek_from(offset, whence)? {
            SeekFrom::Current(offset) => {
                let at = self.tell(py)?.checked_add_signed(offset);
                SeekFrom::Start(at.ok_or_else(|| {
                    PyValueError::new_err("the position would be before the start of the file")
                })?)
            }
            to => to,
        };
        let mut input = self.turn(py)?;
        let at = self.file.seek(py, input.consumer.get_ref(), to)?;
        (input.kept, input.read_again) = (Vec::new(), 0);
        let buffered = input.consumer.buffer().len();
        input.consumer.consume(buffered);
        Ok(at)
    }

    #[pyo3(signature = (*_data))]
    fn write(&self, _data: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        Err(file::UnsupportedOperation::new_err("write"))
    }

    /// Does nothing, because the file is only read.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.turns.take(py).map(drop)
    }
}

file_methods!(PyConsumer, "Consumer", "rb", |input| input
    .consumer
    .get_ref());

impl Drop for PyConsumer {
    fn drop(&mut self) {
        if let Some(input) = self.turns.take_out() {
            if self.turns.is_here() {
                while_freed(|py| self.file.let_go(py, input.consumer.get_ref()));
            }
        }
    }
}

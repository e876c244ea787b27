//! `Producer`: memory to any file, like `io.BufferedWriter`, and memory that is lent.

#![allow(unsafe_code)]

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Instant;

use fullbore::{Error, ProducerOptions, Unfinished};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyString};

use crate::buffer::{Loan, Shared};
use crate::errors::{exception, inner, waiting, while_freed};
use crate::file::{self, File, file_methods};
use crate::ring::{self, *};
use crate::sizes::Size;
use crate::turn::Turns;

/// Writes bytes to any file as fast as its guarantee allows: a reader gets the bytes as they were when the call
/// returned.
///
/// It has the interface of io.BufferedWriter. Into a pipe it sends whole pages by reference instead of copying them; to
/// anything else it calls write(2). See help(fullbore) for `file`, `pipe_size` and threads.
#[pyclass(name = "Producer", module = "fullbore", frozen, subclass, weakref)]
pub struct PyProducer {
    turns: Turns<Output>,
    file: File,
    chunk: usize,
}

struct Output {
    producer: Producer<OwnedFd>,
    loan: Option<Loan>,
    /// Memory that reserve() lends while the producer shares memory with its reader: a forked child does not have the
    /// shared memory, so using a view of it there would crash.
    apart: Vec<u8>,
    /// Whether an exception ended the last call: the producer is then freed without sending the rest.
    failed: bool,
}

impl Output {
    /// Makes a call that sends, and records whether it failed.
    fn sending<T: Send>(
        &mut self,
        py: Python<'_>,
        file: &File,
        mut call: impl FnMut(&mut Producer<OwnedFd>) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let Self {
            producer, failed, ..
        } = self;
        waiting(py, &file.name, || {
            let answer = call(producer);
            // Also if a signal handler ended it: then only close() and flush() send the rest.
            *failed = answer.is_err();
            answer
        })
    }

    fn write_all(&mut self, py: Python<'_>, file: &File, bytes: &[u8]) -> PyResult<()> {
        let mut left = bytes;
        self.sending(py, file, |producer| {
            while !left.is_empty() {
                let n = producer.write(left).map_err(inner)?;
                left = &left[n..];
            }
            Ok(())
        })
    }

    fn flush(&mut self, py: Python<'_>, file: &File) -> PyResult<()> {
        self.sending(py, file, |producer| producer.flush().map_err(inner))
    }

    /// Sends everything, including unread bytes of the shared memory, and returns the sink.
    fn end(self, py: Python<'_>, file: &File) -> (OwnedFd, PyResult<()>) {
        let (mut open, mut sink) = (Some(self.producer), None);
        let ended = waiting(py, &file.name, || {
            let Some(producer) = open.take() else {
                return Ok(());
            };
            match producer.into_inner() {
                Ok(done) => {
                    sink = Some(done);
                    Ok(())
                }
                Err(Unfinished { error, producer }) => {
                    open = Some(*producer);
                    Err(error)
                }
            }
        });
        let rest = || open.map(|producer| producer.into_parts().0);
        let sink = sink.or_else(rest).expect("one of both has it");
        (sink, ended)
    }
}

#[pymethods]
impl PyProducer {
    #[new]
    #[pyo3(signature = (file, *, pipe_size = None, chunk = None, shared = false, closefd = true))]
    fn new(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        pipe_size: Option<Size>,
        chunk: Option<Size>,
        shared: bool,
        closefd: bool,
    ) -> PyResult<Self> {
        let (own, file, _) = File::open(file, true, closefd)?;
        let producer = ProducerOptions::new()
            .interruptible(true)
            .pipe_size(pipe_size.map(|Size(bytes)| bytes))
            .chunk(chunk.map(|Size(bytes)| bytes))
            .open(own)
            .map_err(|error| exception(py, &error, &file.name))?;
        let producer = ring::producer(py, producer, shared)?;
        Ok(Self {
            chunk: producer.chunk(),
            turns: Turns::new(Output {
                producer,
                loan: None,
                apart: Vec::new(),
                failed: false,
            }),
            file,
        })
    }

    /// Accepts all bytes of a bytes-like object, and returns their number.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let shared = Shared::to_read(data)?;
        let mut output = self.turns.take(py)?;
        Loan::end_any(&mut output.loan, py)?;
        let bytes = shared.bytes();
        if bytes.len() < output.producer.room() {
            // This makes no system call, so it keeps the interpreter's lock.
            let written = output.producer.write_all(bytes).map_err(inner);
            return written
                .map(|()| bytes.len())
                .map_err(|error| exception(py, &error, &self.file.name));
        }
        output.write_all(py, &self.file, bytes)?;
        Ok(bytes.len())
    }

    /// Writes each of these bytes-like objects.
    fn writelines(&self, py: Python<'_>, lines: &Bound<'_, PyAny>) -> PyResult<()> {
        for line in lines.try_iter()? {
            self.write(py, &line?)?;
        }
        Ok(())
    }

    /// Sends the gathered bytes.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let mut output = self.turns.take(py)?;
        Loan::end_any(&mut output.loan, py)?;
        output.flush(py, &self.file)
    }

    /// Lends n bytes of the memory that will be sent, as a writable memoryview.
    ///
    /// Fill the view and call commit(). n is at most `chunk`, which is the default. The next call of this object ends
    /// the view: using it then raises ValueError. Its initial contents are unspecified.
    #[pyo3(signature = (n = None))]
    fn reserve<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        n: Option<i64>,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let this = slf.get();
        let n = n.map_or(Ok(this.chunk), count)?;
        if n > this.chunk {
            return Err(PyValueError::new_err(format!(
                "{n} bytes are more than reserve() lends at once: at most {} (chunk)",
                this.chunk
            )));
        }
        let mut output = this.turns.take(py)?;
        Loan::end_any(&mut output.loan, py)?;
        output.sending(py, &this.file, |producer| producer.reserve(n).map(drop))?;
        let memory = match output.producer.is_sharing() {
            true => {
                output.apart.resize(this.chunk, 0);
                std::ptr::from_mut(&mut output.apart[..n])
            }
            false => producer_memory(&mut output.producer, n)
                .map_err(|error| exception(py, &error, &this.file.name))?,
        };
        // SAFETY: every method that sends the memory or writes to it ends the loan first, and the view keeps the
        // producer alive.
        let (loan, view) = unsafe { Loan::new(slf.as_any(), memory, true)? };
        output.loan = Some(loan);
        Ok(view)
    }

    /// Sends the first n bytes of the memory that the last reserve() lent.
    ///
    /// While slices of the view or arrays made from it exist, raises BufferError, and sends nothing.
    fn commit(&self, py: Python<'_>, n: i64) -> PyResult<()> {
        let n = count(n)?;
        let mut output = self.turns.take(py)?;
        match &output.loan {
            None => {
                return Err(PyValueError::new_err(
                    "commit() without reserve(): any other call in between ends what reserve() lent",
                ));
            }
            Some(loan) if n > loan.len => {
                return Err(PyValueError::new_err(format!(
                    "commit({n}) after reserve({}): no more than that can be sent",
                    loan.len
                )));
            }
            Some(_) => {}
        }
        Loan::end_any(&mut output.loan, py)?;
        // No call can have ended the sharing since reserve().
        if output.producer.is_sharing() {
            let apart = std::mem::take(&mut output.apart);
            let written = output.write_all(py, &self.file, &apart[..n]);
            output.apart = apart;
            return written.and_then(|()| output.flush(py, &self.file));
        }
        let mut is_committed = false;
        output.sending(py, &self.file, |producer| {
            match std::mem::replace(&mut is_committed, true) {
                false => producer.commit(n),
                true => producer.flush().map_err(inner),
            }
        })
    }

    /// Sends the gathered bytes, and closes the file (unless closefd is false).
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.turns.is_here() || self.turns.is_closed() {
            return Ok(());
        }
        let mut output = self.turns.take(py)?;
        Loan::end_any(&mut output.loan, py)?;
        let (sink, sent) = output.close().end(py, &self.file);
        let closed = fullbore::close(sink);
        let also = self.file.close(py);
        sent?;
        closed.map_err(|error| exception(py, &error, &self.file.name))?;
        also
    }

    /// Sends the gathered bytes, and returns the file. This object cannot be used any more.
    fn detach(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut output = self.turns.take(py)?;
        Loan::end_any(&mut output.loan, py)?;
        output.flush(py, &self.file)?;
        output.close().end(py, &self.file).1?;
        Ok(self.file.given.clone_ref(py))
    }

    /// Bytes that were sent so far.
    #[getter]
    fn sent(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.turns.take(py)?.producer.sent())
    }

    /// Bytes that were accepted and not sent yet.
    #[getter]
    fn unsent(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.turns.take(py)?.producer.unsent())
    }

    /// How bytes are sent now: 'fresh' (pages by reference), 'socket', 'copy', or 'ring' (memory shared with the
    /// reader).
    #[getter]
    fn way(&self, py: Python<'_>) -> PyResult<String> {
        let producer = &self.turns.take(py)?.producer;
        Ok(match producer.is_sharing() {
            true => "ring".to_owned(),
            false => producer.inner().report().way.to_string(),
        })
    }

    /// The most bytes that reserve() lends, and that one system call sends.
    #[getter]
    fn chunk(&self) -> usize {
        self.chunk
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        let output = self.turns.take(py)?;
        let at = self.file.tell(py, output.producer.inner().get_ref())?;
        Ok(at + output.producer.unsent())
    }

    #[pyo3(signature = (offset, whence = 0))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        self.flush(py)?;
        let output = self.turns.take(py)?;
        let to = file::seek_from(offset, whence)?;
        self.file.seek(py, output.producer.inner().get_ref(), to)
    }

    /// Changes the size of the file.
    #[pyo3(signature = (size = None))]
    fn truncate(&self, py: Python<'_>, size: Option<u64>) -> PyResult<u64> {
        self.flush(py)?;
        let size = match size {
            Some(size) => size,
            None => self.tell(py)?,
        };
        let output = self.turns.take(py)?;
        match rustix::fs::ftruncate(output.producer.inner().get_ref(), size) {
            Ok(()) => Ok(size),
            Err(errno) => Err(self.file.failed(py, errno)),
        }
    }

    #[pyo3(signature = (*_size))]
    fn read(&self, _size: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        Err(file::UnsupportedOperation::new_err("read"))
    }
}

file_methods!(PyProducer, "Producer", "wb", |output| output
    .producer
    .inner()
    .get_ref());

/// # Errors
/// `ValueError` for a negative number of bytes.
fn count(n: i64) -> PyResult<usize> {
    usize::try_from(n).map_err(|_| {
        PyValueError::new_err(format!("invalid n {n}: expected a number of bytes from 0"))
    })
}

/// Returns the memory that the producer has just reserved: a repeated call sends nothing and returns the same memory.
fn producer_memory(producer: &mut Producer<OwnedFd>, n: usize) -> Result<*mut [u8], Error> {
    producer.reserve(n).map(std::ptr::from_mut)
}

impl Drop for PyProducer {
    fn drop(&mut self) {
        // A view of lent memory would keep this object alive, so there is none.
        if let Some(output) = self.turns.take_out() {
            while_freed(|py| {
                if !self.turns.is_here() {
                    return;
                }
                if output.failed && output.producer.is_sharing() {
                    let mut producer = output.producer;
                    self.file.let_go(py, producer.inner().get_ref());
                    // The reader finds the unread bytes in the shared memory, so there is nothing to wait for.
                    producer.set_deadline(Some(Instant::now()));
                    return;
                }
                let (sink, sent) = match output.failed {
                    true => (output.producer.into_parts().0, Ok(())),
                    false => output.end(py, &self.file),
                };
                if let Err(error) = sent {
                    let name = self.file.repr(py, "Producer").unwrap_or_default();
                    error.write_unraisable(py, Some(PyString::new(py, &name).as_any()));
                }
                self.file.let_go(py, &sink);
            });
        }
    }
}

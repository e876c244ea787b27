//! `copy` and `tee`: file to file.

#![allow(unsafe_code)]

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use fullbore::tee::Policy;
use fullbore::transfer::Progress;
use fullbore::{
    Cancel, EndReason, Guarantee, TeeOptions, TransferFailure, TransferOptions, TransferReport,
    TransferSide,
};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rustix::fs::FileType;

use crate::errors::exception;
use crate::file::duplicate;
use crate::sizes::Size;

/// The interval at which signals are handled and progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// Cancels a copy from another thread.
#[pyclass(module = "fullbore._fullbore", frozen)]
pub struct Canceller(Cancel);

#[pymethods]
impl Canceller {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let cancel = Cancel::new().map_err(|error| exception(py, &error, &py.None()))?;
        Ok(Self(cancel))
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}

/// A file to move bytes from or to: its descriptor, and its name in errors.
type Named = (RawFd, Py<PyAny>);

/// A descriptor for one call.
enum Held {
    /// A duplicate, which no other thread can redirect.
    Own(OwnedFd),
    /// The caller's own, for a regular file: closing a duplicate would release the caller's POSIX locks on the file
    /// (fcntl_locking(2)).
    Callers(BorrowedFd<'static>),
}

impl Held {
    fn new(py: Python<'_>, (number, name): &Named) -> PyResult<Self> {
        let own = || duplicate(py, *number, name).map(Self::Own);
        if *number < 0 {
            return own();
        }
        // SAFETY: it is not -1, and is used only during the call, in which the caller keeps it open.
        let callers = unsafe { BorrowedFd::borrow_raw(*number) };
        match rustix::fs::fstat(callers) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(Self::Callers(callers))
            }
            _ => own(),
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(own) => own.as_fd(),
            Self::Callers(callers) => *callers,
        }
    }
}

/// Returns the class of a report.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("fullbore._moved")?.getattr(name)
}

/// How often it is tried to make a report while handlers of signals raise exceptions.
const TRIES: usize = 1000;

/// Returns the report that `make` makes, or raises an error. In both cases it is in `kept`, so that it is known also
/// if a signal is handled before the caller has stored what is returned. To make it runs code of Python, where such a
/// handler may raise an exception: the bytes that have not arrived must not be lost with it.
fn with_report<'py>(
    kept: &Bound<'py, PyList>,
    mut error: Option<PyErr>,
    make: impl Fn() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut tries = 0;
    let report = loop {
        match make() {
            Ok(report) => break report,
            Err(raised) if tries == TRIES => return Err(raised),
            Err(raised) => (error, tries) = (Some(raised), tries + 1),
        }
    };
    kept.append(&report)?;
    error.map_or(Ok(report), Err)
}

/// Moves bytes from one descriptor to another, for copy(), which opens the files.
#[pyfunction]
#[pyo3(signature = (source, sink, ahead, by_reference, plain, limit, progress, pipe_size, cancel, kept))]
#[allow(clippy::too_many_arguments)]
pub fn transfer<'py>(
    py: Python<'py>,
    source: Named,
    sink: Named,
    ahead: Vec<u8>,
    by_reference: bool,
    plain: bool,
    limit: Option<u64>,
    progress: Option<Bound<'_, PyAny>>,
    pipe_size: Option<Size>,
    cancel: Option<&Canceller>,
    kept: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class(py, "Report")?;
    let (from, to) = (Held::new(py, &source)?, Held::new(py, &sink)?);
    let mut transfer = TransferOptions::new()
        .after(ahead)
        .guarantee(match by_reference {
            true => Guarantee::Reference,
            false => Guarantee::Snapshot,
        })
        .plain(plain)
        .interruptible(true)
        .limit(limit)
        .pipe_size(pipe_size.map(|Size(bytes)| bytes))
        .cancel(cancel.map(|Canceller(cancel)| cancel))
        .open(from, to);
    let progress = progress.map(Bound::unbind);
    let tell = |py: Python<'_>, bytes: u64| match &progress {
        Some(progress) => progress.call1(py, (bytes,)).map(drop),
        None => Ok(()),
    };
    let mut ticked = Instant::now();
    loop {
        let mut raised = None;
        let mut tick = |progress: Progress<'_>| {
            if ticked.elapsed() < TICK {
                return ControlFlow::Continue(());
            }
            let told = Python::attach(|py| {
                py.check_signals()?;
                tell(py, progress.bytes)
            });
            ticked = Instant::now();
            match told {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let outcome = py.detach(|| transfer.run_with(&mut tick));
        let (report, error) = match outcome {
            Ok(report) if report.ended == EndReason::Interrupted => match py.check_signals() {
                Ok(()) => continue,
                Err(error) => (report, Some(error)),
            },
            Ok(report) => {
                let raised = raised.or_else(|| tell(py, report.bytes).err());
                (report, raised)
            }
            Err(TransferFailure { report, error, .. }) => {
                let file = match &error {
                    fullbore::Error::Moving { side, .. } if *side == TransferSide::Source => {
                        &source.1
                    }
                    _ => &sink.1,
                };
                (*report, Some(exception(py, &error, file)))
            }
        };
        // A sandbox does not allow reading a pipe back. `taken` shows how many bytes it holds.
        let unsent = transfer
            .into_parts()
            .map_or_else(|_| Vec::new(), |parts| parts.2);
        return with_report(kept, error, || told(&class, &report, &unsent));
    }
}

/// Returns a `Report` of Python.
fn told<'py>(
    class: &Bound<'py, PyAny>,
    report: &TransferReport,
    unsent: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    let methods = report.ways.iter();
    let methods: Vec<_> = methods.map(|(way, n)| (way.to_string(), *n)).collect();
    let ended = match report.ended {
        EndReason::AtEnd => "end",
        EndReason::AtLimit => "limit",
        EndReason::Failed => "failed",
        _ => "interrupted",
    };
    let (bytes, taken, calls) = (report.bytes, report.taken, report.calls);
    let seconds = report.elapsed.as_secs_f64();
    class.call1((bytes, taken, seconds, calls, methods, ended, unsent))
}

/// Moves bytes from one descriptor to several, for tee(), which opens the files.
#[pyfunction]
#[pyo3(signature = (source, sinks, limit, drops, plain, pipe_size, kept))]
#[allow(clippy::too_many_arguments)]
pub fn split<'py>(
    py: Python<'py>,
    source: Named,
    sinks: Vec<Named>,
    limit: Option<u64>,
    drops: bool,
    plain: bool,
    pipe_size: Option<Size>,
    kept: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let (class, sink_class) = (class(py, "TeeReport")?, class(py, "SinkReport")?);
    let policy = match drops {
        true => Policy::DROP,
        false => Policy::FAIL_ALL,
    };
    let options = TeeOptions::new()
        .plain(plain)
        .limit(limit)
        .pipe_size(pipe_size.map(|Size(bytes)| bytes));
    let held = sinks.iter().map(|sink| Ok((Held::new(py, sink)?, policy)));
    let held = held.collect::<PyResult<Vec<_>>>()?;
    let mut tee = options.open(Held::new(py, &source)?, held);
    loop {
        // A tee never sleeps in a call on a single sink, so a deadline costs it nothing.
        tee.set_deadline(Instant::now() + TICK);
        let (report, error) = match py.detach(|| tee.run()) {
            Ok(report) if report.ended == EndReason::TimedOut => match py.check_signals() {
                Ok(()) => continue,
                Err(error) => (report, Some(error)),
            },
            Ok(report) => (report, None),
            Err(failure) => {
                let name = failure.sink.and_then(|number| Some(&sinks.get(number)?.1));
                let error = exception(py, &failure.error, name.unwrap_or(&source.1));
                (*failure.report, Some(error))
            }
        };
        let (_, held) = tee
            .into_parts()
            .map_err(|error| exception(py, &error, &source.1))?;
        return with_report(kept, error, || {
            let parts = report.sinks.iter().zip(&sinks).zip(&held);
            let parts = parts.map(|((sink, (_, name)), (_, unsent))| {
                let error = sink.error.as_ref().map(|error| exception(py, error, name));
                sink_class.call1((sink.bytes, error, &unsent[..]))
            });
            let parts = parts.collect::<PyResult<Vec<_>>>()?;
            class.call1((report.taken, report.elapsed.as_secs_f64(), parts))
        });
    }
}

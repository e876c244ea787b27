//! `copy` and `tee`: file to file, and the reports of both.

#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use fullbore::tee::Policy;
use fullbore::transfer::Progress;
use fullbore::{Cancel, EndReason, Guarantee, Tee, Transfer, TransferFailure, TransferSide};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::fs::FileType;

use crate::errors::exception;
use crate::file::duplicate;
use crate::sizes::Size;

/// The interval at which signals are handled and progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// The result of copy().
#[pyclass(module = "fullbore", frozen, get_all, name = "Report")]
pub struct PyReport {
    /// Bytes that arrived.
    bytes: u64,
    /// Bytes that were taken from the source: more than `bytes` only after an error or an interruption.
    taken: u64,
    /// How long it took.
    seconds: f64,
    /// System calls that were made to move bytes.
    calls: u64,
    /// The ways that were used, each with the number of bytes that it moved.
    methods: Vec<(String, u64)>,
    /// Why it returned: 'end', 'limit', 'interrupted' or 'failed'.
    ended: String,
    /// The bytes that were taken and did not arrive; empty unless there was an error or an interruption.
    unsent: Vec<u8>,
}

#[pymethods]
impl PyReport {
    #[new]
    fn from_parts(
        bytes: u64,
        taken: u64,
        seconds: f64,
        calls: u64,
        methods: Vec<(String, u64)>,
        ended: String,
        unsent: Vec<u8>,
    ) -> Self {
        Self {
            bytes,
            taken,
            seconds,
            calls,
            methods,
            ended,
            unsent,
        }
    }

    /// For copies and pickles.
    #[allow(clippy::type_complexity)]
    fn __getnewargs__(&self) -> (u64, u64, f64, u64, Vec<(String, u64)>, &str, Cow<'_, [u8]>) {
        (
            self.bytes,
            self.taken,
            self.seconds,
            self.calls,
            self.methods.clone(),
            &self.ended,
            Cow::Borrowed(&self.unsent),
        )
    }

    fn __repr__(&self) -> String {
        let methods: Vec<String> = self
            .methods
            .iter()
            .map(|(method, bytes)| format!("('{method}', {bytes})"))
            .collect();
        format!(
            "Report(bytes={}, seconds={:.3}, calls={}, methods=[{}], ended='{}')",
            self.bytes,
            self.seconds,
            self.calls,
            methods.join(", "),
            self.ended
        )
    }
}

/// The result of tee() for one sink.
#[pyclass(module = "fullbore", frozen, get_all, name = "SinkReport")]
pub struct PySinkReport {
    /// Bytes that it got.
    bytes: u64,
    /// The OSError for which it was dropped, or None.
    error: Option<Py<PyAny>>,
}

#[pymethods]
impl PySinkReport {
    #[new]
    fn from_parts(bytes: u64, error: Option<Py<PyAny>>) -> Self {
        Self { bytes, error }
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (u64, Option<Py<PyAny>>) {
        (
            self.bytes,
            self.error.as_ref().map(|error| error.clone_ref(py)),
        )
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let error = match &self.error {
            Some(error) => error.bind(py).repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!("SinkReport(bytes={}, error={error})", self.bytes))
    }
}

/// The result of tee().
#[pyclass(module = "fullbore", frozen, get_all, name = "TeeReport")]
pub struct PyTeeReport {
    /// Bytes that were taken from the source.
    bytes: u64,
    /// How long it took.
    seconds: f64,
    /// The sinks, in the given order.
    sinks: Vec<Py<PySinkReport>>,
}

#[pymethods]
impl PyTeeReport {
    #[new]
    fn from_parts(bytes: u64, seconds: f64, sinks: Vec<Py<PySinkReport>>) -> Self {
        Self {
            bytes,
            seconds,
            sinks,
        }
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (u64, f64, Vec<Py<PySinkReport>>) {
        let sinks = self.sinks.iter().map(|sink| sink.clone_ref(py));
        (self.bytes, self.seconds, sinks.collect())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let sinks: PyResult<Vec<String>> = self
            .sinks
            .iter()
            .map(|sink| sink.get().__repr__(py))
            .collect();
        Ok(format!(
            "TeeReport(bytes={}, seconds={:.3}, sinks=[{}])",
            self.bytes,
            self.seconds,
            sinks?.join(", ")
        ))
    }
}

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

/// Moves bytes from one descriptor to another, for copy(), which opens the files.
#[pyfunction]
#[pyo3(signature = (source, sink, ahead, guarantee, plain, limit, progress, pipe_size, cancel))]
#[allow(clippy::too_many_arguments)]
pub fn transfer(
    py: Python<'_>,
    source: Named,
    sink: Named,
    ahead: Vec<u8>,
    guarantee: &str,
    plain: bool,
    limit: Option<u64>,
    progress: Option<Bound<'_, PyAny>>,
    pipe_size: Option<Size>,
    cancel: Option<&Canceller>,
) -> PyResult<PyReport> {
    let (from, to) = (Held::new(py, &source)?, Held::new(py, &sink)?);
    let mut transfer = Transfer::new(from, to)
        .after(ahead)
        .guarantee(guarantee_of(guarantee)?)
        .plain(plain)
        .interruptible(true);
    if let Some(limit) = limit {
        transfer = transfer.limit(limit);
    }
    if let Some(Size(bytes)) = pipe_size {
        transfer = transfer.pipe_size(bytes);
    }
    if let Some(Canceller(cancel)) = cancel {
        transfer = transfer.cancel(cancel);
    }
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
                (report, Some(exception(py, &error, file)))
            }
        };
        let report = reported(&report, transfer);
        let Some(error) = error else {
            return Ok(report);
        };
        error.value(py).setattr("report", Py::new(py, report)?)?;
        return Err(error);
    }
}

fn reported(report: &fullbore::TransferReport, transfer: Transfer<Held, Held>) -> PyReport {
    let (_, _, unsent) = match transfer.into_parts() {
        Ok(parts) => parts,
        // A sandbox does not allow reading a pipe back. `taken` shows how many bytes it holds.
        Err(_) => return PyReport::new(report, Vec::new()),
    };
    PyReport::new(report, unsent)
}

impl PyReport {
    fn new(report: &fullbore::TransferReport, unsent: Vec<u8>) -> Self {
        let methods = report.methods.iter();
        Self {
            bytes: report.bytes,
            taken: report.taken,
            seconds: report.elapsed.as_secs_f64(),
            calls: report.calls,
            methods: methods
                .map(|(method, n)| (method.to_string(), *n))
                .collect(),
            ended: match report.ended {
                EndReason::AtEnd => "end",
                EndReason::AtLimit => "limit",
                EndReason::Failed => "failed",
                _ => "interrupted",
            }
            .to_owned(),
            unsent,
        }
    }
}

/// # Errors
/// `ValueError`.
fn guarantee_of(text: &str) -> PyResult<Guarantee> {
    match text {
        "snapshot" => Ok(Guarantee::Snapshot),
        "reference" => Ok(Guarantee::Reference),
        _ => Err(PyValueError::new_err(format!(
            "invalid guarantee '{text}': expected 'snapshot' or 'reference'"
        ))),
    }
}

/// Moves bytes from one descriptor to several, for tee(), which opens the files.
#[pyfunction]
#[pyo3(signature = (source, sinks, limit, on_error, plain, pipe_size))]
pub fn split(
    py: Python<'_>,
    source: Named,
    sinks: Vec<Named>,
    limit: Option<u64>,
    on_error: &str,
    plain: bool,
    pipe_size: Option<Size>,
) -> PyResult<PyTeeReport> {
    let policy = match on_error {
        "fail" => Policy::FAIL_ALL,
        "drop" => Policy::DROP,
        _ => {
            return Err(PyValueError::new_err(format!(
                "invalid on_error '{on_error}': expected 'fail' or 'drop'"
            )));
        }
    };
    let mut tee = Tee::new(Held::new(py, &source)?).plain(plain);
    for sink in &sinks {
        tee = tee.sink(Held::new(py, sink)?, policy);
    }
    if let Some(limit) = limit {
        tee = tee.limit(limit);
    }
    if let Some(Size(bytes)) = pipe_size {
        tee = tee.pipe_size(bytes);
    }
    loop {
        // A tee never sleeps in a call on a single sink, so a deadline costs it nothing.
        tee = tee.deadline(Instant::now() + TICK);
        let (report, error) = match py.detach(|| tee.run()) {
            Ok(report) if report.ended == EndReason::TimedOut => match py.check_signals() {
                Ok(()) => continue,
                Err(error) => (report, Some(error)),
            },
            Ok(report) => (report, None),
            Err(failure) => {
                let name = failure.sink.and_then(|number| Some(&sinks.get(number)?.1));
                let error = exception(py, &failure.error, name.unwrap_or(&source.1));
                (failure.report, Some(error))
            }
        };
        let parts = report.sinks.iter().zip(&sinks);
        let parts = parts.map(|(sink, (_, name))| {
            let error = sink.error.as_ref().map(|error| exception(py, error, name));
            let error = error.map(|error| error.into_value(py).into_any());
            let bytes = sink.bytes;
            Py::new(py, PySinkReport { bytes, error })
        });
        let report = PyTeeReport {
            bytes: report.taken,
            seconds: report.elapsed.as_secs_f64(),
            sinks: parts.collect::<PyResult<_>>()?,
        };
        let Some(error) = error else {
            return Ok(report);
        };
        error.value(py).setattr("report", Py::new(py, report)?)?;
        return Err(error);
    }
}

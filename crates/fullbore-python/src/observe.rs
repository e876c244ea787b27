//! Watching pipelines: one that this process has started, and all that are running.

use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullbore_host::text::error_text;
use fullbore_observe::census::link::Link;
use fullbore_observe::census::scope::{Scope, Whose};
use fullbore_observe::{Monitor, StartedStage, Watch};
use nix::sys::signal::{SigSet, SigmaskHow};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Serialize;

use crate::errors::without_file;

/// Samples a pipeline that this process has started, in a separate thread.
#[pyclass(module = "fullbore._fullbore", frozen)]
pub struct Watcher {
    sampling: Arc<Sampling>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Sampling {
    state: Mutex<State>,
    /// Signalled when the thread has to end.
    changed: Condvar,
}

struct State {
    watch: Watched,
    /// The processes of the stages that have not ended.
    running: Vec<Option<Pid>>,
    is_over: bool,
}

/// A watch keeps many files of /proc open until it has ended.
enum Watched {
    Now(Box<Watch>),
    /// Its findings as JSON.
    Before(String),
}

impl Sampling {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes samples until all stages have ended.
    fn sample(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let State {
                watch: Watched::Now(watch),
                running,
                ..
            } = &mut *state
            else {
                break;
            };
            for (number, process) in running.iter_mut().enumerate() {
                look(process, watch, number);
            }
            if running.iter().all(Option::is_none) {
                break;
            }
            watch.sample();
            let pause = watch.next_sample();
            let waited = self.changed.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Reads the final counters of a process that has ended and was not waited for: until then they are in /proc.
fn look(process: &mut Option<Pid>, watch: &mut Watch, number: usize) {
    let Some(pid) = *process else {
        return;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // It fails for a process that was waited for.
    if !matches!(waitid(WaitId::Pid(pid), options), Ok(None)) {
        *process = None;
        watch.ended(number);
    }
}

#[pymethods]
impl Watcher {
    /// Begins to watch processes, each with the text of its command, and the pipes between them: a descriptor, the
    /// capacity and the requested capacity of each. The first process was started `ago` seconds ago.
    #[new]
    fn new(
        stages: Vec<(String, u32)>,
        pipes: Vec<(RawFd, usize, usize)>,
        ago: f64,
    ) -> PyResult<Self> {
        let links = (0..).zip(pipes).map(|(writer, (fd, capacity, wanted))| {
            Link::open(fd, writer, capacity, wanted).map_err(without_file)
        });
        let links = links.collect::<PyResult<Vec<_>>>()?;
        let pids = stages.iter().map(|(_, pid)| Pid::from_raw(*pid as i32));
        let ago = Duration::try_from_secs_f64(ago).unwrap_or_default();
        let state = State {
            running: pids.collect(),
            watch: {
                let started = stages.into_iter();
                let started = started.map(|(text, pid)| StartedStage {
                    command: text.clone(),
                    text,
                    pid,
                });
                let now = Instant::now();
                let watch = Watch::new(started.collect(), links);
                Watched::Now(Box::new(
                    watch.started_at(now.checked_sub(ago).unwrap_or(now)),
                ))
            },
            is_over: false,
        };
        let sampling = Arc::new(Sampling {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let sampled = sampling.clone();
        // Signals must reach the threads of Python, to interrupt their calls.
        let thread = without_signals(|| {
            let thread = thread::Builder::new().name("fullbore".into());
            thread.spawn(move || sampled.sample())
        })?;
        Ok(Self {
            sampling,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Reads the final counters of a stage that has ended and was not waited for yet.
    fn ended(&self, py: Python<'_>, number: usize) {
        py.detach(|| {
            let state = &mut *self.sampling.lock();
            if let (Some(process), Watched::Now(watch)) =
                (state.running.get_mut(number), &mut state.watch)
            {
                look(process, watch, number);
            }
        });
    }

    /// Records how a stage has ended, as a `subprocess.Popen.returncode`.
    fn status(&self, py: Python<'_>, number: usize, returncode: i32) {
        let raw = match returncode {
            signal if signal < 0 => -signal,
            code => code << 8,
        };
        py.detach(|| {
            if let Watched::Now(watch) = &mut self.sampling.lock().watch {
                watch.status(number, ExitStatus::from_raw(raw));
            }
        });
    }

    /// Returns the findings so far, as the JSON of `fullbore run --json`.
    fn findings(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| match &self.sampling.lock().watch {
            Watched::Now(watch) => json_of(&watch.findings()),
            Watched::Before(json) => Ok(json.clone()),
        })
    }

    /// Ends the thread, and keeps the findings.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            {
                let mut state = self.sampling.lock();
                state.is_over = true;
                if let Watched::Now(watch) = &state.watch {
                    if let Ok(json) = json_of(&watch.findings()) {
                        state.watch = Watched::Before(json);
                    }
                }
            }
            self.sampling.changed.notify_all();
            let thread = self.thread.lock();
            let thread = thread.unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        });
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // In a forked child the thread does not exist, and may have held the lock.
        if let Ok(mut state) = self.sampling.state.try_lock() {
            state.is_over = true;
        }
        self.sampling.changed.notify_all();
    }
}

fn json_of(found: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(found).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Starts a thread that receives no signals.
fn without_signals<T>(start: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = start();
    before.thread_set_mask()?;
    started
}

/// Observes the running pipelines for some seconds, and returns the JSON of `fullbore top --json`.
#[pyfunction]
pub fn overview(
    py: Python<'_>,
    seconds: f64,
    pid: Option<u32>,
    name: Option<String>,
) -> PyResult<String> {
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("invalid number of seconds: {seconds}")))?;
    let whose = match (pid, name) {
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err("give a pid or a name, not both"));
        }
        (Some(pid), None) => Whose::Tree(pid),
        (None, Some(name)) => Whose::Named(name),
        (None, None) => Whose::Everybody,
    };
    // An exception of a signal handler does not stop the thread, which ends by itself.
    let thread = without_signals(|| {
        thread::Builder::new().spawn(move || {
            Monitor::new(Scope { whose, all: false }).and_then(|mut monitor| monitor.once(time))
        })
    })?;
    while !thread.is_finished() {
        py.detach(|| thread::sleep(Duration::from_millis(10)));
        py.check_signals()?;
    }
    match thread.join() {
        Ok(Ok(overview)) => json_of(&overview),
        Ok(Err(fullbore_observe::Error::System { what, why })) => {
            let text = format!("{what}: {}", error_text(&why));
            Err(PyOSError::new_err((why.raw_os_error(), text)))
        }
        Ok(Err(error)) => Err(PyOSError::new_err(error.to_string())),
        Err(_) => Err(PyRuntimeError::new_err("the observation has ended early")),
    }
}

/// Returns the capacity that each of these pipes may have: together at most a sixteenth of the memory limit of this
/// process's cgroup.
#[pyfunction]
pub fn affordable(pipes: usize, wanted: usize) -> usize {
    fullbore_observe::affordable(pipes, wanted, fullbore_linux::memory_limit())
}

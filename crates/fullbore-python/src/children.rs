//! Processes that a pipeline has started, and that must not keep running.
//!
//! This is not in Python, because a signal handler can raise an exception between any two steps of Python code, and
//! because this is dropped whatever was raised.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::errors::without_file;

/// The interval between two searches for new descendants, and the maximum number of searches.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const AT_MOST_LOOKS: usize = 250;

/// Processes by PID, each with a descriptor that still refers to the same process when the PID is reused.
type Processes = BTreeMap<u32, Arc<OwnedFd>>;

/// The first processes of the stages of a pipeline. Processes that still run when it is dropped are killed.
#[pyclass(module = "fullbore._fullbore", frozen)]
pub struct Children {
    started: Mutex<Processes>,
    /// The process that has started them. A forked child does not end them.
    parent: Pid,
}

#[pymethods]
impl Children {
    #[new]
    fn new() -> Self {
        Self {
            started: Mutex::default(),
            parent: getpid(),
        }
    }

    /// Adds a process that was started and not waited for.
    fn add(&self, pid: u32) -> PyResult<()> {
        let opened = open(pid).map_err(without_file)?;
        self.lock().insert(pid, opened);
        Ok(())
    }

    /// Forgets all of them, once they have been waited for.
    fn forget(&self) {
        self.lock().clear();
    }

    /// Sends a signal to those that still run.
    fn signal(&self, number: i32) -> PyResult<()> {
        let Some(signal) = Signal::from_named_raw(number) else {
            return Err(PyValueError::new_err(format!("invalid signal {number}")));
        };
        tell(&self.lock(), signal);
        Ok(())
    }

    /// Ends them and their descendants: sends SIGTERM, and after the grace period SIGKILL.
    fn end(&self, py: Python<'_>, grace: f64) {
        let grace = Duration::try_from_secs_f64(grace).unwrap_or_default();
        py.detach(|| {
            // Without the lock, because other threads may have to send a signal meanwhile.
            let started = self.lock().clone();
            let mut all = with_descendants(&started, Processes::new());
            for processes in [&started, &all] {
                tell(processes, Signal::TERM);
                // A stopped process handles the signal only after SIGCONT.
                tell(processes, Signal::CONT);
            }
            let until = Instant::now() + grace;
            wait(&started, &all, until);
            for _ in 0..AT_MOST_LOOKS {
                all = with_descendants(&started, all);
                tell(&started, Signal::KILL);
                tell(&all, Signal::KILL);
                if wait(&started, &all, Instant::now() + LOOK_EVERY) {
                    break;
                }
            }
        });
    }
}

impl Children {
    fn lock(&self) -> MutexGuard<'_, Processes> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        if self.parent == getpid() {
            tell(&self.lock(), Signal::KILL);
        }
    }
}

fn open(pid: u32) -> rustix::io::Result<Arc<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty()).map(Arc::new)
}

/// Adds the descendants of processes.
fn with_descendants(started: &Processes, mut known: Processes) -> Processes {
    for &pid in started.keys() {
        for descendant in fullbore_observe::descendants(pid) {
            if known.contains_key(&descendant) {
                continue;
            }
            if let Ok(opened) = open(descendant) {
                known.insert(descendant, opened);
            }
        }
    }
    known
}

/// Sends a signal to each process that still runs.
fn tell(processes: &Processes, signal: Signal) {
    for process in processes.values() {
        // It fails for a process that has ended.
        let _ = pidfd_send_signal(process, signal);
    }
}

/// Waits until all processes have ended, and returns whether they have.
fn wait(started: &Processes, others: &Processes, until: Instant) -> bool {
    for process in started.values().chain(others.values()) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            let mut polled = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
            match poll(&mut polled, left.as_ref()) {
                Ok(0) => return false,
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
    true
}

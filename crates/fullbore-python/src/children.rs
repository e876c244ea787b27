//! Processes that a pipeline has started, and that must not keep running.
//!
//! This is not in Python, because a signal handler can raise an exception between any two steps of Python code, and
//! because this is dropped whatever was raised.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_observe::census::ProcessId;
use fullbore_process::live_thread;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

use crate::errors::without_file;

/// The interval between two searches for new descendants, and the maximum number of searches.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const AT_MOST_LOOKS: usize = 250;

/// The interval between two looks at a process that has no descriptor.
const INTERVAL: Duration = Duration::from_millis(5);

/// Processes by PID.
type Processes = BTreeMap<u32, Known>;

/// A process, which is told from another one that has got its PID since.
#[derive(Clone)]
struct Known {
    pid: Pid,
    by: By,
}

/// What tells a process from others.
#[derive(Clone)]
enum By {
    /// A descriptor of it.
    Descriptor(Arc<OwnedFd>),
    /// Its start time, where pidfd_open(2) is refused: by a kernel before 5.3, or a filter.
    Start(ProcessId),
}

impl Known {
    /// Finds the process that has this PID now.
    fn new(number: u32) -> rustix::io::Result<Self> {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Errno::SRCH)?;
        let by = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(opened) => By::Descriptor(Arc::new(opened)),
            Err(Errno::SRCH) => return Err(Errno::SRCH),
            Err(refused) => By::Start(ProcessId::of(number).ok_or(refused)?),
        };
        Ok(Self { pid, by })
    }

    /// Sends a signal to it, if it still runs.
    fn signal(&self, signal: Signal) {
        // It fails for a process that has ended.
        let _ = match &self.by {
            By::Descriptor(descriptor) => pidfd_send_signal(descriptor, signal),
            By::Start(id) if ProcessId::of(id.pid) == Some(*id) => kill_process(self.pid, signal),
            By::Start(_) => Ok(()),
        };
    }

    /// Waits until it has ended, and returns whether it has.
    fn ends_until(&self, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match &self.by {
                By::Descriptor(descriptor) => {
                    let left = Timespec::try_from(left).ok();
                    let mut polled = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
                    match poll(&mut polled, left.as_ref()) {
                        Ok(count) => return count > 0,
                        Err(Errno::INTR) => {}
                        Err(_) => return false,
                    }
                }
                // A zombie has ended.
                By::Start(id) if live_thread(id.pid).is_none() => return true,
                By::Start(id) if ProcessId::of(id.pid) != Some(*id) => return true,
                By::Start(_) if left.is_zero() => return false,
                By::Start(_) => thread::sleep(left.min(INTERVAL)),
            }
        }
    }
}

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
        let known = Known::new(pid).map_err(without_file)?;
        self.lock().insert(pid, known);
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

/// Adds the descendants of processes. In a /proc of another PID namespace, their PIDs belong to other processes.
fn with_descendants(started: &Processes, mut known: Processes) -> Processes {
    if !fullbore_observe::proc_is_ours() {
        return known;
    }
    for &pid in started.keys() {
        for descendant in fullbore_observe::descendants(pid) {
            if known.contains_key(&descendant) {
                continue;
            }
            if let Ok(process) = Known::new(descendant) {
                known.insert(descendant, process);
            }
        }
    }
    known
}

/// Sends a signal to each process that still runs.
fn tell(processes: &Processes, signal: Signal) {
    for process in processes.values() {
        process.signal(signal);
    }
}

/// Waits until all processes have ended, and returns whether they have.
fn wait(started: &Processes, others: &Processes, until: Instant) -> bool {
    let mut all = started.values().chain(others.values());
    all.all(|process| process.ends_until(until))
}

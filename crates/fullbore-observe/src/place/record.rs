//! Which processes were placed for longer than the process that placed them exists, kept in a small file.
//! With it, `--revert` gives them back the CPUs that they had, and so does a guard if that process is killed
//! in the middle of a trial. It is written before anything is changed.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use super::super::census::ProcessId;
use super::super::error::Error;
use super::super::kept::Kept;
use super::super::scope::exists;
use super::threads::{Threads, cpus_of, set_of, threads_with_other_cpus};

const FILE: &str = "placed.json";

/// A process whose CPUs may have been changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedProcess {
    pid: u32,
    start: u64,
    /// The CPUs that it had before.
    before: Vec<usize>,
    /// The sets of CPUs that it may have been given.
    given: Vec<Vec<usize>>,
    /// Threads that had chosen other CPUs before, with their start times.
    own: Vec<(u32, u64)>,
}

/// The contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PlacedProcesses {
    processes: Vec<PlacedProcess>,
}

/// Records that these processes may be given these sets of CPUs.
///
/// # Errors
/// If that cannot be recorded, or a process has ended.
pub fn keep(processes: &[ProcessId], given: &[Vec<usize>]) -> Result<(), Error> {
    let mut record: Kept<PlacedProcesses> = Kept::open(FILE, Duration::MAX)?;
    let all = &mut record.value_mut().processes;
    all.retain(|known| exists(known.id()));
    for &id in processes {
        let before = sched_getaffinity(Pid::from_raw(id.pid as i32));
        let before = before.map_err(Error::system(format!("CPUs of process {}", id.pid)))?;
        all.push(PlacedProcess {
            pid: id.pid,
            start: id.start,
            before: cpus_of(&before),
            given: given.to_vec(),
            own: threads_with_other_cpus(id.pid, &before),
        });
    }
    record.save("the original CPUs")
}

/// Gives these processes, and those that they have started, the CPUs back that they had. Returns those that
/// were in the record.
///
/// # Errors
/// If the record cannot be read or written, or the CPUs of a process may not be changed.
pub fn revert(processes: &[ProcessId]) -> Result<Vec<ProcessId>, Error> {
    let mut record: Kept<PlacedProcesses> = Kept::open(FILE, Duration::MAX)?;
    let all = &mut record.value_mut().processes;
    let mut reverted = Vec::new();
    let mut failed = None;
    all.retain(|known| {
        let id = known.id();
        if !exists(id) {
            return false;
        }
        if !processes.contains(&id) {
            return true;
        }
        match known.give_back() {
            Ok(()) => {
                reverted.push(id);
                false
            }
            Err(errno) => {
                failed = Some((id.pid, errno));
                true
            }
        }
    });
    record.save("the original CPUs")?;
    match failed {
        Some((pid, errno)) => Err(Error::system(format!("CPUs of process {pid}"))(errno)),
        None => Ok(reverted),
    }
}

impl PlacedProcess {
    fn id(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start: self.start,
        }
    }

    fn give_back(&self) -> Result<(), Errno> {
        let given: Vec<CpuSet> = self.given.iter().map(|cpus| set_of(cpus)).collect();
        let own: BTreeSet<(u32, u64)> = self.own.iter().copied().collect();
        Threads::recorded(self.id(), set_of(&self.before), given, own).give_back()
    }
}

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
    /// Who has placed it: a process, and when it started.
    by: (u32, u64),
}

/// The contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PlacedProcesses {
    processes: Vec<PlacedProcess>,
}

/// Records that `by` may give these processes these sets of CPUs.
///
/// # Errors
/// If that cannot be recorded, or a process has ended.
pub fn keep(by: ProcessId, processes: &[ProcessId], given: &[Vec<usize>]) -> Result<(), Error> {
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
            by: (by.pid, by.start),
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
    let record = Kept::open(FILE, Duration::MAX)?;
    give_back(record, |known| processes.contains(&known.id()))
}

/// Does the same for the processes that `by` has placed. If another process has placed them again since, they
/// stay as they are.
///
/// # Errors
/// As [`revert`].
pub fn undo(by: ProcessId) -> Result<Vec<ProcessId>, Error> {
    let record = Kept::open(FILE, Duration::MAX)?;
    give_back(record, |known| known.by == (by.pid, by.start))
}

fn give_back(
    mut record: Kept<PlacedProcesses>,
    is_meant: impl Fn(&PlacedProcess) -> bool,
) -> Result<Vec<ProcessId>, Error> {
    let all = &mut record.value_mut().processes;
    let mut reverted = Vec::new();
    let mut failed = None;
    all.retain(|known| {
        let id = known.id();
        if !exists(id) {
            return false;
        }
        if !is_meant(known) {
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::super::process_id;
    use super::*;

    #[test]
    fn who_undoes_its_placement_leaves_that_of_another() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("fullbore");
        let uid = rustix::process::geteuid().as_raw();
        let open = || Kept::open_at(directory.clone(), uid, FILE, Duration::MAX).unwrap();
        let mut child = Command::new("sleep");
        let mut child = child.arg("600").stdout(Stdio::null()).spawn().unwrap();
        let id = process_id(child.id()).unwrap();
        let by = |by| PlacedProcess {
            pid: id.pid,
            start: id.start,
            before: cpus_of(&sched_getaffinity(Pid::from_raw(id.pid as i32)).unwrap()),
            given: Vec::new(),
            own: Vec::new(),
            by: (by, 1),
        };
        let mut record = open();
        let value: &mut PlacedProcesses = record.value_mut();
        value.processes = vec![by(1), by(2)];
        record.save("two").unwrap();
        // The first was killed, and its guard is late.
        let reverted = give_back(open(), |known| known.by == (1, 1)).unwrap();
        assert_eq!(reverted, [id]);
        assert_eq!(open().value().processes, [by(2)]);
        let _ = child.kill();
        let _ = child.wait();
    }
}

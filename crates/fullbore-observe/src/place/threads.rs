//! Gives CPUs to the threads of a pipeline's stages (sched_setaffinity(2)), and gives back those that they had
//! before.
//!
//! What a thread may use is only ever narrowed. A thread that has chosen its CPUs itself, or for which
//! taskset(1) has, is not touched: it is recognised by a mask that is neither the one that the stage had at
//! first nor one that was given here. Threads and processes that are started later inherit the mask of those
//! that start them, so they are recognised too.
//!
//! A program that asks how many CPUs there are (nproc(1)) is told how many it may use at that moment.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::super::census::ProcessId;
use super::super::descendants::descendants;
use super::super::process::{process_id, started};
use super::placement::Placement;

/// How often the threads are listed until no new one is found. Those that start others all the time are not
/// followed forever.
const PASSES: usize = 20;

/// The CPUs that the threads of each stage had, and those that they were given.
#[derive(Debug)]
pub struct Threads {
    /// The CPUs that each stage had before anything was changed.
    before: Vec<CpuSet>,
    /// All masks that each stage was given so far.
    given: Vec<Vec<CpuSet>>,
    /// Threads that have chosen their CPUs themselves, with their start times.
    own: BTreeSet<(u32, u64)>,
    /// The processes to which CPUs were given, with their stages.
    known: BTreeMap<ProcessId, usize>,
    /// Whether all descendants of this process belong to the stages.
    all_descendants: bool,
}

impl Threads {
    /// Creates the record of stages that have these CPUs. It changes nothing yet.
    pub fn new(before: Vec<CpuSet>) -> Self {
        Self {
            given: vec![Vec::new(); before.len()],
            before,
            own: BTreeSet::new(),
            known: BTreeMap::new(),
            all_descendants: false,
        }
    }

    /// Declares that this process has no descendants but those of the stages, and is a subreaper: a process
    /// of a stage that loses its parent becomes a child of this process, and is found again.
    pub fn with_all_descendants(mut self) -> Self {
        self.all_descendants = true;
        self
    }

    /// Creates the record of a process that may have been given CPUs by another process.
    pub(super) fn recorded(
        process: ProcessId,
        before: CpuSet,
        given: Vec<CpuSet>,
        own: BTreeSet<(u32, u64)>,
    ) -> Self {
        Self {
            before: vec![before],
            given: vec![given],
            own,
            known: BTreeMap::from([(process, 0)]),
            all_descendants: false,
        }
    }

    /// Gives the threads of each stage their CPUs. `processes` has the processes of each stage; those that they
    /// have started belong to it too.
    ///
    /// # Errors
    /// Fails if the CPUs of a thread may not be changed: it belongs to another user (EPERM), or a cpuset
    /// excludes the CPUs by now (EINVAL). Other threads may have been changed already.
    pub fn place(
        &mut self,
        placement: &Placement,
        processes: &[BTreeSet<u32>],
    ) -> Result<(), Errno> {
        let wanted: Vec<CpuSet> = (placement.stages.iter().zip(&self.before))
            .map(|(cpus, before)| match cpus {
                Some(cpus) => narrowed(before, cpus),
                None => *before,
            })
            .collect();
        for (stage, pids) in processes.iter().enumerate() {
            let ids = pids.iter().filter_map(|&pid| process_id(pid));
            self.known.extend(ids.map(|id| (id, stage)));
        }
        let new: Vec<usize> = (0..wanted.len())
            .filter(|&stage| self.is_unknown(&wanted[stage], stage))
            .collect();
        if !new.is_empty() {
            // A thread that has chosen just these CPUs could not be told from one that was given them.
            self.note_own(processes);
        }
        for stage in new {
            self.given[stage].push(wanted[stage]);
        }
        self.set(&wanted, processes)
    }

    /// Gives all threads back the CPUs that they had.
    ///
    /// # Errors
    /// Fails if a thread may not be changed any more.
    pub fn give_back(&mut self) -> Result<(), Errno> {
        if !self.is_changed() {
            return Ok(());
        }
        let mut processes = vec![BTreeSet::new(); self.before.len()];
        // Another process may have the id of one that has ended.
        self.known.retain(|id, _| process_id(id.pid) == Some(*id));
        for (id, &stage) in &self.known {
            processes[stage].insert(id.pid);
        }
        if self.all_descendants {
            let known: BTreeSet<u32> = (self.known.keys())
                .flat_map(|id| descendants(id.pid).into_iter().chain([id.pid]))
                .collect();
            for &pid in descendants(std::process::id()).difference(&known) {
                let mask = sched_getaffinity(Pid::from_raw(pid as i32));
                let has = |given: &Vec<CpuSet>| mask.is_ok_and(|mask| given.contains(&mask));
                if let Some(stage) = self.given.iter().position(has) {
                    processes[stage].insert(pid);
                }
            }
        }
        let before = self.before.clone();
        self.set(&before, &processes)
    }

    /// Leaves the threads as they are: nothing is given back any more.
    pub fn forget(&mut self) {
        for given in &mut self.given {
            given.clear();
        }
    }

    /// Returns whether a thread may have CPUs that were given here.
    pub fn is_changed(&self) -> bool {
        self.given.iter().any(|given| !given.is_empty())
    }

    /// Notes the threads that have chosen their CPUs themselves.
    fn note_own(&mut self, processes: &[BTreeSet<u32>]) {
        for (pid, stage) in families(processes) {
            for tid in threads_of(pid) {
                let mask = sched_getaffinity(Pid::from_raw(tid as i32));
                if mask.is_ok_and(|mask| self.is_unknown(&mask, stage)) {
                    self.own.extend(started(tid).map(|start| (tid, start)));
                }
            }
        }
    }

    /// Returns whether the threads of this stage neither had this mask before nor were given it here: one that has
    /// it has chosen it.
    fn is_unknown(&self, mask: &CpuSet, stage: usize) -> bool {
        *mask != self.before[stage] && !self.given[stage].contains(mask)
    }

    /// Sets the masks, until all threads that are found have theirs.
    fn set(&mut self, wanted: &[CpuSet], processes: &[BTreeSet<u32>]) -> Result<(), Errno> {
        let mut result = Ok(());
        for _ in 0..PASSES {
            let mut is_done = true;
            for (pid, stage) in families(processes) {
                for tid in threads_of(pid) {
                    match self.set_one(tid, stage, &wanted[stage]) {
                        Ok(is_changed) => is_done &= !is_changed,
                        // It has ended.
                        Err(Errno::SRCH) => {}
                        Err(errno) => result = Err(errno),
                    }
                }
            }
            if is_done {
                break;
            }
        }
        result
    }

    /// Sets the mask of one thread; returns whether it had another.
    fn set_one(&mut self, tid: u32, stage: usize, wanted: &CpuSet) -> Result<bool, Errno> {
        let pid = Pid::from_raw(tid as i32).ok_or(Errno::SRCH)?;
        let mask = sched_getaffinity(Some(pid))?;
        let is_own = self.is_unknown(&mask, stage);
        if is_own {
            if let Some(start) = started(tid) {
                self.own.insert((tid, start));
            }
        }
        if is_own || mask == *wanted || self.is_own(tid) {
            return Ok(false);
        }
        sched_setaffinity(Some(pid), wanted)?;
        Ok(true)
    }

    fn is_own(&self, tid: u32) -> bool {
        !self.own.is_empty() && started(tid).is_some_and(|start| self.own.contains(&(tid, start)))
    }
}

/// Gives everything back, also if the owner returns early or panics.
impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.give_back();
    }
}

/// Returns the CPUs in `cpus` that are in `before`, or all of `before` if there is none.
fn narrowed(before: &CpuSet, cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu < CpuSet::MAX_CPU && before.is_set(cpu) {
            set.set(cpu);
        }
    }
    match set.count() {
        0 => *before,
        _ => set,
    }
}

/// Returns the processes of all stages and those that they have started, each with its stage. A process that
/// one stage has started may itself be another stage.
fn families(processes: &[BTreeSet<u32>]) -> BTreeMap<u32, usize> {
    let mut families: Vec<(usize, BTreeSet<u32>)> = Vec::new();
    for (stage, pids) in processes.iter().enumerate() {
        for &pid in pids {
            let mut family = descendants(pid);
            family.insert(pid);
            families.push((stage, family));
        }
    }
    // The family of a process is smaller than that of the process that has started it.
    families.sort_by_key(|(_, family)| std::cmp::Reverse(family.len()));
    let all = families.into_iter();
    all.flat_map(|(stage, family)| family.into_iter().map(move |pid| (pid, stage)))
        .collect()
}

/// Returns the threads of a process that have other CPUs than these, with their start times.
pub(super) fn threads_with_other_cpus(pid: u32, cpus: &CpuSet) -> Vec<(u32, u64)> {
    let threads = threads_of(pid).into_iter().filter(|&tid| {
        let mask = sched_getaffinity(Pid::from_raw(tid as i32));
        mask.is_ok_and(|mask| mask != *cpus)
    });
    threads
        .filter_map(|tid| Some((tid, started(tid)?)))
        .collect()
}

/// Returns the mask of these CPUs.
pub(super) fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    set
}

/// Returns the CPUs of a mask, in ascending order.
pub fn cpus_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

/// Returns the threads of a process; none if it has ended.
fn threads_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn mask(pid: u32) -> CpuSet {
        sched_getaffinity(Pid::from_raw(pid as i32)).unwrap()
    }

    fn start(line: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    fn stage(child: &Child) -> [BTreeSet<u32>; 1] {
        [BTreeSet::from([child.id()])]
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Returns the CPUs of this process; `None` if there is only one, and so nothing to narrow.
    fn several() -> Option<(CpuSet, Vec<usize>)> {
        let set = sched_getaffinity(None).unwrap();
        let cpus = cpus_of(&set);
        (cpus.len() > 1).then_some((set, cpus))
    }

    #[test]
    fn children_that_are_started_later_are_placed_and_given_back() {
        let Some((before, cpus)) = several() else {
            return;
        };
        let mut child = start("read x; sleep 60 & wait; :");
        let mut threads = Threads::new(vec![before]);
        let one = Placement::together(1, cpus[1]);
        threads.place(&one, &stage(&child)).unwrap();
        assert_eq!(cpus_of(&mask(child.id())), [cpus[1]]);
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let began = Instant::now();
        let later = loop {
            let found = descendants(child.id());
            if let Some(&first) = found.first() {
                break first;
            }
            assert!(began.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(cpus_of(&mask(later)), [cpus[1]]);
        threads.give_back().unwrap();
        assert_eq!((mask(child.id()), mask(later)), (before, before));
        let later = Pid::from_raw(later as i32).unwrap();
        rustix::process::kill_process(later, rustix::process::Signal::KILL).unwrap();
        end(child);
    }

    #[test]
    fn everything_is_given_back_when_the_record_goes_out_of_scope() {
        let Some((before, cpus)) = several() else {
            return;
        };
        let child = start("read x");
        let mut threads = Threads::new(vec![before]);
        threads
            .place(&Placement::together(1, cpus[0]), &stage(&child))
            .unwrap();
        assert!(threads.is_changed() && mask(child.id()) != before);
        drop(threads);
        assert_eq!(mask(child.id()), before);
        end(child);
    }

    #[test]
    fn a_thread_that_is_unknown_its_cpus_keeps_them() {
        let Some((before, cpus)) = several() else {
            return;
        };
        let line = format!("taskset -cp {} $$; read x", cpus[0]);
        let mut child = start(&line);
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut said)
            .unwrap();
        let began = Instant::now();
        while mask(child.id()) == before {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "is taskset missing?"
            );
            thread::sleep(Duration::from_millis(2));
        }
        // What it has chosen is given to others too, first or later, and is still its own choice.
        for order in [[1, 0], [0, 1]] {
            let mut threads = Threads::new(vec![before]);
            for cpu in order {
                threads
                    .place(&Placement::together(1, cpus[cpu]), &stage(&child))
                    .unwrap();
                assert_eq!(cpus_of(&mask(child.id())), [cpus[0]]);
            }
            threads.give_back().unwrap();
            assert_eq!(cpus_of(&mask(child.id())), [cpus[0]]);
        }
        end(child);
    }

    #[test]
    fn nothing_is_widened() {
        let Some((before, cpus)) = several() else {
            return;
        };
        let narrow = narrowed(&before, &cpus[..1]);
        assert_eq!(narrowed(&narrow, &[cpus[1]]), narrow);
        assert_eq!(cpus_of(&narrowed(&before, &[cpus[1], 1023])), [cpus[1]]);
    }

    #[test]
    fn whoever_has_ended_is_no_error() {
        let Some((before, cpus)) = several() else {
            return;
        };
        let child = start("exit");
        let gone = stage(&child);
        end(child);
        let mut threads = Threads::new(vec![before]);
        assert_eq!(
            threads.place(&Placement::together(1, cpus[0]), &gone),
            Ok(())
        );
    }
}

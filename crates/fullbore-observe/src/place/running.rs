//! Finds a pipeline that another program has started, and that is to be placed.

use std::time::{Duration, Instant};

use fullbore_host::machine::Topology;
use fullbore_host::refusal::Unsupported;
use rustix::process::{Pid, geteuid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};

use super::super::census::{Census, Process, ProcessId};
use super::super::chains::{Chain, Flow};
use super::super::error::Error;
use super::super::proc_files::{needs_proc, ticks_since_boot};
use super::super::tune::target::Target;
use super::layout::Layout;
use super::placing::Pipeline;
use super::threads::cpus_of;

/// A pipeline that another program has started.
#[derive(Debug)]
pub struct RunningPipeline {
    /// The names of the processes of each stage, such as `cat 4711`.
    pub names: Vec<Vec<String>>,
    /// Its processes, and the CPUs that they may use.
    pub pipeline: Pipeline,
    /// The CPUs that all of its processes may use.
    pub layout: Layout,
}

/// Finds the pipeline of a target. If it has branches, this is its longest part without any.
///
/// # Errors
/// If there is no such pipeline, or a process of it belongs to another user.
pub fn find(target: &Target) -> Result<RunningPipeline, Error> {
    needs_proc()?;
    let census = Census::take().map_err(Error::system("look at /proc"))?;
    let pipes = target.find(&census)?.pipes;
    let flow = Flow::new(&census);
    let is_meant = |chain: &Chain| chain.pipes.iter().any(|pipe| pipes.contains(pipe));
    let chains = flow.chains().into_iter().filter(is_meant);
    let Some(chain) = chains.max_by_key(|chain| chain.pipes.len()) else {
        return Err(Error::NotFound(
            "none of its pipes leads to another process".into(),
        ));
    };
    let stages = flow.stages(&chain);
    let own = geteuid().as_raw();
    for &process in stages.iter().flatten() {
        let process = &census.processes[process];
        if process.uid != own {
            return Err(Unsupported(format!(
                "process {} ({}) belongs to another user, and only processes of this user are placed",
                process.id.pid, process.name
            ))
            .into());
        }
    }
    let of = |stage: &[usize]| -> Vec<&Process> {
        let processes = stage.iter().map(|&process| &census.processes[process]);
        processes.collect()
    };
    let processes: Vec<Vec<ProcessId>> = (stages.iter())
        .map(|stage| of(stage).iter().map(|process| process.id).collect())
        .collect();
    let names = stages.iter().map(|stage| {
        let name = |process: &&Process| format!("{} {}", process.name, process.id.pid);
        of(stage).iter().map(name).collect()
    });
    let before = processes.iter().map(|stage| cpus_of_first(stage));
    let before = before.collect::<Result<Vec<CpuSet>, Error>>()?;
    let mut common = cpus_of(&before[0]);
    common.retain(|&cpu| before.iter().all(|set| set.is_set(cpu)));
    let youngest = processes.iter().flatten().map(|id| id.start).max();
    Ok(RunningPipeline {
        names: names.collect(),
        pipeline: Pipeline {
            processes,
            before,
            began: began(youngest.unwrap_or_default()),
            is_own: false,
        },
        layout: Layout::new(&Topology::read(), &common, sched_getcpu()),
    })
}

/// Returns the CPUs of the first process of a stage, which names it.
fn cpus_of_first(stage: &[ProcessId]) -> Result<CpuSet, Error> {
    let Some(first) = stage.first() else {
        return Err(Error::NotFound("a stage of the pipeline has ended".into()));
    };
    sched_getaffinity(Pid::from_raw(first.pid as i32))
        .map_err(Error::system(format!("CPUs of process {}", first.pid)))
}

/// Returns the time of a number of clock ticks since boot.
fn began(ticks: u64) -> Instant {
    let age = ticks_since_boot().saturating_sub(ticks) as f64 / procfs::ticks_per_second() as f64;
    let now = Instant::now();
    now.checked_sub(Duration::from_secs_f64(age)).unwrap_or(now)
}

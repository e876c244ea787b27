//! Tries where a process can run.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::attempt::{Stop, at};

pub(super) fn pinning() -> Result<String, Stop> {
    let allowed = sched_getaffinity(None).map_err(at("sched_getaffinity"))?;
    let mut cpus: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
    cpus.retain(|&cpu| allowed.is_set(cpu));
    let ends = [cpus.first(), cpus.last()];
    for &cpu in ends.into_iter().flatten() {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).map_err(at("sched_setaffinity"))?;
        let runs_on = sched_getcpu();
        if runs_on != cpu {
            let said = format!("pinned to CPU {cpu}, but running on CPU {runs_on}");
            return Err(Stop::seen("sched_setaffinity", said));
        }
    }
    let cpus = fullbore_host::machine::format_cpu_list(&cpus);
    Ok(format!("ran on the first and the last of CPUs {cpus}"))
}

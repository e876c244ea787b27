//! The option that says on which CPUs the stages run.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use fullbore_host::machine::{CpuPair, Topology, parse_cpu_list};
use fullbore_host::refusal::Usage;

/// Who chooses the CPUs on which the stages run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// The scheduler.
    #[default]
    None,
    /// All stages are on one CPU.
    Together,
    /// Each stage is on another CPU.
    Spread,
    /// The user: these are the CPUs of each stage, and nothing for one that the scheduler places.
    Chosen(Vec<Option<Vec<usize>>>),
}

impl Place {
    /// Parses the value of the option.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "none" => Self::None,
            "together" => Self::Together,
            "spread" => Self::Spread,
            lists => {
                let cpus = |list| match list {
                    "" => Some(None),
                    list => Some(Some(parse_cpu_list(list).filter(|cpus| !cpus.is_empty())?)),
                };
                let cpus: Option<Vec<_>> = lists.split('/').map(cpus).collect();
                Self::Chosen(cpus.ok_or_else(|| {
                    format!(
                        "invalid placement '{text}': expected together, spread, none, or the CPUs of each stage, such \
                         as 0/0/1 or 0-3/4,6"
                    )
                })?)
            }
        })
    }

    /// Returns the CPUs of each stage; `None` for a stage that the scheduler places.
    ///
    /// # Errors
    /// Returns [`Usage`] if CPUs were named for more or fewer stages, or a CPU that this process may not use.
    pub fn cpus(&self, stages: usize) -> Result<Vec<Option<Vec<usize>>>, Usage> {
        let one_each = |cpus: Vec<usize>| {
            let cpus = cpus.into_iter().cycle().take(stages);
            cpus.map(|cpu| Some(vec![cpu])).collect()
        };
        Ok(match self {
            Self::None => vec![None; stages],
            Self::Together => one_each(vec![home(&Topology::read(), sched_getcpu())]),
            Self::Spread => one_each(spread(&Topology::read(), sched_getcpu())),
            Self::Chosen(lists) => {
                check(lists, stages)?;
                lists.clone()
            }
        })
    }
}

/// Starts a stage while this thread may run only on these CPUs, which the stage inherits.
pub fn on_cpus<T>(cpus: Option<&[usize]>, start: impl FnOnce() -> T) -> rustix::io::Result<T> {
    let Some(cpus) = cpus else {
        return Ok(start());
    };
    let before = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    let known = cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU);
    known.for_each(|&cpu| wanted.set(cpu));
    sched_setaffinity(None, &wanted)?;
    let started = start();
    sched_setaffinity(None, &before)?;
    Ok(started)
}

/// Returns the CPU on which this process runs, unless it may not be used any more.
fn home(topology: &Topology, current: usize) -> usize {
    match topology.allowed().contains(&current) {
        true => current,
        false => topology.allowed()[0],
    }
}

/// Returns all CPUs that may be used: first one CPU of each core, beginning with the core on which this process
/// runs and those that share a cache with it.
fn spread(topology: &Topology, current: usize) -> Vec<usize> {
    let allowed = topology.allowed();
    let core = |cpu| {
        let mut threads = topology.core(cpu);
        threads.retain(|thread| allowed.contains(thread));
        threads
    };
    let home = home(topology, current);
    let home = core(home).first().copied().unwrap_or(home);
    let mut cpus = allowed.to_vec();
    cpus.sort_by_key(|&cpu| {
        let is_before = |thread: &&usize| **thread < cpu;
        let before = core(cpu).iter().filter(is_before).count();
        (before, cpu != home, topology.relation(home, cpu))
    });
    cpus
}

/// Checks that CPUs were named for as many stages as there are, and only CPUs that this process may use.
fn check(lists: &[Option<Vec<usize>>], stages: usize) -> Result<(), Usage> {
    if lists.len() != stages {
        let named = lists.len();
        let text = format!("--place names CPUs for {named} stages, but the pipeline has {stages}");
        return Err(Usage(text));
    }
    let topology = Topology::read();
    for &cpu in lists.iter().flatten().flatten() {
        // It refuses a CPU that is offline or not allowed.
        let known = CpuPair::of(cpu, cpu, &topology);
        known.map_err(|refused| Usage(format!("--place: {refused}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fullbore_host::fixtures::Fixture;

    use super::*;

    #[test]
    fn a_placement_is_a_word_or_the_cpus_of_each_stage() {
        assert_eq!(Place::parse("together"), Ok(Place::Together));
        assert_eq!(
            Place::parse("0/2-3,5//1"),
            Ok(Place::Chosen(vec![
                Some(vec![0]),
                Some(vec![2, 3, 5]),
                None,
                Some(vec![1])
            ]))
        );
        for wrong in ["auto", "0/x", "3-1/0", "1-"] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn there_must_be_cpus_for_each_stage_and_they_must_be_allowed() {
        let chosen = |text| Place::parse(text).unwrap();
        assert_eq!(chosen("/").cpus(2).unwrap(), [None, None]);
        assert!(chosen("/").cpus(3).unwrap_err().0.contains("2 stages"));
        let wrong = chosen("900/").cpus(2).unwrap_err();
        assert!(wrong.0.contains("no CPU 900"), "{wrong}");
        let together = Place::Together.cpus(7).unwrap();
        assert!(together.len() == 7 && together.iter().all(|cpus| *cpus == together[0]));
    }

    #[test]
    fn stages_are_spread_over_near_cores_before_the_threads_of_one_core() {
        let smt = Fixture::smt().topology("0-7");
        assert_eq!(spread(&smt, 0)[..5], [0, 1, 2, 3, 5]);
        assert_eq!(spread(&smt, 6)[..4], [2, 0, 1, 3]);
        let two = Fixture::two_l3().topology("0-7");
        assert_eq!(spread(&two, 5), [5, 4, 6, 7, 0, 1, 2, 3]);
        let narrow = Fixture::two_l3().topology("3-4");
        assert_eq!(spread(&narrow, 9), [3, 4]);
    }
}

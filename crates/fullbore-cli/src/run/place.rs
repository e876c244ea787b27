//! The option that says on which CPUs the stages run, and what it means for a pipeline that has been started.

use std::time::Instant;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};

use fullbore_host::machine::{NoSuchCpu, Topology, format_cpu_list, parse_cpu_list};
use fullbore_host::refusal::Usage;
use fullbore_observe::place::layout::Layout;
use fullbore_observe::place::placement::{Kind, Placement};
use fullbore_observe::place::placing::{Pipeline, Placing};
use fullbore_observe::place::threads::cpus_of;
use fullbore_observe::place::{Goal, process_id};

/// Who decides on which CPUs the stages run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// The scheduler.
    #[default]
    None,
    /// Trials while the pipeline runs.
    Auto,
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
            "auto" => Self::Auto,
            "together" => Self::Together,
            "spread" => Self::Spread,
            lists => Self::Chosen(
                lists
                    .split('/')
                    .map(|list| match list {
                        "" => Ok(None),
                        list => match parse_cpu_list(list) {
                            Some(cpus) if !cpus.is_empty() => Ok(Some(cpus)),
                            _ => Err(format!(
                                "invalid placement '{text}': expected auto, together, spread, none, or the CPUs \
                                 of each stage, such as 0/0/1 or 0-3/4,6"
                            )),
                        },
                    })
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    /// Checks that CPUs were named for as many stages as there are, and only CPUs that this process may use.
    ///
    /// # Errors
    /// Returns [`Usage`] if not.
    pub fn check(&self, stages: usize) -> Result<(), Usage> {
        let Self::Chosen(lists) = self else {
            return Ok(());
        };
        if lists.len() != stages {
            return Err(Usage(format!(
                "--place names CPUs for {} stages, but the pipeline has {stages}",
                lists.len()
            )));
        }
        let topology = Topology::read();
        let allowed = || format_cpu_list(topology.allowed());
        for &cpu in lists.iter().flatten().flatten() {
            if !topology.is_online(cpu) {
                let online = format_cpu_list(&topology.online());
                return Err(Usage(format!(
                    "--place: {}",
                    NoSuchCpu::Offline { cpu, online }
                )));
            }
            if !topology.allowed().contains(&cpu) {
                let allowed = allowed();
                return Err(Usage(format!(
                    "--place: {}",
                    NoSuchCpu::NotAllowed { cpu, allowed }
                )));
            }
        }
        Ok(())
    }

    /// Begins to place the stages with these first processes, which were started at this time. Returns `None`
    /// if the scheduler is to do it.
    ///
    /// # Errors
    /// Fails if the CPUs of a process may not be changed.
    pub fn begin(
        &self,
        stages: &[Pid],
        goal: Goal,
        began: Instant,
    ) -> Result<Option<Placing>, Errno> {
        if *self == Self::None {
            return Ok(None);
        }
        let before = sched_getaffinity(None)?;
        let home = sched_getcpu();
        let processes = stages.iter().map(|pid| {
            let id = process_id(pid.as_raw_nonzero().get() as u32);
            id.into_iter().collect()
        });
        let pipeline = Pipeline {
            processes: processes.collect(),
            before: vec![before; stages.len()],
            began,
            is_own: true,
        };
        let topology = Topology::read();
        let layout = Layout::new(&topology, &cpus_of(&before), home);
        let placement = match self {
            Self::Auto => return Ok(Some(Placing::try_placements(pipeline, layout, goal))),
            Self::Together => Placement::together(stages.len(), home_in(&before, home)),
            Self::Spread => {
                let near = layout.near_cores(stages.len(), &[]);
                let cpus = near.unwrap_or_else(|| layout.cpus().to_vec());
                Placement::spread(stages.len(), &cpus)
            }
            Self::Chosen(stages) => Placement {
                kind: Kind::Chosen,
                stages: stages.clone(),
            },
            Self::None => return Ok(None),
        };
        Ok(Some(Placing::give(pipeline, placement)?))
    }
}

/// Returns the CPU on which this process runs, unless it may not be used any more.
fn home_in(allowed: &CpuSet, home: usize) -> usize {
    match home < CpuSet::MAX_CPU && allowed.is_set(home) {
        true => home,
        false => cpus_of(allowed).first().copied().unwrap_or(home),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_a_word_or_the_cpus_of_each_stage() {
        assert_eq!(Place::parse("auto"), Ok(Place::Auto));
        assert_eq!(
            Place::parse("0/2-3,5//1"),
            Ok(Place::Chosen(vec![
                Some(vec![0]),
                Some(vec![2, 3, 5]),
                None,
                Some(vec![1])
            ]))
        );
        for wrong in ["here", "0/x", "3-1/0", "1-"] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn there_must_be_cpus_for_each_stage_and_they_must_be_allowed() {
        let chosen = |text| Place::parse(text).unwrap();
        assert!(chosen("/").check(2).is_ok());
        assert!(chosen("/").check(3).unwrap_err().0.contains("2 stages"));
        let wrong = chosen("900/").check(2).unwrap_err();
        assert!(wrong.0.contains("no CPU 900"), "{wrong}");
        assert!(Place::Together.check(7).is_ok());
    }
}

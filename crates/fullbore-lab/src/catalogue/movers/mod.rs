//! Defines the groups `move` and `buffer`: programs that pass bytes on, and their jobs.
//!
//! The jobs and the programs are tables (`table.rs`), and the experiments are their cross
//! product: a new job or a new program is a new row.

mod check;
mod descriptors;
mod files;
mod measure;
pub mod std_copy;
mod table;
mod turns;

use std::path::PathBuf;

use anyhow::Result;

use crate::experiment::{Experiment, Group};
use crate::measurement::Measured;
use crate::part::Part;
use crate::work::{Bench, Work};
pub use files::memory_file;
use fullbore_results::run::{Outcome, Settings, Unit};
use fullbore_results::soundness::Soundness;
pub use table::version;
use table::{BUFFER_JOBS, JOBS, Job, Mover, TURNS};
use turns::{TurnTask, Turns};

/// The group's name.
pub const GROUP: &str = "move";

/// Returns the group.
///
/// Programs in the directories `also` are further movers, beside those of the same name on PATH.
pub fn group(also: &[PathBuf]) -> Group {
    Group {
        name: GROUP,
        shows: "programs that copy from one file descriptor to another: copy and \
                tee compared with cat, tee, pv and others",
        experiments: experiments(GROUP, JOBS, also).leak(),
        parts: &[],
    }
}

/// The tasks of the processes of the group `buffer`.
const PARTS: &[Part] = &[Part::of::<TurnTask>()];

/// Returns the group `buffer`.
pub fn buffers() -> Group {
    const GROUP: &str = "buffer";
    Group {
        name: GROUP,
        shows: "a large memory between two pipes: buffer compared with mbuffer",
        experiments: [experiments(GROUP, BUFFER_JOBS, &[]), turns(GROUP)]
            .concat()
            .leak(),
        parts: PARTS,
    }
}

/// Returns an experiment for every mover between sides that take turns.
fn turns(group: &'static str) -> Vec<Experiment> {
    let movers = TURNS.movers.iter();
    let experiment = |mover| Experiment {
        unit: Unit::Times,
        work: Box::leak(Box::new(Turns { job: &TURNS, mover })),
        ..experiment(group, &TURNS, mover)
    };
    movers.map(experiment).collect()
}

/// Returns an experiment for every job and every mover that can do it.
fn experiments(group: &'static str, jobs: &'static [Job], also: &[PathBuf]) -> Vec<Experiment> {
    let mut others: Vec<(&'static Mover, Vec<&'static Mover>)> = Vec::new();
    let mut experiments = Vec::new();
    for job in jobs {
        for mover in job.movers {
            experiments.push(experiment(group, job, mover));
            // A program that does several jobs is asked for its version once.
            let known = others.iter().find(|(known, _)| *known == mover);
            let found = match known {
                Some((_, found)) => found.clone(),
                None => {
                    let found = of_directories(mover, also);
                    others.push((mover, found.clone()));
                    found
                }
            };
            experiments.extend(found.into_iter().map(|other| experiment(group, job, other)));
        }
    }
    experiments
}

/// Returns the other versions of a mover's program in these directories, each under a name of its own.
fn of_directories(mover: &Mover, directories: &[PathBuf]) -> Vec<&'static Mover> {
    let mut found: Vec<&'static Mover> = Vec::new();
    let all = directories.iter();
    for mut other in all.filter_map(|directory| mover.of_directory(directory)) {
        if found.iter().any(|known| known.is_same_file(&other)) {
            continue;
        }
        let name = other.name;
        let mut number = 2;
        while found.iter().any(|known| known.name == other.name) {
            other.name = kept(format!("{name}_{number}"));
            number += 1;
        }
        found.push(Box::leak(Box::new(other)));
    }
    found
}

fn experiment(group: &'static str, job: &'static Job, mover: &'static Mover) -> Experiment {
    Experiment {
        group,
        name: kept(format!("{}_{}", job.name, mover.name)),
        shows: kept(format!("{}, by {}", job.title, mover.shows)),
        unit: Unit::GibPerS,
        published: None,
        work: Box::leak(Box::new(Move { job, mover })),
    }
}

/// The work of one mover at one job.
#[derive(Debug)]
struct Move {
    job: &'static Job,
    mover: &'static Mover,
}

impl Work for Move {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        measure::measure(self.job, self.mover, bench)
    }

    fn table(&self) -> Option<&'static str> {
        Some(self.job.title)
    }

    fn describe(&self, outcome: &mut Outcome, _: &Settings) {
        outcome.mover = Some(self.mover.report(self.job));
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        Some("the capacities are part of the job")
    }

    fn check(&self, bench: &Bench<'_>) -> Result<Option<Soundness>> {
        check::check(self.job, self.mover, bench)
    }

    fn endpoints(&self) -> Option<(&'static str, &'static str)> {
        Some((self.job.writer(), self.job.reader()))
    }
}

/// Leaks a text, because the catalogue is made once and lives as long as the process.
fn kept(text: String) -> &'static str {
    text.leak()
}

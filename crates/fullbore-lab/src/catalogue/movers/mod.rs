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

use anyhow::Result;

use crate::experiment::{Experiment, Group};
use crate::measurement::Measured;
use crate::work::{Bench, Work};
use fullbore_results::run::{Outcome, Settings};
use fullbore_results::soundness::Soundness;
use table::{BUFFER_JOBS, JOBS, Job};
pub use table::{Mover, peer, version};

/// Returns the group `move`.
pub fn group() -> Group {
    let shows = "programs that copy from one file descriptor to another: copy and tee compared with cat, tee, pv and others";
    of_jobs("move", shows, JOBS)
}

/// Returns the group `buffer`.
pub fn buffers() -> Group {
    let shows = "a large memory between two pipes: buffer compared with mbuffer";
    of_jobs("buffer", shows, BUFFER_JOBS)
}

/// Returns a group with an experiment for every job and every mover that can do it.
fn of_jobs(group: &'static str, shows: &'static str, jobs: &'static [Job]) -> Group {
    let rows = jobs.iter().flat_map(|job| {
        job.movers.iter().map(move |mover| {
            let name = format!("{}_{}", job.name, mover.name);
            let shows = format!("{}, by {}", job.title, mover.shows);
            Experiment {
                table: Some(job.title),
                endpoints: Some((job.writer(), job.reader())),
                ..Experiment::new(name, shows, Move { job, mover })
            }
        })
    });
    Group::new(group, shows, &[], rows)
}

/// Checks whether a program's bytes, between two pipes, are right even behind a writer that reuses its pages.
///
/// # Errors
/// Fails if processes or pipes cannot be made.
pub fn check_between_pipes(mover: &Mover, bench: &Bench<'_>) -> Result<Option<Soundness>> {
    check::check(&JOBS[1], mover, bench)
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

    fn describe(&self, outcome: &mut Outcome, _: &Settings) {
        outcome.mover = Some(self.mover.report(self.job));
    }

    fn check(&self, bench: &Bench<'_>) -> Result<Option<Soundness>> {
        check::check(self.job, self.mover, bench)
    }
}

//! Measures what placement gains: a writer and a reader on two CPUs and both on one, in turns.
//!
//! It measures for 0.25 s in all, so the figures are less exact than those of `fullbore bench`; the verdict takes the
//! spread of the rounds into account.

use anyhow::{Context, Result, bail};
use fullbore_host::machine::{CpuPair, Relation};
use fullbore_results::placement::{Gain, Placement};
use fullbore_results::run::{Settings, Unit};
use fullbore_results::statistics::BUSY;

use crate::catalogue::Catalogue;
use crate::experiment::Experiment;
use crate::measurement::until_bytes_arrive;
use crate::other_work::OtherWork;
use crate::program::Program;
use crate::work::Bench;

/// The settings of each measurement.
const SETTINGS: Settings = Settings::new(5, 0.02, 0.005);

/// Returns the experiment with write(2) and read(2), which stands for pipelines of ordinary programs.
pub fn plain_pipe() -> &'static Experiment {
    experiment("write_read").expect("it is in the catalogue")
}

fn experiment(name: &str) -> Option<&'static Experiment> {
    let catalogue = Catalogue::default();
    catalogue.iter().find(|experiment| experiment.name == name)
}

/// Measures an experiment of a writer and a reader on these two CPUs, and with both on the reader's.
///
/// # Errors
/// Fails if there are not two CPUs, the figure is not in GiB/s, or one of the measurements fails.
pub fn measure(experiment: &Experiment, cpus: &CpuPair, program: &Program) -> Result<Placement> {
    if cpus.relation == Relation::OneCpu || experiment.unit != Unit::GibPerS {
        bail!("there is nothing to compare");
    }
    let one_cpu = CpuPair {
        writer: cpus.reader,
        reader: cpus.reader,
        relation: Relation::OneCpu,
        shared_cache: None,
    };
    let other_work = OtherWork::begin();
    let places = [cpus, &one_cpu];
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..SETTINGS.rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for place in order {
            rounds[place].push(figure(experiment, places[place], program)?);
        }
    }
    let wake_up = self::experiment("wake_up").and_then(|it| figure(it, cpus, program).ok());
    let [two_cpus, one_cpu] = rounds;
    let placement = Placement::of(experiment.name, cpus.reader, &two_cpus, &one_cpu, wake_up);
    let mut placement = placement.context("nothing moved")?;
    if other_work.share().is_some_and(|share| share > BUSY) {
        placement.verdict = Gain::Busy;
    }
    Ok(placement)
}

/// Measures an experiment once.
fn figure(experiment: &Experiment, cpus: &CpuPair, program: &Program) -> Result<f64> {
    let mut bench = Bench::new(&SETTINGS, cpus, program);
    match until_bytes_arrive(|| experiment.work.measure(&mut bench))? {
        Ok(measured) => Ok(measured.figure),
        Err(stop) => bail!(stop),
    }
}

//! Explains how an experiment, or a command, spends its time.
//!
//! `record` runs it and watches: `sampling` takes samples, `processes` reads the kernel's accounts.
//! `profile` groups them by side, with the names of `symbols`; `classes` maps a sample to a class; `profile`
//! and `verdict` compute the result, and `advice` says what reduces the time. `turns` decides whether the
//! sides could share one CPU. `report` shows it.

mod advice;
mod classes;
mod permission;
mod processes;
mod profile;
mod record;
pub mod report;
mod sampling;
mod symbols;
mod turns;
mod verdict;

use std::time::Duration;

use anyhow::{Result, bail};
use rustix::io::Errno;
use rustix::system::uname;

use fullbore_host::machine::{CpuPair, Topology};
use fullbore_host::refusal::Unsupported;
use fullbore_host::text::shell_words;
use fullbore_lab::experiment::Experiment;
use fullbore_lab::measurement::{Stop, until_bytes_arrive};
use fullbore_lab::one_cpu::{measure, plain_pipe};
use fullbore_lab::program::Program;
use fullbore_lab::work::Bench;
use fullbore_results::explain::{
    Class, Disturbance, Explanation, SCHEMA, SamplingReport, SideReport,
};
use fullbore_results::run::Settings;

use advice::Subject;
use profile::SideProfile;
use record::{Recording, merge, record};
use symbols::Kernel;
use turns::Turns;
use verdict::{in_parallel, of_samples, without_samples};

/// Measures an experiment with and without samples, alternately, and also on one CPU if its writer and its
/// reader take turns.
pub fn experiment(
    experiment: &Experiment,
    settings: &Settings,
    cpus: &CpuPair,
    program: &Program,
) -> Result<Explanation> {
    let all_cpus = Topology::read().online();
    let mut bench = Bench::new(settings, cpus, program);
    let warm_up = Duration::from_secs_f64(settings.warm_up_seconds);
    let mut watched = Watched::nothing();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..settings.rounds {
        for sampled in [round % 2 == 0, round % 2 != 0] {
            let measured = until_bytes_arrive(|| {
                if !sampled {
                    return experiment.work.measure(&mut bench);
                }
                let (measured, recording) =
                    record(&all_cpus, warm_up, || experiment.work.measure(&mut bench));
                let error = measured.as_ref().err();
                let nothing_came = error.and_then(|error| error.downcast_ref());
                if !matches!(nothing_came, Some(Stop::NothingCame)) {
                    watched.add(recording);
                }
                measured
            })?;
            match measured {
                Ok(taken) if sampled => with.push(taken.figure),
                Ok(taken) => without.push(taken.figure),
                Err(Stop::Skipped(reason)) => bail!(Unsupported(reason)),
                Err(stop) => bail!(stop),
            }
        }
    }
    let endpoints = experiment.endpoints.unwrap_or_default();
    let options = format!("{} {}", endpoints.0, endpoints.1);
    let subject = Subject {
        experiment: Some(experiment.name),
        options: &options,
    };
    let (mut explanation, turns) = watched.explain(subject);
    explanation.experiment = Some(experiment.name.to_owned());
    explanation.shows = Some(experiment.shows.to_owned());
    explanation.disturbance = Disturbance::of(experiment.unit, with, without);
    let turns = turns.filter(|_| experiment.endpoints.is_some());
    explanation.placement = turns.and_then(|turns| {
        let figures = measure(experiment, cpus, program).ok()?;
        Some(turns.measured(figures))
    });
    Ok(explanation)
}

/// Watches a command that `run` runs to its end. If its processes take turns, an ordinary pipe is measured on two
/// CPUs and on one.
pub fn command(
    words: &[String],
    program: &Program,
    run: impl FnOnce() -> Result<()>,
) -> Result<Explanation> {
    let all_cpus = Topology::read().online();
    let (ran, recording) = record(&all_cpus, Duration::ZERO, run);
    ran?;
    let mut watched = Watched::nothing();
    watched.add(recording);
    let (mut explanation, turns) = watched.explain(Subject::default());
    explanation.command = words.to_vec();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(cost) = (explanation.verdict.as_mut()).filter(|cost| cost.class == Class::User) {
        let spread = in_parallel(&line_of(words), &explanation.sides, cpus);
        cost.advice = spread.unwrap_or_else(|| cost.advice.clone());
    }
    explanation.placement = turns.and_then(|turns| {
        let cpus = CpuPair::choose(&Topology::read());
        turns.estimated(measure(plain_pipe(), &cpus, program).ok()?)
    });
    Ok(explanation)
}

/// Returns a command as a line of a shell, which it is if it is one word.
fn line_of(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => {
            let line = shell_words(words.iter().map(String::as_bytes));
            String::from_utf8_lossy(&line).into_owned()
        }
    }
}

/// The data from one recording, or from several.
struct Watched {
    kernel: Kernel,
    sides: Vec<SideProfile>,
    sampled: Result<sampling::Sampled, Errno>,
}

impl Watched {
    fn nothing() -> Self {
        Self {
            kernel: Kernel::read(),
            sides: Vec::new(),
            sampled: Err(Errno::OPNOTSUPP),
        }
    }

    fn add(&mut self, recording: Recording) {
        let lost_before = self.sampled.map_or(0, |sampled| sampled.lost);
        self.sampled = recording.sampled;
        if let Ok(sampled) = &mut self.sampled {
            sampled.lost += lost_before;
        }
        merge(&mut self.sides, recording.sides(&self.kernel));
    }

    fn explain(self, subject: Subject<'_>) -> (Explanation, Option<Turns>) {
        let sampled = self.sampled;
        let samples: u64 = self.sides.iter().map(SideProfile::samples).sum();
        let of_kernel = sampled.is_ok_and(|sampled| sampled.kernel) && samples > 0;
        let named = of_kernel && !self.kernel.is_hidden();
        let sides = self.sides.iter().map(|side| side.report(of_kernel));
        let sides: Vec<SideReport> = sides.collect();
        let verdict = match named {
            true => of_samples(&sides, subject),
            false => without_samples(&sides, subject),
        };
        let sampling = sampled.ok().map(|sampled| SamplingReport {
            clock: sampled.clock.describe().to_owned(),
            whole_cpus: sampled.scope == sampling::Scope::WholeCpus,
            frequency: sampled.frequency(),
            of_kernel,
            kernel_names: named,
            samples,
            lost: sampled.lost,
        });
        let explanation = Explanation {
            schema: SCHEMA,
            kernel: uname().release().to_string_lossy().into_owned(),
            sampling,
            sides,
            verdict,
            notes: permission::notes(sampled, samples, self.kernel.is_hidden()),
            ..Explanation::default()
        };
        (explanation, Turns::of(&self.sides, named))
    }
}

//! Runs experiments in shuffled rounds, those of one table next to each other.
//!
//! The one idea: nothing but the experiment runs while it is measured. This process sleeps until
//! there is a report, and draws its progress bar between measurements.

use std::io::{IsTerminal, Write, stderr};
use std::time::SystemTime;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::experiment::Experiment;
use crate::overall::overall;
use crate::peers::{Beside, Peers};
use crate::program::Program;
use crate::taken::{Measurement, Stop};
use crate::work::Bench;
use fullbore_host::date::rfc3339;
use fullbore_host::distance::Distances;
use fullbore_host::machine::{CpuPair, Machine};
use fullbore_results::report::figure;
use fullbore_results::run::{Also, Apart, EndpointReport, Outcome, Run, SCHEMA, Settings, Unit};
use fullbore_results::soundness::Soundness;
use fullbore_results::statistics::Spread;

/// What is known of an experiment so far.
struct Trial {
    experiment: Experiment,
    rounds: Vec<f64>,
    also: Vec<(&'static str, Unit, Vec<f64>)>,
    notes: Vec<String>,
    writer: Option<EndpointReport>,
    reader: Option<EndpointReport>,
    into_file: Option<(u64, f64)>,
    soundness: Option<Soundness>,
    stopped: Option<Stop>,
    peer: Option<Beside>,
}

/// Runs the experiments, and the programs in C next to them if there are any, and reports what came
/// out.
pub fn run(
    experiments: &[Experiment],
    settings: Settings,
    cpus: CpuPair,
    program: &Program,
    peers: Option<&Peers>,
) -> Result<Run> {
    let taken_at = Some(rfc3339(SystemTime::now()));
    let mut trials: Vec<Trial> = experiments.iter().map(|e| Trial::new(*e)).collect();
    if peers.is_some() {
        for trial in &mut trials {
            trial.peer = trial.experiment.work.peer(&settings).map(Beside::new);
        }
    }
    let beside = trials.iter().filter(|trial| trial.peer.is_some()).count();
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut near = Near::new(&cpus, (trials.len() + beside) as u32 * settings.rounds);
    let mut bench = Bench::new(&settings, &cpus, program);
    let mut progress = Progress::new(trials.len(), &settings);
    for round in 1..=settings.rounds {
        for at in order(experiments, &mut random) {
            let trial = &mut trials[at];
            progress.begins(round, trial.experiment.name);
            // Which of the two comes first alternates.
            for peers_turn in [round % 2 == 0, round % 2 != 0] {
                if trial.stopped.is_some() {
                    break;
                }
                if !peers_turn {
                    let work = trial.experiment.work;
                    trial.take(near.measure(&cpus, || work.measure(&mut bench))?);
                } else if let Some(peers) = peers
                    && let Some(beside) = trial.peer.as_mut().filter(|peer| peer.is_whole())
                {
                    let run = || peers.measure(&beside.command, &settings, &cpus);
                    let measurement = near.measure(&cpus, run)?;
                    beside.take(measurement);
                }
            }
            progress.took(round, trial);
        }
    }
    for trial in &mut trials {
        if trial.stopped.is_none() {
            progress.checks(trial.experiment.name);
            trial.soundness = trial.experiment.work.check(&bench)?;
        }
    }
    progress.bar.finish_and_clear();
    let outcomes = outcomes(trials, &settings);
    Ok(Run {
        schema: SCHEMA,
        taken_at,
        machine: Machine::read(cpus),
        line_round_trip_ns: Spread::of(near.distances.seen()),
        apart: near.apart,
        overall: overall(experiments, &outcomes),
        experiments: outcomes,
        settings,
    })
}

/// The order of a round: tables at random, and at random within each. So experiments that ratios are made of
/// meet the machine as it is at one time.
fn order(experiments: &[Experiment], random: &mut fastrand::Rng) -> Vec<usize> {
    let all: Vec<usize> = (0..experiments.len()).collect();
    let mut tables: Vec<Vec<usize>> = all
        .chunk_by(|&a, &b| experiments[a].is_like(&experiments[b]))
        .map(<[usize]>::to_vec)
        .collect();
    random.shuffle(&mut tables);
    for table in &mut tables {
        random.shuffle(table);
    }
    tables.concat()
}

/// What a person sees on stderr while a run goes on: on a terminal a bar with the figure that was measured
/// last, elsewhere the figures of the first round of a long run.
struct Progress {
    /// Hidden where stderr is no terminal.
    bar: ProgressBar,
    rounds: u32,
    /// Whether the first round's figures are written line by line.
    by_line: bool,
    /// The figure that was measured last.
    last: String,
}

impl Progress {
    /// A run that takes fewer seconds than this shows its figures soon enough at its end.
    const LONG: f64 = 10.0;

    fn new(experiments: usize, settings: &Settings) -> Self {
        let is_terminal = stderr().is_terminal();
        let measurements = experiments as u64 * u64::from(settings.rounds);
        let seconds = measurements as f64 * (settings.seconds + settings.warm_up_seconds);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {eta} left")
            .expect("the template is a fixed one");
        Self {
            bar: match is_terminal {
                true => ProgressBar::new(measurements).with_style(style),
                false => ProgressBar::hidden(),
            },
            rounds: settings.rounds,
            by_line: !is_terminal && seconds > Self::LONG,
            last: String::new(),
        }
    }

    fn begins(&self, round: u32, name: &str) {
        let (rounds, last) = (self.rounds, &self.last);
        self.bar
            .set_message(format!("{last}round {round} of {rounds}: {name}"));
    }

    fn took(&mut self, round: u32, trial: &Trial) {
        self.bar.inc(1);
        let Some(&taken) = trial.rounds.last().filter(|_| trial.stopped.is_none()) else {
            return;
        };
        let (name, unit) = (trial.experiment.name, trial.experiment.unit.name());
        let words = format!("{name} {} {unit}", figure(taken));
        if self.by_line && round == 1 {
            // Nobody has to read it.
            let _ = writeln!(stderr(), "first round: {words}");
        }
        self.last = format!("{words}; ");
    }

    fn checks(&self, name: &str) {
        self.bar.set_message(format!("soundness: {name}"));
    }
}

impl Trial {
    fn new(experiment: Experiment) -> Self {
        Self {
            experiment,
            rounds: Vec::new(),
            also: Vec::new(),
            notes: Vec::new(),
            writer: None,
            reader: None,
            into_file: None,
            soundness: None,
            stopped: None,
            peer: None,
        }
    }

    fn take(&mut self, measurement: Measurement) {
        match measurement {
            Ok(taken) => {
                self.rounds.push(taken.figure);
                for (name, unit, value) in taken.also {
                    match self.also.iter_mut().find(|(known, ..)| *known == name) {
                        Some((.., rounds)) => rounds.push(value),
                        None => self.also.push((name, unit, vec![value])),
                    }
                }
                self.notes = taken.notes;
                self.writer = taken.writer;
                self.reader = taken.reader;
                self.into_file = taken.into_file;
            }
            Err(stop) => self.stopped = Some(stop),
        }
    }
}

/// Turns trials into outcomes, with the ratios of each table to its first experiment.
fn outcomes(trials: Vec<Trial>, settings: &Settings) -> Vec<Outcome> {
    let mut first_of_its_like: Option<(Experiment, Option<f64>)> = None;
    trials
        .into_iter()
        .map(|trial| {
            let mut outcome = trial.outcome(settings);
            let median = outcome.figure.as_ref().map(|spread| spread.median);
            let first = match &first_of_its_like {
                Some((like, first)) if trial.experiment.is_like(like) => *first,
                _ => {
                    first_of_its_like = Some((trial.experiment, median));
                    median
                }
            };
            outcome.ratio = median
                .zip(first)
                .map(|(median, first)| outcome.unit.times_as_fast(median, first));
            outcome
        })
        .collect()
}

impl Trial {
    /// What it came to, but for its ratio.
    fn outcome(&self, settings: &Settings) -> Outcome {
        let experiment = &self.experiment;
        let (skipped, failed) = match &self.stopped {
            None => (None, None),
            Some(Stop::Skipped(reason)) => (Some(reason.clone()), None),
            Some(stop) => (None, Some(stop.reason().to_owned())),
        };
        // What broke half-way has no figure: its rounds may be as broken as it is.
        let is_whole = self.stopped.is_none();
        let spread = |rounds: &[f64]| Spread::of(rounds).filter(|_| is_whole);
        let also = self.also.iter().filter_map(|(name, unit, rounds)| {
            Some(Also {
                name: (*name).into(),
                unit: *unit,
                figure: spread(rounds)?,
            })
        });
        let mut outcome = Outcome {
            group: experiment.group.into(),
            name: experiment.name.into(),
            shows: experiment.shows.into(),
            table: experiment.work.table().map(str::to_owned),
            unit: experiment.unit,
            published: experiment.published,
            figure: spread(&self.rounds),
            ratio: None,
            also: also.collect(),
            peer: self
                .peer
                .as_ref()
                .filter(|_| is_whole)
                .map(|beside| beside.outcome(&self.rounds, experiment.unit)),
            cell: None,
            soundness: self.soundness.clone(),
            mover: None,
            writer: self.writer.clone(),
            reader: self.reader.clone(),
            notes: Vec::new(),
            skipped,
            failed,
        };
        experiment.work.describe(&mut outcome, settings);
        if let (Some(mover), Some((bytes, seconds))) = (&mut outcome.mover, self.into_file) {
            (mover.bytes, mover.seconds) = (Some(bytes), Some(seconds));
        }
        outcome.notes.extend(self.notes.iter().cloned());
        for report in [&self.writer, &self.reader].into_iter().flatten() {
            outcome.notes.extend(report.notes.iter().cloned());
        }
        if let Some(failed) = outcome.peer.as_ref().and_then(|peer| peer.failed.as_ref()) {
            outcome.notes.push(format!("its program in C: {failed}"));
        }
        let wrong = self.soundness.as_ref().and_then(Soundness::describe_wrong);
        outcome.notes.extend(wrong);
        outcome
    }
}

/// Measures while the two CPUs are near each other, as far as that can be had.
///
/// Whether a measurement counts is decided by the distance before and after it, never by its figure.
struct Near {
    distances: Distances,
    apart: Apart,
    /// Measurements that may still be repeated, so that a run ends in good time.
    left: u32,
}

impl Near {
    /// Of all measurements of a run, so many in a hundred may be repeated.
    const REPEATED_AT_MOST: u32 = 30;

    /// How often a measurement in which nothing came through is tried.
    const TRIES: u32 = 5;

    fn new(cpus: &CpuPair, measurements: u32) -> Self {
        Self {
            distances: Distances::first_looks(cpus),
            apart: Apart::default(),
            left: measurements
                .saturating_mul(Self::REPEATED_AT_MOST)
                .div_ceil(100),
        }
    }

    fn measure(
        &mut self,
        cpus: &CpuPair,
        mut measure: impl FnMut() -> Result<Measurement>,
    ) -> Result<Measurement> {
        let mut tries = 0;
        loop {
            let near_before = self.distances.are_near(cpus);
            let measurement = measure()?;
            tries += 1;
            if matches!(measurement, Err(Stop::NothingCame)) && tries < Self::TRIES {
                continue;
            }
            let near = self.distances.are_near(cpus) && near_before;
            if near || measurement.is_err() {
                return Ok(measurement);
            }
            if self.left == 0 {
                self.apart.taken += 1;
                return Ok(measurement);
            }
            self.left -= 1;
            self.apart.repeated += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::Catalogue;
    use super::super::taken::Taken;
    use super::*;
    use crate::catalogue::sweep::Axes;
    use fullbore_host::machine::Topology;

    #[test]
    fn a_table_is_measured_at_one_time_and_in_another_order_each_round() {
        let catalogue = Catalogue::new(&Axes::default());
        let experiments: Vec<Experiment> = catalogue.iter().copied().collect();
        let mut random = fastrand::Rng::with_seed(1);
        let rounds = [0; 3].map(|_| order(&experiments, &mut random));
        for round in &rounds {
            let mut all = round.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..experiments.len()));
            let runs = round.chunk_by(|&a, &b| experiments[a].is_like(&experiments[b]));
            let in_order = experiments.chunk_by(Experiment::is_like);
            assert_eq!(runs.count(), in_order.count());
        }
        assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2]);
    }

    #[test]
    fn what_nothing_came_through_is_tried_again_and_not_for_ever() {
        let cpus = CpuPair::wanted(None, &Topology::read()).unwrap();
        let mut near = Near::new(&cpus, 1);
        for (nothing, expected) in [(Near::TRIES - 1, Some(1.0)), (Near::TRIES, None)] {
            let mut tries = 0;
            let measured = near.measure(&cpus, || {
                tries += 1;
                Ok(match tries > nothing {
                    true => Ok(Taken {
                        figure: 1.0,
                        ..Taken::default()
                    }),
                    false => Err(Stop::NothingCame),
                })
            });
            let figure = measured.unwrap().ok().map(|taken| taken.figure);
            assert_eq!(figure, expected, "{nothing} times nothing");
        }
    }

    #[test]
    fn ratios_are_to_the_first_of_the_group_and_broken_experiments_have_none() {
        let settings = Settings {
            rounds: 3,
            seconds: 0.1,
            warm_up_seconds: 0.0,
            pipe_size: None,
            unix_copy: None,
            seed: 1,
        };
        let catalogue = Catalogue::new(&Axes::default());
        let mut trials: Vec<Trial> = catalogue.iter().take(3).map(|e| Trial::new(*e)).collect();
        trials[0].rounds = vec![2.0, 1.0, 3.0];
        trials[1].rounds = vec![8.0];
        trials[2].rounds = vec![9.0];
        trials[2].stopped = Some(Stop::Failed("killed".into()));
        let outcomes = outcomes(trials, &settings);
        assert_eq!(outcomes[0].ratio, Some(1.0));
        assert_eq!(outcomes[1].ratio, Some(4.0));
        assert_eq!(outcomes[2].ratio, None);
        assert_eq!(outcomes[2].figure, None);
        assert_eq!(outcomes[2].failed.as_deref(), Some("killed"));
    }
}

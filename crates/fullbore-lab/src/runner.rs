//! Runs experiments in shuffled rounds; experiments of one table run next to each other.
//!
//! Only the experiment runs while it is measured: this process sleeps until there is a report, and reports
//! its progress between measurements.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use rustix::io::Errno;

use crate::cpu_distance::Near;
use crate::cpu_time::CpuTime;
use crate::experiment::Experiment;
use crate::limit;
use crate::measurement::{Measured, Stop, errno_of};
use crate::other_work::OtherWork;
use crate::overall::overall;
use crate::peers::{Beside, Peers};
use crate::program::Program;
use crate::rounds::{Rounds, outcomes};
use crate::work::Bench;
use fullbore_host::machine::{CpuPair, Machine};
use fullbore_results::date::rfc3339;
use fullbore_results::run::{Limit, Outcome, Remark, Run, SCHEMA, Settings};
use fullbore_results::statistics::Spread;

/// Receives the progress of a run, always between measurements. `()` ignores every call.
pub trait Progress {
    /// Reports that an experiment is about to be measured in this round.
    fn begins(&mut self, _round: u32, _experiment: &Experiment) {}

    /// Reports that it has been measured; `None` means that it was given up.
    fn measured(&mut self, _round: u32, _experiment: &Experiment, _figure: Option<f64>) {}

    /// Reports that the bytes of an experiment are about to be checked, after the last round.
    fn checks(&mut self, _experiment: &Experiment) {}
}

impl Progress for () {}

/// Runs the experiments, and the C programs next to them if there are any, and returns the outcomes.
///
/// # Errors
/// Fails if not even a pipe or a process can be made. The failure of a single experiment is in its outcome.
pub fn run(
    experiments: &[Experiment],
    settings: Settings,
    cpus: CpuPair,
    program: &Program,
    peers: Option<&Peers>,
    progress: &mut dyn Progress,
) -> Result<Run> {
    let taken_at = rfc3339(SystemTime::now());
    let mut all: Vec<Rounds> = experiments.iter().map(|e| Rounds::new(*e)).collect();
    if peers.is_some() {
        for rounds in &mut all {
            rounds.peer = rounds.experiment.work.peer(&settings).map(Beside::new);
        }
    }
    let beside = all.iter().filter(|rounds| rounds.peer.is_some()).count();
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let measurements = (all.len() + beside) as u32 * settings.rounds;
    let mut near = Near::new(&cpus, measurements);
    let mut limits = Vec::new();
    let planned = Duration::try_from_secs_f64(settings.seconds * f64::from(measurements));
    let planned = planned.unwrap_or(Duration::MAX);
    limit::take(&mut limits, &cpus, planned);
    let other_work = OtherWork::begin();
    let mut bench = Bench::new(&settings, &cpus, program);
    for round in 1..=settings.rounds {
        for at in order(experiments, &mut random) {
            progress.begins(round, &experiments[at]);
            measure(round, &mut all[at], &mut near, &mut bench, peers)?;
            progress.measured(round, &experiments[at], all[at].last_figure());
        }
    }
    let other_work = other_work.share();
    // The host of a virtual machine may have moved the CPUs meanwhile.
    limit::take(&mut limits, &cpus, planned);
    for rounds in all.iter_mut().filter(|rounds| rounds.stopped.is_none()) {
        progress.checks(&rounds.experiment);
        rounds.soundness = rounds.experiment.work.check(&bench)?;
    }
    let outcomes = outcomes(&all, &settings);
    Ok(Run {
        schema: SCHEMA,
        taken_at,
        machine: Machine::read(cpus),
        line_round_trip_ns: Spread::of(&near.distances),
        apart: near.apart,
        other_work,
        limit: Spread::of(&limits).map(|handed_over| Limit { handed_over }),
        overall: overall(experiments, &outcomes),
        remarks: remarks(experiments, &outcomes),
        experiments: outcomes,
        settings,
    })
}

/// Returns what the tables show.
fn remarks(experiments: &[Experiment], outcomes: &[Outcome]) -> Vec<Remark> {
    let mut left = outcomes;
    experiments
        .chunk_by(Experiment::is_like)
        .filter_map(|alike| {
            let (table, rest) = left.split_at(alike.len());
            left = rest;
            let first = alike.first()?;
            let text = first.work.remark(&table.iter().collect::<Vec<_>>())?;
            Some(Remark {
                group: first.group.to_owned(),
                table: first.table.map(str::to_owned),
                text,
            })
        })
        .collect()
}

/// Measures an experiment once, and its C program next to it.
fn measure(
    round: u32,
    rounds: &mut Rounds,
    near: &mut Near,
    bench: &mut Bench<'_>,
    peers: Option<&Peers>,
) -> Result<()> {
    let work = rounds.experiment.work;
    let (settings, cpus) = (bench.settings, bench.cpus);
    // The experiment and its C program alternate in running first.
    for peers_turn in [round % 2 == 0, round % 2 != 0] {
        if rounds.stopped.is_some() {
            return Ok(());
        }
        if !peers_turn {
            let measurement =
                near.measure(cpus, || or_skipped(with_cpu_time(|| work.measure(bench))))?;
            rounds.take(measurement);
        } else if let (Some(peers), Some(beside)) =
            (peers, rounds.peer.as_mut().filter(|peer| peer.is_whole()))
        {
            let patience = work.patience(settings);
            let run = || peers.measure(&beside.command, settings, cpus, patience);
            beside.take(near.measure(cpus, run)?);
        }
    }
    Ok(())
}

/// Turns the error of a process that may have no more fds, processes or memory into a reason to skip the experiment:
/// another one needs less.
fn or_skipped(measured: Result<Measured>) -> Result<Measured> {
    const SHORTAGES: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    let is_short = |errno: Errno| SHORTAGES.contains(&errno);
    match measured {
        Err(error) if errno_of(&error).is_some_and(is_short) => Err(Stop::skipped(error).into()),
        other => other,
    }
}

/// Measures, and adds the CPU time of the processes that were started and have ended, unless it is known better.
fn with_cpu_time(measure: impl FnOnce() -> Result<Measured>) -> Result<Measured> {
    let before = CpuTime::of_children();
    let mut measured = measure()?;
    let spent = || CpuTime::of_children().since(before);
    measured.spent.get_or_insert_with(spent);
    Ok(measured)
}

/// Returns the order of a round: the tables are shuffled, and so are the experiments in each. Experiments
/// whose ratio is computed are therefore measured at about the same time.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn a_table_is_measured_at_one_time_and_in_another_order_each_round() {
        let catalogue = Catalogue::default();
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
    fn an_experiment_that_needs_more_than_there_is_leaves_the_others_to_go_on() {
        use anyhow::{Context, anyhow};
        let of_std = std::io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        let short: [anyhow::Error; 3] = [
            Errno::NFILE.into(),
            anyhow!(of_std).context("start 'fullbore'"),
            anyhow!(Errno::AGAIN).context("fork"),
        ];
        for error in short {
            let said = format!("{error:#}");
            let stop = or_skipped(Err(error)).unwrap_err().downcast().unwrap();
            assert!(matches!(stop, Stop::Skipped(reason) if reason == said));
        }
        let other: Result<Measured> = Err(Errno::PERM).context("a pipe");
        assert!(!or_skipped(other).unwrap_err().is::<Stop>());
    }
}

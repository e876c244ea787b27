//! Runs experiments: two processes each, pinned, in shuffled rounds.
//!
//! The one idea: nothing but the two endpoints runs while something is measured. This process
//! sleeps until the reader has reported, and draws its progress bar between measurements.

use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fullbore::Pipe;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Pid, Signal, kill_process};

use super::catalogue::{Between, Checked, Experiment};
use super::distance::Distances;
use super::endpoint::words;
use super::machine::{CpuPair, Machine};
use super::movers::{self, MoverReport, SourceFile};
use super::process;
use super::result::{Apart, EndpointReport, Outcome, Run, SCHEMA, Settings};
use super::soundness::Soundness;
use super::statistics::Spread;
use crate::exit;

/// More than any measurement moves: the reader's clock ends it.
pub const ENDLESS: &str = "1048576G";

/// What is known of an experiment so far.
struct Trial {
    experiment: &'static Experiment,
    rounds: Vec<f64>,
    writer: Option<EndpointReport>,
    reader: Option<EndpointReport>,
    into_file: Option<(u64, f64)>,
    soundness: Option<Soundness>,
    stopped: Option<Stop>,
}

/// Why an experiment was given up.
#[derive(Debug)]
pub enum Stop {
    /// This machine does not allow it.
    Skipped(String),
    /// It broke.
    Failed(String),
}

/// One measurement, or why there is none.
pub type Measurement = Result<Taken, Stop>;

/// What was measured.
#[derive(Debug)]
pub struct Taken {
    /// The figure.
    pub gib_per_s: f64,
    /// The endpoints' reports, where there is one.
    pub writer: Option<EndpointReport>,
    pub reader: Option<EndpointReport>,
    /// Bytes and seconds, where they went into a file.
    pub into_file: Option<(u64, f64)>,
}

/// Runs the experiments and reports what came out.
pub fn run(experiments: &[&'static Experiment], settings: Settings, cpus: CpuPair) -> Result<Run> {
    let mut trials: Vec<Trial> = experiments.iter().map(|e| Trial::new(e)).collect();
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut near = Near::new(&cpus, trials.len() as u32 * settings.rounds);
    let bar = progress_bar(trials.len() as u64 * u64::from(settings.rounds));
    for round in 1..=settings.rounds {
        let mut order: Vec<usize> = (0..trials.len()).collect();
        random.shuffle(&mut order);
        for at in order {
            let trial = &mut trials[at];
            bar.set_message(format!(
                "round {round} of {}: {}",
                settings.rounds, trial.experiment.name
            ));
            if trial.stopped.is_none() {
                trial.take(near.measure(trial.experiment, &settings, &cpus)?);
            }
            bar.inc(1);
        }
    }
    for trial in &mut trials {
        if trial.stopped.is_none() && trial.experiment.soundness == Checked::Yes {
            bar.set_message(format!("soundness: {}", trial.experiment.name));
            trial.soundness = Some(Soundness::check(trial.experiment, &cpus)?);
        }
    }
    bar.finish_and_clear();
    Ok(Run {
        schema: SCHEMA,
        machine: Machine::read(cpus),
        line_round_trip_ns: near.distances.spread(),
        apart: near.apart,
        experiments: outcomes(trials, &settings),
        settings,
    })
}

fn progress_bar(len: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {eta} left")
        .expect("the template is a fixed one");
    ProgressBar::new(len).with_style(style)
}

impl Trial {
    fn new(experiment: &'static Experiment) -> Self {
        Self {
            experiment,
            rounds: Vec::new(),
            writer: None,
            reader: None,
            into_file: None,
            soundness: None,
            stopped: None,
        }
    }

    fn take(&mut self, measurement: Measurement) {
        match measurement {
            Ok(taken) => {
                self.rounds.push(taken.gib_per_s);
                self.writer = taken.writer;
                self.reader = taken.reader;
                self.into_file = taken.into_file;
            }
            Err(stop) => self.stopped = Some(stop),
        }
    }
}

/// Turns trials into outcomes, with the ratios of each group, or of each job in it, to its first
/// experiment.
fn outcomes(trials: Vec<Trial>, settings: &Settings) -> Vec<Outcome> {
    let mut first_of_its_like: Option<(&Experiment, Option<f64>)> = None;
    trials
        .into_iter()
        .map(|trial| {
            let experiment = trial.experiment;
            let (skipped, failed) = match trial.stopped {
                None => (None, None),
                Some(Stop::Skipped(reason)) => (Some(reason), None),
                Some(Stop::Failed(reason)) => (None, Some(reason)),
            };
            // What broke half-way has no figure: its rounds may be as broken as it is.
            let figure = if skipped.is_none() && failed.is_none() {
                Spread::of(&trial.rounds)
            } else {
                None
            };
            let median = figure.as_ref().map(|spread| spread.median);
            let first = match first_of_its_like {
                Some((like, first)) if experiment.is_like(like) => first,
                _ => {
                    first_of_its_like = Some((experiment, median));
                    median
                }
            };
            let mover = match experiment.between {
                Between::Pipe => None,
                Between::Mover(job, mover) => {
                    let (bytes, seconds) = trial.into_file.unzip();
                    Some(MoverReport {
                        bytes,
                        seconds,
                        ..mover.report(job)
                    })
                }
            };
            let mut notes = Vec::new();
            if settings.pipe_size.is_some() && pipe_size_is_fixed(experiment) {
                notes.push(
                    "its pipe size is part of the technique; --pipe-size left it alone".into(),
                );
            }
            for report in [&trial.writer, &trial.reader].into_iter().flatten() {
                notes.extend(report.notes.iter().cloned());
            }
            notes.extend(trial.soundness.as_ref().and_then(Soundness::describe_wrong));
            Outcome {
                group: experiment.group.into(),
                name: experiment.name.into(),
                shows: experiment.shows.into(),
                published_gib_per_s: experiment.published,
                ratio: median.zip(first).map(|(median, first)| median / first),
                gib_per_s: figure,
                soundness: trial.soundness,
                mover,
                writer: trial.writer,
                reader: trial.reader,
                notes,
                skipped,
                failed,
            }
        })
        .collect()
}

/// Double buffering is right only in a pipe of half a buffer; where a row gives a size of its own,
/// that size is what it shows.
fn pipe_size_is_fixed(experiment: &Experiment) -> bool {
    experiment.job().is_some()
        || ["--write-with-vmsplice", "--pipe-size"]
            .iter()
            .any(|option| experiment.writer.contains(option))
}

/// Measures while the two CPUs are near each other, as far as that can be had.
///
/// Whether a measurement counts is decided by the distance before and after it, never by its figure.
struct Near {
    distances: Distances,
    apart: Apart,
    /// Measurements that may still be repeated, so that a run ends in good time.
    left: u32,
    /// What jobs with a file for a source read.
    source_file: SourceFile,
}

impl Near {
    /// Of all measurements of a run, so many in a hundred may be repeated.
    const REPEATED_AT_MOST: u32 = 30;

    fn new(cpus: &CpuPair, measurements: u32) -> Self {
        Self {
            distances: Distances::first_looks(cpus),
            apart: Apart::default(),
            left: measurements
                .saturating_mul(Self::REPEATED_AT_MOST)
                .div_ceil(100),
            source_file: SourceFile::default(),
        }
    }

    fn measure(
        &mut self,
        experiment: &Experiment,
        settings: &Settings,
        cpus: &CpuPair,
    ) -> Result<Measurement> {
        loop {
            let near_before = self.distances.are_near(cpus);
            let measurement = match experiment.between {
                Between::Pipe => measure(experiment, settings, cpus)?,
                Between::Mover(job, mover) => {
                    movers::measure::measure(job, mover, settings, cpus, &mut self.source_file)?
                }
            };
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

/// Runs one experiment of two endpoints with a pipe between them, once.
///
/// # Errors
/// Where not even a pipe or a process can be made; what the endpoints say goes into the
/// [`Measurement`].
fn measure(experiment: &Experiment, settings: &Settings, cpus: &CpuPair) -> Result<Measurement> {
    let pipe = Pipe::new()?;
    let mut reader = process::endpoint("read", experiment.reader, cpus.reader);
    reader
        .arg(format!("--seconds={}", settings.seconds))
        .arg(format!("--warm-up={}", settings.warm_up_seconds))
        .stdin(pipe.reader)
        .stdout(Stdio::piped());
    let mut writer = process::endpoint("write", experiment.writer, cpus.writer);
    writer
        .arg(format!("--bytes-to-pipe={ENDLESS}"))
        .stdin(Stdio::null())
        .stdout(pipe.writer);
    if let Some(size) = settings.pipe_size
        && !pipe_size_is_fixed(experiment)
    {
        writer.arg(format!("--pipe-size={size}"));
    }
    let reader_child = reader.spawn().context("start a reader")?;
    let writer_child = writer.spawn().context("start a writer")?;
    // The ends that this process holds are inside the commands: with one of them open, neither
    // endpoint would notice that the other one has gone.
    drop((reader, writer));
    let patience =
        Duration::from_secs_f64(5.0 + 4.0 * (settings.seconds + settings.warm_up_seconds));
    let guard = Guard::watch(&[&reader_child, &writer_child], patience);
    let read = reader_child
        .wait_with_output()
        .context("wait for the reader")?;
    let written = writer_child
        .wait_with_output()
        .context("wait for the writer")?;
    let timed_out = guard.dismiss();
    if timed_out {
        return Ok(Err(Stop::Failed(format!(
            "no end after {patience:?}; killed"
        ))));
    }
    Ok(judge(experiment, &written, &read))
}

/// What the two endpoints' exits and reports come to.
fn judge(experiment: &Experiment, written: &Output, read: &Output) -> Measurement {
    // The writer first: when it is at fault, the reader only sees an early end.
    for (role, output) in [("writer", written), ("reader", read)] {
        if output.status.code() == Some(i32::from(exit::UNSUPPORTED)) {
            return Err(Stop::Skipped(process::last_words(output)));
        }
        if !output.status.success() {
            return Err(Stop::Failed(format!(
                "the {role} {}: {}",
                ended(output.status),
                process::last_words(output)
            )));
        }
    }
    let report = |role: &str, printed: &[u8]| {
        process::report(printed)
            .map_err(|e| Stop::Failed(format!("the {role} reported nothing readable: {e}")))
    };
    let reader = report("reader", &read.stdout)?;
    let writer = report("writer", &written.stderr)?;
    if reader.bytes == 0 || reader.seconds == 0.0 {
        return Err(Stop::Failed(
            "nothing came through while it was measured".into(),
        ));
    }
    if let Some(sum) = reader.sum
        && experiment.writer.contains("--data words")
        && sum != words::sum_of_stream(reader.moved)
    {
        return Err(Stop::Failed(format!(
            "wrong bytes: the words read do not add up to those of the first {} written",
            reader.moved
        )));
    }
    Ok(Taken {
        gib_per_s: reader.gib_per_s,
        writer: Some(writer),
        reader: Some(reader),
        into_file: None,
    })
}

/// How a process ended, for people.
pub fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// Kills processes that have not ended in time.
struct Guard {
    done: mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Guard {
    fn watch(children: &[&Child], patience: Duration) -> Self {
        let pids: Vec<Pid> = children
            .iter()
            .map(|child| Pid::from_child(child))
            .collect();
        let (done, dismissed) = mpsc::channel();
        let thread = thread::spawn(move || {
            let timed_out =
                dismissed.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout);
            if timed_out {
                for pid in pids {
                    // It may have ended by itself in the meantime; it has not been reaped.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            timed_out
        });
        Self { done, thread }
    }

    /// Ends the watch, and says whether time had run out.
    fn dismiss(self) -> bool {
        // Nobody listens any more where time has run out.
        let _ = self.done.send(());
        self.thread.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::catalogue::catalogue;
    use super::*;

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code),
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    fn settings() -> Settings {
        Settings {
            rounds: 3,
            seconds: 0.1,
            warm_up_seconds: 0.0,
            pipe_size: None,
            seed: 1,
        }
    }

    #[test]
    fn what_a_machine_does_not_allow_is_skipped_with_the_endpoints_reason() {
        let refused = output(3 << 8, "", "fullbore write: vmsplice(2) is refused here\n");
        match judge(catalogue().next().unwrap(), &refused, &output(0, "", "")) {
            Err(Stop::Skipped(reason)) => assert_eq!(reason, "vmsplice(2) is refused here"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_killed_endpoint_is_a_failure_that_names_it() {
        match judge(
            catalogue().next().unwrap(),
            &output(0, "", "{}"),
            &output(9, "", ""),
        ) {
            Err(Stop::Failed(reason)) => {
                assert_eq!(reason, "the reader was killed by signal 9: no word why");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ratios_are_to_the_first_of_the_group_and_broken_experiments_have_none() {
        let mut trials: Vec<Trial> = catalogue().take(3).map(Trial::new).collect();
        trials[0].rounds = vec![2.0, 1.0, 3.0];
        trials[1].rounds = vec![8.0];
        trials[2].rounds = vec![9.0];
        trials[2].stopped = Some(Stop::Failed("killed".into()));
        let outcomes = outcomes(trials, &settings());
        assert_eq!(outcomes[0].ratio, Some(1.0));
        assert_eq!(outcomes[1].ratio, Some(4.0));
        assert_eq!(outcomes[2].ratio, None);
        assert_eq!(outcomes[2].gib_per_s, None);
        assert_eq!(outcomes[2].failed.as_deref(), Some("killed"));
    }

    #[test]
    fn who_does_not_end_is_killed() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let guard = Guard::watch(&[&child], Duration::from_millis(20));
        let status = child.wait_with_output().unwrap().status;
        assert_eq!(status.signal(), Some(9));
        assert!(guard.dismiss());
    }
}

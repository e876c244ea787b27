//! Runs the C programs that do the same as experiments (`peers/`), measured next to them.
//!
//! They show whether the harness is the bottleneck. A program therefore runs right before or
//! right after its experiment, on the same CPUs, in every round, and the result is the median of
//! the rounds' ratios. Anything that slows down both in a round, such as other guests of the
//! host, cancels out.
//!
//! If a program is missing or breaks, only its own figure is missing.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::measurement::{Measured, Measurement, Stop};
use crate::process::{self, Process};
use fullbore_host::machine::CpuPair;
use fullbore_host::refusal::Usage;
use fullbore_results::run::{Peer, Settings, Unit};
use fullbore_results::statistics::Spread;

/// The programs, by their names in `make -C peers`.
const PROGRAMS: [&str; 5] = ["stream", "pingpong", "unix_copy", "lookup", "pipe"];

/// A directory that contains the programs.
#[derive(Debug)]
pub struct Peers(PathBuf);

impl Peers {
    /// Finds the programs in a directory.
    ///
    /// # Errors
    /// Fails if it contains none.
    pub fn of(directory: &Path) -> Result<Self, Usage> {
        // A relative name without a slash would be searched for on PATH.
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        if PROGRAMS.iter().any(|name| directory.join(name).is_file()) {
            Ok(Self(directory))
        } else {
            Err(Usage(format!(
                "--peers: '{}' contains none of the C programs: 'make -C peers' builds them in \
                 peers/bin",
                directory.display()
            )))
        }
    }

    /// Runs a program once; it has to end within `patience`.
    ///
    /// # Errors
    /// Fails if a process cannot be waited for; with a [`Stop`] if the program itself fails.
    pub fn measure(
        &self,
        command_line: &str,
        settings: &Settings,
        cpus: &CpuPair,
        patience: Duration,
    ) -> anyhow::Result<Measured> {
        let mut words = command_line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut command = Command::new(self.0.join(name));
        command
            .args(words)
            .arg(format!("--seconds={}", settings.seconds))
            .arg(format!("--warm-up={}", settings.warm_up_seconds))
            .arg(format!("--cpus={},{}", cpus.writer, cpus.reader))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own process group lets us end it together with the processes that it starts.
            .process_group(0);
        let failed = |error| Stop::Failed(format!("{error:#}"));
        let process = Process::start(command).map_err(failed)?;
        // The program makes its files first, and ends by itself when its time is up.
        let ended = process.end_group_within(patience + process::GRACE)?;
        ended.went_well(name)?;
        let printed = String::from_utf8_lossy(&ended.output.stdout);
        let figure = figure_of(&printed).ok_or_else(|| {
            let printed: String = printed.trim().chars().take(60).collect();
            Stop::Failed(format!("printed '{printed}' instead of a line of figures"))
        })?;
        Ok(Measured {
            figure,
            ..Measured::default()
        })
    }
}

/// Returns the first figure of the single line that a program prints, or `None` for any other
/// output.
fn figure_of(printed: &str) -> Option<f64> {
    let line = printed.strip_suffix('\n')?;
    let mut figures = line.split(' ').map(|word| {
        let figure = word.parse().ok();
        figure.filter(|figure: &f64| figure.is_finite() && *figure > 0.0)
    });
    let first = figures.next()??;
    figures.all(|figure| figure.is_some()).then_some(first)
}

/// A C program that is measured next to an experiment, over a run.
#[derive(Debug)]
pub struct Beside {
    /// Its command line.
    pub command: String,
    /// Its figures, one per round, or how it failed: then it has none, because its earlier rounds may be wrong too.
    rounds: Result<Vec<f64>, String>,
}

impl Beside {
    /// Creates the state of a program that has not run yet.
    pub fn new(command: String) -> Self {
        let rounds = Ok(Vec::new());
        Self { command, rounds }
    }

    /// Returns whether it is run again in the next round.
    pub fn is_whole(&self) -> bool {
        self.rounds.is_ok()
    }

    /// Adds a measurement.
    pub fn take(&mut self, measurement: Measurement) {
        match (&mut self.rounds, measurement) {
            (Ok(rounds), Ok(taken)) => rounds.push(taken.figure),
            (_, Err(stop)) => self.rounds = Err(stop.to_string()),
            (Err(_), Ok(_)) => {}
        }
    }

    /// Returns its outcome, compared with the experiment's own rounds.
    pub fn outcome(&self, own: &[f64], unit: Unit) -> Peer {
        let rounds = self.rounds.as_deref().unwrap_or(&[]);
        let both = own.iter().zip(rounds);
        let ratios: Vec<f64> = both
            .map(|(own, peer)| unit.times_as_fast(*own, *peer))
            .collect();
        Peer {
            command: self.command.clone(),
            figure: Spread::of(rounds),
            ratio: Spread::of(&ratios).map(|ratios| ratios.median),
            failed: self.rounds.as_ref().err().cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_of_figures_is_a_figure() {
        assert_eq!(figure_of("12.5\n"), Some(12.5));
        assert_eq!(figure_of("1.5 20.0 300.1\n"), Some(1.5));
        for nonsense in [
            "", "\n", "12.5", "0\n", "-1\n", "nan\n", "inf\n", "1 x\n", "1\n2\n", "what\n", "1 0\n",
        ] {
            assert_eq!(figure_of(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios() {
        let mut beside = Beside::new("stream pipe".into());
        // A round in which both are slow shows no difference between them.
        for figure in [1.0, 10.0, 4.0] {
            beside.take(Ok(Measured {
                figure,
                ..Measured::default()
            }));
        }
        let peer = beside.outcome(&[2.0, 10.0, 2.0], Unit::GibPerS);
        assert_eq!(peer.figure.unwrap().median, 4.0);
        assert_eq!(peer.ratio, Some(1.0));
        let peer = beside.outcome(&[2.0, 5.0, 2.0], Unit::Microseconds);
        assert_eq!(peer.ratio, Some(2.0));
    }

    #[test]
    fn a_program_that_broke_has_no_figure() {
        let mut beside = Beside::new("stream pipe".into());
        beside.take(Ok(Measured::default()));
        beside.take(Err(Stop::Failed("what".into())));
        let peer = beside.outcome(&[1.0, 1.0], Unit::GibPerS);
        assert_eq!((peer.figure, peer.ratio), (None, None));
        assert_eq!(peer.failed.as_deref(), Some("what"));
        assert!(!beside.is_whole());
    }
}

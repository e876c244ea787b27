//! The progress that `fullbore bench` shows on stderr while it measures: on a terminal a bar with the last
//! figure, elsewhere the figures of the first round of a long run.

use std::io::{IsTerminal, Write, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use fullbore_lab::experiment::Experiment;
use fullbore_lab::runner;
use fullbore_results::report::figure;
use fullbore_results::run::Settings;

/// The progress of one run. The bar is removed on drop.
pub struct BenchProgress {
    /// The bar, which is hidden if stderr is no terminal.
    bar: ProgressBar,
    rounds: u32,
    /// Whether the figures of the first round are printed line by line.
    by_line: bool,
    /// The last figure that was measured.
    last: String,
}

impl BenchProgress {
    /// The least duration of a run, in seconds, for which the first round is printed. A shorter run soon
    /// shows its figures at its end.
    const LONG: f64 = 10.0;

    /// Creates the progress of a run of `experiments` experiments.
    pub fn new(experiments: usize, settings: &Settings) -> Self {
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
}

impl runner::Progress for BenchProgress {
    fn begins(&mut self, round: u32, experiment: &Experiment) {
        let Self { rounds, last, .. } = self;
        let name = experiment.name;
        self.bar
            .set_message(format!("{last}round {round} of {rounds}: {name}"));
    }

    fn measured(&mut self, round: u32, experiment: &Experiment, taken: Option<f64>) {
        self.bar.inc(1);
        let Some(taken) = taken else {
            return;
        };
        let (name, unit) = (experiment.name, experiment.unit.name());
        let words = format!("{name} {} {unit}", figure(taken));
        if self.by_line && round == 1 {
            // An error is ignored, because stderr may have no reader.
            let _ = writeln!(stderr(), "first round: {words}");
        }
        self.last = format!("{words}; ");
    }

    fn checks(&mut self, experiment: &Experiment) {
        self.bar
            .set_message(format!("soundness: {}", experiment.name));
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

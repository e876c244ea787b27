//! The progress that `fullbore bench` shows on stderr while it measures: on a terminal a bar with the last
//! figure, elsewhere the figures of the first round of a long run.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::terminal::line::{Reading, clock, drawn_bar};
use crate::terminal::lines::{Screen, say_line};
use fullbore_host::text::{counted, cut};
use fullbore_lab::experiment::Experiment;
use fullbore_lab::runner;
use fullbore_results::report::figure;
use fullbore_results::run::Settings;

/// The progress of one run. The bar is removed on drop.
pub struct BenchProgress {
    /// Where the bar is drawn, if stderr is a terminal.
    screen: Option<Screen>,
    began: Instant,
    /// The number of measurements, and how many were made.
    measurements: u64,
    done: u64,
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
        let measurements = experiments as u64 * u64::from(settings.rounds);
        let seconds = measurements as f64 * (settings.seconds + settings.warm_up_seconds);
        let is_terminal = std::io::stderr().is_terminal();
        if seconds > Self::LONG {
            // Starting and ending the processes takes about as long as a fifth of the measurements.
            let about = match seconds * 1.2 {
                seconds if seconds < 90.0 => counted(seconds.ceil() as usize, "second", "seconds"),
                seconds => counted((seconds / 60.0).ceil() as usize, "minute", "minutes"),
            };
            let all = format!("{experiments} experiments in {} rounds", settings.rounds);
            say_line(format_args!("{all}: this takes about {about}"));
        }
        Self {
            screen: Screen::new(false),
            began: Instant::now(),
            measurements,
            done: 0,
            rounds: settings.rounds,
            by_line: !is_terminal && seconds > Self::LONG,
            last: String::new(),
        }
    }

    /// Draws the bar with a message.
    fn show(&mut self, message: &str) {
        let Some(screen) = &mut self.screen else {
            return;
        };
        let reading = Reading {
            passed: self.done,
            total: Some(self.measurements),
            ..Reading::default()
        };
        let each = self.began.elapsed().as_secs_f64() / self.done.max(1) as f64;
        let left = each * self.measurements.saturating_sub(self.done) as f64;
        let left = match self.done {
            0 => String::new(),
            _ => format!("  {} left", clock(Duration::from_secs_f64(left))),
        };
        let bar = drawn_bar(&reading, 20);
        let line = format!("{bar} {}/{}  {message}{left}", self.done, self.measurements);
        let line = cut(&line, screen.size().0);
        screen.draw(&[line]);
    }
}

impl runner::Progress for BenchProgress {
    fn begins(&mut self, round: u32, experiment: &Experiment) {
        let Self { rounds, last, .. } = self;
        let name = experiment.name;
        let message = format!("{last}round {round} of {rounds}: {name}");
        self.show(&message);
    }

    fn measured(&mut self, round: u32, experiment: &Experiment, taken: Option<f64>) {
        self.done += 1;
        let Some(taken) = taken else {
            return;
        };
        let (name, unit) = (experiment.name, experiment.unit.name());
        let words = format!("{name} {} {unit}", figure(taken));
        if self.by_line && round == 1 {
            say_line(format_args!("first round: {words}"));
        }
        self.last = format!("{words}; ");
    }

    fn checks(&mut self, experiment: &Experiment) {
        self.show(&format!("soundness: {}", experiment.name));
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.clear();
        }
    }
}

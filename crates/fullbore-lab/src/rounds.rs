//! Collects the rounds of each experiment and turns them into outcomes.

use crate::cpu_time::{CpuTime, cost};
use crate::experiment::Experiment;
use crate::measurement::{Measurement, Stop};
use crate::peers::Beside;
use fullbore_results::pairs::Pairs;
use fullbore_results::run::{Also, EndpointReport, Outcome, Settings, Unit};
use fullbore_results::soundness::Soundness;
use fullbore_results::statistics::Spread;

/// The measurements of one experiment so far.
pub struct Rounds {
    pub experiment: Experiment,
    figures: Vec<f64>,
    /// How far apart the CPUs were at each measurement, in nanoseconds, where that is known.
    lines: Vec<Option<f64>>,
    also: Vec<(&'static str, Unit, Vec<f64>)>,
    costs: Vec<(u64, CpuTime)>,
    notes: Vec<String>,
    writer: Option<EndpointReport>,
    reader: Option<EndpointReport>,
    into_file: Option<(u64, f64)>,
    pub soundness: Option<Soundness>,
    pub stopped: Option<Stop>,
    /// The C program that is measured next to it.
    pub peer: Option<Beside>,
}

impl Rounds {
    /// Returns the figure that was measured last, unless the experiment was given up.
    pub fn last_figure(&self) -> Option<f64> {
        self.figures
            .last()
            .copied()
            .filter(|_| self.stopped.is_none())
    }

    /// Creates the state of an experiment that has not run yet.
    pub fn new(experiment: Experiment) -> Self {
        Self {
            experiment,
            figures: Vec::new(),
            lines: Vec::new(),
            also: Vec::new(),
            costs: Vec::new(),
            notes: Vec::new(),
            writer: None,
            reader: None,
            into_file: None,
            soundness: None,
            stopped: None,
            peer: None,
        }
    }

    /// Adds a measurement, during which a cache line took `line` nanoseconds from one CPU to the other and
    /// back.
    pub fn take(&mut self, measurement: Measurement, line: Option<f64>) {
        match measurement {
            Ok(taken) => {
                self.figures.push(taken.figure);
                self.lines.push(line);
                for (name, unit, value) in taken.also {
                    match self.also.iter_mut().find(|(known, ..)| *known == name) {
                        Some((.., rounds)) => rounds.push(value),
                        None => self.also.push((name, unit, vec![value])),
                    }
                }
                self.costs.extend(taken.arrived.zip(taken.spent));
                for note in taken.notes {
                    if !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                }
                self.writer = taken.writer;
                self.reader = taken.reader;
                self.into_file = taken.into_file;
            }
            Err(stop) => self.stopped = Some(stop),
        }
    }
}

/// Turns the rounds of all experiments into outcomes, with the ratios of each table to its first experiment.
/// The CPUs count as near up to a distance of `near_up_to` nanoseconds.
pub fn outcomes(all: Vec<Rounds>, settings: &Settings, near_up_to: f64) -> Vec<Outcome> {
    let mut first_of_its_like: Option<(&Rounds, Option<f64>)> = None;
    all.iter()
        .map(|rounds| {
            let mut outcome = rounds.outcome(settings);
            let median = outcome.figure.as_ref().map(|spread| spread.median);
            let first = match &first_of_its_like {
                Some((first, figure)) if rounds.experiment.is_like(&first.experiment) => {
                    if outcome.figure.is_some() && figure.is_some() {
                        outcome.pairs = rounds.pairs_with(first, near_up_to);
                    }
                    *figure
                }
                _ => {
                    first_of_its_like = Some((rounds, median));
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

impl Rounds {
    /// Compares it with another experiment round by round: the rounds in which the CPUs were near each other
    /// in both measurements, and those in which they were apart in both.
    fn pairs_with(&self, base: &Rounds, near_up_to: f64) -> Vec<Pairs> {
        let unit = self.experiment.unit;
        let of = |rounds: &Rounds, at: usize| {
            (rounds.figures[at], rounds.lines.get(at).copied().flatten())
        };
        let of_both = [false, true].map(|apart| {
            let is_so = |line: Option<f64>| line.is_some_and(|ns| ns > near_up_to) == apart;
            let rounds = 0..self.figures.len().min(base.figures.len());
            let pairs: Vec<(f64, Vec<f64>)> = rounds
                .map(|at| (of(self, at), of(base, at)))
                .filter(|(own, other)| is_so(own.1) && is_so(other.1))
                .map(|(own, other)| {
                    let lines = own.1.into_iter().chain(other.1).collect();
                    (unit.times_as_fast(own.0, other.0), lines)
                })
                .collect();
            Pairs::of(apart, &pairs)
        });
        of_both.into_iter().flatten().collect()
    }

    /// Returns the outcome without its ratio.
    fn outcome(&self, settings: &Settings) -> Outcome {
        let experiment = &self.experiment;
        let (skipped, failed) = match &self.stopped {
            None => (None, None),
            Some(Stop::Skipped(reason)) => (Some(reason.clone()), None),
            Some(stop) => (None, Some(stop.to_string())),
        };
        // An experiment that broke half-way has no figure, because its earlier rounds may be wrong too.
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
            figure: spread(&self.figures),
            line_round_trip_ns: self
                .lines
                .iter()
                .copied()
                .collect::<Option<Vec<f64>>>()
                .and_then(|lines| spread(&lines)),
            also: also.collect(),
            cost: cost(&self.costs).filter(|_| is_whole),
            peer: self
                .peer
                .as_ref()
                .filter(|_| is_whole)
                .map(|beside| beside.outcome(&self.figures, experiment.unit)),
            soundness: self.soundness.clone(),
            writer: self.writer.clone(),
            reader: self.reader.clone(),
            skipped,
            failed,
            ..Outcome::default()
        };
        experiment.work.describe(&mut outcome, settings);
        if let (Some(_), Some(why)) = (settings.pipe_size, experiment.work.fixed_pipe_size()) {
            let note = format!("--pipe-size does not apply: {why}");
            outcome.notes.push(note);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::catalogue::sweep::Axes;

    #[test]
    fn ratios_are_to_the_first_of_the_group_and_broken_experiments_have_none() {
        let settings = Settings::new(3, 0.1, 0.0);
        let catalogue = Catalogue::new(&Axes::default());
        let mut all: Vec<Rounds> = catalogue.iter().take(3).map(|e| Rounds::new(*e)).collect();
        all[0].figures = vec![2.0, 1.0, 3.0];
        all[1].figures = vec![8.0];
        all[2].figures = vec![9.0];
        all[2].stopped = Some(Stop::Failed("killed".into()));
        let outcomes = outcomes(all, &settings, 100.0);
        assert_eq!(outcomes[0].ratio, Some(1.0));
        assert_eq!(outcomes[1].ratio, Some(4.0));
        assert_eq!(outcomes[2].ratio, None);
        assert_eq!(outcomes[2].figure, None);
        assert_eq!(outcomes[2].failed.as_deref(), Some("killed"));
        assert!(outcomes[0].pairs.is_empty() && outcomes[2].pairs.is_empty());
        assert_eq!(outcomes[1].pairs[0].ratio, 4.0);
    }

    #[test]
    fn pairs_are_of_one_distance() {
        let catalogue = Catalogue::new(&Axes::default());
        let mut all: Vec<Rounds> = catalogue.iter().take(2).map(|e| Rounds::new(*e)).collect();
        let rounds = [
            // The figures of a round, and the distances.
            ([1.0, 2.0], [60.0, 61.0]),
            ([1.0, 4.0], [60.0, 62.0]),
            ([0.5, 1.5], [400.0, 410.0]),
            // The CPUs were moved between the two measurements.
            ([1.0, 0.1], [60.0, 400.0]),
            ([0.1, 9.0], [400.0, 60.0]),
        ];
        for (figures, lines) in rounds {
            for (rounds, (figure, line)) in all.iter_mut().zip(figures.into_iter().zip(lines)) {
                rounds.figures.push(figure);
                rounds.lines.push(Some(line));
            }
        }
        let pairs = all[1].pairs_with(&all[0], 100.0);
        let found: Vec<_> = pairs.iter().map(|p| (p.apart, p.pairs, p.ratio)).collect();
        assert_eq!(found, [(false, 2, 3.0), (true, 1, 3.0)]);
        assert_eq!(pairs[1].line_round_trip_ns, Some(405.0));
    }
}

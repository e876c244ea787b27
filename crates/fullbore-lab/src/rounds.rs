//! Collects the rounds of each experiment and turns them into outcomes.

use crate::cpu_time::cost;
use crate::experiment::Experiment;
use crate::measurement::{Measured, Measurement, Stop};
use crate::peers::Beside;
use fullbore_results::run::{Also, Outcome, Settings, Unit};
use fullbore_results::soundness::Soundness;
use fullbore_results::statistics::Spread;

/// The measurements of one experiment so far.
pub struct Rounds {
    pub experiment: Experiment,
    taken: Vec<Measured>,
    pub soundness: Option<Soundness>,
    pub stopped: Option<Stop>,
    /// The C program that is measured next to it.
    pub peer: Option<Beside>,
}

impl Rounds {
    /// Returns the figure that was measured last, unless the experiment was given up.
    pub fn last_figure(&self) -> Option<f64> {
        Some(self.taken.last()?.figure)
    }

    /// Creates the state of an experiment that has not run yet.
    pub fn new(experiment: Experiment) -> Self {
        Self {
            experiment,
            taken: Vec::new(),
            soundness: None,
            stopped: None,
            peer: None,
        }
    }

    /// Adds a measurement.
    pub fn take(&mut self, measurement: Measurement) {
        match measurement {
            Ok(taken) => self.taken.push(taken),
            Err(stop) => {
                // An experiment that broke half-way has no figure, because its earlier rounds may be wrong too.
                self.taken.clear();
                self.stopped = Some(stop);
            }
        }
    }
}

/// Turns the rounds of all experiments into outcomes, with the ratios of each table to its first experiment.
pub fn outcomes(all: &[Rounds], settings: &Settings) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(all.len());
    // The experiments of a table are adjacent.
    for alike in all.chunk_by(|a, b| a.experiment.is_like(&b.experiment)) {
        let mut first = None;
        for rounds in alike {
            let mut outcome = rounds.outcome(settings);
            let median = outcome.figure.as_ref().map(|spread| spread.median);
            let both = median.zip(*first.get_or_insert(median));
            outcome.ratio = both.map(|(median, first)| outcome.unit.times_as_fast(median, first));
            outcomes.push(outcome);
        }
    }
    outcomes
}

impl Rounds {
    /// Returns the outcome without its ratio.
    fn outcome(&self, settings: &Settings) -> Outcome {
        let experiment = &self.experiment;
        let (skipped, failed) = match &self.stopped {
            None => (None, None),
            Some(Stop::Skipped(reason)) => (Some(reason.clone()), None),
            Some(stop) => (None, Some(stop.to_string())),
        };
        let figures: Vec<f64> = self.taken.iter().map(|taken| taken.figure).collect();
        let cost_of = |taken: &Measured| taken.arrived.zip(taken.spent);
        let costs: Vec<_> = self.taken.iter().filter_map(cost_of).collect();
        let mut also: Vec<(&str, Unit, Vec<f64>)> = Vec::new();
        for &(name, unit, value) in self.taken.iter().flat_map(|taken| &taken.also) {
            match also.iter_mut().find(|(known, ..)| *known == name) {
                Some((.., rounds)) => rounds.push(value),
                None => also.push((name, unit, vec![value])),
            }
        }
        let also = also.into_iter().filter_map(|(name, unit, rounds)| {
            Some(Also {
                name: name.into(),
                unit,
                figure: Spread::of(&rounds)?,
            })
        });
        let last = self.taken.last();
        let peer = self.peer.as_ref().filter(|_| self.stopped.is_none());
        let mut outcome = Outcome {
            group: experiment.group.into(),
            name: experiment.name.into(),
            shows: experiment.shows.into(),
            table: experiment.table.map(str::to_owned),
            unit: experiment.unit,
            published: experiment.published,
            figure: Spread::of(&figures),
            also: also.collect(),
            cost: cost(&costs),
            peer: peer.map(|beside| beside.outcome(&figures, experiment.unit)),
            soundness: self.soundness.clone(),
            writer: last.and_then(|last| last.writer.clone()),
            reader: last.and_then(|last| last.reader.clone()),
            skipped,
            failed,
            ..Outcome::default()
        };
        experiment.work.describe(&mut outcome, settings);
        if settings.pipe_size.is_some() && !experiment.takes_pipe_size {
            outcome.notes.push("--pipe-size does not apply".into());
        }
        let into_file = last.and_then(|last| last.into_file);
        if let (Some(mover), Some((bytes, seconds))) = (&mut outcome.mover, into_file) {
            (mover.bytes, mover.seconds) = (Some(bytes), Some(seconds));
        }
        for note in self.taken.iter().flat_map(|taken| &taken.notes) {
            if !outcome.notes.contains(note) {
                outcome.notes.push(note.clone());
            }
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

    #[test]
    fn ratios_are_to_the_first_of_the_group_and_broken_experiments_have_none() {
        let settings = Settings::new(3, 0.1, 0.0);
        let catalogue = Catalogue::default();
        let mut all: Vec<Rounds> = catalogue.iter().take(3).map(|e| Rounds::new(*e)).collect();
        for (at, figure) in [(0, 2.0), (0, 1.0), (0, 3.0), (1, 8.0), (2, 9.0)] {
            all[at].take(Ok(Measured {
                figure,
                ..Measured::default()
            }));
        }
        all[2].take(Err(Stop::Failed("killed".into())));
        let outcomes = outcomes(&all, &settings);
        assert_eq!(outcomes[0].ratio, Some(1.0));
        assert_eq!(outcomes[1].ratio, Some(4.0));
        assert_eq!(outcomes[2].ratio, None);
        assert_eq!(outcomes[2].figure, None);
        assert_eq!(outcomes[2].failed.as_deref(), Some("killed"));
    }
}

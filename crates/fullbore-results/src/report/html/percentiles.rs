//! Percentiles of a group of experiments as dots, and in words.

use crate::report::svg::dots::{Dot, Dots, Dotted};
use crate::report::{NOISY_MARK, figure, is_noisy, one_line, reason};
use crate::run::Outcome;

/// The percentiles beside the median: names of further figures, such as `p99`, that are in its unit.
pub struct Percentiles<'a>(Vec<&'a str>);

impl<'a> Percentiles<'a> {
    /// The most of them that have dots of their own.
    const MOST: usize = 2;

    /// Returns the percentiles that these experiments have; `None` where they have none.
    pub fn of(outcomes: &[&'a Outcome]) -> Option<Percentiles<'a>> {
        let mut names: Vec<&str> = Vec::new();
        for outcome in outcomes {
            for also in &outcome.also {
                let number = also
                    .name
                    .strip_prefix('p')
                    .and_then(|n| n.parse::<f64>().ok());
                if number.is_some() && also.unit == outcome.unit && !names.contains(&&*also.name) {
                    names.push(&also.name);
                }
            }
        }
        names.truncate(Self::MOST);
        (!names.is_empty()).then_some(Percentiles(names))
    }

    /// Returns the percentiles of an outcome: names and figures, the median first.
    fn figures(&self, outcome: &Outcome) -> Vec<(&'a str, f64)> {
        let median = outcome
            .figure
            .as_ref()
            .map(|spread| ("median", spread.median));
        let others = self.0.iter().filter_map(|name| {
            let also = outcome.also.iter().find(|also| also.name == *name)?;
            Some((*name, also.figure.median))
        });
        median.into_iter().chain(others).collect()
    }

    fn dot(&self, name: &str) -> Dot {
        match self.0.iter().position(|known| *known == name) {
            None => Dot::Middle,
            Some(0) => Dot::Later,
            Some(_) => Dot::Last,
        }
    }

    pub fn dots(&self, unit: &'static str, outcomes: &[&Outcome]) -> Dots {
        let names = ["median"].into_iter().chain(self.0.iter().copied());
        let rows = outcomes.iter().map(|outcome| {
            let figures = self.figures(outcome);
            let words = if figures.is_empty() {
                reason(outcome)
            } else {
                let figures: Vec<String> = figures.iter().map(|(_, f)| figure(*f)).collect();
                let mark = if is_noisy(outcome) { NOISY_MARK } else { "" };
                format!("{mark}{}", figures.join(" · "))
            };
            let dots = figures
                .iter()
                .map(|(name, f)| (self.dot(name), *f))
                .collect();
            (outcome.name.clone(), vec![Dotted { dots, words }])
        });
        Dots {
            unit,
            legend: names
                .map(|name| (self.dot(name), name.to_owned()))
                .collect(),
            rows: rows.collect(),
            ratios: false,
        }
    }

    pub fn in_words(&self, name: &str, unit: &str, outcomes: &[&Outcome]) -> String {
        let each: Vec<String> = outcomes
            .iter()
            .map(|outcome| {
                let figures: Vec<String> = self
                    .figures(outcome)
                    .iter()
                    .map(|(name, f)| format!("{name} {}", figure(*f)))
                    .collect();
                if figures.is_empty() {
                    format!("{} {}", outcome.name, reason(outcome))
                } else {
                    format!("{} {}", outcome.name, figures.join(", "))
                }
            })
            .collect();
        one_line(&format!("{name}, dots in {unit}: {}.", each.join("; ")))
    }
}

//! What the columns of a table show of an experiment, on a terminal and on the page.

use super::{figure, marked_median, percent};
use crate::run::{Limit, Outcome, Unit};

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Name,
    Median,
    /// The least and the most.
    Range,
    /// A further figure, by its index; in a layout, all of them.
    Also(usize),
    Ratio,
    /// CPU seconds for each GiB, and the parts in user mode and in the kernel.
    Cost,
    /// How much it is of what the two CPUs can do.
    Limit,
    Published,
    /// How many times as fast this was as the program in C that does the same.
    Peer,
    Soundness,
    /// A bar, whose length depends on the other experiments.
    Bar,
}

/// Every column, in the order of tables. Each is shown if any of the experiments has something in it.
pub const ALL: &[Field] = &[
    Field::Name,
    Field::Median,
    Field::Range,
    Field::Also(0),
    Field::Ratio,
    Field::Cost,
    Field::Limit,
    Field::Published,
    Field::Peer,
    Field::Soundness,
    Field::Bar,
];

impl Field {
    /// Returns whether it is a number, which is aligned right.
    pub fn is_number(self) -> bool {
        !matches!(self, Field::Name | Field::Soundness | Field::Bar)
    }
}

/// What is shown only on request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Whether to show what a GiB costs.
    pub cost: bool,
    /// The limit, if shares of it are shown.
    pub limit: Option<&'a Limit>,
}

/// The fields of a table's experiments.
pub struct Fields<'a> {
    unit: Unit,
    /// The further figures that any of them has.
    also: Vec<(&'a str, Unit)>,
    wanted: Wanted<'a>,
}

impl<'a> Fields<'a> {
    /// Returns the fields, of which some are shown only if they are wanted.
    pub fn of(outcomes: &[&'a Outcome], wanted: Wanted<'a>) -> Fields<'a> {
        let mut also: Vec<(&str, Unit)> = Vec::new();
        for figure in outcomes.iter().flat_map(|outcome| &outcome.also) {
            if also.iter().all(|(known, _)| *known != figure.name) {
                also.push((&figure.name, figure.unit));
            }
        }
        let unit = outcomes
            .first()
            .map_or(Unit::default(), |outcome| outcome.unit);
        Fields { unit, also, wanted }
    }

    /// Returns the fields of a layout that have something to show.
    pub fn with_content(&self, layout: &[Field], outcomes: &[&Outcome]) -> Vec<Field> {
        let each = layout.iter().flat_map(|field| match field {
            Field::Also(_) => (0..self.also.len()).map(Field::Also).collect(),
            field => vec![*field],
        });
        let has_text = |field: Field| outcomes.iter().any(|o| !self.text(field, o).is_empty());
        each.filter(|field| *field == Field::Bar || has_text(*field))
            .collect()
    }

    pub fn heading(&self, field: Field) -> String {
        match field {
            Field::Name => "experiment",
            Field::Median => self.unit.name(),
            Field::Range => "min–max",
            Field::Also(index) => {
                let (name, unit) = self.also[index];
                return format!("{name} {}", unit.name());
            }
            Field::Ratio => "ratio",
            Field::Cost => "CPU s/GiB (user + system)",
            Field::Limit => "of limit",
            Field::Published => "published",
            Field::Peer => "to C",
            Field::Soundness => "bytes",
            Field::Bar => "",
        }
        .to_owned()
    }

    /// Returns the number of a field, by which it is sorted.
    pub fn number(&self, field: Field, outcome: &Outcome) -> Option<f64> {
        let spread = outcome.figure.as_ref();
        match field {
            Field::Median => Some(spread?.median),
            Field::Also(index) => {
                let (name, _) = self.also[index];
                let also = outcome.also.iter().find(|also| also.name == name)?;
                Some(also.figure.median)
            }
            Field::Ratio => outcome.ratio,
            Field::Range => Some(spread?.min),
            Field::Cost => Some(outcome.cost.as_ref()?.total.median),
            Field::Limit => outcome.share_of(self.wanted.limit?),
            Field::Published => outcome.published,
            Field::Peer => outcome.peer.as_ref()?.ratio,
            _ => None,
        }
    }

    /// Returns what a field shows; empty if there is nothing.
    pub fn text(&self, field: Field, outcome: &Outcome) -> String {
        let text = match field {
            Field::Name => Some(outcome.name.clone()),
            Field::Median => Some(marked_median(outcome)),
            Field::Range => outcome.figure.as_ref().map(|spread| {
                let (least, most) = (figure(spread.min), figure(spread.max));
                format!("{least}–{most}")
            }),
            Field::Cost => outcome
                .cost
                .as_ref()
                .filter(|_| self.wanted.cost)
                .map(|cost| {
                    let parts = [&cost.total, &cost.user, &cost.system];
                    let [total, user, system] = parts.map(|part| figure(part.median));
                    format!("{total} ({user} + {system})")
                }),
            Field::Soundness => outcome.soundness.as_ref().map(|soundness| {
                let word = if soundness.right { "right" } else { "WRONG" };
                word.to_owned()
            }),
            Field::Peer => outcome.peer.as_ref().map(|peer| match peer.ratio {
                Some(ratio) => format!("{ratio:.2}×"),
                None => "failed".to_owned(),
            }),
            _ => self.number(field, outcome).map(|number| match field {
                Field::Ratio => format!("{}×", figure(number)),
                Field::Limit => percent(number),
                _ => figure(number),
            }),
        };
        text.unwrap_or_default()
    }
}

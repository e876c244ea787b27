//! What the columns of a table show of an experiment, on a terminal and on the page.

use super::{figure, marked_median, percent};
use crate::run::{Cost, Limit, Outcome, Unit};
use fullbore_host::size;

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Name,
    /// Where it stands in a sweep.
    Chunk,
    PipeSize,
    Median,
    Least,
    Most,
    /// The least and the most.
    Range,
    /// A further figure, by its index; in a layout, all of them.
    Also(usize),
    Ratio,
    /// The ratio pair by pair, with the CPUs near each other or, if this is `true`, far apart.
    Pairs(bool),
    /// CPU seconds for each GiB, by themselves and with the parts in user mode and in the kernel.
    CpuSeconds,
    UserSeconds,
    SystemSeconds,
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

impl Field {
    /// Returns whether it is a number, which is aligned right.
    pub fn is_number(self) -> bool {
        !matches!(self, Field::Name | Field::Soundness | Field::Bar)
    }
}

/// The fields of a table's experiments.
pub struct Fields<'a> {
    unit: Unit,
    /// The further figures that any of them has.
    also: Vec<(&'a str, Unit)>,
    limit: Option<&'a Limit>,
}

impl<'a> Fields<'a> {
    /// Returns the fields; shares of the limit only if there is one.
    pub fn of(outcomes: &[&'a Outcome], limit: Option<&'a Limit>) -> Fields<'a> {
        let mut also: Vec<(&str, Unit)> = Vec::new();
        for figure in outcomes.iter().flat_map(|outcome| &outcome.also) {
            if also.iter().all(|(known, _)| *known != figure.name) {
                also.push((&figure.name, figure.unit));
            }
        }
        let unit = outcomes
            .first()
            .map_or(Unit::default(), |outcome| outcome.unit);
        Fields { unit, also, limit }
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
            Field::Chunk => "bytes of a call",
            Field::PipeSize => "pipe",
            Field::Median => self.unit.name(),
            Field::Least => "least",
            Field::Most => "most",
            Field::Range => "min–max",
            Field::Also(index) => {
                let (name, unit) = self.also[index];
                return format!("{name} {}", unit.name());
            }
            Field::Ratio => "ratio",
            Field::Pairs(false) => "pair by pair",
            Field::Pairs(true) => "with far CPUs",
            Field::CpuSeconds => "CPU s/GiB",
            Field::UserSeconds => "user",
            Field::SystemSeconds => "system",
            Field::Cost => "CPU s/GiB (user + system)",
            Field::Limit => "of limit",
            Field::Published => "published",
            Field::Peer => "to C",
            Field::Soundness => "bytes",
            Field::Bar => "",
        }
        .to_owned()
    }

    /// Returns the number of a field, if it is a single one.
    pub fn number(&self, field: Field, outcome: &Outcome) -> Option<f64> {
        let spread = outcome.figure.as_ref();
        let cost = |of: fn(&Cost) -> f64| outcome.cost.as_ref().map(of);
        match field {
            Field::Chunk => Some(outcome.cell?.chunk as f64),
            Field::PipeSize => Some(outcome.cell?.pipe_size as f64),
            Field::Median => Some(spread?.median),
            Field::Least => Some(spread?.min),
            Field::Most => Some(spread?.max),
            Field::Also(index) => {
                let (name, _) = self.also[index];
                let also = outcome.also.iter().find(|also| also.name == name)?;
                Some(also.figure.median)
            }
            Field::Ratio => outcome.ratio,
            Field::CpuSeconds => cost(|cost| cost.total.median),
            Field::UserSeconds => cost(|cost| cost.user.median),
            Field::SystemSeconds => cost(|cost| cost.system.median),
            Field::Limit => outcome.share_of(self.limit?),
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
            Field::Range => self
                .figures(outcome, [Field::Least, Field::Most])
                .map(|all| all.join("–")),
            Field::Cost => {
                let parts = [Field::CpuSeconds, Field::UserSeconds, Field::SystemSeconds];
                let parts = self.figures(outcome, parts);
                parts.map(|[total, user, system]| format!("{total} ({user} + {system})"))
            }
            Field::Pairs(apart) => pairs(outcome, apart),
            Field::Soundness => outcome.soundness.as_ref().map(|soundness| {
                let word = if soundness.right { "right" } else { "WRONG" };
                word.to_owned()
            }),
            Field::Peer
                if outcome
                    .peer
                    .as_ref()
                    .is_some_and(|peer| peer.ratio.is_none()) =>
            {
                Some("failed".to_owned())
            }
            _ => self.number(field, outcome).map(|number| match field {
                Field::Chunk | Field::PipeSize => size::format(number as u64),
                Field::Ratio => format!("{}×", figure(number)),
                Field::Peer => format!("{number:.2}×"),
                Field::Limit => percent(number),
                _ => figure(number),
            }),
        };
        text.unwrap_or_default()
    }

    /// Returns several numbers as text; `None` unless all are there.
    fn figures<const N: usize>(
        &self,
        outcome: &Outcome,
        fields: [Field; N],
    ) -> Option<[String; N]> {
        let texts = fields.map(|field| self.text(field, outcome));
        texts.iter().all(|text| !text.is_empty()).then_some(texts)
    }
}

/// Returns the ratio of the pairs, with its interval.
fn pairs(outcome: &Outcome, apart: bool) -> Option<String> {
    let pairs = outcome.pairs.iter().find(|pairs| pairs.apart == apart)?;
    let ratio = figure(pairs.ratio);
    Some(match pairs.interval.map(|ends| ends.map(figure)) {
        Some([low, high]) => format!("{ratio}× ({low}–{high})"),
        None => format!("{ratio}×"),
    })
}

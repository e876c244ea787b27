//! The columns of tables, on a terminal and on the page, and those of a run.

use super::{figure, marked_median, percent};
use crate::run::{Limit, Outcome, Unit};
use fullbore_host::text;

/// A column.
pub struct Field {
    pub heading: String,
    /// Whether its cells are numbers, which are aligned right.
    pub is_number: bool,
    /// How many layouts of a terminal have it, from the widest on.
    pub layouts: usize,
    /// What it shows in each row.
    pub cells: Vec<Shown>,
}

/// A text, which is empty if there is nothing to show, and the number by which it is sorted.
pub type Shown = (String, Option<f64>);

impl Field {
    pub fn of<Row>(
        (heading, is_number, layouts): (&str, bool, usize),
        rows: &[&Row],
        cell: impl Fn(&Row) -> Option<Shown>,
    ) -> Field {
        let cells = rows.iter().map(|row| cell(row));
        Field {
            heading: heading.to_owned(),
            is_number,
            layouts,
            cells: cells.map(Option::unwrap_or_default).collect(),
        }
    }

    /// Returns a column of words, which are not sorted by a number.
    pub fn words<Row>(
        (heading, layouts): (&str, usize),
        rows: &[&Row],
        words: impl Fn(&Row) -> String,
    ) -> Field {
        Field::of((heading, false, layouts), rows, |row| {
            Some((words(row), None))
        })
    }

    /// Returns how many columns of a terminal it takes.
    pub fn width(&self) -> usize {
        let texts = self.cells.iter().map(|(text, _)| text);
        let widths = texts.chain([&self.heading]).map(|text| text::columns(text));
        widths.max().unwrap_or(0)
    }
}

/// The number of layouts, the last of which has only what every table has to have.
pub const LAYOUTS: usize = 6;

const COST: &str = "CPU s/GiB (user + system)";

/// What is shown only on request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Whether to show what a GiB costs.
    pub cost: bool,
    /// The limit, if shares of it are shown.
    pub limit: Option<&'a Limit>,
}

/// Returns the columns in which any of the experiments has something to show.
pub fn fields(outcomes: &[&Outcome], wanted: Wanted<'_>) -> Vec<Field> {
    let unit = outcomes.first().map_or(Unit::default(), |first| first.unit);
    let mut fields = vec![
        Field::words(("experiment", LAYOUTS), outcomes, |outcome| {
            outcome.name.clone()
        }),
        Field::of((unit.name(), true, LAYOUTS), outcomes, |outcome| {
            Some((marked_median(outcome), Some(outcome.median()?)))
        }),
        Field::of(("min–max", true, 1), outcomes, |outcome| {
            let spread = outcome.figure.as_ref()?;
            let (least, most) = (figure(spread.min), figure(spread.max));
            Some((format!("{least}–{most}"), Some(spread.min)))
        }),
    ];
    for also in outcomes.iter().flat_map(|outcome| &outcome.also) {
        let heading = format!("{} {}", also.name, also.unit.name());
        if fields.iter().all(|field| field.heading != heading) {
            fields.push(Field::of((&heading, true, 4), outcomes, |outcome| {
                let mut all = outcome.also.iter();
                let median = all.find(|one| one.name == also.name)?.figure.median;
                Some((figure(median), Some(median)))
            }));
        }
    }
    fields.extend([
        Field::of(("ratio", true, 5), outcomes, |outcome| {
            let ratio = outcome.ratio?;
            Some((format!("{}×", figure(ratio)), Some(ratio)))
        }),
        Field::of((COST, true, 5), outcomes, |outcome| {
            let cost = outcome.cost.as_ref().filter(|_| wanted.cost)?;
            let parts = [&cost.total, &cost.user, &cost.system];
            let [total, user, system] = parts.map(|part| figure(part.median));
            let text = format!("{total} ({user} + {system})");
            Some((text, Some(cost.total.median)))
        }),
        Field::of(("of limit", true, 5), outcomes, |outcome| {
            let share = outcome.share_of(wanted.limit?)?;
            Some((percent(share), Some(share)))
        }),
        Field::of(("published", true, 3), outcomes, |outcome| {
            let published = outcome.published?;
            Some((figure(published), Some(published)))
        }),
        Field::of(("to C", true, 3), outcomes, |outcome| {
            let ratio = outcome.peer.as_ref()?.ratio;
            let text = ratio.map(|ratio| format!("{ratio:.2}×"));
            Some((text.unwrap_or("failed".to_owned()), ratio))
        }),
        Field::of(("bytes", false, LAYOUTS), outcomes, |outcome| {
            let word = match outcome.soundness.as_ref()?.right {
                true => "right",
                false => "WRONG",
            };
            Some((word.to_owned(), None))
        }),
    ]);
    fields.retain(|field| field.cells.iter().any(|(text, _)| !text.is_empty()));
    fields
}

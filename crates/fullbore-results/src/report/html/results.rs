//! The table of what was measured in a group, row by row.

use super::page::{Cell, Column, Table};
use crate::report::chart::which_is_better;
use crate::report::fields::{Field, Fields, Wanted};
use crate::report::footnotes::Footnotes;
use crate::report::{measured, one_line};
use crate::run::{Limit, Outcome};

/// The columns, each of which is shown if any of the experiments has something in it.
const LAYOUT: [Field; 10] = [
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
];

/// Returns the table of the experiments that have a figure; `None` where none has.
pub fn results(
    id: &str,
    name: &str,
    outcomes: &[&Outcome],
    limit: Option<&Limit>,
) -> Option<Table> {
    let measured = measured(outcomes);
    let unit = measured.first()?.unit;
    let footnotes = Footnotes::of(&measured);
    let fields = Fields::of(&measured, Wanted { cost: true, limit });
    let shown = fields.with_content(&LAYOUT, &measured);
    let cell = |field: Field, outcome: &Outcome| {
        let text = fields.text(field, outcome);
        let class = match (field, text.as_str()) {
            (Field::Name, _) => return named(outcome, &footnotes),
            (Field::Soundness, "WRONG") => "bad",
            (Field::Soundness, _) => "good",
            _ => "number",
        };
        let key = fields.number(field, outcome);
        Cell {
            text,
            key,
            class,
            ..Cell::default()
        }
    };
    let rows = measured.iter();
    let rows = rows
        .map(|outcome| shown.iter().map(|field| cell(*field, outcome)).collect())
        .collect();
    let columns = shown.iter().map(|field| Column {
        heading: match field {
            Field::Median => format!("median {}", unit.name()),
            field => fields.heading(*field),
        },
        numeric: field.is_number(),
    });
    Some(Table {
        id: format!("{id}-table"),
        caption: format!("{}, {}", one_line(name), which_is_better(unit)),
        columns: columns.collect(),
        rows,
        notes: footnotes.0,
    })
}

/// Returns the name of an experiment with what it shows and the numbers of its notes.
fn named(outcome: &Outcome, footnotes: &Footnotes) -> Cell {
    Cell {
        below: outcome.shows.clone(),
        notes: footnotes.numbers(outcome),
        ..Cell::text(&outcome.name)
    }
}

//! The table of what was measured in a group, row by row.

use super::page::{Cell, Column, Table};
use crate::report::chart::which_is_better;
use crate::report::fields::{ALL, Field, Fields, Wanted};
use crate::report::{measured, one_line};
use crate::run::{Limit, Outcome};

/// Returns the table of the experiments that have a figure; `None` where none has.
pub fn results(name: &str, outcomes: &[&Outcome], limit: Option<&Limit>) -> Option<Table> {
    let measured = measured(outcomes);
    let unit = measured.first()?.unit;
    let fields = Fields::of(&measured, Wanted { cost: true, limit });
    let mut shown = fields.with_content(ALL, &measured);
    shown.retain(|field| *field != Field::Bar);
    let cell = |field: Field, outcome: &Outcome| {
        let text = fields.text(field, outcome);
        let class = match (field, text.as_str()) {
            (Field::Name, _) => {
                return Cell {
                    below: outcome.shows.clone(),
                    ..Cell::text(&outcome.name)
                };
            }
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
        caption: format!("{}, {}", one_line(name), which_is_better(unit)),
        columns: columns.collect(),
        rows,
    })
}

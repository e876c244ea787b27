//! The table of what was measured in a group, row by row.

use super::page::{Cell, Column, Table};
use crate::report::chart::which_is_better;
use crate::report::fields::{Field, Wanted, fields};
use crate::report::{measured, one_line};
use crate::run::{Limit, Outcome};

/// Returns the table of the experiments that have a figure; `None` where none has.
pub fn results(name: &str, outcomes: &[&Outcome], limit: Option<&Limit>) -> Option<Table> {
    let measured = measured(outcomes);
    let unit = measured.first()?.unit;
    let fields = fields(&measured, Wanted { cost: true, limit });
    let row = |(at, outcome): (usize, &&Outcome)| {
        let mut cells: Vec<Cell> = fields.iter().map(|field| cell(field, at)).collect();
        cells[0].below = outcome.shows.clone();
        cells
    };
    let columns = fields.iter().map(|field| Column {
        heading: field.heading.clone(),
        numeric: field.is_number,
    });
    Some(Table {
        caption: format!("{}, {}", one_line(name), which_is_better(unit)),
        columns: columns.collect(),
        rows: measured.iter().enumerate().map(row).collect(),
    })
}

fn cell(field: &Field, at: usize) -> Cell {
    let (text, key) = field.cells[at].clone();
    let class = match text.as_str() {
        _ if field.is_number => "number",
        "WRONG" => "bad",
        _ => "good",
    };
    Cell {
        text,
        key,
        class,
        ..Cell::default()
    }
}

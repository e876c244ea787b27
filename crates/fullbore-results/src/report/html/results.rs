//! The table of what was measured in a group, row by row.

use super::page::Table;
use crate::report::chart::which_is_better;
use crate::report::fields::{Wanted, fields};
use crate::report::{measured, one_line};
use crate::run::{Limit, Outcome};

/// Returns the table of the experiments that have a figure; `None` where none has.
pub fn results(name: &str, outcomes: &[&Outcome], limit: Option<&Limit>) -> Option<Table> {
    let measured = measured(outcomes);
    let better = which_is_better(measured.first()?.unit);
    let fields = fields(&measured, Wanted { cost: true, limit });
    let mut table = Table::of(format!("{}, {better}", one_line(name)), fields);
    for (row, outcome) in table.rows.iter_mut().zip(measured) {
        row[0].below = outcome.shows.clone();
    }
    Some(table)
}

//! The comparison as CSV (RFC 4180): a header, and one row for each figure and further run.
//!
//! A field is empty where there is no value. Figures have all their digits.

use std::io;

use serde::Serialize;

use super::comparison::{ComparedFigure, Comparison, Verdict};
use crate::report::Report;
use crate::report::csv::{Csv, write_records};

/// One record; the names of the fields are the header.
#[derive(Default, Serialize)]
struct PairRecord<'a> {
    group: &'a str,
    name: &'a str,
    /// Which figure, such as `p99`; empty for the main one.
    figure: &'a str,
    unit: &'static str,
    first_file: &'a str,
    further_file: &'a str,
    first_median: Option<f64>,
    first_min: Option<f64>,
    first_max: Option<f64>,
    first_rounds: usize,
    further_median: Option<f64>,
    further_min: Option<f64>,
    further_max: Option<f64>,
    further_rounds: usize,
    ratio: Option<f64>,
    p: Option<f64>,
    verdict: Option<Verdict>,
    /// Why one of the two has no figure, and the notes, between `; `.
    notes: String,
}

impl Report<Comparison> for Csv {
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        let rows = comparison.rows.iter();
        let records = rows.flat_map(|row| {
            (1..row.runs.len()).map(|further| PairRecord::of(comparison, row, further))
        });
        write_records(records, out)
    }
}

impl<'a> PairRecord<'a> {
    /// Compares a further run, by its index, with the first.
    fn of(comparison: &'a Comparison, row: &'a ComparedFigure, index: usize) -> Self {
        let (first, further) = (&row.runs[0], &row.runs[index]);
        let pair = &row.to_first[index - 1];
        let reasons = [first, further].into_iter().filter_map(|run| run.reason());
        let notes: Vec<String> = reasons.chain(row.notes.iter().cloned()).collect();
        Self {
            group: &row.group,
            name: &row.name,
            figure: row.figure.as_deref().unwrap_or_default(),
            unit: match (first.unit, further.unit) {
                (Some(one), Some(other)) if one != other => "",
                (one, other) => one.or(other).map_or("", |unit| unit.name()),
            },
            first_file: &comparison.runs[0].file,
            further_file: &comparison.runs[index].file,
            first_median: first.median,
            first_min: first.min,
            first_max: first.max,
            first_rounds: first.rounds,
            further_median: further.median,
            further_min: further.min,
            further_max: further.max,
            further_rounds: further.rounds,
            ratio: pair.ratio,
            p: pair.p,
            verdict: Some(pair.verdict),
            notes: notes.join("; "),
        }
    }
}

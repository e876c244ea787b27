//! The comparison as CSV (RFC 4180): a header, and one row for each figure and further run.
//!
//! A field is empty where there is no value. Figures have all their digits.

use std::io;

use serde::Serialize;

use super::comparison::{Comparison, Verdict};
use crate::report::Report;
use crate::report::csv::{Csv, io_error};

/// One record; the names of the fields are the header.
#[derive(Serialize)]
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
    verdict: Verdict,
    /// Why one of the two has no figure, and the notes, between `; `.
    notes: String,
}

const HEADER: [&str; 18] = [
    "group",
    "name",
    "figure",
    "unit",
    "first_file",
    "further_file",
    "first_median",
    "first_min",
    "first_max",
    "first_rounds",
    "further_median",
    "further_min",
    "further_max",
    "further_rounds",
    "ratio",
    "p",
    "verdict",
    "notes",
];

impl Report<Comparison> for Csv {
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        let mut rows = ::csv::Writer::from_writer(out);
        if comparison.rows.is_empty() {
            rows.write_record(HEADER).map_err(io_error)?;
        }
        for row in &comparison.rows {
            let first = &row.runs[0];
            for (index, pair) in row.to_first.iter().enumerate() {
                let further = &row.runs[index + 1];
                let reasons = [first, further].into_iter().filter_map(|run| run.reason());
                let notes: Vec<String> = reasons.chain(row.notes.iter().cloned()).collect();
                rows.serialize(PairRecord {
                    group: &row.group,
                    name: &row.name,
                    figure: row.figure.as_deref().unwrap_or_default(),
                    unit: match (first.unit, further.unit) {
                        (Some(one), Some(other)) if one != other => "",
                        (one, other) => one.or(other).map_or("", |unit| unit.name()),
                    },
                    first_file: &comparison.runs[0].file,
                    further_file: &comparison.runs[index + 1].file,
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
                    verdict: pair.verdict,
                    notes: notes.join("; "),
                })
                .map_err(io_error)?;
            }
        }
        rows.flush()
    }
}

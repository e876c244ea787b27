//! The comparison as one HTML page, with the same parts as that of a run, but without charts: for each group
//! a table that sorts.

use std::io;

use askama::Template;

use super::comparison::{ComparedFigure, ComparedRun, Comparison, Verdict};
use super::words::{closing, described, missing, name, number, row_name, tables, unit};
use crate::report::html::Html;
use crate::report::html::page::{Cell, Column, Page, Section, Table};
use crate::report::{Report, one_line};

impl Report<Comparison> for Html {
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        let runs = &comparison.runs;
        let further: Vec<&str> = runs[1..].iter().map(|run| run.file.as_str()).collect();
        let sections = tables(comparison).enumerate();
        let sections = sections.map(|(index, rows)| section(index, runs, rows));
        let differences = &comparison.differences;
        let page = Page {
            title: format!("{} beside {}", further.join(", "), runs[0].file),
            conclusion: in_short(comparison),
            doubts: comparison.warnings.clone(),
            lead: runs
                .iter()
                .map(|run| format!("{}: {}", run.label, described(run)))
                .collect(),
            sections: sections.collect(),
            heading_of_facts: format!(
                "Facts that are not the same in all runs ({})",
                differences.len()
            ),
            facts: facts(comparison),
            method: closing(comparison),
        };
        page.write_into(out)
    }
}

/// Returns each fact in which the runs differ, with its value in each.
fn facts(comparison: &Comparison) -> Vec<(String, String)> {
    let values = |values: &[Option<String>]| {
        let labelled = comparison.runs.iter().zip(values);
        let labelled = labelled.map(|(run, value)| {
            format!("{}: {}", run.label, value.as_deref().unwrap_or("unknown"))
        });
        labelled.collect::<Vec<_>>().join("; ")
    };
    let facts = comparison.differences.iter();
    facts
        .map(|difference| (difference.fact.clone(), values(&difference.values)))
        .collect()
}

/// Returns how many figures of each further run have which verdict, a sentence each.
fn in_short(comparison: &Comparison) -> Vec<String> {
    let sentence = |(index, run): (usize, &ComparedRun)| {
        let of = |verdict: &Verdict| {
            let pairs = comparison.rows.iter().map(|row| &row.to_first[index]);
            let count = pairs.filter(|pair| pair.verdict == *verdict).count();
            (count > 0).then(|| format!("{count} {}", verdict.words()))
        };
        let parts: Vec<String> = Verdict::ALL.iter().filter_map(of).collect();
        format!(
            "{} beside {}, of {} figures: {}",
            run.label,
            comparison.runs[0].label,
            comparison.rows.len(),
            parts.join(", ")
        )
    };
    let further = comparison.runs[1..].iter();
    further.enumerate().map(sentence).collect()
}

/// Returns a group, or one table of it.
fn section<'a>(index: usize, runs: &[ComparedRun], rows: &[ComparedFigure]) -> Section<'a> {
    let id = format!("group-{}", index + 1);
    let heading = one_line(&name(&rows[0]));
    Section {
        table: Some(table(&heading, runs, rows)),
        remarks: missing(rows).collect(),
        id,
        heading,
        ..Section::default()
    }
}

/// Returns the sign that stands before a verdict's words, and its class.
fn looks(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Faster => ("▲", "good"),
        Verdict::Slower => ("▼", "bad"),
        Verdict::WithinNoise => ("≈", ""),
        Verdict::TooFewRounds => ("?", ""),
        Verdict::NotComparable => ("–", ""),
    }
}

fn table(name: &str, runs: &[ComparedRun], rows: &[ComparedFigure]) -> Table {
    let first = &runs[0].label;
    let mut columns = vec![Column::words("experiment"), Column::words("unit")];
    columns.extend(runs.iter().map(|run| Column::numbers(&run.label)));
    for ComparedRun { label, .. } in &runs[1..] {
        columns.push(Column::numbers(format!("{label} to {first}")));
        columns.push(Column::words(format!("{label} is")));
    }
    let row = |row: &ComparedFigure| {
        let mut cells = vec![Cell::text(row_name(row)), Cell::text(unit(row))];
        let medians = row.runs.iter().map(|run| run.median);
        cells.extend(medians.map(|median| Cell::number(median, number)));
        for pair in &row.to_first {
            let (sign, class) = looks(pair.verdict);
            cells.push(Cell::number(pair.ratio, |ratio| {
                format!("{}×", number(ratio))
            }));
            cells.push(Cell {
                class,
                ..Cell::text(format!("{sign} {}", pair.verdict.words()))
            });
        }
        cells
    };
    Table {
        caption: format!("{name}: medians, and how many times as fast as {first}"),
        columns,
        rows: rows.iter().map(row).collect(),
    }
}

//! The comparison as one HTML page, with the same parts as that of a run, but without charts: for each group
//! a table that sorts.

use std::io;

use askama::Template;

use super::comparison::{ComparedFigure, ComparedRun, Comparison, Verdict};
use super::words::{closing, described, name, number, row_name, tables, unit};
use crate::report::html::Html;
use crate::report::html::page::{Cell, Column, Page, Section, Table};
use crate::report::{Report, one_line};

impl Report<Comparison> for Html {
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        let sections = tables(comparison).enumerate();
        let sections = sections.map(|(index, rows)| section(index, comparison, rows));
        let differences = &comparison.differences;
        let page = Page {
            title: title(comparison),
            conclusion: in_short(comparison),
            doubts: doubts(comparison),
            lead: comparison
                .runs
                .iter()
                .map(|run| format!("{}: {}", run.label, described(run)))
                .collect(),
            sections: sections.chain(not_alike(comparison)).collect(),
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

/// Returns why the runs may not be comparable, a sentence each.
fn doubts(comparison: &Comparison) -> Vec<String> {
    let facts: Vec<&str> = comparison
        .differences
        .iter()
        .map(|d| d.fact.as_str())
        .collect();
    let differ = (!facts.is_empty()).then(|| format!("the runs differ in: {}", facts.join(", ")));
    comparison.warnings.iter().cloned().chain(differ).collect()
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

fn title(comparison: &Comparison) -> String {
    let files: Vec<&str> = comparison
        .runs
        .iter()
        .map(|run| run.file.as_str())
        .collect();
    match files.as_slice() {
        [first, further] => format!("{further} beside {first}"),
        [first, further @ ..] => format!("{} runs beside {first}", further.len()),
        [] => "No runs".into(),
    }
}

/// Returns how many figures of each further run are faster and slower, a sentence each.
fn in_short(comparison: &Comparison) -> Vec<String> {
    let Some((first, further)) = comparison.runs.split_first() else {
        return Vec::new();
    };
    let sentence = |(index, run): (usize, &ComparedRun)| {
        let count = |verdict: Verdict| {
            let pairs = comparison.rows.iter().map(|row| &row.to_first[index]);
            pairs.filter(|pair| pair.verdict == verdict).count()
        };
        let counts = [
            (Verdict::Faster, "faster"),
            (Verdict::Slower, "slower"),
            (Verdict::WithinNoise, "within noise"),
            (Verdict::TooFewRounds, "with too few rounds to tell"),
            (Verdict::NotComparable, "not comparable"),
        ];
        let counts = counts
            .iter()
            .map(|(verdict, words)| (count(*verdict), words));
        let parts: Vec<String> = counts
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect();
        format!(
            "{} beside {}, of {} figures: {}",
            run.label,
            first.label,
            comparison.rows.len(),
            parts.join(", ")
        )
    };
    further.iter().enumerate().map(sentence).collect()
}

/// Returns a group, or one table of it.
fn section<'a>(index: usize, comparison: &Comparison, rows: &[ComparedFigure]) -> Section<'a> {
    let id = format!("group-{}", index + 1);
    let heading = one_line(&name(&rows[0]));
    Section {
        table: Some(table(&id, &heading, comparison, rows)),
        id,
        heading,
        ..Section::default()
    }
}

/// Returns why figures are missing; `None` where none is.
fn not_alike<'a>(comparison: &Comparison) -> Option<Section<'a>> {
    let mut rows = Vec::new();
    for row in &comparison.rows {
        for words in row.runs.iter().filter_map(|run| run.reason()) {
            rows.push(vec![
                Cell::text(row_name(row)),
                Cell::text(&row.group),
                Cell::words(words),
            ]);
        }
    }
    let table = Table {
        id: "not-alike-table".into(),
        caption: "Figures that are missing in a run".into(),
        columns: ["experiment", "group", "what"].map(Column::words).into(),
        rows,
        ..Table::default()
    };
    (!table.rows.is_empty()).then(|| Section {
        id: "not-alike".into(),
        heading: "Missing in a run".into(),
        table: Some(table),
        ..Section::default()
    })
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

fn times(ratio: f64) -> String {
    format!("{}×", number(ratio))
}

fn table(id: &str, name: &str, comparison: &Comparison, rows: &[ComparedFigure]) -> Table {
    let labels: Vec<&str> = comparison
        .runs
        .iter()
        .map(|run| run.label.as_str())
        .collect();
    let mut columns = vec![Column::words("experiment"), Column::words("unit")];
    for label in &labels {
        let headings = [
            (*label).to_owned(),
            format!("{label} least"),
            format!("{label} most"),
        ];
        columns.extend(headings.map(Column::numbers));
    }
    for label in &labels[1..] {
        columns.push(Column::numbers(format!("{label} to {}", labels[0])));
        columns.push(Column::words(format!("{label} is")));
        columns.push(Column::numbers(format!("{label} p")));
    }
    let row = |row: &ComparedFigure| {
        let mut cells = vec![Cell::text(row_name(row)), Cell::text(unit(row))];
        for run in &row.runs {
            cells.extend([run.median, run.min, run.max].map(|n| Cell::number(n, number)));
        }
        for pair in &row.to_first {
            let words = pair.verdict.words();
            let (sign, class) = looks(pair.verdict);
            cells.push(Cell::number(pair.ratio, times));
            cells.push(Cell {
                class,
                ..Cell::text(format!("{sign} {words}"))
            });
            cells.push(Cell::number(pair.p, |p| format!("{p:.4}")));
        }
        cells
    };
    Table {
        id: format!("{id}-table"),
        caption: format!(
            "{name}: medians, and how many times as fast as {}",
            labels[0]
        ),
        columns,
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    }
}

//! The comparison as one HTML page, with the same parts as that of a run: for each group a chart with a bar
//! for each run, and a table that sorts.

use std::io;

use askama::Template;

use super::comparison::{ComparedFigure, ComparedRun, Comparison, Pair, Verdict};
use super::words::{closing, described, name, number, row_name, tables, unit};
use crate::report::chart::{self, Chart, Line, Row, Scale};
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
        ]
        .map(|(verdict, words)| (count(verdict), words));
        let told: usize = counts.iter().map(|(count, _)| count).sum();
        let mut parts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect();
        if comparison.rows.len() > told {
            parts.push(format!("{} not comparable", comparison.rows.len() - told));
        }
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
        chart: chart(comparison, rows),
        table: Some(table(&id, &heading, comparison, rows)),
        id,
        heading,
        ..Section::default()
    }
}

/// Returns why figures are missing, and what was done differently; `None` without such notes.
fn not_alike<'a>(comparison: &Comparison) -> Option<Section<'a>> {
    let mut rows = Vec::new();
    for row in &comparison.rows {
        let reasons = row.runs.iter().filter_map(|run| run.reason());
        for words in reasons.chain(row.notes.iter().cloned()) {
            rows.push(vec![
                Cell::text(row_name(row)),
                Cell::text(&row.group),
                Cell::words(words),
            ]);
        }
    }
    let table = Table {
        id: "not-alike-table".into(),
        caption: "Notes on experiments".into(),
        columns: ["experiment", "group", "what"].map(Column::words).into(),
        rows,
        ..Table::default()
    };
    (!table.rows.is_empty()).then(|| Section {
        id: "not-alike".into(),
        heading: "Missing in a run, or measured differently".into(),
        table: Some(table),
        ..Section::default()
    })
}

/// Returns the sign that stands before a verdict's words.
fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "▲",
        Verdict::Slower => "▼",
        Verdict::WithinNoise => "≈",
        Verdict::TooFewRounds => "?",
        Verdict::OnlyInFirst
        | Verdict::OnlyInFurther
        | Verdict::InNeither
        | Verdict::DifferentUnits
        | Verdict::NoRatio => "–",
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "good",
        Verdict::Slower => "bad",
        _ => "",
    }
}

fn times(ratio: f64) -> String {
    format!("{}×", number(ratio))
}

/// The colours that bars have; further runs have the last one.
const SERIES: usize = 3;

/// Returns the chart of the main figures: a bar for each run, with what was found about it. `None` where there
/// are none in one unit.
fn chart(comparison: &Comparison, rows: &[ComparedFigure]) -> Option<Chart> {
    let unit = rows
        .iter()
        .flat_map(|row| &row.runs)
        .find_map(|run| run.unit)?;
    let has_bars = |row: &&ComparedFigure| {
        let mut units = row.runs.iter().filter_map(|run| run.unit);
        row.figure.is_none() && units.all(|of_run| of_run == unit)
    };
    let rows: Vec<Row> = rows
        .iter()
        .filter(has_bars)
        .map(|row| Row {
            name: row_name(row),
            lines: (0..row.runs.len())
                .map(|index| line(comparison, row, index))
                .collect(),
        })
        .collect();
    let lines = || rows.iter().flat_map(|row| &row.lines);
    let is_any_measured = lines().any(Line::is_measured);
    let scale = Scale::of(lines(), false);
    is_any_measured.then(|| Chart {
        unit,
        scale,
        legend: chart::legend_of_bars().into(),
        rows,
    })
}

/// Returns the bar of one run, with its figure and how it compares with the first.
fn line(comparison: &Comparison, row: &ComparedFigure, index: usize) -> Line {
    let run = &row.runs[index];
    let pair = index.checked_sub(1).map(|index| &row.to_first[index]);
    let median = run.median.map(number);
    let words = [
        Some(run.run.clone()),
        median,
        pair.map(|pair| in_words(comparison, pair)),
    ];
    Line {
        bar: run.median,
        marks: run.min.into_iter().chain(run.max).collect(),
        series: index.min(SERIES - 1),
        words: words.into_iter().flatten().collect::<Vec<_>>().join(" "),
        class: pair.map_or("", |pair| class(pair.verdict)),
        ..Line::default()
    }
}

/// Returns how a further run compares with the first, in words.
fn in_words(comparison: &Comparison, pair: &Pair) -> String {
    let verdict = pair.verdict.words(&comparison.runs[0].label, &pair.run);
    match pair.ratio {
        Some(ratio) => format!("{} {} {verdict}", sign(pair.verdict), times(ratio)),
        None => verdict,
    }
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
            let words = pair.verdict.words(labels[0], &pair.run);
            cells.push(Cell::number(pair.ratio, times));
            cells.push(Cell {
                class: class(pair.verdict),
                ..Cell::text(format!("{} {words}", sign(pair.verdict)))
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

//! The comparison as one HTML page that needs nothing else: the runs, the facts in which they differ, and
//! for each group the ratios as dots around 1 and a table that sorts.
//!
//! What stands where is in `templates/compare.html`; what every page has, in `report/html/page.rs`.

use std::io;

use askama::Template;

use super::comparison::{ComparedFigure, ComparedRun, Comparison, Difference, Pair, Verdict};
use super::words::{closing, date, name, number, row_name, tables, unit};
use crate::report::Report;
use crate::report::html::Html;
use crate::report::html::page::{Cell, Column, Figure, PageFrame, Table};
use crate::report::one_line;
use crate::report::svg::dots::{Dot, Dots, Dotted};

impl Report<Comparison> for Html {
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        ComparisonPage::of(comparison).write_into(out)
    }
}

/// What the template shows.
#[derive(Template)]
#[template(path = "compare.html")]
struct ComparisonPage<'a> {
    frame: PageFrame,
    title: String,
    /// How many were faster and slower, of each further run.
    in_short: Vec<String>,
    /// Anchors and their headings.
    contents: Vec<(String, String)>,
    runs: Table,
    warnings: &'a [String],
    differences: Table,
    groups: Vec<GroupOfFigures>,
    not_alike: Table,
    closing: Vec<String>,
}

/// A group, or one table of it.
struct GroupOfFigures {
    id: String,
    name: String,
    /// `None` where there is no ratio.
    figure: Option<Figure>,
    table: Table,
}

impl<'a> ComparisonPage<'a> {
    fn of(comparison: &'a Comparison) -> ComparisonPage<'a> {
        let groups: Vec<GroupOfFigures> = tables(comparison)
            .enumerate()
            .map(|(index, rows)| GroupOfFigures::of(index, comparison, rows))
            .collect();
        let (differences, not_alike) = (differences(comparison), not_alike(comparison));
        let mut contents = vec![("runs".to_owned(), "The runs".to_owned())];
        if !differences.rows.is_empty() {
            contents.push(("differences".into(), "Not the same in all runs".into()));
        }
        contents.extend(groups.iter().map(|g| (g.id.clone(), g.name.clone())));
        if !not_alike.rows.is_empty() {
            let heading = "Missing in a run, or measured differently";
            contents.push(("not-alike".into(), heading.into()));
        }
        contents.push(("method".into(), "What ratios and verdicts mean".into()));
        ComparisonPage {
            frame: PageFrame::new(),
            title: title(comparison),
            in_short: in_short(comparison),
            contents,
            runs: runs(comparison),
            warnings: &comparison.warnings,
            differences,
            groups,
            not_alike,
            closing: closing(comparison),
        }
    }
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
            "{} beside {}, of {} figures: {}.",
            run.label,
            first.label,
            comparison.rows.len(),
            parts.join(", ")
        )
    };
    further.iter().enumerate().map(sentence).collect()
}

fn runs(comparison: &Comparison) -> Table {
    let row = |run: &ComparedRun| {
        vec![
            Cell::text(&run.label),
            Cell::words(&run.file),
            Cell::text(date(run)),
            Cell::text(run.kernel.as_deref().unwrap_or("unknown")),
            Cell::words(run.cpu_model.as_deref().unwrap_or("unknown")),
        ]
    };
    Table {
        id: "runs-table".into(),
        caption: format!("Ratios are to {}", comparison.runs[0].label),
        columns: ["run", "file", "date", "Linux", "CPU"]
            .map(Column::words)
            .into(),
        rows: comparison.runs.iter().map(row).collect(),
        ..Table::default()
    }
}

fn differences(comparison: &Comparison) -> Table {
    let labels = comparison.runs.iter().map(|run| Column::words(&run.label));
    let row = |difference: &Difference| {
        let values = difference.values.iter();
        let values = values.map(|value| Cell::words(value.as_deref().unwrap_or("unknown")));
        [Cell::text(&difference.fact)]
            .into_iter()
            .chain(values)
            .collect()
    };
    Table {
        id: "differences-table".into(),
        caption: "Facts that figures depend on".into(),
        columns: [Column::words("fact")].into_iter().chain(labels).collect(),
        rows: comparison.differences.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Returns why figures are missing, and what was done differently.
fn not_alike(comparison: &Comparison) -> Table {
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
    Table {
        id: "not-alike-table".into(),
        caption: "Notes on experiments".into(),
        columns: ["experiment", "group", "what"].map(Column::words).into(),
        rows,
        ..Table::default()
    }
}

impl GroupOfFigures {
    fn of(index: usize, comparison: &Comparison, rows: &[ComparedFigure]) -> GroupOfFigures {
        let id = format!("group-{}", index + 1);
        let name = one_line(&name(&rows[0]));
        GroupOfFigures {
            figure: figure(&id, &name, comparison, rows),
            table: table(&id, &name, comparison, rows),
            id,
            name,
        }
    }
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

fn dot(verdict: Verdict) -> Dot {
    match verdict {
        Verdict::Faster => Dot::Up,
        Verdict::Slower => Dot::Down,
        _ => Dot::Sideways,
    }
}

fn times(ratio: f64) -> String {
    format!("{}×", number(ratio))
}

/// Returns what was found about a further run, in words; with its label where there are several.
fn in_words(comparison: &Comparison, pair: &Pair) -> String {
    let verdict = pair.verdict.words(&comparison.runs[0].label, &pair.run);
    let mut words = Vec::new();
    if comparison.runs.len() > 2 {
        words.push(pair.run.clone());
    }
    words.extend(pair.ratio.map(times));
    words.push(verdict);
    words.join(" ")
}

/// Returns the ratios of a group as dots; `None` where there are none.
fn figure(
    id: &str,
    name: &str,
    comparison: &Comparison,
    rows: &[ComparedFigure],
) -> Option<Figure> {
    let pairs = || rows.iter().flat_map(|row| &row.to_first);
    if pairs().all(|pair| pair.ratio.is_none()) {
        return None;
    }
    let legend = [
        (Dot::Up, "faster"),
        (Dot::Down, "slower"),
        (Dot::Sideways, "no difference shown"),
    ]
    .into_iter()
    .filter(|(shown, _)| pairs().any(|pair| pair.ratio.is_some() && dot(pair.verdict) == *shown))
    .map(|(dot, words)| (dot, words.to_owned()));
    let line = |pair: &Pair| Dotted {
        dots: pair
            .ratio
            .map(|ratio| (dot(pair.verdict), ratio))
            .into_iter()
            .collect(),
        words: in_words(comparison, pair),
    };
    let dots = Dots {
        unit: "",
        legend: legend.collect(),
        rows: rows
            .iter()
            .filter(|row| row.to_first.iter().any(|pair| pair.ratio.is_some()))
            .map(|row| (row_name(row), row.to_first.iter().map(line).collect()))
            .collect(),
        ratios: true,
    };
    let each: Vec<String> = rows
        .iter()
        .map(|row| {
            let pairs: Vec<String> = row
                .to_first
                .iter()
                .map(|pair| in_words(comparison, pair))
                .collect();
            format!("{} {}", row_name(row), pairs.join(", "))
        })
        .collect();
    let first = &comparison.runs[0].label;
    let words = one_line(&format!(
        "{name}, how many times as fast as {first}: {}.",
        each.join("; ")
    ));
    let label = format!("{name}: ratios to {first} as dots around 1, on a logarithmic axis");
    Some(Figure::of(id, label, words, |paper| dots.charts(paper)))
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

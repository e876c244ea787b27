//! The comparison as one HTML page, with the same parts as that of a run, but without charts: for each group
//! a table that sorts.

use std::io;

use askama::Template;

use super::comparison::{Change, ComparedFigure, ComparedRun, Comparison};
use super::sentences::{closing, described, fields, missing, name, tables};
use crate::report::html::Html;
use crate::report::html::page::{Page, Section, Table};
use crate::report::{Report, one_line};

impl Report<Comparison> for Html {
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        let runs = &comparison.runs;
        let further: Vec<&str> = runs[1..].iter().map(|run| run.file.as_str()).collect();
        let sections = tables(comparison).enumerate();
        let sections = sections.map(|(index, rows)| section(index, runs, rows));
        let lead = runs
            .iter()
            .map(|run| format!("{}: {}", run.label, described(run)));
        let count = comparison.differences.len();
        let page = Page {
            title: format!("{} beside {}", further.join(", "), runs[0].file),
            made_by: "fullbore bench --compare --html",
            conclusion: in_short(comparison),
            doubts: comparison.warnings.clone(),
            lead: lead.collect(),
            sections: sections.collect(),
            heading_of_facts: format!("Facts that are not the same in all runs ({count})"),
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
    let facts = facts.map(|difference| (difference.fact.clone(), values(&difference.values)));
    facts.collect()
}

/// Returns how many figures of each further run have which verdict, a sentence each.
fn in_short(comparison: &Comparison) -> Vec<String> {
    let sentence = |(index, run): (usize, &ComparedRun)| {
        let of = |(verdict, _, words): &(Change, char, &str)| {
            let pairs = comparison.rows.iter().map(|row| &row.to_first[index]);
            let count = pairs.filter(|pair| pair.verdict == *verdict).count();
            (count > 0).then(|| format!("{count} {words}"))
        };
        let parts: Vec<String> = Change::ALL.iter().filter_map(of).collect();
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
    let heading = one_line(&name(&rows[0]));
    let all: Vec<&ComparedFigure> = rows.iter().collect();
    let first = &runs[0].label;
    let caption = format!("{heading}: medians, and how many times as fast as {first}");
    let columns = fields(runs, &all, 1..runs.len(), with_sign);
    Section {
        id: format!("group-{}", index + 1),
        table: Some(Table::of(caption, columns)),
        remarks: missing(rows).collect(),
        heading,
        ..Section::default()
    }
}

/// Returns a verdict in words, behind a sign.
fn with_sign(verdict: Change) -> String {
    let (_, sign, words) = Change::ALL[verdict as usize];
    format!("{sign} {words}")
}

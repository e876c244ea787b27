//! The run as one HTML page that needs nothing else: drawings, tables that sort, and how it was
//! measured; for a browser, a phone, a screen reader and paper.
//!
//! What stands where is in `templates/run.html`; what every page has, in `html/page.rs`; the drawings
//! are those of the SVG report, drawn for a page. Here a run becomes what the template shows.

mod group;
pub(crate) mod page;
mod percentiles;
mod results;

use std::io;

use askama::Template;

use super::svg;
use super::{
    Report, against_c, base_of_ratios, distance, groups, how_measured, limit, over_all_tables,
    peers,
};
use crate::run::{Outcome, Run, Settings};
use crate::statistics::DISAGREEMENT_WORTH_A_WARNING;
use group::Group;
use page::{Cell, Column, PageFrame, Table};

/// The run as one HTML document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Html;

impl Report<Run> for Html {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        RunPage::of(run).write_into(out)
    }
}

/// What the template shows.
#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'a> {
    frame: PageFrame,
    title: String,
    lead: String,
    /// Anchors and their headings.
    contents: Vec<(String, String)>,
    /// The machine.
    facts: Vec<(&'static str, String)>,
    groups: Vec<Group>,
    not_measured: Table,
    not_measured_in_short: String,
    settings: &'a Settings,
    measured: String,
    /// In percent.
    disagreement: f64,
    /// What ratios are to.
    base: Option<String>,
    /// How experiments compare with the programs in C that do the same.
    against_c: Option<String>,
    /// How fast contestants are over all tables of their group.
    over_all_tables: Vec<String>,
}

impl<'a> RunPage<'a> {
    fn of(run: &'a Run) -> RunPage<'a> {
        let mut facts = run.machine.lines();
        facts.extend(distance(run).map(|text| ("cache line", text)));
        facts.extend(limit(run).map(|text| ("limit", text)));
        facts.extend(peers(run).map(|text| ("peers", text)));
        let groups: Vec<Group> = groups(run)
            .iter()
            .enumerate()
            .map(|(index, (name, outcomes))| Group::of(index, name, outcomes, run))
            .collect();
        let not_measured = not_measured(run);
        let mut contents = vec![("machine".to_owned(), "The machine".to_owned())];
        contents.extend(groups.iter().map(|g| (g.id.clone(), g.name.clone())));
        if !not_measured.rows.is_empty() {
            contents.push(("not-measured".into(), "Skipped and failed".into()));
        }
        contents.push(("method".into(), "How it was measured".into()));
        RunPage {
            frame: PageFrame::new(),
            title: svg::title(run),
            lead: lead(run),
            contents,
            facts,
            groups,
            not_measured_in_short: not_measured_in_short(run),
            not_measured,
            settings: &run.settings,
            measured: how_measured(run),
            disagreement: (DISAGREEMENT_WORTH_A_WARNING * 100.0).round(),
            base: base_of_ratios(run),
            against_c: against_c(run),
            over_all_tables: over_all_tables(run),
        }
    }
}

/// Returns when the run was taken, and how many experiments were measured.
fn lead(run: &Run) -> String {
    let measured = run
        .experiments
        .iter()
        .filter(|e| e.figure.is_some())
        .count();
    let taken = match &run.taken_at {
        Some(date) => format!("Taken {date}: "),
        None => String::new(),
    };
    format!(
        "{taken}{measured} of {} measured, {}.",
        counted(run.experiments.len(), "experiment"),
        how_measured(run)
    )
}

fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

fn not_measured_in_short(run: &Run) -> String {
    let count = |of: fn(&Outcome) -> bool| run.experiments.iter().filter(|e| of(e)).count();
    let failed = count(|e| e.failed.is_some());
    let skipped = count(|e| e.skipped.is_some() && e.failed.is_none());
    let counts = [(skipped, "skipped"), (failed, "failed")].into_iter();
    let parts: Vec<String> = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    parts.join(", ")
}

/// Returns the experiments without a figure, and why they have none.
fn not_measured(run: &Run) -> Table {
    let rows = run.experiments.iter().filter_map(|outcome| {
        let (what, reason) = match (&outcome.failed, &outcome.skipped) {
            (Some(reason), _) => ("failed", reason.as_str()),
            (None, Some(reason)) => ("skipped", reason.as_str()),
            (None, None) if outcome.figure.is_none() => ("not measured", "unknown reason"),
            (None, None) => return None,
        };
        let class = if what == "failed" { "bad" } else { "" };
        Some(vec![
            Cell {
                below: outcome.shows.clone(),
                ..Cell::text(&outcome.name)
            },
            Cell::text(&outcome.group),
            Cell {
                class,
                ..Cell::text(what)
            },
            Cell::words(reason),
        ])
    });
    Table {
        id: "not-measured-table".into(),
        caption: "Experiments without a figure".into(),
        rows: rows.collect(),
        columns: ["experiment", "group", "what", "why"]
            .map(Column::words)
            .into(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, grid};
    use super::*;
    use crate::run::{Also, Unit};
    use crate::statistics::Spread;

    fn written(run: &Run) -> String {
        let mut text = Vec::new();
        Html.write(run, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..roxmltree::ParsingOptions::default()
        };
        roxmltree::Document::parse_with_options(&text, options).unwrap_or_else(|error| {
            panic!("{error} in\n{text}");
        });
        text
    }

    #[test]
    fn every_experiment_is_on_the_page_with_its_reason() {
        let mut run = fixture();
        run.experiments.extend(grid::fixture().experiments);
        let page = written(&run);
        for outcome in &run.experiments {
            assert!(page.contains(&format!("<bdi>{}</bdi>", outcome.name)));
        }
        for words in [
            "no hugetlb page is free here",
            "the reader ended with status 1:  read from",
            "base pages</li>",
            "7 of 11 experiments measured",
            "best: 64 KiB per call",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<&>") && !page.contains("<Platinum>"));
    }

    #[test]
    fn no_two_elements_have_the_same_id() {
        let mut run = fixture();
        run.experiments.extend(grid::fixture().experiments);
        let page = written(&run);
        let mut ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for target in page.split("href=\"#").skip(1) {
            let target = target.split('"').next().unwrap();
            assert!(ids.contains(&target), "{target}");
        }
    }

    #[test]
    fn percentiles_are_dots_and_the_alternative_has_them() {
        let mut run = fixture();
        run.experiments.truncate(1);
        let outcome = &mut run.experiments[0];
        outcome.unit = Unit::Microseconds;
        for (name, value) in [("p99", 12.5), ("p99.9", 333.0)] {
            outcome.also.push(Also {
                name: name.into(),
                unit: Unit::Microseconds,
                figure: Spread::of(&[value]).unwrap(),
            });
        }
        let page = written(&run);
        assert!(page.contains("write_read median 0.93, p99 12.5, p99.9 333."));
        assert!(page.contains("<circle") && page.contains("<polygon"));
        assert!(page.contains("µs: less is better"));
    }

    #[test]
    fn a_run_of_nothing_is_still_a_page() {
        let mut run = fixture();
        run.experiments.clear();
        run.taken_at = None;
        assert!(written(&run).contains("0 of 0 experiments measured"));
    }
}

//! The run as one HTML page that needs nothing else: what was found, charts, tables that sort, and how it
//! was measured; for a browser, a phone, a screen reader and paper.
//!
//! Here a run becomes a `Page`; in `compare/html.rs`, a comparison does.

use std::io;

use askama::Template;

use super::chart::{Chart, which_is_better};
use super::conclusion::{conclusion, doubts, in_short, title};
use super::fields::{Wanted, fields};
use super::grid::Grid;
use super::{
    Report, base_of_ratios, facts, groups, how_measured, least_cost, measured, noisy_footnote,
    notes, one_line, reason, remarks,
};
use crate::run::{Limit, Outcome, Run};
use page::{Page, Section, Table};

pub(crate) mod page;

/// The run as one HTML document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Html;

impl Report<Run> for Html {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        let groups = groups(run);
        let sections = groups.iter().enumerate();
        let sections = sections.map(|(at, (name, outcomes))| section(at, name, outcomes, run));
        let facts = facts(run).into_iter();
        let page = Page {
            title: title(run),
            made_by: "fullbore bench --html",
            conclusion: conclusion(run),
            doubts: doubts(run),
            lead: vec![format!("Taken {}: {}", run.taken_at, how_measured(run))],
            sections: sections.collect(),
            heading_of_facts: "The machine".into(),
            facts: facts.map(|(term, words)| (term.into(), words)).collect(),
            method: method(run),
        };
        page.write_into(out)
    }
}

/// Returns a group, or one table of it: its chart and its table.
fn section<'a>(index: usize, name: &str, outcomes: &[&'a Outcome], run: &Run) -> Section<'a> {
    let id = format!("group-{}", index + 1);
    let map = Grid::of(outcomes);
    // A chart has a row for what is missing.
    let missing = (outcomes.iter())
        .filter(|outcome| map.is_some() || outcome.figure.is_some())
        .filter(|outcome| outcome.missing().is_some())
        .map(|outcome| format!("{}: {}", outcome.name, reason(outcome)));
    let remarks = (in_short(outcomes).into_iter())
        .chain(least_cost(outcomes))
        .chain(remarks(run, outcomes).map(one_line))
        .chain(notes(outcomes))
        .chain(missing);
    Section {
        heading: one_line(name),
        remarks: remarks.collect(),
        chart: Chart::of(outcomes).filter(|_| map.is_none()),
        map,
        table: results(name, outcomes, run.limit.as_ref()),
        id,
    }
}

/// Returns how the run was measured and what the figures mean, a sentence each.
fn method(run: &Run) -> Vec<String> {
    let settings = &run.settings;
    let base = base_of_ratios(run).unwrap_or_else(|| "the first of its table".to_owned());
    vec![
        format!(
            "Every experiment is measured once in each round, in a newly shuffled order (seed {}). The first {} s \
             of each measurement are a discarded warm-up",
            settings.seed, settings.warm_up_seconds
        ),
        format!(
            "A figure is the median of the rounds; thin lines and the column ‘min–max’ are the \
             smallest and the largest round ({})",
            noisy_footnote()
        ),
        format!(
            "A ratio says how many times as fast an experiment is as {base} in this run; above 1 is better, \
             also for experiments that measure a time"
        ),
        "The limit is what the two CPUs can do in shared memory without any system call; an experiment \
         exceeds it if some of its bytes are not written by one CPU and read by the other"
            .to_owned(),
    ]
}

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

#[cfg(test)]
mod tests {
    use super::super::{fixture, grid};
    use super::*;

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
            assert!(page.contains(&outcome.name), "{}", outcome.name);
        }
        for words in [
            "no hugetlb page is free here",
            "the reader ended with status 1:  read from",
            "<p>write_read_huge: the kernel backs the buffer with base pages.</p>",
            "skipped: a pipe of 64 MiB is refused",
            "best: 64 KiB per call",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<&>") && !page.contains("<Platinum>"));
    }

    #[test]
    fn the_conclusion_and_the_doubts_come_before_all_figures() {
        let mut run = fixture();
        run.apart.taken = 26;
        let page = written(&run);
        let at = |words: &str| {
            page.find(words)
                .unwrap_or_else(|| panic!("{words} in {page}"))
        };
        let conclusion = at("vmsplice_splice_same_buffer is the fastest: ~104 GiB/s, 112×");
        let doubt = at("26 measurements were kept");
        let (chart, table) = (at("<table class=\"chart\""), at("<table class=\"sortable"));
        let machine = at("<summary>The machine");
        assert!(conclusion < doubt && doubt < chart && chart < table && table < machine);
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
    fn a_run_of_nothing_is_still_a_page() {
        let mut run = fixture();
        run.experiments.clear();
        assert!(written(&run).contains("<h1>"));
    }
}

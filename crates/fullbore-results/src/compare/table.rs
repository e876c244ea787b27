//! The comparison for a terminal: which runs, in what they differ, a table per group and further run, and how the
//! verdicts were reached.
//!
//! Where a table does not fit, its columns with medians are dropped; names are shortened last.

use std::io;

use super::comparison::{Change, ComparedFigure, Comparison};
use super::sentences::{closing, described, fields, missing, name, tables};
use crate::report::fields::Field;
use crate::report::table::Table;
use crate::report::text::{GAP, Style, TextPage};
use crate::report::{Report, one_line};
use fullbore_host::text;

/// The fewest characters that are left of a name.
const SHORTEST_NAME: usize = 8;

impl Report<Comparison> for Table {
    /// Writes the comparison in lines of at most `width` characters.
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        let mut page = TextPage::new(self.width);
        for run in &comparison.runs {
            page.wrapped(Style::Plain, &format!("{}  ", run.label), &described(run));
        }
        differences(&mut page, comparison);
        for warning in &comparison.warnings {
            page.blank();
            page.wrapped(Style::Plain, "warning: ", warning);
        }
        for rows in tables(comparison) {
            group(&mut page, comparison, rows);
        }
        page.blank();
        for line in closing(comparison) {
            page.wrapped(Style::Dim, "", &line);
        }
        page.write(self.color, out)
    }
}

/// Adds the facts in which the runs differ.
fn differences(page: &mut TextPage, comparison: &Comparison) {
    if comparison.differences.is_empty() {
        return;
    }
    page.blank();
    page.line(Style::Title, "differences between the runs");
    for difference in &comparison.differences {
        page.line(Style::Plain, format!("  {}", one_line(&difference.fact)));
        for (run, value) in comparison.runs.iter().zip(&difference.values) {
            let value = value.as_deref().unwrap_or("unknown");
            page.wrapped(Style::Plain, &format!("    {}  ", run.label), value);
        }
    }
}

/// Adds a group: a table for each further run, then why figures are missing.
fn group(page: &mut TextPage, comparison: &Comparison, rows: &[ComparedFigure]) {
    page.blank();
    page.wrapped(Style::Title, "", &name(&rows[0]));
    let is_measured = |row: &&ComparedFigure| row.runs.iter().any(|run| run.median.is_some());
    let measured: Vec<&ComparedFigure> = rows.iter().filter(is_measured).collect();
    for further in 1..comparison.runs.len() {
        if !measured.is_empty() {
            table(page, comparison, &measured, further);
        }
    }
    page.listed("missing in a run", missing(rows));
}

/// Adds the figures of one further run beside those of the first, with medians if they fit.
fn table(page: &mut TextPage, comparison: &Comparison, rows: &[&ComparedFigure], further: usize) {
    let words = |verdict: Change| verdict.words().to_owned();
    let mut fields = fields(&comparison.runs, rows, further..further + 1, words);
    let room = |fields: &[Field]| {
        let others = fields[1..].iter().map(|field| field.width() + GAP);
        page.width.saturating_sub(others.sum::<usize>() + GAP)
    };
    if room(&fields) < SHORTEST_NAME {
        fields.retain(|field| field.layouts > 1);
    }
    let room = room(&fields).max(SHORTEST_NAME);
    for (name, _) in &mut fields[0].cells {
        *name = text::one_line(name, room);
    }
    page.fields(&fields.iter().collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::super::{LoadedRun, compare};
    use super::*;
    use crate::report::fixture;
    use crate::statistics::Spread;

    /// Three runs: the second twice as fast, on another kernel, the third half as fast.
    fn comparison() -> Comparison {
        let runs = [("6.12.30", 1.0), ("6.13.0", 2.0), ("6.12.30", 0.5)].map(|(kernel, times)| {
            let mut run = fixture();
            run.machine.kernel = Some(kernel.to_owned());
            for figure in run.experiments.iter_mut().filter_map(|e| e.figure.as_mut()) {
                let rounds: Vec<f64> = (0..6)
                    .map(|round| (figure.median + f64::from(round) / 100.0) * times)
                    .collect();
                *figure = Spread::of(&rounds).unwrap();
            }
            LoadedRun {
                file: format!("linux-{kernel}.json"),
                run,
            }
        });
        compare(&runs, &[]).unwrap()
    }

    fn written(width: u16, color: bool) -> String {
        let mut text = Vec::new();
        Table {
            width: Some(width),
            color,
            ..Table::default()
        }
        .write(&comparison(), &mut text)
        .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        for width in [40, 60, 80, 100, 120, 200] {
            for line in written(width, false).lines() {
                assert!(
                    line.chars().count() <= usize::from(width),
                    "{width}: {line:?}"
                );
            }
        }
    }

    #[test]
    fn verdicts_are_words_at_every_width() {
        for width in [40, 80, 200] {
            let text = written(width, false);
            assert_eq!(text.matches(" faster\n").count(), 3);
            assert_eq!(text.matches(" slower\n").count(), 3);
        }
        let wide = written(200, false);
        for words in ["B to A", "C to A", "2.00×", "0.50×", "1.91", "6.13.0"] {
            assert!(wide.contains(words), "{words} in\n{wide}");
        }
    }

    #[test]
    fn colour_changes_nothing_but_the_escape_sequences() {
        let mut text = written(100, true);
        for escape in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m"] {
            assert!(text.contains(escape), "{escape:?}");
            text = text.replace(escape, "");
        }
        assert_eq!(text, written(100, false));
    }

    #[test]
    fn the_reader_is_told_what_the_verdicts_mean() {
        let text = written(200, false);
        assert!(text.contains("p < 0.01"));
        assert!(text.contains("6 pairs of figures were tested: up to 0.06"));
        assert!(!text.contains("too few rounds"));
    }
}

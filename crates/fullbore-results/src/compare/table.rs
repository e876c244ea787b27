//! The comparison for a terminal: which runs, in what they differ, a table per group, and how the
//! verdicts were reached.
//!
//! The tables are made to fit. Columns are dropped in a fixed order (`columns.rs`); where several
//! further runs still do not fit, each has a table of its own; names are shortened last.

use std::io;

use comfy_table::CellAlignment;

use super::columns::ShownFigures;
use super::comparison::{ComparedFigure, Comparison, Difference};
use super::words::{closing, described, name, tables, unit};
use crate::report::table::Table;
use crate::report::text::{Style, TextPage, table_lines};
use crate::report::{Report, one_line};
use fullbore_host::text;

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
        for line in &page.lines {
            let text = line.painted(self.color);
            writeln!(
                out,
                "{}",
                if self.color {
                    with_verdicts_painted(&text)
                } else {
                    text
                }
            )?;
        }
        Ok(())
    }
}

/// Adds the facts in which the runs differ: as a table where that fits, else one below the other.
fn differences(page: &mut TextPage, comparison: &Comparison) {
    if comparison.differences.is_empty() {
        return;
    }
    page.blank();
    page.line(Style::Title, "differences between the runs");
    let value = |value: &Option<String>| one_line(value.as_deref().unwrap_or("unknown"));
    let headers: Vec<String> = std::iter::once(String::new())
        .chain(comparison.runs.iter().map(|run| run.label.clone()))
        .collect();
    let cells = |difference: &Difference| -> Vec<String> {
        std::iter::once(one_line(&difference.fact))
            .chain(difference.values.iter().map(value))
            .collect()
    };
    let left = vec![CellAlignment::Left; headers.len()];
    let rows: Vec<Vec<String>> = comparison.differences.iter().map(cells).collect();
    let lines = table_lines(&headers, &left, &rows);
    if lines.iter().all(|line| text::columns(line) <= page.width) {
        lines
            .into_iter()
            .for_each(|line| page.line(Style::Plain, line));
        return;
    }
    for difference in &comparison.differences {
        page.line(Style::Plain, format!("  {}", one_line(&difference.fact)));
        for (run, said) in comparison.runs.iter().zip(&difference.values) {
            page.wrapped(Style::Plain, &format!("    {}  ", run.label), &value(said));
        }
    }
}

/// Adds a group: its table or tables, then why figures are missing and what was done differently.
fn group(page: &mut TextPage, comparison: &Comparison, rows: &[ComparedFigure]) {
    page.blank();
    let units: Vec<&str> = rows
        .iter()
        .map(unit)
        .filter(|unit| !unit.is_empty())
        .collect();
    let one_unit = units.iter().all(|unit| *unit == units[0]);
    let of = name(&rows[0]);
    let unit = units.first().filter(|_| one_unit);
    let title = unit.map_or(of.clone(), |unit| format!("{of}, {unit}"));
    page.wrapped(Style::Title, "", &title);
    let measured: Vec<&ComparedFigure> = rows
        .iter()
        .filter(|row| row.runs.iter().any(|run| run.median.is_some()))
        .collect();
    if !measured.is_empty() {
        let shown = ShownFigures {
            comparison,
            rows: &measured,
            with_unit: !one_unit,
            width: page.width,
        };
        shown.tables(page);
    }
    let reasons = |row: &ComparedFigure| -> Vec<String> {
        row.runs.iter().filter_map(|run| run.reason()).collect()
    };
    listed(page, "missing in a run", rows, reasons);
    listed(page, "measured differently", rows, |row| row.notes.clone());
}

/// Adds a line for each text that `of` returns, with the name of its experiment, under `heading`.
fn listed(
    page: &mut TextPage,
    heading: &str,
    rows: &[ComparedFigure],
    of: impl Fn(&ComparedFigure) -> Vec<String>,
) {
    let mut headed = false;
    for row in rows {
        for text in of(row) {
            if !headed {
                page.line(Style::Plain, format!("  {heading}"));
                headed = true;
            }
            page.wrapped(Style::Plain, "    ", &format!("{}: {text}", row.name));
        }
    }
}

/// Returns a line with its verdicts in green and red.
///
/// A name is never painted: the words of a cell are one space apart, columns are two or more
/// apart, and no column stands before the name.
fn with_verdicts_painted(line: &str) -> String {
    const COLORS: [(&str, &str); 2] = [("faster", "32"), ("slower", "31")];
    let Some(start) = line.find(|c| c != ' ') else {
        return line.to_owned();
    };
    let (indent, rest) = line.split_at(start);
    let painted: Vec<String> = rest
        .split("  ")
        .map(
            |cell| match COLORS.iter().find(|(word, _)| cell.trim() == *word) {
                Some((word, color)) => {
                    cell.replace(word, &format!("\u{1b}[{color}m{word}\u{1b}[0m"))
                }
                None => cell.to_owned(),
            },
        )
        .collect();
    format!("{indent}{}", painted.join("  "))
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
                written_at: None,
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
            assert_eq!(
                text.matches(" faster\n").count() + text.matches(" faster  ").count(),
                3
            );
            assert_eq!(text.matches(" slower\n").count(), 3);
        }
        let wide = written(200, false);
        for words in ["A to B", "2.00×", "0.50×", "1.86", "min–max", "6.13.0"] {
            assert!(
                wide.contains(words) != (words == "A to B"),
                "{words} in\n{wide}"
            );
        }
    }

    #[test]
    fn colour_changes_nothing_but_the_escape_sequences() {
        let mut text = written(100, true);
        for escape in [
            "\u{1b}[0m",
            "\u{1b}[1m",
            "\u{1b}[2m",
            "\u{1b}[32m",
            "\u{1b}[31m",
        ] {
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

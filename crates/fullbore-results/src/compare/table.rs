//! The comparison for a terminal: which runs, in what they differ, a table per group, and by what
//! the verdicts were given.
//!
//! The tables are made to fit. Columns are dropped in a fixed order (`LAYOUTS`); where several
//! further runs still do not fit, each has a table of its own; and names are cut last of all.

use std::io;

use comfy_table::{CellAlignment, ContentArrangement, presets};

use super::{Comparison, Difference, Named, Row, Verdict};
use crate::report::table::{GAP, Page, Style, Table, WIDTH_WITHOUT_A_TERMINAL};
use crate::report::{Report, figure, one_line};

impl Report<Comparison> for Table {
    /// Writes the comparison in lines of at most `width` characters.
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        let mut page = Page {
            width: usize::from(self.width.unwrap_or(WIDTH_WITHOUT_A_TERMINAL)),
            lines: Vec::new(),
        };
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

/// Where a run is from.
fn described(run: &Named) -> String {
    format!(
        "{}: {}, Linux {}, {}",
        run.file,
        date(run),
        run.kernel.as_deref().unwrap_or("of unknown release"),
        run.cpu_model.as_deref().unwrap_or("CPU unknown"),
    )
}

/// When a run was taken.
pub(super) fn date(run: &Named) -> String {
    match (&run.taken_at, &run.file_written_at) {
        (Some(date), _) => format!("taken {date}"),
        (None, Some(date)) => format!("date unknown, file written {date}"),
        (None, None) => "date unknown".to_owned(),
    }
}

/// The facts that are differences between the runs: side by side where that fits, else one below
/// the other.
fn differences(page: &mut Page, comparison: &Comparison) {
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
    let lines = laid_out(&headers, &left, &rows);
    if lines.iter().all(|line| line.chars().count() <= page.width) {
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

/// The rows of each group, or each table of it.
pub(super) fn tables(comparison: &Comparison) -> impl Iterator<Item = &[Row]> {
    comparison
        .rows
        .chunk_by(|one, other| one.group == other.group && one.table == other.table)
}

/// What a group, or one table of it, is called.
pub(super) fn name(row: &Row) -> String {
    match &row.table {
        None => row.group.clone(),
        Some(table) => format!("{}: {table}", row.group),
    }
}

/// A group: its table or tables, then what there is to know about it.
fn group(page: &mut Page, comparison: &Comparison, rows: &[Row]) {
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
    let measured: Vec<&Row> = rows
        .iter()
        .filter(|row| row.runs.iter().any(|run| run.median.is_some()))
        .collect();
    if !measured.is_empty() {
        let shown = Shown {
            comparison,
            rows: &measured,
            with_unit: !one_unit,
            width: page.width,
        };
        shown.tables(page);
    }
    let reasons =
        |row: &Row| -> Vec<String> { row.runs.iter().filter_map(|run| run.reason()).collect() };
    listed(page, "missing in a run", rows, reasons);
    listed(page, "measured differently", rows, |row| row.notes.clone());
}

/// What there is to say of rows, by name, under `heading`.
fn listed(page: &mut Page, heading: &str, rows: &[Row], of: impl Fn(&Row) -> Vec<String>) {
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

/// What a row's figures are in; `mixed` where runs do not agree.
pub(super) fn unit(row: &Row) -> &'static str {
    let mut units = row.runs.iter().filter_map(|run| run.unit);
    match units.next() {
        None => "",
        Some(first) if units.all(|unit| unit == first) => first.name(),
        Some(_) => "mixed",
    }
}

/// The experiment, and which figure of it.
pub(super) fn row_name(row: &Row) -> String {
    match &row.figure {
        None => one_line(&row.name),
        Some(figure) => one_line(&format!("{} {figure}", row.name)),
    }
}

/// What a column shows; of the run or the pair at an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Unit,
    Median(usize),
    Range(usize),
    Ratio(usize),
    Verdict(usize),
}

/// What is shown of each run, and of each further run beside the first: the most telling set first.
const LAYOUTS: [(Of, Of, bool); 4] = [
    (
        &[Column::Median, Column::Range],
        &[Column::Ratio, Column::Verdict],
        true,
    ),
    (&[Column::Median], &[Column::Ratio, Column::Verdict], true),
    (&[], &[Column::Ratio, Column::Verdict], false),
    (&[], &[Column::Verdict], false),
];

/// Columns, for each run or pair.
type Of = &'static [fn(usize) -> Column];

/// The rows of a group, to be laid out.
struct Shown<'a> {
    comparison: &'a Comparison,
    rows: &'a [&'a Row],
    with_unit: bool,
    width: usize,
}

/// The fewest characters that are left of a name.
const SHORTEST_NAME: usize = 8;

impl Shown<'_> {
    fn tables(&self, page: &mut Page) {
        let further: Vec<usize> = (1..self.comparison.runs.len()).collect();
        // Medians of all runs, or a table for each.
        match self.fitting(&further, &LAYOUTS[..2]) {
            Some(columns) => self.table(page, &columns),
            None => {
                for index in further {
                    if index > 1 {
                        page.blank();
                    }
                    let columns = self
                        .fitting(&[index], &LAYOUTS)
                        .unwrap_or_else(|| self.columns(&[index], LAYOUTS[LAYOUTS.len() - 1]));
                    self.table(page, &columns);
                }
            }
        }
    }

    /// The columns of the first layout that fits.
    fn fitting(&self, further: &[usize], layouts: &[(Of, Of, bool)]) -> Option<Vec<Column>> {
        layouts
            .iter()
            .map(|layout| self.columns(further, *layout))
            .find(|columns| {
                let used: usize = columns
                    .iter()
                    .map(|column| GAP + self.widest(*column))
                    .sum();
                used <= self.width
            })
    }

    fn columns(
        &self,
        further: &[usize],
        (of_run, of_pair, with_unit): (Of, Of, bool),
    ) -> Vec<Column> {
        let unit = (self.with_unit && with_unit).then_some(Column::Unit);
        let runs = std::iter::once(0).chain(further.iter().copied());
        let of_runs = runs.flat_map(|run| of_run.iter().map(move |column| column(run)));
        let pairs = further.iter().map(|run| run - 1);
        let of_pairs = pairs.flat_map(|pair| of_pair.iter().map(move |column| column(pair)));
        std::iter::once(Column::Name)
            .chain(unit)
            .chain(of_runs)
            .chain(of_pairs)
            .collect()
    }

    fn widest(&self, column: Column) -> usize {
        self.rows
            .iter()
            .map(|row| self.text(column, row).chars().count())
            .chain([self.header(column).chars().count()])
            .max()
            .unwrap_or(0)
    }

    fn label(&self, run: usize) -> &str {
        &self.comparison.runs[run].label
    }

    fn header(&self, column: Column) -> String {
        match column {
            Column::Name => "experiment".into(),
            Column::Unit => "unit".into(),
            Column::Median(run) => self.label(run).into(),
            Column::Range(_) => "min–max".into(),
            Column::Ratio(pair) => format!("{} to {}", self.label(pair + 1), self.label(0)),
            Column::Verdict(pair) => format!("{} is", self.label(pair + 1)),
        }
    }

    fn text(&self, column: Column, row: &Row) -> String {
        match column {
            Column::Name => row_name(row),
            Column::Unit => unit(row).into(),
            Column::Median(run) => row.runs[run].median.map(number).unwrap_or_default(),
            Column::Range(run) => match (row.runs[run].min, row.runs[run].max) {
                (Some(min), Some(max)) => format!("{}–{}", number(min), number(max)),
                _ => String::new(),
            },
            Column::Ratio(pair) => match row.to_first[pair].ratio {
                Some(ratio) => format!("{}×", number(ratio)),
                None => String::new(),
            },
            Column::Verdict(pair) => {
                let verdict = row.to_first[pair].verdict;
                verdict.words(self.label(0), self.label(pair + 1))
            }
        }
    }

    fn table(&self, page: &mut Page, columns: &[Column]) {
        let others: usize = columns[1..]
            .iter()
            .map(|column| GAP + self.widest(*column))
            .sum();
        let room = self.width.saturating_sub(others + GAP).max(SHORTEST_NAME);
        let headers: Vec<String> = columns.iter().map(|column| self.header(*column)).collect();
        let alignments: Vec<CellAlignment> = columns
            .iter()
            .map(|column| match column {
                Column::Name | Column::Unit | Column::Verdict(_) => CellAlignment::Left,
                _ => CellAlignment::Right,
            })
            .collect();
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                let mut cells: Vec<String> = columns
                    .iter()
                    .map(|column| self.text(*column, row))
                    .collect();
                cells[0] = cut(&cells[0], room);
                cells
            })
            .collect();
        let mut lines = laid_out(&headers, &alignments, &rows).into_iter();
        page.line(Style::Dim, lines.next().unwrap_or_default());
        lines.for_each(|line| page.line(Style::Plain, line));
    }
}

/// `text` in at most `room` characters.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut text: String = text.chars().take(room.saturating_sub(1)).collect();
    text.push('…');
    text
}

/// Lines of a table without borders.
fn laid_out(headers: &[String], alignments: &[CellAlignment], rows: &[Vec<String>]) -> Vec<String> {
    let mut table = comfy_table::Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headers);
    for row in rows {
        table.add_row(row);
    }
    for (column, alignment) in table.column_iter_mut().zip(alignments) {
        column.set_padding((GAP as u16, 0));
        column.set_cell_alignment(*alignment);
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// A number as in every table, and one that no measurement comes to in few digits all the same.
pub(super) fn number(number: f64) -> String {
    match number.abs() {
        n if n >= 1e7 || (n > 0.0 && n < 0.005) => format!("{number:.2e}"),
        _ => figure(number),
    }
}

/// What stands below the tables: what ratios and verdicts mean.
pub(super) fn closing(comparison: &Comparison) -> Vec<String> {
    let verdicts = || {
        comparison
            .rows
            .iter()
            .flat_map(|row| &row.to_first)
            .map(|pair| pair.verdict)
    };
    let rule = &comparison.rule;
    let percent = (rule.times_above - 1.0) * 100.0;
    let mut lines = vec![
        format!(
            "ratio: how many times as fast as {} (of the medians). Above 1 is better in every unit",
            comparison.runs[0].label
        ),
        format!(
            "faster, slower: by chance rounds are so far apart in fewer than {} of 100 cases (p < \
             {}, rank-sum test), and the medians differ by more than {percent:.0}%",
            rule.p_below * 100.0,
            rule.p_below
        ),
    ];
    if verdicts().any(|verdict| verdict == Verdict::TooFewRounds) {
        lines.push(format!(
            "too few rounds: no difference can be significant. Each run needs at least {} rounds, \
             and 10 are better (--rounds)",
            rule.rounds_at_least
        ));
    }
    if comparison.tested > 0 {
        lines.push(format!(
            "{} {} tested: up to {} of them may be significant by chance",
            comparison.tested,
            if comparison.tested == 1 {
                "pair of figures was"
            } else {
                "pairs of figures were"
            },
            number(comparison.by_chance)
        ));
    }
    lines.push(
        "the rounds of one run do not show how much runs vary: first compare two runs of the same \
         thing with each other"
            .to_owned(),
    );
    lines
}

/// A line with its verdicts in green and red. Never in a name: words of a line are one space apart,
/// columns two or more, and a name has no column before it.
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
    use super::super::{Taken, compare};
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
            Taken {
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

    #[test]
    fn numbers_of_any_size_are_short() {
        for (shown, expected) in [
            (1.5, "1.50"),
            (1e300, "1.00e300"),
            (0.0001, "1.00e-4"),
            (0.0, "0.00"),
        ] {
            assert_eq!(number(shown), expected);
        }
    }
}

//! The columns of a comparison's table on a terminal: which of them fit, and what they show.

use comfy_table::CellAlignment;

use super::comparison::{ComparedFigure, Comparison};
use super::words::{number, row_name, unit};
use crate::report::text::{GAP, Style, TextPage, table_lines};
use fullbore_host::text;

/// What a column shows of the run or the pair at an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Unit,
    Median(usize),
    Range(usize),
    Ratio(usize),
    Verdict(usize),
}

/// The columns for each run, those for each further run compared with the first, and whether there is a
/// column for the unit: the largest set first.
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

/// The fewest characters that are left of a name.
const SHORTEST_NAME: usize = 8;

/// The rows of a group, to be laid out.
pub struct ShownFigures<'a> {
    pub comparison: &'a Comparison,
    pub rows: &'a [&'a ComparedFigure],
    pub with_unit: bool,
    pub width: usize,
}

impl ShownFigures<'_> {
    pub fn tables(&self, page: &mut TextPage) {
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

    /// Returns the columns of the first layout that fits.
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
            .map(|row| text::columns(&self.text(column, row)))
            .chain([text::columns(&self.header(column))])
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

    fn text(&self, column: Column, row: &ComparedFigure) -> String {
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

    fn table(&self, page: &mut TextPage, columns: &[Column]) {
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
                cells[0] = text::one_line(&cells[0], room);
                cells
            })
            .collect();
        let mut lines = table_lines(&headers, &alignments, &rows).into_iter();
        page.line(Style::Dim, lines.next().unwrap_or_default());
        lines.for_each(|line| page.line(Style::Plain, line));
    }
}

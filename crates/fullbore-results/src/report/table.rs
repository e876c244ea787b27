//! The run for a terminal: the machine, and a table for each group with its notes.
//!
//! The table is made to fit. Columns are dropped in a fixed order until a bar of a
//! useful length has room, and the bars take what is left; only a name longer than the terminal
//! is wide goes over it.

use std::io;

use fullbore_host::text;

use super::conclusion::warnings;
use super::fields::{Field, LAYOUTS, Wanted, fields};
use super::grid::{BEST_MARK, Grid};
use super::text::{GAP, Style, TextPage, bar};
use super::{
    Report, against_c, facts, groups, how_measured_with_ratios, is_noisy, least_cost, measured,
    noisy_footnote, notes, one_line, over_all_tables, remarks,
};
use crate::run::{Outcome, Run};

/// The run as text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Table {
    /// The terminal's width in columns; `None` where the text goes elsewhere.
    pub width: Option<u16>,
    /// Whether to use colours (ANSI escape sequences).
    pub color: bool,
    /// Whether to show the CPU seconds for each GiB.
    pub cost: bool,
    /// Whether to show each figure as a share of what the two CPUs can do.
    pub limit: bool,
}

impl Report<Run> for Table {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        let mut page = TextPage::new(self.width);
        let warnings = warnings(run);
        for text in &warnings {
            page.wrapped(Style::Plain, "warning: ", text);
        }
        if !warnings.is_empty() {
            page.blank();
        }
        page.labelled(&facts(run));
        let wanted = Wanted {
            cost: self.cost,
            limit: run.limit.as_ref().filter(|_| self.limit),
        };
        for (name, outcomes) in groups(run) {
            page.group(&name, &outcomes, wanted);
            for text in remarks(run, &outcomes) {
                page.wrapped(Style::Plain, "  ", text);
            }
        }
        page.blank();
        if run.experiments.iter().any(is_noisy) {
            page.wrapped(Style::Dim, "", &noisy_footnote());
        }
        if let Some(text) = against_c(run) {
            page.wrapped(Style::Dim, "", &text);
        }
        for text in over_all_tables(run) {
            page.wrapped(Style::Plain, "", &text);
        }
        page.wrapped(Style::Dim, "", &how_measured_with_ratios(run));
        page.write(self.color, out)
    }
}

impl TextPage {
    /// Adds a group: its table, then its notes and what was not measured.
    fn group(&mut self, name: &str, outcomes: &[&Outcome], wanted: Wanted<'_>) {
        self.blank();
        self.line(Style::Title, one_line(name));
        let measured = measured(outcomes);
        if let Some(grid) = Grid::of(outcomes) {
            self.grid(&grid);
        } else if !measured.is_empty() {
            table(self, &measured, wanted);
        }
        if let Some(words) = least_cost(&measured).filter(|_| wanted.cost) {
            self.wrapped(Style::Plain, "  ", &words);
        }
        for note in notes(&measured) {
            self.wrapped(Style::Dim, "  ", &note);
        }
        for what in ["skipped", "failed"] {
            let missing = outcomes
                .iter()
                .filter_map(|o| Some((&o.name, o.missing()?)));
            let missing = missing.filter(|(_, (known, _))| *known == what);
            let reasons = missing.map(|(name, (_, reason))| format!("{name}: {reason}"));
            self.listed(what, reasons);
        }
    }

    /// Adds a grid of figures, as many columns side by side as fit, and which is best.
    fn grid(&mut self, grid: &Grid) {
        let heading = format!("{}, by bytes per call ↓ and pipe capacity →", grid.unit());
        let mut lines = vec![[String::new()].into_iter().chain(grid.columns()).collect()];
        lines.extend(grid.rows().into_iter().map(|(name, cells)| {
            let texts = cells.into_iter().map(|(_, text)| text);
            [name].into_iter().chain(texts).collect::<Vec<String>>()
        }));
        let widths = lines.iter().flatten().map(|text| text::columns(text));
        let widest = GAP + widths.max().unwrap_or(0);
        let fitting = (self.width / widest).max(2) - 1;
        for from in (1..lines[0].len()).step_by(fitting) {
            let block = from..(from + fitting).min(lines[0].len());
            let row = |line: &Vec<String>| [&line[..1], &line[block.clone()]].concat();
            let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
            self.wrapped(Style::Dim, "  ", &heading);
            self.table(&rows, |_| true);
        }
        if let Some(words) = grid.in_words() {
            self.wrapped(Style::Plain, "  ", &format!("{BEST_MARK} {words}"));
        }
    }
}

/// The longest bar in columns. A longer one is not easier to read.
const LONGEST_BAR: usize = 40;

/// The width that a bar has at least in the layouts that have one.
const SHORTEST_BARS: [usize; 2] = [20, 8];

/// Adds the table of `outcomes` in the first layout that fits; its lines are wider than the page only where
/// none does.
pub fn table(page: &mut TextPage, outcomes: &[&Outcome], wanted: Wanted<'_>) {
    let fields = fields(outcomes, wanted);
    let mut shown: Vec<&Field> = Vec::new();
    let mut longest_bar = None;
    for layout in 0..LAYOUTS {
        let shortest_bar = SHORTEST_BARS.get(layout);
        shown = fields
            .iter()
            .filter(|field| field.layouts > layout)
            .collect();
        let widths = shown.iter().map(|field| field.width() + GAP);
        let used = widths.sum::<usize>() + shortest_bar.map_or(0, |_| GAP);
        let room = page.width.checked_sub(used);
        longest_bar = shortest_bar.map(|_| room.unwrap_or(0).min(LONGEST_BAR));
        if room >= Some(shortest_bar.copied().unwrap_or(0)) {
            break;
        }
    }
    let median = |outcome: &Outcome| outcome.median().unwrap_or(0.0);
    let largest = outcomes
        .iter()
        .map(|outcome| median(outcome))
        .fold(0.0, f64::max);
    let bars = longest_bar.map(|longest| {
        Field::words(("", 0), outcomes, |outcome| {
            bar(median(outcome) / largest, longest)
        })
    });
    shown.extend(&bars);
    page.fields(&shown);
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn written(run: &Run, table: Table) -> String {
        let mut text = Vec::new();
        table.write(run, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn plain(width: u16) -> String {
        let table = Table {
            width: Some(width),
            ..Table::default()
        };
        written(&fixture(), table)
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        for width in [40, 60, 80, 100, 120, 200] {
            let text = plain(width);
            for line in text.lines() {
                assert!(
                    line.chars().count() <= usize::from(width),
                    "{width}: {line:?}"
                );
            }
        }
    }

    #[test]
    fn a_sweep_is_a_grid_that_fits_and_marks_its_best() {
        let run = super::super::grid::fixture();
        for width in [30, 40, 100] {
            let text = written(
                &run,
                Table {
                    width: Some(width),
                    ..Table::default()
                },
            );
            for line in text.lines().skip_while(|line| !line.starts_with("sweep")) {
                assert!(line.chars().count() <= usize::from(width), "{line:?}");
            }
            assert_eq!(text.matches("skipped").count(), 3, "{text}");
        }
        let text = written(&run, Table::default());
        for line in [
            "sweep: copy → read, block",
            "          4 KiB  64 KiB   64 MiB",
            "   4 KiB   0.25    0.50  skipped",
            "  64 KiB   0.30   ▸4.00  skipped",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line:?} in\n{text}"
            );
        }
        assert!(text.contains("  ▸ best: 64 KiB per call"), "{text}");
        assert!(text.contains("chunk_4K_pipe_65536K: a pipe of 64 MiB is refused"));
    }

    #[test]
    fn costs_and_shares_of_the_limit_are_shown_on_request_and_fit() {
        let shown = |width| {
            let table = Table {
                width: Some(width),
                cost: true,
                limit: true,
                ..Table::default()
            };
            written(&fixture(), table)
        };
        let text = shown(130);
        for expected in [
            "CPU s/GiB (user + system)",
            "1.25 (0.50 + 0.75)",
            "of limit",
            "4.65%",
            "520%",
            "vmsplice_splice_same_buffer is the fastest, and write_read uses the least CPU time: 0.75 instead of 1.25",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        for text in [shown(60), shown(80), shown(100)] {
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(100), "{text}");
        }
        assert!(shown(80).contains("0.75 (0.25 + 0.50)"));
        for text in [plain(130), shown(50)] {
            assert!(!text.contains("0.25 + 0.50"), "{text}");
        }
        assert!(plain(130).contains("limit        20.0 GiB/s written by one CPU"));
    }

    #[test]
    fn a_narrow_terminal_has_no_room_for_the_range() {
        assert!(!plain(70).contains("min–max"));
        assert!(plain(120).contains("min–max"));
        assert!(plain(120).contains("12.3–12.5"));
    }

    #[test]
    fn the_figures_are_there() {
        let text = plain(120);
        for figure in ["0.93", "12.4", "~104", "1.00×", "112×", "3.70", "published"] {
            assert!(text.contains(figure), "{figure} in\n{text}");
        }
    }

    #[test]
    fn the_published_figures_have_a_column_only_where_there_are_some() {
        let mut run = fixture();
        for outcome in &mut run.experiments {
            outcome.published = None;
        }
        assert!(!written(&run, Table::default()).contains("published"));
    }

    #[test]
    fn what_was_not_measured_is_listed_with_its_reason() {
        let text = plain(80);
        assert!(text.contains("  skipped\n    hugetlb: no hugetlb page is free here\n"));
        assert!(text.contains("  failed\n    breaks: the reader ended with status 1: read from"));
    }

    #[test]
    fn notes_name_their_experiments_and_noise_is_explained_once() {
        let text = plain(80);
        assert!(
            text.contains("\n  write_read_huge: the kernel backs the buffer with base pages\n")
        );
        assert_eq!(
            text.matches("the rounds differ by more than 20%").count(),
            1
        );
    }

    #[test]
    fn a_note_that_several_share_is_shown_once() {
        let mut run = fixture();
        run.experiments[1].notes = run.experiments[2].notes.clone();
        let text = written(&run, Table::default());
        assert_eq!(text.matches(&run.experiments[2].notes[0]).count(), 1);
        assert!(text.contains("  vmsplice_splice_same_buffer, write_read_huge: the kernel"));
    }

    #[test]
    fn the_last_line_says_how_it_was_measured() {
        let text = plain(120);
        assert_eq!(
            text.lines().last().unwrap(),
            "median of 3 rounds of 0.5 s each, shuffled; ratios are to write_read in this run"
        );
    }

    #[test]
    fn colour_changes_nothing_but_the_escape_sequences() {
        let table = Table {
            width: Some(80),
            color: true,
            ..Table::default()
        };
        let mut text = written(&fixture(), table);
        for escape in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m"] {
            assert!(text.contains(escape), "{escape:?}");
            text = text.replace(escape, "");
        }
        assert_eq!(text, plain(80));
    }
}

//! The run for a terminal: the machine, a table per group, and what there is to know about it.
//!
//! The table is made to fit. Columns are dropped in a fixed order (`LAYOUTS`) until a bar of a
//! useful length has room, and the bars take what is left; only a name longer than the terminal
//! is wide goes over it. Colour is put on whole lines and on bars after they are laid out, so
//! that no escape sequence ever counts as width.

use std::io;

use comfy_table::{CellAlignment, ContentArrangement, Row, presets};

use super::grid::{Grid, size};
use super::{
    Report, against_c, distance, figure, groups, how_measured_with_ratios, is_noisy, marked_median,
    noisy_footnote, one_line, over_all_tables, peers,
};
use crate::run::{Outcome, Run};
use fullbore_host::text;

/// The run as text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Table {
    /// The terminal's width in columns; `None` where the text goes elsewhere.
    pub width: Option<u16>,
    /// Whether to use colours (ANSI escape sequences).
    pub color: bool,
}

/// The width in columns where there is no terminal to ask.
pub const WIDTH_WITHOUT_A_TERMINAL: u16 = 100;

/// What stands before the best figure of a grid.
const BEST_MARK: &str = "▸";

/// The longest bar in columns: beyond this it only makes the eye travel.
const LONGEST_BAR: usize = 40;

/// Spaces between two columns.
pub(crate) const GAP: usize = 2;

impl Report<Run> for Table {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        let mut page = Page {
            width: usize::from(self.width.unwrap_or(WIDTH_WITHOUT_A_TERMINAL)),
            lines: Vec::new(),
        };
        page.machine(run);
        for (name, outcomes) in groups(run) {
            page.group(&name, &outcomes);
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
        for line in &page.lines {
            writeln!(out, "{}", line.painted(self.color))?;
        }
        Ok(())
    }
}

/// How a line looks where there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As it is; a bar at its end is cyan.
    Plain,
    /// Bold.
    Title,
    /// Faint.
    Dim,
}

/// One line of the report.
pub struct Line {
    /// How it looks.
    pub style: Style,
    /// What it says, without escape sequences.
    pub text: String,
}

impl Line {
    /// The line as it goes to the terminal.
    pub fn painted(&self, color: bool) -> String {
        let text = &self.text;
        match self.style {
            _ if !color || text.is_empty() => text.clone(),
            Style::Plain => paint_bar(text),
            Style::Title => format!("\u{1b}[1m{text}\u{1b}[0m"),
            Style::Dim => format!("\u{1b}[2m{text}\u{1b}[0m"),
        }
    }
}

/// `text` with the bar at its end, if any, in cyan.
fn paint_bar(text: &str) -> String {
    match text.find(|c| EIGHTHS.contains(&c)) {
        Some(start) => {
            let (before, bar) = text.split_at(start);
            format!("{before}\u{1b}[36m{bar}\u{1b}[0m")
        }
        None => text.to_owned(),
    }
}

/// The report's lines so far.
pub struct Page {
    /// Columns that a line may have.
    pub width: usize,
    /// The lines, top down.
    pub lines: Vec<Line>,
}

impl Page {
    /// Adds a line, however long it is.
    pub fn line(&mut self, style: Style, text: impl Into<String>) {
        let text = text.into();
        self.lines.push(Line { style, text });
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.line(Style::Plain, "");
    }

    /// Adds `label` and then `text`, in lines that fit, each but the first indented to the text.
    pub fn wrapped(&mut self, style: Style, label: &str, text: &str) {
        let indent = label.chars().count();
        let mut start = label.to_owned();
        for words in text::wrapped(&one_line(text), self.width.saturating_sub(indent)) {
            self.line(style, format!("{start}{words}"));
            start = " ".repeat(indent);
        }
    }

    /// The block above the tables.
    fn machine(&mut self, run: &Run) {
        let mut lines = run.machine.lines();
        lines.extend(distance(run).map(|text| ("cache line", text)));
        lines.extend(peers(run).map(|text| ("peers", text)));
        let widest = lines
            .iter()
            .map(|(label, _)| label.len())
            .max()
            .unwrap_or(0);
        for (label, value) in lines {
            self.wrapped(Style::Plain, &format!("{label:<widest$}  "), &value);
        }
    }

    /// A group: its table, then what there is to know about it.
    fn group(&mut self, name: &str, outcomes: &[&Outcome]) {
        self.blank();
        self.line(Style::Title, one_line(name));
        let measured: Vec<&Outcome> = outcomes
            .iter()
            .copied()
            .filter(|outcome| outcome.figure.is_some())
            .collect();
        let footnotes = Footnotes::of(&measured);
        if let Some(grid) = Grid::of(outcomes) {
            self.grid(&grid, &footnotes);
        } else if !measured.is_empty() {
            let mut lines = table(&measured, &footnotes, self.width).into_iter();
            self.line(Style::Dim, lines.next().unwrap_or_default());
            lines.for_each(|line| self.line(Style::Plain, line));
        }
        for (number, note) in footnotes.0.iter().enumerate() {
            self.wrapped(Style::Dim, &format!("  {} ", superscript(number + 1)), note);
        }
        self.reasons("skipped", outcomes, |outcome| outcome.skipped.as_deref());
        self.reasons("failed", outcomes, |outcome| outcome.failed.as_deref());
    }

    /// A grid of figures, and which is best; then how they compare with programs in C.
    fn grid(&mut self, grid: &Grid, footnotes: &Footnotes) {
        let unit = grid.unit();
        self.cells(
            grid,
            &format!("{unit}, by bytes per call ↓ and pipe capacity →"),
            |outcome| {
                let best = if grid.is_best(outcome) { BEST_MARK } else { "" };
                let text = format!(
                    "{best}{}{}",
                    marked_median(outcome),
                    footnotes.marks(outcome)
                );
                match (&outcome.failed, &outcome.skipped) {
                    (Some(_), _) => "failed".into(),
                    (None, Some(_)) => "skipped".into(),
                    (None, None) => text,
                }
            },
        );
        if let Some(words) = grid.in_words() {
            self.wrapped(Style::Plain, "  ", &format!("{BEST_MARK} {words}"));
        }
        let peer = |outcome: &Outcome| outcome.peer.as_ref()?.ratio;
        if grid.best().is_some_and(|best| peer(best).is_some()) {
            self.cells(grid, "speed relative to the C program", |outcome| {
                peer(outcome).map_or_else(String::new, |ratio| format!("{ratio:.2}×"))
            });
        }
    }

    /// A row for each chunk, a column for each pipe size: as many columns side by side as fit.
    fn cells(&mut self, grid: &Grid, heading: &str, text: impl Fn(&Outcome) -> String) {
        let column = |pipe_size: usize| -> Vec<String> {
            let figures = grid.chunks.iter().map(|&chunk| {
                let outcome = grid.at(chunk, pipe_size);
                outcome.map(&text).unwrap_or_default()
            });
            [size(pipe_size)].into_iter().chain(figures).collect()
        };
        let names = grid.chunks.iter().map(|&chunk| size(chunk));
        let names: Vec<String> = [String::new()].into_iter().chain(names).collect();
        let columns: Vec<Vec<String>> = grid.pipe_sizes.iter().map(|&p| column(p)).collect();
        let widest = |column: &Vec<String>| {
            let widths = column.iter().map(|text| text.chars().count());
            GAP + widths.max().unwrap_or(0)
        };
        let mut left = columns.as_slice();
        while !left.is_empty() {
            let mut width = widest(&names);
            let fitting = left.iter().take_while(|column| {
                width += widest(column);
                width <= self.width
            });
            let (block, rest) = left.split_at(fitting.count().max(1));
            left = rest;
            self.wrapped(Style::Dim, "  ", heading);
            for row in 0..names.len() {
                let line = [&names]
                    .into_iter()
                    .chain(block)
                    .map(|column| format!("{:>1$}", column[row], widest(column)));
                let style = if row == 0 { Style::Dim } else { Style::Plain };
                self.line(style, line.collect::<String>());
            }
        }
    }

    /// The experiments that have a `reason`, by name, under `heading`.
    fn reasons(
        &mut self,
        heading: &str,
        outcomes: &[&Outcome],
        reason: impl Fn(&Outcome) -> Option<&str>,
    ) {
        let concerned: Vec<(&str, &str)> = outcomes
            .iter()
            .filter_map(|outcome| Some((outcome.name.as_str(), reason(outcome)?)))
            .collect();
        if concerned.is_empty() {
            return;
        }
        self.line(Style::Plain, format!("  {heading}"));
        for (name, reason) in concerned {
            self.wrapped(Style::Plain, "    ", &format!("{name}: {reason}"));
        }
    }
}

/// The notes of a group, each once, in the order in which they come up.
struct Footnotes(Vec<String>);

impl Footnotes {
    fn of(outcomes: &[&Outcome]) -> Footnotes {
        let mut notes: Vec<String> = Vec::new();
        for note in outcomes.iter().flat_map(|outcome| &outcome.notes) {
            let note = one_line(note);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        Footnotes(notes)
    }

    /// The marks of an outcome's notes, such as `¹ ³`; empty where it has none.
    fn marks(&self, outcome: &Outcome) -> String {
        let mut numbers: Vec<usize> = outcome
            .notes
            .iter()
            .filter_map(|note| self.0.iter().position(|known| *known == one_line(note)))
            .map(|index| index + 1)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let marks: Vec<String> = numbers.into_iter().map(superscript).collect();
        marks.join(" ")
    }
}

/// A number in superscript digits.
fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number
        .to_string()
        .bytes()
        .map(|digit| DIGITS[usize::from(digit - b'0')])
        .collect()
}

/// What a column of the table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Median,
    Range,
    /// The further figures: in a layout, all of them.
    Also(usize),
    Ratio,
    Published,
    /// How many times as fast this was as the program in C that does the same.
    Peer,
    Soundness,
    Bar,
}

/// What the experiments of a table have in common.
struct Shape {
    unit: &'static str,
    /// The headers of the further figures, by name.
    also: Vec<(String, String)>,
    published: bool,
    peer: bool,
    checked: bool,
}

impl Shape {
    fn of(outcomes: &[&Outcome]) -> Self {
        let mut also: Vec<(String, String)> = Vec::new();
        for figure in outcomes.iter().flat_map(|outcome| &outcome.also) {
            if also.iter().all(|(known, _)| *known != figure.name) {
                let header = format!("{} {}", figure.name, figure.unit.name());
                also.push((figure.name.clone(), header));
            }
        }
        Self {
            unit: outcomes.first().map_or("", |outcome| outcome.unit.name()),
            also,
            published: outcomes.iter().any(|outcome| outcome.published.is_some()),
            peer: outcomes.iter().any(|outcome| outcome.peer.is_some()),
            checked: outcomes.iter().any(|outcome| outcome.soundness.is_some()),
        }
    }

    /// The columns of a layout that have something to show.
    fn columns(&self, layout: &[Column]) -> Vec<Column> {
        layout
            .iter()
            .flat_map(|column| match column {
                Column::Also(_) => (0..self.also.len()).map(Column::Also).collect(),
                Column::Published if !self.published => vec![],
                Column::Peer if !self.peer => vec![],
                Column::Soundness if !self.checked => vec![],
                column => vec![*column],
            })
            .collect()
    }
}

impl Column {
    fn header(self, shape: &Shape) -> &str {
        match self {
            Column::Name => "experiment",
            Column::Median => shape.unit,
            Column::Range => "min–max",
            Column::Also(index) => &shape.also[index].1,
            Column::Ratio => "ratio",
            Column::Published => "published",
            Column::Peer => "to C",
            Column::Soundness => "bytes",
            Column::Bar => "",
        }
    }

    fn alignment(self) -> CellAlignment {
        match self {
            Column::Name | Column::Soundness | Column::Bar => CellAlignment::Left,
            _ => CellAlignment::Right,
        }
    }

    /// What it shows of `outcome`; the bar, whose length depends on the others, is not here.
    fn text(self, outcome: &Outcome, shape: &Shape, footnotes: &Footnotes) -> String {
        match self {
            Column::Also(index) => outcome
                .also
                .iter()
                .find(|also| also.name == shape.also[index].0)
                .map(|also| figure(also.figure.median))
                .unwrap_or_default(),
            Column::Peer => outcome
                .peer
                .as_ref()
                .map(|peer| peer.ratio.map_or("failed".into(), |r| format!("{r:.2}×")))
                .unwrap_or_default(),
            Column::Name => format!("{} {}", outcome.name, footnotes.marks(outcome))
                .trim_end()
                .to_owned(),
            Column::Median => marked_median(outcome),
            Column::Range => outcome
                .figure
                .as_ref()
                .map(|spread| format!("{}–{}", figure(spread.min), figure(spread.max)))
                .unwrap_or_default(),
            Column::Ratio => outcome
                .ratio
                .map(|ratio| format!("{}×", figure(ratio)))
                .unwrap_or_default(),
            Column::Published => outcome.published.map(figure).unwrap_or_default(),
            Column::Soundness => match &outcome.soundness {
                None => String::new(),
                Some(soundness) if soundness.right => "right".into(),
                Some(_) => "WRONG".into(),
            },
            Column::Bar => String::new(),
        }
    }
}

/// The columns to try, the most telling set first, and the room in columns that the bar must
/// have in each. The first that fits is taken, or else the last.
const LAYOUTS: [(&[Column], usize); 6] = {
    use Column::{Also, Bar, Median, Name, Peer, Published, Range, Ratio, Soundness};
    let also = Also(0);
    [
        (
            &[
                Name, Median, Range, also, Ratio, Published, Peer, Soundness, Bar,
            ],
            20,
        ),
        (
            &[Name, Median, also, Ratio, Published, Peer, Soundness, Bar],
            8,
        ),
        (&[Name, Median, also, Ratio, Published, Peer, Soundness], 0),
        (&[Name, Median, also, Ratio, Soundness], 0),
        (&[Name, Median, Ratio, Soundness], 0),
        (&[Name, Median, Soundness], 0),
    ]
};

/// The lines of the table of `outcomes`, none wider than `width` if it can be helped.
fn table(outcomes: &[&Outcome], footnotes: &Footnotes, width: usize) -> Vec<String> {
    let shape = Shape::of(outcomes);
    let mut chosen = (Vec::new(), 0);
    for (layout, bar_at_least) in LAYOUTS {
        let columns = shape.columns(layout);
        let used: usize = columns
            .iter()
            .map(|column| GAP + column_width(*column, outcomes, &shape, footnotes))
            .sum();
        let room = width.checked_sub(used);
        chosen = (columns, room.unwrap_or(0).min(LONGEST_BAR));
        if room.is_some_and(|room| room >= bar_at_least) {
            break;
        }
    }
    let (columns, longest_bar) = chosen;
    laid_out(&columns, outcomes, &shape, footnotes, longest_bar)
}

/// How wide a column is: its widest text, the header included.
fn column_width(
    column: Column,
    outcomes: &[&Outcome],
    shape: &Shape,
    footnotes: &Footnotes,
) -> usize {
    outcomes
        .iter()
        .map(|outcome| column.text(outcome, shape, footnotes).chars().count())
        .chain([column.header(shape).chars().count()])
        .max()
        .unwrap_or(0)
}

/// The table with these columns, and bars of at most `longest_bar` columns.
fn laid_out(
    columns: &[Column],
    outcomes: &[&Outcome],
    shape: &Shape,
    footnotes: &Footnotes,
    longest_bar: usize,
) -> Vec<String> {
    let median = |outcome: &Outcome| outcome.figure.as_ref().map_or(0.0, |spread| spread.median);
    let largest = outcomes
        .iter()
        .map(|outcome| median(outcome))
        .fold(0.0, f64::max);
    let mut table = comfy_table::Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(Row::from(columns.iter().map(|column| column.header(shape))));
    for outcome in outcomes {
        table.add_row(Row::from(columns.iter().map(|column| match column {
            Column::Bar => bar(median(outcome) / largest, longest_bar),
            other => other.text(outcome, shape, footnotes),
        })));
    }
    for (column, shown) in table.column_iter_mut().zip(columns) {
        column.set_padding((GAP as u16, 0));
        column.set_cell_alignment(shown.alignment());
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// The blocks of one to eight eighths.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar of `share` (0 to 1) of `longest` columns, to an eighth of one; what is more than nothing
/// shows as at least an eighth.
fn bar(share: f64, longest: usize) -> String {
    if share.is_nan() || share <= 0.0 || longest == 0 {
        return String::new();
    }
    let eighths = (share.min(1.0) * (longest * 8) as f64).round().max(1.0) as usize;
    let mut bar = "█".repeat(eighths / 8);
    if let Some(last) = (eighths % 8).checked_sub(1) {
        bar.push(EIGHTHS[last]);
    }
    bar
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
            color: false,
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
                    color: false,
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
            "         4KiB  64KiB    64MiB",
            "   4KiB  0.25   0.50  skipped",
            "  64KiB  0.30  ▸4.00  skipped",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line:?} in\n{text}"
            );
        }
        assert!(text.contains("  ▸ best: 64KiB per call"), "{text}");
        assert!(text.contains("chunk_4K_pipe_65536K: a pipe of 64MiB is refused"));
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
    fn notes_are_footnotes_and_noise_is_explained_once() {
        let text = plain(80);
        assert!(text.contains("write_read_huge ¹"));
        assert!(text.contains("  ¹ the kernel backs the buffer with base pages"));
        assert_eq!(
            text.matches("the rounds differ by more than 20%").count(),
            1
        );
    }

    #[test]
    fn a_note_that_several_share_is_one_footnote() {
        let mut run = fixture();
        run.experiments[1].notes = run.experiments[2].notes.clone();
        let text = written(&run, Table::default());
        assert_eq!(text.matches(&run.experiments[2].notes[0]).count(), 1);
        assert!(text.contains("vmsplice_splice_same_buffer ¹"));
        assert!(text.contains("write_read_huge ¹"));
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
        };
        let mut text = written(&fixture(), table);
        for escape in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[36m"] {
            assert!(text.contains(escape), "{escape:?}");
            text = text.replace(escape, "");
        }
        assert_eq!(text, plain(80));
    }

    #[test]
    fn a_bar_is_drawn_to_an_eighth_of_a_column() {
        let cases = [
            (0.0, ""),
            (f64::NAN, ""),
            (0.0001, "▏"),
            (0.25, "█"),
            (0.28125, "█▏"),
            (0.5, "██"),
            (1.0, "████"),
            (7.0, "████"),
        ];
        for (share, expected) in cases {
            assert_eq!(bar(share, 4), expected, "{share}");
        }
        assert_eq!(bar(1.0, 0), "");
    }
}

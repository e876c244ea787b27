//! The columns of a group's table: which of them fit, and what they show.

use comfy_table::CellAlignment;

use super::footnotes::Footnotes;
use crate::report::text::{GAP, bar, table_lines};
use crate::report::{figure, marked_median, percent};
use crate::run::{Limit, Outcome};
use fullbore_host::text;

/// What a column of the table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Median,
    Range,
    /// The further figures: in a layout, all of them.
    Also(usize),
    Ratio,
    /// The ratio pair by pair, with the CPUs near each other or, if this is `true`, far apart.
    Pairs(bool),
    /// CPU seconds for each GiB.
    Cost,
    /// How much it is of what the two CPUs can do.
    Limit,
    Published,
    /// How many times as fast this was as the program in C that does the same.
    Peer,
    Soundness,
    Bar,
}

impl Column {
    fn header<'a>(self, shape: &'a Shape<'_>) -> &'a str {
        match self {
            Column::Name => "experiment",
            Column::Median => shape.unit,
            Column::Range => "min–max",
            Column::Also(index) => &shape.also[index].1,
            Column::Ratio => "ratio",
            Column::Pairs(false) => "pair by pair",
            Column::Pairs(true) => "with far CPUs",
            Column::Cost => "CPU s/GiB (user + system)",
            Column::Limit => "of limit",
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

    /// Returns what the column shows of `outcome`. A bar is empty here, because its length depends
    /// on the other experiments.
    fn text(self, outcome: &Outcome, shape: &Shape<'_>, footnotes: &Footnotes) -> String {
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
            Column::Pairs(apart) => outcome
                .pairs
                .iter()
                .find(|pairs| pairs.apart == apart)
                .map(|pairs| {
                    let ratio = figure(pairs.ratio);
                    match pairs.interval.map(|ends| ends.map(figure)) {
                        Some([low, high]) => format!("{ratio}× ({low}–{high})"),
                        None => format!("{ratio}×"),
                    }
                })
                .unwrap_or_default(),
            Column::Cost => outcome
                .cost
                .as_ref()
                .map(|cost| {
                    let [total, user, system] =
                        [&cost.total, &cost.user, &cost.system].map(|spread| figure(spread.median));
                    format!("{total} ({user} + {system})")
                })
                .unwrap_or_default(),
            Column::Limit => (shape.limit)
                .and_then(|limit| outcome.share_of(limit))
                .map(percent)
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

/// What the experiments of a table have in common.
struct Shape<'a> {
    unit: &'static str,
    /// The headers of the further figures, by name.
    also: Vec<(String, String)>,
    published: bool,
    peer: bool,
    checked: bool,
    /// Whether there are pairs to show, with the CPUs near each other and far apart.
    pairs: [bool; 2],
    /// Whether the costs are shown.
    cost: bool,
    /// The limit, if shares of it are shown.
    limit: Option<&'a Limit>,
}

impl<'a> Shape<'a> {
    fn of(outcomes: &[&Outcome], wanted: Wanted<'a>) -> Self {
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
            pairs: [false, true].map(|apart| {
                let mut pairs = outcomes.iter().flat_map(|outcome| &outcome.pairs);
                wanted.pairs && pairs.any(|pairs| pairs.apart == apart)
            }),
            cost: wanted.cost && outcomes.iter().any(|outcome| outcome.cost.is_some()),
            limit: wanted.limit,
        }
    }

    /// Returns the columns of a layout that have something to show.
    fn columns(&self, layout: &[Column]) -> Vec<Column> {
        layout
            .iter()
            .flat_map(|column| match column {
                Column::Also(_) => (0..self.also.len()).map(Column::Also).collect(),
                Column::Pairs(apart) if !self.pairs[usize::from(*apart)] => vec![],
                Column::Cost if !self.cost => vec![],
                Column::Limit if self.limit.is_none() => vec![],
                Column::Published if !self.published => vec![],
                Column::Peer if !self.peer => vec![],
                Column::Soundness if !self.checked => vec![],
                column => vec![*column],
            })
            .collect()
    }
}

/// The longest bar in columns. A longer one is not easier to read.
const LONGEST_BAR: usize = 40;

/// The sets of columns to try, the largest first, each with the width that a bar must have at least. The
/// first that fits is used, or else the last.
#[rustfmt::skip]
const LAYOUTS: [(&[Column], usize); 7] = {
    use Column::{Also, Bar, Cost, Limit, Median, Name, Pairs, Peer, Published, Range, Ratio, Soundness};
    let (also, near, far) = (Also(0), Pairs(false), Pairs(true));
    [
        (&[Name, Median, Range, also, Ratio, near, far, Cost, Limit, Published, Peer, Soundness, Bar], 20),
        (&[Name, Median, also, Ratio, near, far, Cost, Limit, Published, Peer, Soundness, Bar], 8),
        (&[Name, Median, also, Ratio, near, far, Cost, Limit, Published, Peer, Soundness], 0),
        (&[Name, Median, also, Ratio, near, far, Cost, Limit, Soundness], 0),
        (&[Name, Median, Ratio, near, far, Cost, Limit, Soundness], 0),
        (&[Name, Median, near, far, Cost, Limit, Soundness], 0),
        (&[Name, Median, Soundness], 0),
    ]
};

/// What is shown only on request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Whether to show what a GiB costs.
    pub cost: bool,
    /// The limit, if shares of it are shown.
    pub limit: Option<&'a Limit>,
    /// Whether to show ratios pair by pair.
    pub pairs: bool,
}

/// Returns the lines of the table of `outcomes`; they are wider than `width` only where no layout
/// fits.
pub fn table(
    outcomes: &[&Outcome],
    footnotes: &Footnotes,
    wanted: Wanted<'_>,
    width: usize,
) -> Vec<String> {
    let shape = Shape::of(outcomes, wanted);
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

/// Returns the width of a column: that of its widest text, the header included.
fn column_width(
    column: Column,
    outcomes: &[&Outcome],
    shape: &Shape<'_>,
    footnotes: &Footnotes,
) -> usize {
    outcomes
        .iter()
        .map(|outcome| text::columns(&column.text(outcome, shape, footnotes)))
        .chain([text::columns(column.header(shape))])
        .max()
        .unwrap_or(0)
}

/// Returns the lines of the table with these columns, and bars of at most `longest_bar` columns.
fn laid_out(
    columns: &[Column],
    outcomes: &[&Outcome],
    shape: &Shape<'_>,
    footnotes: &Footnotes,
    longest_bar: usize,
) -> Vec<String> {
    let median = |outcome: &Outcome| outcome.figure.as_ref().map_or(0.0, |spread| spread.median);
    let largest = outcomes
        .iter()
        .map(|outcome| median(outcome))
        .fold(0.0, f64::max);
    let headers: Vec<String> = columns
        .iter()
        .map(|column| column.header(shape).to_owned())
        .collect();
    let alignments: Vec<CellAlignment> = columns.iter().map(|column| column.alignment()).collect();
    let row = |outcome: &&Outcome| -> Vec<String> {
        let cells = columns.iter().map(|column| match column {
            Column::Bar => bar(median(outcome) / largest, longest_bar),
            other => other.text(outcome, shape, footnotes),
        });
        cells.collect()
    };
    let rows: Vec<Vec<String>> = outcomes.iter().map(row).collect();
    table_lines(&headers, &alignments, &rows)
}

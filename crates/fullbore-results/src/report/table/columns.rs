//! The columns of a group's table on a terminal: which of them fit.

use comfy_table::CellAlignment;

use super::footnotes::Footnotes;
use crate::report::fields::{Field, Fields};
use crate::report::text::{GAP, bar, table_lines};
use crate::run::{Limit, Outcome};
use fullbore_host::text;

/// The longest bar in columns. A longer one is not easier to read.
const LONGEST_BAR: usize = 40;

/// The sets of columns to try, the largest first, each with the width that a bar must have at least. The
/// first that fits is used, or else the last.
#[rustfmt::skip]
const LAYOUTS: [(&[Field], usize); 6] = {
    use Field::{Also, Bar, Cost, Limit, Median, Name, Peer, Published, Range, Ratio, Soundness};
    let also = Also(0);
    [
        (&[Name, Median, Range, also, Ratio, Cost, Limit, Published, Peer, Soundness, Bar], 20),
        (&[Name, Median, also, Ratio, Cost, Limit, Published, Peer, Soundness, Bar], 8),
        (&[Name, Median, also, Ratio, Cost, Limit, Published, Peer, Soundness], 0),
        (&[Name, Median, also, Ratio, Cost, Limit, Soundness], 0),
        (&[Name, Median, Ratio, Cost, Limit, Soundness], 0),
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
}

impl Wanted<'_> {
    fn has(self, field: Field) -> bool {
        match field {
            Field::Cost => self.cost,
            _ => true,
        }
    }
}

/// Returns the lines of the table of `outcomes`; they are wider than `width` only where no layout
/// fits.
pub fn table(
    outcomes: &[&Outcome],
    footnotes: &Footnotes,
    wanted: Wanted<'_>,
    width: usize,
) -> Vec<String> {
    let fields = Fields::of(outcomes, wanted.limit);
    let text = |field: Field, outcome: &Outcome| match field {
        Field::Name => format!("{} {}", outcome.name, footnotes.marks(outcome))
            .trim_end()
            .to_owned(),
        field => fields.text(field, outcome),
    };
    let widest = |field: Field| {
        let texts = outcomes.iter().map(|outcome| text(field, outcome));
        let texts = texts.chain([fields.heading(field)]);
        texts.map(|text| text::columns(&text)).max().unwrap_or(0)
    };
    let mut chosen = (Vec::new(), 0);
    for (layout, bar_at_least) in LAYOUTS {
        let mut shown = fields.with_content(layout, outcomes);
        shown.retain(|field| wanted.has(*field));
        let used: usize = shown.iter().map(|field| GAP + widest(*field)).sum();
        let room = width.checked_sub(used);
        chosen = (shown, room.unwrap_or(0).min(LONGEST_BAR));
        if room.is_some_and(|room| room >= bar_at_least) {
            break;
        }
    }
    let (shown, longest_bar) = chosen;
    let median = |outcome: &Outcome| fields.number(Field::Median, outcome).unwrap_or(0.0);
    let largest = outcomes
        .iter()
        .map(|outcome| median(outcome))
        .fold(0.0, f64::max);
    let cell = |field: Field, outcome: &Outcome| match field {
        Field::Bar => bar(median(outcome) / largest, longest_bar),
        field => text(field, outcome),
    };
    let row = |outcome: &&Outcome| shown.iter().map(|field| cell(*field, outcome)).collect();
    let rows: Vec<Vec<String>> = outcomes.iter().map(row).collect();
    let headings: Vec<String> = shown.iter().map(|field| fields.heading(*field)).collect();
    let alignments: Vec<CellAlignment> = shown
        .iter()
        .map(|field| match field.is_number() {
            true => CellAlignment::Right,
            false => CellAlignment::Left,
        })
        .collect();
    table_lines(&headings, &alignments, &rows)
}

//! The columns of a group's table on a terminal: which of them fit.

use crate::report::fields::{ALL, Field, Fields, Wanted};
use crate::report::text::{GAP, TextPage, bar};
use crate::run::Outcome;
use fullbore_host::text;

/// The longest bar in columns. A longer one is not easier to read.
const LONGEST_BAR: usize = 40;

/// The sets of columns to try, the largest first, each with the width that a bar must have at least. The
/// first that fits is used, or else the last.
#[rustfmt::skip]
const LAYOUTS: [(&[Field], usize); 6] = {
    use Field::{Also, Bar, Cost, Limit, Median, Name, Peer, Published, Ratio, Soundness};
    let also = Also(0);
    [
        (ALL, 20),
        (&[Name, Median, also, Ratio, Cost, Limit, Published, Peer, Soundness, Bar], 8),
        (&[Name, Median, also, Ratio, Cost, Limit, Published, Peer, Soundness], 0),
        (&[Name, Median, also, Ratio, Cost, Limit, Soundness], 0),
        (&[Name, Median, Ratio, Cost, Limit, Soundness], 0),
        (&[Name, Median, Soundness], 0),
    ]
};

/// Adds the table of `outcomes`; its lines are wider than the page only where no layout fits.
pub fn table(page: &mut TextPage, outcomes: &[&Outcome], wanted: Wanted<'_>) {
    let fields = Fields::of(outcomes, wanted);
    let widest = |field: Field| {
        let texts = outcomes.iter().map(|outcome| fields.text(field, outcome));
        let texts = texts.chain([fields.heading(field)]);
        texts.map(|text| text::columns(&text)).max().unwrap_or(0)
    };
    let mut chosen = (Vec::new(), 0);
    for (layout, bar_at_least) in LAYOUTS {
        let shown = fields.with_content(layout, outcomes);
        let used: usize = shown.iter().map(|field| GAP + widest(*field)).sum();
        let room = page.width.checked_sub(used);
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
        field => fields.text(field, outcome),
    };
    let row = |outcome: &&Outcome| shown.iter().map(|field| cell(*field, outcome)).collect();
    let mut rows: Vec<Vec<String>> = outcomes.iter().map(row).collect();
    let headings = shown.iter().map(|field| fields.heading(*field));
    rows.insert(0, headings.collect());
    page.table(&rows, |at| shown[at].is_number());
}

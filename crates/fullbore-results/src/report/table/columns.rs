//! The columns of a group's table on a terminal: which of them fit.

use crate::report::fields::{Field, LAYOUTS, Wanted, fields};
use crate::report::text::{GAP, TextPage, bar};
use crate::run::Outcome;

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

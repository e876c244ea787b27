//! Decides which pipes are shown, and in what order: the pipes of a pipeline stay together.

use super::cells;
use fullbore_observe::overview::{Overview, PipeState};

/// The column by which pipes are sorted: its place among [`COLUMNS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sort(usize);

/// A column: its name, and the value by which a pipe is sorted. The pipe with the highest value comes first.
type Column = (&'static str, fn(&PipeState) -> f64);

/// The columns by which pipes can be sorted, in the order in which the user gets them.
const COLUMNS: [Column; 6] = [
    ("rate", |row| row.bytes_per_second.unwrap_or(-1.0)),
    ("full", |row| row.filled.unwrap_or(-1.0)),
    ("waits", |row| {
        let blocked = row.blocked.iter().map(|blocked| blocked.seconds);
        blocked.fold(-1.0, f64::max)
    }),
    ("holds", |row| row.capacity.map_or(-1.0, |size| size as f64)),
    ("newest", |row| row.first_seen),
    // By the names of the processes, and nothing else.
    ("name", |_| 0.0),
];

impl Sort {
    /// Returns the column that follows this one, and the first after the last.
    pub fn next(self) -> Self {
        Self((self.0 + 1) % COLUMNS.len())
    }

    pub fn in_words(self) -> &'static str {
        COLUMNS[self.0].0
    }
}

/// Returns the indices of the rows in the order in which to show them. In a pipeline, the pipe that would
/// come first decides its place. A pipeline is shown as a whole if the text of one of its pipes contains
/// `filter`, in upper or lower case.
pub fn order(overview: &Overview, sort: Sort, reverse: bool, filter: &str) -> Vec<usize> {
    let filter = filter.to_lowercase();
    let chains = overview.chains.iter().map(|chain| chain.pipes.clone());
    let mut groups: Vec<Vec<usize>> = chains.collect();
    let alone = overview.pipes.iter().enumerate();
    groups.extend(alone.filter_map(|(at, row)| row.chain.is_none().then_some(vec![at])));
    groups.retain(|group| {
        let mut rows = group.iter().map(|&at| &overview.pipes[at]);
        filter.is_empty() || rows.any(|row| text(row).to_lowercase().contains(&filter))
    });
    let key = |group: &Vec<usize>| {
        let rows = group.iter().map(|&at| &overview.pipes[at]);
        let weights = rows.map(COLUMNS[sort.0].1);
        let first = &overview.pipes[group[0]];
        let name = match sort.in_words() {
            "name" => cells::ends(first),
            _ => String::new(),
        };
        // Pipes in a chain come before the others, of which one side is not visible.
        let place = (name, first.chain.is_none(), first.inode);
        (weights.fold(f64::NEG_INFINITY, f64::max), place)
    };
    let mut keyed: Vec<_> = groups
        .into_iter()
        .map(|group| (key(&group), group))
        .collect();
    keyed.sort_by(|((heavy, place), _), ((other_heavy, other_place), _)| {
        let by_weight = other_heavy.total_cmp(heavy);
        by_weight.then_with(|| place.cmp(other_place))
    });
    if reverse {
        keyed.reverse();
    }
    keyed.into_iter().flat_map(|(_, group)| group).collect()
}

/// Returns all the text that a filter is applied to.
fn text(row: &PipeState) -> String {
    let mut text = cells::ends(row);
    for who in row.writers.iter().chain(&row.readers) {
        text.push('\n');
        text.push_str(&who.command);
    }
    text
}

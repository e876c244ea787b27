//! Decides which pipes are shown, and in what order: the pipes of a pipeline stay together.

use super::cells;
use fullbore_observe::overview::{Overview, PipeState};

/// The column by which pipes are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// The rate in bytes per second, the highest first.
    #[default]
    Rate,
    /// The share of the capacity that is in use, the fullest first.
    Full,
    /// The time that a side has been waiting, the longest first.
    Waits,
    /// The capacity, the largest first.
    Size,
    /// The time when the pipe was first seen, the latest first.
    Age,
    /// The name of the process that writes.
    Name,
}

impl Sort {
    const ALL: [Self; 6] = [
        Self::Rate,
        Self::Full,
        Self::Waits,
        Self::Size,
        Self::Age,
        Self::Name,
    ];

    /// Returns the column that follows this one, and the first after the last.
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|&one| one == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Full => "full",
            Self::Waits => "waits",
            Self::Size => "holds",
            Self::Age => "newest",
            Self::Name => "name",
        }
    }

    /// Returns the value by which a pipe is sorted; the pipe with the highest value comes first.
    fn weight(self, row: &PipeState, now: f64) -> f64 {
        match self {
            Self::Rate => row.bytes_per_second.unwrap_or(-1.0),
            Self::Full => cells::share(row).unwrap_or(-1.0),
            Self::Waits => {
                let blocked = row.blocked.iter().map(|blocked| blocked.seconds);
                blocked.fold(-1.0, f64::max)
            }
            Self::Size => row.capacity.map_or(-1.0, |size| size as f64),
            Self::Age => row.first_seen - now,
            Self::Name => 0.0,
        }
    }
}

/// Returns the indices of the rows in the order in which to show them. In a pipeline, the pipe that would
/// come first decides its place. A pipeline is shown as a whole if the text of one of its pipes contains
/// `filter`, in upper or lower case.
pub fn order(overview: &Overview, sort: Sort, reverse: bool, filter: &str) -> Vec<usize> {
    let filter = filter.to_lowercase();
    let mut groups: Vec<Vec<usize>> = overview
        .chains
        .iter()
        .map(|chain| chain.pipes.clone())
        .collect();
    let alone = overview.pipes.iter().enumerate();
    groups.extend(alone.filter_map(|(at, row)| row.chain.is_none().then_some(vec![at])));
    groups.retain(|group| {
        let mut rows = group.iter().map(|&at| &overview.pipes[at]);
        filter.is_empty() || rows.any(|row| text(row).to_lowercase().contains(&filter))
    });
    let weight = |group: &[usize]| {
        let rows = group.iter().map(|&at| &overview.pipes[at]);
        rows.map(|row| sort.weight(row, overview.taken_at))
            .fold(f64::NEG_INFINITY, f64::max)
    };
    groups.sort_by_cached_key(|group| {
        let first = &overview.pipes[group[0]];
        let name = match sort {
            Sort::Name => cells::ends(first),
            _ => String::new(),
        };
        // Pipes in a chain come before the others, of which one side is not visible.
        (
            Descending(weight(group)),
            name,
            first.chain.is_none(),
            first.inode,
        )
    });
    if reverse {
        groups.reverse();
    }
    groups.concat()
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

#[derive(Debug, Clone, Copy, PartialEq)]
struct Descending(f64);

impl Eq for Descending {}

impl PartialOrd for Descending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Descending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.total_cmp(&self.0)
    }
}

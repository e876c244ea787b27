//! In what order pipes are shown, and which: pipelines stay together.

use super::cells;
use fullbore_observe::overview::{Overview, PipeState};

/// By what they are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Bytes by second, the most first.
    #[default]
    Rate,
    /// How full they are, the fullest first.
    Full,
    /// How long somebody has waited, the longest first.
    Waits,
    /// Bytes they hold, the most first.
    Size,
    /// When they were first seen, the latest first.
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

    /// The one after it.
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

    /// What counts of one pipe: more comes first. Where two are alike, it is who waits that counts.
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

/// Indices of rows in the order to show them. Of a pipeline, the pipe that comes first decides; it is shown
/// in whole where one of its pipes has `filter` in its text, whatever the case.
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
        // Those with a whole chain come before those of which a side is not seen.
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

/// All that a filter may be about.
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

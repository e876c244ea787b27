//! Decides which pipes are shown, and in what order: the pipes of a pipeline stay together.

use super::cells;
use super::columns::{BY_NAME, COLUMNS, Order};
use fullbore_observe::overview::{Overview, PipeState};

/// The order of the pipes, by its place among the orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sort(usize);

fn orders() -> impl Iterator<Item = Order> {
    COLUMNS.iter().filter_map(|column| column.order)
}

impl Sort {
    /// Returns the order that follows this one, and the first after the last.
    pub fn next(self) -> Self {
        Self((self.0 + 1) % orders().count())
    }

    fn order(self) -> Order {
        let mut all = orders();
        all.find(|order| order.0 == self.0)
            .expect("their places have no gap")
    }

    pub fn in_words(self) -> &'static str {
        self.order().1
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
        let weights = rows.map(sort.order().2);
        let first = &overview.pipes[group[0]];
        let name = match sort.in_words() {
            BY_NAME => cells::ends(first),
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

#[cfg(test)]
mod tests {
    use super::Sort;

    #[test]
    fn the_help_lists_the_orders_as_they_follow_each_other() {
        let mut sort = Sort::default();
        let mut names = Vec::new();
        while names.first() != Some(&sort.in_words()) {
            names.push(sort.in_words());
            sort = sort.next();
        }
        assert_eq!(names.join(", "), "rate, full, waits, holds, newest, name");
        let text = include_str!("../../../../docs/top.md");
        for text in [text, include_str!("screen/state.rs")] {
            assert!(text.contains(&names.join(", ")));
        }
    }
}

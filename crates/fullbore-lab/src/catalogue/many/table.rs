//! The experiments, as a table.

use serde::{Deserialize, Serialize};

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WayName {
    /// write(2).
    Write,
    /// Fresh pages, given to the pipe by vmsplice(2).
    Fresh,
}

/// The names of the tables.
pub const ONE_PIPE: &str = "writers and readers of one pipe";
pub const SIDE_BY_SIDE: &str = "pipelines side by side";

/// What runs in an experiment.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub shows: String,
    pub table: &'static str,
    /// How many pipes there are; each has so many writers and readers.
    pub pipes: usize,
    pub writers: usize,
    pub readers: usize,
    pub way: WayName,
    /// How many messages are sent by one call, and read by one call at most. Where several write to a pipe, or read
    /// from it, only single messages stay whole.
    pub at_once: usize,
    /// Whether memory is short meanwhile.
    pub is_short: bool,
}

/// The name of an experiment with one pipe.
pub fn one_pipe(writers: usize, readers: usize, is_short: bool) -> String {
    let reclaim = if is_short { "_reclaim" } else { "" };
    format!("w{writers}_r{readers}{reclaim}")
}

/// The name of an experiment with pipelines side by side.
pub fn side_by_side(pipes: usize, way: WayName, is_short: bool) -> String {
    let reclaim = if is_short { "_reclaim" } else { "" };
    let way = match way {
        WayName::Write => "write",
        WayName::Fresh => "fresh",
    };
    format!("pipes_{pipes}_{way}{reclaim}")
}

/// The numbers of writers and of readers of one pipe.
const WRITERS: [usize; 3] = [1, 2, 5];
const READERS: [usize; 3] = [1, 5, 10];

/// The writers and the readers that also run while memory is short.
const SHORT_ONE_PIPE: [(usize, usize); 2] = [(1, 1), (5, 10)];

/// The numbers of pipelines.
const PIPES: [usize; 3] = [1, 8, 64];

/// The numbers of pipelines that also run while memory is short.
const SHORT_PIPES: [usize; 2] = [8, 64];

/// Returns all experiments, in the order of display.
pub fn rows() -> Vec<Row> {
    let all = WRITERS
        .into_iter()
        .flat_map(|writers| READERS.map(|readers| (writers, readers, false)));
    let short = SHORT_ONE_PIPE.map(|(writers, readers)| (writers, readers, true));
    let shared = all.chain(short).map(|(writers, readers, is_short)| Row {
        name: one_pipe(writers, readers, is_short),
        shows: format!(
            "{} and {} of one pipe, messages of 4 KiB{}",
            counted(writers, "writer"),
            counted(readers, "reader"),
            while_short(is_short)
        ),
        table: ONE_PIPE,
        pipes: 1,
        writers,
        readers,
        way: WayName::Write,
        at_once: 1,
        is_short,
    });
    let ways = [WayName::Write, WayName::Fresh];
    let all = ways
        .into_iter()
        .flat_map(|way| PIPES.map(|pipes| (pipes, way, false)));
    let short = ways
        .into_iter()
        .flat_map(|way| SHORT_PIPES.map(|pipes| (pipes, way, true)));
    let apart = all.chain(short).map(|(pipes, way, is_short)| Row {
        name: side_by_side(pipes, way, is_short),
        shows: format!(
            "{}, a writer and a reader each, {}{}",
            counted(pipes, "pipeline"),
            match way {
                WayName::Write => "write(2) of 64 KiB",
                WayName::Fresh => "fresh pages, 64 KiB at a time",
            },
            while_short(is_short)
        ),
        table: SIDE_BY_SIDE,
        pipes,
        writers: 1,
        readers: 1,
        way,
        at_once: 16,
        is_short,
    });
    shared.chain(apart).collect()
}

fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

fn while_short(is_short: bool) -> &'static str {
    match is_short {
        true => ", while memory has to be reclaimed",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_messages_are_sent_where_several_share_a_pipe() {
        let rows = rows();
        assert_eq!(rows.len(), 9 + 2 + 6 + 4);
        for row in &rows {
            assert!(row.at_once == 1 || (row.writers, row.readers) == (1, 1));
        }
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        for name in [
            "w1_r1",
            "w5_r10_reclaim",
            "pipes_64_fresh",
            "pipes_8_write_reclaim",
        ] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
    }
}

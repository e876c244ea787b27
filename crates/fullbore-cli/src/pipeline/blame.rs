//! Who keeps a pipeline waiting at a moment. Nothing here looks at anything.
//!
//! The one idea: whoever waits is not the slow one, but the one that he waits for, or whom that one
//! waits for in turn. Of two neighbours that both work, the pipe between them tells: while it is empty
//! the one before is behind, while it is full the one after.

use super::link::Fill;
use super::moment::Moment;

/// The stages that keep the others waiting, or would next, by their places. `pipes` are those between
/// each stage and the next. None are to blame where all wait for each other: what wakes them is on its
/// way.
pub fn blamed(moments: &[Moment], pipes: &[Option<Fill>]) -> Vec<usize> {
    let works = |at: usize| matches!(moments[at], Moment::Active | Moment::Elsewhere(_));
    let stages = 0..moments.len();
    let mut blamed: Vec<usize> = stages
        .clone()
        .filter(|&at| !works(at))
        .flat_map(|at| waits_for(at, moments))
        .collect();
    blamed.sort_unstable();
    blamed.dedup();
    if blamed.is_empty() {
        blamed = stages.filter(|&at| works(at)).collect();
    }
    let is_behind = |fill: Option<Fill>, of: fn(Fill) -> bool| fill.is_some_and(of);
    let cleared = |at: usize| {
        let before = at.checked_sub(1);
        let empty = before.is_some_and(|before| {
            blamed.contains(&before) && is_behind(pipes[before], Fill::is_empty)
        });
        let full = blamed.contains(&(at + 1)) && is_behind(pipes[at], Fill::is_full);
        empty || full
    };
    // Each pipe clears one of its sides, so one stage is always left.
    let left = |&at: &usize| !cleared(at);
    blamed.iter().copied().filter(left).collect()
}

/// Whom a stage waits for.
fn waits_for(at: usize, moments: &[Moment]) -> Vec<usize> {
    let up = || follow((0..at).rev(), moments, Moment::Input);
    let down = || follow(at + 1..moments.len(), moments, Moment::Output);
    match moments[at] {
        Moment::Input => up().into_iter().collect(),
        Moment::Output => down().into_iter().collect(),
        Moment::Both => up().into_iter().chain(down()).collect(),
        Moment::Active | Moment::Elsewhere(_) | Moment::Ended => Vec::new(),
    }
}

/// The first one on the way that works, as long as those before it on the way wait for the same side.
fn follow(way: impl Iterator<Item = usize>, moments: &[Moment], side: Moment) -> Option<usize> {
    let mut way = way.skip_while(|&at| moments[at] == side || moments[at] == Moment::Both);
    let at = way.next()?;
    matches!(moments[at], Moment::Active | Moment::Elsewhere(_)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::super::moment::Cause;
    use super::*;

    /// Stages: `A`ctive, `E`lsewhere, waiting for what is `<` before or `>` after or both `x`, `.` ended;
    /// between them how full the pipe is: `0` empty, `5` neither, `9` full, `?` not known.
    fn of(pipeline: &str) -> Vec<usize> {
        let mut moments = Vec::new();
        let mut pipes = Vec::new();
        let fill = |queued| {
            Some(Fill {
                queued,
                capacity: 90,
            })
        };
        for letter in pipeline.chars() {
            match letter {
                'A' => moments.push(Moment::Active),
                'E' => moments.push(Moment::Elsewhere(Cause::Timer)),
                '<' => moments.push(Moment::Input),
                '>' => moments.push(Moment::Output),
                'x' => moments.push(Moment::Both),
                '.' => moments.push(Moment::Ended),
                '?' => pipes.push(None),
                digit => pipes.push(fill(digit.to_digit(10).unwrap() as usize * 10)),
            }
        }
        blamed(&moments, &pipes)
    }

    #[test]
    #[rustfmt::skip]
    fn whoever_is_waited_for_is_to_blame() {
        for (pipeline, stages) in [
            ("A0<", &[0][..]), (">9A", &[1]), ("E0<", &[0]), (">9E", &[1]),
            (">9A0<", &[1]), ("A0<0<", &[0]), (">9>9A", &[2]), (">9>9A0<0<", &[2]),
            // Two work: the pipe between them tells.
            ("A0A", &[0]), ("A9A", &[1]), ("A5A", &[0, 1]), ("A?A", &[0, 1]),
            ("A0A0A", &[0]), ("A9A9A", &[2]), ("A9A0A", &[1]), ("A0A9A", &[0, 2]), ("A5A5A", &[0, 1, 2]),
            // Whoever keeps nobody waiting is not to blame.
            ("A0<5A", &[0]), ("A5>9A", &[2]), ("A5A0<", &[1]), (">9A5A", &[1]),
            // One keeps those at its side waiting, and another those at its.
            (">9A5A0<", &[1, 2]), (">9A0A0<", &[1]), (">9A9A0<", &[2]), ("A0<0A0<", &[0, 2]),
            // It waits for both.
            ("A0x9A", &[0, 2]), ("<0x9A", &[2]),
            // What wakes them is on its way.
            (">0<", &[]), (">9<", &[]), ("<0<", &[]), ("<", &[]),
            // Some have ended.
            (".5A0<", &[1]), (".0A", &[1]), (">9A0.", &[1]), (".5A5.", &[1]), (".0.", &[]),
            (".0<0<", &[]),
            // Alone.
            ("A", &[0]), ("E", &[0]), ("", &[]),
        ] {
            assert_eq!(of(pipeline), stages, "{pipeline}");
        }
    }

    #[test]
    fn someone_is_to_blame_whenever_someone_works_that_others_wait_for() {
        let stages = ["A", "E", "<", ">", "x", "."];
        let fills = ["0", "5", "9", "?"];
        let mut lines: Vec<String> = stages.map(String::from).to_vec();
        for _ in 0..2 {
            lines = (lines.iter())
                .flat_map(|line| fills.map(|fill| format!("{line}{fill}")))
                .flat_map(|line| stages.map(|stage| format!("{line}{stage}")))
                .collect();
        }
        for line in lines {
            let works = |at: usize| matches!(line.as_bytes()[at * 2], b'A' | b'E');
            let blamed = of(&line);
            assert!(blamed.iter().all(|&at| works(at)), "{line}: {blamed:?}");
            assert_eq!(blamed.is_empty(), (0..3).all(|at| !works(at)), "{line}");
        }
    }
}

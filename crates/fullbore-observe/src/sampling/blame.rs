//! Which stages keep a pipeline waiting at a moment. This module only computes; it reads nothing
//! from /proc.
//!
//! A stage that waits is not slow; the stage that it waits for is, or the one that this stage waits
//! for in turn. A stage that works is held back by the stage before it while the pipe between them
//! is empty, and by the stage after it while the pipe between them is nearly full, because it will soon
//! have to wait. Few bytes in a pipe are no sign of a slow writer: they may be the names of files, and work for hours.

use crate::census::fill::Fill;
use crate::sampling::moment::Moment;

/// Returns the indices of the stages that keep the others waiting. `pipes` are the pipes between each
/// stage and the next. If no stage waits for another, these are the stages that the others would wait
/// for next. If all wait for each other there are none: a wake-up is about to happen.
pub fn blamed(moments: &[Moment], pipes: &[Option<Fill>]) -> Vec<usize> {
    let pipeline = Pipeline { moments, pipes };
    let stages = 0..moments.len();
    let mut blamed: Vec<usize> = (stages.clone())
        .filter(|&at| !pipeline.works(at))
        .flat_map(|at| pipeline.culprits(at))
        .collect();
    if blamed.is_empty() {
        let working = stages.filter(|&at| pipeline.works(at));
        blamed = working.flat_map(|at| pipeline.culprits(at)).collect();
    }
    blamed.sort_unstable();
    blamed.dedup();
    blamed
}

/// A direction along a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Towards the first stage.
    Up,
    /// Towards the last.
    Down,
}

struct Pipeline<'a> {
    moments: &'a [Moment],
    pipes: &'a [Option<Fill>],
}

impl Pipeline<'_> {
    fn works(&self, at: usize) -> bool {
        matches!(self.moments[at], Moment::Active | Moment::Elsewhere(_))
    }

    /// Returns the stages that hold a stage back, or the stage itself if there are none.
    fn culprits(&self, at: usize) -> Vec<usize> {
        let ways = [Way::Up, Way::Down].map(|way| self.is_behind(at, way).then_some(way));
        if ways == [None; 2] {
            return if self.works(at) { vec![at] } else { Vec::new() };
        }
        let culprits = ways
            .into_iter()
            .flatten()
            .filter_map(|way| self.follow(at, way));
        culprits.collect()
    }

    /// Returns the stage that holds back the one at the start: the last in this direction that works,
    /// up to the first that no stage holds back.
    fn follow(&self, start: usize, way: Way) -> Option<usize> {
        let (mut found, mut next) = (None, Some(start));
        while let Some(at) = next {
            if self.works(at) {
                found = Some(at);
            }
            next = match way {
                _ if !self.is_behind(at, way) => None,
                Way::Up => at.checked_sub(1),
                Way::Down => Some(at + 1).filter(|&next| next < self.moments.len()),
            };
        }
        found
    }

    /// Returns whether it waits for the next stage in that direction, or soon will.
    fn is_behind(&self, at: usize, way: Way) -> bool {
        match (self.moments[at], way) {
            (Moment::Both, _) | (Moment::Input, Way::Up) | (Moment::Output, Way::Down) => true,
            (Moment::Active | Moment::Elsewhere(_), Way::Up) => {
                at > 0 && self.pipe(at - 1).is_some_and(Fill::is_empty)
            }
            (Moment::Active | Moment::Elsewhere(_), Way::Down) => {
                self.pipe(at).is_some_and(Fill::is_nearly_full)
            }
            _ => false,
        }
    }

    fn pipe(&self, at: usize) -> Option<Fill> {
        self.pipes.get(at).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::moment::Cause;

    /// Parses stages: `A`ctive, `E`lsewhere, `<` waiting for the one before, `>` for the one after, `x`
    /// for both, `.` ended. A character between two stages shows how full the pipe is: `0` empty, `5`
    /// neither, `9` full, `?` not known.
    fn of(pipeline: &str) -> Vec<usize> {
        let mut moments = Vec::new();
        let mut pipes = Vec::new();
        let fill = |queued| {
            Some(Fill {
                queued,
                capacity: 90,
                no_slot_is_free: None,
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
            // Two stages work: the pipe between them decides.
            ("A0A", &[0]), ("A9A", &[1]), ("A5A", &[0, 1]), ("A?A", &[0, 1]),
            ("A3A", &[0, 1]), ("A6A", &[1]), ("A4A", &[0, 1]), ("A9A6A", &[2]), ("E6A", &[1]),
            ("A0A0A", &[0]), ("A9A9A", &[2]), ("A9A0A", &[1]), ("A0A9A", &[0, 2]), ("A5A5A", &[0, 1, 2]),
            // A stage that keeps no other waiting is not blamed.
            ("A0<5A", &[0]), ("A5>9A", &[2]), ("A5A0<", &[1]), (">9A5A", &[1]),
            // Two stages each keep the stages next to them waiting.
            (">9A5A0<", &[1, 2]), (">9A0A0<", &[1]), (">9A9A0<", &[2]),
            (">9A5A0<", &[1, 2]), ("A0A0<", &[0]), (">9A9A", &[2]), ("A5A0A0<", &[1]), ("A0<0A0<", &[0]),
            // A stage waits for both sides.
            ("A0x9A", &[0, 2]), ("<0x9A", &[2]),
            // All wait for each other: a wake-up is about to happen.
            (">0<", &[]), (">9<", &[]), ("<0<", &[]), ("<", &[]),
            // Some stages have ended.
            (".5A0<", &[1]), (".0A", &[1]), (">9A0.", &[1]), (".5A5.", &[1]), (".0.", &[]),
            (".0<0<", &[]),
            // There is one stage, or none.
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

//! Who keeps a pipeline waiting at a moment. Nothing here looks at anything.
//!
//! The one idea: whoever waits is not the slow one, but the one that he waits for, or whom that one
//! waits for in turn. Who works is behind the one before while the pipe between them is empty, and
//! behind the one after while that is full: soon he will wait.

use super::link::Fill;
use super::moment::Moment;

/// The stages that keep the others waiting, by their places. `pipes` are those between each stage and
/// the next. Where nobody waits for another, it is those who would be waited for next; and nobody,
/// where all wait for each other: what wakes them is on its way.
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

/// One way along a pipeline.
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

    /// Whom a stage is behind, itself if it is behind nobody.
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

    /// The stage that the one at the start is behind: the last on the way that works, up to the first
    /// that is behind nobody.
    fn follow(&self, start: usize, way: Way) -> Option<usize> {
        let mut found = self.works(start).then_some(start);
        let mut at = start;
        while self.is_behind(at, way) {
            let next = match way {
                Way::Up => at.checked_sub(1),
                Way::Down => Some(at + 1).filter(|&next| next < self.moments.len()),
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
            if self.works(at) {
                found = Some(at);
            }
        }
        found
    }

    /// Whether it waits for its neighbour on that way, or soon will.
    fn is_behind(&self, at: usize, way: Way) -> bool {
        match (self.moments[at], way) {
            (Moment::Both, _) | (Moment::Input, Way::Up) | (Moment::Output, Way::Down) => true,
            (Moment::Active | Moment::Elsewhere(_), Way::Up) => {
                at > 0 && self.pipe(at - 1).is_some_and(Fill::is_empty)
            }
            (Moment::Active | Moment::Elsewhere(_), Way::Down) => {
                self.pipe(at).is_some_and(Fill::is_full)
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
            (">9A5A0<", &[1, 2]), (">9A0A0<", &[1]), (">9A9A0<", &[2]),
            (">9A5A0<", &[1, 2]), ("A0A0<", &[0]), (">9A9A", &[2]), ("A5A0A0<", &[1]), ("A0<0A0<", &[0]),
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

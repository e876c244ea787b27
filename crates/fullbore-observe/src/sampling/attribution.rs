//! Whether the figures of a stage are those of the process that the other stages wait for. This module
//! only computes; it reads nothing from /proc.
//!
//! A process that has an end of a pipe open need not use it. A shell that waits for the program that it has
//! started does nothing with the pipe that both have open, so what its child does is what the stage does. If
//! two processes side by side have it open (`(a & b) | c`, or a process that has the pipe as its stderr), the
//! kernel does not show which of them writes to it, and what one of them does says nothing about the other.

use std::time::Duration;

use crate::sampling::waiting::{Doing, On};

/// How certain it is that a stage's figures are of the process that the others wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribution {
    /// They are certainly of that process.
    #[default]
    Clear,
    /// They are, unless a process that did not seem to use the pipe uses it.
    Likely,
    /// They may be of a process that does not use the pipe.
    Unclear,
}

/// What one process of a stage does at a moment, as far as it matters here. A later variant matters
/// more than an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It has ended.
    Ended,
    /// It waits for the end of a child, or for a signal.
    AwaitsChild,
    /// It waits for one of several things, or for something unknown.
    Polls,
    /// It does anything else: it may be the process that the others wait for.
    Acts,
}

impl Part {
    /// Returns the part of a process, given what one of its threads does.
    pub fn of(doing: Doing) -> Self {
        match doing {
            Doing::Ended => Self::Ended,
            Doing::Waits(On::Child | On::Signal) => Self::AwaitsChild,
            Doing::Waits(On::Any | On::Unknown) => Self::Polls,
            Doing::Runs | Doing::Stopped | Doing::Waits(_) => Self::Acts,
        }
    }
}

/// What is known about the children of one process of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// It has none, or some of them do not belong to the stage.
    Elsewhere,
    /// It has some, and all of them belong to the stage.
    InStage,
    /// It has started one since the last census. That child may have the pipe open, and nothing is known
    /// about it.
    StartedSince,
}

impl Attribution {
    /// Returns the attribution at a moment, from each process's part and its children.
    pub fn at_a_moment(parts: impl IntoIterator<Item = (Part, Children)>) -> Self {
        let (mut able, mut looks_on) = (0, false);
        for (part, children) in parts {
            match (part, children) {
                (Part::Ended, _) => {}
                (_, Children::StartedSince) => return Self::Unclear,
                (Part::AwaitsChild, Children::InStage) => {}
                (Part::Polls, Children::InStage) => looks_on = true,
                (Part::AwaitsChild | Part::Polls | Part::Acts, _) => able += 1,
            }
        }
        match able {
            0 | 1 if !looks_on || able == 0 => Self::Clear,
            0 | 1 => Self::Likely,
            _ => Self::Unclear,
        }
    }
}

/// The time in which the attribution was not clear.
#[derive(Debug, Clone, Copy, Default)]
pub struct Doubtful {
    likely: Duration,
    unclear: Duration,
    /// The time in which threads waited for several things, not all of which need matter.
    mixed: Duration,
}

impl Doubtful {
    /// Records the attribution at a moment that represents `time`.
    pub fn note(&mut self, attribution: Attribution, time: Duration) {
        match attribution {
            Attribution::Clear => {}
            Attribution::Likely => self.likely += time,
            Attribution::Unclear => self.unclear += time,
        }
    }

    /// Records that threads waited for several things at a moment that represents `time`.
    pub fn note_mixed(&mut self, time: Duration) {
        self.mixed += time;
    }

    /// Returns the time that was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            mixed: self.mixed.saturating_sub(earlier.mixed),
            likely: self.likely.saturating_sub(earlier.likely),
            unclear: self.unclear.saturating_sub(earlier.unclear),
        }
    }

    /// Returns the attribution for a total of `time`. A short doubtful time is ignored, because a
    /// shell that has just started its child still runs.
    pub fn in_all(&self, time: Duration) -> Attribution {
        if matters(self.unclear, time) {
            Attribution::Unclear
        } else if matters(self.unclear + self.likely, time) {
            Attribution::Likely
        } else {
            Attribution::Clear
        }
    }

    /// Returns whether threads waited for several things in a part of a total of `time` that matters.
    pub fn is_mixed(&self, time: Duration) -> bool {
        matters(self.mixed, time)
    }
}

fn matters(part: Duration, time: Duration) -> bool {
    !part.is_zero() && part * 10 >= time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::waiting::Object;

    /// Parses processes, each of which is a letter for what it does: `.` has ended, `c` waits for a child,
    /// `p` polls, `r` runs, `t` waits for a timer, `w` waits for room in a pipe. A `+` after the letter means
    /// that it has children that belong to the stage, and a `*` that it has started one since the last
    /// census.
    fn of(processes: &str) -> Attribution {
        let parts = processes.split(' ').map(|process| {
            let waits = |on| Doing::Waits(on);
            let doing = match process.as_bytes()[0] {
                b'.' => Doing::Ended,
                b'c' => waits(On::Child),
                b'p' => waits(On::Any),
                b'r' => Doing::Runs,
                b't' => waits(On::Timer),
                _ => waits(On::Write(Object::Pipe(7))),
            };
            let children = match process.as_bytes().get(1) {
                Some(b'+') => Children::InStage,
                Some(b'*') => Children::StartedSince,
                _ => Children::Elsewhere,
            };
            (Part::of(doing), children)
        });
        Attribution::at_a_moment(parts)
    }

    #[test]
    fn figures_are_of_the_one_whom_the_others_wait_for_only_where_nobody_else_could_be_it() {
        use Attribution::{Clear, Likely, Unclear};
        for (processes, expected) in [
            ("r", Clear),
            ("t", Clear),
            (".", Clear),
            // A shell waits for the processes that it has started, and so does timeout(1).
            ("c+ r", Clear),
            ("c+ c+ t", Clear),
            ("c+ . w", Clear),
            // A shell that waits for a child without an end of the pipe may write after that.
            ("c r", Unclear),
            ("c", Clear),
            // sudo(8) waits with poll(2) for the process that it has started; a process that writes to
            // the pipe itself may do the same.
            ("p+ r", Likely),
            ("p+", Clear),
            ("p r", Unclear),
            // Two processes run side by side.
            ("c+ r t", Unclear),
            ("c+ t t", Unclear),
            ("c+ w w", Unclear),
            ("r+ t", Unclear),
        ] {
            assert_eq!(of(processes), expected, "{processes}");
        }
    }

    #[test]
    fn a_child_that_was_started_since_makes_it_unclear_whose_the_figures_are() {
        for processes in ["c*", "c* t", "c* . r", "c+ c* w", "p*", "r*"] {
            assert_eq!(of(processes), Attribution::Unclear, "{processes}");
        }
        // A process that has ended cannot start another.
        assert_eq!(of(".* r"), Attribution::Clear);
    }

    #[test]
    fn a_moment_now_and_then_is_nothing() {
        let mut doubtful = Doubtful::default();
        let second = Duration::from_secs(1);
        doubtful.note(Attribution::Unclear, second);
        doubtful.note(Attribution::Clear, second * 19);
        assert_eq!(doubtful.in_all(second * 20), Attribution::Clear);
        assert_eq!(doubtful.in_all(second * 5), Attribution::Unclear);
        doubtful.note(Attribution::Likely, second);
        assert_eq!(doubtful.in_all(second * 20), Attribution::Likely);
        let later = doubtful.since(&doubtful);
        assert_eq!(later.in_all(second), Attribution::Clear);
        assert_eq!(later.in_all(Duration::ZERO), Attribution::Clear);
    }
}

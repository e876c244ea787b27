//! Whether the figures of a stage are those of whom the others wait for. Nothing here looks at anything.
//!
//! The one idea: to hold an end of a pipe is not to use it. A shell that waits for the program that it has
//! started does nothing with the pipe that both hold, so what its child does is what the stage does. Where
//! two processes side by side hold it (`(a & b) | c`, or whoever has the pipe as its stderr), the kernel does
//! not say which of them writes to it, and what one of them does says nothing about the other.

use std::time::Duration;

use super::waiting::{Doing, On};

/// How well it is known that a stage's figures are of the one whom the others wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribution {
    /// They are.
    #[default]
    Clear,
    /// They are, unless one who only seemed to look on has a part in it.
    Likely,
    /// They may be of somebody who has nothing to do with the pipe.
    Unclear,
}

/// What one process of a stage does at a moment, as far as it matters here. The later ones matter more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It has ended.
    Ended,
    /// It waits for the end of a child, or for a signal.
    AwaitsChild,
    /// It waits for one of several things, or for what is not known.
    Polls,
    /// Anything else: it may be the one.
    Acts,
}

impl Part {
    /// What one of its threads does.
    pub fn of(doing: Doing) -> Self {
        match doing {
            Doing::Ended => Self::Ended,
            Doing::Waits(On::Child | On::Signal) => Self::AwaitsChild,
            Doing::Waits(On::Any | On::Unknown) => Self::Polls,
            Doing::Runs | Doing::Stopped | Doing::Waits(_) => Self::Acts,
        }
    }
}

/// What is known of the children of one process of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// It has none, or some of them do not belong to the stage.
    Elsewhere,
    /// It has some, and all of them belong to the stage.
    InStage,
    /// It has started one since the last census. That one may have the pipe open, and nothing is known of it.
    StartedSince,
}

impl Attribution {
    /// Returns what holds at a moment, from each process's part and its children.
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

/// Time in which it was not clear.
#[derive(Debug, Clone, Copy, Default)]
pub struct Doubtful {
    likely: Duration,
    unclear: Duration,
}

impl Doubtful {
    /// Notes what it was at a moment that stands for `time`.
    pub fn note(&mut self, attribution: Attribution, time: Duration) {
        match attribution {
            Attribution::Clear => {}
            Attribution::Likely => self.likely += time,
            Attribution::Unclear => self.unclear += time,
        }
    }

    /// What was added since it was like `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            likely: self.likely.saturating_sub(earlier.likely),
            unclear: self.unclear.saturating_sub(earlier.unclear),
        }
    }

    /// Of so much time: a shell that has just started its child still runs, which is nothing.
    pub fn in_all(&self, time: Duration) -> Attribution {
        let matters = |part: Duration| !part.is_zero() && part * 10 >= time;
        if matters(self.unclear) {
            Attribution::Unclear
        } else if matters(self.unclear + self.likely) {
            Attribution::Likely
        } else {
            Attribution::Clear
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::waiting::Object;
    use super::*;

    /// Processes, each a letter for what it does: `.` ended, `c` waits for a child, `p` polls, `r` runs, `t`
    /// waits for a timer, `w` for room in a pipe. Behind it stands a `+` where it has children that belong to
    /// the stage, and a `*` where it has started one since the last census.
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
            // A shell waits for what it has started, and so does timeout(1).
            ("c+ r", Clear),
            ("c+ c+ t", Clear),
            ("c+ . w", Clear),
            // A shell that waits for a child that holds no end of the pipe may write after that.
            ("c r", Unclear),
            ("c", Clear),
            // sudo(8) waits with poll(2) for what it has started; so may one that feeds the pipe itself.
            ("p+ r", Likely),
            ("p+", Clear),
            ("p r", Unclear),
            // Two side by side.
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
        // One that has ended starts nobody any more.
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

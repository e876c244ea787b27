//! Which side of a pipeline is slow, from how often its pipes were found empty and full.
//!
//! The one idea: a side that waits is not the slow one. While the input pipe is empty, everything behind
//! it waits for its writer; while the output pipe is full, everything in front of it waits for its
//! reader. Nothing here reads a pipe or a clock.

use std::fmt;
use std::ops::AddAssign;

use fullbore_host::text::Percent;

/// The least number of samples for a verdict: those of half a second.
const LEAST: u32 = 25;

/// In how many of the samples something was true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Samples in which it was true.
    pub so: u32,
    /// All samples.
    pub of: u32,
}

/// The samples of both sides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// The input pipe was empty. There are no samples if the input is not a pipe.
    pub before_empty: Share,
    /// The output pipe was full. There are no samples if the output is not a pipe.
    pub after_full: Share,
    /// The output pipe was empty.
    pub after_empty: Share,
    /// The rate limit delayed bytes. Part of every sample.
    pub held: Share,
}

/// Which side is slow. Shares are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// There were too few samples for a verdict.
    TooShort,
    /// Neither input nor output is a pipe.
    NoPipe,
    /// The rate limit.
    Limit(f64),
    /// The writer of the input: the share of samples in which its pipe was empty.
    Writer(f64),
    /// The reader of the output: the share of samples in which its pipe was full.
    Reader(f64),
    /// Both, at different times.
    ByTurns {
        /// How often the input pipe was empty.
        empty: f64,
        /// How often the output pipe was full.
        full: f64,
    },
    /// This process: there was something to read, and room to write it.
    Itself {
        /// How often there was something to read.
        filled: f64,
        /// How often the output pipe was empty.
        empty: f64,
    },
    /// No side by much.
    Neither {
        /// How often the input pipe was empty.
        empty: f64,
        /// How often the output pipe was full.
        full: f64,
    },
    /// Not the writer; the reader cannot be observed.
    NotWriter(f64),
    /// Not the reader; the writer cannot be observed.
    NotReader(f64),
}

impl Share {
    /// Adds a sample.
    pub fn note(&mut self, so: bool) {
        self.so += u32::from(so);
        self.of += 1;
    }

    /// Returns the share from 0 to 1, if there are enough samples.
    fn of_all(self) -> Option<f64> {
        (self.of >= LEAST).then(|| f64::from(self.so) / f64::from(self.of))
    }

    fn halved(self) -> Self {
        Self {
            so: self.so / 2,
            of: self.of / 2,
        }
    }
}

impl AddAssign for Share {
    fn add_assign(&mut self, other: Self) {
        self.so += other.so;
        self.of += other.of;
    }
}

impl Seen {
    /// Returns the same samples with half the weight, so that later ones count for more.
    pub fn fading(self) -> Self {
        Self {
            before_empty: self.before_empty.halved(),
            after_full: self.after_full.halved(),
            after_empty: self.after_empty.halved(),
            held: self.held.halved(),
        }
    }

    /// Returns which side is slow.
    pub fn verdict(&self) -> Verdict {
        let Some(held) = self.held.of_all() else {
            return Verdict::TooShort;
        };
        if held >= 0.5 {
            return Verdict::Limit(held);
        }
        let any = self.before_empty.of + self.after_full.of > 0;
        match (self.before_empty.of_all(), self.after_full.of_all()) {
            (None, None) if any => Verdict::TooShort,
            (None, None) => Verdict::NoPipe,
            (Some(empty), full) if empty >= 0.5 && empty >= full.unwrap_or(0.0) => {
                Verdict::Writer(empty)
            }
            (_, Some(full)) if full >= 0.5 => Verdict::Reader(full),
            (Some(empty), Some(full)) => self.between(empty, full),
            (Some(empty), None) => Verdict::NotWriter(empty),
            (None, Some(full)) => Verdict::NotReader(full),
        }
    }

    /// Where neither side made the other wait half of the time.
    fn between(&self, empty: f64, full: f64) -> Verdict {
        match self.after_empty.of_all() {
            _ if empty >= 0.2 && full >= 0.2 => Verdict::ByTurns { empty, full },
            Some(drained) if empty <= 0.1 && drained >= 0.5 => Verdict::Itself {
                filled: 1.0 - empty,
                empty: drained,
            },
            _ => Verdict::Neither { empty, full },
        }
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.before_empty += other.before_empty;
        self.after_full += other.after_full;
        self.after_empty += other.after_empty;
        self.held += other.held;
    }
}

impl Verdict {
    /// For a line that has little room.
    pub fn in_short(self) -> Option<&'static str> {
        match self {
            Verdict::Writer(_) => Some("slow: writer"),
            Verdict::Reader(_) => Some("slow: reader"),
            Verdict::ByTurns { .. } => Some("slow: both"),
            Verdict::Limit(_) => Some("slow: limit"),
            Verdict::Itself { .. } => Some("slow: meter"),
            Verdict::Neither { .. }
            | Verdict::TooShort
            | Verdict::NoPipe
            | Verdict::NotWriter(_)
            | Verdict::NotReader(_) => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Verdict::TooShort => f.write_str("the run was too short to tell which side is slow"),
            Verdict::NoPipe => {
                f.write_str("cannot tell which side is slow: neither input nor output is a pipe")
            }
            Verdict::Limit(held) => write!(
                f,
                "the rate limit is the bottleneck: it delayed bytes {} of the time",
                Percent(held)
            ),
            Verdict::Writer(empty) => write!(
                f,
                "the writer is slow: its pipe was empty {} of the time",
                Percent(empty)
            ),
            Verdict::Reader(full) => write!(
                f,
                "the reader is slow: its pipe was full {} of the time",
                Percent(full)
            ),
            Verdict::ByTurns { empty, full } => write!(
                f,
                "both sides wait for each other alternately: the writer's pipe was empty {} of the \
                 time, and the reader's pipe was full {}",
                Percent(empty),
                Percent(full)
            ),
            Verdict::Itself { filled, empty } => write!(
                f,
                "meter itself is the bottleneck: input was waiting {} of the time, and the reader's \
                 pipe was empty {}",
                Percent(filled),
                Percent(empty)
            ),
            Verdict::Neither { empty, full } => write!(
                f,
                "neither side waited for long: the writer's pipe was empty {} of the time, and the \
                 reader's pipe was full {}",
                Percent(empty),
                Percent(full)
            ),
            Verdict::NotWriter(empty) => write!(
                f,
                "the writer is not slow: its pipe was empty only {} of the time (the \
                 output is not a pipe, so the reader is unknown)",
                Percent(empty)
            ),
            Verdict::NotReader(full) => write!(
                f,
                "the reader is not slow: its pipe was full only {} of the time (the input \
                 is not a pipe, so the writer is unknown)",
                Percent(full)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What 100 samples saw: percent of the input pipe empty, of the output pipe full and empty, and of
    /// bytes kept back.
    fn seen(empty: Option<u32>, after: Option<(u32, u32)>, held: u32) -> Seen {
        let share = |so: Option<u32>| Share {
            so: so.unwrap_or(0),
            of: if so.is_some() { 100 } else { 0 },
        };
        Seen {
            before_empty: share(empty),
            after_full: share(after.map(|(full, _)| full)),
            after_empty: share(after.map(|(_, empty)| empty)),
            held: share(Some(held)),
        }
    }

    #[test]
    #[rustfmt::skip]
    fn whoever_waits_is_not_the_slow_one() {
        for (empty, after, held, words) in [
            // Pipe to pipe.
            (Some(97), Some((0, 90)), 0, "the writer is slow: its pipe was empty 97% of the time"),
            (Some(50), Some((0, 90)), 0, "the writer is slow: its pipe was empty 50% of the time"),
            (Some(0), Some((88, 0)), 0, "the reader is slow: its pipe was full 88% of the time"),
            (Some(60), Some((88, 0)), 0, "the reader is slow: its pipe was full 88% of the time"),
            (Some(88), Some((60, 0)), 0, "the writer is slow: its pipe was empty 88% of the time"),
            (Some(40), Some((45, 0)), 0, "both sides wait for each other alternately: the writer's pipe was empty 40% of the time, and the reader's pipe was full 45%"),
            (Some(5), Some((1, 80)), 0, "meter itself is the bottleneck: input was waiting 95% of the time, and the reader's pipe was empty 80%"),
            (Some(12), Some((15, 20)), 0, "neither side waited for long: the writer's pipe was \
             empty 12% of the time, and the reader's pipe was full 15%"),
            (Some(40), Some((5, 60)), 0, "neither side waited for long: the writer's pipe was empty \
             40% of the time, and the reader's pipe was full 5%"),
            // The limit explains whatever the pipes do.
            (Some(0), Some((0, 100)), 93, "the rate limit is the bottleneck: it delayed bytes 93% of the time"),
            (Some(97), Some((0, 100)), 10, "the writer is slow: its pipe was empty 97% of the time"),
            // A pipe on one side only.
            (None, Some((88, 0)), 0, "the reader is slow: its pipe was full 88% of the time"),
            (None, Some((3, 0)), 0, "the reader is not slow: its pipe was full only 3% of the time (the input is not a pipe, so the writer is unknown)"),
            (Some(88), None, 0, "the writer is slow: its pipe was empty 88% of the time"),
            (Some(3), None, 0, "the writer is not slow: its pipe was empty only 3% of the time (the output is not a pipe, so the reader is unknown)"),
            (None, None, 0, "cannot tell which side is slow: neither input nor output is a pipe"),
            (None, None, 80, "the rate limit is the bottleneck: it delayed bytes 80% of the time"),
        ] {
            assert_eq!(seen(empty, after, held).verdict().to_string(), words);
        }
    }

    #[test]
    fn a_few_samples_are_too_few() {
        let mut seen = Seen::default();
        assert_eq!(seen.verdict(), Verdict::TooShort);
        for _ in 0..LEAST - 1 {
            seen.before_empty.note(true);
            seen.held.note(false);
        }
        assert_eq!(seen.verdict(), Verdict::TooShort);
        assert_eq!(seen.verdict().in_short(), None);
        // A file first, and only the end of it from a pipe.
        seen.held.note(false);
        assert_eq!(seen.verdict(), Verdict::TooShort);
        seen.before_empty.note(true);
        assert_eq!(seen.verdict(), Verdict::Writer(1.0));
        assert_eq!(seen.verdict().in_short(), Some("slow: writer"));
    }

    #[test]
    fn what_is_seen_later_outweighs_what_was_seen_before() {
        let mut recent = Seen::default();
        for _ in 0..10 {
            recent = recent.fading();
            recent += seen(Some(0), Some((100, 0)), 0);
        }
        assert!(matches!(recent.verdict(), Verdict::Reader(_)));
        for _ in 0..2 {
            recent = recent.fading();
            recent += seen(Some(100), Some((0, 100)), 0);
        }
        assert!(matches!(recent.verdict(), Verdict::Writer(_)));
    }
}

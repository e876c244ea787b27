//! Which side of a pipeline is slow, from how often its pipes were found empty and full.
//!
//! The one idea: a side that waits is not the slow one. While the input pipe is empty, everything behind
//! it waits for its writer; while the output pipe is full, everything in front of it waits for its
//! reader. Nothing here reads a pipe or a clock.

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
    /// The output pipe was full or nearly so. There are no samples if the output is not a pipe.
    pub after_full: Share,
    /// The output pipe was empty.
    pub after_empty: Share,
    /// The rate limit delayed bytes. Part of every sample.
    pub held: Share,
}

/// Which side is slow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// For a line that has little room, if a side is slow.
    pub in_short: Option<&'static str>,
    /// In a sentence.
    pub text: String,
}

/// There were too few samples for a verdict.
const TOO_SHORT: &str = "the run was too short to tell which side is slow";
const NO_PIPE: &str = "cannot tell which side is slow: neither input nor output is a pipe";

impl Finding {
    fn slow(in_short: &'static str, text: String) -> Self {
        let in_short = Some(in_short);
        Self { in_short, text }
    }

    /// No side is known to be slow.
    fn unknown(text: impl Into<String>) -> Self {
        let (in_short, text) = (None, text.into());
        Self { in_short, text }
    }
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
}

impl Seen {
    fn shares(&mut self) -> [&mut Share; 4] {
        [
            &mut self.before_empty,
            &mut self.after_full,
            &mut self.after_empty,
            &mut self.held,
        ]
    }

    /// Returns the same samples with half the weight, so that later ones count for more.
    pub fn fading(mut self) -> Self {
        for share in self.shares() {
            (share.so, share.of) = (share.so / 2, share.of / 2);
        }
        self
    }

    /// Returns which side is slow.
    pub fn verdict(&self) -> Finding {
        let Some(held) = self.held.of_all() else {
            return Finding::unknown(TOO_SHORT);
        };
        if held >= 0.5 {
            let held = Percent(held);
            let what = "the rate limit is the bottleneck: it delayed bytes";
            return Finding::slow("slow: limit", format!("{what} {held} of the time"));
        }
        let any = self.before_empty.of + self.after_full.of > 0;
        match (self.before_empty.of_all(), self.after_full.of_all()) {
            (None, None) if any => Finding::unknown(TOO_SHORT),
            (None, None) => Finding::unknown(NO_PIPE),
            (Some(empty), full) if empty >= 0.5 && empty >= full.unwrap_or(0.0) => {
                let empty = Percent(empty);
                let text = format!("the writer is slow: its pipe was empty {empty} of the time");
                Finding::slow("slow: writer", text)
            }
            (_, Some(full)) if full >= 0.5 => {
                let full = Percent(full);
                let text = format!("the reader is slow: its pipe was full {full} of the time");
                Finding::slow("slow: reader", text)
            }
            (Some(empty), Some(full)) => self.between(empty, full),
            (Some(empty), None) => Finding::unknown(format!(
                "the writer is not slow: its pipe was empty only {} of the time (the output is not a pipe, so the \
                 reader is unknown)",
                Percent(empty)
            )),
            (None, Some(full)) => Finding::unknown(format!(
                "the reader is not slow: its pipe was full only {} of the time (the input is not a pipe, so the \
                 writer is unknown)",
                Percent(full)
            )),
        }
    }

    /// Where neither side made the other wait half of the time.
    fn between(&self, empty: f64, full: f64) -> Finding {
        let is_by_turns = empty >= 0.2 && full >= 0.2;
        let drained = self.after_empty.of_all().filter(|&drained| drained >= 0.5);
        let (filled, is_fed) = (Percent(1.0 - empty), empty <= 0.1);
        let (empty, full) = (Percent(empty), Percent(full));
        match drained {
            _ if is_by_turns => Finding::slow(
                "slow: both",
                format!(
                    "both sides wait for each other alternately: the writer's pipe was empty {empty} of the time, and \
                     the reader's pipe was full {full}"
                ),
            ),
            Some(drained) if is_fed => Finding::slow(
                "slow: meter",
                format!(
                    "meter itself is the bottleneck: input was waiting {filled} of the time, and the reader's pipe was \
                     empty {}",
                    Percent(drained)
                ),
            ),
            _ => Finding::unknown(format!(
                "neither side waited for long: the writer's pipe was empty {empty} of the time, and the reader's pipe \
                 was full {full}"
            )),
        }
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, mut other: Self) {
        for (share, other) in self.shares().into_iter().zip(other.shares()) {
            (share.so, share.of) = (share.so + other.so, share.of + other.of);
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
            assert_eq!(seen(empty, after, held).verdict().text, words);
        }
    }

    #[test]
    fn a_few_samples_are_too_few() {
        let mut seen = Seen::default();
        assert_eq!(seen.verdict().text, TOO_SHORT);
        for _ in 0..LEAST - 1 {
            seen.before_empty.note(true);
            seen.held.note(false);
        }
        assert_eq!(seen.verdict().text, TOO_SHORT);
        assert_eq!(seen.verdict().in_short, None);
        // A file first, and only the end of it from a pipe.
        seen.held.note(false);
        assert_eq!(seen.verdict().text, TOO_SHORT);
        seen.before_empty.note(true);
        let words = "the writer is slow: its pipe was empty 100% of the time";
        assert_eq!(seen.verdict().text, words);
        assert_eq!(seen.verdict().in_short, Some("slow: writer"));
    }

    #[test]
    fn what_is_seen_later_outweighs_what_was_seen_before() {
        let mut recent = Seen::default();
        for _ in 0..10 {
            recent = recent.fading();
            recent += seen(Some(0), Some((100, 0)), 0);
        }
        assert_eq!(recent.verdict().in_short, Some("slow: reader"));
        for _ in 0..2 {
            recent = recent.fading();
            recent += seen(Some(100), Some((0, 100)), 0);
        }
        assert_eq!(recent.verdict().in_short, Some("slow: writer"));
    }
}

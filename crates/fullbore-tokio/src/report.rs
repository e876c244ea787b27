//! The report of a transfer, and its error.

use std::fmt;
use std::time::Duration;

/// The error of a transfer, with a report of what it did before. The report of a
/// [`Bidirectional`](crate::Bidirectional) says which direction [failed](Ended::Failed) first.
pub use fullbore::Failure;
use fullbore::TransferSide;

/// The result of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Bytes that arrived at the sink.
    pub bytes: u64,
    /// Bytes that were taken from the source. They are more than `bytes` only if the transfer ended early: `into_parts`
    /// returns the difference.
    pub taken: u64,
    /// How many of the bytes that arrived were moved by splice(2), without being copied into this process.
    pub spliced: u64,
    /// How long it ran, without the time between two runs.
    pub elapsed: Duration,
    /// The part of that time in which it waited for bytes from the source.
    pub waited_for_source: Duration,
    /// The part of that time in which it waited for room in the sink.
    pub waited_for_sink: Duration,
    /// Why it ended.
    pub ended: Ended,
}

/// Why a direction ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// The source has no more bytes.
    AtEnd,
    /// The limit was reached.
    AtLimit,
    /// The deadline passed.
    TimedOut,
    /// No byte arrived for the idle timeout.
    Idle,
    /// It failed; [`Failure`] has the error.
    Failed,
    /// It has not ended: the future was dropped, or the other direction failed first.
    #[default]
    NotYet,
}

impl Report {
    /// Returns the slow side: the one that the transfer waited for during at least half of its time.
    ///
    /// `None` means that neither side was slow, or that a rate limit or this process was.
    pub fn slow(&self) -> Option<TransferSide> {
        let (source, sink) = (self.waited_for_source, self.waited_for_sink);
        if source >= sink && source * 2 >= self.elapsed && !source.is_zero() {
            Some(TransferSide::Source)
        } else if sink * 2 >= self.elapsed && !sink.is_zero() {
            Some(TransferSide::Sink)
        } else {
            None
        }
    }
}

impl fmt::Display for Report {
    /// Writes one line, such as `1048576 bytes in 2.1 s; the sink was slow: waited for it 93% of the time`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = format!("{:.1?}", self.elapsed);
        let number = elapsed.trim_end_matches(char::is_alphabetic);
        let unit = &elapsed[number.len()..];
        write!(f, "{} bytes in {number} {unit}", self.bytes)?;
        if self.taken > self.bytes {
            write!(f, ", and {} under way", self.taken - self.bytes)?;
        }
        let Some(side) = self.slow() else {
            return Ok(());
        };
        let waited = match side {
            TransferSide::Source => self.waited_for_source,
            TransferSide::Sink => self.waited_for_sink,
        };
        let share = waited.as_secs_f64() / self.elapsed.as_secs_f64() * 100.0;
        write!(
            f,
            "; the {side} was slow: waited for it {share:.0}% of the time"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(elapsed: u64, source: u64, sink: u64) -> Report {
        Report {
            bytes: 7,
            taken: 9,
            spliced: 0,
            elapsed: Duration::from_millis(elapsed),
            waited_for_source: Duration::from_millis(source),
            waited_for_sink: Duration::from_millis(sink),
            ended: Ended::NotYet,
        }
    }

    #[test]
    fn the_side_that_was_waited_for_is_slow() {
        assert_eq!(report(100, 50, 30).slow(), Some(TransferSide::Source));
        assert_eq!(report(100, 20, 70).slow(), Some(TransferSide::Sink));
        assert_eq!(report(100, 40, 40).slow(), None);
        assert_eq!(report(0, 0, 0).slow(), None);
        assert_eq!(
            report(1000, 20, 700).to_string(),
            "7 bytes in 1.0 s, and 2 under way; the sink was slow: waited for it 70% of the time"
        );
    }
}

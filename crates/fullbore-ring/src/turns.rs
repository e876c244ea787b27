//! Measures, on the stream itself, which of two ways to store bytes is faster here.
//!
//! That depends on how far apart the CPUs of the two sides are, which a virtual machine cannot know. So a long stream
//! alternates between the two ways, until one turn has shown that the second is not clearly faster, or several turns
//! that it is. Later the trial is repeated.
//!
//! Only bytes that the reader has got count: queued bytes are not throughput.

use std::time::Instant;

/// The number of turns that must show that the second way is faster.
const TURNS: u32 = 3;

/// The second way counts as faster if it takes at most this fraction of the first way's time. Streams seldom have a
/// steady rate.
const CLEARLY_LESS: f64 = 0.9;

/// The lengths of a trial in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    /// Bytes that are sent before the first trial, which would not pay off for shorter streams.
    pub(crate) before: u64,
    /// Bytes at the start of each turn that are not timed: bytes of the other way are still queued.
    pub(crate) lead: u64,
    /// Bytes of each turn that are timed.
    pub(crate) timed: u64,
    /// The longest retry interval in bytes. The interval starts at `before`, doubles after each unchanged result, and
    /// returns to `before` after a change of the way.
    pub(crate) again: u64,
}

/// The bytes per second of both ways in the last turn, and the decision.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    first: f64,
    second: f64,
    is_second_faster: bool,
}

/// A trial of two ways.
#[derive(Debug)]
pub(crate) struct Turns {
    lengths: Lengths,
    part: Part,
    /// Whether the next bytes are sent by the second way.
    second: bool,
    /// Bytes that were sent in this part.
    bytes: u64,
    /// The number of turns that showed that the second way is faster.
    turns: u32,
    /// Bytes per second of the first way in this turn.
    first: f64,
    /// The current retry interval in bytes.
    rest: u64,
    result: Option<Rates>,
}

/// A part of a stream.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// So many bytes without a trial.
    Rest(u64),
    /// Bytes at the start of a turn that are not timed.
    Lead,
    /// Bytes that are timed.
    Timed {
        since: Instant,
        /// Bytes at its start that the reader had not got yet.
        queued: u64,
    },
}

impl Turns {
    /// Starts the first trial once the stream is long enough.
    pub(crate) fn new(lengths: Lengths) -> Self {
        Self {
            lengths,
            part: Part::Rest(lengths.before),
            second: false,
            bytes: 0,
            turns: 0,
            first: 0.0,
            rest: lengths.before,
            result: None,
        }
    }

    /// Returns whether to send the next bytes by the second way.
    #[inline]
    pub(crate) fn is_second(&self) -> bool {
        self.second
    }

    /// Records that `n` bytes were sent by the way of this turn. `queued` returns how many bytes the reader has not got
    /// yet.
    #[inline]
    pub(crate) fn sent(&mut self, n: usize, queued: impl FnOnce() -> u64) {
        self.sent_at(n, queued, Instant::now);
    }

    #[inline]
    fn sent_at(&mut self, n: usize, queued: impl FnOnce() -> u64, now: impl FnOnce() -> Instant) {
        let enough = match self.part {
            Part::Rest(enough) => enough,
            Part::Lead => self.lengths.lead,
            Part::Timed { .. } => self.lengths.timed,
        };
        self.bytes += n as u64;
        if self.bytes >= enough {
            self.end_part(queued(), now());
        }
    }

    #[cold]
    fn end_part(&mut self, queued: u64, now: Instant) {
        let bytes = std::mem::take(&mut self.bytes);
        let (since, before) = match self.part {
            Part::Rest(_) if self.second => {
                self.second = false;
                return self.part = Part::Lead;
            }
            Part::Timed { since, queued } => (since, queued),
            _ => return self.part = Part::Timed { since: now, queued },
        };
        let arrived = (bytes + before).saturating_sub(queued);
        let rate = arrived as f64 / (now - since).as_secs_f64();
        self.part = Part::Lead;
        if !self.second {
            self.first = rate;
            self.second = true;
            return;
        }
        self.turns += 1;
        let is_faster = self.first < rate * CLEARLY_LESS;
        self.second = is_faster && self.turns == TURNS;
        if !is_faster || self.turns == TURNS {
            self.decide(rate);
        }
    }

    fn decide(&mut self, rate: f64) {
        let result = Rates {
            first: self.first,
            second: rate,
            is_second_faster: self.second,
        };
        let before = self.result.replace(result);
        // Until the first result, the first way is used.
        let before = before.is_some_and(|before| before.is_second_faster);
        self.turns = 0;
        self.rest = match before == self.second {
            true => (self.rest * 2).min(self.lengths.again),
            false => self.lengths.before,
        };
        self.part = Part::Rest(self.rest);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STEP: usize = 1 << 20;

    const LENGTHS: Lengths = Lengths {
        before: 64 << 20,
        lead: 8 << 20,
        timed: 16 << 20,
        again: 4 << 30,
    };

    /// A pipe whose reader has a steady rate, and a writer that waits while it is full.
    struct Stream {
        now: Instant,
        queued: f64,
    }

    impl Stream {
        /// Writes a step at a rate in bytes per second, while the reader reads at another rate.
        fn write(&mut self, writer: f64, reader: f64, capacity: f64) {
            let mut seconds = STEP as f64 / writer;
            let full = self.queued + STEP as f64 - reader * seconds - capacity;
            seconds += (full / reader).max(0.0);
            self.queued = (self.queued + STEP as f64 - reader * seconds).max(0.0);
            self.now += Duration::from_secs_f64(seconds);
        }
    }

    /// Sends `steps` more MiB. Returns how many bytes went by the second way. `rates` are those of the writer and the
    /// reader, for the first way and for the second, in GiB/s.
    fn send(
        turns: &mut Turns,
        stream: &mut Stream,
        steps: u32,
        rates: impl Fn(&Turns) -> [f64; 4],
    ) -> u64 {
        let mut by_second = 0;
        for _ in 0..steps {
            let [first, to_first, second, to_second] =
                rates(turns).map(|rate| rate * f64::from(1 << 30));
            if turns.is_second() {
                by_second += STEP as u64;
                stream.write(second, to_second, 8e6);
            } else {
                stream.write(first, to_first, 1e6);
            }
            let (now, queued) = (stream.now, stream.queued as u64);
            turns.sent_at(STEP, || queued, || now);
        }
        by_second
    }

    fn stream() -> Stream {
        Stream {
            now: Instant::now(),
            queued: 0.0,
        }
    }

    /// Sends 1 GiB, with these rates in each turn.
    fn tried(rates: &[[f64; 4]]) -> (Turns, u64) {
        tried_with(1024, rates)
    }

    fn tried_with(steps: u32, rates: &[[f64; 4]]) -> (Turns, u64) {
        let mut turns = Turns::new(LENGTHS);
        let by_second = send(&mut turns, &mut stream(), steps, |turns| {
            rates[(turns.turns as usize).min(rates.len() - 1)]
        });
        (turns, by_second)
    }

    #[test]
    fn the_second_way_is_used_where_each_turn_shows_that_it_is_faster() {
        for rates in [[3.0, 9.0, 6.0, 9.0], [9.0, 3.0, 9.0, 6.0]] {
            let (turns, by_second) = tried(&[rates]);
            let result = turns.result.unwrap();
            assert!(turns.is_second() && result.is_second_faster);
            assert!(by_second > 512 << 20);
            let gib = |rate: f64| rate / f64::from(1 << 30);
            assert!((gib(result.first) - 3.0).abs() < 0.3, "{result:?}");
            assert!((gib(result.second) - 6.0).abs() < 0.6, "{result:?}");
        }
    }

    #[test]
    fn one_turn_is_enough_to_stay_with_the_first_way() {
        // Long enough for the first trial, and too short for the next.
        let steps = 200;
        for rates in [
            [6.0, 9.0, 3.0, 9.0],
            [3.0, 9.0, 3.0, 9.0],
            [3.0, 9.0, 3.2, 9.0],
        ] {
            let (turns, by_second) = tried_with(steps, &[rates]);
            assert!(!turns.is_second() && !turns.result.unwrap().is_second_faster);
            assert_eq!(by_second, LENGTHS.lead + LENGTHS.timed);
        }
        // A short pause of the stream does not decide it.
        let (turns, by_second) = tried_with(steps, &[[0.1, 9.0, 4.0, 9.0], [4.0, 9.0, 4.0, 9.0]]);
        assert!(!turns.is_second() && !turns.result.unwrap().is_second_faster);
        assert_eq!(by_second, 2 * (LENGTHS.lead + LENGTHS.timed));
    }

    #[test]
    fn filling_the_pipe_is_not_taken_for_speed() {
        // The reader limits both ways, and a writer with the second way runs ahead of it.
        for ahead in [1.1, 1.25, 1.4, 2.0, 3.0] {
            let (turns, _) = tried(&[[3.0 * ahead, 3.0, 3.0 * ahead, 3.0]]);
            let result = turns.result.unwrap();
            assert!(!result.is_second_faster, "{ahead}: {result:?}");
        }
    }

    #[test]
    fn a_result_is_checked_ever_more_seldom_and_follows_the_machine() {
        let mut turns = Turns::new(Lengths {
            again: 1 << 30,
            ..LENGTHS
        });
        let (near, far) = ([9.0, 12.0, 4.0, 12.0], [4.0, 12.0, 9.0, 12.0]);
        let mut stream = stream();
        for (rates, is_second) in [(near, false), (far, true), (near, false)] {
            send(&mut turns, &mut stream, 2048, |_| rates);
            assert_eq!(turns.result.unwrap().is_second_faster, is_second);
            send(&mut turns, &mut stream, 8192, |_| rates);
            assert_eq!(turns.rest, 1 << 30);
            let of_second = send(&mut turns, &mut stream, 8192, |_| rates) as f64 / 8e9;
            assert!(if is_second {
                of_second > 0.9
            } else {
                of_second < 0.1
            });
        }
    }
}

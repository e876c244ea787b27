//! Whether to give pages to pipes and Unix sockets or to write: the way that moved this stream faster so far.
//!
//! A reader that copies takes as long for either, and a writer at the other end goes on while a write(2) takes its
//! time; a reader that splices, or a pipe that is never empty, gains from pages. Nothing but the time shows which it
//! is, so both ways are tried in turn, and the faster one moves the bytes until the next trial. The bytes that arrive
//! are the same.

use std::time::{Duration, Instant};

/// Bytes of one try: many times what a pipe holds, so that the way before it matters little.
const TRY: u64 = 4 << 20;

/// Tries of each way in a trial, of which the fastest counts: what else the machine does only makes them slower.
const TRIES: u32 = 3;

/// Bytes between two trials.
const PERIOD: u64 = 512 << 20;

/// A way that takes so many times as long is given up after one try.
const HOPELESS: u32 = 2;

/// Chooses one of two ways.
#[derive(Debug)]
pub(crate) struct Choice {
    gives: bool,
    /// Tries that are left in this trial.
    left: u32,
    /// Bytes of this try, or since the last trial.
    bytes: u64,
    began: Option<Instant>,
    /// The fastest try of each way: of writing, and of giving.
    fastest: [Duration; 2],
}

impl Choice {
    /// Starts with a trial, and with writing, which needs less memory.
    pub(crate) fn new() -> Self {
        Self {
            gives: false,
            left: 2 * TRIES,
            bytes: 0,
            began: None,
            fastest: [Duration::MAX; 2],
        }
    }

    /// Returns whether to give the next bytes.
    pub(crate) fn gives(&self) -> bool {
        self.gives
    }

    /// Records that `bytes` more have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.began.get_or_insert_with(Instant::now);
        self.bytes += bytes as u64;
        if self.left == 0 {
            if self.bytes >= PERIOD {
                self.fastest = [Duration::MAX; 2];
                self.left = 2 * TRIES;
                self.next_try(self.gives, Instant::now());
            }
        } else if self.bytes >= TRY {
            let now = Instant::now();
            let time = self.began.map_or(Duration::MAX, |began| now - began);
            self.tried(time, now);
        }
    }

    /// Records that a try took this long.
    fn tried(&mut self, time: Duration, now: Instant) {
        let of_this = &mut self.fastest[usize::from(self.gives)];
        *of_this = time.min(*of_this);
        self.left -= 1;
        let [written, given] = self.fastest;
        let both = written.max(given) != Duration::MAX;
        if both && written.max(given) > HOPELESS * written.min(given) {
            self.left = 0;
        }
        match self.left {
            0 => self.next_try(given < written, now),
            _ => self.next_try(!self.gives, now),
        }
    }

    fn next_try(&mut self, gives: bool, now: Instant) {
        (self.gives, self.bytes, self.began) = (gives, 0, Some(now));
    }
}

/// Whether to give pages to a pipe, from a large buffer. It writes until the reader turns out to be what the stream waits
/// for, and gives from then on. The bytes of a full buffer are no longer in the cache of the CPU: if they are given, they
/// are copied once instead of twice. For a faster reader, to get fresh memory for each byte would take longer than that.
/// After vmsplice(2), a write(2) that must not wait is limited to PIPE_BUF bytes (docs/guarantees.md), so there is no way
/// back.
#[derive(Debug, Default)]
pub(crate) struct Once {
    gives: bool,
    /// The periods in a row in which it has mostly waited: a reader may pause in one of them.
    waiting: u32,
    /// When the writer was first seen with many bytes to send, and for how long it had waited then.
    since: Option<(Instant, Duration)>,
}

impl Once {
    /// The bytes that are many.
    const MANY: u64 = 4 << 20;
    /// The least time of a period.
    const PERIOD: Duration = Duration::from_millis(5);
    /// The periods after which it gives.
    const ENOUGH: u32 = 3;

    /// Returns whether to give the next bytes to this pipe, for which the writer has `waited` so long in all, while the
    /// buffer holds so many bytes.
    pub(crate) fn gives(&mut self, held: u64, waited: Duration) -> bool {
        if !self.gives {
            self.look(held, waited, Instant::now());
        }
        self.gives
    }

    fn look(&mut self, held: u64, waited: Duration, now: Instant) {
        match self.since {
            _ if held < Self::MANY => (self.since, self.waiting) = (None, 0),
            None => self.since = Some((now, waited)),
            Some((at, before)) if now - at >= Self::PERIOD => {
                self.waiting = match 2 * (waited - before) > now - at {
                    true => self.waiting + 1,
                    false => 0,
                };
                self.gives = self.waiting >= Self::ENOUGH;
                self.since = Some((now, waited));
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves bytes where a try of writing and one of giving take so many milliseconds, until the trial is over, and
    /// returns the number of tries.
    fn try_out(choice: &mut Choice, written: u64, given: u64) -> u32 {
        let now = Instant::now();
        for tries in 1.. {
            let millis = if choice.gives() { given } else { written };
            choice.tried(Duration::from_millis(millis), now);
            if choice.left == 0 {
                return tries;
            }
        }
        unreachable!()
    }

    #[test]
    fn the_faster_way_is_taken() {
        for (written, given) in [(5, 4), (4, 5), (4, 4)] {
            let mut choice = Choice::new();
            assert_eq!(try_out(&mut choice, written, given), 2 * TRIES);
            assert_eq!(choice.gives(), given < written);
        }
    }

    #[test]
    fn a_way_that_is_far_slower_is_tried_once() {
        let mut choice = Choice::new();
        assert_eq!(try_out(&mut choice, 9, 3), 2);
        assert!(choice.gives());
    }

    #[test]
    fn it_is_tried_again_after_a_period() {
        let mut choice = Choice::new();
        try_out(&mut choice, 9, 3);
        choice.sent(PERIOD as usize);
        assert_eq!(choice.left, 2 * TRIES);
        try_out(&mut choice, 3, 9);
        assert!(!choice.gives());
    }

    #[test]
    fn a_pipe_gets_pages_for_good_once_its_reader_is_what_a_full_buffer_waits_for() {
        let waits = |held: u64, share: u32| {
            let (mut once, began) = (Once::default(), Instant::now());
            for millis in 0..=30 {
                let passed = Duration::from_millis(millis);
                once.look(held, passed * share / 100, began + passed);
            }
            once.gives
        };
        assert!(waits(Once::MANY, 60));
        assert!(!waits(Once::MANY, 40));
        assert!(!waits(Once::MANY - 1, 60));
        let mut once = Once {
            gives: true,
            ..Once::default()
        };
        assert!(once.gives(0, Duration::ZERO));
    }

    #[test]
    fn a_reader_that_pauses_once_gets_no_pages() {
        let (mut once, began) = (Once::default(), Instant::now());
        let at = |millis| began + Duration::from_millis(millis);
        once.look(Once::MANY, Duration::ZERO, at(0));
        let pause = Duration::from_millis(100);
        for millis in 100..200 {
            once.look(Once::MANY, pause, at(millis));
        }
        assert!(!once.gives);
    }
}

//! When to give pages to a pipe from a large buffer.

use std::time::{Duration, Instant};

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

//! When to pause before the next try, because poll(2) says that a descriptor is ready and its calls do not move a byte.
//!
//! A socket with a message in its error queue (recv(2), `MSG_ERRQUEUE`, such as a timestamp) is in an error condition
//! to poll(2) and epoll(7) until the message is read. Without a pause, waiting for room in such a socket is a busy loop.

use std::time::Duration;

/// The number of vain tries after which to pause. One or two may be events that arrived during a call.
const VAIN: u32 = 3;

/// The longest pause, in milliseconds.
const LONGEST: u64 = 8;

/// Decides how long to pause. Whoever has it pauses.
#[derive(Debug, Clone, Default)]
pub struct Nap {
    /// How often a descriptor was not ready although poll(2) said so, without progress in between.
    vain: u32,
}

impl Nap {
    /// Records such a try, and returns how long to pause before the next one, if at all.
    pub fn was_vain(&mut self) -> Option<Duration> {
        self.vain = self.vain.saturating_add(1);
        let exponent = u64::from(self.vain.checked_sub(VAIN + 1)?).min(LONGEST.ilog2().into());
        Some(Duration::from_millis(1 << exponent))
    }

    /// Records a wait or progress.
    pub fn was_not_vain(&mut self) {
        self.vain = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_begin_after_a_few_tries_and_grow_to_a_limit() {
        let mut nap = Nap::default();
        for _ in 0..2 {
            let pauses: Vec<_> = (0..9).map(|_| nap.was_vain()).collect();
            let expected = [
                None,
                None,
                None,
                Some(1),
                Some(2),
                Some(4),
                Some(8),
                Some(8),
                Some(8),
            ];
            assert_eq!(pauses, expected.map(|ms| ms.map(Duration::from_millis)));
            nap.was_not_vain();
        }
    }
}

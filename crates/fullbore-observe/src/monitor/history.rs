//! What is remembered about a pipe from scan to scan, whichever processes have it open.

use std::collections::{HashMap, VecDeque};

use fullbore_linux::PipeIdentity;

use crate::verdict::numbers::{Bytes, Certainty};

/// Scans that are remembered.
const FILLS: usize = 60;

/// Seconds after which a pipe that is not seen any more is forgotten. Inode numbers are reused, but not that
/// soon: pipefs counts them up (`get_next_ino`, fs/inode.c).
const FORGOTTEN_AFTER: f64 = 30.0;

/// The history of one pipe.
#[derive(Debug, Clone)]
pub struct History {
    /// When it was first seen, in seconds since 1970.
    pub first_seen: f64,
    last_seen: f64,
    /// Its capacity in bytes, if this was read apart from watching its processes.
    pub capacity: Option<usize>,
    /// How full it was at the last scans, the oldest first.
    pub fills: VecDeque<f64>,
    /// Bytes that had gone through it when watching of its current processes began.
    before: Option<u64>,
    /// Bytes that have gone through it so far.
    bytes: Option<u64>,
    /// The largest number of bytes that was ever reported.
    most: u64,
}

/// The histories of all pipes.
#[derive(Debug, Default)]
pub struct Histories {
    all: HashMap<PipeIdentity, History>,
    /// When pipes were last forgotten.
    forgot_at: f64,
}

impl Histories {
    /// Returns the history of a pipe that is seen now.
    pub fn of(&mut self, pipe: PipeIdentity, now: f64) -> &mut History {
        let history = self.all.entry(pipe).or_insert_with(|| History::new(now));
        history.last_seen = now;
        history
    }

    /// Records that counting its bytes starts again from 0.
    pub fn begin(&mut self, pipe: PipeIdentity) {
        if let Some(history) = self.all.get_mut(&pipe) {
            history.before = history.bytes;
        }
    }

    /// Forgets the pipes that have not been seen for a long time, at the end of each scan. A pipe that only
    /// one scan has missed is kept, however long ago the scan before was.
    pub fn forget(&mut self, now: f64) {
        let until = (now - FORGOTTEN_AFTER).min(self.forgot_at);
        self.all.retain(|_, history| history.last_seen >= until);
        self.forgot_at = now;
    }
}

impl History {
    fn new(now: f64) -> Self {
        Self {
            capacity: None,
            first_seen: now,
            last_seen: now,
            fills: VecDeque::with_capacity(FILLS),
            before: Some(0),
            bytes: Some(0),
            most: 0,
        }
    }

    /// Records how full it is.
    pub fn note(&mut self, share: Option<f64>) {
        if let Some(share) = share {
            if self.fills.len() == FILLS {
                self.fills.pop_front();
            }
            self.fills.push_back(share);
        }
    }

    /// Adds the bytes that were counted before, and returns the sum. Once one of the counts is not
    /// known, the sum is not known either.
    pub fn add(&mut self, since: Bytes) -> Bytes {
        let bytes = self.before.zip(since.bytes);
        let bytes = bytes.map(|(one, other)| one.saturating_add(other));
        // It is never less than before, even if the count was unknown in between.
        self.most = bytes.unwrap_or(0).max(self.most);
        self.bytes = bytes.map(|_| self.most);
        let bytes_are = match (self.bytes, since.bytes_are) {
            (None, _) => Certainty::Unknown,
            // What went through before is known, and there may be more.
            (Some(1..), Certainty::Unknown) => Certainty::About,
            (Some(_), certainty) => certainty,
        };
        let bytes = self.bytes;
        Bytes { bytes, bytes_are }.known()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(inode: u64) -> PipeIdentity {
        PipeIdentity { device: 1, inode }
    }

    fn counted(bytes: u64) -> Bytes {
        Bytes {
            bytes: Some(bytes),
            bytes_are: Certainty::Counted,
        }
    }

    #[test]
    fn a_pipe_keeps_its_history_and_only_so_much_of_it() {
        let mut all = Histories::default();
        for at in 0..FILLS + 5 {
            all.of(pipe(1), at as f64).note(Some(at as f64));
        }
        let history = all.of(pipe(1), 100.0);
        assert_eq!((history.first_seen, history.last_seen), (0.0, 100.0));
        assert_eq!(history.fills.len(), FILLS);
        assert_eq!((history.fills[0], history.fills[FILLS - 1]), (5.0, 64.0));
    }

    #[test]
    fn one_that_is_not_seen_is_forgotten_but_not_at_once() {
        let mut all = Histories::default();
        all.of(pipe(1), 10.0);
        all.forget(10.0);
        // One scan misses it.
        all.forget(500.0);
        assert_eq!(all.of(pipe(1), 501.0).first_seen, 10.0);
        all.forget(501.0);
        all.forget(502.0);
        all.forget(503.0);
        assert_eq!(all.of(pipe(1), 504.0).first_seen, 10.0);
        all.forget(504.0);
        all.forget(1000.0);
        all.forget(1001.0);
        assert_eq!(all.of(pipe(1), 1002.0).first_seen, 1002.0);
    }

    #[test]
    fn a_count_of_0_that_means_nothing_ends_no_sum() {
        let unseen = Bytes {
            bytes: Some(0),
            bytes_are: Certainty::Unknown,
        };
        let mut all = Histories::default();
        assert_eq!(
            all.of(pipe(1), 0.0).add(unseen),
            Bytes {
                bytes: None,
                ..unseen
            }
        );
        all.begin(pipe(1));
        assert_eq!(all.of(pipe(1), 1.0).add(counted(10)), counted(10));
        all.begin(pipe(1));
        let about = Bytes {
            bytes_are: Certainty::About,
            ..counted(10)
        };
        assert_eq!(all.of(pipe(1), 2.0).add(unseen), about);
        assert_eq!(all.of(pipe(1), 3.0).add(counted(5)), counted(15));
    }

    #[test]
    fn bytes_go_on_when_others_take_a_pipe_over() {
        let mut all = Histories::default();
        assert_eq!(all.of(pipe(1), 0.0).add(counted(70)), counted(70));
        all.begin(pipe(1));
        assert_eq!(all.of(pipe(1), 1.0).add(counted(0)), counted(70));
        assert_eq!(all.of(pipe(1), 2.0).add(counted(5)), counted(75));
        let unknown = Bytes {
            bytes: None,
            bytes_are: Certainty::Unknown,
        };
        assert_eq!(all.of(pipe(1), 3.0).add(unknown), unknown);
        assert_eq!(all.of(pipe(1), 4.0).add(counted(2)), counted(75));
    }

    #[test]
    fn counts_that_make_no_sense_do_not_overflow() {
        let mut all = Histories::default();
        all.of(pipe(1), 0.0).add(counted(u64::MAX));
        all.begin(pipe(1));
        let sum = all.of(pipe(1), 1.0).add(counted(5));
        assert_eq!(sum, counted(u64::MAX));
    }
}

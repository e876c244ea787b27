//! How far a pipeline was when it was last asked whether bytes have moved in it.

use crate::census::fill::Fill;
use crate::sampling::sums::StageSums;

/// How far everything was when it was last asked whether it has moved.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub fills: Vec<Option<Fill>>,
    pub stages: Vec<Counted>,
    /// The bytes that each stage had read and written when something last moved.
    pub beside: Vec<u64>,
}

/// The counters of a stage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub read: Option<u64>,
    pub written: Option<u64>,
    pub turns: u64,
}

impl Counted {
    pub fn of(sums: &StageSums) -> Self {
        Self {
            read: sums.read,
            written: sums.written,
            turns: sums.turns,
        }
    }

    pub fn beside(self) -> u64 {
        self.read.unwrap_or(0) + self.written.unwrap_or(0)
    }
}

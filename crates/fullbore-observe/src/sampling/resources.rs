//! What a process has used, and how long its threads ran and waited for a CPU.

use std::time::Duration;

/// The resources that a process has used.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// CPU time of its own, and of the children that it has waited for.
    pub cpu: Duration,
    /// Bytes that it has read, by calls that count them; `None` if this user may not read that.
    pub read: Option<u64>,
    /// Bytes that it has written, by calls that count them; `None` if this user may not read that.
    pub written: Option<u64>,
}

impl Used {
    /// Nothing.
    pub const NOTHING: Self = Self {
        cpu: Duration::ZERO,
        read: Some(0),
        written: Some(0),
    };

    /// No CPU time, and an unknown number of bytes read and written.
    pub const UNCOUNTED: Self = Self {
        read: None,
        written: None,
        ..Self::NOTHING
    };

    /// Returns the same with 0 for unknown numbers, for sums that continue after the process has
    /// ended.
    pub fn as_far_as_known(self) -> Self {
        Self {
            read: self.read.or(Some(0)),
            written: self.written.or(Some(0)),
            ..self
        }
    }

    /// Adds the resources that another process has used. If a number is not known for both, the sum
    /// is not known.
    pub fn add(&mut self, other: Self) {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        self.cpu += other.cpu;
        self.read = sum(self.read, other.read);
        self.written = sum(self.written, other.written);
    }

    /// Subtracts the resources that a process had used before.
    pub fn less(self, before: Self) -> Self {
        let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            read: less(self.read, before.read),
            written: less(self.written, before.written),
        }
    }
}

/// How long its threads ran and waited for a CPU since the last time that this was read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Activity {
    /// The time that all threads together waited for a CPU.
    pub queued: Duration,
    /// The number of times that a thread got a CPU.
    pub turns: u64,
    /// The time that the busiest thread ran or waited for a CPU.
    pub busiest: Duration,
}

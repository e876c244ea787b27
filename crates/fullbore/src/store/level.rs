//! What a [`Buffer`](crate::Buffer) says about its memory while it runs.

use std::time::Duration;

/// How full a [`Buffer`](crate::Buffer) is, and what it has moved so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Level {
    /// Bytes that were read.
    pub taken: u64,
    /// Of these, the bytes that the slowest sink has not got yet.
    pub held: u64,
    /// Size of the memory in bytes: the requested size, rounded to whole slots.
    pub capacity: u64,
    /// The most bytes that were held at once.
    pub most: u64,
    /// Waits of the first sink for bytes, except before its first byte and after the last.
    pub empty: Waits,
    /// Waits of the source for room.
    pub full: Waits,
    /// How long the first sink waited for bytes after the memory had been full once. A larger memory could have saved
    /// at most this time, and at most the time of the waits for room.
    pub empty_after_full: Duration,
    /// Whether the source has ended.
    pub has_ended: bool,
    /// Whether reading is waiting for room now.
    pub waits_for_room: bool,
    /// Whether all sinks are waiting for bytes now.
    pub waits_for_bytes: bool,
    /// The number of sinks that have neither finished nor failed.
    pub sinks_left: usize,
    /// Time since the start.
    pub elapsed: Duration,
}

/// How often and how long one side of a [`Buffer`](crate::Buffer) waited for the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// The number of waits.
    pub times: u64,
    /// Their total duration.
    pub time: Duration,
}

impl Waits {
    pub(super) fn add(&mut self, time: Duration) {
        self.times += 1;
        self.time += time;
    }
}

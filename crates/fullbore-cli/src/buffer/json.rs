//! The shape of the JSON that `fullbore buffer --json` prints. docs/buffer.md describes the fields.

use serde::Serialize;

/// What a buffer did, from its start to its end.
#[derive(Debug, Clone, Serialize)]
pub struct BufferSummary {
    /// Bytes that were read.
    pub bytes: u64,
    /// Seconds from the start to the end.
    pub seconds: f64,
    /// Bytes of memory that it was allowed to use.
    pub memory: u64,
    /// The most bytes that it held.
    pub most: u64,
    /// Waits of the first output for bytes.
    pub empty: Shortage,
    /// Waits of the input for room.
    pub full: Shortage,
    /// The slow side.
    pub slow: SlowSide,
    /// Seconds that a larger buffer could have saved at most.
    pub could_save_seconds: f64,
    /// Which side was slow, and whether a larger buffer would have helped, in words.
    pub verdict: String,
    /// Where the bytes went.
    pub outputs: Vec<Destination>,
    /// How full it was over time.
    pub levels: Vec<Fill>,
}

/// How often and how long one side waited for the other.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Shortage {
    /// The number of waits.
    pub times: u64,
    /// Seconds that they took together.
    pub seconds: f64,
}

/// The slow side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SlowSide {
    /// What writes the input: the output waited for it.
    Writer,
    /// What reads the output: the input waited for it.
    Reader,
    /// Both in turn.
    Both,
    /// Nobody waited for long.
    Neither,
}

/// Where bytes went, and how many.
#[derive(Debug, Clone, Serialize)]
pub struct Destination {
    /// Its name.
    pub name: String,
    /// Bytes that it got.
    pub bytes: u64,
    /// Why it got no more, if it failed.
    pub error: Option<String>,
}

/// How full the buffer was at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fill {
    /// Seconds since the start.
    pub seconds: f64,
    /// Percent of the memory.
    pub percent: f64,
}

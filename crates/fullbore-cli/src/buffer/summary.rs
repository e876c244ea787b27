//! What is said at the end of a buffer, in words and as JSON.

use std::time::Duration;

use fullbore::buffer::{Level, Waits};
use fullbore_host::size::{self, amount};
use fullbore_host::text::duration;
use serde::Serialize;

use crate::copying::rate;

/// A side that waited for less than this part of the time was not held up.
const LITTLE: f64 = 0.02;

/// Returns what `--json` prints.
pub fn summary(level: &Level, outputs: Vec<Destination>, levels: &[Fill]) -> BufferSummary {
    BufferSummary {
        bytes: level.taken,
        seconds: level.elapsed.as_secs_f64(),
        memory: level.capacity,
        most: level.most,
        empty: shortage(level.empty),
        full: shortage(level.full),
        slow: slow(level),
        could_save_seconds: could_save(level).as_secs_f64(),
        verdict: verdict(level),
        outputs,
        levels: levels.to_vec(),
    }
}

fn shortage(waits: Waits) -> Shortage {
    Shortage {
        times: waits.times,
        seconds: waits.time.as_secs_f64(),
    }
}

/// Returns the most time that a larger memory could have saved: the source had to wait for room, and after that the
/// sink for bytes, which it would have had otherwise.
fn could_save(level: &Level) -> Duration {
    level.full.time.min(level.empty_after_full)
}

/// Returns the line that mbuffer has too.
pub fn line(level: &Level) -> String {
    let average = rate(level.taken, level.elapsed);
    format!(
        "summary: {} in {}{}",
        amount(level.taken as f64),
        duration(level.elapsed),
        average.map_or_else(String::new, |rate| format!(", average of {rate}")),
    )
}

/// Returns how full it was, and whether a larger one would have helped.
pub fn report(level: &Level) -> Vec<String> {
    let percent = 100.0 * level.most as f64 / level.capacity.max(1) as f64;
    vec![
        format!(
            "buffer: {}, at most {percent:.0}% full; empty {}, full {}",
            size::format(level.capacity),
            waits(level.empty),
            waits(level.full),
        ),
        verdict(level),
    ]
}

fn waits(waits: Waits) -> String {
    match waits.times {
        0 => "never".to_owned(),
        1 => format!("once ({})", duration(waits.time)),
        times => format!("{times} times ({})", duration(waits.time)),
    }
}

/// Returns the slow side.
fn slow(level: &Level) -> SlowSide {
    let matters = |waits: Waits| waits.time.as_secs_f64() > LITTLE * level.elapsed.as_secs_f64();
    match (matters(level.empty), matters(level.full)) {
        (true, false) => SlowSide::Writer,
        (false, true) => SlowSide::Reader,
        (true, true) => SlowSide::Both,
        (false, false) => SlowSide::Neither,
    }
}

/// Returns in a sentence or two which side was slow, and whether a larger buffer would have helped.
fn verdict(level: &Level) -> String {
    let side = match slow(level) {
        SlowSide::Writer => "The writer was the slow side. ",
        SlowSide::Reader => "The reader was the slow side. ",
        SlowSide::Both => "Writer and reader were slow in turn. ",
        SlowSide::Neither => "",
    };
    let saved = could_save(level);
    let is_much = saved.as_secs_f64() > LITTLE * level.elapsed.as_secs_f64();
    let help = match level.full.times {
        0 => "A larger buffer would not have helped: it was never full.".to_owned(),
        _ if is_much && saved > Duration::ZERO => format!(
            "A larger buffer could have saved up to {}: it was full, and later empty.",
            duration(saved)
        ),
        _ => "A larger buffer would not have helped: after it was full, it was hardly ever empty."
            .to_owned(),
    };
    format!("{side}{help}")
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn level(empty: u64, full: u64, after: u64) -> Level {
        let waits = |seconds| Waits {
            times: seconds,
            time: Duration::from_secs(seconds),
        };
        let mut level = Level::default();
        level.elapsed = Duration::from_secs(100);
        level.empty = waits(empty);
        level.full = waits(full);
        level.empty_after_full = Duration::from_secs(after);
        level
    }

    #[test]
    fn the_verdict_says_who_was_slow_and_whether_more_memory_would_have_helped() {
        let starts = |level: Level, text: &str| {
            let verdict = verdict(&level);
            assert!(verdict.starts_with(text), "{verdict}");
        };
        starts(
            level(0, 0, 0),
            "A larger buffer would not have helped: it was never",
        );
        starts(
            level(50, 0, 0),
            "The writer was the slow side. A larger buffer would not",
        );
        starts(
            level(0, 50, 0),
            "The reader was the slow side. A larger buffer would not",
        );
        starts(
            level(30, 40, 30),
            "Writer and reader were slow in turn. A larger buffer could have saved up to 30.00 s",
        );
        // Empty first, and full later: more memory changes nothing.
        starts(
            level(30, 40, 0),
            "Writer and reader were slow in turn. A larger buffer would not",
        );
    }
}

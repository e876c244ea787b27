//! The line that shows how full the buffer is. If there is too little room, the least important parts are
//! left out whole.

use std::time::Duration;

use fullbore::buffer::Level;
use fullbore_host::size::amount;
use fullbore_host::text::{columns, cut};

use crate::terminal::line::{clock, leave_out};

/// What a line shows.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Bytes per second that come in, now.
    pub comes: f64,
    /// Bytes per second that go out, now.
    pub goes: f64,
    /// Bytes that came in, and that went out.
    pub taken: u64,
    pub sent: u64,
    /// Percent of the memory that is full.
    pub percent: f64,
    /// Percent at earlier times, the oldest first.
    pub before: Vec<f64>,
    /// Time since the start.
    pub elapsed: Duration,
    /// Which side is slow.
    pub hint: &'static str,
}

impl Reading {
    /// Returns what happened `since` another level. What was `before` is not in it.
    pub fn of(level: &Level, since: &Level) -> Self {
        let elapsed = level.elapsed - since.elapsed;
        let seconds = elapsed.max(Duration::from_millis(1)).as_secs_f64();
        let sent = |level: &Level| level.taken.saturating_sub(level.held);
        let percent = percent(level);
        Self {
            comes: level.taken.saturating_sub(since.taken) as f64 / seconds,
            goes: sent(level).saturating_sub(sent(since)) as f64 / seconds,
            taken: level.taken,
            sent: sent(level),
            percent,
            before: Vec::new(),
            elapsed: level.elapsed,
            hint: match percent {
                90.0.. => "slow: reader",
                ..5.0 => "slow: writer",
                _ => "",
            },
        }
    }
}

/// Returns how much of the memory is full.
pub fn percent(level: &Level) -> f64 {
    100.0 * level.held as f64 / level.capacity.max(1) as f64
}

/// The parts of a line, the least important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Matters {
    History,
    Elapsed,
    Bar,
    Hint,
    Total,
    Rates,
    Percent,
}

/// The least width of the bar, and of the history.
const LEAST: usize = 12;

/// Signs for empty to full.
const HEIGHTS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// Returns the line in at most `width` columns.
pub fn line(reading: &Reading, width: usize) -> String {
    let rate = |rate: f64| format!("{:>8}/s", amount(rate));
    let rates = format!("in {}  out {}", rate(reading.comes), rate(reading.goes));
    let percent = reading.percent.clamp(0.0, 100.0);
    let (number, word) = (format!("{percent:>3.0}%"), " full");
    // Without the word, there is room for both rates on a terminal of 40 columns.
    let least = columns(&rates) + 2 + number.len();
    let is_tight = (least..least + word.len()).contains(&width);
    let word = if is_tight { "" } else { word };
    let total = format!("{:>8} total", amount(reading.taken as f64));
    let mut parts = vec![
        (Matters::Rates, rates),
        (Matters::Total, total),
        (Matters::Elapsed, clock(reading.elapsed)),
        (Matters::Bar, " ".repeat(LEAST)),
        (Matters::Percent, number + word),
        (Matters::History, " ".repeat(LEAST)),
        (Matters::Hint, reading.hint.to_owned()),
    ];
    parts.retain(|(_, text)| !text.is_empty());
    let spare = leave_out(&mut parts, 2, width);
    let has_history = parts.iter().any(|&(m, _)| m == Matters::History);
    // The history gets what the bar does not need.
    let bar_width = LEAST + if has_history { spare.min(18) } else { spare };
    for (matters, text) in &mut parts {
        match matters {
            Matters::Bar => *text = bar(percent, bar_width),
            Matters::History => *text = heights(&reading.before, LEAST + spare - spare.min(18)),
            _ => {}
        }
    }
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    cut(&texts.join("  "), width).trim_end().to_owned()
}

/// Draws `[=====     ]`.
fn bar(percent: f64, width: usize) -> String {
    let inside = width - 2;
    let full = (inside as f64 * percent / 100.0).round() as usize;
    format!("[{:<inside$}]", "=".repeat(full.min(inside)))
}

/// Draws how full it was at the last times.
fn heights(before: &[f64], width: usize) -> String {
    let last = &before[before.len().saturating_sub(width)..];
    let height = |percent: &f64| {
        let height = (percent / 100.0 * HEIGHTS.len() as f64) as usize;
        HEIGHTS[height.min(HEIGHTS.len() - 1)]
    };
    format!("{:<width$}", last.iter().map(height).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        Reading {
            comes: 1.2 * 1073741824.0,
            goes: 0.9 * 1073741824.0,
            taken: 12 << 30,
            sent: 11 << 30,
            percent: 45.0,
            before: (0..50).map(|i| f64::from(i) * 2.0).collect(),
            elapsed: Duration::from_secs(83),
            hint: "slow: reader",
        }
    }

    #[test]
    #[rustfmt::skip]
    fn what_matters_least_is_left_out_first_where_room_is_short() {
        let rates = "in 1.20 GiB/s  out  922 MiB/s";
        for (width, text) in [
            (77, format!("{rates}    12 GiB total   45% full  slow: reader")),
            (62, format!("{rates}    12 GiB total   45% full")),
            (48, format!("{rates}   45% full")),
            (37, format!("{rates}   45%")),
            (34, " 45% full".to_owned()),
            (10, " 45% full".to_owned()),
            (4, " 45%".to_owned()),
        ] {
            assert_eq!(line(&reading(), width), text, "{width}");
        }
    }

    #[test]
    fn a_wide_line_shows_how_full_it_was_before() {
        let line = line(&reading(), 197);
        assert!(line.contains("__......"), "{line}");
        assert!(line.contains("+*****"), "{line}");
        assert!(line.ends_with("slow: reader"), "{line}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_whatever_is_in_it() {
        for width in 0..250 {
            for percent in [0.0, 0.4, 50.0, 100.0, 1e9, f64::NAN] {
                let reading = Reading {
                    percent,
                    comes: f64::MAX,
                    ..reading()
                };
                let line = line(&reading, width);
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

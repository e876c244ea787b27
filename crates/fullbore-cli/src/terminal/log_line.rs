//! `--log SECONDS`: plain lines about the progress, each with the time of day first, for the mail of cron and the log of a
//! service. They have no escape codes, and do not depend on a terminal.

use std::time::{Duration, Instant};

use fullbore_host::size::amount;
use fullbore_host::text::{duration, thousands};

use super::line::{Reading, Unit};

/// When the lines are due.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    every: Duration,
    next: Instant,
}

impl Due {
    /// The first line is due after this time.
    pub fn every(every: Duration) -> Self {
        Self {
            every,
            next: Instant::now() + every,
        }
    }

    /// Returns the time until the next line.
    pub fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Returns when the next line is due.
    pub fn at(&self) -> Instant {
        self.next
    }

    /// Whether a line is due. If so, the next one is due an interval later.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            // What could not be printed in time is left out.
            self.next = (self.next + self.every).max(now);
        }
        is_due
    }
}

/// Returns `14:03:07 1.20 GiB 103 MiB/s 42%`, with what comes `after` if it is not empty. The last line has the average
/// rate, and the whole time.
pub fn log_line(reading: &Reading, after: &str) -> String {
    let count = |number: f64| match reading.unit {
        Unit::Bytes => amount(number),
        Unit::Lines => format!("{} lines", thousands(number as u64)),
    };
    let mut text = format!(
        "{} {} {}/s",
        time_of_day(),
        count(reading.passed as f64),
        count(reading.rate())
    );
    if let Some(total) = reading.total.filter(|&total| total > 0) {
        let percent = 100.0 * reading.passed as f64 / total as f64;
        text += &format!(" {:.0}%", percent.floor());
    }
    if reading.ended {
        text += &format!(" in {}, done", duration(reading.elapsed));
    }
    if !after.is_empty() {
        text += &format!(" {after}");
    }
    text
}

/// Returns the local time of day, such as `14:03:07`.
pub fn time_of_day() -> String {
    jiff::Zoned::now().strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_first_and_what_is_known() {
        let mut reading = Reading {
            passed: 512 << 20,
            total: Some(2 << 30),
            now: 1e6,
            average: 2e6,
            elapsed: Duration::from_secs(268),
            ..Reading::default()
        };
        let without_time = |line: String| {
            let (time, rest) = line.split_at(8);
            assert!(time.bytes().enumerate().all(|(at, byte)| match at {
                2 | 5 => byte == b':',
                _ => byte.is_ascii_digit(),
            }));
            rest.to_owned()
        };
        let line = without_time(log_line(&reading, "slow: 2 gzip"));
        assert_eq!(line, format!(" 512 MiB {}/s 25% slow: 2 gzip", amount(1e6)));
        (reading.ended, reading.total) = (true, None);
        let line = without_time(log_line(&reading, ""));
        assert!(
            line.contains(&format!(" 512 MiB {}/s in ", amount(2e6))),
            "{line}"
        );
    }

    #[test]
    fn lines_that_are_late_are_left_out() {
        let mut due = Due::every(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(20));
        assert!(due.is_due());
        assert!(due.at() >= Instant::now() - Duration::from_millis(5) || due.is_due());
    }
}

//! One line that says how far a whole pipeline is: amount, time, rate, percentage, remaining time, and the slow stage.

use std::time::Instant;

use fullbore_host::text::{columns, cut, one_line};
use fullbore_observe::{Progress, Rate};

use super::line::{self, Reading};
use super::log_line::log_line;

/// The most columns that the text of the slow stage takes.
const STAGE: usize = 16;

/// The line of a pipeline.
#[derive(Debug, Default)]
pub struct ProgressLine {
    rate: Option<Rate>,
    ticks: u64,
}

impl ProgressLine {
    /// Returns the line of a pipeline that starts now. That of a pipeline which is running already counts from its
    /// first drawing.
    pub fn from_start() -> Self {
        Self {
            rate: Some(Rate::new(0, Instant::now())),
            ticks: 0,
        }
    }

    /// Returns the line, with the number and the name of the slow stage if one is known.
    pub fn line(&mut self, at: Progress, slow: Option<(usize, &str)>, width: usize) -> String {
        let reading = self.reading(at);
        let mut after = String::new();
        if at.total.is_none() {
            after.push_str(" size unknown");
        }
        if let Some(slow) = slow {
            after.push_str(&format!(" {}", slow_text(slow)));
        }
        let room = width.saturating_sub(columns(&after));
        cut(&(line::line(&reading, room) + &after), width)
    }

    /// Returns the line of `--log`.
    pub fn log_line(&mut self, at: Progress, slow: Option<(usize, &str)>, ended: bool) -> String {
        let reading = Reading {
            ended,
            ..self.reading(at)
        };
        log_line(&reading, &slow.map_or_else(String::new, slow_text))
    }

    fn reading(&mut self, at: Progress) -> Reading {
        let now = Instant::now();
        self.ticks += 1;
        if let Some(passed) = at.passed {
            let rate = self.rate.get_or_insert_with(|| Rate::new(passed, now));
            rate.update(passed, now);
        }
        let rate = self.rate.as_ref();
        let mut reading = rate.map_or_else(Reading::default, |rate| Reading::of(rate, at.total));
        (reading.total, reading.tick) = (at.total, self.ticks);
        reading
    }
}

fn slow_text((number, stage): (usize, &str)) -> String {
    format!("slow: {number} {}", one_line(stage, STAGE))
}

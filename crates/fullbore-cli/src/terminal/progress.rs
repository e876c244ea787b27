//! One line that says how far a whole pipeline is: amount, time, rate, percentage, remaining time, and the slow stage.

use std::time::Instant;

use fullbore_host::text::{columns, cut, one_line};
use fullbore_observe::{Progress, Rate};

use super::line::{self, Reading};

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
        let now = Instant::now();
        self.ticks += 1;
        if let Some(passed) = at.passed {
            let rate = self.rate.get_or_insert_with(|| Rate::new(passed, now));
            rate.update(passed, now);
        }
        let mut reading = Reading {
            total: at.total,
            tick: self.ticks,
            ..Reading::default()
        };
        if let Some(rate) = &self.rate {
            reading.passed = rate.count();
            reading.elapsed = rate.elapsed();
            reading.now = rate.now();
            reading.average = rate.average();
            reading.left = at.total.and_then(|total| rate.left(total));
        }
        let mut after = String::new();
        if at.total.is_none() {
            after.push_str(" size unknown");
        }
        if let Some((number, stage)) = slow {
            after.push_str(&format!(" slow: {number} {}", one_line(stage, STAGE)));
        }
        let room = width.saturating_sub(columns(&after));
        cut(&(line::line(&reading, room) + &after), width)
    }
}

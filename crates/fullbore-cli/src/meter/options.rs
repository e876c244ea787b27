//! What a meter shows, and what a meter that is running can be told to change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::format::{Format, Scale};
use crate::terminal::line::{Reading, Unit, line};

/// What a meter shows.
#[derive(Debug, Clone)]
pub struct Options {
    /// The text before the line.
    pub name: Option<String>,
    /// What is counted.
    pub unit: Unit,
    /// The expected count, if it is known.
    pub total: Option<u64>,
    /// The time between two updates of the line.
    pub interval: Duration,
    /// How it is shown.
    pub look: Look,
    /// The columns of the terminal, if they are not to be asked for.
    pub width: Option<usize>,
    /// The rows of the terminal, if they are not to be asked for.
    pub height: Option<usize>,
    /// Show nothing, and measure no time, before the first byte.
    pub waits: bool,
    /// Show nothing before this time.
    pub delay: Duration,
}

/// How readings are shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Look {
    /// Our line, and at the end which side was slow.
    Ours,
    /// A line of this format.
    Format(String, Scale),
    /// A line of this format, after the name if there is one.
    Parts(String, Scale),
    /// Numbers on a line for a script.
    Number(Numbers),
}

/// The numbers on a line for a script: the time, the count, and the rate; the percentage if neither of the last two is
/// asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    pub timer: bool,
    pub count: bool,
    pub rate: bool,
    /// A format whose sequences become numbers, instead of those.
    pub format: Option<String>,
}

/// What a running meter is told to change; `None` leaves it as it is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Changes {
    pub name: Option<String>,
    pub total: Option<u64>,
    pub interval: Option<Duration>,
    pub look: Option<Look>,
    pub width: Option<usize>,
    pub height: Option<usize>,
    /// Bytes per second; 0 is no limit.
    pub rate_limit: Option<u64>,
}

impl Options {
    pub fn change(&mut self, changes: Changes) {
        self.name = changes.name.or(self.name.take());
        self.total = changes.total.or(self.total);
        self.interval = changes.interval.unwrap_or(self.interval);
        self.width = changes.width.or(self.width);
        self.height = changes.height.or(self.height);
        if let Some(look) = changes.look {
            self.look = look;
        }
    }

    /// Returns the line about a reading, in the columns that a terminal has.
    pub fn line(&self, reading: &Reading, columns: usize) -> String {
        let columns = self.width.unwrap_or(columns);
        match &self.look {
            Look::Ours => line(reading, columns),
            Look::Format(format, scale) => formatted(format, reading, *scale, columns),
            Look::Parts(parts, scale) => {
                let before = if reading.name.is_some() { "%N " } else { "" };
                formatted(&format!("{before}{parts}"), reading, *scale, columns)
            }
            Look::Number(numbers) => numbers.line(reading),
        }
    }

    /// Returns how many of the last bytes are shown, if any.
    pub fn looks_at(&self) -> Option<usize> {
        match &self.look {
            Look::Format(format, _) | Look::Parts(format, _) => {
                Format::new(format).ok()?.looks_at()
            }
            _ => None,
        }
    }
}

impl Numbers {
    fn line(&self, reading: &Reading) -> String {
        if let Some(format) = &self.format {
            let format = Format::new(format);
            return format.map_or_else(|_| String::new(), |format| format.numbers(reading));
        }
        let time = || format!("{:.4}", reading.elapsed.as_secs_f64());
        let rate = || format!("{:.0}", reading.rate());
        let percent = !self.count && !self.rate;
        let numbers = [
            self.timer.then(time),
            percent.then(|| reading.number().to_string()),
            self.count.then(|| reading.passed.to_string()),
            self.rate.then(rate),
        ];
        let numbers: Vec<String> = numbers.into_iter().flatten().collect();
        numbers.join(" ")
    }
}

fn formatted(format: &str, reading: &Reading, scale: Scale, columns: usize) -> String {
    match Format::new(format) {
        Ok(format) => format.line(reading, scale, columns),
        Err(_) => String::new(),
    }
}

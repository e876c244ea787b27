//! What a meter shows, and what a meter that is running can be told to change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::extra::Extra;
use super::look::Look;
use crate::terminal::line::{Reading, Unit};

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
    /// The time over which the average is taken, if that is not the whole time.
    pub window: Option<Duration>,
    /// Show at the end how the rate differed.
    pub stats: bool,
    /// Where the line is shown besides.
    pub extra: Option<Extra>,
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
        self.look.line(reading, self.width.unwrap_or(columns))
    }
}

//! What is shown, and how.

use std::time::Duration;

use super::line::Unit;

/// What is shown, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// What stands in front of the line.
    pub name: Option<String>,
    /// What is counted.
    pub unit: Unit,
    /// How many there will be, where that is known.
    pub total: Option<u64>,
    /// The time between two drawings.
    pub interval: Duration,
}

//! What a meter shows.

use std::time::Duration;

use super::line::Unit;

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
}

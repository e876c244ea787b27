//! `fullbore top`: shows what a [`Monitor`](fullbore_observe::Monitor) finds, as a table, on a live screen,
//! and as metrics.

mod cells;
mod columns;
#[cfg(feature = "metrics")]
pub mod metrics;
mod order;
pub mod screen;
pub mod table;

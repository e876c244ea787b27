//! `fullbore top`: shows what a [`Monitor`](fullbore_observe::Monitor) sees, as a table, on the
//! screen, and as metrics.

mod cells;
pub mod metrics;
mod order;
pub mod screen;
pub mod table;

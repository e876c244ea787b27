//! x
pub mod line;

//! What is drawn on a terminal, or written for people, by more than one verb.

pub mod footer;
pub mod lines;
pub mod live;
pub mod report;

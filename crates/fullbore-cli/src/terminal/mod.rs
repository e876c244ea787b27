//! Output that more than one subcommand draws on a terminal or prints for people.

pub mod footer;
pub mod group;
pub mod lines;
pub mod live;
pub mod report;

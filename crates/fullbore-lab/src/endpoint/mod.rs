//! Implements the two ends of an experiment: `fullbore write` and `fullbore read`.

mod by_reference;
mod check;
mod lines;
mod options;
mod pair;
pub mod prepare;
mod progress;
pub mod reader;
pub mod writer;

pub use by_reference::{check_way, open as open_producer};
pub use options::{Options, WaitName, pipe_size};
pub use pair::{ENDLESS, Pair, pair};
pub use progress::{Role, print};

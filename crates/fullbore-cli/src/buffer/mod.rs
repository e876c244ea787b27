//! Shows a buffer while it runs, and says at its end whether a larger one would have helped.
//!
//! | file | holds |
//! |---|---|
//! | `line.rs` | the line, fitted to the terminal |
//! | `history.rs` | how full it was over time |
//! | `memory.rs` | how much memory it may use |
//! | `outputs.rs` | the options that name outputs |
//! | `refused.rs` | options of mbuffer that this verb does not have |
//! | `summary.rs` | what is said at the end, in words and as JSON |
//! | `show.rs` | what draws the line while bytes are moved |

pub mod history;
mod line;
pub mod memory;
pub mod outputs;
pub mod refused;
pub mod show;
pub mod summary;

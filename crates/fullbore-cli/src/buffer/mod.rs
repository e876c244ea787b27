//! Shows a buffer while it runs, and says at its end whether a larger one would have helped.
//!
//! | file | holds |
//! |---|---|
//! | `line.rs` | the line, fitted to the terminal |
//! | `history.rs` | how full it was over time |
//! | `memory.rs` | how much memory it may use |
//! | `outputs.rs` | the options that name outputs and connections |
//! | `opening.rs` | opens files and connections |
//! | `network.rs` | TCP connections |
//! | `file.rs` | the file that holds the bytes instead of memory |
//! | `hashing.rs` | the digest of what passes |
//! | `messages.rs` | where messages go |
//! | `manner.rs` | the words: its own, or those of mbuffer |
//! | `sizes.rs` | the memory, and how much of it is moved at a time |
//! | `refused.rs` | options of mbuffer that this verb does not have |
//! | `values.rs` | the values of options |
//! | `summary.rs` | what is said at the end, in words and as JSON |
//! | `show.rs` | what draws the line while bytes are moved |

pub mod file;
pub mod hashing;
pub mod history;
mod line;
pub mod manner;
pub mod memory;
pub mod messages;
pub mod network;
pub mod opening;
pub mod outputs;
pub mod refused;
pub mod show;
pub mod sizes;
pub mod summary;
pub mod values;

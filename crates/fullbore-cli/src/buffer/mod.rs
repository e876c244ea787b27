//! Shows a buffer while it runs, and says at its end whether a larger one would have helped.
//!
//! | file | holds |
//! |---|---|
//! | `status_line.rs` | the line, fitted to the terminal |
//! | `history.rs` | how full it was over time |
//! | `memory.rs` | how much memory it may use |
//! | `outputs.rs` | the options that name outputs and connections |
//! | `options.rs` | the options |
//! | `opening.rs` | opens files and connections |
//! | `roomy.rs` | enlarges the pipe on stdin |
//! | `running.rs` | moves the bytes, and closes the outputs |
//! | `network.rs` | TCP connections |
//! | `sealed.rs` | … that carry a sealed stream and the answer to it |
//! | `answer.rs` | … and the bytes of that answer |
//! | `file.rs` | the file that holds the bytes instead of memory |
//! | `hashing.rs` | the digest of what passes |
//! | `messages.rs` | where messages go |
//! | `as_mbuffer.rs` | the words of mbuffer |
//! | `thresholds.rs` | when its sides go on after they had to wait |
//! | `summary.rs` | what is said at the end, in words and as JSON |
//! | `show.rs` | what draws the line while bytes are moved |

mod answer;
pub mod as_mbuffer;
pub mod file;
pub mod hashing;
mod history;
mod memory;
pub mod messages;
pub mod network;
pub mod opening;
pub mod options;
mod outputs;
mod roomy;
pub mod running;
mod sealed;
pub mod show;
mod status_line;
pub mod summary;
mod thresholds;

//! Starting, guarding, interrupting and ending processes, for all verbs.
//!
//! | file | holds |
//! |---|---|
//! | `fork.rs` | a second process of this program |
//! | `guard.rs` | a process that undoes something if the one that started it is killed |
//! | `interrupt.rs` | Ctrl-C while a line is on the screen |
//! | `launch.rs` | the user's command line, to its end |
//! | `ending.rs` | the end of all descendants |
//! | `title.rs` | the name and the command line of this process |
//! | `waiting.rs` | waiting for descriptors |

pub mod ending;
pub mod fork;
pub mod guard;
pub mod interrupt;
#[cfg(feature = "lab")]
pub mod launch;
pub mod title;
pub mod waiting;

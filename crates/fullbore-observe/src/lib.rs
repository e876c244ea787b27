//! Observes pipelines from outside: which processes have which pipes open, how full the pipes are, which
//! process waits for which, and so which stage of a pipeline is the slow one.
//!
//! Which stages are slow in the pipelines of a process and its descendants?
//!
//! ```no_run
#![doc = include_str!("../examples/slow_stage.rs")]
//! ```
//!
//! Nothing here starts or ends a process, and no byte passes through it. Everything is read from /proc, and
//! by opening a pipe for a moment to read how full it is ([`link`]). Nothing is printed, and only
//! [`tune`] changes anything: it makes the pipes of a pipeline larger.
//!
//! | to | use |
//! |---|---|
//! | observe all pipelines of a machine, or those of some processes | [`Monitor`], which makes an [`overview`] |
//! | observe one pipeline that you have started yourself | [`Watch`], which makes [`Findings`] |
//! | find all pipes and the processes that have them open, once | [`census`] |
//! | find out which of these pipes form a pipeline | [`chains`] |
//! | enlarge the pipes of a running pipeline | [`tune`] |

mod attribution;
mod blame;
mod capacity;
pub mod census;
pub mod chains;
mod cpus;
mod derived;
mod descendants;
mod error;
mod findings;
mod history;
mod judge;
mod kept;
pub mod link;
mod moment;
mod monitor;
pub mod numbers;
pub mod overview;
mod proc_files;
mod process;
mod rings;
pub mod scope;
mod stage;
mod sums;
pub mod tune;
pub mod verdict;
mod waiting;
mod walk;
mod watch;
mod watched;
mod words;

pub use capacity::affordable;
pub use descendants::descendants;
pub use error::Error;
pub use findings::Findings;
pub use moment::Cause;
pub use monitor::Monitor;
pub use process::process_id;
pub use watch::Watch;

#[doc(no_inline)]
pub use rustix::io::Errno;

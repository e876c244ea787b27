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
//! by opening a pipe for a moment to read how full it is ([`census::link`]). Nothing is printed, and only
//! [`tune`] changes anything: it makes the pipes of a pipeline larger.
//!
//! | to | use |
//! |---|---|
//! | observe all pipelines of a machine, or those of some processes | [`Monitor`], which makes an [`overview`] |
//! | observe one pipeline that you have started yourself | [`Watch`], which makes [`Findings`] |
//! | find all pipes and the processes that have them open, once | [`census`] |
//! | find out which of these pipes form a pipeline | [`census::chains`] |
//! | enlarge the pipes of a running pipeline | [`tune`] |
//!
//! The folders follow the way of a verdict, and each uses only those above it:
//!
//! | folder | holds |
//! |---|---|
//! | `census` | the pipes and the processes that have them open, at one time |
//! | `sampling` | what the processes of a pipeline do at a moment, and the sums of many moments |
//! | `verdict` | the sums as numbers, and which stage is slow |
//! | `watch` | when a pipeline is sampled, from its start to its end |
//! | `monitor` | the pipelines of other programs, scan by scan |
//! | `tune` | enlarging pipes; it uses only `census` and `sampling` |

mod capacity;
pub mod census;
mod error;
mod monitor;
mod rate;
mod sampling;
pub mod tune;
pub mod verdict;
mod watch;

pub use capacity::{USUAL, affordable};
pub use census::descendants::{by_ancestry, children, descendants, proc_is_ours};
pub use error::Error;
pub use monitor::{Monitor, allow_all_files, overview};
pub use rate::Rate;
pub use sampling::facts::StartedStage;
pub use sampling::moment::Cause;
pub use verdict::Findings;
pub use watch::Watch;
pub use watch::progress::Progress;

#[doc(no_inline)]
pub use rustix::io::Errno;

//! Finds the CPUs on which the stages of a running pipeline cost least.
//!
//! The scheduler spreads the stages of a pipeline over idle CPUs. Each wake-up then reaches another CPU, and
//! the bytes change caches. On some machines this costs more than the stages gain by running at the same
//! time, so that a pipeline is faster on one CPU than on two. Nobody can tell beforehand, so it is tried: for
//! some milliseconds the stages may use only some CPUs, and the rate and the CPU time show whether that pays.
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` | the CPUs that may be used, and which of them share a cache |
//! | `placement.rs` | on which CPUs each stage may run |
//! | `window.rs` | what was observed in a short time, and the averages of several such observations |
//! | `candidates.rs` | which placements could pay |
//! | `trial.rs` | the comparison of two placements by turns |
//! | `placer.rs` | the decision what to try next, which calls no system function |
//! | `report.rs` | what was tried and gained, as data and in words |
//! | `threads.rs` | giving CPUs to the threads of the stages, and giving them back |
//! | `placing.rs` | a pipeline that is observed and placed while it runs |
//! | `running.rs` | finding a pipeline that another program has started |
//! | `estimate.rs` | an estimate without any trial |
//! | `record.rs` | which of its processes were placed, so that this can be reverted |

pub mod candidates;
pub mod estimate;
pub mod layout;
pub mod placement;
pub mod placer;
pub mod placing;
pub mod record;
pub mod report;
pub mod running;
pub mod threads;
mod trial;
pub mod window;

pub use super::process::process_id;
pub use trial::{Goal, Outcome};

#[cfg(test)]
mod simulation;

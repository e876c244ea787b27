//! Facts about a Linux machine that measurements depend on, and how they are shown as text.
//!
//! ```
//! use fullbore_host::machine::{CpuPair, Machine, Topology};
//!
//! // The best two CPUs for a writer and a reader, of those that this process may use.
//! let cpus = CpuPair::choose(&Topology::read());
//! for (label, value) in Machine::read(cpus).lines() {
//!     println!("{label:12} {value}");
//! }
//! ```
//!
//! | module | for |
//! |---|---|
//! | [`machine`] | kernel, CPUs, caches, memory, limits of pipes; which two CPUs to use |
//! | [`distance`] | how long a cache line takes from one CPU to another |
//! | [`proc`] | whether /proc is mounted, and shows this PID namespace |
//! | [`size`], [`seconds`], [`number`], [`process_name`] | sizes, times, numbers and processes, as options name them |
//! | [`named`] | names of open descriptors, such as `/dev/fd/3` |
//! | [`text`] | names of others, long texts and errors as they are shown |
//! | [`refusal`] | the two errors that are not failures: a wrong command line, and a machine that does not allow it |
//!
//! The crate never prints and never exits. A fact that the machine does not tell is `None`, not an
//! error.

pub mod distance;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod machine;
pub mod named;
pub mod number;
pub mod proc;
pub mod process_name;
pub mod refusal;
pub mod seconds;
pub mod size;
pub mod text;

//! The extension module `fullbore._fullbore`, which the Python package `fullbore` is built on.
//!
//! | file | contains |
//! |---|---|
//! | `producer.rs`, `consumer.rs` | the file objects |
//! | `transfers.rs` | copy and tee, between descriptors |
//! | `pipes.rs` | pipes: their capacity and queued bytes |
//! | `children.rs` | processes that must not keep running |
//! | `observe.rs` | the thread that watches a pipeline, and the overview of all pipelines |
//! | `file.rs`, `sizes.rs` | arguments: files and sizes |
//! | `errors.rs` | errors of the library as exceptions, and waits that signals interrupt |
//! | `turn.rs` | one thread at a time |
//! | `buffer.rs` | memory shared with Python |
//!
//! Blocking calls release the interpreter's lock. When a signal interrupts a wait, Python's signal handlers run, and
//! the wait continues unless one of them raises an exception.

#![deny(unsafe_code)]

mod buffer;
mod children;
mod consumer;
mod errors;
mod file;
mod observe;
mod pipes;
mod producer;
mod ring;
mod sizes;
mod transfers;
mod turn;

/// The fast part of the package fullbore.
// Each object admits one thread at a time, so it should be correct without the interpreter's lock, too. That is
// untested, so a free-threaded interpreter enables the lock when it imports this module.
#[pyo3::pymodule(gil_used = true)]
mod _fullbore {
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::children::Children;
    #[pymodule_export]
    use super::consumer::PyConsumer;
    #[pymodule_export]
    use super::observe::{Watcher, affordable, overview};
    #[pymodule_export]
    use super::pipes::{capacity, descriptor_of, grow, pipe, queued};
    #[pymodule_export]
    use super::producer::PyProducer;
    #[pymodule_export]
    use super::sizes::parse_size;
    #[pymodule_export]
    use super::transfers::{Canceller, split, transfer};
    #[pymodule_export]
    use super::turn::_after_fork;
}

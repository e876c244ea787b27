//! The extension module `fullbore._fullbore`, which the Python package `fullbore` is built on.
//!
//! | file | contains |
//! |---|---|
//! | `producer.rs`, `consumer.rs` | the file objects |
//! | `moving.rs` | copy and tee, between descriptors |
//! | `pipes.rs` | what a pipe is |
//! | `children.rs` | processes that are not left running |
//! | `observe.rs` | the thread that watches a pipeline, and the overview of all |
//! | `file.rs`, `sizes.rs` | arguments: files and sizes |
//! | `errors.rs` | errors of the library as exceptions, and waits that signals interrupt |
//! | `turn.rs` | one thread at a time |
//! | `buffer.rs` | memory that is shared with Python |
//!
//! What waits for a pipe does so without the interpreter's lock. When a signal interrupts a wait, the handlers
//! of Python run, and the wait goes on unless one of them raises an exception.

#![deny(unsafe_code)]

mod buffer;
mod children;
mod consumer;
mod errors;
mod file;
mod moving;
mod observe;
mod pipes;
mod producer;
mod sizes;
mod turn;

/// The fast part of the package fullbore.
// Each object lets one thread in at a time, and so would be right without the interpreter's lock too. It was
// not tried there, so an interpreter without the lock takes it again when it imports this.
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
    use super::moving::{Canceller, PyReport, PySinkReport, PyTeeReport, split, transfer};
    #[pymodule_export]
    use super::observe::{Watcher, affordable, overview};
    #[pymodule_export]
    use super::pipes::{capacity, descriptor_of, grow, pipe, queued};
    #[pymodule_export]
    use super::producer::PyProducer;
    #[pymodule_export]
    use super::sizes::parse_size;
    #[pymodule_export]
    use super::turn::_after_fork;
}

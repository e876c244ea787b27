//! Stops the threads of a buffer, and signals when all of them have finished.

use std::sync::atomic::{AtomicUsize, Ordering};

use fullbore_linux::wait::Cancel;

/// Stops the threads of a buffer, and signals when all of them have finished.
#[derive(Debug)]
pub(super) struct Ends {
    /// Cancels their waits.
    pub(super) stop: Cancel,
    /// Cancelled once no writer is left.
    pub(super) over: Cancel,
    /// Cancelled once the bytes of [`BufferOptions::watch_at`](super::BufferOptions) have been read.
    pub(super) mark: Option<Cancel>,
    /// The number of running writers, plus one until all have been started.
    pub(super) writers: AtomicUsize,
}

/// A guard: a running writer, or one that is about to be started.
pub(super) struct Writer<'a>(&'a Ends);

impl<'a> Writer<'a> {
    pub(super) fn new(ends: &'a Ends) -> Self {
        ends.writers.fetch_add(1, Ordering::AcqRel);
        Self(ends)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if self.0.writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.over.cancel();
        }
    }
}

/// Calls a function when it is dropped.
pub(super) struct AtLast<Call: Fn()>(pub(super) Call);

impl<Call: Fn()> Drop for AtLast<Call> {
    fn drop(&mut self) {
        (self.0)();
    }
}

//! How the threads of a buffer are ended, and how it is known that they have ended.

use std::sync::atomic::{AtomicUsize, Ordering};

use fullbore_linux::wait::Cancel;

/// How the threads of a buffer are ended, and how it is known that they have ended.
#[derive(Debug)]
pub(super) struct Ends {
    /// Ends their waits.
    pub(super) stop: Cancel,
    /// Is cancelled once no writer is left.
    pub(super) over: Cancel,
    /// The number of writers that have not ended, and one more until all have been started.
    pub(super) writers: AtomicUsize,
}

/// A writer that has not ended, or one that is still to be started.
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

/// Makes a call when it is dropped.
pub(super) struct AtLast<Call: Fn()>(pub(super) Call);

impl<Call: Fn()> Drop for AtLast<Call> {
    fn drop(&mut self) {
        (self.0)();
    }
}

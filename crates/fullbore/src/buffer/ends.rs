//! Stops the threads of a buffer, and wakes the one that watches them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use fullbore_linux::{Cancel, Result, error, not_standard};

/// Stops the threads of a buffer, and wakes the one that watches them.
#[derive(Debug)]
pub(super) struct Ends {
    /// Cancels their waits.
    pub(super) stop: Cancel,
    /// The number of running writers, plus one until all have been started.
    writers: AtomicUsize,
    /// An eventfd that is readable after a writer has ended, or so many bytes were read.
    bell: OwnedFd,
    /// Whether it also becomes readable with the next bytes that are moved.
    waits_for_bytes: AtomicBool,
}

impl Ends {
    /// # Errors
    /// As eventfd(2).
    pub(super) fn new() -> Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self {
            stop: Cancel::new()?,
            writers: AtomicUsize::new(0),
            bell: bell
                .and_then(not_standard)
                .map_err(error::system("eventfd2"))?,
            waits_for_bytes: AtomicBool::new(false),
        })
    }

    /// Returns whether no writer is left.
    pub(super) fn is_over(&self) -> bool {
        self.writers.load(Ordering::Acquire) == 0
    }

    /// Notes that bytes were moved.
    pub(super) fn moved(&self) {
        let is_waited_for = || self.waits_for_bytes.swap(false, Ordering::AcqRel);
        if self.waits_for_bytes.load(Ordering::Relaxed) && is_waited_for() {
            self.ring();
        }
    }

    /// Wakes the watching thread with the next bytes, too.
    pub(super) fn wait_for_bytes(&self) {
        self.waits_for_bytes.store(true, Ordering::Release);
    }

    /// Returns whether it has rung.
    pub(super) fn has_rung(&self) -> bool {
        rustix::io::read(&self.bell, &mut [0; 8]).is_ok()
    }

    /// Returns a guard: a running writer, or one that is about to be started.
    pub(super) fn writer(&self) -> AtLast<impl Fn() + '_> {
        self.writers.fetch_add(1, Ordering::AcqRel);
        AtLast(|| {
            self.writers.fetch_sub(1, Ordering::AcqRel);
            self.ring();
        })
    }

    fn ring(&self) {
        // Fails only if the counter is full, and then it is readable, too.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// The fd becomes readable when something has happened.
impl AsFd for Ends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Calls a function when it is dropped.
pub(super) struct AtLast<Call: Fn()>(pub(super) Call);

impl<Call: Fn()> Drop for AtLast<Call> {
    fn drop(&mut self) {
        (self.0)();
    }
}

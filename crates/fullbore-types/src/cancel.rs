//! Ending a wait from another thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Result, system};
use crate::own::not_standard;

/// Ends, from another thread, the waits of all objects that have a clone of it.
///
/// ```
/// use std::time::Duration;
/// let pipe = fullbore::Pipe::new()?;
/// let cancel = fullbore::Cancel::new()?;
/// let from_outside = cancel.clone();
/// std::thread::spawn(move || {
///     std::thread::sleep(Duration::from_millis(5));
///     from_outside.cancel();
/// });
/// // No process writes into this pipe.
/// let mut out = std::fs::File::options().write(true).open("/dev/null")?;
/// let report = fullbore::TransferOptions::new().cancel(&cancel).open(&pipe.reader, &out).run()?;
/// assert_eq!(report.ended, fullbore::EndReason::Cancelled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) shares it: a cancel in either process ends the waits of both, once they sleep.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Cancelled>);

#[derive(Debug)]
struct Cancelled {
    /// Checked by a running thread.
    cancelled: AtomicBool,
    /// An eventfd that becomes readable with a cancel, and so wakes a sleeping thread.
    event: OwnedFd,
}

impl Cancel {
    /// Creates a `Cancel` that is not cancelled (eventfd(2)).
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = eventfd(0, flags)
            .and_then(not_standard)
            .map_err(system("eventfd2"))?;
        Ok(Self(Arc::new(Cancelled {
            cancelled: AtomicBool::new(false),
            event,
        })))
    }

    /// Permanently cancels all objects that have a clone of this. May be called from a signal handler.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        // Fails only if the counter is full, and then the eventfd is readable, too.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// Returns whether [`cancel`](Self::cancel) was called.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }
}

/// The fd becomes readable with a cancel, for programs that call poll(2) or epoll(7) themselves. Do not read from it.
impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

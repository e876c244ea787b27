//! A read or a write of a file, on tokio's pool of blocking threads.
//!
//! The bytes stay in memory that the transfer shares with the thread, so that they are not lost if the future is
//! dropped, or the runtime shuts down before the thread has begun. A job that is dropped makes no call afterwards, so
//! that the position and the contents of a file do not change behind the back of its owner.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use fullbore_linux::Owner;
use rustix::io::Errno;
use tokio::task::JoinHandle;

use crate::carrier::{Carrier, Done};

pub(crate) struct Job {
    owner: Owner,
    shared: Arc<Mutex<Shared>>,
    thread: JoinHandle<()>,
}

struct Shared {
    carrier: Carrier,
    done: Option<Done>,
    /// Whether the transfer has taken the carrier back before the thread began.
    is_cancelled: bool,
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// Starts a job with the bytes in flight.
    pub(crate) fn start(
        carrier: Carrier,
        work: impl FnOnce(&mut Carrier) -> Done + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            carrier,
            done: None,
            is_cancelled: false,
        }));
        let theirs = Arc::clone(&shared);
        let thread = tokio::task::spawn_blocking(move || {
            let mut shared = locked(&theirs);
            if !shared.is_cancelled {
                let done = work(&mut shared.carrier);
                shared.done = Some(done);
            }
        });
        Self {
            owner: Owner::this(),
            shared,
            thread,
        }
    }

    /// Waits until it is done, and returns the bytes in flight.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Carrier, Done)> {
        // An error means that the runtime is shutting down, and that the thread did not begin.
        let _ = ready!(Pin::new(&mut self.thread).poll(cx));
        let (carrier, done) = self.take();
        Poll::Ready((
            carrier,
            done.unwrap_or(Err(("spawn_blocking", Errno::CANCELED))),
        ))
    }

    /// Ends the job, and returns the bytes in flight, and the result of the call if it had begun. It waits for a call
    /// that is being made.
    pub(crate) fn take(&self) -> (Carrier, Option<Done>) {
        let mut shared = locked(&self.shared);
        shared.is_cancelled = true;
        (mem::take(&mut shared.carrier), shared.done.take())
    }
}

impl Drop for Job {
    /// Ends the job if it has not begun, and waits for a call that is being made. In a forked child there is no thread.
    fn drop(&mut self) {
        if self.owner.is_here() {
            self.take();
        }
    }
}

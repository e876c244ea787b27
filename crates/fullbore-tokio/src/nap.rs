//! A pause for a descriptor that is reported as ready, and is not.
//!
//! A socket with a message in its error queue (MSG_ERRQUEUE, such as a timestamp) is in an error condition to epoll(7)
//! until the message is read, and tokio never clears that. Without a pause, a task that waits for room in such a socket
//! would never sleep. The pause runs on a blocking thread, because the runtime may have no timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::JoinHandle;

/// Decides when to pause, and pauses.
#[derive(Default)]
pub(crate) struct Nap {
    /// How often the descriptor was not ready, without a wait in between.
    vain: u32,
    thread: Option<JoinHandle<()>>,
}

/// The number of failed tries after which to pause. One or two may be events that arrived during a call.
const VAIN: u32 = 3;

/// The longest pause, in milliseconds.
const LONGEST_NAP: u64 = 8;

impl Nap {
    pub(crate) fn was_vain(&mut self) {
        self.vain += 1;
        if self.vain > VAIN {
            let exponent = (self.vain - VAIN - 1).min(LONGEST_NAP.ilog2());
            let pause = Duration::from_millis(1 << exponent);
            self.thread = Some(tokio::task::spawn_blocking(move || {
                std::thread::sleep(pause)
            }));
        }
    }

    pub(crate) fn was_not_vain(&mut self) {
        self.vain = 0;
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(thread) = &mut self.thread {
            // Fails only if the runtime is shutting down.
            let _ = ready!(Pin::new(thread).poll(cx));
            self.thread = None;
        }
        Poll::Ready(())
    }
}

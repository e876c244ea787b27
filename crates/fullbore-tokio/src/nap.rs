//! A pause for a descriptor that is said to be ready, and is not.
//!
//! A socket with a message in its error queue (MSG_ERRQUEUE, as timestamps are) is in an error condition to epoll(7) for
//! as long as nobody takes it, and tokio never clears that. Without a pause, a task that waits for room in such a socket
//! would never sleep. The pause is made on a thread, because the runtime may have no timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::JoinHandle;

/// When to pause, and the pause.
#[derive(Default)]
pub(crate) struct Nap {
    /// How often the descriptor was not ready, without a wait in between.
    vain: u32,
    thread: Option<JoinHandle<()>>,
}

/// The number of vain tries after which a pause is made. One or two of them may be events that came during a call.
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
            // It fails only if the runtime is shutting down.
            let _ = ready!(Pin::new(thread).poll(cx));
            self.thread = None;
        }
        Poll::Ready(())
    }
}

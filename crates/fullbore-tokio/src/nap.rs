//! A pause for a descriptor that is reported as ready, and is not.
//!
//! A socket with a message in its error queue (MSG_ERRQUEUE, such as a timestamp) is in an error condition to epoll(7)
//! until the message is read, and tokio never clears that. Without a pause, a task that waits for room in such a socket
//! would never sleep. The pause runs on a blocking thread, because the runtime may have no timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;

/// Decides when to pause, and pauses.
#[derive(Default)]
pub(crate) struct Nap {
    when: fullbore_linux::wait::Nap,
    thread: Option<JoinHandle<()>>,
}

impl Nap {
    pub(crate) fn was_vain(&mut self) {
        self.thread = self
            .when
            .was_vain()
            .map(|pause| tokio::task::spawn_blocking(move || std::thread::sleep(pause)));
    }

    pub(crate) fn was_not_vain(&mut self) {
        self.when.was_not_vain();
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

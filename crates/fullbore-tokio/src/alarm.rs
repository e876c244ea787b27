//! The timer of a transfer: its deadline and its idle timeout. Only transfers with one of these use tokio's timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::options::Options;
use crate::report::Ended;

/// The deadline and the idle timeout of a transfer.
pub(crate) struct Timer {
    deadline: Option<Instant>,
    idle_timeout: Option<Duration>,
    /// Wakes the task, at a time that may change.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            deadline: options.deadline,
            idle_timeout: options.idle_timeout,
            sleep: None,
        }
    }

    /// Waits for the earlier one, if the last byte arrived at this time.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        last_progress: Option<Instant>,
    ) -> Poll<Ended> {
        let idle_at = last_progress
            .zip(self.idle_timeout)
            .and_then(|(last, timeout)| last.checked_add(timeout));
        let (at, ended) = match (self.deadline, idle_at) {
            (Some(deadline), Some(idle_at)) if idle_at < deadline => (idle_at, Ended::Idle),
            (Some(deadline), _) => (deadline, Ended::TimedOut),
            (None, Some(idle_at)) => (idle_at, Ended::Idle),
            (None, None) => return Poll::Pending,
        };
        let at = at.into();
        let sleep = (self.sleep).get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(ended)
    }
}

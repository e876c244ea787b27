//! Timers of a transfer: the deadline, the idle timeout, and the delay of a rate limit. Only transfers with one of
//! these use tokio's timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use fullbore_linux::{Owner, wait};
use tokio::time::Sleep;

use crate::options::Options;
use crate::report::Ended;

/// Wakes the task at a time that may change.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>, Owner);

impl Drop for Alarm {
    /// In a forked child, a thread of the parent may hold the lock of the timers for ever.
    fn drop(&mut self) {
        if !self.1.is_here() {
            std::mem::forget(self.0.take());
        }
    }
}

impl Alarm {
    /// Returns whether this time has come; otherwise the task is woken then.
    fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        let at = at.into();
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(cx)
    }
}

/// Limits how many bytes are taken per second.
pub(crate) struct Pace {
    rate: wait::Pace,
    /// The time from which on more bytes may be taken.
    free_at: Instant,
    alarm: Alarm,
}

impl Pace {
    pub(crate) fn new(rate: u64) -> Self {
        let now = Instant::now();
        Self {
            rate: wait::Pace::new(rate, now),
            free_at: now,
            alarm: Alarm::default(),
        }
    }

    /// Waits until bytes may be taken, and returns how many.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.free_at > Instant::now() {
            ready!(self.alarm.poll(cx, self.free_at));
        }
        Poll::Ready(self.rate.chunk())
    }

    /// Records that this many bytes were taken.
    pub(crate) fn took(&mut self, bytes: usize) {
        let now = Instant::now();
        self.free_at = now + self.rate.wait_after(bytes as u64, now);
    }
}

/// The deadline and the idle timeout of a transfer.
pub(crate) struct Timer {
    deadline: Option<Instant>,
    idle_timeout: Option<Duration>,
    alarm: Alarm,
}

impl Timer {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            deadline: options.deadline,
            idle_timeout: options.idle_timeout,
            alarm: Alarm::default(),
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
        let ends = [(self.deadline, Ended::TimedOut), (idle_at, Ended::Idle)];
        let ends = ends
            .into_iter()
            .filter_map(|(at, ended)| Some((at?, ended)));
        let Some((at, ended)) = ends.min_by_key(|&(at, _)| at) else {
            return Poll::Pending;
        };
        ready!(self.alarm.poll(cx, at));
        Poll::Ready(ended)
    }
}

//! Moments at which a task is woken: a deadline, an idle timeout, and the next byte that a rate allows. tokio's timer is
//! used only by a transfer that has one of them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::options::Options;
use crate::report::Ended;

/// Wakes the task at a moment that may change.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Returns whether this moment has come; otherwise the task is woken when it does.
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

/// How much of what a rate allowed before can be used later, and the longest time for which one call takes bytes.
const BURST: Duration = Duration::from_millis(50);

/// Limits how many bytes are taken in a second.
pub(crate) struct Pace {
    rate: u64,
    /// The time from which on more may be taken.
    free_at: Instant,
    alarm: Alarm,
}

impl Pace {
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            rate,
            free_at: Instant::now(),
            alarm: Alarm::default(),
        }
    }

    /// Waits until bytes may be taken, and returns how many.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let now = Instant::now();
        if self.free_at > now {
            ready!(self.alarm.poll(cx, self.free_at));
        }
        let most = self.rate as f64 * BURST.as_secs_f64();
        Poll::Ready((most as usize).max(1))
    }

    /// Notes that so many bytes were taken, which are no more than `poll` returned.
    pub(crate) fn took(&mut self, bytes: usize) {
        // At most a second: 50 ms, or one byte.
        let takes = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        let earliest = Instant::now().checked_sub(BURST).unwrap_or(self.free_at);
        self.free_at = self.free_at.max(earliest) + takes;
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

    /// Waits for whichever comes first, if the last byte arrived at this time.
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
        ready!(self.alarm.poll(cx, at));
        Poll::Ready(ended)
    }
}

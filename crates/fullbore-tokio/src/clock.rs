//! How long a direction has run, and how long it waited for each side.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fullbore::TransferSide;

/// The times of a direction.
#[derive(Default)]
pub(crate) struct Clock {
    started: Option<Instant>,
    elapsed: Duration,
    waiting: Option<(TransferSide, Instant)>,
    /// How long it waited for each side.
    waited: [Duration; 2],
    /// The time of the last byte that arrived, or of the start of this run.
    pub(crate) progress_at: Option<Instant>,
}

impl Clock {
    pub(crate) fn start(&mut self) {
        if self.started.is_none() {
            let now = Instant::now();
            self.started = Some(now);
            self.progress_at = Some(now);
        }
    }

    pub(crate) fn waits_for(&mut self, side: TransferSide) {
        match self.waiting {
            Some((waiting_for, _)) if waiting_for == side => {}
            _ => {
                self.ends_wait();
                self.waiting = Some((side, Instant::now()));
            }
        }
    }

    /// Ends a wait, because bytes were moved on this side.
    pub(crate) fn progresses(&mut self, side: TransferSide) {
        self.ends_wait();
        if side == TransferSide::Sink {
            self.progress_at = Some(Instant::now());
        }
    }

    fn ends_wait(&mut self) {
        if let Some((side, since)) = self.waiting.take() {
            self.waited[side as usize] += since.elapsed();
        }
    }

    pub(crate) fn stop(&mut self) {
        self.ends_wait();
        if let Some(started) = self.started.take() {
            self.elapsed += started.elapsed();
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed + self.started.map_or(Duration::ZERO, |at| at.elapsed())
    }

    pub(crate) fn waited(&self, side: TransferSide) -> Duration {
        let before = self.waited[side as usize];
        match self.waiting {
            Some((waiting_for, since)) if waiting_for == side => before + since.elapsed(),
            _ => before,
        }
    }
}

/// A run of a transfer, whose clocks stop when it ends or its future is dropped.
struct Run<'transfer, T> {
    transfer: &'transfer mut T,
    stop: fn(&mut T),
}

impl<T> Drop for Run<'_, T> {
    fn drop(&mut self) {
        (self.stop)(self.transfer);
    }
}

/// Polls a transfer until it is ready, and calls `stop` then, or when the future is dropped.
pub(crate) async fn run<T, R>(
    transfer: &mut T,
    poll: fn(&mut T, &mut Context<'_>) -> Poll<R>,
    stop: fn(&mut T),
) -> R {
    let run = Run { transfer, stop };
    poll_fn(|cx| poll(run.transfer, cx)).await
}

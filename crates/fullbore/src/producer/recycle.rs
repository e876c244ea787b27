//! *recycle*: pages are reused once the pipe no longer refers to them.
//!
//! The number of *queued* bytes (FIONREAD) shows what the pipe still refers to: sent bytes that are not queued any more
//! have been read. The capacity does not show it, because every process that has an end open can change it at any time.
//! Bytes that another process writes into the same pipe count as the producer's own, so it may wait longer than needed,
//! but never too short.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use fullbore_linux as linux;
use fullbore_linux::{Result, TransferSide, Waiter, uninterrupted};

/// Which stretches of the memory the pipe may still refer to.
#[derive(Debug, Default)]
pub(super) struct Recycle {
    len: usize,
    /// The end of the last stretch that was given.
    at: usize,
    /// Stretches that were given and may not have been read yet, oldest first.
    given: VecDeque<Given>,
}

#[derive(Debug)]
struct Given {
    memory: Range<usize>,
    /// The total number of bytes sent, including this stretch.
    sent: u64,
}

impl Recycle {
    /// Sets the number of bytes of memory, before the first window, and returns it.
    pub(super) fn set_len(&mut self, len: usize) -> usize {
        self.len = len;
        len
    }

    /// Returns the next window, of at least `at_least` bytes and at most `chunk`, once the pipe no
    /// longer refers to it. `sent` is the number of bytes sent so far.
    pub(super) fn window(
        &mut self,
        chunk: usize,
        at_least: usize,
        sent: u64,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<Range<usize>> {
        let mut start = self.at.next_multiple_of(linux::page_size());
        if start + at_least > self.len {
            start = 0;
        }
        let window = start..self.len.min(start + chunk);
        let overlapping =
            |given: &&Given| given.memory.start < window.end && window.start < given.memory.end;
        if let Some(last) = self.given.iter().rfind(overlapping) {
            let released = self.wait_until_released(last.sent, sent, pipe, waiter)?;
            while self.given.front().is_some_and(|g| g.sent <= released) {
                self.given.pop_front();
            }
        }
        Ok(window)
    }

    /// Records that the pipe now refers to `memory`, and that `sent` bytes have been sent in total.
    pub(super) fn gave(&mut self, memory: Range<usize>, sent: u64) {
        self.at = memory.end;
        self.given.push_back(Given { memory, sent });
    }

    /// Waits until at least the first `wanted` of the `sent` bytes have been read, and returns how
    /// many have been read.
    ///
    /// # Errors
    /// `EPIPE` if no reader is left; [`Error::Stopped`](fullbore_linux::Error::Stopped) if it must not wait, or the wait
    /// was stopped.
    pub(super) fn wait_until_released(
        &self,
        wanted: u64,
        sent: u64,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<u64> {
        let released = || {
            let released = || {
                uninterrupted(|| rustix::io::ioctl_fionread(pipe))
                    .map(|queued| sent.saturating_sub(queued))
            };
            match released()? {
                enough if enough >= wanted => Ok(enough),
                _ if !linux::is_closed(pipe)? => Err(Errno::AGAIN),
                // The reader may have read everything before it closed its end.
                _ => match released()? {
                    enough if enough >= wanted => Ok(enough),
                    _ => Err(Errno::PIPE),
                },
            }
        };
        // Bytes that have been read need no wait, even if it was cancelled.
        let mut answer = released();
        if answer == Err(Errno::AGAIN) {
            // No event is reported when a pipe drains below a given level, so this polls the number of queued bytes. It
            // is rare: if the memory is larger than the pipe, sending blocks first.
            let mut pause = Duration::from_micros(20);
            answer = waiter.until(released, |waiter| {
                waiter.poll(&[(pipe, PollFlags::empty())], Some(pause))?;
                pause = (pause * 2).min(Duration::from_millis(1));
                Ok(())
            });
        }
        answer.map_err(|errno| waiter.error(TransferSide::Sink, "vmsplice", errno, sent))
    }
}

//! *recycle*: pages are used again once the pipe has let go of them.
//!
//! How it is known that the pipe has let go: of all bytes sent, those that are not *queued* any
//! more (FIONREAD) have been read. The capacity of the pipe says nothing about that, because anybody
//! who holds an end can change it in mid-stream. Bytes that another process writes into the same
//! pipe are counted as if they were ours, which errs on the side of waiting.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;

use crate::linux;
use crate::wait::{Waiter, uninterrupted};

/// Which stretches of the memory the pipe may still refer to.
#[derive(Debug, Default)]
pub(super) struct Recycle {
    len: usize,
    /// Where the stretch that was given last ends.
    at: usize,
    /// What was given and is not known to be read, oldest first.
    given: VecDeque<Given>,
}

#[derive(Debug)]
struct Given {
    memory: Range<usize>,
    /// The number of bytes sent when this had been sent.
    sent: u64,
}

impl Recycle {
    /// Sets how many bytes of memory there are, before the first window, and says so.
    pub(super) fn set_len(&mut self, len: usize) -> usize {
        self.len = len;
        len
    }

    /// The next window, of at least `at_least` bytes and at most `chunk`, once the pipe has let
    /// go of it. `sent` is the number of bytes sent so far.
    pub(super) fn window(
        &mut self,
        chunk: usize,
        at_least: usize,
        sent: u64,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<Range<usize>, Errno> {
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

    /// Notes that the pipe now refers to `memory`, and that `sent` bytes have gone in all.
    pub(super) fn gave(&mut self, memory: Range<usize>, sent: u64) {
        self.at = memory.end;
        self.given.push_back(Given { memory, sent });
    }

    /// Waits until at least the first `wanted` of the `sent` bytes have been read, and says how
    /// many have.
    ///
    /// # Errors
    /// `EPIPE` where the reader is gone; `EAGAIN` where it must not wait; as [`Waiter::until`] where that was stopped.
    pub(super) fn wait_until_released(
        &self,
        wanted: u64,
        sent: u64,
        pipe: BorrowedFd<'_>,
        waiter: &mut Waiter,
    ) -> Result<u64, Errno> {
        let released = || {
            let released = || {
                uninterrupted(|| rustix::io::ioctl_fionread(pipe))
                    .map(|queued| sent.saturating_sub(queued))
            };
            match released()? {
                enough if enough >= wanted => Ok(enough),
                _ if !linux::is_closed(pipe)? => Err(Errno::AGAIN),
                // It may have read everything before it went.
                _ => match released()? {
                    enough if enough >= wanted => Ok(enough),
                    _ => Err(Errno::PIPE),
                },
            }
        };
        // Bytes that have been read need no wait, whether it was cancelled or not.
        match released() {
            Err(Errno::AGAIN) => {}
            answer => return answer,
        }
        // The kernel wakes nobody when a pipe drains below some mark, so this has to look again
        // and again. It is rare: with a ring larger than the pipe, sending waits first.
        let mut pause = Duration::from_micros(20);
        waiter.until(released, |waiter| {
            waiter.pause(pipe, pause)?;
            pause = (pause * 2).min(Duration::from_millis(1));
            Ok(())
        })
    }
}

//! Waiting for descriptors.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until a descriptor can be read or its other end is closed, but no longer than `time`. Returns which
/// of the descriptors are ready.
pub fn wait_for(fds: &[BorrowedFd<'_>], time: Option<Duration>) -> Vec<bool> {
    let polled = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
    let mut polled: Vec<PollFd<'_>> = polled.collect();
    // A time that is too long for the kernel is no limit.
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    // If poll(2) fails or is interrupted, the caller calls this function again.
    let _ = poll(&mut polled, time.as_ref());
    polled.iter().map(|fd| !fd.revents().is_empty()).collect()
}

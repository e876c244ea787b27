//! POSIX message queues (mq_overview(7)). On Linux a queue is an fd, which is how a process gets
//! one that has no name any more.
//!
//! `unsafe` only to take such an fd for a queue.

#![allow(unsafe_code)]

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use fullbore::Waiter;
use fullbore::wait::Ready;
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_close, mq_open, mq_receive, mq_send, mq_unlink};
use nix::sys::stat::Mode;
use rustix::io::Errno;

use super::carry::Carry;

/// Messages that a queue holds: the default of /proc/sys/fs/mqueue/msg_max.
const MESSAGES: i64 = 10;

/// Bytes of a message, where the kernel says nothing else: the default of
/// /proc/sys/fs/mqueue/msgsize_max.
const MESSAGE: usize = 8 << 10;

/// Bytes of the longest message that is used: what the limit allows, and no more than its default,
/// so that figures of machines compare.
pub fn longest_message() -> usize {
    limit("msgsize_max").map_or(MESSAGE, |most| most.min(MESSAGE))
}

fn limit(name: &str) -> Option<usize> {
    let text = fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}")).ok()?;
    text.trim().parse().ok()
}

/// A queue for messages of so many bytes, whose name is gone again.
///
/// # Errors
/// Where the kernel has none (`ENOSYS`), the user has too many, or its limits are lower.
pub fn make(message: usize, blocks: bool) -> Result<OwnedFd> {
    let messages = limit("msg_max").map_or(MESSAGES, |most| MESSAGES.min(most as i64));
    let name = format!(
        "/fullbore-{}-{:016x}",
        std::process::id(),
        fastrand::u64(..)
    );
    let mut flags = MQ_OFlag::O_RDWR | MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_CLOEXEC;
    if !blocks {
        flags |= MQ_OFlag::O_NONBLOCK;
    }
    let attributes = MqAttr::new(0, messages, message as i64, 0);
    let queue = mq_open(
        name.as_str(),
        flags,
        Mode::S_IRUSR | Mode::S_IWUSR,
        Some(&attributes),
    )
    .context("mq_open")?;
    mq_unlink(name.as_str()).context("mq_unlink")?;
    let fd = queue.as_fd().try_clone_to_owned();
    // The copy is what stays.
    let _ = mq_close(queue);
    Ok(fd?)
}

/// The queues that a process receives from and sends to.
pub struct Queues<'fd> {
    input: BorrowedFd<'fd>,
    output: BorrowedFd<'fd>,
    receives: MqdT,
    sends: MqdT,
    waiter: Waiter,
}

impl<'fd> Queues<'fd> {
    /// Takes two fds for queues; the calls say if they are none.
    ///
    /// # Errors
    /// None today.
    pub fn open(input: BorrowedFd<'fd>, output: BorrowedFd<'fd>, waiter: Waiter) -> Result<Self> {
        // SAFETY: a queue is an fd on Linux, and nothing closes these two before 'fd ends: `MqdT` does not
        // close what it holds.
        let queue = |fd: BorrowedFd<'_>| unsafe { MqdT::from_raw_fd(fd.as_raw_fd()) };
        Ok(Self {
            input,
            output,
            receives: queue(input),
            sends: queue(output),
            waiter,
        })
    }
}

impl Carry for Queues<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let sends = &self.sends;
        self.waiter.until_ready(self.output, Ready::ToWrite, || {
            mq_send(sends, bytes, 0).map_err(errno)?;
            Ok(bytes.len())
        })
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let receives = &self.receives;
        self.waiter.until_ready(self.input, Ready::ToRead, || {
            mq_receive(receives, buffer, &mut 0).map_err(errno)
        })
    }
}

fn errno(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}

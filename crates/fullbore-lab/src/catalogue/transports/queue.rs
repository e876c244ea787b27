//! Uses POSIX message queues (mq_overview(7)). On Linux a queue is an fd, so that a process can inherit
//! one whose name has been removed.
//!
//! The only `unsafe` code treats such an fd as a queue.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use fullbore_linux::{Ready, Waiter};
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_close, mq_open, mq_receive, mq_send, mq_unlink};
use nix::sys::stat::Mode;
use rustix::io::Errno;

use super::carry::Carry;

/// The number of messages that a queue holds: the default of /proc/sys/fs/mqueue/msg_max.
const MESSAGES: i64 = 10;

/// The size of the longest message: the default of /proc/sys/fs/mqueue/msgsize_max, so that the figures of different
/// machines are comparable.
pub const LONGEST: usize = 8 << 10;

/// Creates a queue for messages of `message` bytes, and removes its name.
///
/// # Errors
/// Fails if the kernel has no queues (`ENOSYS`), the user has too many, or its limits are lower.
pub fn make(message: usize) -> Result<OwnedFd> {
    let (pid, random) = (std::process::id(), fastrand::u64(..));
    let name = format!("/fullbore-{pid}-{random:016x}");
    let flags = MQ_OFlag::O_RDWR | MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_CLOEXEC;
    let attributes = MqAttr::new(0, MESSAGES, message as i64, 0);
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let queue = mq_open(name.as_str(), flags, mode, Some(&attributes)).context("mq_open")?;
    mq_unlink(name.as_str()).context("mq_unlink")?;
    let fd = queue.as_fd().try_clone_to_owned();
    // The duplicate of its fd remains open.
    let _ = mq_close(queue);
    Ok(fd?)
}

/// The queues from which a process receives and to which it sends.
pub struct Queues<'fd> {
    input: BorrowedFd<'fd>,
    output: BorrowedFd<'fd>,
    receives: MqdT,
    sends: MqdT,
    waiter: Waiter,
}

impl<'fd> Queues<'fd> {
    /// Uses two fds as queues; later calls fail if they are not queues.
    pub fn new(input: BorrowedFd<'fd>, output: BorrowedFd<'fd>, waiter: Waiter) -> Self {
        // SAFETY: a queue is an fd on Linux, and nothing closes these two before 'fd ends: `MqdT` does not
        // close what it holds.
        let queue = |fd: BorrowedFd<'_>| unsafe { MqdT::from_raw_fd(fd.as_raw_fd()) };
        Self {
            input,
            output,
            receives: queue(input),
            sends: queue(output),
            waiter,
        }
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

//! Reading from sources that may preserve message boundaries: datagram sockets, and pipes in packet mode.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::outcome::{self, Call, End, Outcome, Polled};
use crate::sizes::page_size;
use crate::wait::polled_now;

/// More than the longest message of a socket: an unprivileged user can send about 416 KiB over a Unix socket (twice
/// `net.core.wmem_max`, as the kernel doubles it), and 64 KiB by UDP.
pub const MESSAGE: usize = 512 * 1024;

/// Returns how many bytes one read(2) must have room for, because it discards what does not fit: a page for a pipe,
/// whose writer may use packet mode (pipe(7)), [`MESSAGE`] for a socket that preserves message boundaries
/// (recv(2)), and 0 for everything else.
pub fn longest_message(fd: BorrowedFd<'_>, stat: &Stat) -> usize {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => page_size(),
        FileType::Socket if keeps_messages(fd) => MESSAGE,
        _ => 0,
    }
}

/// Returns whether this is a socket that preserves message boundaries.
pub fn keeps_messages(fd: BorrowedFd<'_>) -> bool {
    sockopt::socket_type(fd).is_ok_and(|kind| kind != SocketType::STREAM)
}

/// Makes a call that reads from `source` into `room`, and returns what its result means. `longest` is its
/// [`longest_message`].
pub fn read(
    source: BorrowedFd<'_>,
    longest: usize,
    room: &mut [u8],
    call: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Outcome {
    let keeps_messages = longest == MESSAGE;
    let end = if keeps_messages {
        End::Messages
    } else {
        End::Other
    };
    let result = match call(room) {
        // The message was truncated, or is exactly this long.
        Ok(n) if keeps_messages && n == room.len() && n >= longest => Err(Errno::MSGSIZE),
        result => result,
    };
    let outcome = |polled| outcome::of(Call::Read, (end, End::Memory), result, polled);
    match outcome(None) {
        Outcome::Ask => match was_empty_message(source) {
            true => outcome(Some(Polled::NotReady)),
            false => outcome(Some(Polled::Ended)),
        },
        known => known,
    }
}

/// As [`read`], but returns the number of bytes; 0 is the end. It reads again after an empty message.
///
/// # Errors
/// Those of the call, and `EMSGSIZE` for a message that may have been cut.
pub fn read_next(
    source: BorrowedFd<'_>,
    longest: usize,
    room: &mut [u8],
    mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    loop {
        match read(source, longest, room, &mut call) {
            Outcome::Moved(n) => return Ok(n),
            Outcome::End => return Ok(0),
            Outcome::Failed(_, errno) => return Err(errno),
            Outcome::WouldBlock(_) => return Err(Errno::AGAIN),
            Outcome::Interrupted => return Err(Errno::INTR),
            _ => {}
        }
    }
}

/// Returns whether a read(2) that returned 0 has got an empty message, and not the end. A socket that preserves message
/// boundaries is at its end when it was shut down and its queue is empty.
fn was_empty_message(fd: BorrowedFd<'_>) -> bool {
    // poll(2) does not report the end of every other family of sockets.
    let tells_end = match sockopt::socket_domain(fd) {
        Ok(AddressFamily::UNIX | AddressFamily::INET | AddressFamily::INET6) => keeps_messages(fd),
        _ => false,
    };
    let found = tells_end.then(|| polled_now(fd, PollFlags::RDHUP));
    let Some(Ok(found)) = found else {
        return false;
    };
    let ends = PollFlags::RDHUP | PollFlags::HUP;
    !found.intersects(ends) || ioctl_fionread(fd).is_ok_and(|queued| queued > 0)
}

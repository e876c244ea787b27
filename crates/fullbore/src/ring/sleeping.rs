//! How a side of a ring sleeps, and how the other side wakes it.
//!
//! futex(2) is the cheapest way to do both, but who sleeps in it sees nothing of the pipe and the socket. So a
//! side sleeps there for a moment only, and then goes on in poll(2), where it also notices at once that the
//! other side is gone, or that somebody writes into the pipe. Its flag says where it is ([`Sleep`]).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::thread::futex;

use super::control::{Sleep, is_awake, will_sleep};
use super::meeting::{self, Peer};
use super::memory::Flag;
use crate::wait::Waiter;

/// How long a side sleeps in futex(2), and so how late it may notice what does not wake it: the end of the
/// other side, bytes of another writer in the pipe, and a [`Cancel`](crate::Cancel). A time that is over before
/// the next tick of the kernel, which comes every 1 to 10 ms, would cost a microsecond in a virtual machine:
/// the kernel then has to set the clock for it, and to set it back.
const MOMENT: Duration = Duration::from_millis(10);

/// Sleeps until the other side wakes this one, or one of `fds`, of which the first is the socket, is ready.
/// `is_there` looks whether what it waits for is there already. May return sooner.
///
/// # Errors
/// As [`Waiter::sleep_on`].
pub(super) fn sleep(
    flag: Flag<'_>,
    waiter: &mut Waiter,
    is_there: impl Fn() -> bool,
    fds: &[(BorrowedFd<'_>, PollFlags)],
) -> Result<(), Errno> {
    let answer = in_turn(flag, waiter, is_there, fds);
    is_awake(flag.word);
    answer
}

fn in_turn(
    flag: Flag<'_>,
    waiter: &mut Waiter,
    is_there: impl Fn() -> bool,
    fds: &[(BorrowedFd<'_>, PollFlags)],
) -> Result<(), Errno> {
    will_sleep(flag.word, Sleep::OnFlag);
    if is_there() || waiter.sleep_on_futex(flag.futex, Sleep::OnFlag.flag() as u32, MOMENT)? {
        return Ok(());
    }
    // What woke this side the last time is still in the socket.
    if fds
        .first()
        .is_some_and(|&(link, _)| meeting::is_woken(link) == Peer::Gone)
    {
        return Ok(());
    }
    will_sleep(flag.word, Sleep::OnSocket);
    match is_there() {
        true => Ok(()),
        false => waiter.sleep_on(fds),
    }
}

/// Wakes the other side, which sleeps there, and returns whether it is gone, as far as that shows.
pub(super) fn wake(flag: Flag<'_>, sleep: Sleep, link: BorrowedFd<'_>) -> Peer {
    match sleep {
        Sleep::OnFlag => {
            // If this is refused, the other side goes on after a moment.
            let _ = futex::wake(flag.futex, futex::Flags::empty(), 1);
            Peer::Here
        }
        Sleep::OnSocket => meeting::wake(link),
    }
}

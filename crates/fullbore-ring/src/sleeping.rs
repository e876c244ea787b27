//! How a side of a ring sleeps, and how the other side wakes it.
//!
//! futex(2) is the cheapest way to do both, but does not watch the pipe and the socket. So a side sleeps there only
//! briefly, and then in poll(2), where it also notices at once that the other side has exited, or that another process
//! writes into the pipe. Its flag says where it sleeps ([`Sleep`]).
//!
//! Sleeping and waking take microseconds, so a side first spins for a few tries, as locks do.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;
use rustix::thread::futex;

use crate::control::{Sleep, is_awake, will_sleep};
use crate::meeting;
use crate::memory::Flag;
use fullbore_linux::wait::Waiter;

/// How long a side sleeps in futex(2), and so the delay before it notices events that do not wake it: the end of the
/// other side, bytes of another writer in the pipe, and a [`Cancel`](fullbore::Cancel). A timeout before the next tick
/// of the kernel, which comes every 1 to 10 ms, would cost a microsecond in a virtual machine: the kernel would have to
/// program the timer for it, and reprogram it afterwards.
const MOMENT: Duration = Duration::from_millis(10);

/// How often a side tries before it sleeps: less often after failures, which are the rule if both sides share a CPU.
#[derive(Debug)]
pub(crate) struct Looks {
    next: u32,
    sleeps: u32,
}

impl Looks {
    /// These take a few microseconds, about as long as sleeping and waking.
    const MOST: u32 = 100;
    /// The maximum is tried again once per this many sleeps.
    const SLEEPS: u32 = 64;

    pub(crate) fn new() -> Self {
        Self {
            next: Self::MOST,
            sleeps: 0,
        }
    }

    /// Tries, and returns whether the condition holds.
    fn find(&mut self, is_there: impl Fn() -> bool) -> bool {
        for _ in 0..self.next {
            if is_there() {
                self.next = Self::MOST;
                return true;
            }
            std::hint::spin_loop();
        }
        self.sleeps = self.sleeps.wrapping_add(1);
        self.next = match self.sleeps % Self::SLEEPS {
            0 => Self::MOST,
            _ => self.next / 2,
        };
        false
    }
}

/// Sleeps until the other side wakes this one, or one of `fds`, the first of which is the socket, is ready. `is_there`
/// returns whether the condition already holds. May return early.
///
/// # Errors
/// As [`Waiter::poll`].
pub(crate) fn sleep(
    looks: &mut Looks,
    flag: Flag<'_>,
    waiter: &mut Waiter,
    is_there: impl Fn() -> bool,
    fds: &[(BorrowedFd<'_>, PollFlags)],
) -> Result<(), Errno> {
    if looks.find(&is_there) {
        return Ok(());
    }
    let answer = announced(flag, waiter, is_there, fds);
    is_awake(flag.word);
    answer
}

fn announced(
    flag: Flag<'_>,
    waiter: &mut Waiter,
    is_there: impl Fn() -> bool,
    fds: &[(BorrowedFd<'_>, PollFlags)],
) -> Result<(), Errno> {
    will_sleep(flag.word, Sleep::OnFlag);
    if is_there() || sleep_on_flag(flag, waiter)? {
        return Ok(());
    }
    // The byte of the last wakeup is still in the socket.
    if fds
        .first()
        .is_some_and(|&(link, _)| meeting::has_exited(link))
    {
        return Ok(());
    }
    will_sleep(flag.word, Sleep::OnSocket);
    match is_there() {
        true => Ok(()),
        false => waiter.poll(fds, None).map(drop),
    }
}

/// Sleeps on the flag for at most a [`MOMENT`], and returns whether the caller should check again; `false` means that the
/// time has passed. Only the deadline and a signal end the sleep early.
///
/// # Errors
/// `ECANCELED` after a cancel, `ETIMEDOUT` after the deadline; `EINTR` if it is interruptible.
fn sleep_on_flag(flag: Flag<'_>, waiter: &mut Waiter) -> Result<bool, Errno> {
    let now = Instant::now;
    let left = waiter
        .deadline
        .map(|at| at.saturating_duration_since(now()));
    let at_most = Timespec::try_from(left.map_or(MOMENT, |left| left.min(MOMENT))).ok();
    let (value, no_flags) = (Sleep::OnFlag.flag() as u32, futex::Flags::empty());
    let may_end = waiter.interruptible;
    let slept =
        waiter.attempt(
            &mut || match futex::wait(flag.futex, no_flags, value, at_most.as_ref()) {
                Err(Errno::INTR) if may_end => Err(Errno::INTR),
                slept => Ok(matches!(slept, Ok(()) | Err(Errno::AGAIN | Errno::INTR))),
            },
        )?;
    waiter.check_stopped()?;
    Ok(slept)
}

/// Wakes the other side, which sleeps there, and returns whether it has exited, as far as that shows.
pub(crate) fn wake(flag: Flag<'_>, sleep: Sleep, link: BorrowedFd<'_>) -> bool {
    match sleep {
        Sleep::OnFlag => {
            // If this is refused, the other side continues after its timeout.
            let _ = futex::wake(flag.futex, futex::Flags::empty(), 1);
            false
        }
        Sleep::OnSocket => meeting::wake(link),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn failed_spins_become_short_and_successful_ones_long() {
        let mut looks = Looks::new();
        let made = Cell::new(0);
        let in_vain = |looks: &mut Looks| {
            made.set(0);
            assert!(!looks.find(|| {
                made.set(made.get() + 1);
                false
            }));
            made.get()
        };
        assert_eq!(in_vain(&mut looks), Looks::MOST);
        let all: u32 = (0..10 * Looks::SLEEPS).map(|_| in_vain(&mut looks)).sum();
        assert!(all <= 10 * 2 * Looks::MOST, "{all}");
        let mut sleeps = 0;
        while !looks.find(|| true) {
            sleeps += 1;
        }
        assert!(sleeps <= Looks::SLEEPS);
        assert_eq!(in_vain(&mut looks), Looks::MOST);
    }
}

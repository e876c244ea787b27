//! How to wait while a pipe is full or empty: sleep in the call, sleep in poll(2), spin, or spin for a while and then
//! sleep.
//!
//! Waking a sleeping task costs from a few to a hundred microseconds, and moving a chunk costs about as much, so the
//! way of waiting determines how fast a pipe is. [`Wait`] names the choice, and a [`Waiter`] applies it to any call
//! that returns [`Errno::AGAIN`] when it would have to wait. This module does not depend on pipes or memory.

mod budget;
mod look;
mod nap;
mod pace;
mod rest;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};

use crate::error::{self, Error, TransferSide};
use budget::Budget;
pub use fullbore_types::{Cancel, Stopped, Wait};
use look::Look;
pub use nap::Nap;
pub use pace::Pace;
use rest::Rest;

/// The operation that an fd has to be ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// There are bytes to read, or no writer is left.
    ToRead,
    /// There is room to write, or no reader is left.
    ToWrite,
}

impl Ready {
    /// Returns the side of a call that has to be ready.
    pub fn side<T>(self, source: T, sink: T) -> T {
        match self {
            Ready::ToRead => source,
            Ready::ToWrite => sink,
        }
    }

    fn flags(self) -> PollFlags {
        self.side(PollFlags::IN, PollFlags::OUT)
    }
}

/// Waits as a [`Wait`] says, with the state of [`Wait::Adaptive`].
#[derive(Debug, Clone, Default)]
pub struct Waiter {
    /// How to wait.
    pub wait: Wait,
    /// Whether [`Wait::Block`] looks for up to 50 µs before a call that would sleep, and [`Wait::Poll`] before poll(2),
    /// as long as recent looks have saved sleeps, and a long stream is faster by them; never on one CPU. Before poll(2)
    /// for room in a pipe, whether it rests while the reader reads up to a quarter of it, as long as rests have saved
    /// wake-ups.
    pub looks: bool,
    /// Whether the number of bytes that have arrived is known also during a wait: no call into a pipe or a socket sleeps
    /// after it has moved some of its bytes, except where another process takes the room that it was found to have.
    pub counts: bool,
    /// Whether the last call into a socket slept for long, so that [`counts`](Self::counts) asks for short calls.
    pub slow: bool,
    /// Whether to return `EAGAIN` instead of waiting.
    pub never: bool,
    /// As soon as this is cancelled, also during a wait, [`Errno::CANCELED`] is returned. [`stopped`](Self::stopped)
    /// distinguishes it from an `ECANCELED` of the kernel.
    pub cancel: Option<Cancel>,
    /// From this time on, also during a wait, [`Errno::TIMEDOUT`] is returned. [`stopped`](Self::stopped)
    /// distinguishes it from an `ETIMEDOUT` of the kernel.
    pub deadline: Option<Instant>,
    /// Whether to return [`Errno::INTR`] if a signal interrupts a call or a wait, unless the handler of that signal
    /// restarts calls (sigaction(2), `SA_RESTART`). A signal that arrives before the call begins to wait does not end
    /// the wait.
    pub interruptible: bool,
    /// For how long calls on one fd have waited outside of the call, in poll(2), in all.
    pub waited: Duration,
    budget: Budget,
    look: Look,
    rest: Rest,
    /// Whether the look of the next call was taken before.
    has_looked: bool,
    /// Whether a signal may have ended the last call after it had moved some bytes.
    was_short: bool,
    /// Whether it waits for sockets, which may have timeouts.
    for_sockets: bool,
    stopped: Option<Stopped>,
}

impl Waiter {
    /// Creates a waiter that has no earlier waits to learn from.
    pub fn new(wait: Wait) -> Self {
        Self {
            wait,
            ..Self::default()
        }
    }

    /// Returns what stopped the last wait: [`Cancel`], the deadline or a signal. After `None`, the last error came from
    /// the kernel.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// Returns the [`Error`] of a call that failed with `errno`, or that has only ended early: as
    /// [`stopped`](Self::stopped) says, or because it would have to wait. `EAGAIN` of a call that may wait is the timeout
    /// of a socket, which is a failure.
    pub fn error(
        &self,
        side: TransferSide,
        operation: &'static str,
        errno: Errno,
        moved: u64,
    ) -> Error {
        let would_block = self.never && errno == Errno::AGAIN;
        match self.stopped.or(would_block.then_some(Stopped::WouldBlock)) {
            Some(by) => Error::Stopped { by, moved },
            None => error::moving(side, operation, errno, moved),
        }
    }

    /// Respects the timeouts of sockets even if no call sleeps.
    pub fn count_timeouts_of_sockets(&mut self) {
        self.for_sockets = true;
    }

    /// Returns whether the call itself should refuse to wait (`SPLICE_F_NONBLOCK`, `RWF_NOWAIT`).
    pub fn is_nonblocking(&self) -> bool {
        self.wait != Wait::Block || !self.may_wait()
    }

    /// Returns whether a call may sleep: nothing can end its wait early.
    pub fn may_wait(&self) -> bool {
        !self.never && self.cancel.is_none() && self.deadline.is_none()
    }

    /// Returns the reason to stop now, if any: [`Cancel`] or the deadline.
    pub fn due(&self) -> Option<Stopped> {
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Some(Stopped::Cancelled);
        }
        let has_passed = self.deadline.is_some_and(|at| Instant::now() >= at);
        has_passed.then_some(Stopped::TimedOut)
    }

    /// # Errors
    /// `ECANCELED` after a cancel, `ETIMEDOUT` after the deadline.
    pub fn check_stopped(&mut self) -> Result<(), Errno> {
        self.stopped = self.due();
        match self.stopped {
            None => Ok(()),
            Some(Stopped::Cancelled) => Err(Errno::CANCELED),
            // By the deadline, the only other reason.
            Some(_) => Err(Errno::TIMEDOUT),
        }
    }

    /// Sleeps until `fd` is `ready`, or has been for a while.
    ///
    /// # Errors
    /// `EAGAIN` once the timeout of a socket has passed; as [`poll`](Self::poll).
    fn sleep(&mut self, fd: BorrowedFd<'_>, ready: Ready) -> Result<(), Errno> {
        let began = Instant::now();
        let slept = self.sleep_or_rest(fd, ready);
        self.waited += began.elapsed();
        slept
    }

    fn sleep_or_rest(&mut self, fd: BorrowedFd<'_>, ready: Ready) -> Result<(), Errno> {
        let has_slept = !self.is_nonblocking();
        let events = ready.flags();
        if has_slept && timeout_of_socket(fd, events).is_some() {
            return Err(Errno::AGAIN);
        }
        if self.rests(&[(fd, events)])? {
            return Ok(());
        }
        if self.looks && self.wait == Wait::Poll {
            self.look.look(|| is_ready(fd, ready) != Ok(false));
        }
        match self.sleep_until_any_ready(&[(fd, events)])? {
            None => Ok(()),
            Some(_) => Err(Errno::AGAIN),
        }
    }

    /// Rests if only one of these is waited for, which is a full pipe, and returns whether there is room in it now.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    fn rests(&mut self, fds: &[(BorrowedFd<'_>, PollFlags)]) -> Result<bool, Errno> {
        let mut waited = fds.iter().filter(|(_, events)| !events.is_empty());
        let sleeps = matches!(self.wait, Wait::Block | Wait::Poll);
        let (true, Some(&(sink, PollFlags::OUT)), None) =
            (sleeps && self.looks, waited.next(), waited.next())
        else {
            return Ok(false);
        };
        let closed = fds.iter().map(|&(fd, _)| (fd, PollFlags::empty()));
        let mut rest = std::mem::take(&mut self.rest);
        let rested = rest.rest(sink, |length| {
            self.poll(&closed.collect::<Vec<_>>(), Some(length))
                .map(drop)
        });
        self.rest = rest;
        rested
    }

    /// Sleeps until one of these is ready, or returns the index of a socket whose timeout has passed.
    fn sleep_until_any_ready(
        &mut self,
        fds: &[(BorrowedFd<'_>, PollFlags)],
    ) -> Result<Option<usize>, Errno> {
        let shortest = fds
            .iter()
            .enumerate()
            .filter(|_| self.for_sockets)
            .filter_map(|(i, &(fd, events))| Some((timeout_of_socket(fd, events)?, i)))
            .min();
        let Some((timeout, i)) = shortest else {
            return self.poll(fds, None).map(|_| None);
        };
        let is_any_ready = self.poll(fds, Some(timeout))?;
        Ok((!is_any_ready).then_some(i))
    }

    /// Sleeps in poll(2), for at most `at_most`, until one of these is ready for its events, has an error, or has its
    /// other end closed, and returns whether one is.
    ///
    /// # Errors
    /// `ECANCELED` after a cancel, `ETIMEDOUT` after the deadline; otherwise as poll(2), with `EINTR` only if it is
    /// interruptible.
    pub fn poll(
        &mut self,
        fds: &[(BorrowedFd<'_>, PollFlags)],
        at_most: Option<Duration>,
    ) -> Result<bool, Errno> {
        let now = Instant::now;
        let left = self.deadline.map(|at| at.saturating_duration_since(now()));
        let at_most = at_most.into_iter().chain(left).min();
        let polled = poll_any(fds, self.cancel.as_ref(), at_most, self.interruptible);
        if polled == Err(Errno::INTR) {
            self.stopped = Some(Stopped::Interrupted);
        }
        let is_any_ready = polled?;
        // Also if one is ready: poll(2) may say so each time, while no call moves a byte.
        self.check_stopped()?;
        Ok(is_any_ready)
    }

    /// Pauses, unless it is stopped, before the next wait, if poll(2) has returned again and again without a byte having
    /// been moved.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    fn nap(&mut self, nap: &mut Nap) -> Result<(), Errno> {
        match nap.was_vain() {
            Some(pause) => self.poll(&[], Some(pause)).map(drop),
            None => Ok(()),
        }
    }

    /// Repeats `call` until it no longer returns `EAGAIN`, waiting in between for `fd` to be `ready`.
    ///
    /// After `EINTR` it retries, unless it is [`interruptible`](Self::interruptible). It returns every other result.
    /// With [`Wait::Block`] the call itself is expected to wait. If it returns `EAGAIN` nevertheless, either the
    /// timeout of a socket has passed (`SO_RCVTIMEO`, `SO_SNDTIMEO`), and this returns `EAGAIN`; or another program has
    /// set `O_NONBLOCK` on the description, and this sleeps in poll(2).
    pub fn until_ready<T>(
        &mut self,
        fd: BorrowedFd<'_>,
        ready: Ready,
        call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let looks = self.looks && self.wait == Wait::Block && !self.never;
        if !std::mem::take(&mut self.has_looked) && looks {
            self.look.look(|| is_ready(fd, ready) != Ok(false));
        }
        self.until_ready_unseen(fd, ready, call)
    }

    /// Learns from the bytes that a call has moved whether looks make the stream faster.
    pub fn moved(&mut self, bytes: usize) {
        if self.looks {
            self.look.moved(bytes);
        }
    }

    /// Looks as the next call on `fd` would, instead of that call, and returns whether `fd` is ready.
    pub fn look(&mut self, fd: BorrowedFd<'_>, ready: Ready) -> bool {
        let looked = match self.wait {
            Wait::Block if self.looks => self.look.look(|| is_ready(fd, ready) != Ok(false)),
            _ => None,
        };
        self.has_looked = true;
        looked.unwrap_or_else(|| is_ready(fd, ready) != Ok(false))
    }

    /// Waits in poll(2) where it would sleep in the calls of `work`, which are made so that they do not sleep: they come
    /// first, and a look, if any, only after one that was in vain.
    pub fn by_poll<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let wait = self.wait;
        if wait == Wait::Block {
            self.wait = Wait::Poll;
        }
        let done = work(self);
        self.wait = wait;
        done
    }

    /// As [`until_ready`](Self::until_ready), without a look before the first call.
    pub fn until_ready_unseen<T>(
        &mut self,
        fd: BorrowedFd<'_>,
        ready: Ready,
        call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut nap = Nap::default();
        self.until(call, |waiter| {
            waiter.nap(&mut nap)?;
            waiter.sleep(fd, ready)
        })
    }

    /// As [`until_ready`](Self::until_ready), for waits that do not end with an fd becoming ready: `sleep` returns when
    /// `call` should be retried, and may return early.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use rustix::io::Errno;
    /// let (done, parked) = (AtomicBool::new(false), std::thread::current());
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         done.store(true, Ordering::Release);
    ///         parked.unpark();
    ///     });
    ///     fullbore_linux::Waiter::new(fullbore_linux::Wait::Adaptive).until(
    ///         || if done.load(Ordering::Acquire) { Ok(()) } else { Err(Errno::AGAIN) },
    ///         |_| Ok(std::thread::park()),
    ///     )
    /// })?;
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `call` and `sleep`, except `EINTR` and `EAGAIN` of `call`.
    pub fn until<T>(
        &mut self,
        mut call: impl FnMut() -> Result<T, Errno>,
        mut sleep: impl FnMut(&mut Self) -> Result<(), Errno>,
    ) -> Result<T, Errno> {
        self.check_stopped()?;
        if std::mem::take(&mut self.was_short) {
            self.stopped = Some(Stopped::Interrupted);
            return Err(Errno::INTR);
        }
        match self.attempt(&mut call) {
            Err(Errno::AGAIN) if !self.never => {}
            answer => return answer,
        }
        // Many waits end sooner than a clock can be read, so the first tries do not read it.
        let mut began = None;
        let mut spins = matches!(self.wait, Wait::Spin | Wait::Adaptive);
        let spin_for = self.budget.spin_for();
        let mut tries = 0u32;
        loop {
            tries = tries.wrapping_add(1);
            if !spins {
                self.check_stopped()?;
                sleep(self)?;
            } else if tries % TRIES_BETWEEN_LOOKS == 0 {
                self.check_stopped()?;
                let mut elapsed = || began.get_or_insert_with(Instant::now).elapsed();
                spins = self.wait == Wait::Spin || elapsed() < spin_for;
                if tries % TRIES_BETWEEN_YIELDS == 0 {
                    std::thread::yield_now();
                }
            }
            std::hint::spin_loop();
            match self.attempt(&mut call) {
                Err(Errno::AGAIN) => {}
                answer => {
                    let waited = began.map_or(Duration::ZERO, |at| at.elapsed());
                    match spins {
                        true => self.budget.spun(waited),
                        false => self.budget.slept(waited),
                    }
                    return answer;
                }
            }
        }
    }

    /// Makes the next call fail with `EINTR`, because a signal has ended a call that moved some bytes and returns their
    /// number. Has no effect unless the waiter is interruptible.
    pub fn note_signal(&mut self) {
        self.was_short = self.interruptible;
    }

    /// Records that a call has moved fewer bytes into `sink` than it was given. If a signal may be the reason, the next
    /// call is interrupted, because the rest could wait forever.
    pub fn note_short(&mut self, sink: BorrowedFd<'_>) {
        if self.is_cut_short_by_signals(sink) {
            self.note_signal();
        }
    }

    /// Returns whether it is interruptible, and its calls sleep while `sink` has no room.
    pub fn is_cut_short_by_signals(&self, sink: BorrowedFd<'_>) -> bool {
        let may_sleep = self.interruptible && !self.is_nonblocking();
        may_sleep && !rustix::fs::fcntl_getfl(sink).is_ok_and(|f| f.contains(OFlags::NONBLOCK))
    }

    /// Makes the call, and repeats it while signals interrupt it and must not end the wait.
    pub fn attempt<T>(&mut self, call: &mut impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        loop {
            match call() {
                Err(Errno::INTR) if self.interruptible => {
                    self.stopped = Some(Stopped::Interrupted);
                    return Err(Errno::INTR);
                }
                Err(Errno::INTR) => {}
                answer => return answer,
            }
        }
    }

    /// Waits until one of these may be ready, has an error, or has its other end closed, or returns the index of a
    /// socket whose timeout has passed; returns at once with [`Wait::Spin`]. The caller tells `nap` of progress.
    ///
    /// # Errors
    /// `ECANCELED` after a cancel, `ETIMEDOUT` after the deadline; otherwise as poll(2), without
    /// `EINTR`.
    pub fn until_any_ready(
        &mut self,
        fds: &[(BorrowedFd<'_>, PollFlags)],
        nap: &mut Nap,
    ) -> Result<Option<usize>, Errno> {
        self.check_stopped()?;
        self.nap(nap)?;
        if self.wait == Wait::Spin {
            std::hint::spin_loop();
            return Ok(None);
        }
        if self.rests(fds)? {
            return Ok(None);
        }
        if self.looks && self.wait == Wait::Block {
            let is_ready = |&(fd, events): &(_, PollFlags)| {
                !events.is_empty() && polled_now(fd, events) != Ok(PollFlags::empty())
            };
            self.look.look(|| fds.iter().any(is_ready));
        }
        let began = Instant::now();
        while self.wait == Wait::Adaptive && began.elapsed() < self.budget.spin_for() {
            if self.poll(fds, Some(Duration::ZERO))? {
                self.budget.spun(began.elapsed());
                return Ok(None);
            }
        }
        let overdue = self.sleep_until_any_ready(fds)?;
        self.budget.slept(began.elapsed());
        Ok(overdue)
    }
}

/// Tries between two readings of the clock, which costs about as much as a few of the cheapest tries.
const TRIES_BETWEEN_LOOKS: u32 = 8;

/// Tries between two calls of sched_yield(2) while spinning. The call returns at once if no other thread wants this
/// CPU; otherwise that thread need not wait until it is preempted.
const TRIES_BETWEEN_YIELDS: u32 = 256;

/// Repeats the call as long as a signal interrupts it.
pub fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// Asks poll(2) which of these events `fd` is ready for now; it also returns errors and a closed other end.
///
/// # Errors
/// As poll(2), without `EINTR`.
pub fn polled_now(fd: BorrowedFd<'_>, events: PollFlags) -> Result<PollFlags, Errno> {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    uninterrupted(|| poll(&mut fds, Some(&Timespec::default())))?;
    Ok(fds[0].revents())
}

/// Returns whether `fd` is ready now, has an error, or has its other end closed.
///
/// # Errors
/// As poll(2), without `EINTR`.
pub fn is_ready(fd: BorrowedFd<'_>, ready: Ready) -> Result<bool, Errno> {
    Ok(!polled_now(fd, ready.flags())?.is_empty())
}

/// Returns whether the other end of `pipe` is closed, or `pipe` has an error.
///
/// # Errors
/// As poll(2), without `EINTR`.
pub fn is_closed(pipe: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(!polled_now(pipe, PollFlags::empty())?.is_empty())
}

/// Returns the timeout of a blocking socket for this operation; `None` if it has no timeout, is not a socket, or has
/// `O_NONBLOCK`, so that no call on it waits.
fn timeout_of_socket(fd: BorrowedFd<'_>, events: PollFlags) -> Option<Duration> {
    let of = match events {
        _ if events.contains(PollFlags::IN) => Timeout::Recv,
        _ if events.contains(PollFlags::OUT) => Timeout::Send,
        _ => return None,
    };
    let timeout = sockopt::socket_timeout(fd, of).ok()??;
    let flags = rustix::fs::fcntl_getfl(fd).ok()?;
    (!flags.contains(OFlags::NONBLOCK)).then_some(timeout)
}

/// Sleeps until one of these is ready, has an error, or has its other end closed, or `cancel` is cancelled, but no
/// longer than `at_most`; returns whether any of this happened. A signal ends the sleep with `EINTR` if it is
/// `interruptible`.
fn poll_any(
    fds: &[(BorrowedFd<'_>, PollFlags)],
    cancel: Option<&Cancel>,
    at_most: Option<Duration>,
    interruptible: bool,
) -> Result<bool, Errno> {
    let began = at_most.map(|_| Instant::now());
    let fds = fds.iter();
    let mut fds = fds.map(|&(fd, events)| PollFd::from_borrowed_fd(fd, events));
    // Nearly every wait is for one fd, which needs no allocation.
    let mut one;
    let mut many: Vec<PollFd<'_>>;
    let polled: &mut [PollFd<'_>] = match (fds.len(), cancel) {
        (1, None) => {
            one = fds.next();
            one.as_mut_slice()
        }
        _ => {
            let event = cancel.map(|c| PollFd::from_borrowed_fd(c.as_fd(), PollFlags::IN));
            many = fds.chain(event).collect();
            &mut many
        }
    };
    let mut wait = || {
        // Repeated signals do not prolong the wait.
        let left = at_most
            .zip(began)
            .map(|(at_most, began)| at_most.saturating_sub(began.elapsed()));
        // A time that is too long for a `Timespec` means no limit.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        poll(polled, left.as_ref())
    };
    let count = match interruptible {
        true => wait(),
        false => uninterrupted(wait),
    }?;
    if let (Some(cancel), Some(event)) = (cancel, polled.last()) {
        if event.revents().contains(PollFlags::IN) {
            cancel.cancel();
        }
    }
    if polled
        .iter()
        .any(|fd| fd.revents().contains(PollFlags::NVAL))
    {
        return Err(Errno::BADF);
    }
    Ok(count > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::thread;

    use super::*;
    use crate::calls::Calls;

    const ALL: [Wait; 4] = [Wait::Block, Wait::Poll, Wait::Spin, Wait::Adaptive];

    #[test]
    fn an_empty_pipe_that_refuses_not_to_wait_takes_as_much_as_it_holds() {
        let [(own, first), (reader, writer)] = [(); 2].map(|()| rustix::pipe::pipe().unwrap());
        rustix::io::write(first, b"1").unwrap();
        // This clears FMODE_NOWAIT (`pipe_clear_nowait`, fs/splice.c).
        let flags = rustix::pipe::SpliceFlags::empty();
        rustix::pipe::splice(own, None, &writer, None, 1, flags).unwrap();
        rustix::io::read(&reader, &mut [0; 1]).unwrap();
        let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
        let mut calls = Calls::new(Wait::Block);
        calls.waiter.counts = true;
        let written = calls.write(writer.as_fd(), &vec![0; capacity]);
        assert_eq!(written, Ok(capacity));
    }

    #[test]
    fn every_wait_gets_every_byte() {
        for wait in ALL {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let sender = thread::spawn(move || {
                let mut writer = std::fs::File::from(writer);
                for i in 0..200u8 {
                    if i % 50 == 0 {
                        thread::sleep(Duration::from_millis(2));
                    }
                    writer.write_all(&[i]).unwrap();
                }
            });
            let mut calls = Calls::new(wait);
            let mut got = Vec::new();
            loop {
                let mut buf = [0; 16];
                match calls.read(reader.as_fd(), &mut buf).unwrap() {
                    0 => break,
                    n => got.extend_from_slice(&buf[..n]),
                }
            }
            sender.join().unwrap();
            assert_eq!(got, (0..200).collect::<Vec<u8>>(), "{wait:?}");
        }
    }

    #[test]
    fn an_interrupted_call_is_repeated() {
        let mut answers = [Err(Errno::INTR), Err(Errno::INTR), Ok(7)].into_iter();
        assert_eq!(uninterrupted(|| answers.next().unwrap()), Ok(7));
    }

    #[test]
    fn an_error_other_than_eagain_ends_the_wait() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        for wait in ALL {
            let mut answers = [Err(Errno::INTR), Err::<usize, _>(Errno::IO)].into_iter();
            let answer = Waiter::new(wait)
                .until_ready(reader.as_fd(), Ready::ToRead, || answers.next().unwrap());
            assert_eq!(answer, Err(Errno::IO), "{wait:?}");
        }
    }
}

//! What an endpoint does while its pipe is full or empty: sleep in the call, sleep in poll(2),
//! spin, or spin for a while and then sleep.
//!
//! Waking a sleeping task costs from a few to a hundred microseconds, moving a chunk about as
//! much: so how one waits decides how fast a pipe is. [`Wait`] names the choice, and a [`Waiter`]
//! carries it out around any call that says [`Errno::AGAIN`] when it would have to wait. It knows
//! neither pipes nor memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// What to do while a pipe is full (a writer) or empty (a reader).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Wait {
    /// Sleep in the call itself, as a blocking fd does.
    #[default]
    Block,
    /// Try without waiting, and sleep in poll(2) until it is worth another try.
    Poll,
    /// Try without waiting, again and again. Uses a whole CPU; the fastest where there is one to
    /// spare, and the slowest where the other side has to run on the same CPU.
    Spin,
    /// Spin as long as waits have lately been short, at most 100 µs at a time, then sleep. As fast as
    /// spinning on a steady stream, and idle when the other side is.
    Adaptive,
}

/// Which readiness is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// There is something to read, or nobody left to write.
    ToRead,
    /// There is room to write, or nobody left to read.
    ToWrite,
}

impl Ready {
    fn flags(self) -> PollFlags {
        match self {
            Ready::ToRead => PollFlags::IN,
            Ready::ToWrite => PollFlags::OUT,
        }
    }
}

/// Ends, from another thread, the wait of whoever was given a clone of it.
///
/// ```
/// use std::time::Duration;
/// let pipe = fullbore::Pipe::new()?;
/// let cancel = fullbore::Cancel::new()?;
/// let from_outside = cancel.clone();
/// std::thread::spawn(move || {
///     std::thread::sleep(Duration::from_millis(5));
///     from_outside.cancel();
/// });
/// // Nobody ever writes into this pipe.
/// let mut out = std::fs::File::options().write(true).open("/dev/null")?;
/// let report = fullbore::Transfer::new(&pipe.reader, &out).cancel(&cancel).run()?;
/// assert_eq!(report.ended, fullbore::Ended::Cancelled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Cancelled>);

#[derive(Debug)]
struct Cancelled {
    /// What a running thread looks at.
    so: AtomicBool,
    /// What wakes a sleeping one: an eventfd that is readable from then on.
    event: OwnedFd,
}

impl Cancel {
    /// One that nobody has cancelled yet (`eventfd2`).
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = eventfd(0, flags).map_err(Error::system("eventfd2"))?;
        Ok(Self(Arc::new(Cancelled {
            so: AtomicBool::new(false),
            event,
        })))
    }

    /// Ends what was given a clone of this, now and for good. May be called from a signal handler.
    pub fn cancel(&self) {
        self.0.so.store(true, Ordering::Release);
        // It fails only where the counter is full, and then it is readable too.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// Whether somebody has.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.so.load(Ordering::Acquire)
    }
}

/// Carries a [`Wait`] out, and keeps what [`Wait::Adaptive`] has learned.
#[derive(Debug, Clone)]
pub struct Waiter {
    wait: Wait,
    budget: Budget,
    /// Hand `EAGAIN` back instead of waiting.
    never: bool,
    cancel: Option<Cancel>,
}

impl Waiter {
    /// A waiter that has learned nothing yet.
    pub fn new(wait: Wait) -> Self {
        Self {
            wait,
            budget: Budget::default(),
            never: false,
            cancel: None,
        }
    }

    /// Hands `EAGAIN` back instead of waiting.
    pub fn never_waiting(mut self) -> Self {
        self.never = true;
        self
    }

    /// Says [`Errno::CANCELED`] as soon as `cancel` is cancelled, also out of a wait.
    pub fn until_cancelled(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// The choice it carries out.
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// Whether the call should itself refuse to wait (`SPLICE_F_NONBLOCK`, `RWF_NOWAIT`).
    pub fn is_nonblocking(&self) -> bool {
        self.wait != Wait::Block || self.never || self.cancel.is_some()
    }

    /// Whether a call that sleeps does no harm: nobody wants it back early.
    pub(crate) fn may_wait(&self) -> bool {
        !self.never && self.cancel.is_none()
    }

    fn check_cancelled(&self) -> Result<(), Errno> {
        match &self.cancel {
            Some(cancel) if cancel.is_cancelled() => Err(Errno::CANCELED),
            _ => Ok(()),
        }
    }

    /// Sleeps until `fd` is `ready`, or somebody cancels.
    fn sleep(&self, fd: BorrowedFd<'_>, ready: Ready) -> Result<(), Errno> {
        sleep_until_any_ready(&[(fd, ready)], self.cancel.as_ref(), None).map(|_| ())
    }

    /// Makes `call` until it no longer says `EAGAIN`, waiting in between for `fd` to be `ready`.
    ///
    /// `EINTR` is tried again. Every other answer is handed back. With [`Wait::Block`] the call
    /// itself is expected to wait; if it says `EAGAIN` all the same (another program has set
    /// `O_NONBLOCK` on the description), this sleeps in poll(2).
    #[inline]
    pub fn until_ready<T>(
        &mut self,
        fd: BorrowedFd<'_>,
        ready: Ready,
        call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.until_one_ready(|| (fd, ready), call)
    }

    /// As [`until_ready`](Self::until_ready), where only after an `EAGAIN` can be said which fd it
    /// is that has to become ready.
    #[inline]
    pub fn until_one_ready<'fd, T>(
        &mut self,
        which: impl Fn() -> (BorrowedFd<'fd>, Ready),
        call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.until(call, |waiter| {
            let (fd, ready) = which();
            waiter.sleep(fd, ready)
        })
    }

    /// As [`until_ready`](Self::until_ready), where it is not by an fd that one is woken: `sleep`
    /// returns when it is worth another try, and may return sooner.
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
    ///     fullbore::Waiter::new(fullbore::Wait::Adaptive).until(
    ///         || if done.load(Ordering::Acquire) { Ok(()) } else { Err(Errno::AGAIN) },
    ///         |_| Ok(std::thread::park()),
    ///     )
    /// })?;
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// Those of `call` and `sleep`, but for `EINTR` and `EAGAIN` of `call`.
    #[inline]
    pub fn until<T>(
        &mut self,
        mut call: impl FnMut() -> Result<T, Errno>,
        mut sleep: impl FnMut(&Self) -> Result<(), Errno>,
    ) -> Result<T, Errno> {
        self.check_cancelled()?;
        match uninterrupted(&mut call) {
            Err(Errno::AGAIN) if !self.never => {}
            answer => return answer,
        }
        match self.wait {
            Wait::Block | Wait::Poll => loop {
                sleep(self)?;
                match uninterrupted(&mut call) {
                    Err(Errno::AGAIN) => {}
                    answer => return answer,
                }
            },
            Wait::Spin => loop {
                std::hint::spin_loop();
                self.check_cancelled()?;
                match uninterrupted(&mut call) {
                    Err(Errno::AGAIN) => {}
                    answer => return answer,
                }
            },
            Wait::Adaptive => self.spin_then_sleep(call, sleep),
        }
    }

    /// Waits until one of these is worth a try; returns at once with [`Wait::Spin`].
    ///
    /// # Errors
    /// `ECANCELED`; as poll(2), without `EINTR`.
    pub(crate) fn until_any_ready(&mut self, fds: &[(BorrowedFd<'_>, Ready)]) -> Result<(), Errno> {
        self.check_cancelled()?;
        match self.wait {
            Wait::Block | Wait::Poll => {}
            Wait::Spin => {
                std::hint::spin_loop();
                return Ok(());
            }
            Wait::Adaptive => {
                let began = Instant::now();
                while began.elapsed() < self.budget.spin_for() {
                    if sleep_until_any_ready(fds, self.cancel.as_ref(), Some(Duration::ZERO))? {
                        self.budget.spun(began.elapsed());
                        return Ok(());
                    }
                }
            }
        }
        let began = Instant::now();
        sleep_until_any_ready(fds, self.cancel.as_ref(), None)?;
        self.budget.slept(began.elapsed());
        Ok(())
    }

    fn spin_then_sleep<T>(
        &mut self,
        mut call: impl FnMut() -> Result<T, Errno>,
        mut sleep: impl FnMut(&Self) -> Result<(), Errno>,
    ) -> Result<T, Errno> {
        // Many waits are over sooner than a clock can be read: the first tries are made without one.
        let mut first_look = None;
        let spin_for = self.budget.spin_for();
        for tries in 1u64.. {
            std::hint::spin_loop();
            match uninterrupted(&mut call) {
                Err(Errno::AGAIN) => {}
                answer => {
                    let waited = first_look.map_or(Duration::ZERO, |at: Instant| at.elapsed());
                    self.budget.spun(waited);
                    return answer;
                }
            }
            if tries.is_multiple_of(TRIES_BETWEEN_LOOKS)
                && first_look.get_or_insert_with(Instant::now).elapsed() >= spin_for
            {
                break;
            }
        }
        let began = first_look.unwrap_or_else(Instant::now);
        loop {
            self.check_cancelled()?;
            sleep(self)?;
            match uninterrupted(&mut call) {
                Err(Errno::AGAIN) => {}
                answer => {
                    self.budget.slept(began.elapsed());
                    return answer;
                }
            }
        }
    }
}

/// Tries between two looks at the clock, which costs about as much as a few of the cheapest of them.
const TRIES_BETWEEN_LOOKS: u64 = 8;

/// How long to spin, learned from how long waits have been.
///
/// A wait that ended while spinning sets the budget to four times the running mean of such waits;
/// one that ended in sleep halves it. So that a peer that turns quick again is noticed, a spin
/// of full length is tried now and then, as long as waits are of a length where it could pay.
///
/// Times are in nanoseconds: a wait that ends at once has no time for more than a few additions.
#[derive(Debug, Clone)]
struct Budget {
    now: u64,
    mean: u64,
    short_sleeps: u32,
}

impl Budget {
    /// Spinning longer than a sleep and a wake-up cost cannot win much (it is the classical
    /// two-competitive bound), and wake-ups of 100 µs are the slow end of what is seen in
    /// virtual machines.
    const MOST: u64 = 100_000;
    const LEAST: u64 = 1_000;
    /// Every so many sleeps that were short, try a full spin.
    const PROBE_EVERY: u32 = 8;

    fn spin_for(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    fn spun(&mut self, waited: Duration) {
        self.short_sleeps = 0;
        self.mean = (self.mean * 7 + nanoseconds(waited).min(Self::MOST)) / 8;
        self.now = (self.mean * 4).clamp(Self::LEAST * 10, Self::MOST);
    }

    fn slept(&mut self, waited: Duration) {
        self.now = (self.now / 2).max(Self::LEAST);
        if nanoseconds(waited) < Self::MOST * 3 {
            self.short_sleeps += 1;
            if self.short_sleeps.is_multiple_of(Self::PROBE_EVERY) {
                self.now = Self::MOST;
            }
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            now: Self::MOST,
            mean: Self::MOST / 4,
            short_sleeps: 0,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes the call again for as long as a signal interrupts it.
#[inline]
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// Sleeps until one of these is ready, or has an error or nobody at its other end, but no longer
/// than `at_most`; says whether one is.
///
/// # Errors
/// `ECANCELED` as soon as `cancel` is cancelled.
pub(crate) fn sleep_until_any_ready(
    fds: &[(BorrowedFd<'_>, Ready)],
    cancel: Option<&Cancel>,
    at_most: Option<Duration>,
) -> Result<bool, Errno> {
    let timeout = at_most.map(|d| Timespec {
        tv_sec: d.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: d.subsec_nanos().into(),
    });
    // One fd is what nearly every wait is for; it takes no memory of the allocator.
    let mut one;
    let mut many: Vec<PollFd<'_>>;
    let polled: &mut [PollFd<'_>] = match (fds, cancel) {
        (&[(fd, ready)], None) => {
            one = [PollFd::from_borrowed_fd(fd, ready.flags())];
            &mut one
        }
        _ => {
            many = fds
                .iter()
                .map(|&(fd, ready)| PollFd::from_borrowed_fd(fd, ready.flags()))
                .chain(cancel.map(|c| PollFd::from_borrowed_fd(c.0.event.as_fd(), PollFlags::IN)))
                .collect();
            &mut many
        }
    };
    let count = uninterrupted(|| poll(polled, timeout.as_ref()))?;
    if cancel.is_some_and(Cancel::is_cancelled) {
        return Err(Errno::CANCELED);
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
    use crate::linux::Calls;

    const ALL: [Wait; 4] = [Wait::Block, Wait::Poll, Wait::Spin, Wait::Adaptive];

    #[test]
    fn every_wait_gets_every_byte() {
        for wait in ALL {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let sender = thread::spawn(move || {
                let mut writer = std::fs::File::from(writer);
                for i in 0..200u8 {
                    if i.is_multiple_of(50) {
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
    fn interruption_is_not_an_answer() {
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

    #[test]
    fn the_budget_shrinks_when_idle_and_comes_back_when_waits_are_short() {
        let mut budget = Budget::default();
        for _ in 0..20 {
            budget.slept(Duration::from_millis(10));
        }
        assert_eq!(budget.spin_for(), Duration::from_nanos(Budget::LEAST));
        let mut tries = 0;
        while budget.spin_for() < Duration::from_nanos(Budget::MOST) {
            budget.slept(Duration::from_micros(60));
            tries += 1;
        }
        assert!(tries <= Budget::PROBE_EVERY);
        for _ in 0..40 {
            budget.spun(Duration::from_micros(5));
        }
        assert!(budget.spin_for() < Duration::from_micros(40));
        assert!(budget.spin_for() >= Duration::from_micros(10));
    }
}

//! The consumer's side of a ring.

use std::cell::{Cell, RefCell};
use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::control::{Claim, Taker};
use crate::giving::TRIES_BETWEEN_LOOKS;
use crate::meeting::{self, Offer};
use crate::memory::Shared;
use crate::sleeping::{self, Looks};
use fullbore_linux as linux;
use fullbore_linux::wait::{Ready, Waiter, uninterrupted};

/// The ring of a consumer that has accepted an offer.
#[derive(Debug)]
pub(crate) struct Taking {
    shared: Shared,
    taker: Taker,
    link: OwnedFd,
    /// Claimed bytes at the end that are not released yet.
    kept: usize,
    /// Whether the producer has ended without closing the ring.
    gone: bool,
    /// Whether it has neither closed the ring nor left it to this side: it was killed, or has exited or called exec
    /// without being dropped.
    cut: bool,
    looks: Looks,
    /// The pipe, opened with `O_PATH`, which does not count as an end of it.
    pipe: Option<OwnedFd>,
}

/// The progress of a consumer towards a ring.
#[derive(Debug)]
pub(crate) enum Joining {
    /// There is no ring, and no offers are checked for.
    Never,
    /// There is no ring; it tries to connect from time to time.
    Looking { reads: u64 },
    /// It is connected to the producer, which has not made an offer yet.
    Connected { link: OwnedFd, reads: u64 },
    /// It has a ring.
    Taking(Box<Taking>),
    /// The producer of its ring was found to be dishonest, which ends the stream.
    Broken,
}

/// Where the next bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// In the pipe, as if there were no ring.
    Pipe,
    /// In the pipe, at most so many. Reading must not wait, because another process may have read them.
    Queued(usize),
    /// In this part of the ring, which is claimed.
    Claimed(Range<usize>),
}

impl Joining {
    /// Returns whether the pipe is read as if there were no ring.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Joining::Never | Joining::Looking { .. })
    }

    /// Returns the ring, if there is one.
    pub(crate) fn ring(&self) -> Option<&Taking> {
        match self {
            Joining::Taking(taking) => Some(taking),
            _ => None,
        }
    }

    /// As [`ring`](Self::ring).
    pub(crate) fn ring_mut(&mut self) -> Option<&mut Taking> {
        match self {
            Joining::Taking(taking) => Some(taking),
            _ => None,
        }
    }

    /// Returns where to read at most `most` bytes. It waits until that is known, except for [`Next::Pipe`]. Sets `cut` if
    /// the ring has ended because its producer was killed.
    ///
    /// # Errors
    /// `EPROTO` if the producer is not honest; `EPERM` in a forked child; the errors of waiting.
    pub(crate) fn next(
        &mut self,
        pipe: BorrowedFd<'_>,
        most: usize,
        waiter: &mut Waiter,
        cut: &mut bool,
    ) -> Result<Next, Errno> {
        loop {
            match self {
                Joining::Never => return Ok(Next::Pipe),
                Joining::Broken => return Err(Errno::PROTO),
                Joining::Looking { reads } => {
                    *reads += 1;
                    let reads = *reads;
                    match reads.is_power_of_two().then(|| meeting::connect(pipe)) {
                        Some(Some(link)) => *self = Joining::Connected { link, reads },
                        _ => return Ok(Next::Pipe),
                    }
                }
                Joining::Connected { link, reads } => {
                    let (link, reads) = (link.as_fd(), *reads);
                    let answer = waiter.until(
                        || look_for_an_offer(|| queued(pipe), || meeting::receive(link), most),
                        |waiter| {
                            waiter
                                .poll(&[(link, PollFlags::IN), (pipe, PollFlags::IN)], None)
                                .map(drop)
                        },
                    )?;
                    match answer {
                        Answer::Bytes(next) => return Ok(next),
                        Answer::Offer(offer) => self.take_up(offer, pipe),
                        Answer::Refused => *self = Joining::Looking { reads },
                    }
                }
                Joining::Taking(taking) => match taking.next(pipe, most, waiter) {
                    Ok(Some(next)) => return Ok(next),
                    Ok(None) => {
                        *cut = taking.cut;
                        *self = Joining::Looking { reads: 1 };
                    }
                    Err(Errno::PROTO) => {
                        *self = Joining::Broken;
                    }
                    Err(errno) => return Err(errno),
                },
            }
        }
    }

    /// Accepts the ring that was offered. If this fails, the producer sees the connection close, and takes back the
    /// bytes in the ring.
    fn take_up(&mut self, (size, files): Offer, pipe: BorrowedFd<'_>) {
        let Joining::Connected { link, .. } = mem::replace(self, Joining::Never) else {
            return;
        };
        if let Ok(shared) = Shared::accept(&files, size) {
            *self = Joining::Taking(Box::new(Taking {
                taker: Taker::new(size as u64),
                shared,
                link,
                kept: 0,
                gone: false,
                cut: false,
                looks: Looks::new(),
                pipe: open_pipe(pipe, OFlags::PATH).ok(),
            }));
        }
    }
}

/// What a connected consumer finds. The model check has its own type of offer.
#[derive(Debug)]
pub(crate) enum Answer<O> {
    Bytes(Next),
    Offer(O),
    Refused,
}

/// Checks for an offer, and for bytes in the pipe that were written before one.
pub(crate) fn look_for_an_offer<O>(
    queued: impl FnOnce() -> Result<Queued, Errno>,
    receive: impl FnOnce() -> Result<O, Errno>,
    most: usize,
) -> Result<Answer<O>, Errno> {
    // If these bytes were written after an offer, the offer has arrived by now.
    let queued = queued()?;
    match (receive(), queued) {
        (Ok(offer), _) => Ok(Answer::Offer(offer)),
        (Err(Errno::AGAIN), Queued::Nothing) => Err(Errno::AGAIN),
        (Err(Errno::AGAIN), Queued::Bytes(n)) => Ok(Answer::Bytes(Next::Queued(n.min(most)))),
        (Err(Errno::AGAIN), Queued::End) => Ok(Answer::Bytes(Next::Pipe)),
        (Err(_), _) => Ok(Answer::Refused),
    }
}

/// The contents of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    Bytes(usize),
    Nothing,
    /// Nothing, and no writer is left.
    End,
}

fn queued(pipe: BorrowedFd<'_>) -> Result<Queued, Errno> {
    if !linux::is_ready(pipe, Ready::ToRead)? {
        return Ok(Queued::Nothing);
    }
    match uninterrupted(|| rustix::io::ioctl_fionread(pipe))? {
        0 if linux::is_closed(pipe)? => Ok(Queued::End),
        // Another process has read them.
        0 => Ok(Queued::Nothing),
        n => Ok(Queued::Bytes(usize::try_from(n).unwrap_or(usize::MAX))),
    }
}

impl Taking {
    /// Returns claimed bytes, which an honest producer does not write to.
    #[inline]
    pub(crate) fn claimed(&self, range: Range<usize>) -> &[u8] {
        &self.shared.bytes()[range]
    }

    /// Copies claimed bytes.
    pub(crate) fn copy(&self, range: Range<usize>, into: &mut [u8]) {
        self.shared.copy(range, into);
    }

    /// Releases all claimed bytes but the last `kept`.
    #[inline]
    pub(crate) fn release(&mut self, kept: usize) {
        self.kept = kept;
        if let Some(sleep) = self.taker.release(self.shared.control(), kept as u64) {
            sleeping::wake(self.shared.producer(), sleep, self.link.as_fd());
        }
    }

    /// Records that the last `kept` of the claimed bytes were not consumed yet.
    #[inline]
    pub(crate) fn keep(&mut self, kept: usize) {
        self.kept = kept;
    }

    /// Closes the ring, and returns its bytes. A running producer keeps what it publishes meanwhile.
    pub(crate) fn claim_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // The first claim gets the bytes seen before, and the second all bytes published by now.
        for _ in 0..2 {
            if !self.shared.is_here() {
                continue;
            }
            if let Ok(Found::Next(Next::Claimed(range))) = self.claim(usize::MAX) {
                let from = all.len();
                all.resize(from + range.len(), 0);
                self.copy(range, &mut all[from..]);
                self.release(0);
            }
        }
        // A producer may have published more since, and left it to this side.
        let owned = self.end();
        let (from, start) = (all.len(), self.position());
        all.resize(from + owned, 0);
        self.copy(start..start + owned, &mut all[from..]);
        all
    }

    /// Returns where the first byte is that was not released.
    fn position(&self) -> usize {
        ((self.taker.claimed() - self.kept as u64) % self.shared.size() as u64) as usize
    }

    /// Closes the ring, and returns how many of its bytes are this side's, because no producer will take them back.
    fn end(&mut self) -> usize {
        if !self.shared.is_here() {
            return 0;
        }
        let (control, kept) = (self.shared.control(), self.kept as u64);
        let (left, wakes) = self.taker.close(control, kept);
        if let Some(sleep) = wakes {
            sleeping::wake(self.shared.producer(), sleep, self.link.as_fd());
        }
        // Once the ring is closed, a running producer writes the rest into the pipe.
        let is_anything_left = left.is_some_and(|left| left > 0);
        let is_alone = || self.taker.is_left_to_this_side() || meeting::is_gone(self.link.as_fd());
        let owned =
            (is_anything_left && is_alone()).then(|| self.taker.own_the_rest(control, kept));
        owned.flatten().unwrap_or(0) as usize
    }

    /// Claims at most `most` bytes.
    ///
    /// # Errors
    /// `EPROTO` if the producer is not honest.
    #[inline]
    fn claim(&mut self, most: usize) -> Result<Found, Errno> {
        let start = (self.taker.claimed() % self.shared.size() as u64) as usize;
        Ok(
            match self.taker.claim(self.shared.control(), most as u64)? {
                Claim::Bytes(n) => {
                    self.kept = n as usize;
                    Found::Next(Next::Claimed(start..start + n as usize))
                }
                Claim::Nothing => Found::Nothing,
                Claim::Closed => Found::End,
            },
        )
    }

    /// Checks for bytes in the ring, and then also in the pipe, where they can only be those of another writer.
    fn claim_or_look(&mut self, pipe: BorrowedFd<'_>, most: usize) -> Result<Found, Errno> {
        self.gone |= meeting::has_exited(self.link.as_fd());
        let queued = queued(pipe)?;
        // No writer is left, so the producer has exited, too.
        self.gone |= queued == Queued::End;
        // Bytes that were published before the other writer wrote, or before the producer ended, come first. So the
        // ring is checked once more.
        match (self.claim(most)?, queued) {
            (Found::Nothing, Queued::Bytes(n)) => Ok(Found::Next(Next::Queued(n.min(most)))),
            (Found::Nothing, _) if self.gone => {
                let (closed, _) = self.taker.close(self.shared.control(), 0);
                self.cut = closed.is_some() && !self.taker.is_left_to_this_side();
                Ok(Found::End)
            }
            (found, _) => Ok(found),
        }
    }

    /// Returns where the next bytes are, once there are any; `None` if the ring is closed.
    #[inline]
    fn next(
        &mut self,
        pipe: BorrowedFd<'_>,
        most: usize,
        waiter: &mut Waiter,
    ) -> Result<Option<Next>, Errno> {
        if !self.shared.is_here() {
            return Err(Errno::PERM);
        }
        self.release(0);
        match self.claim(most)? {
            Found::Next(next) => return Ok(Some(next)),
            Found::End => return Ok(None),
            Found::Nothing => {}
        }
        let this = RefCell::new(self);
        let has_slept = Cell::new(false);
        let mut tries = 0u32;
        waiter.until(
            || {
                let mut this = this.borrow_mut();
                tries = tries.wrapping_add(1);
                let looks = has_slept.take() || tries % TRIES_BETWEEN_LOOKS == 0;
                let found = match this.claim(most)? {
                    Found::Nothing if looks => this.claim_or_look(pipe, most)?,
                    found => found,
                };
                match found {
                    Found::Next(next) => Ok(Some(next)),
                    Found::End => Ok(None),
                    Found::Nothing => Err(Errno::AGAIN),
                }
            },
            |waiter| {
                has_slept.set(true);
                let mut this = this.borrow_mut();
                let Taking {
                    shared,
                    taker,
                    link,
                    looks,
                    ..
                } = &mut **this;
                let is_there = || shared.control().is_published(taker.claimed());
                let fds = [(link.as_fd(), PollFlags::IN), (pipe, PollFlags::IN)];
                sleeping::sleep(looks, shared.consumer(), waiter, is_there, &fds)
            },
        )
    }
}

/// The result of a check.
#[derive(Debug)]
enum Found {
    Next(Next),
    Nothing,
    /// The ring will have no more bytes.
    End,
}

impl Drop for Taking {
    fn drop(&mut self) {
        match self.end() {
            0 => {}
            left => self.put_back(left),
        }
    }
}

impl Taking {
    /// Acts for a producer that has exited: writes the unconsumed bytes into the pipe, as far as there is room, which
    /// is as much as the pipe would have held. Bytes of another writer in the pipe would come before them, so then
    /// nothing is written.
    fn put_back(&self, left: usize) {
        let Some(pipe) = &self.pipe else {
            return;
        };
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let Ok(end) = open_pipe(pipe.as_fd(), flags) else {
            return;
        };
        if !uninterrupted(|| rustix::io::ioctl_fionread(&end)).is_ok_and(|queued| queued == 0) {
            return;
        }
        let start = self.position();
        let mut bytes = vec![0; left];
        self.shared.copy(start..start + left, &mut bytes);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            // No reader may be left.
            let write = || uninterrupted(|| rustix::io::write(&end, rest));
            match linux::without_sigpipe(write) {
                Ok(n) => rest = &rest[n..],
                Err(_) => return,
            }
        }
    }
}

/// Reopens a pipe.
fn open_pipe(pipe: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let open = || rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
    linux::not_standard(uninterrupted(open)?)
}

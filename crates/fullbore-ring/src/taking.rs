//! The consumer's side of a ring.

use std::cell::{Cell, RefCell};
use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::control::{Claim, Taker};
use crate::giving::{TRIES_BETWEEN_LOOKS, broken};
use crate::meeting::{self, Offer, Peer};
use crate::memory::Shared;
use crate::sleeping::{self, Looks};
use fullbore_linux as linux;
use fullbore_linux::wait::{Ready, Waiter, uninterrupted};

/// The ring of a consumer that was offered one.
#[derive(Debug)]
pub(crate) struct Taking {
    shared: Shared,
    taker: Taker,
    link: OwnedFd,
    /// Claimed bytes at the end that are not released yet.
    kept: usize,
    /// Whether the producer has ended without closing the ring.
    gone: bool,
    looks: Looks,
    /// The pipe, opened with `O_PATH`, which is no end of it.
    pipe: Option<OwnedFd>,
}

/// How far a consumer is on its way to a ring.
#[derive(Debug)]
pub(crate) enum Joining {
    /// No ring exists or is looked for.
    Never,
    /// No ring exists; offers are looked for from time to time.
    Looking { reads: u64 },
    /// It is connected to the producer, which has not offered one yet.
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

    /// Returns where to read at most `most` bytes, and waits until it knows, except for [`Next::Pipe`].
    ///
    /// # Errors
    /// `EPROTO` if the producer is not honest; `EPERM` in a forked child; the errors of waiting.
    pub(crate) fn next(
        &mut self,
        pipe: BorrowedFd<'_>,
        most: usize,
        waiter: &mut Waiter,
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
                        |waiter| waiter.sleep_on(&[(link, PollFlags::IN), (pipe, PollFlags::IN)]),
                    )?;
                    match answer {
                        Answer::Bytes(next) => return Ok(next),
                        Answer::Offer(offer) => self.take_up(offer, pipe),
                        Answer::Refused => *self = Joining::Looking { reads },
                    }
                }
                Joining::Taking(taking) => match taking.next(pipe, most, waiter) {
                    Ok(Some(next)) => return Ok(next),
                    Ok(None) => *self = Joining::Looking { reads: 1 },
                    Err(Errno::PROTO) => {
                        *self = Joining::Broken;
                    }
                    Err(errno) => return Err(errno),
                },
            }
        }
    }

    /// Takes up the ring that was offered. If this fails, the producer sees the connection end, and
    /// takes back what it has put into the ring.
    fn take_up(&mut self, offer: Offer, pipe: BorrowedFd<'_>) {
        let Joining::Connected { link, .. } = mem::replace(self, Joining::Never) else {
            return;
        };
        if let Ok(shared) = Shared::accept(&offer.files, offer.size) {
            *self = Joining::Taking(Box::new(Taking {
                taker: Taker::new(offer.size as u64),
                shared,
                link,
                kept: 0,
                gone: false,
                looks: Looks::new(),
                pipe: open_pipe(pipe, OFlags::PATH).ok(),
            }));
        }
    }
}

/// What a connected consumer finds. The model check has an offer of its own.
#[derive(Debug)]
pub(crate) enum Answer<O> {
    Bytes(Next),
    Offer(O),
    Refused,
}

/// Looks for an offer, and for bytes in the pipe that were written before one.
pub(crate) fn look_for_an_offer<O>(
    queued: impl FnOnce() -> Result<Queued, Errno>,
    receive: impl FnOnce() -> Result<O, Errno>,
    most: usize,
) -> Result<Answer<O>, Errno> {
    // An offer that was sent before these bytes were written is there when they are.
    let queued = queued()?;
    match (receive(), queued) {
        (Ok(offer), _) => Ok(Answer::Offer(offer)),
        (Err(Errno::AGAIN), Queued::Nothing) => Err(Errno::AGAIN),
        (Err(Errno::AGAIN), Queued::Bytes(n)) => Ok(Answer::Bytes(Next::Queued(n.min(most)))),
        (Err(Errno::AGAIN), Queued::End) => Ok(Answer::Bytes(Next::Pipe)),
        (Err(_), _) => Ok(Answer::Refused),
    }
}

/// What is in a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    Bytes(usize),
    Nothing,
    /// Nothing, and there is no writer.
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

    /// Claims all that there is, and returns it.
    pub(crate) fn claim_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // The first claim is of what was seen before, and the second of all that is there now.
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
        all
    }

    /// Claims at most `most` bytes.
    ///
    /// # Errors
    /// `EPROTO` if the producer is not honest.
    #[inline]
    fn claim(&mut self, most: usize) -> Result<Found, Errno> {
        let start = (self.taker.claimed() % self.shared.size() as u64) as usize;
        match self.taker.claim(self.shared.control(), most as u64) {
            Ok(Claim::Bytes(n)) => {
                self.kept = n as usize;
                Ok(Found::Next(Next::Claimed(start..start + n as usize)))
            }
            Ok(Claim::Nothing) => Ok(Found::Nothing),
            Ok(Claim::Closed) => Ok(Found::End),
            Err(error) => Err(broken(error)),
        }
    }

    /// Looks for bytes in the ring, and then also in the pipe, where only another writer than the
    /// producer can have put some.
    fn claim_or_look(&mut self, pipe: BorrowedFd<'_>, most: usize) -> Result<Found, Errno> {
        self.gone |= meeting::is_woken(self.link.as_fd()) == Peer::Gone;
        let queued = queued(pipe)?;
        // All writers are gone, the producer among them.
        self.gone |= queued == Queued::End;
        // What was published before the bytes were written into the pipe, or before the producer
        // ended, comes first. So the ring is looked at once more.
        match (self.claim(most)?, queued) {
            (Found::Nothing, Queued::Bytes(n)) => Ok(Found::Next(Next::Queued(n.min(most)))),
            (Found::Nothing, _) if self.gone => {
                self.taker.close(self.shared.control(), 0);
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

/// The answer of a look.
#[derive(Debug)]
enum Found {
    Next(Next),
    Nothing,
    /// Nothing will follow in the ring.
    End,
}

impl Drop for Taking {
    fn drop(&mut self) {
        if !self.shared.is_here() {
            return;
        }
        let closing = self.taker.close(self.shared.control(), self.kept as u64);
        if let Some(sleep) = closing.wakes {
            sleeping::wake(self.shared.producer(), sleep, self.link.as_fd());
        }
        // Once the ring is closed, a producer that is there puts into the pipe what is left.
        let is_anything_left = closing.left.is_some_and(|left| left > 0);
        let is_alone = || self.taker.is_left_to_this_side() || meeting::is_gone(self.link.as_fd());
        if is_anything_left && is_alone() {
            let (control, kept) = (self.shared.control(), self.kept as u64);
            if let Some(left) = self.taker.own_the_rest(control, kept) {
                self.put_back(left as usize);
            }
        }
    }
}

impl Taking {
    /// Does for a producer that is gone what it would have done: writes what the consumer has not consumed
    /// into the pipe, as far as there is room, which is as much as a pipe would have held. If there is
    /// something else in the pipe, it would come before these bytes, so they are not written.
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
        let position = self.taker.claimed() - self.kept as u64;
        let start = (position % self.shared.size() as u64) as usize;
        let mut bytes = vec![0; left];
        self.shared.copy(start..start + left, &mut bytes);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            // The source may be closed by now.
            let write = || uninterrupted(|| rustix::io::write(&end, rest));
            match linux::without_sigpipe(write) {
                Ok(n) => rest = &rest[n..],
                Err(_) => return,
            }
        }
    }
}

/// Opens a pipe once more.
fn open_pipe(pipe: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let open = || rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
    linux::not_standard(uninterrupted(open)?)
}

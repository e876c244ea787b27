//! *reference*: tee(2) duplicates the bytes at the head of a pipe into each sink, and splice(2) moves
//! the head forward.
//!
//! tee(2) always begins at the head. So a sink that got more than another is *ahead*, and gets
//! nothing until the head has caught up with it. One sink, the *mover*, gets its bytes by
//! splice(2). That moves the head forward, by no more than all others have got.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::head::{Advanced, Duplicated, Filled, Head, is_at_end};
use super::line::Line;
use super::splitting::{Branch, Broken, Splitting};
use crate::memory;
use crate::transfer::{Ended, Kind, direct, has_flag};
use fullbore_linux::error::Error;
use fullbore_linux::pipe::Pipe;
use fullbore_linux::wait::{Ready, Waiter, uninterrupted};
use fullbore_linux::{self as linux, can_be, is_ready};

/// The state of *reference* between two rounds.
pub(super) struct Referring {
    null: OwnedFd,
    head: Head,
    lines: Vec<Line>,
    mover: Option<usize>,
    grown: bool,
}

impl Referring {
    /// Returns the number of bytes that were taken from the source and are still at the head.
    pub(super) fn held(&self) -> u64 {
        self.head.own.as_ref().map_or(0, |own| own.held as u64)
    }
}

/// The result of one round.
#[derive(Default)]
struct Round {
    /// Whether any byte moved.
    moved: bool,
    /// Whether the source has ended.
    at_end: bool,
}

impl Splitting<'_> {
    /// Sets up moving bytes by reference; returns `None` if the kernel cannot do that with these
    /// fds.
    pub(super) fn referring(&self) -> Option<Referring> {
        let null = linux::null().ok()?;
        let own = match self.state.source_kind {
            Kind::Pipe => None,
            // If no pipe can be made (EMFILE), bytes can still be copied.
            Kind::Regular | Kind::Block | Kind::UnixStream | Kind::Tcp => {
                Some(self.own_pipe().ok()?)
            }
            _ => return None,
        };
        if !self.knows_splice(&null) || own.is_some() && !knows_tee().unwrap_or(false) {
            return None;
        }
        // Nothing is moved to /dev/null, so only write(2) finds out that it was opened for reading.
        let cannot_be_written = |i: usize| {
            let is_null = self.state.branches[i].kind == Kind::Null;
            is_null && can_be(Ready::ToWrite, self.sinks[i]).is_err()
        };
        if (0..self.sinks.len()).any(cannot_be_written) {
            return None;
        }
        let mover = self.mover();
        Some(Referring {
            null,
            head: Head { own },
            lines: self.lines(mover).ok()?,
            mover,
            grown: false,
        })
    }

    /// Moves bytes by reference until it has to stop; returns `None` if the kernel cannot do that
    /// with these fds and nothing was taken.
    pub(super) fn refer(&mut self, referring: &mut Referring) -> Result<Option<Ended>, Broken> {
        let mut waiter = self.state.waiter.clone().never_waiting();
        loop {
            self.check_stopped()?;
            if !self.state.branches.iter().any(Branch::is_alive) {
                return Ok(Some(Ended::AtEnd));
            }
            if !referring.grown && (self.state.long || self.state.taken >= memory::FIRST as u64) {
                self.grow_sinks();
                referring.grown = true;
            }
            let Some(round) = self.go_round(referring, &mut waiter)? else {
                return Ok(None);
            };
            // At the limit the head stays where it is, whoever is ahead of it: a later run may go on.
            let at_limit = self.is_at_limit();
            let is_done = |line: &Line| line.is_drained() && (at_limit || line.ahead == 0);
            let lines = &referring.lines;
            let pending =
                (0..lines.len()).any(|i| self.state.branches[i].is_alive() && !is_done(&lines[i]));
            if !pending {
                if round.at_end {
                    return Ok(Some(Ended::AtEnd));
                }
                if at_limit {
                    return Ok(Some(Ended::AtLimit));
                }
            }
            if !round.moved {
                self.wait(referring, round.at_end)?;
            }
        }
    }

    /// Tries once to fill the head, to give every sink what it has room for, and to move the head
    /// forward; returns `None` if the kernel cannot do that with these fds and nothing was taken.
    fn go_round(
        &mut self,
        referring: &mut Referring,
        waiter: &mut Waiter,
    ) -> Result<Option<Round>, Broken> {
        let Referring {
            null,
            head,
            lines,
            mover,
            ..
        } = referring;
        let mut round = Round::default();
        let at_limit = self.is_at_limit();
        if !at_limit {
            match self.fill(head, waiter)? {
                Filled::Refused if self.state.taken == 0 => return Ok(None),
                // Once the sinks have got what was taken, the rest is copied.
                Filled::Refused => round.at_end = true,
                Filled::End => round.at_end = true,
                Filled::Yes => {}
            }
        }
        for i in 0..self.state.branches.len() {
            if Some(i) == *mover || !self.state.branches[i].is_alive() {
                continue;
            }
            round.moved |= self.send_on(i, &mut lines[i], waiter)?;
            if at_limit || lines[i].ahead > 0 || !lines[i].is_drained() {
                continue;
            }
            match self.duplicate(i, &mut lines[i], head)? {
                Duplicated::Bytes => {
                    round.moved = true;
                    self.send_on(i, &mut lines[i], waiter)?;
                }
                Duplicated::End => round.at_end = true,
                Duplicated::Nothing => {}
                Duplicated::Refused(errno) => {
                    let untouched = lines.iter().all(|line| line.ahead == 0);
                    if self.state.taken == 0 && untouched && head.own.is_none() {
                        return Ok(None);
                    }
                    self.failed(i, "tee", errno)?;
                }
            }
        }
        if !at_limit {
            match self.advance(mover, lines, head, null, waiter)? {
                Advanced::By(n) => round.moved |= n > 0,
                Advanced::End => round.at_end = true,
            }
        }
        // While a sink is full, neither tee(2) nor splice(2) reports the end.
        if !round.moved && !at_limit && head.own.is_none() && is_at_end(self.source)? {
            round.at_end = true;
            // What some sinks are ahead by is not there any more: another reader has taken it.
            lines.iter_mut().for_each(|line| line.ahead = 0);
        }
        Ok(Some(round))
    }

    /// Returns the sink that gets its bytes by splice(2), preferably one that would need a pipe of
    /// its own otherwise.
    fn mover(&self) -> Option<usize> {
        // splice(2) from a pipe into a file holds the pipe's lock until the file has accepted the
        // bytes, and every writer of that pipe waits as long.
        let locks = |i: usize| {
            let is_file = matches!(self.state.branches[i].kind, Kind::Regular | Kind::Block);
            is_file && self.state.source_kind == Kind::Pipe
        };
        let can = |i: &usize| self.can_be_spliced_to(*i) && !locks(*i);
        let others = (0..self.state.branches.len())
            .filter(|&i| !matches!(self.state.branches[i].kind, Kind::Pipe | Kind::Null));
        let pipes =
            (0..self.state.branches.len()).filter(|&i| self.state.branches[i].kind == Kind::Pipe);
        others.filter(can).chain(pipes).next()
    }

    /// Returns whether splice(2) can send to sink `i` without waiting.
    fn can_be_spliced_to(&self, i: usize) -> bool {
        let branch = &self.state.branches[i];
        match branch.kind {
            Kind::Regular | Kind::Block => !direct::appends(self.sinks[i]),
            Kind::UnixStream | Kind::Tcp => has_flag(self.sinks[i], OFlags::NONBLOCK),
            Kind::Pipe | Kind::Null => true,
            Kind::Char | Kind::Other => false,
        }
    }

    fn lines(&self, mover: Option<usize>) -> Result<Vec<Line>, Error> {
        let line = |i: usize| -> Result<Line, Error> {
            let direct = matches!(self.state.branches[i].kind, Kind::Pipe | Kind::Null);
            let own = if direct || Some(i) == mover {
                None
            } else {
                Some(self.own_pipe()?)
            };
            Ok(Line::new(own, !self.can_be_spliced_to(i)))
        };
        (0..self.state.branches.len()).map(line).collect()
    }

    /// Sleeps until bytes can be moved again.
    fn wait(&mut self, referring: &Referring, at_end: bool) -> Result<(), Broken> {
        let Referring {
            head, lines, mover, ..
        } = referring;
        let at_limit = self.is_at_limit();
        let there_is_some = match &head.own {
            // poll(2) also says that a pipe is ready at its end.
            _ if at_limit || at_end => false,
            Some(own) => own.held > 0,
            None => is_ready(self.source, Ready::ToRead)
                .map_err(|errno| Broken::Source("poll", errno))?,
        };
        let mut waited = Vec::with_capacity(lines.len() + 1);
        if !there_is_some && !at_end && !at_limit {
            waited.push(None);
        }
        let mover = mover.filter(|&i| self.state.branches[i].is_alive());
        let everybody_is_ahead = (0..lines.len())
            .filter(|&i| Some(i) != mover && self.is_in_line(i))
            .all(|i| lines[i].ahead > 0);
        for (i, line) in lines.iter().enumerate() {
            let wants = if Some(i) == mover {
                there_is_some && everybody_is_ahead
            } else {
                !line.is_drained() || there_is_some && line.ahead == 0
            };
            if wants && self.is_in_line(i) {
                waited.push(Some(i));
            }
        }
        if waited.is_empty() {
            // Bytes have arrived in the meantime, and there is room for them.
            return Ok(());
        }
        self.wait_for(&waited)
    }
}

impl Splitting<'_> {
    /// Returns whether splice(2) can be used at all: a kernel or a sandbox may refuse it. This has
    /// to be known before tee(2) has given a sink any bytes.
    fn knows_splice(&self, null: &OwnedFd) -> bool {
        uninterrupted(|| {
            rustix::pipe::splice(self.source, None, null, None, 0, SpliceFlags::NONBLOCK)
        })
        .is_ok()
    }
}

/// Returns whether tee(2) can be used at all: a kernel or a sandbox may refuse it.
fn knows_tee() -> Result<bool, Error> {
    let (from, to) = (Pipe::new()?, Pipe::new()?);
    let answer = rustix::pipe::tee(&from.reader, &to.writer, 1, SpliceFlags::NONBLOCK);
    Ok(answer == Err(Errno::AGAIN))
}

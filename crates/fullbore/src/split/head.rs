//! The head: the bytes that tee(2) duplicates next. They are in the source or in a pipe of the tee
//! itself.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::SpliceFlags;

use super::line::Line;
use super::splitting::{Broken, Splitting};
use crate::transfer::through::OwnPipe;
use crate::transfer::{Ends, Kind, Route, Stop, direct};
use fullbore_linux::error::Side;
use fullbore_linux::wait::{Waiter, uninterrupted};

/// A number of bytes that is larger than most pipes.
const ALL: usize = 16 << 20;

/// The pipe that holds the next bytes.
pub(super) struct Head {
    /// A pipe of the tee itself, if the source is not a pipe.
    pub(super) own: Option<OwnPipe>,
}

pub(super) enum Filled {
    /// There are bytes at the head, or they have to be waited for.
    Yes,
    End,
    Refused,
}

pub(super) enum Duplicated {
    Bytes,
    Nothing,
    End,
    Refused(Errno),
}

pub(super) enum Advanced {
    By(usize),
    End,
}

impl Splitting<'_> {
    /// Fills the tee's own pipe, if there is one and it is empty.
    pub(super) fn fill(&mut self, head: &mut Head, waiter: &mut Waiter) -> Result<Filled, Broken> {
        let most = self.most(ALL);
        let Some(own) = head.own.as_mut().filter(|own| own.held == 0) else {
            return Ok(Filled::Yes);
        };
        match own.fill(waiter, (self.source, self.state.source_kind), None, most) {
            Ok(0) => Ok(Filled::End),
            Ok(_) => Ok(Filled::Yes),
            Err(Stop::At(_, _, Errno::AGAIN)) => Ok(Filled::Yes),
            Err(Stop::At(_, _, errno)) if direct::is_refused(Route::Splice, errno) => {
                Ok(Filled::Refused)
            }
            Err(stop) => Err(stop.into()),
        }
    }

    /// Duplicates what is at the head for sink `i`, which is not ahead.
    pub(super) fn duplicate(
        &mut self,
        i: usize,
        line: &mut Line,
        head: &Head,
    ) -> Result<Duplicated, Broken> {
        if self.state.branches[i].kind == Kind::Null {
            return Ok(Duplicated::Nothing);
        }
        let most = self
            .most(ALL)
            .min(head.own.as_ref().map_or(ALL, |own| own.held));
        if most == 0 {
            return Ok(Duplicated::Nothing);
        }
        let from = head
            .own
            .as_ref()
            .map_or(self.source, |own| own.pipe.reader.as_fd());
        let to = match &line.own {
            Some(own) => own.pipe.writer.as_fd(),
            None => self.sinks[i],
        };
        match uninterrupted(|| rustix::pipe::tee(from, to, most, SpliceFlags::NONBLOCK)) {
            // tee(2) also returns 0 if another process has filled the sink in the meantime
            // (link_pipe, fs/splice.c).
            Ok(0) if is_at_end(from)? => Ok(Duplicated::End),
            Ok(0) => Ok(Duplicated::Nothing),
            Ok(n) => {
                line.ahead = n;
                match &mut line.own {
                    Some(own) => own.held = n,
                    None => self.state.branches[i].bytes += n as u64,
                }
                Ok(Duplicated::Bytes)
            }
            Err(Errno::AGAIN) => Ok(Duplicated::Nothing),
            // tee(2) checks for a reader of the sink before it checks for bytes.
            Err(Errno::PIPE) if is_at_end(from)? => Ok(Duplicated::End),
            Err(errno) if direct::is_refused(Route::Splice, errno) => {
                Ok(Duplicated::Refused(errno))
            }
            Err(errno) => {
                self.failed(i, "tee", errno)?;
                Ok(Duplicated::Nothing)
            }
        }
    }

    /// Moves the head forward past the bytes that every sink has got.
    pub(super) fn advance(
        &mut self,
        moving: &mut Option<usize>,
        lines: &mut [Line],
        head: &mut Head,
        null: &OwnedFd,
        waiter: &mut Waiter,
    ) -> Result<Advanced, Broken> {
        let mover = moving.filter(|&i| self.state.branches[i].is_alive());
        let least = (0..lines.len())
            .filter(|&i| Some(i) != mover && self.is_in_line(i))
            .map(|i| lines[i].ahead)
            .min();
        let held = head.own.as_ref().map_or(ALL, |own| own.held);
        let most = self.most(ALL).min(held).min(least.unwrap_or(ALL));
        if most == 0 {
            return Ok(Advanced::By(0));
        }
        let ends = Ends {
            source: head
                .own
                .as_ref()
                .map_or(self.source, |own| own.pipe.reader.as_fd()),
            sink: mover.map_or(null.as_fd(), |i| self.sinks[i]),
            source_kind: Kind::Pipe,
            sink_kind: mover.map_or(Kind::Null, |i| self.state.branches[i].kind),
        };
        let n = match direct::splice(waiter, &ends, None, None, most) {
            Ok(0) => {
                let has_more = !self.is_empty(head)?;
                let Some(i) = mover.filter(|_| has_more) else {
                    return Ok(Advanced::End);
                };
                // The sink may not support splice(2): a write(2) shows whether it is that.
                self.write_from_now_on(&mut lines[i])?;
                *moving = None;
                return Ok(Advanced::By(0));
            }
            Ok(n) => n,
            Err(Stop::At(_, _, Errno::AGAIN)) => return Ok(Advanced::By(0)),
            Err(Stop::Ended(stopped)) => return Err(Broken::Ended(stopped.into())),
            Err(Stop::At(_, _, Errno::PIPE)) if head.own.is_none() && is_at_end(self.source)? => {
                return Ok(Advanced::End);
            }
            Err(Stop::At(side, operation, errno)) => {
                match mover {
                    Some(i) if direct::is_refused(Route::Splice, errno) => {
                        self.write_from_now_on(&mut lines[i])?;
                        *moving = None;
                    }
                    Some(i) if side == Side::Sink => self.failed(i, operation, errno)?,
                    _ => return Err(Broken::Source(operation, errno)),
                }
                return Ok(Advanced::By(0));
            }
            Err(Stop::Other(error)) => return Err(error.into()),
        };
        if let Some(own) = &mut head.own {
            own.held -= n;
        }
        self.state.taken += n as u64;
        for (i, line) in lines.iter_mut().enumerate() {
            line.ahead = line.ahead.saturating_sub(n);
            let branch = &mut self.state.branches[i];
            if branch.is_alive() && (Some(i) == mover || branch.kind == Kind::Null) {
                branch.bytes += n as u64;
            }
        }
        Ok(Advanced::By(n))
    }

    /// Returns whether the head is empty and will stay empty.
    fn is_empty(&self, head: &Head) -> Result<bool, Broken> {
        match &head.own {
            Some(own) => Ok(own.held == 0),
            None => is_at_end(self.source),
        }
    }

    /// Returns whether the head waits for sink `i`. It does not wait for a dropped sink or for
    /// `/dev/null`.
    pub(super) fn is_in_line(&self, i: usize) -> bool {
        self.state.branches[i].is_alive() && self.state.branches[i].kind != Kind::Null
    }
}

/// Returns whether a pipe is empty and has no writer any more.
pub(super) fn is_at_end(pipe: BorrowedFd<'_>) -> Result<bool, Broken> {
    let at_once = Timespec::default();
    let mut fds = [PollFd::from_borrowed_fd(pipe, PollFlags::empty())];
    let end = uninterrupted(|| poll(&mut fds, Some(&at_once)))
        // Without a writer, the number of queued bytes can only fall.
        .and_then(|_| Ok(fds[0].revents().contains(PollFlags::HUP) && ioctl_fionread(pipe)? == 0));
    end.map_err(|errno| Broken::Source("tee", errno))
}

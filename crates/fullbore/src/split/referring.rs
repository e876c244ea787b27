//! *reference*: tee(2) duplicates what is at the head of a pipe into each sink, and splice(2) moves it
//! on.
//!
//! tee(2) always begins at the head. So a sink that got more than another is *ahead*, and gets nothing
//! until the head has caught up with it. One sink, the *mover*, gets its bytes by splice(2), which is
//! what advances the head, by no more than all others have got.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::SpliceFlags;

use super::{Broken, Splitting};
use crate::error::{Error, Side};
use crate::linux::is_ready;
use crate::memory;
use crate::pipe::Pipe;
use crate::produce::stage::Stage;
use crate::transfer::through::OwnPipe;
use crate::transfer::{Ended, Ends, Kind, Stop, Way, direct, has_flag};
use crate::wait::{Ready, Waiter, uninterrupted};

/// More than any pipe usually holds.
const ALL: usize = 16 << 20;

/// Where the bytes lie that are handed on next.
struct Head {
    /// A pipe of our own, where the source is none.
    own: Option<OwnPipe>,
}

/// How one sink gets its bytes.
struct Line {
    /// Bytes from the head on that it, or its own pipe, has got.
    ahead: usize,
    /// A sink that is no pipe gets them through one of its own.
    own: Option<OwnPipe>,
    /// What is read from there, where it cannot be spliced on.
    stage: Option<(Stage, usize)>,
}

/// Whether a try did something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Moved,
    Nothing,
}

impl Splitting<'_> {
    /// Hands references on; `None` where the kernel does not do that here, and nothing was taken.
    pub(super) fn refer(&mut self) -> Result<Option<Ended>, Broken> {
        let null = match File::options().write(true).open("/dev/null") {
            Ok(null) => OwnedFd::from(null),
            Err(_) => return Ok(None),
        };
        let mut head = match self.source_kind {
            Kind::Pipe => Head { own: None },
            Kind::Regular | Kind::Block | Kind::UnixStream | Kind::Tcp => match self.own_pipe() {
                Ok(own) => Head { own: Some(own) },
                // No pipe to be had (EMFILE): copying does without.
                Err(_) => return Ok(None),
            },
            _ => return Ok(None),
        };
        if !self.knows_splice(&null) || head.own.is_some() && !knows_tee().unwrap_or(false) {
            return Ok(None);
        }
        let outcome = self.hand_on(&mut head, &null);
        // What has left the source and no sink will get.
        self.taken += head.own.map_or(0, |own| own.held as u64);
        outcome
    }

    fn own_pipe(&self) -> Result<OwnPipe, Error> {
        OwnPipe::new(self.options.pipe_size())
    }

    fn hand_on(&mut self, head: &mut Head, null: &OwnedFd) -> Result<Option<Ended>, Broken> {
        let mut mover = self.mover();
        let Ok(mut lines) = self.lines(mover) else {
            return Ok(None);
        };
        let mut waiter = self.waiter.clone().never_waiting();
        let mut grown = false;
        loop {
            self.check_cancelled()?;
            if !self.branches.iter().any(|branch| branch.is_alive()) {
                return Ok(Some(Ended::AtEnd));
            }
            if !grown && (self.long || self.taken >= memory::FIRST as u64) {
                self.grow_sinks();
                grown = true;
            }
            let mut tried = Tried::Nothing;
            let at_limit = self.is_at_limit();
            let mut at_end = false;
            if !at_limit {
                match self.fill(head, &mut waiter)? {
                    Filled::Refused(_) if self.taken == 0 => return Ok(None),
                    Filled::Refused(errno) => return Err(Broken::Source("splice", errno)),
                    Filled::End => at_end = true,
                    Filled::Yes => {}
                }
            }
            for i in 0..self.branches.len() {
                if Some(i) == mover || !self.branches[i].is_alive() {
                    continue;
                }
                let mut moved = self.send_on(i, &mut lines[i], &mut waiter)?;
                if lines[i].ahead == 0 && !at_limit && lines[i].is_drained() {
                    match self.duplicate(i, &mut lines[i], head)? {
                        Duplicated::Bytes => {
                            moved = Tried::Moved;
                            self.send_on(i, &mut lines[i], &mut waiter)?;
                        }
                        Duplicated::End => at_end = true,
                        Duplicated::Nothing => {}
                        Duplicated::Refused(errno) => {
                            let untouched = lines.iter().all(|line| line.ahead == 0);
                            if self.taken == 0 && untouched && head.own.is_none() {
                                return Ok(None);
                            }
                            self.failed(i, "tee", errno)?;
                        }
                    }
                }
                if moved == Tried::Moved {
                    tried = Tried::Moved;
                }
            }
            if !at_limit {
                match self.advance(&mut mover, &mut lines, head, null, &mut waiter)? {
                    Advanced::By(0) => {}
                    Advanced::By(_) => tried = Tried::Moved,
                    Advanced::End => at_end = true,
                }
            }
            // Neither tee(2) nor splice(2) says that there is nothing more while a sink is full.
            if tried == Tried::Nothing && !at_limit && head.own.is_none() {
                at_end |= is_at_end(self.source)?;
            }
            let pending =
                (0..lines.len()).any(|i| self.branches[i].is_alive() && !lines[i].is_done());
            if !pending {
                if at_end {
                    return Ok(Some(Ended::AtEnd));
                }
                if self.is_at_limit() {
                    return Ok(Some(Ended::AtLimit));
                }
            }
            if tried == Tried::Nothing {
                self.wait(mover, &lines, head, at_end)?;
            }
        }
    }

    /// The sink that gets its bytes by splice(2): one that would need a pipe of its own otherwise.
    fn mover(&self) -> Option<usize> {
        let can = |i: &usize| self.can_be_spliced_to(*i);
        let others = (0..self.branches.len())
            .filter(|&i| !matches!(self.branches[i].kind, Kind::Pipe | Kind::Null));
        let pipes = (0..self.branches.len()).filter(|&i| self.branches[i].kind == Kind::Pipe);
        others.filter(can).chain(pipes).next()
    }

    /// Whether a splice(2) to sink `i` can be told not to wait, and is known to the kernel.
    fn can_be_spliced_to(&self, i: usize) -> bool {
        let branch = &self.branches[i];
        match branch.kind {
            Kind::Regular | Kind::Block => !direct::appends(branch.fd),
            Kind::UnixStream | Kind::Tcp => has_flag(branch.fd, OFlags::NONBLOCK),
            Kind::Pipe | Kind::Null => true,
            Kind::Char | Kind::Other => false,
        }
    }

    fn lines(&self, mover: Option<usize>) -> Result<Vec<Line>, Error> {
        let line = |i: usize| -> Result<Line, Error> {
            let direct = matches!(self.branches[i].kind, Kind::Pipe | Kind::Null);
            let own = if direct || Some(i) == mover {
                None
            } else {
                Some(self.own_pipe()?)
            };
            let stage = own
                .as_ref()
                .filter(|_| !self.can_be_spliced_to(i))
                .map(|_| (Stage::small(memory::FIRST), 0));
            Ok(Line {
                ahead: 0,
                own,
                stage,
            })
        };
        (0..self.branches.len()).map(line).collect()
    }

    /// Fills a head of our own, once it is empty.
    fn fill(&mut self, head: &mut Head, waiter: &mut Waiter) -> Result<Filled, Broken> {
        let most = self.most(ALL);
        let Some(own) = head.own.as_mut().filter(|own| own.held == 0) else {
            return Ok(Filled::Yes);
        };
        let ends = Ends {
            source: self.source,
            sink: own.pipe.writer.as_fd(),
            source_kind: self.source_kind,
            sink_kind: Kind::Pipe,
        };
        match direct::splice(waiter, &ends, None, None, most) {
            Ok(0) => Ok(Filled::End),
            Ok(n) => {
                own.held = n;
                Ok(Filled::Yes)
            }
            Err(Stop::At(_, _, Errno::AGAIN)) => Ok(Filled::Yes),
            Err(Stop::At(_, _, errno)) if direct::is_refused(Way::Splice, errno) => {
                Ok(Filled::Refused(errno))
            }
            Err(stop) => Err(stop.into()),
        }
    }

    /// Duplicates what is at the head for sink `i`, which is not ahead.
    fn duplicate(&mut self, i: usize, line: &mut Line, head: &Head) -> Result<Duplicated, Broken> {
        if self.branches[i].kind == Kind::Null {
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
            None => self.branches[i].fd,
        };
        match uninterrupted(|| rustix::pipe::tee(from, to, most, SpliceFlags::NONBLOCK)) {
            // It says so too when somebody else has filled the sink in the meantime (link_pipe, fs/splice.c).
            Ok(0) if is_at_end(from)? => Ok(Duplicated::End),
            Ok(0) => Ok(Duplicated::Nothing),
            Ok(n) => {
                line.ahead = n;
                match &mut line.own {
                    Some(own) => own.held = n,
                    None => self.branches[i].bytes += n as u64,
                }
                Ok(Duplicated::Bytes)
            }
            Err(Errno::AGAIN) => Ok(Duplicated::Nothing),
            // It looks for a reader before it looks for bytes.
            Err(Errno::PIPE) if is_at_end(from)? => Ok(Duplicated::End),
            Err(errno) if direct::is_refused(Way::Splice, errno) => Ok(Duplicated::Refused(errno)),
            Err(errno) => {
                self.failed(i, "tee", errno)?;
                Ok(Duplicated::Nothing)
            }
        }
    }

    /// Sends on what the pipe of sink `i` holds.
    fn send_on(&mut self, i: usize, line: &mut Line, waiter: &mut Waiter) -> Result<Tried, Broken> {
        let mut tried = Tried::Nothing;
        while self.branches[i].is_alive() && !line.is_drained() {
            let sent = match &mut line.stage {
                Some((stage, sent)) => self.write_on(i, line.own.as_mut(), stage, sent),
                None => self.splice_on(i, line.own.as_mut(), waiter),
            };
            match sent {
                Ok(n) => {
                    self.branches[i].bytes += n as u64;
                    tried = Tried::Moved;
                }
                Err((_, Errno::AGAIN)) => break,
                Err((_, Errno::CANCELED)) => return Err(Broken::Cancelled),
                Err((_, errno)) if self.is_no_splice(i, errno) && line.stage.is_none() => {
                    line.stage = Some((Stage::small(memory::FIRST), 0));
                }
                Err((operation, errno)) => self.failed(i, operation, errno)?,
            }
        }
        Ok(tried)
    }

    /// Whether an error says that sink `i` cannot be spliced to, rather than that this failed.
    fn is_no_splice(&self, i: usize, errno: Errno) -> bool {
        self.branches[i].bytes == 0 && direct::is_refused(Way::Splice, errno)
    }

    fn splice_on(
        &self,
        i: usize,
        own: Option<&mut OwnPipe>,
        waiter: &mut Waiter,
    ) -> Result<usize, (&'static str, Errno)> {
        let Some(own) = own else { return Ok(0) };
        let ends = Ends {
            source: own.pipe.reader.as_fd(),
            sink: self.branches[i].fd,
            source_kind: Kind::Pipe,
            sink_kind: self.branches[i].kind,
        };
        match direct::splice(waiter, &ends, None, None, own.held) {
            Ok(0) => Err(("splice", Errno::IO)),
            Ok(n) => {
                own.held -= n;
                Ok(n)
            }
            Err(Stop::At(_, operation, errno)) => Err((operation, errno)),
            Err(Stop::Other(_)) => Err(("splice", Errno::IO)),
        }
    }

    fn write_on(
        &mut self,
        i: usize,
        own: Option<&mut OwnPipe>,
        stage: &mut Stage,
        sent: &mut usize,
    ) -> Result<usize, (&'static str, Errno)> {
        if stage.len() == 0
            && let Some(own) = own
        {
            let room = stage.room(own.held).map_err(|_| ("read", Errno::NOMEM))?;
            let n = own.take_back(room).map_err(|errno| ("read", errno))?;
            stage.filled(n);
            *sent = 0;
        }
        let branch = &mut self.branches[i];
        let n = stage.send(&mut branch.outlet, branch.fd, *sent, None)?;
        if n == 0 {
            return Err(("write", Errno::IO));
        }
        *sent += n;
        if *sent == stage.len() {
            stage.let_go().map_err(|_| ("madvise", Errno::NOMEM))?;
        }
        Ok(n)
    }

    /// Moves the head on, as far as every sink has got.
    fn advance(
        &mut self,
        moving: &mut Option<usize>,
        lines: &mut [Line],
        head: &mut Head,
        null: &OwnedFd,
        waiter: &mut Waiter,
    ) -> Result<Advanced, Broken> {
        let mover = moving.filter(|&i| self.branches[i].is_alive());
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
            sink: mover.map_or(null.as_fd(), |i| self.branches[i].fd),
            source_kind: Kind::Pipe,
            sink_kind: mover.map_or(Kind::Null, |i| self.branches[i].kind),
        };
        let n = match direct::splice(waiter, &ends, None, None, most) {
            Ok(0) => return Ok(Advanced::End),
            Ok(n) => n,
            Err(Stop::At(_, _, Errno::AGAIN)) => return Ok(Advanced::By(0)),
            Err(Stop::At(_, _, Errno::CANCELED)) => return Err(Broken::Cancelled),
            Err(Stop::At(_, _, Errno::PIPE)) if head.own.is_none() && is_at_end(self.source)? => {
                return Ok(Advanced::End);
            }
            Err(Stop::At(side, operation, errno)) => {
                match mover {
                    Some(i) if self.is_no_splice(i, errno) => {
                        lines[i].own = Some(self.own_pipe()?);
                        lines[i].stage = Some((Stage::small(memory::FIRST), 0));
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
        self.taken += n as u64;
        for (i, line) in lines.iter_mut().enumerate() {
            line.ahead = line.ahead.saturating_sub(n);
            let branch = &mut self.branches[i];
            if branch.is_alive() && (Some(i) == mover || branch.kind == Kind::Null) {
                branch.bytes += n as u64;
            }
        }
        Ok(Advanced::By(n))
    }

    /// Whether the head waits for sink `i`: one that is gone, and `/dev/null`, are never behind.
    fn is_in_line(&self, i: usize) -> bool {
        self.branches[i].is_alive() && self.branches[i].kind != Kind::Null
    }

    /// Sleeps until something can go on.
    fn wait(
        &mut self,
        mover: Option<usize>,
        lines: &[Line],
        head: &Head,
        at_end: bool,
    ) -> Result<(), Broken> {
        let at_limit = self.is_at_limit();
        let there_is_some = match &head.own {
            _ if at_limit => false,
            Some(own) => own.held > 0,
            None => is_ready(self.source, Ready::ToRead)
                .map_err(|errno| Broken::Source("poll", errno))?,
        };
        let mut fds = Vec::with_capacity(lines.len() + 1);
        if !there_is_some && !at_end && !at_limit {
            fds.push((self.source, Ready::ToRead));
        }
        let mover = mover.filter(|&i| self.branches[i].is_alive());
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
                fds.push((self.branches[i].fd, Ready::ToWrite));
            }
        }
        if fds.is_empty() {
            // Something came since, and nobody has to make room for it.
            return Ok(());
        }
        self.wait_for(&fds)
    }
}

impl Splitting<'_> {
    /// Whether the kernel, or a sandbox, knows splice(2) at all. It has to be known before tee(2) has
    /// given a sink anything.
    fn knows_splice(&self, null: &OwnedFd) -> bool {
        uninterrupted(|| {
            rustix::pipe::splice(self.source, None, null, None, 0, SpliceFlags::NONBLOCK)
        })
        .is_ok()
    }
}

/// Whether the kernel, or a sandbox, knows tee(2) at all.
fn knows_tee() -> Result<bool, Error> {
    let (from, to) = (Pipe::new()?, Pipe::new()?);
    let answer = rustix::pipe::tee(&from.reader, &to.writer, 1, SpliceFlags::NONBLOCK);
    Ok(answer == Err(Errno::AGAIN))
}

/// Whether a pipe is empty, and nobody is left to write into it.
fn is_at_end(pipe: BorrowedFd<'_>) -> Result<bool, Broken> {
    let at_once = Timespec::default();
    let mut fds = [PollFd::from_borrowed_fd(pipe, PollFlags::empty())];
    let end = uninterrupted(|| poll(&mut fds, Some(&at_once)))
        // Once nobody can write any more, what is queued only gets less.
        .and_then(|_| Ok(fds[0].revents().contains(PollFlags::HUP) && ioctl_fionread(pipe)? == 0));
    end.map_err(|errno| Broken::Source("tee", errno))
}

enum Filled {
    Yes,
    End,
    Refused(Errno),
}

enum Duplicated {
    Bytes,
    Nothing,
    End,
    Refused(Errno),
}

enum Advanced {
    By(usize),
    End,
}

impl Line {
    /// Whether nothing lies in its own pipe any more.
    fn is_drained(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.held == 0)
            && self
                .stage
                .as_ref()
                .is_none_or(|(stage, _)| stage.len() == 0)
    }

    /// Whether it has got all that has left the head, and no more.
    fn is_done(&self) -> bool {
        self.ahead == 0 && self.is_drained()
    }
}

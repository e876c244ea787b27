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
use crate::transfer::{Ended, Ends, Kind, Route, Stop, direct, has_flag};
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

/// Where bytes are on their way.
pub(super) struct Referring {
    null: OwnedFd,
    head: Head,
    lines: Vec<Line>,
    mover: Option<usize>,
    grown: bool,
}

impl Referring {
    /// Bytes that have left the source, and that the head has not passed yet.
    pub(super) fn held(&self) -> u64 {
        self.head.own.as_ref().map_or(0, |own| own.held as u64)
    }
}

impl Splitting<'_> {
    /// What it takes to hand references on; `None` where the kernel does not do that here.
    pub(super) fn referring(&self) -> Option<Referring> {
        let null = File::options().write(true).open("/dev/null").ok()?.into();
        let own = match self.state.source_kind {
            Kind::Pipe => None,
            // Where no pipe is to be had (EMFILE), copying does without.
            Kind::Regular | Kind::Block | Kind::UnixStream | Kind::Tcp => {
                Some(self.own_pipe().ok()?)
            }
            _ => return None,
        };
        if !self.knows_splice(&null) || own.is_some() && !knows_tee().unwrap_or(false) {
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

    fn own_pipe(&self) -> Result<OwnPipe, Error> {
        OwnPipe::new(self.options.pipe_size())
    }

    /// Hands references on; `None` where the kernel does not do that here, and nothing was taken.
    pub(super) fn refer(&mut self, referring: &mut Referring) -> Result<Option<Ended>, Broken> {
        let Referring {
            null,
            head,
            lines,
            mover,
            grown,
        } = referring;
        let mut waiter = self.state.waiter.clone().never_waiting();
        loop {
            self.check_stopped()?;
            if !self.state.branches.iter().any(|branch| branch.is_alive()) {
                return Ok(Some(Ended::AtEnd));
            }
            if !*grown && (self.state.long || self.state.taken >= memory::FIRST as u64) {
                self.grow_sinks();
                *grown = true;
            }
            let mut tried = Tried::Nothing;
            let at_limit = self.is_at_limit();
            let mut at_end = false;
            if !at_limit {
                match self.fill(head, &mut waiter)? {
                    Filled::Refused(_) if self.state.taken == 0 => return Ok(None),
                    Filled::Refused(errno) => return Err(Broken::Source("splice", errno)),
                    Filled::End => at_end = true,
                    Filled::Yes => {}
                }
            }
            for i in 0..self.state.branches.len() {
                if Some(i) == *mover || !self.state.branches[i].is_alive() {
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
                            if self.state.taken == 0 && untouched && head.own.is_none() {
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
                match self.advance(mover, lines, head, null, &mut waiter)? {
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
                (0..lines.len()).any(|i| self.state.branches[i].is_alive() && !lines[i].is_done());
            if !pending {
                if at_end {
                    return Ok(Some(Ended::AtEnd));
                }
                if self.is_at_limit() {
                    return Ok(Some(Ended::AtLimit));
                }
            }
            if tried == Tried::Nothing {
                self.wait(*mover, lines, head, at_end)?;
            }
        }
    }

    /// The sink that gets its bytes by splice(2): one that would need a pipe of its own otherwise.
    fn mover(&self) -> Option<usize> {
        // splice(2) from a pipe into a file holds the pipe's lock until the file has taken the bytes,
        // and whoever writes into that pipe waits as well.
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

    /// Whether a splice(2) to sink `i` can be told not to wait, and is known to the kernel.
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
            let stage = own
                .as_ref()
                .filter(|_| !self.can_be_spliced_to(i))
                .map(|_| small_stage());
            Ok(Line {
                ahead: 0,
                own,
                stage,
            })
        };
        (0..self.state.branches.len()).map(line).collect()
    }

    /// Fills a head of our own, once it is empty.
    fn fill(&mut self, head: &mut Head, waiter: &mut Waiter) -> Result<Filled, Broken> {
        let most = self.most(ALL);
        let Some(own) = head.own.as_mut().filter(|own| own.held == 0) else {
            return Ok(Filled::Yes);
        };
        match own.fill(waiter, (self.source, self.state.source_kind), None, most) {
            Ok(0) => Ok(Filled::End),
            Ok(_) => Ok(Filled::Yes),
            Err(Stop::At(_, _, Errno::AGAIN)) => Ok(Filled::Yes),
            Err(Stop::At(_, _, errno)) if direct::is_refused(Route::Splice, errno) => {
                Ok(Filled::Refused(errno))
            }
            Err(stop) => Err(stop.into()),
        }
    }

    /// Duplicates what is at the head for sink `i`, which is not ahead.
    fn duplicate(&mut self, i: usize, line: &mut Line, head: &Head) -> Result<Duplicated, Broken> {
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
            // It says so too when somebody else has filled the sink in the meantime (link_pipe, fs/splice.c).
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
            // It looks for a reader before it looks for bytes.
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

    /// Sends on what the pipe of sink `i` holds.
    fn send_on(&mut self, i: usize, line: &mut Line, waiter: &mut Waiter) -> Result<Tried, Broken> {
        let mut tried = Tried::Nothing;
        while self.state.branches[i].is_alive() && !line.is_drained() {
            let sent = match &mut line.stage {
                Some((stage, sent)) => self.write_on(i, line.own.as_mut(), stage, sent),
                None => self.splice_on(i, line.own.as_mut(), waiter),
            };
            match sent {
                // It may be that it takes none so: write(2) has the last word.
                Ok(0) if line.stage.is_none() => line.stage = Some(small_stage()),
                Ok(n) => {
                    self.state.branches[i].bytes += n as u64;
                    tried = Tried::Moved;
                }
                Err(Stop::At(_, _, Errno::AGAIN)) => break,
                Err(Stop::At(_, _, errno))
                    if self.is_no_splice(i, errno) && line.stage.is_none() =>
                {
                    line.stage = Some(small_stage());
                }
                Err(Stop::At(_, operation, errno)) => self.failed(i, operation, errno)?,
                Err(stop) => return Err(stop.into()),
            }
        }
        Ok(tried)
    }

    /// Whether an error says that sink `i` cannot be spliced to, rather than that this failed.
    fn is_no_splice(&self, i: usize, errno: Errno) -> bool {
        self.state.branches[i].bytes == 0 && direct::is_refused(Route::Splice, errno)
    }

    fn splice_on(
        &self,
        i: usize,
        own: Option<&mut OwnPipe>,
        waiter: &mut Waiter,
    ) -> Result<usize, Stop> {
        let Some(own) = own else { return Ok(0) };
        own.send_on(waiter, (self.sinks[i], self.state.branches[i].kind), None)
    }

    fn write_on(
        &mut self,
        i: usize,
        own: Option<&mut OwnPipe>,
        stage: &mut Stage,
        sent: &mut usize,
    ) -> Result<usize, Stop> {
        if stage.len() == 0
            && let Some(own) = own
        {
            let room = stage.room(own.held)?;
            let n = own
                .take_back(room)
                .map_err(|errno| Stop::At(Side::Sink, "read", errno))?;
            stage.filled(n);
            *sent = 0;
        }
        let outlet = &mut self.state.branches[i].outlet;
        let n = stage
            .send(outlet, self.sinks[i], *sent, None)
            .map_err(|(operation, errno)| {
                Stop::of_call(outlet.calls.stopped(), Side::Sink, operation, errno)
            })?;
        if n == 0 {
            return Err(Stop::At(Side::Sink, "write", Errno::IO));
        }
        *sent += n;
        if *sent == stage.len() {
            stage.let_go()?;
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
                // It is the sink that takes none so: write(2) has the last word.
                lines[i].own = Some(self.own_pipe()?);
                lines[i].stage = Some(small_stage());
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
                    Some(i) if self.is_no_splice(i, errno) => {
                        lines[i].own = Some(self.own_pipe()?);
                        lines[i].stage = Some(small_stage());
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

    /// Whether nothing lies at the head, and nothing will.
    fn is_empty(&self, head: &Head) -> Result<bool, Broken> {
        match &head.own {
            Some(own) => Ok(own.held == 0),
            None => is_at_end(self.source),
        }
    }

    /// Whether the head waits for sink `i`: one that is gone, and `/dev/null`, are never behind.
    fn is_in_line(&self, i: usize) -> bool {
        self.state.branches[i].is_alive() && self.state.branches[i].kind != Kind::Null
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
            // Something came since, and nobody has to make room for it.
            return Ok(());
        }
        self.wait_for(&waited)
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

/// Memory for what cannot be spliced on, and how much of it was sent.
fn small_stage() -> (Stage, usize) {
    (Stage::small(memory::FIRST), 0)
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

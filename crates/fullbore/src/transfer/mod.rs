//! Fd to fd: [`Transfer`] moves bytes from any file descriptor to any other, the best way that keeps its
//! [`Guarantee`].
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | the table: kinds of fd × guarantee → ways, best first |
//! | `direct.rs` | one system call: copy_file_range, splice, sendfile |
//! | `through.rs` | splice through a pipe of our own |
//! | `sparse.rs` | holes of files |
//! | `options.rs` | what is wanted |
//! | `step.rs` | what one step is between, and what came of it |
//! | this one | which way is next, what has been moved, and reading and writing |
//!
//! The one idea: a transfer is a loop of *steps* of one system call each. A step moves bytes, finds
//! the end, or says on which side it could not go on; so a transfer can be stopped and resumed between
//! any two, and what arrived is known to the byte.

pub(crate) mod direct;
mod options;
mod plan;
mod sparse;
mod step;
pub(crate) mod through;

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Error, Result, Side};
use crate::linux::{self, Calls};
use crate::memory;
use crate::produce::stage::{Outlet, Stage};
use crate::wait::{Cancel, Stopped, Wait, Waiter, uninterrupted};
pub(crate) use options::Options;
pub use plan::{Guarantee, Kind, Route};
use sparse::{Sparse, Stretch};
pub(crate) use step::{Ends, Stop, has_flag};
use step::{Step, Stepped};
use through::OwnPipe;

/// Moves bytes from `Source` to `Sink` until the source ends.
///
/// It keeps [`Guarantee::Snapshot`] unless told otherwise, starts at the position that each fd has and
/// leaves the positions behind what was moved, and never resizes a pipe that it reads from. Up to
/// 64 KiB it makes no more system calls than reading and writing takes; past that it maps memory,
/// makes a pipe of its own, or enlarges the output pipe, as the way needs.
///
/// From a pipe into a file it splices, and while the file takes the bytes, the kernel holds the pipe's
/// lock: where the file stalls (a slow disk, NFS, FUSE), whoever writes into the pipe or asks for its
/// size stalls as well. [`in_sight`](Self::in_sight) reads and writes instead, and
/// [`Guarantee::Reference`] goes through a pipe of its own; neither holds anybody's lock while it waits.
///
/// What it is to do has to be said before it first runs. Between two runs, only
/// [`limit`](Self::limit), [`chunk`](Self::chunk), [`cancel`](Self::cancel) and
/// [`deadline`](Self::deadline) have an effect.
///
/// The timeouts of a blocking socket count (`SO_RCVTIMEO`, `SO_SNDTIMEO`): where one passes, that
/// side fails with `EAGAIN`, which is [`io::ErrorKind::WouldBlock`].
///
/// ```
/// use std::io::{Read, Write};
/// let pipe = fullbore::Pipe::new()?;
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"hello")?;
/// std::io::Seek::rewind(&mut file)?;
/// let report = fullbore::Transfer::new(&file, &pipe.writer).run()?;
/// assert_eq!(report.bytes, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transfer<Source: AsFd, Sink: AsFd> {
    source: Source,
    sink: Sink,
    options: Options,
    state: Option<State>,
    elapsed: Duration,
}

/// What a transfer has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Bytes that arrived at the sink.
    pub bytes: u64,
    /// Bytes that were taken from the source. More than `bytes` only where the sink failed, or the
    /// transfer was stopped, with some under way; a transfer that is run again sends those first.
    pub taken: u64,
    /// The ways that bytes took, with how many each moved, in the order of their first byte.
    pub routes: Vec<(Route, u64)>,
    /// The time that it ran, without the time between runs.
    pub elapsed: Duration,
    /// System calls that were made to move bytes.
    pub calls: u64,
    /// Why it returned.
    pub ended: Ended,
    /// What the source is.
    pub source: Kind,
    /// What the sink is.
    pub sink: Kind,
}

/// Why a transfer returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// The source has no more bytes.
    AtEnd,
    /// The limit was reached.
    AtLimit,
    /// [`Cancel::cancel`] was called, or the progress callback said [`ControlFlow::Break`].
    Cancelled,
    /// The [`deadline`](Transfer::deadline) passed.
    TimedOut,
    /// This side would make it wait, and it was told not to.
    WouldWait(Side),
    /// It failed; [`Failure`] says how.
    Failed,
}

/// A transfer that failed: how, and what it had done before.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// What had been moved.
    pub report: Report,
    /// The side, the operation and the kernel's word.
    pub error: Error,
}

impl From<Stopped> for Ended {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Cancelled => Ended::Cancelled,
            Stopped::TimedOut => Ended::TimedOut,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What this prints is what the error prints.
        self.error.source()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        failure.error.into()
    }
}

/// What a progress callback is told after each step that moved bytes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Bytes that have arrived in all.
    pub bytes: u64,
    /// Bytes that arrived with this step.
    pub step: u64,
    /// The way they took.
    pub route: Route,
    /// The bytes themselves, where the transfer was asked to keep them
    /// [`in_sight`](Transfer::in_sight); empty otherwise.
    pub seen: &'a [u8],
}

/// What has been found out and done so far.
struct State {
    source_kind: Kind,
    sink_kind: Kind,
    has_sockets: bool,
    routes: Vec<Route>,
    /// Which of the ways is tried now.
    at: usize,
    /// Bytes of memory to begin with.
    first: usize,
    /// Whether enough is to be moved for setting something up.
    long: bool,
    sink_grown: bool,
    moved: Vec<(Route, u64)>,
    /// Whether the way that is tried now has moved bytes, so that its errors are errors.
    works: bool,
    bytes: u64,
    taken: u64,
    calls: u64,
    source_offset: Option<u64>,
    sink_offset: Option<u64>,
    reader: Calls,
    outlet: Outlet,
    /// Waits for either side of a splice.
    waiter: Waiter,
    stage: Stage,
    /// How much of what the stage holds was sent.
    sent: usize,
    through: Option<OwnPipe>,
    sparse: Sparse,
    /// Bytes that come before the next hole that is to be kept.
    before_hole: usize,
    /// Whether the last send copied.
    by_writing: bool,
    /// Where the bytes of the last step lie in what the stage holds.
    seen: (usize, usize),
}

/// Copies all that `source` has to `sink`, and returns how many bytes that were; a [`Transfer`] with
/// the choices that suit most.
///
/// ```
/// use std::io::Write;
/// let pipe = fullbore::Pipe::new()?;
/// std::fs::File::from(pipe.writer).write_all(b"hello")?;
/// let file = tempfile::tempfile()?;
/// assert_eq!(fullbore::copy(&pipe.reader, &file)?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Transfer::run`]; [`Error::of`] tells the side, and how many bytes had arrived.
pub fn copy(source: &(impl AsFd + ?Sized), sink: &(impl AsFd + ?Sized)) -> io::Result<u64> {
    Ok(Transfer::new(source.as_fd(), sink.as_fd()).run()?.bytes)
}

impl<Source: AsFd, Sink: AsFd> Transfer<Source, Sink> {
    /// A transfer of all that `source` has, that blocks.
    pub fn new(source: Source, sink: Sink) -> Self {
        Self {
            source,
            sink,
            options: Options::default(),
            state: None,
            elapsed: Duration::ZERO,
        }
    }

    /// What may become of the bytes afterwards; [`Guarantee::Snapshot`] unless told otherwise.
    pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
        self.options.guarantee = guarantee;
        self
    }

    /// Bytes to move at most. Not one more is taken from the source.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.options.limit = Some(bytes);
        self
    }

    /// Reads from this byte of the source on, and leaves the position of its fd alone.
    pub fn source_offset(mut self, offset: u64) -> Self {
        self.options.source_offset = Some(offset);
        self
    }

    /// Writes from this byte of the sink on, and leaves the position of its fd alone.
    pub fn sink_offset(mut self, offset: u64) -> Self {
        self.options.sink_offset = Some(offset);
        self
    }

    /// What to do while there is nothing to read, or no room to write.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.options.wait = wait;
        self
    }

    /// Never waits: [`run`](Self::run) returns with [`Ended::WouldWait`] where it would have to, and
    /// goes on from there when it is called again.
    pub fn nonblocking(mut self) -> Self {
        self.options.never = true;
        self
    }

    /// Stops, also out of a wait, when `cancel` is cancelled. A transfer that was stopped so goes on, with
    /// what was under way first, once it has been given another one.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.options.cancel = Some(cancel.clone());
        if let Some(state) = &mut self.state {
            state.wait_as(&self.options.waiter());
        }
        self
    }

    /// Stops at this time, also out of a wait, and ends with [`Ended::TimedOut`]; `None` takes a
    /// deadline away. A transfer that was stopped so goes on, with what was under way first, once
    /// it has been given another one.
    pub fn deadline(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.options.deadline = at.into();
        if let Some(state) = &mut self.state {
            state.wait_as(&self.options.waiter());
        }
        self
    }

    /// Bytes that one system call moves at most; as many as suit the way unless told otherwise.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.options.chunk = Some(bytes);
        self
    }

    /// Bytes that an output pipe, and a pipe of our own, is grown to, as far as this user may; 1 MiB
    /// unless told otherwise. 0 leaves the output as it is. A pipe is never shrunk.
    ///
    /// All pipes of an unprivileged user together may hold 64 MiB (`pipe-user-pages-soft`,
    /// [`linux::pipe_user_pages_soft`]), which is 64 pipes of
    /// 1 MiB. Past that, new pipes of all his programs get two pages instead of 16, and none can grow. Who
    /// moves bytes over many pipes at once, or has other programs that need theirs, asks for less.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.options.pipe_size = Some(bytes);
        self
    }

    /// Moves bytes only in ways on which they pass through this process's memory, and shows them to
    /// the progress callback.
    pub fn in_sight(mut self) -> Self {
        self.options.in_sight = true;
        self
    }

    /// Moves bytes until the source ends, the limit is reached, or something keeps it from going on.
    ///
    /// # Errors
    /// [`Failure`]: with [`Error::Moving`] where one side failed; with [`Error::Invalid`] where both are
    /// the same file or pipe, or a chunk of 0 bytes was asked for. What arrived before is in its report.
    pub fn run(&mut self) -> Result<Report, Failure> {
        self.run_with(|_| ControlFlow::Continue(()))
    }

    /// As [`run`](Self::run), calling `progress` after each step that moved bytes, and stopping when
    /// it says so.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(
        &mut self,
        progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Report, Failure> {
        let began = Instant::now();
        let outcome = self.drive(progress);
        if let (Ok(Ended::AtEnd | Ended::AtLimit) | Err(_), Some(state)) =
            (&outcome, &mut self.state)
        {
            state.outlet.let_go();
        }
        self.elapsed += began.elapsed();
        match outcome {
            Ok(ended) => Ok(self.report(ended)),
            Err(error) => Err(Failure {
                report: self.report(Ended::Failed),
                error,
            }),
        }
    }

    /// The two fds, and the bytes that were taken from the source and have not arrived at the sink,
    /// in order: there are some where the sink failed, or the transfer was stopped in between.
    ///
    /// # Errors
    /// [`Error::Moving`] where they lie in a pipe of our own and read(2) from it fails; a sandbox may
    /// refuse it.
    pub fn into_inner(self) -> Result<(Source, Sink, Vec<u8>)> {
        let mut under_way = Vec::new();
        if let Some(state) = self.state {
            under_way.extend_from_slice(&state.stage.bytes()[state.sent..]);
            if let Some(mut own) = state.through {
                let failed = |errno: Errno| Error::Moving {
                    side: Side::Source,
                    operation: "read",
                    errno: errno.into(),
                    moved: state.bytes,
                };
                own.take_all_back(&mut under_way).map_err(failed)?;
            }
        }
        Ok((self.source, self.sink, under_way))
    }

    fn drive(
        &mut self,
        mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Ended> {
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(look(self.source.as_fd(), self.sink.as_fd(), &self.options)?),
        };
        let ends = Ends {
            source: self.source.as_fd(),
            sink: self.sink.as_fd(),
            source_kind: state.source_kind,
            sink_kind: state.sink_kind,
        };
        let options = &self.options;
        loop {
            if let Some(stopped) = options.stopped() {
                return Ok(stopped.into());
            }
            if options.is_at_limit(state.taken) && state.under_way() == 0 {
                return Ok(Ended::AtLimit);
            }
            let route = state.route();
            match state.step(route, &ends, options) {
                Ok(Step::Moved(n)) => {
                    let route = match route {
                        Route::Fresh if state.by_writing => Route::ReadWrite,
                        route => route,
                    };
                    state.works |= route == state.routes[state.at];
                    state.arrived(route, n as u64);
                    let told = Progress {
                        bytes: state.bytes,
                        step: n as u64,
                        route,
                        seen: state.seen(options),
                    };
                    let go_on = progress(told);
                    state.after_sending()?;
                    if go_on.is_break() {
                        return Ok(Ended::Cancelled);
                    }
                }
                Ok(Step::Passed(n)) => {
                    state.arrived(route, n as u64);
                    let told = Progress {
                        bytes: state.bytes,
                        step: n as u64,
                        route,
                        seen: &[],
                    };
                    if progress(told).is_break() {
                        return Ok(Ended::Cancelled);
                    }
                }
                Ok(Step::Taken) => {}
                Ok(Step::End) => return Ok(Ended::AtEnd),
                Ok(Step::Perhaps) => {
                    state.at = state.routes.len() - 1;
                    state.long = false;
                }
                Err(Stop::At(side, _, Errno::AGAIN)) if options.never => {
                    return Ok(Ended::WouldWait(side));
                }
                Err(Stop::Ended(stopped)) => return Ok(stopped.into()),
                Err(Stop::At(_, _, errno)) if state.may_try_another(route, errno) => {
                    state.at += 1;
                    state.works = false;
                }
                Err(Stop::At(side, operation, errno)) => {
                    return Err(Error::Moving {
                        side,
                        operation,
                        errno: errno.into(),
                        moved: state.bytes,
                    });
                }
                Err(Stop::Other(error)) => return Err(error),
            }
        }
    }

    fn report(&self, ended: Ended) -> Report {
        let state = self.state.as_ref();
        Report {
            bytes: state.map_or(0, |s| s.bytes),
            taken: state.map_or(0, |s| s.taken),
            routes: state.map_or_else(Vec::new, |s| s.moved.clone()),
            elapsed: self.elapsed,
            calls: state.map_or(0, State::calls),
            ended,
            source: state.map_or(Kind::Other, |s| s.source_kind),
            sink: state.map_or(Kind::Other, |s| s.sink_kind),
        }
    }
}

/// Finds out what the two fds are, and plans.
fn look(source: BorrowedFd<'_>, sink: BorrowedFd<'_>, options: &Options) -> Result<State> {
    options.check()?;
    let source_stat = stat_of(source, Side::Source)?;
    let sink_stat = stat_of(sink, Side::Sink)?;
    let ranges_apart = match (options.source_offset, options.sink_offset, options.limit) {
        (Some(from), Some(to), Some(len)) => from.abs_diff(to) >= len,
        _ => false,
    };
    refuse_the_same(&source_stat, &sink_stat, ranges_apart)?;
    if options.sink_offset.is_some() && has_flag(sink, OFlags::APPEND) {
        return Err(Error::Invalid(
            "the sink appends (O_APPEND), so bytes cannot go to an offset of it".into(),
        ));
    }
    let (source_kind, sink_kind) = (Kind::of(source, &source_stat), Kind::of(sink, &sink_stat));
    let is_socket = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    let has_sockets = is_socket(&source_stat) || is_socket(&sink_stat);
    let mut waiter = options.waiter();
    if has_sockets {
        waiter.count_timeouts_of_sockets();
    }
    let calls = |fd, stat: &Stat| {
        let mut calls = Calls::with(waiter.clone());
        calls.know(fd, FileType::from_raw_mode(stat.st_mode));
        calls
    };
    // A splice that cannot be told not to wait is no way for who must not wait.
    let can_ask = |kind: Kind, fd| kind.splices_without_waiting() || has_flag(fd, OFlags::NONBLOCK);
    let may_splice =
        !waiter.is_nonblocking() || can_ask(source_kind, source) && can_ask(sink_kind, sink);
    let routes = plan::routes(source_kind, sink_kind, options.guarantee)
        .iter()
        .copied()
        .filter(|route| match route {
            Route::ReadWrite => true,
            Route::Fresh => options.sink_offset.is_none(),
            _ => may_splice && !options.in_sight,
        })
        .collect();
    let size = u64::try_from(source_stat.st_size).unwrap_or(0);
    let most = options.limit.unwrap_or(u64::MAX);
    let long = source_kind == Kind::Regular && size.min(most) > memory::FIRST as u64;
    Ok(State {
        source_kind,
        sink_kind,
        has_sockets,
        routes,
        at: 0,
        first: first_memory(source_kind, size),
        long,
        sink_grown: false,
        moved: Vec::new(),
        works: false,
        bytes: 0,
        taken: 0,
        calls: 0,
        source_offset: options.source_offset,
        sink_offset: options.sink_offset,
        reader: calls(source, &source_stat),
        outlet: Outlet::new(calls(sink, &sink_stat)),
        waiter,
        stage: Stage::none(),
        sent: 0,
        through: None,
        sparse: Sparse::of(&source_stat, &sink_stat, options),
        before_hole: usize::MAX,
        by_writing: false,
        seen: (0, 0),
    })
}

/// Bytes of memory to begin with: as many as a short file has, and one to see that it has no more.
fn first_memory(source: Kind, size: u64) -> usize {
    match usize::try_from(size) {
        Ok(size) if source == Kind::Regular && size > 0 => {
            (size + 1).next_multiple_of(512).min(memory::FIRST)
        }
        _ => memory::FIRST,
    }
}

pub(crate) fn stat_of(fd: BorrowedFd<'_>, side: Side) -> Result<Stat> {
    rustix::fs::fstat(fd).map_err(|errno| Error::Moving {
        side,
        operation: "fstat",
        errno: errno.into(),
        moved: 0,
    })
}

/// Refuses what would read the bytes that it writes, and so would never end, or not end well.
pub(crate) fn refuse_the_same(source: &Stat, sink: &Stat, ranges_apart: bool) -> Result<()> {
    if (source.st_dev, source.st_ino) != (sink.st_dev, sink.st_ino) {
        return Ok(());
    }
    match FileType::from_raw_mode(source.st_mode) {
        FileType::Fifo => Err(Error::Invalid("source and sink are the same pipe".into())),
        FileType::RegularFile | FileType::BlockDevice if !ranges_apart => {
            Err(Error::Invalid("source and sink are the same file".into()))
        }
        _ => Ok(()),
    }
}

impl State {
    /// Lets everything wait so from now on.
    fn wait_as(&mut self, waiter: &Waiter) {
        for calls in [&mut self.reader, &mut self.outlet.calls] {
            calls.wait_as(waiter.clone());
        }
        self.waiter = waiter.clone();
        if self.has_sockets {
            self.waiter.count_timeouts_of_sockets();
        }
    }

    /// The way of the next step.
    fn route(&self) -> Route {
        let route = self.routes[self.at];
        // What was taken by reading is sent by writing, and what was taken by a way that was refused
        // later is taken back first.
        let under_way = self.stage.len() > 0
            || route != Route::SpliceThrough
                && self.through.as_ref().is_some_and(|own| own.held > 0);
        // Where only little may come, setting something up would cost more than it saves.
        let too_short = !self.long && route != Route::Splice;
        match route {
            Route::Fresh => Route::Fresh,
            _ if under_way || too_short => Route::ReadWrite,
            route => route,
        }
    }

    fn step(&mut self, route: Route, ends: &Ends<'_>, options: &Options) -> Stepped {
        if self.long && !self.sink_grown && ends.sink_kind == Kind::Pipe {
            self.sink_grown = true;
            options.make_roomy(ends.sink);
        }
        if let Some(hole) = self.pass_hole(route, ends, options)? {
            return Ok(Step::Passed(hole));
        }
        match route {
            Route::CopyFileRange | Route::Splice | Route::Sendfile => {
                self.move_directly(route, ends, options)
            }
            Route::SpliceThrough => self.splice_through(ends, options),
            Route::Fresh | Route::ReadWrite => self.read_or_write(route, ends, options),
        }
    }

    /// Passes over a hole that comes next, if it is to be kept, or finds out how far it is to the next.
    fn pass_hole(
        &mut self,
        route: Route,
        ends: &Ends<'_>,
        options: &Options,
    ) -> Result<Option<usize>, Stop> {
        self.before_hole = usize::MAX;
        let by_position = matches!(route, Route::CopyFileRange | Route::ReadWrite);
        if !self.long || !by_position || self.stage.len() > 0 || options.in_sight {
            return Ok(None);
        }
        let most = self.most(options, direct::RANGE);
        match self.sparse.next(ends.source, ends.sink, most as u64)? {
            Stretch::Bytes(len) => {
                self.before_hole = usize::try_from(len).unwrap_or(usize::MAX);
                Ok(None)
            }
            Stretch::Hole(len) => {
                self.took(len as usize);
                Ok(Some(len as usize))
            }
        }
    }

    /// One call that takes bytes from the source and puts them into the sink.
    fn move_directly(&mut self, route: Route, ends: &Ends<'_>, options: &Options) -> Stepped {
        let (from, to) = (self.source_offset, self.sink_offset);
        self.calls += 1;
        let n = match route {
            Route::CopyFileRange => {
                direct::copy_file_range(ends, from, to, self.most(options, direct::RANGE))
            }
            Route::Sendfile => {
                let most = self.most(options, direct::SENDFILE);
                direct::sendfile(&mut self.waiter, ends, from, most)
            }
            _ => {
                let most = self.most(options, ends.sink_kind.splice_at_once());
                direct::splice(&mut self.waiter, ends, from, to, most)
            }
        }?;
        self.took(n);
        Ok(match n {
            0 => Step::Perhaps,
            n => Step::Moved(n),
        })
    }

    /// One call between a pipe of our own and the source, or the sink.
    fn splice_through(&mut self, ends: &Ends<'_>, options: &Options) -> Stepped {
        let own = match &mut self.through {
            Some(own) => own,
            none => match OwnPipe::new(options.pipe_size()) {
                Ok(own) => none.insert(own),
                // No pipe to be had (EMFILE): another way may do without.
                Err(_) => return Err(Stop::At(Side::Source, "pipe2", Errno::OPNOTSUPP)),
            },
        };
        self.calls += 1;
        if own.held > 0 {
            let sink = (ends.sink, ends.sink_kind);
            let n = own.send_on(&mut self.waiter, sink, self.sink_offset)?;
            return Ok(match n {
                // What the sink does not take so, write(2) gets it to take, or to say why not.
                0 => Step::Perhaps,
                n => Step::Moved(n),
            });
        }
        let at_once = own.at_once(ends.source_kind).min(self.before_hole);
        let most = options.most(self.taken, at_once);
        let source = (ends.source, ends.source_kind);
        let n = own.fill(&mut self.waiter, source, self.source_offset, most)?;
        self.took(n);
        Ok(match n {
            0 => Step::Perhaps,
            _ => Step::Taken,
        })
    }

    /// One read, or one write of what was read.
    fn read_or_write(&mut self, route: Route, ends: &Ends<'_>, options: &Options) -> Stepped {
        if self.stage.len() > 0 {
            let given = self.outlet.given;
            let n = self
                .stage
                .send(&mut self.outlet, ends.sink, self.sent, self.sink_offset)
                .map_err(|(operation, errno)| {
                    Stop::of_call(self.outlet.calls.stopped(), Side::Sink, operation, errno)
                })?;
            if n == 0 {
                return Err(Stop::At(Side::Sink, "write", Errno::IO));
            }
            self.seen = (self.sent, self.sent + n);
            self.sent += n;
            self.by_writing = self.outlet.given == given;
            return Ok(Step::Moved(n));
        }
        if self.stage.is_none() {
            self.stage = Stage::small(self.most(options, self.first));
        }
        if self.long && self.stage.is_small() {
            // Giving base pages away is slower than copying them.
            let fresh = route == Route::Fresh
                && linux::has_huge_pages()
                && self.outlet.take_pages(ends.sink);
            self.stage.grow(options.chunk, fresh);
        }
        let most = self.most(options, usize::MAX);
        let n = match &mut self.through {
            // What a way that was refused had taken already.
            Some(through) if through.held > 0 => {
                let room = self.stage.room(through.held)?;
                through
                    .take_back(room)
                    .map_err(|errno| Stop::At(Side::Source, "read", errno))?
            }
            _ => {
                let room = self.stage.room(most)?;
                let n = match self.source_offset {
                    None => self.reader.read(ends.source, room),
                    Some(at) => uninterrupted(|| rustix::io::pread(ends.source, &mut *room, at)),
                }
                .map_err(|errno| {
                    Stop::of_call(self.reader.stopped(), Side::Source, "read", errno)
                })?;
                self.took(n);
                n
            }
        };
        if n == 0 {
            return Ok(Step::End);
        }
        self.stage.filled(n);
        self.sent = 0;
        Ok(Step::Taken)
    }

    /// Lets go of what the stage holds, once all of it was sent and seen.
    fn after_sending(&mut self) -> Result<()> {
        if self.stage.len() > 0 && self.sent == self.stage.len() {
            self.sent = 0;
            self.stage.let_go()?;
        }
        if !self.long && self.bytes >= memory::FIRST as u64 {
            self.long = true;
        }
        Ok(())
    }

    /// The bytes of the last step, if they are to be seen.
    fn seen(&self, options: &Options) -> &[u8] {
        if options.in_sight {
            &self.stage.bytes()[self.seen.0..self.seen.1]
        } else {
            &[]
        }
    }

    /// Bytes that the next call may take from the source, and at most `otherwise`.
    fn most(&self, options: &Options, otherwise: usize) -> usize {
        options.most(self.taken, otherwise.min(self.before_hole))
    }

    /// Notes that `n` bytes were taken from the source.
    fn took(&mut self, n: usize) {
        self.taken += n as u64;
        if let Some(at) = &mut self.source_offset {
            *at += n as u64;
        }
    }

    /// Notes that `n` bytes arrived.
    fn arrived(&mut self, route: Route, n: u64) {
        self.bytes += n;
        if let Some(at) = &mut self.sink_offset {
            *at += n;
        }
        match self.moved.iter_mut().find(|(w, _)| *w == route) {
            Some((_, bytes)) => *bytes += n,
            None => self.moved.push((route, n)),
        }
    }

    /// Bytes that were taken and have not arrived.
    fn under_way(&self) -> u64 {
        self.taken - self.bytes
    }

    fn calls(&self) -> u64 {
        self.calls + self.reader.made() + self.outlet.calls.made()
    }

    /// Whether the way is refused, rather than having failed, and there is another.
    fn may_try_another(&self, route: Route, errno: Errno) -> bool {
        route == self.routes[self.at]
            && self.at + 1 < self.routes.len()
            && !self.works
            && direct::is_refused(route, errno)
    }
}

impl<Source: AsFd + fmt::Debug, Sink: AsFd + fmt::Debug> fmt::Debug for Transfer<Source, Sink> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("source", &self.source)
            .field("sink", &self.sink)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

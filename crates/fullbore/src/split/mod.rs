//! One fd to many: [`Tee`] gives every sink the same bytes.
//!
//! | file | holds |
//! |---|---|
//! | `copying.rs` | *snapshot*: read once into fresh pages, and give those to every pipe |
//! | `referring.rs` | *reference*: tee(2) and splice(2) |
//! | this one | what is wanted, what came of it, and what an error of one sink means for the others |
//!
//! The one idea: no sink is ever waited for alone. Each takes what it can without waiting, and only when
//! none can take any more is slept, until one of them can. So a slow sink holds the others back by no
//! less than what its pipe holds.

mod copying;
mod referring;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::error::{Error, Result, Side};
use crate::linux::Calls;
use crate::memory;
use crate::produce::stage::Outlet;
use crate::transfer::{self, Ended, Guarantee, Kind, Options, Stop};
use crate::wait::{Cancel, Ready, Wait, Waiter};
use copying::Copying;
use referring::Referring;

/// What an error of one sink means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnError {
    /// It ends everything.
    FailAll,
    /// This sink gets no more, and its report has the error.
    Drop,
    /// This sink gets no more, and that is no error.
    Ignore,
}

/// What errors of one sink mean for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Nobody reads it any more (`EPIPE`).
    pub closed: OnError,
    /// Any other error.
    pub other: OnError,
}

impl Policy {
    /// Any error ends everything.
    pub const FAIL_ALL: Self = Self::of(OnError::FailAll, OnError::FailAll);
    /// A sink that fails is dropped, and the others go on.
    pub const DROP: Self = Self::of(OnError::Drop, OnError::Drop);
    /// The same, where it is no error that nobody reads a pipe any more.
    pub const IGNORE_CLOSED: Self = Self::of(OnError::Ignore, OnError::Drop);

    /// A policy of one's own.
    pub const fn of(closed: OnError, other: OnError) -> Self {
        Self { closed, other }
    }
}

/// Moves bytes from one source to many sinks.
///
/// Keeps [`Guarantee::Snapshot`] unless told otherwise. Every sink that does not fail gets exactly the
/// bytes of the source. A sink that takes nothing holds the others back once its own pipe is full,
/// and no sooner.
///
/// ```
/// use std::io::{Read, Write};
/// use fullbore::{Pipe, Tee, split::Policy};
/// let (source, left, right) = (Pipe::new()?, Pipe::new()?, Pipe::new()?);
/// std::fs::File::from(source.writer).write_all(b"hello")?;
/// let report = Tee::new(&source.reader)
///     .sink(&left.writer, Policy::FAIL_ALL)
///     .sink(&right.writer, Policy::DROP)
///     .run()?;
/// assert_eq!(report.taken, 5);
/// assert!(report.sinks.iter().all(|sink| sink.bytes == 5 && sink.error.is_none()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tee<Source: AsFd, Sink: AsFd> {
    source: Source,
    sinks: Vec<(Sink, Policy)>,
    options: Options,
    state: Option<State>,
    elapsed: Duration,
}

/// What a [`Tee`] has done.
#[derive(Debug)]
#[non_exhaustive]
pub struct TeeReport {
    /// Bytes that were taken from the source.
    pub taken: u64,
    /// What came of each sink, in the order they were added.
    pub sinks: Vec<SinkReport>,
    /// The time that it ran, without the time between runs.
    pub elapsed: Duration,
    /// Why it returned. [`Ended::AtEnd`] also when no sink is left that takes anything.
    pub ended: Ended,
    /// Which guarantee the way rests on that it took: [`Guarantee::Snapshot`] also where
    /// [`Guarantee::Reference`] was asked for and the kernel does not do that.
    pub guarantee: Guarantee,
}

/// What came of one sink.
#[derive(Debug)]
#[non_exhaustive]
pub struct SinkReport {
    /// Bytes that arrived there.
    pub bytes: u64,
    /// Why it was dropped, if it was.
    pub error: Option<Error>,
    /// Whether its policy says that this is no error.
    pub ignored: bool,
    /// Whether it has to make room before anything can go on, with [`Ended::WouldWait`].
    pub would_wait: bool,
}

/// A [`Tee`] that failed: how, and what it had done before.
#[derive(Debug)]
#[non_exhaustive]
pub struct TeeFailure {
    /// What had been moved.
    pub report: TeeReport,
    /// The number of the sink that failed, from 0; none where the source did.
    pub sink: Option<usize>,
    /// The side, the operation and the kernel's word.
    pub error: Error,
}

impl fmt::Display for TeeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for TeeFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What this prints is what the error prints.
        self.error.source()
    }
}

impl From<TeeFailure> for Error {
    fn from(failure: TeeFailure) -> Self {
        failure.error
    }
}

impl From<TeeFailure> for io::Error {
    fn from(failure: TeeFailure) -> Self {
        failure.error.into()
    }
}

/// One sink.
struct Branch {
    kind: Kind,
    policy: Policy,
    outlet: Outlet,
    /// How much it has got of what is handed out.
    at: usize,
    bytes: u64,
    /// The call that it was dropped for, if it was, and what that failed with.
    error: Option<(&'static str, Errno)>,
    ignored: bool,
    would_wait: bool,
}

/// What has been found out and done so far.
struct State {
    source_kind: Kind,
    branches: Vec<Branch>,
    taken: u64,
    /// Waits for whichever side is not ready.
    waiter: Waiter,
    /// Whether enough came for setting something up.
    long: bool,
    /// Whether it has run before.
    began: bool,
    /// Which guarantee the way rests on that bytes take.
    guarantee: Guarantee,
    referring: Option<Referring>,
    copying: Option<Copying>,
}

/// A tee that runs.
struct Splitting<'a> {
    options: &'a Options,
    source: BorrowedFd<'a>,
    sinks: Vec<BorrowedFd<'a>>,
    state: &'a mut State,
}

/// What is waited for: room in the sink of this number, or else bytes in the source.
type Waited = Option<usize>;

/// Why it cannot go on.
enum Broken {
    /// The source failed.
    Source(&'static str, Errno),
    /// A sink did, whose policy says that this ends everything.
    Sink(usize, &'static str, Errno),
    /// Nothing failed, but it is not to go on now.
    Ended(Ended),
    /// Something around it failed.
    Other(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Broken::Other(error)
    }
}

impl<Source: AsFd, Sink: AsFd> Tee<Source, Sink> {
    /// A tee of `source`, that has no sinks yet and blocks.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            sinks: Vec::new(),
            options: Options::default(),
            state: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Adds a sink, and what its errors mean. Has no effect once it has run.
    pub fn sink(mut self, sink: Sink, policy: Policy) -> Self {
        self.sinks.push((sink, policy));
        self
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

    /// What to do while there is nothing to read, or no sink has room.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.options.wait = wait;
        self
    }

    /// Never waits: [`run`](Self::run) returns with [`Ended::WouldWait`] where it would have to, and
    /// goes on from there when it is called again. Which sinks have to make room first is in their
    /// [`would_wait`](SinkReport::would_wait).
    pub fn nonblocking(mut self) -> Self {
        self.options.never = true;
        self
    }

    /// Stops, also out of a wait, when `cancel` is cancelled. Sinks may then have got different
    /// numbers of bytes; the report says how many. It goes on, with what was under way first, once
    /// it has been given another one.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.options.cancel = Some(cancel.clone());
        self
    }

    /// Stops at this time, also out of a wait, and ends with [`Ended::TimedOut`]; `None` takes a
    /// deadline away. It goes on as after [`cancel`](Self::cancel).
    pub fn deadline(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.options.deadline = at.into();
        self
    }

    /// Bytes that one system call moves at most; as many as suit the way unless told otherwise.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.options.chunk = Some(bytes);
        self
    }

    /// Bytes that output pipes are grown to, as far as this user may; 1 MiB unless told otherwise.
    /// 0 leaves them as they are. A pipe is never shrunk.
    ///
    /// All pipes of an unprivileged user together may hold 64 MiB (`pipe-user-pages-soft`,
    /// [`linux::pipe_user_pages_soft`](crate::linux::pipe_user_pages_soft)), which is 64 pipes of
    /// 1 MiB. Past that, new pipes of all his programs get two pages instead of 16, and none can grow. Who
    /// moves bytes over many pipes at once, or has other programs that need theirs, asks for less.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.options.pipe_size = Some(bytes);
        self
    }

    /// Moves bytes until the source ends, the limit is reached, or no sink is left.
    ///
    /// # Errors
    /// [`TeeFailure`]: with [`Error::Moving`] where the source failed, or a sink whose policy says
    /// that this ends everything; with [`Error::Invalid`] where a sink is the source, or a chunk of 0
    /// bytes was asked for.
    pub fn run(&mut self) -> Result<TeeReport, TeeFailure> {
        let began = Instant::now();
        let state = match &mut self.state {
            Some(state) => state,
            none => match look(&self.source, &self.sinks, &self.options) {
                Ok(state) => none.insert(state),
                Err(error) => {
                    return Err(TeeFailure {
                        report: TeeReport {
                            taken: 0,
                            sinks: Vec::new(),
                            elapsed: began.elapsed(),
                            ended: Ended::Failed,
                            guarantee: self.options.guarantee,
                        },
                        sink: None,
                        error,
                    });
                }
            },
        };
        state.wait_as(&self.options.waiter());
        let outcome = Splitting {
            options: &self.options,
            source: self.source.as_fd(),
            sinks: self.sinks.iter().map(|(sink, _)| sink.as_fd()).collect(),
            state,
        }
        .go_on();
        let is_over = matches!(
            outcome,
            Ok(Ended::AtEnd | Ended::AtLimit)
                | Err(Broken::Source(..) | Broken::Sink(..) | Broken::Other(_))
        );
        if is_over {
            for branch in &mut state.branches {
                branch.outlet.let_go();
            }
        }
        self.elapsed += began.elapsed();
        state.report(outcome, self.elapsed)
    }
}

/// Finds out what the fds are.
fn look<Source: AsFd, Sink: AsFd>(
    source: &Source,
    sinks: &[(Sink, Policy)],
    options: &Options,
) -> Result<State> {
    options.check()?;
    let source = source.as_fd();
    let source_stat = transfer::stat_of(source, Side::Source)?;
    let source_kind = Kind::of(source, &source_stat);
    let mut branches = Vec::with_capacity(sinks.len());
    for (sink, policy) in sinks {
        let fd = sink.as_fd();
        let stat = transfer::stat_of(fd, Side::Sink)?;
        transfer::refuse_the_same(&source_stat, &stat, false)?;
        let mut calls = Calls::new(options.wait);
        calls.know(fd, FileType::from_raw_mode(stat.st_mode));
        branches.push(Branch {
            kind: Kind::of(fd, &stat),
            policy: *policy,
            outlet: Outlet::new(calls),
            at: 0,
            bytes: 0,
            error: None,
            ignored: false,
            would_wait: false,
        });
    }
    let long = u64::try_from(source_stat.st_size).unwrap_or(0) > memory::FIRST as u64;
    Ok(State {
        source_kind,
        branches,
        taken: 0,
        waiter: options.waiter(),
        long: long && source_kind == Kind::Regular,
        began: false,
        guarantee: options.guarantee,
        referring: None,
        copying: None,
    })
}

impl Splitting<'_> {
    fn go_on(&mut self) -> Result<Ended, Broken> {
        if !self.state.began {
            self.state.began = true;
            self.state.referring = match self.options.guarantee {
                Guarantee::Reference => self.referring(),
                Guarantee::Snapshot => None,
            };
            if self.state.referring.is_none() {
                self.state.guarantee = Guarantee::Snapshot;
            }
        }
        if let Some(mut referring) = self.state.referring.take() {
            match self.refer(&mut referring) {
                Ok(None) => self.state.guarantee = Guarantee::Snapshot,
                // A 0 of splice(2) or tee(2) is no end until read(2) says so too.
                Ok(Some(Ended::AtEnd)) => {}
                Ok(Some(ended)) => {
                    self.state.referring = Some(referring);
                    return Ok(ended);
                }
                Err(broken) => {
                    self.state.referring = Some(referring);
                    return Err(broken);
                }
            }
            // What no sink is left for.
            self.state.taken += referring.held();
        }
        let mut copying = match self.state.copying.take() {
            Some(copying) => copying,
            None => Copying::new(self.state.waiter.clone(), self.most(memory::FIRST)),
        };
        let outcome = self.copy(&mut copying);
        self.state.copying = Some(copying);
        outcome
    }

    /// Bytes that may still be taken from the source, and at most `otherwise`.
    fn most(&self, otherwise: usize) -> usize {
        self.options.most(self.state.taken, otherwise)
    }

    fn is_at_limit(&self) -> bool {
        self.options.is_at_limit(self.state.taken)
    }

    /// Takes in what a call on sink `i` failed with.
    ///
    /// # Errors
    /// Where its policy says that this ends everything.
    fn failed(&mut self, i: usize, operation: &'static str, errno: Errno) -> Result<(), Broken> {
        let branch = &mut self.state.branches[i];
        let on_error = match errno {
            Errno::PIPE => branch.policy.closed,
            _ => branch.policy.other,
        };
        if on_error == OnError::FailAll {
            return Err(Broken::Sink(i, operation, errno));
        }
        branch.ignored = on_error == OnError::Ignore;
        branch.error = Some((operation, errno));
        Ok(())
    }

    /// Sleeps until one of these is worth a try.
    fn wait_for(&mut self, waited: &[Waited]) -> Result<(), Broken> {
        if self.options.never {
            let mut side = Side::Source;
            for &sink in waited.iter().flatten() {
                self.state.branches[sink].would_wait = true;
                side = Side::Sink;
            }
            return Err(Broken::Ended(Ended::WouldWait(side)));
        }
        let State {
            branches, waiter, ..
        } = &mut *self.state;
        let fds: Vec<_> = waited
            .iter()
            .map(|waited| match *waited {
                Some(i) => (branches[i].outlet.fd(self.sinks[i]), Ready::ToWrite),
                None => (self.source, Ready::ToRead),
            })
            .collect();
        match waiter.until_any_ready(&fds) {
            Ok(None) => Ok(()),
            // The timeout of a socket has passed, as it would have in a call that sleeps.
            Ok(Some(overdue)) => match waited[overdue] {
                Some(sink) => self.failed(sink, "write", Errno::AGAIN),
                None => Err(Broken::Source("read", Errno::AGAIN)),
            },
            Err(errno) => Err(match self.state.waiter.stopped() {
                Some(stopped) => Broken::Ended(stopped.into()),
                None => Error::system("poll")(errno).into(),
            }),
        }
    }

    fn check_stopped(&self) -> Result<(), Broken> {
        match self.options.stopped() {
            Some(stopped) => Err(Broken::Ended(stopped.into())),
            None => Ok(()),
        }
    }

    /// Makes the sinks that are pipes roomy, as far as this user may.
    fn grow_sinks(&self) {
        for (branch, &sink) in self.state.branches.iter().zip(&self.sinks) {
            if branch.kind == Kind::Pipe {
                self.options.make_roomy(sink);
            }
        }
    }
}

impl State {
    /// Lets everything wait so from now on.
    fn wait_as(&mut self, waiter: &Waiter) {
        self.waiter = waiter.clone();
        // Nobody else looks whether one of many fds is a socket, and few are waited for.
        self.waiter.count_timeouts_of_sockets();
        for branch in &mut self.branches {
            branch.outlet.calls.wait_as(waiter.clone().never_waiting());
            branch.would_wait = false;
        }
        if let Some(copying) = &mut self.copying {
            copying.wait_as(waiter);
        }
    }

    fn report(
        &self,
        outcome: Result<Ended, Broken>,
        elapsed: Duration,
    ) -> Result<TeeReport, TeeFailure> {
        let (ended, failed) = match outcome {
            Ok(ended) => (ended, None),
            Err(Broken::Ended(ended)) => (ended, None),
            Err(broken) => (Ended::Failed, Some(broken)),
        };
        let moved = |sink: Option<usize>| sink.map_or(self.taken, |i| self.branches[i].bytes);
        let moving = |side, sink, operation, errno: Errno| Error::Moving {
            side,
            operation,
            errno: errno.into(),
            moved: moved(sink),
        };
        let failed = failed.map(|broken| match broken {
            Broken::Source(operation, errno) => {
                (None, moving(Side::Source, None, operation, errno))
            }
            Broken::Sink(i, operation, errno) => {
                (Some(i), moving(Side::Sink, Some(i), operation, errno))
            }
            Broken::Other(error) => (None, error),
            Broken::Ended(_) => (None, Error::Invalid("nothing failed".into())),
        });
        let held = self.referring.as_ref().map_or(0, Referring::held);
        let report = TeeReport {
            taken: self.taken + held,
            sinks: self.branches.iter().map(Branch::report).collect(),
            elapsed,
            ended,
            guarantee: self.guarantee,
        };
        match failed {
            None => Ok(report),
            Some((sink, error)) => Err(TeeFailure {
                report,
                sink,
                error,
            }),
        }
    }
}

impl Branch {
    fn is_alive(&self) -> bool {
        self.error.is_none()
    }

    fn report(&self) -> SinkReport {
        SinkReport {
            bytes: self.bytes,
            error: self.error.map(|(operation, errno)| Error::Moving {
                side: Side::Sink,
                operation,
                errno: errno.into(),
                moved: self.bytes,
            }),
            ignored: self.ignored,
            would_wait: self.would_wait,
        }
    }
}

impl From<Stop> for Broken {
    /// For calls that have nothing to do with a sink.
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Ended(stopped) => Broken::Ended(stopped.into()),
            Stop::At(_, operation, errno) => Broken::Source(operation, errno),
            Stop::Other(error) => Broken::Other(error),
        }
    }
}

impl<Source: AsFd + fmt::Debug, Sink: AsFd + fmt::Debug> fmt::Debug for Tee<Source, Sink> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tee")
            .field("source", &self.source)
            .field("sinks", &self.sinks)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

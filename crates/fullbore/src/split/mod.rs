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

use rustix::io::Errno;

use crate::error::{Error, Result, Side};
use crate::linux::Calls;
use crate::memory;
use crate::produce::stage::Outlet;
use crate::transfer::{self, Ended, Guarantee, Kind, Options, Stop};
use crate::wait::{Cancel, Ready, Wait, Waiter};

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
}

/// What a [`Tee`] has done.
#[derive(Debug)]
pub struct TeeReport {
    /// Bytes that were taken from the source.
    pub taken: u64,
    /// What came of each sink, in the order they were added.
    pub sinks: Vec<SinkReport>,
    /// How long it ran.
    pub elapsed: Duration,
    /// Why it returned. [`Ended::AtEnd`] also when no sink is left that takes anything.
    pub ended: Ended,
    /// Which guarantee the way rests on that it took: [`Guarantee::Snapshot`] also where
    /// [`Guarantee::Reference`] was asked for and the kernel does not do that.
    pub guarantee: Guarantee,
}

/// What came of one sink.
#[derive(Debug)]
pub struct SinkReport {
    /// Bytes that arrived there.
    pub bytes: u64,
    /// Why it was dropped, if it was.
    pub error: Option<Error>,
    /// Whether that counts as an error, by its policy.
    pub ignored: bool,
}

/// A [`Tee`] that failed: how, and what it had done before.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct TeeFailure {
    /// What had been moved.
    pub report: TeeReport,
    /// The number of the sink that failed, from 0; none where the source did.
    pub sink: Option<usize>,
    /// The side, the operation and the kernel's word.
    #[source]
    pub error: Error,
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

/// One sink while it runs.
struct Branch<'fd> {
    fd: BorrowedFd<'fd>,
    kind: Kind,
    policy: Policy,
    outlet: Outlet,
    /// How much it has got of what is handed out.
    at: usize,
    bytes: u64,
    error: Option<Error>,
    ignored: bool,
}

/// What is common to both ways.
struct Splitting<'a> {
    options: &'a Options,
    source: BorrowedFd<'a>,
    source_kind: Kind,
    branches: Vec<Branch<'a>>,
    taken: u64,
    /// Waits for whichever side is not ready.
    waiter: Waiter,
    /// Whether enough came for setting something up.
    long: bool,
}

/// Why it cannot go on.
enum Broken {
    /// The source failed.
    Source(&'static str, Errno),
    /// A sink did, whose policy says that this ends everything.
    Sink(usize, &'static str, Errno),
    /// Somebody cancelled.
    Cancelled,
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
        }
    }

    /// Adds a sink, and what its errors mean.
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

    /// Stops, also out of a wait, when `cancel` is cancelled. Sinks may then have got different
    /// numbers of bytes; the report says how many.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.options.cancel = Some(cancel.clone());
        self
    }

    /// Bytes that one system call moves at most; as many as suit the way unless told otherwise.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.options.chunk = Some(bytes);
        self
    }

    /// Bytes that output pipes are grown to, as far as this user may; 1 MiB unless told otherwise.
    /// 0 leaves them as they are. A pipe is never shrunk.
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
    pub fn run(self) -> Result<TeeReport, TeeFailure> {
        let began = Instant::now();
        let mut guarantee = self.options.guarantee;
        let mut splitting = match Splitting::new(&self) {
            Ok(splitting) => splitting,
            Err(error) => {
                return Err(TeeFailure {
                    report: TeeReport {
                        taken: 0,
                        sinks: Vec::new(),
                        elapsed: began.elapsed(),
                        ended: Ended::Failed,
                        guarantee,
                    },
                    sink: None,
                    error,
                });
            }
        };
        let referred = match guarantee {
            Guarantee::Reference => splitting.refer(),
            Guarantee::Snapshot => Ok(None),
        };
        let outcome = match referred {
            Ok(Some(ended)) => Ok(ended),
            Ok(None) => {
                guarantee = Guarantee::Snapshot;
                splitting.copy()
            }
            Err(broken) => Err(broken),
        };
        splitting.report(outcome, guarantee, began.elapsed())
    }
}

impl<'a> Splitting<'a> {
    fn new<Source: AsFd, Sink: AsFd>(tee: &'a Tee<Source, Sink>) -> Result<Self> {
        let options = &tee.options;
        options.check()?;
        let source = tee.source.as_fd();
        let source_stat = transfer::stat_of(source, Side::Source)?;
        let waiter = options.waiter();
        let mut branches = Vec::with_capacity(tee.sinks.len());
        for (sink, policy) in &tee.sinks {
            let fd = sink.as_fd();
            let stat = transfer::stat_of(fd, Side::Sink)?;
            transfer::refuse_the_same(&source_stat, &stat, false)?;
            branches.push(Branch {
                fd,
                kind: Kind::of(fd, &stat),
                policy: *policy,
                outlet: Outlet::new(Calls::with(waiter.clone().never_waiting())),
                at: 0,
                bytes: 0,
                error: None,
                ignored: false,
            });
        }
        let long = u64::try_from(source_stat.st_size).unwrap_or(0) > memory::FIRST as u64;
        let source_kind = Kind::of(source, &source_stat);
        Ok(Self {
            options,
            source,
            source_kind,
            branches,
            taken: 0,
            waiter,
            long: long && source_kind == Kind::Regular,
        })
    }

    /// Bytes that may still be taken from the source, and at most `otherwise`.
    fn most(&self, otherwise: usize) -> usize {
        self.options.most(self.taken, otherwise)
    }

    fn is_at_limit(&self) -> bool {
        self.options.is_at_limit(self.taken)
    }

    /// Takes in what a call on sink `i` failed with.
    ///
    /// # Errors
    /// Where its policy says that this ends everything.
    fn failed(&mut self, i: usize, operation: &'static str, errno: Errno) -> Result<(), Broken> {
        let branch = &mut self.branches[i];
        let on_error = match errno {
            Errno::PIPE => branch.policy.closed,
            _ => branch.policy.other,
        };
        if on_error == OnError::FailAll {
            return Err(Broken::Sink(i, operation, errno));
        }
        branch.ignored = on_error == OnError::Ignore;
        branch.error = Some(Error::Moving {
            side: Side::Sink,
            operation,
            errno: errno.into(),
            moved: branch.bytes,
        });
        Ok(())
    }

    /// Sleeps until one of these is worth a try.
    fn wait_for(&mut self, fds: &[(BorrowedFd<'_>, Ready)]) -> Result<(), Broken> {
        match self.waiter.until_any_ready(fds) {
            Ok(()) => Ok(()),
            Err(Errno::CANCELED) => Err(Broken::Cancelled),
            Err(errno) => Err(Error::system("poll")(errno).into()),
        }
    }

    fn check_cancelled(&self) -> Result<(), Broken> {
        if self.options.is_cancelled() {
            Err(Broken::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Makes the sinks that are pipes roomy, as far as this user may.
    fn grow_sinks(&self) {
        for branch in &self.branches {
            if branch.kind == Kind::Pipe {
                self.options.make_roomy(branch.fd);
            }
        }
    }

    fn report(
        self,
        outcome: Result<Ended, Broken>,
        guarantee: Guarantee,
        elapsed: Duration,
    ) -> Result<TeeReport, TeeFailure> {
        let (ended, failed) = match outcome {
            Ok(ended) => (ended, None),
            Err(Broken::Cancelled) => (Ended::Cancelled, None),
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
            Broken::Cancelled => (None, Error::Invalid("cancelled".into())),
        });
        let report = TeeReport {
            taken: self.taken,
            sinks: self
                .branches
                .into_iter()
                .map(|branch| SinkReport {
                    bytes: branch.bytes,
                    error: branch.error,
                    ignored: branch.ignored,
                })
                .collect(),
            elapsed,
            ended,
            guarantee,
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

impl Branch<'_> {
    fn is_alive(&self) -> bool {
        self.error.is_none()
    }
}

impl From<Stop> for Broken {
    /// For calls that have nothing to do with a sink.
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::At(_, _, Errno::CANCELED) => Broken::Cancelled,
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
            .finish()
    }
}

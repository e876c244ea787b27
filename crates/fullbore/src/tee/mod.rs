//! One fd to many: [`Tee`] gives every sink the same bytes.
//!
//! | file | contains |
//! |---|---|
//! | `copying.rs` | bytes are read once into fresh pages, which are given to every pipe |
//! | `splitting.rs` | the sinks, and how an error of one affects the others |
//! | `report.rs` | the report and the error |
//! | this one | the options |
//!
//! The tee never waits for a single sink. Each sink gets as many bytes as it has room for, and the tee sleeps only when
//! no sink has room; into a pipe that is the only sink, it sleeps in the call. So a stalled sink delays the others only once its own pipe is full. The exception is a device
//! other than a terminal: its driver need not support poll(2) for writing, so write(2) is called, and may block.
//!
//! While the source has no bytes, the tee also watches whether the sinks still have readers. It ends once none has.

mod copying;
mod report;
mod splitting;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use crate::memory;
use crate::messages::longest_message;
use crate::outlet::Outlet;
use crate::stage::Stage;
use crate::transfer::{self, EndReason, Kind, Options};
use copying::Copying;
use fullbore_linux::Calls;
use fullbore_linux::error::{Error, Result, TransferSide};
use fullbore_linux::wait::{Cancel, Nap, Wait, Waiter};
pub use report::{OnError, Policy, SinkReport, TeeFailure, TeeReport};
use splitting::{Branch, Broken, Splitting, State};

/// Moves bytes from one source to many sinks.
///
/// Every sink that does not fail gets exactly the bytes of the source, as they were when they were read
/// ([`Guarantee::Snapshot`](crate::Guarantee::Snapshot)). A stalled sink delays the others only once its own pipe is
/// full.
///
/// If every sink is a pipe, a FIFO or a stream socket, and none of them has a reader any more, it ends at once, even
/// while the source has no bytes, as if a write to each sink had failed. If a policy says [`OnError::FailAll`], it does
/// so only with [`fail_without_readers`](Self::fail_without_readers). The peer of a TCP connection counts as a reader
/// until it has reset the connection.
///
/// ```
/// use std::io::{Read, Write};
/// use fullbore::{Pipe, Tee, tee::Policy};
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
///
/// # fork
/// A child of fork(2) must not use its copy: `run` returns an error there, so that no byte is sent twice. The child may
/// drop it.
pub struct Tee<Source: AsFd, Sink: AsFd> {
    source: Source,
    sinks: Vec<(Sink, Policy)>,
    options: Options,
    fails_without_readers: bool,
    begun: Option<Begun>,
    elapsed: Duration,
}

/// The state of a tee between two runs.
struct Begun {
    state: State,
    copying: Option<Copying>,
}

impl<Source: AsFd, Sink: AsFd> Tee<Source, Sink> {
    /// Creates a tee of `source` that has no sinks yet and blocks.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            sinks: Vec::new(),
            options: Options::new(),
            fails_without_readers: false,
            begun: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Adds a sink, and sets what happens after an error of this sink. Has no effect after the first run.
    pub fn sink(mut self, sink: Sink, policy: Policy) -> Self {
        if self.begun.is_none() {
            self.sinks.push((sink, policy));
        }
        self
    }

    /// Sets the maximum number of bytes to move. No more than that are taken from the source.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.options.limit = Some(bytes);
        self
    }

    /// Sets how to wait while there is nothing to read or no sink has room.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.options.waiter.wait = wait;
        self
    }

    /// Sets whether [`run`](Self::run) returns [`EndReason::WouldBlock`] instead of waiting. The next call
    /// continues from there. [`would_block`](SinkReport::would_block) shows which sinks have to make
    /// room first.
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.options.waiter.never = nonblocking;
        self
    }

    /// Stops when `cancel` is cancelled, also during a wait. The sinks may then have got different numbers of bytes;
    /// the report has them. With another `Cancel` the tee can continue; it first sends the bytes that some sinks lack.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.options.waiter.cancel = Some(cancel.clone());
        self
    }

    /// Stops at this time with [`EndReason::TimedOut`], also during a wait; `None` removes the
    /// deadline. The tee can continue as after [`cancel`](Self::cancel).
    pub fn deadline(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.options.waiter.deadline = at.into();
        self
    }

    /// Sets the most bytes that one system call moves, as [`Transfer::chunk`](crate::Transfer::chunk). The
    /// default depends on the method.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.options.chunk = Some(bytes);
        self
    }

    /// Sets the capacity in bytes that output pipes are grown to, as far as the user's limits allow. The default is 1
    /// MiB. 0 leaves them as they are. A pipe is never shrunk.
    ///
    /// All pipes of an unprivileged user may have 64 MiB together (`/proc/sys/fs/pipe-user-pages-soft`), which is 64
    /// pipes of 1 MiB. Beyond that,
    /// new pipes of this user have one or two pages instead of 16, and none can grow. A program that uses many pipes at
    /// once, or whose user has other programs that need large pipes, should set a smaller size.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.options.pipe_size = Some(bytes);
        self
    }

    /// Sets whether to use only read(2) and write(2), for sandboxes and kernels whose other system calls are not
    /// trusted. This is slower.
    pub fn plain(mut self, plain: bool) -> Self {
        self.options.plain = plain;
        self
    }

    /// Sets whether the tee also fails at once when no sink has a reader while the source has no bytes, if a policy
    /// says [`OnError::FailAll`]. By default such a tee waits for the next byte: if the source ends instead, every sink
    /// has got every byte, and readers that have left are no error.
    pub fn fail_without_readers(mut self, fail: bool) -> Self {
        self.fails_without_readers = fail;
        self
    }

    /// Moves bytes until the source ends, the limit is reached, or no sink is left.
    ///
    /// # Errors
    /// [`TeeFailure`]: with [`Error::Moving`] if the source failed, or a sink whose policy is to fail the whole tee;
    /// with [`Error::Invalid`] if a sink is the source, or for a chunk of 0 bytes.
    pub fn run(&mut self) -> Result<TeeReport, TeeFailure> {
        let began = Instant::now();
        let begun = match &mut self.begun {
            Some(begun) => begun,
            none => match begin(&self.source, &self.sinks, &self.options) {
                Ok(begun) => none.insert(begun),
                Err(error) => {
                    return Err(TeeFailure {
                        report: TeeReport {
                            taken: 0,
                            sinks: Vec::new(),
                            elapsed: began.elapsed(),
                            ended: EndReason::Failed,
                        },
                        sink: None,
                        error,
                    });
                }
            },
        };
        begun.wait_as(&self.options.waiter);
        begun.state.fails_without_readers = self.fails_without_readers;
        let sinks = self.sinks.iter().map(|(sink, _)| sink.as_fd()).collect();
        let outcome = match self.options.check() {
            Ok(()) => begun.go_on(&self.options, self.source.as_fd(), sinks),
            Err(error) => Err(error.into()),
        };
        let is_over = matches!(
            outcome,
            Ok(EndReason::AtEnd | EndReason::AtLimit)
                | Err(Broken::Source(..) | Broken::Sink(..) | Broken::Other(_))
        );
        if is_over {
            for branch in &mut begun.state.branches {
                branch.outlet.let_go();
            }
        }
        self.elapsed += began.elapsed();
        begun.state.report(outcome, self.elapsed)
    }
}

/// Examines the source and the sinks, and checks the options.
fn begin<Source: AsFd, Sink: AsFd>(
    source: &Source,
    sinks: &[(Sink, Policy)],
    options: &Options,
) -> Result<Begun> {
    if sinks.is_empty() {
        return Err(Error::Invalid("a tee needs at least one sink".into()));
    }
    let source = source.as_fd();
    let source_stat = transfer::stat_of(source, TransferSide::Source)?;
    let source_kind = Kind::of(source, &source_stat);
    let mut branches = Vec::with_capacity(sinks.len());
    for (sink, policy) in sinks {
        let fd = sink.as_fd();
        let stat = transfer::stat_of(fd, TransferSide::Sink)?;
        transfer::refuse_the_same(&source_stat, &stat, false)?;
        let mut calls = Calls::new(options.waiter.wait);
        calls.know(fd, FileType::from_raw_mode(stat.st_mode));
        let kind = Kind::of(fd, &stat);
        branches.push(Branch::new(kind, *policy, Outlet::new(calls)));
    }
    let long = u64::try_from(source_stat.st_size).unwrap_or(0) > memory::FIRST as u64;
    Ok(Begun {
        state: State {
            source_kind,
            branches,
            longest_message: longest_message(source, &source_stat),
            taken: 0,
            waiter: options.waiter.clone(),
            nap: Nap::default(),
            fails_without_readers: false,
            long: long && source_kind == Kind::Regular,
        },
        copying: None,
    })
}

impl Begun {
    /// Applies the settings of `waiter` to all waits from now on.
    fn wait_as(&mut self, waiter: &Waiter) {
        self.state.wait_as(waiter);
        if let Some(copying) = &mut self.copying {
            copying.wait_as(waiter);
        }
    }

    fn go_on(
        &mut self,
        options: &Options,
        source: BorrowedFd<'_>,
        sinks: Vec<BorrowedFd<'_>>,
    ) -> Result<EndReason, Broken> {
        let mut splitting = Splitting {
            options,
            source,
            sinks,
            state: &mut self.state,
        };
        let copying = self.copying.get_or_insert_with(|| {
            let stage = match splitting.state.longest_message {
                memory::MESSAGE => Stage::for_messages(),
                _ => Stage::small(memory::FIRST),
            };
            Copying::new(splitting.state.waiter.clone(), stage)
        });
        splitting.copy(copying)
    }
}

impl<Source: AsFd + fmt::Debug, Sink: AsFd + fmt::Debug> fmt::Debug for Tee<Source, Sink> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tee")
            .field("source", &self.source)
            .field("sinks", &self.sinks)
            .finish_non_exhaustive()
    }
}

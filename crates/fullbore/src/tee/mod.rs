//! One fd to many: [`Tee`] gives every sink the same bytes.
//!
//! | file | contains |
//! |---|---|
//! | `copying.rs` | bytes are read once into fresh pages, which are given to every pipe |
//! | `splitting.rs` | the sinks, and how an error of one affects the others |
//! | `options.rs` | the options |
//! | `report.rs` | the report and the error |
//! | this one | the tee between two runs |
//!
//! The tee never waits for a single sink. Each sink gets as many bytes as it has room for, and the tee sleeps only when
//! no sink has room. So a stalled sink delays the others only once its own pipe is full. The exception is a device
//! other than a terminal: its driver need not support poll(2) for writing, so write(2) is called, and may block.
//!
//! While the source has no bytes, the tee also watches whether the sinks still have readers. It ends once none has.

mod copying;
mod options;
mod report;
mod splitting;

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use crate::memory;
use crate::outlet::Outlet;
use crate::stage::Stage;
use crate::transfer::{EndReason, Kind};
use fullbore_linux::error::{Error, Result, TransferSide};
use fullbore_linux::messages::longest_message;
use fullbore_linux::wait::{Cancel, Nap, Wait, Waiter};
use fullbore_linux::{Calls, Owner, refuse_the_same, stat_of};
pub use options::{ForTee, TeeOptions};
pub(crate) use report::{Dropped, write_sinks};
pub use report::{OnError, Parts, Policy, SinkReport, TeeFailure, TeeReport};
use splitting::{Branch, Broken, Splitting, State};

/// Moves bytes from one source to many sinks.
///
/// Every sink that does not fail gets exactly the bytes of the source, as they were when they were read
/// ([`Guarantee::Snapshot`](crate::Guarantee::Snapshot)). A stalled sink delays the others only once its own pipe is
/// full.
///
/// If every sink is a pipe, a FIFO or a stream socket, and none of them has a reader any more, it ends at once, even
/// while the source has no bytes, as if a write to each sink had failed. If a policy says [`OnError::FailAll`], it does
/// so only with [`fail_without_readers`](TeeOptions::fail_without_readers). The peer of a TCP connection counts as a reader
/// until it has reset the connection.
///
/// Sinks of different types are passed as what they have in common, their descriptors:
///
/// ```
/// use std::io::Write;
/// use std::os::fd::AsFd;
/// use fullbore::{Pipe, Tee, tee::Policy};
/// let (source, pipe, file) = (Pipe::new()?, Pipe::new()?, tempfile::tempfile()?);
/// std::fs::File::from(source.writer).write_all(b"hello")?;
/// let sinks = [(pipe.writer.as_fd(), Policy::FAIL_ALL), (file.as_fd(), Policy::DROP)];
/// let report = Tee::new(&source.reader, sinks).run()?;
/// assert_eq!(report.taken, 5);
/// assert!(report.sinks.iter().all(|sink| sink.bytes == 5 && sink.error.is_none()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) must not use its copy: `run` returns an error there, so that no byte is sent twice. The child may
/// drop it.
pub struct Tee<Source, Sink> {
    source: Source,
    sinks: Vec<(Sink, Policy)>,
    options: TeeOptions,
    /// What is kept between two runs.
    begun: Option<State>,
    elapsed: Duration,
    /// The process that created it. Bytes that some sinks lack are not its children's.
    owner: Owner,
}

impl TeeOptions {
    /// Creates a tee of `source` into these sinks, each with what happens after an error of it. It makes no system call
    /// before it runs.
    pub fn open<Source: AsFd, Sink: AsFd>(
        mut self,
        source: Source,
        sinks: impl IntoIterator<Item = (Sink, Policy)>,
    ) -> Tee<Source, Sink> {
        self.waiter.looks = true;
        self.waiter.counts = true;
        Tee {
            source,
            sinks: sinks.into_iter().collect(),
            options: self,
            begun: None,
            elapsed: Duration::ZERO,
            owner: Owner::this(),
        }
    }
}

impl<Source: AsFd, Sink: AsFd> Tee<Source, Sink> {
    /// Creates a tee that blocks; see [`TeeOptions::open`].
    pub fn new(source: Source, sinks: impl IntoIterator<Item = (Sink, Policy)>) -> Self {
        TeeOptions::new().open(source, sinks)
    }

    /// Sets the limit of all runs together, in bytes; `None` removes it. See [`TeeOptions::limit`].
    pub fn set_limit(&mut self, bytes: impl Into<Option<u64>>) {
        self.options.limit = bytes.into();
    }

    /// Sets what cancels the next runs, so that a cancelled tee can continue; `None` for nothing. See
    /// [`TeeOptions::cancel`].
    pub fn set_cancel(&mut self, cancel: Option<&Cancel>) {
        self.options.waiter.cancel = cancel.cloned();
    }

    /// Sets the deadline of the next runs; `None` removes it. See [`TeeOptions::deadline`].
    pub fn set_deadline(&mut self, at: impl Into<Option<Instant>>) {
        self.options.waiter.deadline = at.into();
    }

    /// Returns the source, and every sink with the bytes that were taken from the source and have not arrived at it. A
    /// sink that was dropped for an error has none.
    ///
    /// # Errors
    /// In a child of the process that created it.
    pub fn into_parts(self) -> Result<Parts<Source, Sink>> {
        self.owner.check("tee")?;
        let begun = self.begun.as_ref();
        let lacks = |i: usize| {
            let branch = begun?.branches.get(i)?;
            let rest = begun?.stage.bytes().get(branch.at..);
            Some(rest.filter(|_| branch.is_alive())?.to_vec())
        };
        let sinks = self.sinks.into_iter().enumerate();
        let sinks = sinks.map(|(i, (sink, _))| (sink, lacks(i).unwrap_or_default()));
        Ok((self.source, sinks.collect()))
    }

    /// Moves bytes until the source ends, the limit is reached, or no sink is left.
    ///
    /// # Errors
    /// [`TeeFailure`]: with [`Error::Moving`] if the source failed, or a sink whose policy is to fail the whole tee;
    /// with [`Error::Invalid`] if a sink is the source, or for a chunk of 0 bytes.
    pub fn run(&mut self) -> Result<TeeReport, TeeFailure> {
        self.run_with(|_| ControlFlow::Continue(()))
    }

    /// Moves bytes as [`run`](Self::run) does, calls `progress` after each step, in which all sinks got so many bytes, and
    /// stops when that returns [`ControlFlow::Break`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(
        &mut self,
        mut progress: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<TeeReport, TeeFailure> {
        let began = Instant::now();
        let state = match &mut self.begun {
            Some(state) => state,
            none => {
                let begun = begin(&self.source, &self.sinks, &self.options);
                let report = || TeeReport {
                    taken: 0,
                    sinks: Vec::new(),
                    elapsed: began.elapsed(),
                    ended: EndReason::Failed,
                };
                none.insert(begun.map_err(|error| TeeFailure::new(report(), None, error))?)
            }
        };
        state.wait_as(&self.options.waiter);
        let sinks = self.sinks.iter().map(|(sink, _)| sink.as_fd()).collect();
        let may_run = self.owner.check("tee");
        let may_run = may_run.and_then(|()| self.options.check_chunk());
        let mut splitting = Splitting {
            options: &self.options,
            source: self.source.as_fd(),
            sinks,
            state,
        };
        let outcome = match may_run {
            Ok(()) => splitting.copy(&mut progress),
            Err(error) => Err(error.into()),
        };
        let is_over = matches!(
            outcome,
            Ok(EndReason::AtEnd | EndReason::AtLimit) | Err(Broken::Failed(..))
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

/// Examines the source and the sinks, and checks the options.
fn begin<Source: AsFd, Sink: AsFd>(
    source: &Source,
    sinks: &[(Sink, Policy)],
    options: &TeeOptions,
) -> Result<State> {
    if sinks.is_empty() {
        return Err(Error::Invalid("a tee needs at least one sink".into()));
    }
    let source = source.as_fd();
    let source_stat = stat_of(source, TransferSide::Source)?;
    let source_kind = Kind::of(source, &source_stat);
    let longest_message = longest_message(source, &source_stat);
    let mut branches = Vec::with_capacity(sinks.len());
    for (sink, policy) in sinks {
        let fd = sink.as_fd();
        let stat = stat_of(fd, TransferSide::Sink)?;
        refuse_the_same(&source_stat, &stat, false)?;
        let mut calls = Calls::new(options.waiter.wait);
        calls.know(fd, FileType::from_raw_mode(stat.st_mode));
        let kind = Kind::of(fd, &stat);
        let mut outlet = Outlet::new(calls);
        outlet.whole_messages = longest_message == memory::MESSAGE;
        branches.push(Branch::new(kind, *policy, outlet));
    }
    let long = u64::try_from(source_stat.st_size).unwrap_or(0) > memory::FIRST as u64;
    let mut stage = Stage::default();
    stage.begin(longest_message, memory::FIRST);
    Ok(State {
        source_kind,
        branches,
        longest_message,
        taken: 0,
        waiter: Waiter::default(),
        nap: Nap::default(),
        long: long && source_kind == Kind::Regular,
        reader: Calls::new(Wait::Block),
        stage,
    })
}

impl<Source: fmt::Debug, Sink: fmt::Debug> fmt::Debug for Tee<Source, Sink> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tee")
            .field("source", &self.source)
            .field("sinks", &self.sinks)
            .finish_non_exhaustive()
    }
}

//! Moves bytes from one fd to others through a large memory: [`Buffer`] keeps reading while its sinks are slow, and
//! keeps its sinks busy while its source is slow.
//!
//! | file | contains |
//! |---|---|
//! | `reading.rs` | the side that reads |
//! | `writing.rs` | the sides that write, one for each output |
//! | `ends.rs` | how the threads are ended |
//! | `options.rs` | the options |
//! | `report.rs` | what a buffer reports, while it runs and at its end |
//! | this one | the threads of a run |
//!
//! Bytes are copied once, from the source into memory. Pipes get references to this memory, which is never written to
//! again; other sinks get copies. The memory itself is in `store/`.

mod ends;
mod options;
mod reading;
mod report;
mod writing;

use std::os::fd::AsFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::outlet::Outlet;
#[cfg(feature = "unstable")]
pub use crate::store::Gate;
use crate::store::Store;
use crate::tee::{Parts, Policy, SinkReport};
use crate::transfer::EndReason;
use ends::{AtLast, Ends};
use fullbore_linux::error::{Error, Result, TransferSide};
use fullbore_linux::wait::{Pace, Stopped, Waiter};
use fullbore_linux::{Calls, refuse_the_same, stat_of};
pub use options::{BufferOptions, ForBuffer};
use reading::{Messages, Reading};
pub use report::{BufferFailure, BufferReport, Level, Waits};
use writing::{Writing, Written};

/// Moves bytes from one source through a large memory to one sink or to many.
///
/// Every sink that does not fail gets exactly the bytes of the source, as they were when they were read
/// ([`Guarantee::Snapshot`](crate::Guarantee::Snapshot)). Bytes are passed on as soon as they arrive, unless
/// [`write_rate`](BufferOptions::write_rate) or [`whole_chunks`](BufferOptions::whole_chunks) delays them. A stalled sink delays the others only
/// once the memory is full.
///
/// ```
/// use std::io::{Read, Write};
/// use fullbore::{BufferOptions, Pipe, tee::Policy};
/// let (source, sink) = (Pipe::new()?, Pipe::new()?);
/// std::fs::File::from(source.writer).write_all(b"hello")?;
/// let report = BufferOptions::new()
///     .memory(1 << 20)
///     .open(&source.reader, [(&sink.writer, Policy::FAIL_ALL)])
///     .run()?;
/// assert_eq!(report.taken, 5);
/// assert_eq!(report.sinks[0].bytes, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) may drop its copy. It has no bytes before it runs, and if both processes run theirs, each gets a
/// part of the source. A child that is forked during a run has the memory, and none of the threads: it sends nothing.
#[derive(Debug)]
pub struct Buffer<Source, Sink> {
    source: Source,
    sinks: Vec<(Sink, Policy)>,
    options: BufferOptions,
    /// The memory, once it has run.
    store: Option<Store>,
}

impl BufferOptions {
    /// Creates a buffer of `source` into these sinks, each with what happens after an error of it.
    pub fn open<Source: AsFd, Sink: AsFd>(
        self,
        source: Source,
        sinks: impl IntoIterator<Item = (Sink, Policy)>,
    ) -> Buffer<Source, Sink> {
        Buffer {
            source,
            sinks: sinks.into_iter().collect(),
            options: self,
            store: None,
        }
    }
}

impl<Source: AsFd, Sink: AsFd> Buffer<Source, Sink> {
    /// Creates a buffer of 64 MiB; see [`BufferOptions::open`].
    pub fn new(source: Source, sinks: impl IntoIterator<Item = (Sink, Policy)>) -> Self {
        BufferOptions::new().open(source, sinks)
    }

    /// Returns the source, and every sink with the bytes that were taken from the source and have not arrived at it,
    /// which there are only if the buffer has ended early. A sink that was dropped for an error has none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if only system calls may access the bytes (`mapped_by`).
    pub fn into_parts(self) -> Result<Parts<Source, Sink>> {
        let store = self.store.as_ref();
        let sinks = self.sinks.into_iter().enumerate().map(|(i, (sink, _))| {
            let unsent = store.map_or(Ok(Vec::new()), |store| store.unsent(i));
            Ok((sink, unsent?))
        });
        Ok((self.source, sinks.collect::<Result<_>>()?))
    }

    /// Moves bytes until the source ends, no sink is left, or the buffer is stopped.
    ///
    /// # Errors
    /// [`BufferFailure`]: with [`Error::Moving`] if a sink failed whose policy is to fail the whole buffer, or if the
    /// source failed (the sinks still get all bytes that were read before); with [`Error::Invalid`] for invalid
    /// options, or if a sink is the source; with [`Error::System`] if there is not enough memory.
    pub fn run(&mut self) -> Result<BufferReport, BufferFailure> {
        self.run_with(Duration::MAX, |_| {})
    }

    /// Works as [`run`](Self::run), and calls `watch` about every `interval`, and when a sink has ended.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(
        &mut self,
        interval: Duration,
        mut watch: impl FnMut(&Level),
    ) -> Result<BufferReport, BufferFailure> {
        self.watched(Some(interval), |level| {
            watch(level);
            Some(interval)
        })
    }

    /// Works as [`run`](Self::run), and calls `watch` after the time `first`, and then after the time that it returns
    /// each time; `None` is as soon as bytes are moved. It is also called when a sink has ended, and after a signal.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    #[cfg(feature = "unstable")]
    pub fn run_watched(
        &mut self,
        first: Option<Duration>,
        watch: impl FnMut(&Level) -> Option<Duration>,
    ) -> Result<BufferReport, BufferFailure> {
        self.watched(first, watch)
    }

    /// See `run_watched`.
    fn watched(
        &mut self,
        first: Option<Duration>,
        mut watch: impl FnMut(&Level) -> Option<Duration>,
    ) -> Result<BufferReport, BufferFailure> {
        let began = Instant::now();
        let prepared = self.prepare();
        let (store, messages, ends) = prepared.map_err(|error| report::before(error, began))?;
        let before = self.options.own.before_reading.take();
        let store = self.store.insert(store);
        let (store, filler, emptiers) = store.sides();
        let options = &self.options;
        let pace = |per_second: Option<u64>| per_second.map(|rate| Pace::new(rate, began));
        let calls = || {
            let mut waiter = Waiter::new(options.waiter.wait);
            waiter.looks = true;
            waiter.cancel = Some(ends.stop.clone());
            Calls::with(waiter)
        };
        let reading = Reading {
            filler,
            calls: calls(),
            source: self.source.as_fd(),
            options,
            pace: pace(options.own.read_rate),
            messages,
            before,
            ends: &ends,
        };
        let writing: Vec<Writing<'_>> = emptiers
            .into_iter()
            .zip(&self.sinks)
            .map(|(emptier, (sink, policy))| Writing {
                emptier,
                outlet: Outlet::new(calls()),
                sink: sink.as_fd(),
                policy: *policy,
                options,
                pace: pace(options.own.write_rate),
                is_long: false,
                ends: &ends,
            })
            .collect();
        let looking = || watch(&store.level(began.elapsed()));
        let ended = options.run_threads(store, &ends, (reading, writing), first, looking);
        let level = store.level(began.elapsed());
        ended.report(level, options.left(level.taken) == 0)
    }

    /// Checks the options and the fds, and allocates the memory.
    fn prepare(&mut self) -> Result<(Store, Messages, Ends)> {
        if self.sinks.is_empty() {
            return Err(Error::Invalid("a buffer needs at least one sink".into()));
        }
        if self.store.is_some() {
            return Err(Error::Invalid("a buffer runs once".into()));
        }
        self.options.check()?;
        let (chunk, own) = (self.options.piece(), &mut self.options.own);
        let source = stat_of(self.source.as_fd(), TransferSide::Source)?;
        let messages = Messages::of(self.source.as_fd(), &source, own.map.is_some())?;
        for (sink, _) in &self.sinks {
            let sink = stat_of(sink.as_fd(), TransferSide::Sink)?;
            refuse_the_same(&source, &sink, false)?;
        }
        let block = if own.whole_chunks { chunk } else { 0 };
        let gate = own.gate.take().unwrap_or_else(|| Box::new(()));
        let (bytes, map) = (own.memory.unwrap_or(64 << 20), own.map.take());
        let store = Store::new(bytes, self.sinks.len(), block, gate, map)?;
        Ok((store, messages, Ends::new()?))
    }
}

/// How the threads of a buffer have ended.
struct Ended {
    read: Result<()>,
    written: Vec<Result<Written>>,
    /// What stopped the whole buffer.
    stopped: Option<Stopped>,
}

impl Ended {
    fn report(self, level: Level, at_limit: bool) -> Result<BufferReport, BufferFailure> {
        let (mut written, read) = match self.written.into_iter().collect::<Result<Vec<_>>>() {
            Ok(written) => (written, self.read),
            // A thread could not be started, so there is no report of its sink.
            Err(error) => (Vec::new(), Err(error)),
        };
        let sinks: Vec<SinkReport> = written.iter().map(Written::report).collect();
        let failure = match written.iter().position(Written::fails_all) {
            Some(sink) => written[sink].error().map(|error| (Some(sink), error)),
            None => read.err().map(|error| (None, error)),
        };
        let report = BufferReport {
            taken: level.taken,
            level,
            sinks,
            ended: match (&failure, self.stopped) {
                (Some(_), _) => EndReason::Failed,
                (None, Some(Stopped::TimedOut)) => EndReason::TimedOut,
                (None, Some(_)) => EndReason::Cancelled,
                (None, None) if at_limit => EndReason::AtLimit,
                (None, None) => EndReason::AtEnd,
            },
        };
        match failure {
            None => Ok(report),
            Some((sink, error)) => Err(BufferFailure::new(report, sink, error)),
        }
    }
}

impl BufferOptions {
    /// Reads and writes until the buffer is over, and calls `watch` as [`Buffer::watched`].
    fn run_threads<'a>(
        &self,
        store: &Store,
        ends: &Ends,
        (reading, writing): (Reading<'a>, Vec<Writing<'a>>),
        first: Option<Duration>,
        watch: impl FnMut() -> Option<Duration>,
    ) -> Ended {
        let stop = &|| {
            store.stop();
            ends.stop.cancel();
        };
        // The buffer has finished once no writer is left: all have ended after the reader, or have failed, so that no
        // sink needs what the reader may still read.
        let starting = ends.writer();
        thread::scope(|scope| {
            let start = |writing: Writing<'a>| {
                let writer = ends.writer();
                spawn(scope, move || {
                    let _writer = writer;
                    let written = writing.run();
                    if written.fails_all() {
                        stop();
                    }
                    written
                })
            };
            let writers: Vec<_> = writing.into_iter().map(start).collect();
            let reader = spawn(scope, move || reading.run());
            drop(starting);
            if reader.is_err() || writers.iter().any(Result::is_err) {
                stop();
            }
            // Also if `watch` panics, because the scope then joins the threads.
            let at_last = AtLast(stop);
            let stopped = self.until_over(ends, first, watch);
            drop(at_last);
            Ended {
                written: writers.into_iter().map(joined).collect(),
                read: joined(reader).and_then(|read| read),
                stopped,
            }
        })
    }

    /// Sleeps until all has ended, and calls `watch` as [`Buffer::watched`]. Returns what ended it early, if
    /// anything.
    fn until_over(
        &self,
        ends: &Ends,
        mut next: Option<Duration>,
        mut watch: impl FnMut() -> Option<Duration>,
    ) -> Option<Stopped> {
        while !ends.is_over() {
            if next.is_none() {
                ends.wait_for_bytes();
            }
            // It may be too long for an `Instant`.
            let due = next.and_then(|after| Instant::now().checked_add(after));
            let mut waiter = self.waiter.clone();
            waiter.interruptible = true;
            waiter.deadline = due.into_iter().chain(waiter.deadline).min();
            let slept = waiter.poll(&[(ends.as_fd(), PollFlags::IN)], None);
            let has_rung = ends.has_rung();
            match (self.waiter.due(), waiter.stopped()) {
                _ if ends.is_over() => {}
                (Some(stopped), _) => return Some(stopped),
                (None, Some(Stopped::TimedOut | Stopped::Interrupted)) => next = watch(),
                (None, Some(stopped)) => return Some(stopped),
                (None, None) if has_rung => next = watch(),
                // poll(2) can fail for lack of kernel memory.
                (None, None) if slept.is_err() => thread::sleep(Duration::from_millis(1)),
                (None, None) => {}
            }
        }
        None
    }
}

/// Starts a thread.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let spawned = thread::Builder::new().spawn_scoped(scope, run);
    spawned.map_err(|errno| Error::System {
        operation: "start a thread",
        errno,
    })
}

/// Joins a thread.
fn joined<T>(thread: Result<ScopedJoinHandle<'_, T>>) -> Result<T> {
    match thread?.join() {
        Ok(value) => Ok(value),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

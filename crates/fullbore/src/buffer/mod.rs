//! Moves bytes from one fd to others through a large memory: [`Buffer`] keeps reading while its sinks are slow, and
//! keeps its sinks busy while its source is slow.
//!
//! | file | contains |
//! |---|---|
//! | `reading.rs` | the side that reads |
//! | `writing.rs` | the sides that write, one for each output |
//! | `ends.rs` | how the threads are ended |
//! | `chunk.rs` | how much is moved at a time |
//! | `report.rs` | what a buffer reports, while it runs and at its end |
//! | this one | the options |
//!
//! Bytes are copied once, from the source into memory. Pipes get references to this memory, which is never written to
//! again; other sinks get copies. The memory itself is in `store/`.

mod chunk;
mod ends;
mod reading;
mod report;
mod writing;

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicUsize;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::FileType;

use crate::outlet::Outlet;
use crate::store::{Layout, Store};
use crate::tee::{Policy, SinkReport};
use crate::transfer::{self, EndReason};
pub use chunk::Chunk;
use ends::{AtLast, Ends, Writer};
use fullbore_linux::Calls;
use fullbore_linux::error::{Error, Result, TransferSide};
use fullbore_linux::pipe::roomy;
use fullbore_linux::wait::{Cancel, Pace, Stopped, Wait, Waiter};
use reading::{Messages, Reading};
pub use report::{BufferFailure, BufferReport, Level, Waits};
use writing::{Writing, Written};

/// The default number of bytes of one system call.
const CHUNK: usize = 1 << 20;

/// The default size of the memory.
const MEMORY: usize = 64 << 20;

/// Moves bytes from one source through a large memory to one sink or to many.
///
/// Every sink that does not fail gets exactly the bytes of the source, as they were when they were read
/// ([`Guarantee::Snapshot`](crate::Guarantee::Snapshot)). Bytes are passed on as soon as they arrive, unless
/// [`start_at`](Self::start_at) or [`write_rate`](Self::write_rate) delays them. A stalled sink delays the others only
/// once the memory is full.
///
/// ```
/// use std::io::{Read, Write};
/// use fullbore::{Buffer, Pipe, tee::Policy};
/// let (source, sink) = (Pipe::new()?, Pipe::new()?);
/// std::fs::File::from(source.writer).write_all(b"hello")?;
/// let report = Buffer::new(&source.reader)
///     .sink(&sink.writer, Policy::FAIL_ALL)
///     .memory(1 << 20)
///     .run()?;
/// assert_eq!(report.level.taken, 5);
/// assert_eq!(report.sinks[0].bytes, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) may drop its copy. It has no bytes before it runs, and if both processes run theirs, each gets a
/// part of the source. A child that is forked during a run has the memory, and none of the threads: it sends nothing.
pub struct Buffer<Source: AsFd, Sink: AsFd> {
    source: Source,
    sinks: Vec<(Sink, Policy)>,
    options: Options,
    file: Option<OwnedFd>,
}

#[derive(Debug, Clone)]
struct Options {
    memory: usize,
    chunk: Chunk,
    start: f64,
    resume: f64,
    read_rate: Option<u64>,
    write_rate: Option<u64>,
    pause: Duration,
    /// Until when the whole buffer runs.
    waiter: Waiter,
    pipe_size: Option<usize>,
    plain: bool,
}

/// What is set up before the first byte.
struct Prepared {
    store: Store,
    messages: Messages,
    /// Whether the source may have to be waited for.
    waits: bool,
    ends: Ends,
}

impl<Source: AsFd, Sink: AsFd> Buffer<Source, Sink> {
    /// Creates a buffer of 64 MiB that has no sinks yet.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            sinks: Vec::new(),
            options: Options {
                memory: MEMORY,
                chunk: Chunk::AtMost(CHUNK),
                start: 0.0,
                resume: 100.0,
                read_rate: None,
                write_rate: None,
                pause: Duration::ZERO,
                waiter: Waiter::new(Wait::Block),
                pipe_size: None,
                plain: false,
            },
            file: None,
        }
    }

    /// Adds a sink, and sets what happens after an error of this sink.
    pub fn sink(mut self, sink: Sink, policy: Policy) -> Self {
        self.sinks.push((sink, policy));
        self
    }

    /// Sets the maximum size of the memory in bytes. Memory is allocated as the buffer fills, in huge pages if they are
    /// available and fit, and freed as it drains.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.options.memory = bytes;
        self
    }

    /// Keeps the bytes in this regular file instead of memory. Its old contents are lost. Disk space for
    /// [`memory`](Self::memory) bytes is allocated at the start.
    pub fn in_file(mut self, file: impl Into<OwnedFd>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Sets the most bytes that one system call moves, or with [`Chunk::Exactly`] the bytes of each write. The default is
    /// 1 MiB at most.
    pub fn chunk(mut self, chunk: impl Into<Chunk>) -> Self {
        self.options.chunk = chunk.into();
        self
    }

    /// Sets a start threshold in percent: at the start, and whenever a sink has drained the buffer, the sink waits
    /// until the memory is this full. It stops waiting when the source ends or reading is paused. The default is 0:
    /// sinks never wait for a threshold.
    pub fn start_at(mut self, percent: f64) -> Self {
        self.options.start = percent;
        self
    }

    /// Sets a refill threshold in percent: once the memory is full, reading pauses until no more than this much of it
    /// is in use. The default is 100: reading continues as soon as there is room.
    pub fn resume_at(mut self, percent: f64) -> Self {
        self.options.resume = percent;
        self
    }

    /// Limits the rate of reading to this many bytes per second.
    pub fn read_rate(mut self, per_second: impl Into<Option<u64>>) -> Self {
        self.options.read_rate = per_second.into();
        self
    }

    /// Limits the rate of writing to this many bytes per second, for each sink.
    pub fn write_rate(mut self, per_second: impl Into<Option<u64>>) -> Self {
        self.options.write_rate = per_second.into();
        self
    }

    /// Sets how long a sink pauses after each write. The default is no pause.
    pub fn pause_after_write(mut self, pause: Duration) -> Self {
        self.options.pause = pause;
        self
    }

    /// Sets what to do while there is nothing to read or a sink has no room. The default is
    /// [`Wait::Block`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.options.waiter.wait = wait;
        self
    }

    /// Stops when `cancel` is cancelled, also during a wait. Bytes that were read and not written by then are lost; the
    /// report says how many bytes each sink got.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.options.waiter.cancel = Some(cancel.clone());
        self
    }

    /// Stops at this time with [`EndReason::TimedOut`], as after [`cancel`](Self::cancel); `None` removes the
    /// deadline.
    pub fn deadline(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.options.waiter.deadline = at.into();
        self
    }

    /// Sets the capacity in bytes that output pipes are grown to, as [`Tee::pipe_size`](crate::Tee::pipe_size).
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

    /// Moves bytes until the source ends, no sink is left, or the buffer is stopped.
    ///
    /// # Errors
    /// [`BufferFailure`]: with [`Error::Moving`] if a sink failed whose policy is to fail the whole buffer, or if the
    /// source failed (the sinks still get all bytes that were read before); with [`Error::Invalid`] for invalid
    /// options, or if a sink is the source; with [`Error::System`] if there is not enough memory, or not enough disk
    /// space for the file.
    pub fn run(self) -> Result<BufferReport, BufferFailure> {
        self.run_with(Duration::MAX, |_| {})
    }

    /// Works as [`run`](Self::run), and calls `watch` repeatedly, about every `interval`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(
        mut self,
        interval: Duration,
        mut watch: impl FnMut(&Level),
    ) -> Result<BufferReport, BufferFailure> {
        let began = Instant::now();
        let prepared = self.prepare();
        let Prepared {
            mut store,
            messages,
            waits,
            ends,
        } = prepared.map_err(|error| BufferFailure::before(error, began))?;
        let capacity = store.capacity();
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
            store,
            filler,
            calls: calls(),
            source: self.source.as_fd(),
            chunk: options.chunk.bytes(),
            pace: pace(options.read_rate),
            messages,
            taken: 0,
        };
        let writing: Vec<Writing<'_>> = emptiers
            .into_iter()
            .zip(&self.sinks)
            .map(|(emptier, (sink, policy))| Writing {
                store,
                emptier,
                outlet: Outlet::new(calls()),
                sink: sink.as_fd(),
                policy: *policy,
                chunk: options.chunk.bytes(),
                pipe_size: options.pipe_size.unwrap_or_else(roomy),
                pace: pace(options.write_rate),
                pause: options.pause,
                is_long: false,
                plain: options.plain,
                waits,
            })
            .collect();
        let looking = || watch(&Level::of(store, capacity, began.elapsed()));
        let ended = options.run_threads(store, &ends, (reading, writing), interval, looking);
        ended.report(Level::of(store, capacity, began.elapsed()))
    }

    /// Checks the options and the fds, and allocates the memory.
    fn prepare(&mut self) -> Result<Prepared> {
        let Options {
            memory,
            chunk,
            start,
            resume,
            ..
        } = self.options;
        let invalid = |text: String| Err(Error::Invalid(text));
        if self.sinks.is_empty() {
            return invalid("a buffer needs at least one sink".into());
        }
        if chunk.bytes() == 0 {
            return invalid("a chunk of 0 bytes moves nothing".into());
        }
        for (option, percent) in [("start at", start), ("resume at", resume)] {
            if !(0.0..=100.0).contains(&percent) {
                return invalid(format!(
                    "{option} {percent}: expected a number of percent from 0 to 100"
                ));
            }
        }
        let rates = [
            ("read", self.options.read_rate),
            ("write", self.options.write_rate),
        ];
        for (side, rate) in rates {
            if rate == Some(0) {
                return invalid(format!("a {side} rate of 0 bytes per second moves nothing"));
            }
        }
        let source = transfer::stat_of(self.source.as_fd(), TransferSide::Source)?;
        let messages = Messages::of(self.source.as_fd(), &source, self.file.is_some())?;
        for (sink, _) in &self.sinks {
            let sink = transfer::stat_of(sink.as_fd(), TransferSide::Sink)?;
            transfer::refuse_the_same(&source, &sink, false)?;
        }
        let store = Store::new(Layout {
            bytes: memory,
            outputs: self.sinks.len(),
            start,
            resume,
            block: matches!(chunk, Chunk::Exactly(_)).then_some(chunk.bytes()),
            file: self.file.take(),
        })?;
        let ends = Ends {
            stop: Cancel::new()?,
            over: Cancel::new()?,
            writers: AtomicUsize::new(0),
        };
        Ok(Prepared {
            store,
            messages,
            waits: FileType::from_raw_mode(source.st_mode) != FileType::RegularFile,
            ends,
        })
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
    fn report(self, level: Level) -> Result<BufferReport, BufferFailure> {
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
            level,
            sinks,
            ended: match (&failure, self.stopped) {
                (Some(_), _) => EndReason::Failed,
                (None, Some(Stopped::TimedOut)) => EndReason::TimedOut,
                (None, Some(_)) => EndReason::Cancelled,
                (None, None) => EndReason::AtEnd,
            },
        };
        match failure {
            None => Ok(report),
            Some((sink, error)) => Err(BufferFailure {
                report: Box::new(report),
                sink,
                error,
            }),
        }
    }
}

impl Options {
    /// Reads and writes until the buffer is over, and calls `watch` about every `interval`.
    fn run_threads<'a>(
        &self,
        store: &Store,
        ends: &Ends,
        (reading, writing): (Reading<'a>, Vec<Writing<'a>>),
        interval: Duration,
        mut watch: impl FnMut(),
    ) -> Ended {
        let stop = &|| {
            store.stop();
            ends.stop.cancel();
        };
        // The buffer has finished once no writer is left: all have ended after the reader, or have failed, so that no
        // sink needs what the reader may still read.
        let starting = Writer::new(ends);
        thread::scope(|scope| {
            let start = |writing: Writing<'a>| {
                let writer = Writer::new(ends);
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
            let stopped = self.until_over(&ends.over, interval, &mut watch);
            drop(at_last);
            Ended {
                written: writers.into_iter().map(joined).collect(),
                read: joined(reader).and_then(|read| read),
                stopped,
            }
        })
    }

    /// Sleeps until `over` is cancelled, and calls `watch` about every `interval`. Returns what ended it early, if
    /// anything.
    fn until_over(
        &self,
        over: &Cancel,
        interval: Duration,
        mut watch: impl FnMut(),
    ) -> Option<Stopped> {
        while !over.is_cancelled() {
            // `interval` may be too long for an `Instant`.
            let next = Instant::now().checked_add(interval);
            let mut waiter = self.waiter.clone();
            waiter.deadline = next.into_iter().chain(waiter.deadline).min();
            let slept = waiter.sleep_on(&[(over.as_fd(), PollFlags::IN)]);
            match waiter.stopped() {
                _ if over.is_cancelled() => {}
                Some(Stopped::TimedOut) if self.waiter.due().is_none() => watch(),
                Some(stopped) => return Some(self.waiter.due().unwrap_or(stopped)),
                // poll(2) can fail for lack of kernel memory.
                None if slept.is_err() => thread::sleep(Duration::from_millis(1).min(interval)),
                None => {}
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

impl<Source: AsFd + fmt::Debug, Sink: AsFd + fmt::Debug> fmt::Debug for Buffer<Source, Sink> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("source", &self.source)
            .field("sinks", &self.sinks)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

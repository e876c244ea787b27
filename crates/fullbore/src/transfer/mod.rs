//! Fd to fd: [`Transfer`] moves bytes from any file descriptor to any other, by the fastest way that
//! keeps its [`Guarantee`].
//!
//! | file | contains |
//! |---|---|
//! | `plan.rs` | the table: kinds of fd × guarantee → ways, best first |
//! | `direct.rs` | one system call: copy_file_range, splice, sendfile |
//! | `through.rs` | splice through a private pipe |
//! | `sparse.rs` | holes of files |
//! | `route.rs` | which way the next bytes take |
//! | `held.rs` | the bytes that were taken and have not arrived |
//! | `options.rs` | the options |
//! | `step.rs` | the fds of one step, and its result |
//! | `state.rs` | the choice of the next way, the bytes moved so far, and reading and writing |
//! | `report.rs` | the report and the error |
//! | this one | the loop of steps |
//!
//! A transfer is a loop of *steps* of one system call each. A step moves bytes, finds the end, or returns the side that
//! would block. So a transfer can be stopped and resumed between any two steps, and the number of bytes that arrived
//! is always exact.

mod direct;
mod held;
mod options;
mod plan;
mod report;
mod route;
mod sparse;
mod state;
mod step;
mod through;

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;

pub use crate::kind::Kind;
use crate::way::Way;
use fullbore_linux::error::{self, Result, TransferSide};
use fullbore_linux::is_refusal;
use fullbore_linux::outcome::Call;
use fullbore_linux::wait::{Cancel, Wait};
pub(crate) use options::Options;
pub use plan::{Guarantee, Method};
pub use report::{EndReason, Progress, TransferFailure, TransferReport};
use state::{State, begin};
pub(crate) use state::{refuse_the_same, stat_of};
use step::Step;
use step::{Ends, Stop};

/// Moves bytes from `Source` to `Sink` until the source ends.
///
/// It moves the bytes of the descriptors. std's `Stdin` reads up to 8 KiB ahead, and the transfer does not see these
/// bytes: use a [`Consumer`](crate::Consumer) from the start, or pass the contents of `stdin().lock().fill_buf()` to
/// [`after`](Self::after). std's `Stdout` buffers the last line: flush it first. The same holds for every `BufReader`
/// and `BufWriter`.
///
/// It keeps [`Guarantee::Snapshot`] by default. It starts at the position of each fd, leaves that position after the
/// last byte that was moved, and never resizes a pipe that it reads from. Up to 64 KiB it makes no more system calls
/// than read(2) and write(2) would; for more bytes it maps memory, creates a private pipe, or grows the output pipe, as
/// the way requires.
///
/// From a pipe into a file it splices, and the kernel holds the pipe's lock while the file accepts the bytes: if the
/// file stalls (a slow disk, NFS, FUSE), every process that writes into the pipe or queries its size stalls as well.
/// [`visible`](Self::visible) uses read(2) and write(2) instead, and [`Guarantee::Reference`] uses a private pipe;
/// neither holds the lock of the caller's pipe while it waits.
///
/// Options have to be set before the first run. Between two runs, only [`limit`](Self::limit),
/// [`chunk`](Self::chunk), [`cancel`](Self::cancel) and [`deadline`](Self::deadline) have an
/// effect.
///
/// The timeouts of a blocking socket (`SO_RCVTIMEO`, `SO_SNDTIMEO`) are respected: when one passes,
/// that side fails with `EAGAIN`, which is [`std::io::ErrorKind::WouldBlock`].
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
///
/// # fork
/// A child of fork(2) must not use its copy: runs and `into_parts` return an error there, so that no byte is sent twice
/// or taken out of the parent's private pipe. The child may drop it.
pub struct Transfer<Source: AsFd, Sink: AsFd> {
    source: Source,
    sink: Sink,
    options: Options,
    state: Option<State>,
    elapsed: Duration,
}

/// Copies all bytes of `source` to `sink`, and returns how many. It is a [`Transfer`] with the
/// default options.
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
/// As [`Transfer::run`]; the error's report says how many bytes had arrived.
pub fn copy(
    source: &(impl AsFd + ?Sized),
    sink: &(impl AsFd + ?Sized),
) -> Result<u64, TransferFailure> {
    let report = Transfer::new(source.as_fd(), sink.as_fd()).run()?;
    Ok(report.bytes)
}

impl<Source: AsFd, Sink: AsFd> Transfer<Source, Sink> {
    /// Creates a transfer of all bytes of `source` that blocks.
    pub fn new(source: Source, sink: Sink) -> Self {
        Self {
            source,
            sink,
            options: Options::new(),
            state: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Sets the guarantee for the bytes that are moved. The default is [`Guarantee::Snapshot`].
    pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
        self.options.guarantee = guarantee;
        self
    }

    /// Sets the maximum number of bytes to move. No more than that are taken from the source.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.options.limit = Some(bytes);
        self
    }

    /// Sends these bytes first. They were read from the source before, for example by std's `Stdin` or a `BufReader`,
    /// and count as taken from it, also for the [`limit`](Self::limit), which must not be smaller.
    pub fn after(mut self, read_ahead: impl Into<Vec<u8>>) -> Self {
        self.options.ahead = read_ahead.into();
        self
    }

    /// Starts reading at this offset of the source, and does not change the position of its fd.
    pub fn source_offset(mut self, offset: u64) -> Self {
        self.options.source_offset = Some(offset);
        self
    }

    /// Starts writing at this offset of the sink, and does not change the position of its fd.
    pub fn sink_offset(mut self, offset: u64) -> Self {
        self.options.sink_offset = Some(offset);
        self
    }

    /// Sets how to wait while there is nothing to read or no room to write.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.options.waiter.wait = wait;
        self
    }

    /// Sets whether [`run`](Self::run) returns [`EndReason::WouldBlock`] instead of waiting. The next call
    /// continues from there.
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.options.waiter.never = nonblocking;
        self
    }

    /// Stops when `cancel` is cancelled, also during a wait. With another `Cancel` the transfer can continue; it first
    /// sends the bytes that have not arrived yet.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.options.waiter.cancel = Some(cancel.clone());
        if let Some(state) = &mut self.state {
            state.wait_as(&self.options.waiter);
        }
        self
    }

    /// Stops at this time with [`EndReason::TimedOut`], also during a wait; `None` removes the deadline. With another
    /// deadline the transfer can continue; it first sends the bytes that have not arrived yet.
    pub fn deadline(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.options.waiter.deadline = at.into();
        if let Some(state) = &mut self.state {
            state.wait_as(&self.options.waiter);
        }
        self
    }

    /// Sets whether a signal that arrives during a wait ends it: [`run`](Self::run) then returns
    /// [`EndReason::Interrupted`], and the next call continues from there. By default, waits are resumed after a
    /// signal.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.options.waiter.interruptible = interruptible;
        self
    }

    /// Sets the most bytes that one system call moves. The default depends on the method. A read from a pipe has room
    /// for at least a page, and one from a socket that preserves message boundaries for a whole message, because the
    /// kernel discards what does not fit.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.options.chunk = Some(bytes);
        self
    }

    /// Sets the capacity in bytes that an output pipe, and the private pipe of the transfer, is grown to, as far as the
    /// user's limits allow. The default is 1 MiB. 0 leaves the output pipe as it is. A pipe is never shrunk.
    ///
    /// All pipes of an unprivileged user may have 64 MiB together (`/proc/sys/fs/pipe-user-pages-soft`), which is 64
    /// pipes of 1 MiB. Beyond that,
    /// new pipes of this user have one or two pages instead of 16, and none can grow. A program that uses many pipes at
    /// once, or whose user has other programs that need large pipes, should set a smaller size.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.options.pipe_size = Some(bytes);
        self
    }

    /// Sets whether the progress callback gets the bytes themselves. Only methods that bring them into this process's
    /// memory are used then, and none that waits for a slow reader while a part of its bytes is in the pipe already.
    pub fn visible(mut self, visible: bool) -> Self {
        self.options.visible = visible;
        self
    }

    /// Sets whether to use only read(2) and write(2) ([`Method::ReadWrite`]), for sandboxes and kernels whose other
    /// system calls are not trusted. This is slower, and the guarantee is then [`Guarantee::Snapshot`]. Holes of files
    /// are kept.
    pub fn plain(mut self, plain: bool) -> Self {
        self.options.plain = plain;
        self
    }

    /// Moves bytes until the source ends, the limit is reached, or the transfer cannot continue.
    ///
    /// # Errors
    /// [`TransferFailure`]: with `Error::Moving` if one side failed; with `Error::Invalid` if both are the same file or
    /// pipe, or for a chunk of 0 bytes. Its report has the number of bytes that had arrived.
    pub fn run(&mut self) -> Result<TransferReport, TransferFailure> {
        self.run_with(|_| ControlFlow::Continue(()))
    }

    /// Moves bytes as [`run`](Self::run) does, calls `progress` after each step that moved bytes,
    /// and stops when that returns [`ControlFlow::Break`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(
        &mut self,
        progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<TransferReport, TransferFailure> {
        let began = Instant::now();
        let outcome = self.drive(progress);
        if let (Ok(EndReason::AtEnd | EndReason::AtLimit) | Err(_), Some(state)) =
            (&outcome, &mut self.state)
        {
            state.outlet.let_go();
        }
        self.elapsed += began.elapsed();
        match outcome {
            Ok(ended) => Ok(self.report(ended)),
            Err(error) => Err(TransferFailure {
                report: self.report(EndReason::Failed),
                error,
            }),
        }
    }

    /// Returns the two fds, and the bytes that were taken from the source and have not arrived at the sink, in order.
    /// There are such bytes only if the sink failed or the transfer was stopped early.
    ///
    /// # Errors
    /// `Error::Moving` if these bytes are in the private pipe and read(2) from it fails; a sandbox may refuse it.
    pub fn into_parts(self) -> Result<(Source, Sink, Vec<u8>)> {
        self.options.owner.check("transfer")?;
        let Some(state) = self.state else {
            return Ok((self.source, self.sink, self.options.ahead));
        };
        let bytes = state.tally.bytes;
        let failed = |errno| error::moving(TransferSide::Source, "read", errno, bytes);
        let under_way = state.held.into_bytes().map_err(failed)?;
        Ok((self.source, self.sink, under_way))
    }

    fn drive(
        &mut self,
        progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<EndReason> {
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(begin(
                self.source.as_fd(),
                self.sink.as_fd(),
                &self.options,
            )?),
        };
        state.check(&self.options)?;
        let ends = Ends {
            source: self.source.as_fd(),
            sink: self.sink.as_fd(),
            source_kind: state.route.source,
            sink_kind: state.route.sink,
        };
        state.leave_routes_that_wait(&ends);
        // A panic of the callback may have ended the last run at this point.
        state.after_sending();
        let ended = steps(state, &ends, &self.options, progress);
        let extended = state.extend(&ends);
        ended.and_then(|ended| extended.map(|()| ended))
    }

    fn report(&self, ended: EndReason) -> TransferReport {
        let state = self.state.as_ref();
        TransferReport {
            bytes: state.map_or(0, |s| s.tally.bytes),
            taken: state.map_or(0, |s| s.tally.taken),
            methods: state.map_or_else(Vec::new, |s| s.tally.moved.clone()),
            elapsed: self.elapsed,
            calls: state.map_or(0, State::calls),
            ended,
            source: state.map_or(Kind::Other, |s| s.route.source),
            sink: state.map_or(Kind::Other, |s| s.route.sink),
        }
    }
}

/// Moves bytes step by step until the transfer ends or fails.
fn steps(
    state: &mut State,
    ends: &Ends<'_>,
    options: &Options,
    mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<EndReason> {
    loop {
        if let Some(stopped) = options.waiter.due() {
            return Ok(stopped.into());
        }
        if options.is_at_limit(state.tally.taken) && state.tally.under_way() == 0 {
            return Ok(EndReason::AtLimit);
        }
        let method = state.method();
        let (method, n) = match state.step(method, ends, options) {
            Ok(Step::Moved(n)) => match (method, state.outlet.last) {
                (Method::Fresh, Way::Copy) => (Method::ReadWrite, n),
                (Method::Fresh, Way::Socket) => (Method::Socket, n),
                _ => (method, n),
            },
            Ok(Step::Passed(n)) => (method, n),
            Ok(Step::Taken) => continue,
            Ok(Step::End) => return Ok(EndReason::AtEnd),
            Ok(Step::Doubtful) => {
                state.route.doubtful = true;
                continue;
            }
            Err(Stop::At(side, _, Errno::AGAIN)) if options.waiter.never => {
                return Ok(EndReason::WouldBlock(side));
            }
            Err(Stop::EndReason(stopped)) => return Ok(stopped.into()),
            Err(Stop::Refused(..)) if state.try_another(method, ends) => continue,
            // Of a splice or a sendfile, the table of outcomes has decided that it is none.
            Err(Stop::At(_, _, errno))
                if method.call() == Call::Read
                    && is_refusal(errno)
                    && state.try_another(method, ends) =>
            {
                continue;
            }
            Err(Stop::At(side, operation, errno) | Stop::Refused(side, operation, errno)) => {
                return Err(error::moving(side, operation, errno, state.tally.bytes));
            }
            Err(Stop::Other(error)) => return Err(error),
        };
        let go_on = progress(state.arrived(method, n, options));
        state.after_sending();
        if go_on.is_break() {
            return Ok(EndReason::Cancelled);
        }
    }
}

impl<Source: AsFd + fmt::Debug, Sink: AsFd + fmt::Debug> fmt::Debug for Transfer<Source, Sink> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("source", &self.source)
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

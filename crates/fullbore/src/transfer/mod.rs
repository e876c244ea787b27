//! Fd to fd: [`Transfer`] moves bytes from any file descriptor to any other, by the fastest way that
//! keeps its [`Guarantee`].
//!
//! | file | contains |
//! |---|---|
//! | `plan.rs` | the table: kinds of fd × guarantee → ways, best first |
//! | `direct.rs` | one system call: copy_file_range, splice, sendfile |
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

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;

pub use crate::kind::Kind;
use crate::way::Way;
use fullbore_linux::outcome::Call;
use fullbore_linux::{Cancel, Error, Owner, Result, TransferSide, error, is_refusal};
pub use options::{ForTransfer, TransferOptions};
pub use plan::Guarantee;
pub use report::{EndReason, Progress, TransferFailure, TransferReport};
use state::{State, begin};
use step::Step;
use step::{Ends, Stop};

/// Moves bytes from `Source` to `Sink` until the source ends.
///
/// It moves the bytes of the descriptors. std's `Stdin` reads up to 8 KiB ahead, and the transfer does not see these
/// bytes: use a [`Consumer`](crate::Consumer) from the start, or pass the contents of `stdin().lock().fill_buf()` to
/// [`after`](TransferOptions::after). std's `Stdout` buffers the last line: flush it first. The same holds for every `BufReader`
/// and `BufWriter`.
///
/// It keeps [`Guarantee::Snapshot`] by default. It starts at the position of each fd, leaves that position after the
/// last byte that was moved, and never resizes a pipe that it reads from. Up to 64 KiB it makes no more system calls
/// than read(2) and write(2) would; for more bytes it maps memory, creates a private pipe, or grows the output pipe, as
/// the way requires.
///
/// [`TransferOptions`] creates one with other options. Between two runs, [`set_limit`](Self::set_limit),
/// [`set_cancel`](Self::set_cancel) and [`set_deadline`](Self::set_deadline) change them.
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
pub struct Transfer<Source, Sink> {
    source: Source,
    sink: Sink,
    options: TransferOptions,
    state: Option<State>,
    elapsed: Duration,
    /// The process that created it. A private pipe and gathered bytes are not its children's.
    owner: Owner,
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

impl TransferOptions {
    /// Creates a transfer from `source` to `sink`. It makes no system call before it runs.
    pub fn open<Source: AsFd, Sink: AsFd>(
        mut self,
        source: Source,
        sink: Sink,
    ) -> Transfer<Source, Sink> {
        self.waiter.looks = true;
        self.waiter.counts = true;
        Transfer {
            source,
            sink,
            options: self,
            state: None,
            elapsed: Duration::ZERO,
            owner: Owner::this(),
        }
    }
}

impl<Source: AsFd, Sink: AsFd> Transfer<Source, Sink> {
    /// Creates a transfer of all bytes of `source` that blocks; see [`TransferOptions::open`].
    pub fn new(source: Source, sink: Sink) -> Self {
        TransferOptions::new().open(source, sink)
    }

    /// Sets the limit of all runs together, in bytes; `None` removes it. See [`TransferOptions::limit`].
    pub fn set_limit(&mut self, bytes: impl Into<Option<u64>>) {
        self.options.limit = bytes.into();
    }

    /// Sets the most bytes that one system call of the next runs moves. See [`TransferOptions::chunk`].
    pub fn set_chunk(&mut self, bytes: usize) {
        self.options.chunk = Some(bytes);
    }

    /// Sets what cancels the next runs, so that a cancelled transfer can continue; `None` for nothing. See
    /// [`TransferOptions::cancel`].
    pub fn set_cancel(&mut self, cancel: Option<&Cancel>) {
        self.options.waiter.cancel = cancel.cloned();
        self.wait_anew();
    }

    /// Sets the deadline of the next runs; `None` removes it. See [`TransferOptions::deadline`].
    pub fn set_deadline(&mut self, at: impl Into<Option<Instant>>) {
        self.options.waiter.deadline = at.into();
        self.wait_anew();
    }

    fn wait_anew(&mut self) {
        if let Some(state) = &mut self.state {
            state.wait_as(&self.options.waiter);
        }
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
            Err(error) => {
                let side = TransferSide::Sink;
                let at_sink = matches!(&error, Error::Moving { side: at, .. } if *at == side);
                let report = self.report(EndReason::Failed);
                Err(TransferFailure::new(report, at_sink.then_some(0), error))
            }
        }
    }

    /// Returns the two fds, and the bytes that were taken from the source and have not arrived at the sink, in order.
    /// There are such bytes only if the sink failed or the transfer was stopped early.
    ///
    /// # Errors
    /// `Error::Moving` if these bytes are in the private pipe and read(2) from it fails; a sandbox may refuse it.
    pub fn into_parts(self) -> Result<(Source, Sink, Vec<u8>)> {
        self.owner.check("transfer")?;
        let Some(state) = self.state else {
            return Ok((self.source, self.sink, self.options.own.ahead));
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
        self.owner.check("transfer")?;
        self.options.check()?;
        let (source, sink) = (self.source.as_fd(), self.sink.as_fd());
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(begin(source, sink, &self.options)?),
        };
        state.check(&self.options)?;
        let ends = Ends {
            source,
            sink,
            source_kind: state.route.source,
            sink_kind: state.route.sink,
            options: &self.options,
        };
        state.leave_routes_that_wait(&ends);
        // A panic of the callback may have ended the last run at this point.
        state.after_sending();
        let ended = steps(state, &ends, progress);
        state.give_back(&ends);
        let extended = state.extend(&ends);
        ended.and_then(|ended| extended.map(|()| ended))
    }

    fn report(&self, ended: EndReason) -> TransferReport {
        let state = self.state.as_ref();
        TransferReport {
            bytes: state.map_or(0, |s| s.tally.bytes),
            taken: state.map_or(0, |s| s.tally.taken),
            ways: state.map_or_else(Vec::new, |s| s.tally.moved.clone()),
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
    mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<EndReason> {
    let options = ends.options;
    loop {
        if let Some(stopped) = options.waiter.due() {
            return Ok(stopped.into());
        }
        if options.left(state.tally.taken) == 0 && state.tally.under_way() == 0 {
            return Ok(EndReason::AtLimit);
        }
        let method = state.method();
        let (method, n) = match state.step(method, ends) {
            Ok(Step::Moved(n)) => match (method, state.outlet.last) {
                (Way::Fresh, last @ (Way::Copy | Way::Socket)) => (last, n),
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
                if plan::call(method).0 == Call::Read
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
        let go_on = progress(state.arrived(method, n, ends));
        state.after_sending();
        if go_on.is_break() {
            return Ok(EndReason::Cancelled);
        }
    }
}

impl<Source: fmt::Debug, Sink: fmt::Debug> fmt::Debug for Transfer<Source, Sink> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("source", &self.source)
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

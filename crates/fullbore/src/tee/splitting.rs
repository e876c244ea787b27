//! The sinks of a tee, the bytes moved so far, and how an error of one sink affects the others.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::options::TeeOptions;
use super::report::{Dropped, OnError, Policy, SinkReport, TeeFailure, TeeReport};
use crate::outlet::Outlet;
use crate::stage::Stage;
use crate::transfer::{EndReason, Kind};
use fullbore_linux::wait::{Nap, polled_now};
use fullbore_linux::{Calls, Error, Result, TransferSide, Waiter, error};

/// A sink, and the bytes that it has got.
pub(super) struct Branch {
    pub(super) kind: Kind,
    policy: Policy,
    pub(super) outlet: Outlet,
    /// How many of the held bytes it has got.
    pub(super) at: usize,
    pub(super) bytes: u64,
    /// Why it was dropped, if it was.
    dropped: Option<Dropped>,
    would_block: bool,
}

impl Branch {
    pub(super) fn new(kind: Kind, policy: Policy, outlet: Outlet) -> Self {
        Self {
            kind,
            policy,
            outlet,
            at: 0,
            bytes: 0,
            dropped: None,
            would_block: false,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.dropped.is_none()
    }

    fn report(&self) -> SinkReport {
        SinkReport {
            would_block: self.would_block,
            ..SinkReport::of(self.bytes, self.dropped)
        }
    }
}

/// The fds, and the bytes moved so far.
pub(super) struct State {
    pub(super) source_kind: Kind,
    /// See [`longest_message`](fullbore_linux::messages::longest_message).
    pub(super) longest_message: usize,
    pub(super) branches: Vec<Branch>,
    pub(super) taken: u64,
    /// Waits for whichever side is not ready.
    pub(super) waiter: Waiter,
    pub(super) nap: Nap,
    /// Whether there are enough bytes for large memory or pipes to pay off.
    pub(super) long: bool,
    pub(super) reader: Calls,
    /// The bytes that were read, until every sink has got them.
    pub(super) stage: Stage,
}

impl State {
    /// Applies the settings of `waiter` to all waits from now on.
    pub(super) fn wait_as(&mut self, waiter: &Waiter) {
        self.waiter = waiter.clone();
        // The waiter has to track the timeouts of sockets, because no blocking call does so for these fds.
        self.waiter.count_timeouts_of_sockets();
        self.reader.wait_as(self.waiter.clone());
        let is_alone = self.branches.len() == 1;
        for branch in &mut self.branches {
            let mut waiter = waiter.clone();
            // Nobody else waits while the only pipe is full.
            waiter.never |= !is_alone || branch.kind != Kind::Pipe;
            branch.outlet.calls.wait_as(waiter);
            branch.would_block = false;
        }
    }

    /// Makes the report.
    pub(super) fn report(
        &self,
        outcome: Result<EndReason, Broken>,
        elapsed: Duration,
    ) -> Result<TeeReport, TeeFailure> {
        let (ended, failure) = match outcome {
            Ok(ended) | Err(Broken::EndReason(ended)) => (ended, None),
            Err(Broken::Failed(sink, error)) => (EndReason::Failed, Some((sink, error))),
        };
        let report = TeeReport {
            taken: self.taken,
            sinks: self.branches.iter().map(Branch::report).collect(),
            elapsed,
            ended,
        };
        match failure {
            None => Ok(report),
            Some((sink, error)) => Err(TeeFailure::new(report, sink, error)),
        }
    }
}

/// A tee that is running.
pub(super) struct Splitting<'a> {
    pub(super) options: &'a TeeOptions,
    pub(super) source: BorrowedFd<'a>,
    pub(super) sinks: Vec<BorrowedFd<'a>>,
    pub(super) state: &'a mut State,
}

/// What to wait for: room in the sink with this index, or, with `None`, bytes in the source.
type Waited = Option<usize>;

/// Why a tee cannot continue.
pub(super) enum Broken {
    /// It has failed: at this sink, whose policy says so, or elsewhere.
    Failed(Option<usize>, Error),
    /// It was stopped, or would have to wait; nothing failed.
    EndReason(EndReason),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Broken::Failed(None, error)
    }
}

impl Splitting<'_> {
    /// Returns the error of a read(2) that failed with `errno`.
    pub(super) fn source_failed(&self, errno: Errno) -> Broken {
        error::moving(TransferSide::Source, "read", errno, self.state.taken).into()
    }

    /// Applies the policy of sink `i` after one of its calls failed with `errno`.
    ///
    /// # Errors
    /// If its policy is to fail the whole tee.
    pub(super) fn failed(
        &mut self,
        i: usize,
        operation: &'static str,
        errno: Errno,
    ) -> Result<(), Broken> {
        let branch = &mut self.state.branches[i];
        let on_error = branch.policy.after(errno, self.sinks[i]);
        if on_error == OnError::FailAll {
            let error = error::moving(TransferSide::Sink, operation, errno, branch.bytes);
            return Err(Broken::Failed(Some(i), error));
        }
        branch.dropped = Some((operation, errno, on_error));
        Ok(())
    }

    /// Returns whether the tee ends when no reader is left, and every sink has a reader that can close: they are
    /// watched while the source has no bytes. A file never loses its readers.
    pub(super) fn all_may_go(&self) -> bool {
        let may_go = |branch: &Branch| {
            let goes_on = branch.policy.closed != OnError::FailAll;
            (goes_on || self.options.own.fails_without_readers)
                && matches!(branch.kind, Kind::Pipe | Kind::UnixStream | Kind::Tcp)
        };
        let mut alive = self.state.branches.iter().filter(|b| b.is_alive());
        alive.all(may_go)
    }

    /// Returns a sink that has a reader, to be watched. If no sink has one, applies the policies as after a failed
    /// write to each.
    ///
    /// # Errors
    /// If a policy is to fail the whole tee.
    fn watched(&mut self) -> Result<Option<usize>, Broken> {
        if !self.all_may_go() {
            return Ok(None);
        }
        let mut gone = Vec::new();
        for (i, branch) in self.state.branches.iter().enumerate() {
            if branch.is_alive() {
                match reader_of(self.sinks[i], branch.kind) {
                    Reader::Gone(errno) => gone.push((i, errno)),
                    Reader::There => return Ok(Some(i)),
                    Reader::Unknown => return Ok(None),
                }
            }
        }
        for (i, errno) in gone {
            self.failed(i, "write", errno)?;
        }
        Ok(None)
    }

    /// Sleeps until one of these may be ready, or, if the source is among them, until the watched sink has no reader.
    pub(super) fn wait_for(&mut self, waited: &[Waited]) -> Result<(), Broken> {
        let mut watched = None;
        if waited.contains(&None) {
            watched = self.watched()?;
            if !self.state.branches.iter().any(Branch::is_alive) {
                return Ok(());
            }
        }
        if self.options.waiter.never {
            let mut side = TransferSide::Source;
            for &sink in waited.iter().flatten() {
                self.state.branches[sink].would_block = true;
                side = TransferSide::Sink;
            }
            return Err(Broken::EndReason(EndReason::WouldBlock(side)));
        }
        let State {
            branches,
            waiter,
            nap,
            ..
        } = &mut *self.state;
        let fds: Vec<_> = waited
            .iter()
            .map(|waited| match *waited {
                Some(i) => (branches[i].outlet.fd(self.sinks[i]), PollFlags::OUT),
                None => (self.source, PollFlags::IN),
            })
            .chain(watched.map(|i| (self.sinks[i], PollFlags::empty())))
            .collect();
        match waiter.until_any_ready(&fds, nap) {
            Ok(None) => Ok(()),
            // The timeout of a socket has passed: treat it as the EAGAIN of a blocking call.
            Ok(Some(overdue)) => match waited[overdue] {
                Some(sink) => self.failed(sink, "write", Errno::AGAIN),
                None => Err(self.source_failed(Errno::AGAIN)),
            },
            Err(errno) => Err(match self.state.waiter.stopped() {
                Some(stopped) => Broken::EndReason(stopped.into()),
                None => error::system("poll")(errno).into(),
            }),
        }
    }
}

/// Whether a sink has a reader.
enum Reader {
    There,
    /// A write would fail with this error.
    Gone(Errno),
    /// poll(2) always returns at once for this sink, so it cannot be watched.
    Unknown,
}

/// Finds out whether a pipe has a reader, or a socket a peer. A TCP peer that has closed may have done so in one
/// direction only, and still be reading; the kernel does not report which.
fn reader_of(sink: BorrowedFd<'_>, kind: Kind) -> Reader {
    let Ok(found) = polled_now(sink, PollFlags::empty()) else {
        return Reader::Unknown;
    };
    match kind {
        _ if found.is_empty() => Reader::There,
        Kind::Pipe if found.contains(PollFlags::ERR) => Reader::Gone(Errno::PIPE),
        // A socket also has POLLERR if there is a message about an earlier packet (recv(2), MSG_ERRQUEUE).
        Kind::UnixStream | Kind::Tcp if found.contains(PollFlags::HUP) => {
            Reader::Gone(match sockopt::socket_error(sink) {
                Ok(Err(errno)) => errno,
                _ => Errno::PIPE,
            })
        }
        _ => Reader::Unknown,
    }
}

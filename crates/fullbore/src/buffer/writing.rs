//! The threads that write, one for each sink, so that a blocked sink does not block the others.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::ends::Ends;
use super::options::BufferOptions;
use crate::kind::Kind;
use crate::memory;
use crate::outlet::Outlet;
use crate::store::Once;
use crate::store::{Emptier, Step};
use crate::tee::{Dropped, OnError, Policy, SinkReport};
use fullbore_linux::{Error, Pace};

/// One sink.
pub(super) struct Writing<'a> {
    pub(super) emptier: Emptier<'a>,
    pub(super) outlet: Outlet,
    pub(super) sink: BorrowedFd<'a>,
    pub(super) policy: Policy,
    pub(super) options: &'a BufferOptions,
    pub(super) pace: Option<Pace>,
    /// Whether so many bytes were sent that large pipes and giving pages pay off.
    pub(super) is_long: bool,
    pub(super) ends: &'a Ends,
}

/// The bytes that a sink got, and why it ended, if not because the source did.
#[derive(Debug)]
pub(super) struct Written {
    bytes: u64,
    dropped: Option<Dropped>,
    /// Memory could not be released to the kernel.
    broken: Option<Error>,
}

impl Writing<'_> {
    /// Writes until the buffer is drained and the source has ended, or the sink fails.
    pub(super) fn run(mut self) -> Written {
        let (dropped, broken) = loop {
            if let Some(end) = self.step() {
                break end;
            }
        };
        Written {
            bytes: self.emptier.sent(),
            dropped,
            broken,
        }
    }

    /// Waits for bytes, and writes once. Returns why this was the end, if it was.
    fn step(&mut self) -> Option<(Option<Dropped>, Option<Error>)> {
        let chunk = self.options.piece();
        let most = self.pace.as_ref().map_or(chunk, |p| p.chunk().min(chunk));
        if !self.is_long && self.emptier.sent() >= memory::FIRST as u64 {
            self.is_long = true;
            let size = self.options.roomy();
            self.outlet.make_roomy(self.sink, size);
            if !self.options.plain {
                self.outlet.take_pages(self.sink, Kind::Pipe, size);
                self.emptier.choice = Some(Once::default());
            }
        }
        match self.emptier.send(&mut self.outlet, self.sink, most) {
            Ok(Step::Sent(n)) => {
                self.ends.moved();
                let mut pause = self.emptier.store.gate().pause_after_write();
                if let Some(pace) = &mut self.pace {
                    pause = pause.max(pace.wait_after(n as u64, Instant::now()));
                }
                if !pause.is_zero() {
                    self.emptier.store.pause(pause);
                }
                None
            }
            Ok(Step::End) => Some((None, None)),
            Ok(Step::Failed(..)) if self.outlet.calls.waiter.stopped().is_some() => {
                self.emptier.keeps = true;
                Some((None, None))
            }
            Ok(Step::Failed(operation, errno)) => {
                let on_error = self.policy.after(errno, self.sink);
                self.emptier.keeps = on_error == OnError::FailAll;
                Some((Some((operation, errno, on_error)), None))
            }
            Err(error) => Some((None, Some(error))),
        }
    }
}

impl Written {
    /// Returns whether the whole buffer fails with this sink.
    pub(super) fn fails_all(&self) -> bool {
        self.broken.is_some() || matches!(self.dropped, Some((_, _, OnError::FailAll)))
    }

    /// Takes the error, if there is one.
    pub(super) fn error(&mut self) -> Option<Error> {
        let of_call = SinkReport::of(self.bytes, self.dropped).error;
        self.broken.take().or(of_call)
    }

    pub(super) fn report(&self) -> SinkReport {
        SinkReport::of(self.bytes, self.dropped.filter(|_| !self.fails_all()))
    }
}

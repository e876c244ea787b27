//! The engine: moves bytes in one direction, in steps of one system call, and waits for the side that would block.
//!
//! A step fills the carrier while it is empty, or sends its contents. After each step, the numbers of bytes taken and
//! arrived are exact, and all waits are between two steps. So a future can be dropped at any wait.

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fullbore::{Error, Guarantee, TransferSide};
use fullbore_linux::outcome::End as Kind;
use fullbore_linux::pipe::keeps_packets;
use fullbore_linux::{Owner, page_size};
use rustix::io::Errno;
use tokio::io::Interest;

use crate::alarm::Pace;
use crate::carrier::{Carrier, Done};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::ends::{End, Side};
use crate::job::Job;
use crate::nap::Nap;
use crate::options::Options;
use crate::pool::Pool;
use crate::report::{Ended, Report};
use crate::taking::{examine, is_reported_once, take};

/// Bytes after which the task yields, even if there are more to move: about an eighth of a millisecond. With more, 64
/// streams had so many bytes in flight that they were evicted from the cache before they were read; with fewer, tasks
/// were switched too often (docs/services.md). A copied byte counts as [`COPIED`] bytes.
const TURN: usize = 512 * 1024;

/// How many bytes are spliced in the time in which one is copied.
const COPIED: usize = 2;

/// The fewest bytes of a read after which the next call is a splice(2): shorter copies are as cheap.
const STREAM: usize = 16 * 1024;

/// One direction of a transfer.
#[derive(Default)]
pub(crate) struct Direction {
    guarantee: Guarantee,
    limit: Option<u64>,
    shapes: Option<(Kind, Kind)>,
    carrier: Carrier,
    /// A call on a blocking thread, and its side.
    job: Option<(TransferSide, Job)>,
    pub(crate) counters: Counters,
    pool: Pool,
    owner: Owner,
    /// Whether the last call took so many bytes that splicing pays off.
    streams: bool,
    /// Whether splice(2) was refused for these two descriptors, or is not right.
    refused: bool,
    /// Whether the writer of the source does not use packet mode (pipe(7)). A packet stays a packet in the next pipe,
    /// where a read(2) without room for all of it discards the rest.
    no_packets: bool,
    /// Whether it delivers the bytes that have come, and does not wait for more.
    pub(crate) drains: bool,
    /// The call and the error of a source that has failed and must not be read again ([`is_reported_once`]).
    source_failed: Option<(&'static str, Errno)>,
    /// The reason to end after the call that a blocking thread is making.
    ends_as: Option<Ended>,
    pace: Option<Pace>,
    nap: Nap,
    pub(crate) clock: Clock,
    ended: Ended,
    pub(crate) is_over: bool,
    /// Whether the next run has to shut down the sink, because this one has failed.
    pub(crate) owes_end: bool,
}

/// What became of a step.
enum Made {
    Call(Done),
    /// A call was started on a blocking thread.
    Started,
    Ended(Ended),
}

impl Direction {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            guarantee: options.guarantee,
            limit: options.limit,
            pace: options.rate.map(|rate| Pace::new(rate.get())),
            pool: options.pool.clone().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Moves bytes until it ends, fails or has to wait.
    pub(crate) fn poll<S: End, W: End>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut Side<S>,
        sink: &mut Side<W>,
    ) -> Poll<Result<Ended, Error>> {
        self.owner.check("transfer")?;
        self.clock.start();
        let shapes = self.shapes_of(source, sink)?;
        let mut left = TURN;
        loop {
            if let Some(ended) = ready!(self.poll_job(cx))? {
                return Poll::Ready(Ok(ended));
            }
            let side = self.side();
            if self.nap.poll(cx).is_pending() {
                self.clock.waits_for(side);
                return Poll::Pending;
            }
            let made = match side {
                TransferSide::Source => ready!(self.take_some(cx, source, shapes, left)),
                TransferSide::Sink => self.send_some(sink, shapes.1),
            };
            let done = match made {
                Made::Started => continue,
                Made::Ended(ended) => return Poll::Ready(Ok(ended)),
                Made::Call(Err((_, Errno::AGAIN))) => {
                    let polled = match side {
                        TransferSide::Source if self.drains => {
                            return Poll::Ready(Ok(Ended::NotYet));
                        }
                        TransferSide::Source => source.watched().poll_ready(cx, Interest::READABLE),
                        TransferSide::Sink => sink.watched().poll_ready(cx, Interest::WRITABLE),
                    };
                    match polled {
                        Poll::Pending => {
                            self.nap.was_not_vain();
                            self.clock.waits_for(side);
                            return Poll::Pending;
                        }
                        Poll::Ready(Ok(())) => self.nap.was_vain(),
                        Poll::Ready(Err(errno)) => {
                            return Poll::Ready(Err(self.error(side, "wait", errno)));
                        }
                    }
                    continue;
                }
                Made::Call(done) => done,
            };
            match (side, done) {
                (TransferSide::Source, Ok(moved)) => {
                    let weight = if moved.spliced { 1 } else { COPIED };
                    left = left.saturating_sub(moved.bytes * weight);
                }
                (TransferSide::Source, Err(failed)) if is_reported_once(shapes.0, failed.1) => {
                    self.source_failed = Some(failed);
                }
                _ => {}
            }
            if let Some(ended) = self.note(side, done)? {
                return Poll::Ready(Ok(ended));
            }
        }
    }

    /// Waits for the call on a blocking thread, if there is one. Returns the reason if it was the last.
    fn poll_job(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Ended>, Error>> {
        let Some((side, job)) = &mut self.job else {
            return Poll::Ready(Ok(None));
        };
        let side = *side;
        let Poll::Ready((carrier, done)) = job.poll(cx) else {
            self.clock.waits_for(side);
            return Poll::Pending;
        };
        self.job = None;
        self.carrier = carrier;
        let ended = self.note(side, done)?;
        Poll::Ready(Ok(ended.or(self.ends_as)))
    }

    /// Examines the ends at the first run.
    fn shapes_of<S: End, W: End>(
        &mut self,
        source: &mut Side<S>,
        sink: &mut Side<W>,
    ) -> Result<(Kind, Kind), Error> {
        if let Some(shapes) = self.shapes {
            return Ok(shapes);
        }
        let shapes = *self.shapes.insert(examine(source, sink)?);
        // Pages that are spliced into a pipe in packet mode are no packets: a read(2) that gets some of them has less
        // room left for the packet behind, and discards its rest.
        self.refused = shapes.1 == Kind::Pipe && keeps_packets(sink.fd());
        Ok(shapes)
    }

    /// Takes bytes from the source, unless the limit is reached, or it is the turn of other tasks.
    fn take_some<S: End>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut Side<S>,
        (source_shape, sink_shape): (Kind, Kind),
        left: usize,
    ) -> Poll<Made> {
        let within = (self.limit).map_or(u64::MAX, |limit| limit - self.counters.taken());
        if within == 0 {
            return Poll::Ready(Made::Ended(Ended::AtLimit));
        }
        if left == 0 {
            // This reschedules the task behind others, and wakes no other thread for it, as its waker would.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
            return Poll::Pending;
        }
        let most = match &mut self.pace {
            // It may be a packet, of which read(2) discards what does not fit.
            Some(pace) if source_shape == Kind::Pipe && !self.no_packets => {
                ready!(pace.poll(cx)).max(page_size())
            }
            Some(pace) => ready!(pace.poll(cx)),
            None => usize::MAX,
        };
        let splices = self.splices(source_shape, sink_shape);
        let most = usize::try_from(within).unwrap_or(usize::MAX).min(most);
        if let Some(file) = source.file() {
            let (file, pool) = (Arc::clone(file), self.pool.clone());
            self.start(TransferSide::Source, move |carrier| {
                take(carrier, (file.as_fd(), source_shape), &pool, splices, most)
            });
            return Poll::Ready(Made::Started);
        }
        let (carrier, fd, pool) = (&mut self.carrier, source.fd(), &self.pool);
        let mut call = || take(carrier, (fd, source_shape), pool, splices, most);
        Poll::Ready(Made::Call(match self.drains {
            // tokio may not have been notified yet of bytes that have arrived.
            true => call(),
            false => source.try_io(Interest::READABLE, call),
        }))
    }

    /// Sends bytes of the carrier to the sink.
    fn send_some<W: End>(&mut self, sink: &mut Side<W>, shape: Kind) -> Made {
        if let Some(file) = sink.file() {
            let file = Arc::clone(file);
            self.start(TransferSide::Sink, move |carrier| {
                carrier.send(file.as_fd(), shape)
            });
            return Made::Started;
        }
        let (carrier, fd) = (&mut self.carrier, sink.fd());
        Made::Call(sink.try_io(Interest::WRITABLE, || carrier.send(fd, shape)))
    }

    /// Starts a call for this side on a blocking thread.
    fn start(
        &mut self,
        side: TransferSide,
        call: impl FnOnce(&mut Carrier) -> Done + Send + 'static,
    ) {
        let carrier = std::mem::take(&mut self.carrier);
        self.job = Some((side, Job::start(carrier, call)));
    }

    /// Returns the side of the next call.
    fn side(&self) -> TransferSide {
        match self.carrier.is_empty() {
            true => TransferSide::Source,
            false => TransferSide::Sink,
        }
    }

    /// Records the result of a call, and returns the reason if that was the end.
    fn note(&mut self, side: TransferSide, done: Done) -> Result<Option<Ended>, Error> {
        let moved = done.map_err(|(operation, errno)| self.error(side, operation, errno.into()))?;
        self.clock.progresses(side);
        self.nap.was_not_vain();
        self.refused |= moved.refused;
        match side {
            TransferSide::Source => {
                self.streams = moved.bytes >= STREAM;
                // A read(2) returns one packet at a time, and no packet is longer than a page.
                self.no_packets |= !moved.spliced && moved.bytes > page_size();
                self.counters.took(moved.bytes);
                if let Some(pace) = &mut self.pace {
                    pace.took(moved.bytes);
                }
                Ok((moved.bytes == 0).then_some(Ended::AtEnd))
            }
            TransferSide::Sink => {
                self.counters.arrived(moved.bytes, moved.spliced);
                Ok(None)
            }
        }
    }

    /// Returns whether the next bytes are spliced.
    fn splices(&self, source: Kind, sink: Kind) -> bool {
        let takes_part = |shape| matches!(shape, Kind::Pipe | Kind::Socket | Kind::File);
        self.guarantee == Guarantee::Reference
            && !self.refused
            && (self.streams || source == Kind::File)
            && (self.no_packets || (source, sink) != (Kind::Pipe, Kind::Pipe))
            && takes_part(source)
            && takes_part(sink)
    }

    pub(crate) fn error(&self, side: TransferSide, call: &'static str, errno: io::Error) -> Error {
        Error::Moving {
            side,
            operation: call,
            errno,
            moved: self.counters.bytes(),
        }
    }

    /// Prepares for another run, unless the source has ended; returns the error of a source that must not be read
    /// again.
    pub(crate) fn resume(&mut self) -> Option<Error> {
        if self.ended != Ended::AtEnd {
            self.ended = Ended::NotYet;
            self.is_over = false;
            self.drains = false;
        }
        self.ends_as = None;
        let (operation, errno) = self.source_failed?;
        Some(self.error(TransferSide::Source, operation, errno.into()))
    }

    /// Returns whether it can end now. If a blocking thread is making a call, it ends with this reason after the call:
    /// until then, the thread owns the bytes.
    pub(crate) fn may_end(&mut self, ended: Ended) -> Poll<()> {
        match self.job {
            Some(_) => {
                self.ends_as = Some(ended);
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// Waits for a call on a blocking thread, if there is one.
    fn settle(&mut self) {
        // In a forked child, there is no such thread.
        if let Some((side, job)) = self.job.take_if(|_| self.owner.is_here()) {
            let (carrier, done) = job.take();
            self.carrier = carrier;
            // The next run finds a failure or an end again.
            if let Some(Ok(moved)) = done {
                let _ = self.note(side, Ok(moved));
            }
        }
    }

    pub(crate) fn report(&mut self) -> Report {
        self.settle();
        Report {
            bytes: self.counters.bytes(),
            taken: self.counters.taken(),
            spliced: self.counters.spliced(),
            elapsed: self.clock.elapsed(),
            waited_for_source: self.clock.waited(TransferSide::Source),
            waited_for_sink: self.clock.waited(TransferSide::Sink),
            ended: self.ended,
        }
    }

    /// Removes and returns the bytes in flight.
    pub(crate) fn take_under_way(&mut self) -> Result<Vec<u8>, Error> {
        self.owner.check("transfer")?;
        self.settle();
        let taken = self.carrier.take_all();
        taken.map_err(|errno| self.error(TransferSide::Source, "read", errno.into()))
    }

    pub(crate) fn end(&mut self, ended: Ended) {
        self.ended = ended;
        self.is_over = true;
        self.clock.stop();
    }
}

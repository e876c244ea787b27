//! The engine: moves bytes in one direction, in steps of one system call, and waits for the side that would block.
//!
//! A step fills the carrier while it is empty, or sends its contents. After each step, the numbers of bytes taken and
//! arrived are exact, and all waits are between two steps. So a future can be dropped at any wait.

use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use fullbore::{Error, Guarantee, TransferSide};
use fullbore_linux::outcome::{self, Call, End as Kind, Outcome};
use fullbore_linux::{Owner, is_refusal, page_size};
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use tokio::io::Interest;

use crate::alarm::Pace;
use crate::carrier::{Carrier, Done, Moved};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::ends::{End, Shape, Side, Unusable};
use crate::job::Job;
use crate::nap::Nap;
use crate::options::Options;
use crate::pool::Pool;
use crate::report::{Ended, Report};

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
    shapes: Option<(Shape, Shape)>,
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
    drains: bool,
    /// The call and the error of a source that has failed and must not be read again ([`is_reported_once`]).
    source_failed: Option<(&'static str, Errno)>,
    /// The reason to end after the call that a blocking thread is making.
    ends_as: Option<Ended>,
    pace: Option<Pace>,
    nap: Nap,
    clock: Clock,
    ended: Ended,
    is_over: bool,
    /// Whether the next run has to shut down the sink, because this one has failed.
    pub(crate) owes_end: bool,
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
        let (source_shape, sink_shape) = match self.shapes {
            Some(shapes) => shapes,
            None => {
                let shapes = *self.shapes.insert(examine(source, sink)?);
                // Pages that are spliced into a pipe in packet mode are no packets: a read(2) that gets some of them
                // has less room left for the packet behind, and discards its rest.
                self.refused = shapes.1 == Shape::Pipe && is_in_packet_mode(sink.fd());
                shapes
            }
        };
        let mut left = TURN;
        loop {
            if let Some((side, job)) = &mut self.job {
                let side = *side;
                let Poll::Ready((carrier, done)) = job.poll(cx) else {
                    self.clock.waits_for(side);
                    return Poll::Pending;
                };
                self.job = None;
                self.carrier = carrier;
                if let Some(ended) = self.note(side, done)?.or(self.ends_as) {
                    return Poll::Ready(Ok(ended));
                }
                continue;
            }
            if self.nap.poll(cx).is_pending() {
                self.clock.waits_for(self.side());
                return Poll::Pending;
            }
            let side = self.side();
            let done = if side == TransferSide::Source {
                if self
                    .limit
                    .is_some_and(|limit| self.counters.taken() >= limit)
                {
                    return Poll::Ready(Ok(Ended::AtLimit));
                }
                if left == 0 {
                    // This reschedules the task behind others, and wakes no other thread for it, as its waker would.
                    let _ = pin!(tokio::task::yield_now()).poll(cx);
                    return Poll::Pending;
                }
                let most = match &mut self.pace {
                    Some(pace) => ready!(pace.poll(cx)),
                    None => usize::MAX,
                };
                let splices = self
                    .splices(source_shape, sink_shape)
                    .then_some(source_shape);
                let most = self.may_take(most);
                if let Some(file) = source.file() {
                    let (file, pool) = (Arc::clone(file), self.pool.clone());
                    self.start(side, move |carrier| {
                        take(carrier, file.as_fd(), &pool, splices, most)
                    });
                    continue;
                }
                let (carrier, fd, pool) = (&mut self.carrier, source.fd(), &self.pool);
                let mut call = || take(carrier, fd, pool, splices, most);
                match self.drains {
                    // tokio may not have been notified yet of bytes that have arrived.
                    true => call(),
                    false => source.try_io(Interest::READABLE, call),
                }
            } else {
                if let Some(file) = sink.file() {
                    let file = Arc::clone(file);
                    self.start(side, move |carrier| carrier.send(file.as_fd(), sink_shape));
                    continue;
                }
                let (carrier, fd) = (&mut self.carrier, sink.fd());
                sink.try_io(Interest::WRITABLE, || carrier.send(fd, sink_shape))
            };
            match done {
                Err((_, Errno::AGAIN)) => {
                    let polled = match side {
                        TransferSide::Source if self.drains => {
                            return Poll::Ready(Ok(Ended::NotYet));
                        }
                        TransferSide::Source => source.poll_ready(cx, Interest::READABLE),
                        TransferSide::Sink => sink.poll_ready(cx, Interest::WRITABLE),
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
                }
                done => {
                    match (side, done) {
                        (TransferSide::Source, Ok(moved)) => {
                            let weight = if moved.spliced { 1 } else { COPIED };
                            left = left.saturating_sub(moved.bytes * weight);
                        }
                        (TransferSide::Source, Err(failed))
                            if is_reported_once(source_shape, failed.1) =>
                        {
                            self.source_failed = Some(failed);
                        }
                        _ => {}
                    }
                    if let Some(ended) = self.note(side, done)? {
                        return Poll::Ready(Ok(ended));
                    }
                }
            }
        }
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
    fn splices(&self, source: Shape, sink: Shape) -> bool {
        self.guarantee == Guarantee::Reference
            && !self.refused
            && (self.streams || source == Shape::File)
            && (self.no_packets || (source, sink) != (Shape::Pipe, Shape::Pipe))
            && [source, sink]
                .iter()
                .all(|shape| matches!(shape, Shape::Pipe | Shape::Socket | Shape::File))
    }

    fn may_take(&self, most: usize) -> usize {
        let left = self
            .limit
            .map_or(u64::MAX, |limit| limit - self.counters.taken());
        usize::try_from(left).unwrap_or(usize::MAX).min(most)
    }

    pub(crate) fn error(
        &self,
        side: TransferSide,
        operation: &'static str,
        errno: std::io::Error,
    ) -> Error {
        Error::Moving {
            side,
            operation,
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

    /// Makes it end as soon as it would have to wait for its source.
    pub(crate) fn drain(&mut self) {
        self.drains = true;
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
        self.stop_clock();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Records that the future was dropped or has ended.
    pub(crate) fn stop_clock(&mut self) {
        self.clock.stop();
    }

    /// Returns the time of the last byte that arrived, or of the start of this run.
    pub(crate) fn last_progress(&self) -> Option<Instant> {
        self.clock.progress_at
    }
}

/// Examines both ends.
///
/// # Errors
/// `Error::Invalid` for descriptors that cannot be used, and for a transfer that would read the bytes that it writes.
fn examine<S: End, W: End>(
    source: &mut Side<S>,
    sink: &mut Side<W>,
) -> Result<(Shape, Shape), Error> {
    let refused = |side: TransferSide| {
        move |(operation, error): Unusable| match error.raw_os_error() {
            Some(_) => Error::Moving {
                side,
                operation,
                errno: error,
                moved: 0,
            },
            None => Error::Invalid(format!("the {side}: {error}")),
        }
    };
    let shapes = (
        source.examine().map_err(refused(TransferSide::Source))?,
        sink.examine().map_err(refused(TransferSide::Sink))?,
    );
    let what = match shapes {
        (Shape::Pipe, Shape::Pipe) => "pipe",
        (Shape::File, Shape::File) => "file",
        _ => return Ok(shapes),
    };
    let identity = |fd: BorrowedFd<'_>, side| {
        let stat = fstat(fd).map_err(|errno| refused(side)(("fstat", errno.into())))?;
        Ok::<_, Error>((stat.st_dev, stat.st_ino))
    };
    let of_source = identity(source.fd(), TransferSide::Source)?;
    match of_source == identity(sink.fd(), TransferSide::Sink)? {
        true => Err(Error::Invalid(format!(
            "source and sink are the same {what}"
        ))),
        false => Ok(shapes),
    }
}

/// Returns whether what is written to this end of a pipe becomes packets.
fn is_in_packet_mode(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

/// Returns whether the kernel may report this error only once, and an end afterwards, as it does with the pending error
/// of a socket. For devices, this is unknown. A lack of memory concerns only one call.
fn is_reported_once(source: Shape, errno: Errno) -> bool {
    !matches!(source, Shape::Pipe | Shape::File) && !matches!(errno, Errno::NOMEM | Errno::NOBUFS)
}

/// Takes at most `most` bytes from the source, by splice(2) if its shape is given.
fn take(
    carrier: &mut Carrier,
    source: BorrowedFd<'_>,
    pool: &Pool,
    splices: Option<Shape>,
    most: usize,
) -> Done {
    let moved = |bytes, spliced, refused| {
        Ok(Moved {
            bytes,
            spliced,
            refused,
        })
    };
    let read = |carrier: &mut Carrier| {
        let read = carrier.read(source, pool, most);
        read.map_err(|errno| ("read", errno))
    };
    let lent = splices.and_then(|shape| Some((shape, pool.pipe()?)));
    let Some((shape, pipe)) = lent else {
        return moved(read(carrier)?, false, false);
    };
    let mut pipe = Some(pipe);
    let spliced = carrier.splice(source, &mut pipe, pool, most);
    let done = match (
        outcome::of(Call::Splice, (shape.kind(), Kind::Own), spliced, None),
        spliced,
    ) {
        (Outcome::Moved(bytes), _) => moved(bytes, true, false),
        // Only read(2) shows whether this is the end, and only read(2) passes the mark of urgent data. poll(2) is not
        // asked first, because it costs as much as the read(2).
        (Outcome::ReadOnce | Outcome::Ask, _) => {
            read(carrier).and_then(|bytes| moved(bytes, false, false))
        }
        (Outcome::Refused | Outcome::RefusedOrPending(_), Err(errno)) => match read(carrier) {
            // It may have been the pending error of the socket (`EACCES` of ICMPv6), which is followed by an end. A
            // refusal would be repeated.
            Ok(0) if is_reported_once(shape, errno) => {
                match carrier.splice(source, &mut pipe, pool, most) {
                    Ok(bytes @ 1..) => moved(bytes, true, false),
                    Err(again) if is_refusal(again) => moved(0, false, true),
                    _ => Err(("splice", errno)),
                }
            }
            read => read.and_then(|bytes| moved(bytes, false, true)),
        },
        (_, spliced) => Err(("splice", spliced.err().unwrap_or(Errno::AGAIN))),
    };
    if let Some(pipe) = pipe {
        pool.give_back(pipe);
    }
    done
}

//! One direction: [`Transfer`].

use std::fmt;
use std::task::{Context, Poll, ready};

use fullbore::Error;

use crate::alarm::Timer;
use crate::clock;
use crate::counters::Counters;
use crate::direction::Direction;
use crate::ends::{Side, Sink, Source};
use crate::options::Options;
use crate::report::{Ended, Failure, Report};

impl Options {
    /// Creates a transfer from `source` to `sink`, which may be borrowed (`&mut`) or owned.
    pub fn copy<S: Source, W: Sink>(&self, source: S, sink: W) -> Transfer<S, W> {
        Transfer {
            source: Side::new(source),
            sink: Side::new(sink),
            direction: Direction::new(self),
            timer: Timer::new(self),
        }
    }
}

/// Moves bytes from a source to a sink until the source ends. [`Options::copy`] creates it.
///
/// If it is dropped during a read or a write of a file, it waits for that call, so that the file does not change
/// afterwards.
///
/// # fork
/// A child of fork(2) must not use its copy: [`run`](Self::run) and [`into_parts`](Self::into_parts) return an error
/// there, so that no byte is sent twice or taken from the parent. The child must not drop a copy that owns sockets or
/// pipes either, but forget it: tokio's types would remove themselves from the epoll(7) of the parent's runtime.
pub struct Transfer<S, W> {
    source: Side<S>,
    sink: Side<W>,
    direction: Direction,
    timer: Timer,
}

impl<S: Source, W: Sink> Transfer<S, W> {
    /// Moves bytes until the source ends, or the limit, the deadline or the idle timeout is reached. It does not close
    /// the sink.
    ///
    /// The future can be dropped at any time. The next call continues, and first sends the bytes in flight.
    ///
    /// # Errors
    /// [`Failure`], with `Error::Moving` if one side failed. Its report has the number of bytes that had arrived. After
    /// the failure of a source that is a socket, every further call returns its error, because the kernel would report
    /// an end. After any other failure (of a file, a pipe or a sink, or for lack of memory: `ENOMEM`, `ENOBUFS`), the
    /// next call continues.
    pub async fn run(&mut self) -> Result<Report, Failure<Report>> {
        match self.direction.resume() {
            Some(error) => Err(self.fail(error)),
            None => clock::run(self, Self::poll, |it| it.direction.clock.stop()).await,
        }
    }

    /// Returns counters that can be read while it runs.
    pub fn counters(&self) -> Counters {
        self.direction.counters.clone()
    }

    /// Returns the totals so far.
    ///
    /// If the future was dropped during a read or a write of a file, this waits for that call.
    pub fn report(&mut self) -> Report {
        self.direction.report()
    }

    /// Returns the source, the sink, and the bytes that were taken from the source and have not arrived at the sink, in
    /// order.
    ///
    /// If the future was dropped during a read or a write of a file, this waits for that call.
    ///
    /// # Errors
    /// `Error::Moving` if the bytes are in a private pipe and read(2) from it fails; a sandbox may refuse it.
    pub fn into_parts(mut self) -> Result<(S, W, Vec<u8>), Error> {
        let under_way = self.direction.take_under_way()?;
        Ok((self.source.end, self.sink.end, under_way))
    }

    fn fail(&mut self, error: Error) -> Failure<Report> {
        self.direction.end(Ended::Failed);
        Failure {
            report: Box::new(self.report()),
            sink: None,
            error,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Report, Failure<Report>>> {
        let ended = match self.direction.poll(cx, &mut self.source, &mut self.sink) {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(self.fail(error))),
            Poll::Ready(Ok(ended)) => ended,
            Poll::Pending => {
                let ended = ready!(self.timer.poll(cx, self.direction.clock.progress_at));
                ready!(self.direction.may_end(ended));
                ended
            }
        };
        self.direction.end(ended);
        Poll::Ready(Ok(self.report()))
    }
}

impl<S, W> fmt::Debug for Transfer<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").finish_non_exhaustive()
    }
}

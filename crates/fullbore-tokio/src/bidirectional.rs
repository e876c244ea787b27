//! Both directions of a connection: [`Bidirectional`].
//!
//! When one direction has ended, the sending side of its sink is closed, and the other direction continues. When one
//! has failed, the other delivers the bytes that have arrived, and both end.

use std::fmt;
use std::task::{Context, Poll};

use fullbore::{Error, TransferSide};

use crate::alarm::Timer;
use crate::clock;
use crate::counters::Counters;
use crate::direction::Direction;
use crate::ends::{Duplex, Side};
use crate::options::Options;
use crate::report::{Ended, Failure, Report};

/// The result of both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Both {
    /// From `a` to `b`.
    pub a_to_b: Report,
    /// From `b` to `a`.
    pub b_to_a: Report,
}

/// The bytes that were taken from one side and have not arrived at the other.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnderWay {
    /// From `a` to `b`, in order.
    pub a_to_b: Vec<u8>,
    /// From `b` to `a`, in order.
    pub b_to_a: Vec<u8>,
}

impl fmt::Debug for UnderWay {
    /// Writes the numbers of bytes, which are the user's, and not the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (there, back) = (self.a_to_b.len(), self.b_to_a.len());
        write!(f, "UnderWay({there} bytes from a to b, {back} from b to a)")
    }
}

impl Options {
    /// Creates a transfer in both directions between `a` and `b`, which may be borrowed (`&mut`) or owned.
    pub fn copy_bidirectional<A: Duplex, B: Duplex>(&self, a: A, b: B) -> Bidirectional<A, B> {
        Bidirectional {
            a: Side::new(a),
            b: Side::new(b),
            there: Direction::new(self),
            back: Direction::new(self),
            timer: Timer::new(self),
            error: None,
        }
    }
}

/// Moves bytes from `a` to `b` and from `b` to `a` until both have ended. [`Options::copy_bidirectional`] creates it.
///
/// When one side has ended, the sending side of the other is closed (shutdown(2)), so that its peer sees the end; the
/// connection is then half-closed, and the other direction continues. Nothing is closed after a failure or a timeout:
/// an end that a peer sees always comes from the other peer. Dropping the sockets then closes them, which looks like an
/// end; to reset the connections instead, set `SO_LINGER` to zero before that, as the example `proxy` does.
///
/// # fork
/// A child of fork(2) must not use its copy: [`run`](Self::run) and [`into_parts`](Self::into_parts) return an error
/// there, so that no byte is sent twice or taken from the parent. The child must not drop a copy that owns sockets or
/// pipes either, but forget it: tokio's types would remove themselves from the epoll(7) of the parent's runtime.
pub struct Bidirectional<A, B> {
    a: Side<A>,
    b: Side<B>,
    there: Direction,
    back: Direction,
    timer: Timer,
    error: Option<Error>,
}

impl<A: Duplex, B: Duplex> Bidirectional<A, B> {
    /// Moves bytes until both directions have ended, or the deadline or the idle timeout is reached.
    ///
    /// The future can be dropped at any time. The next call continues, and first sends the bytes in flight.
    ///
    /// # Errors
    /// [`Failure`], with `Error::Moving` if one side failed. The other direction has then delivered the bytes that had
    /// come before. The report has the number of bytes that had arrived. After the failure of a source, every further
    /// call returns its error, because the kernel would report an end; after one for lack of memory (`ENOMEM`,
    /// `ENOBUFS`), the next call continues.
    pub async fn run(&mut self) -> Result<Both, Failure<Both>> {
        // After a failure that no run has returned yet, the other direction still delivers the bytes that have come.
        if self.error.is_none() {
            let (there, back) = (&mut self.there, &mut self.back);
            let kept = (there.resume(), back.resume());
            if let Some(error) = kept.0 {
                fail(there, back, &mut self.error, error);
            }
            if let Some(error) = kept.1 {
                fail(back, there, &mut self.error, error);
            }
        }
        let stop = |it: &mut Self| {
            it.there.clock.stop();
            it.back.clock.stop();
        };
        clock::run(self, Self::poll, stop).await
    }

    /// Returns the counters from `a` to `b`, and from `b` to `a`, which can be read while it runs.
    pub fn counters(&self) -> (Counters, Counters) {
        (self.there.counters.clone(), self.back.counters.clone())
    }

    /// Returns the totals so far.
    pub fn report(&mut self) -> Both {
        Both {
            a_to_b: self.there.report(),
            b_to_a: self.back.report(),
        }
    }

    /// Returns `a` and `b`, and the bytes that were taken from one of them and have not arrived at the other.
    ///
    /// # Errors
    /// `Error::Moving` if the bytes are in a private pipe and read(2) from it fails; a sandbox may refuse it.
    pub fn into_parts(mut self) -> Result<(A, B, UnderWay), Error> {
        let under_way = UnderWay {
            a_to_b: self.there.take_under_way()?,
            b_to_a: self.back.take_under_way()?,
        };
        Ok((self.a.end, self.b.end, under_way))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Both, Failure<Both>>> {
        loop {
            let had_failed = self.error.is_some();
            let (a, b, error) = (&mut self.a, &mut self.b, &mut self.error);
            step(cx, a, b, &mut self.there, &mut self.back, error);
            step(cx, b, a, &mut self.back, &mut self.there, error);
            // A direction that was polled before the other failed must not wait any longer.
            if had_failed == self.error.is_some() {
                break;
            }
        }
        if !self.there.is_over || !self.back.is_over {
            let last_progress = (self.there.clock.progress_at).max(self.back.clock.progress_at);
            let Poll::Ready(ended) = self.timer.poll(cx, last_progress) else {
                return Poll::Pending;
            };
            for direction in [&mut self.there, &mut self.back] {
                if !direction.is_over {
                    direction.end(ended);
                }
            }
        }
        let report = self.report();
        Poll::Ready(match self.error.take() {
            Some(error) => Err(Failure {
                report: Box::new(report),
                sink: None,
                error,
            }),
            None => Ok(report),
        })
    }
}

/// Polls one direction, unless it has ended.
fn step<S: Duplex, W: Duplex>(
    cx: &mut Context<'_>,
    source: &mut Side<S>,
    sink: &mut Side<W>,
    direction: &mut Direction,
    other: &mut Direction,
    error: &mut Option<Error>,
) {
    let polled = match direction.is_over {
        true if direction.owes_end && error.is_none() => Ok(Ended::AtEnd),
        true => return,
        false => match direction.poll(cx, source, sink) {
            Poll::Ready(polled) => polled,
            Poll::Pending => return,
        },
    };
    let is_at_end = matches!(polled, Ok(Ended::AtEnd));
    let shuts_down = is_at_end && error.is_none();
    // If the other direction has failed at its sink, which is this source, the kernel may report an end after that
    // error.
    direction.owes_end = is_at_end
        && matches!(error, Some(Error::Moving { side, .. }) if *side == TransferSide::Source);
    let outcome = polled.and_then(|ended| match shuts_down {
        true => sink
            .shut_down()
            .map(|()| ended)
            .map_err(|errno| direction.error(TransferSide::Sink, "shutdown", errno.into())),
        false => Ok(ended),
    });
    match outcome {
        Ok(ended) => direction.end(ended),
        Err(failed) => fail(direction, other, error, failed),
    }
}

/// Ends a direction that has failed, and the other when it has delivered the bytes that have come. The first failure is
/// reported.
fn fail(
    direction: &mut Direction,
    other: &mut Direction,
    error: &mut Option<Error>,
    failed: Error,
) {
    direction.end(match error {
        None => Ended::Failed,
        Some(_) => Ended::NotYet,
    });
    other.drains = true;
    error.get_or_insert(failed);
}

impl<A, B> fmt::Debug for Bidirectional<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bidirectional").finish_non_exhaustive()
    }
}

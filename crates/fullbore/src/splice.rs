//! splice(2) that does not sleep: it is asked not to, and poll(2) waits for the side that is not ready.
//!
//! While it sleeps, splice(2) into a file holds the freeze protection of its file system (`do_splice`, fs/splice.c), so
//! fsfreeze(8) and every writer of that file system would wait for the source, too. On sockets and devices the flag has
//! no effect. Out of a private pipe into a socket, the call may sleep if nothing can end its wait early: it holds only
//! the lock of a pipe that no other process has, except one that opens it through /proc. Otherwise poll(2) is asked first. Where something can end the wait
//! early, or the reader is slow and bytes are counted meanwhile, a blocking socket gets no more than it has room for.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::pipe::SpliceFlags;

use fullbore_linux::error::Stopped;
use fullbore_linux::outcome::{self, Call, End, Outcome, Polled};
use fullbore_linux::{Ready, TransferSide, Waiter, unacknowledged, uninterrupted, without_sigpipe};

/// A call into a socket that takes longer has a slow reader.
pub(crate) const SLOW: Duration = Duration::from_millis(10);

/// A source or a sink, what it is, and the offset to use instead of its file position.
pub(crate) type Side<'fd> = (BorrowedFd<'fd>, End, Option<u64>);

/// One splice(2). One of its ends is a pipe.
struct Splice<'fd> {
    source: BorrowedFd<'fd>,
    sink: BorrowedFd<'fd>,
    ends: (End, End),
    offsets: (Option<u64>, Option<u64>),
    most: usize,
    /// The side that can block.
    side: TransferSide,
}

/// Moves at most `most` bytes by one splice(2), and waits as `waiter` says.
///
/// # Errors
/// What stopped the wait.
pub(crate) fn splice(
    waiter: &mut Waiter,
    (source, end, from): Side<'_>,
    (sink, sink_end, to): Side<'_>,
    most: usize,
) -> Result<Outcome, Stopped> {
    let splice = Splice {
        source,
        sink,
        ends: (end, sink_end),
        offsets: (from, to),
        most,
        side: outcome::side_that_blocks(Call::Splice, (end, sink_end)),
    };
    splice.run(waiter)
}

impl Splice<'_> {
    fn run(&self, waiter: &mut Waiter) -> Result<Outcome, Stopped> {
        let tried = Cell::new(0);
        let in_parts = waiter.counts && waiter.slow;
        let may_end_early = waiter.is_nonblocking() || waiter.interruptible;
        let may_sleep = self.ends == (End::Own, End::Socket) && !may_end_early;
        let began = may_sleep.then(Instant::now);
        let (fd, ready) = self.waited_for();
        let call = || match self.once((may_sleep, in_parts), &tried)? {
            Outcome::WouldBlock(_) => Err(Errno::AGAIN),
            Outcome::Interrupted => Err(Errno::INTR),
            known => Ok(known),
        };
        let done = match may_sleep {
            true => waiter.until_ready_unseen(fd, ready, call),
            false => waiter.by_poll(|waiter| waiter.until_ready_unseen(fd, ready, call)),
        };
        waiter.slow = began.is_some_and(|began| began.elapsed() >= SLOW);
        match done {
            Ok(Outcome::Moved(n)) => {
                waiter.moved(n);
                // A signal may have ended the call, and the rest could wait forever.
                if self.ends.1 == End::Socket && n < tried.get() {
                    waiter.note_short(self.sink);
                }
                Ok(Outcome::Moved(n))
            }
            Ok(known) => Ok(known),
            Err(errno) => match (waiter.stopped(), errno) {
                (Some(stopped), _) => Err(stopped),
                (None, Errno::AGAIN) => Ok(Outcome::WouldBlock(self.side)),
                (None, errno) => Ok(Outcome::Failed(self.side, errno)),
            },
        }
    }

    /// Makes the call once, and returns what its result means. Sets `tried` to the most bytes that it could move.
    fn once(
        &self,
        (may_sleep, in_parts): (bool, bool),
        tried: &Cell<usize>,
    ) -> Result<Outcome, Errno> {
        let (fd, ready) = self.waited_for();
        let end = ready.side(self.ends.0, self.ends.1);
        if !may_sleep && !matches!(end, End::Own | End::Pipe | End::File) {
            let polled = outcome::ask(fd, self.side)?;
            if polled == Polled::Queued {
                // `POLLERR` alone may also be the pending error of the socket.
                if let Ok(Err(errno)) = sockopt::socket_error(fd) {
                    return Ok(Outcome::Failed(self.side, errno));
                }
            }
            if polled != Polled::Ready {
                let again = Err(Errno::AGAIN);
                return Ok(outcome::of(Call::Splice, self.ends, again, Some(polled)));
            }
        }
        let is_socket = self.ends.1 == End::Socket;
        tried.set(
            match is_socket && (in_parts || !may_sleep) && sleeps(self.sink) {
                true => self.most.min(room_in(self.sink)),
                false => self.most,
            },
        );
        let (most, flags) = (tried.get(), SpliceFlags::NONBLOCK);
        let splice = || {
            let (mut from, mut to) = self.offsets;
            let (from, to) = (from.as_mut(), to.as_mut());
            rustix::pipe::splice(self.source, from, self.sink, to, most, flags)
        };
        let call = || match is_socket {
            true => without_sigpipe(splice),
            false => splice(),
        };
        let result = call();
        match outcome::of(Call::Splice, self.ends, result, None) {
            Outcome::Ask => {
                let polled = outcome::ask(fd, self.side)?;
                Ok(outcome::of(Call::Splice, self.ends, result, Some(polled)))
            }
            Outcome::RefusedOrPending(errno) => {
                let again = uninterrupted(call);
                Ok(outcome::of_repeated(self.ends.0, errno, again))
            }
            known => Ok(known),
        }
    }

    fn waited_for(&self) -> (BorrowedFd<'_>, Ready) {
        match self.side {
            TransferSide::Source => (self.source, Ready::ToRead),
            TransferSide::Sink => (self.sink, Ready::ToWrite),
        }
    }
}

/// Returns whether calls on this socket sleep: only `O_NONBLOCK` keeps splice(2) from it (`splice_to_socket`).
fn sleeps(socket: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(socket).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
}

/// Returns how many bytes a socket that is ready takes without sleeping, as far as it tells.
pub(crate) fn room_in(socket: BorrowedFd<'_>) -> usize {
    let size = sockopt::socket_send_buffer_size(socket).unwrap_or(0);
    let used = unacknowledged(socket).unwrap_or(0);
    size.saturating_sub(used).max(4096)
}

//! What the result of a call that moves bytes means. This one place decides it, for every engine. Only the results of
//! write(2) and vmsplice(2) from memory are not in it: they name their side by themselves.
//!
//! The result alone says little. `EAGAIN` of splice(2) also comes at the mark of urgent data in a socket. A 0 is the end of the
//! source, or the mark of urgent data in a socket, or a file that read(2) only can read. poll(2) reports a socket as
//! ready whose error queue has a message. [`of`] is a pure function: where the answer depends on poll(2), it returns
//! [`Outcome::Ask`], and the caller asks ([`ask`]) and calls it again. It never guesses.
//!
//! The function is a table: the first row that fits decides. The tests try every combination.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::errno::is_refusal;
use crate::error::TransferSide;
use crate::wait::polled_now;

/// What is at one side of a call, as far as it decides what a result means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The memory of this process, which read(2) reads into.
    Memory,
    /// A private pipe, which no other process has: empty before it is filled. It never blocks and never fails.
    Own,
    /// A pipe or FIFO.
    Pipe,
    /// A stream socket.
    Socket,
    /// A stream socket of a family for which no engine calls splice(2), so that [`of`] is never asked about it.
    OtherSocket,
    /// A socket that preserves message boundaries.
    Messages,
    /// A regular file or block device.
    File,
    /// Any other file descriptor. No engine calls splice(2) on it as a source: a terminal shows its end only once.
    Other,
}

/// The call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// read(2), recv(2): into [`End::Memory`].
    Read,
    /// splice(2), tee(2).
    Splice,
    /// sendfile(2).
    Sendfile,
    /// copy_file_range(2).
    CopyFileRange,
}

/// What poll(2) says about one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Polled {
    /// Nothing to read, or no room.
    NotReady,
    /// Bytes to read, or room, or the other end is closed.
    Ready,
    /// Only `POLLERR`: the error queue of a socket has a message (recv(2), `MSG_ERRQUEUE`). As long as nobody reads the
    /// message, poll(2) returns at once, so sleeping in it would be a busy loop.
    Queued,
    /// The source is at its end, and has no message left.
    Ended,
}

/// The meaning of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This many bytes were moved.
    Moved(usize),
    /// The source has ended.
    End,
    /// An empty message was read, which is not the end.
    EmptyMessage,
    /// The call moved nothing, and a read(2) shows why: it returns bytes that this call cannot move (behind the mark
    /// of urgent data, out of a file of /proc), or 0 at the end. It must not wait for the source.
    ReadOnce,
    /// This side is not ready. Before the next try, wait for poll(2); if that says again and again that the side is ready,
    /// pause ([`Nap`](crate::wait::Nap)).
    WouldBlock(TransferSide),
    /// The kernel, a sandbox or this pair of descriptors does not support the call: use another.
    Refused,
    /// The call is refused, or a socket has failed with this error, which the kernel reports once, before the end of the
    /// stream (`EACCES` after a message of ICMPv6): repeat the call, and ask [`of_repeated`].
    RefusedOrPending(Errno),
    /// A signal has interrupted the call.
    Interrupted,
    /// This side has failed.
    Failed(TransferSide, Errno),
    /// One side has failed. It is the sink if a byte of the source can be read.
    FailedSomewhere(Errno),
    /// It depends on poll(2).
    Ask,
}

/// Returns what `result` of `call` between these ends means. `polled` is what poll(2) says about the
/// [side that blocks](side_that_blocks), once it was asked.
pub fn of(
    call: Call,
    (source, sink): (End, End),
    result: Result<usize, Errno>,
    polled: Option<Polled>,
) -> Outcome {
    use TransferSide::{Sink, Source};
    match (call, source, sink, result) {
        (_, _, _, Ok(n @ 1..)) => Outcome::Moved(n),

        (Call::Read, End::Messages, _, Ok(0)) => match polled {
            None => Outcome::Ask,
            Some(Polled::Ended) => Outcome::End,
            Some(_) => Outcome::EmptyMessage,
        },
        (Call::Read, _, _, Ok(0)) => Outcome::End,
        // The pipe holds bytes: write(2) either writes them, or returns the reason why not.
        (_, End::Own, _, Ok(0)) => Outcome::Refused,
        (_, _, _, Ok(0)) => Outcome::ReadOnce,

        (_, _, _, Err(Errno::INTR)) => Outcome::Interrupted,
        (_, _, _, Err(Errno::AGAIN)) => not_ready(call, (source, sink), polled),

        (Call::Read, _, _, Err(errno)) => Outcome::Failed(Source, errno),
        (Call::Splice | Call::Sendfile, _, _, Err(errno))
            if is_refused(call, errno) && [source, sink].contains(&End::Socket) =>
        {
            Outcome::RefusedOrPending(errno)
        }
        (_, _, _, Err(errno)) if is_refused(call, errno) => Outcome::Refused,

        // A pipe has no errors of its own except EPIPE, and a private one has none at all.
        (_, End::Own, _, Err(errno)) => Outcome::Failed(Sink, errno),
        (_, _, End::Own, Err(errno)) => Outcome::Failed(Source, errno),
        (_, _, _, Err(errno @ (Errno::PIPE | Errno::NOSPC | Errno::FBIG | Errno::DQUOT))) => {
            Outcome::Failed(Sink, errno)
        }
        (_, _, _, Err(Errno::ROFS)) => Outcome::Failed(Sink, Errno::ROFS),
        // One of the two is not open for this, and only their flags show which.
        (_, _, _, Err(Errno::BADF)) => Outcome::FailedSomewhere(Errno::BADF),
        (Call::Splice, End::Pipe, _, Err(errno)) => Outcome::Failed(Sink, errno),
        (_, _, _, Err(errno)) => Outcome::FailedSomewhere(errno),
    }
}

/// Returns what the `result` of a repeated call means, which was first refused with `errno`
/// ([`Outcome::RefusedOrPending`]). Only a refusal is repeated.
pub fn of_repeated(source: End, errno: Errno, result: Result<usize, Errno>) -> Outcome {
    match result {
        Ok(n @ 1..) => Outcome::Moved(n),
        Err(again) if is_refusal(again) || again == Errno::SPIPE => Outcome::Refused,
        _ if source == End::Socket => Outcome::Failed(TransferSide::Source, errno),
        _ => Outcome::Failed(TransferSide::Sink, errno),
    }
}

/// Returns the side that can block. There is only one: no engine splices between two that can, because it would hold the
/// lock of a pipe while it waits for the other side.
pub fn side_that_blocks(call: Call, (source, sink): (End, End)) -> TransferSide {
    let never_blocks = |end| matches!(end, End::Memory | End::Own | End::File);
    debug_assert!(never_blocks(source) || never_blocks(sink));
    match never_blocks(source) && call != Call::Read {
        true => TransferSide::Sink,
        false => TransferSide::Source,
    }
}

/// Returns what `EAGAIN` means.
fn not_ready(call: Call, (source, sink): (End, End), polled: Option<Polled>) -> Outcome {
    let side = side_that_blocks(call, (source, sink));
    let by_reading = source == End::Socket && call != Call::Read;
    match polled {
        // At the mark of urgent data, splice(2) returns EAGAIN however many bytes follow.
        None if by_reading => Outcome::Ask,
        Some(Polled::Ready | Polled::Ended) if by_reading => Outcome::ReadOnce,
        // Also if poll(2) says that the side is ready: another process was faster, or the driver does not support poll(2).
        _ => Outcome::WouldBlock(side),
    }
}

/// Returns whether `errno` means that a call other than read(2) and write(2) is not supported for these descriptors,
/// rather than that it failed.
pub fn is_refused(call: Call, errno: Errno) -> bool {
    is_refusal(errno)
        || match call {
            Call::Read => false,
            // The descriptors are on two file systems, the sink is in append mode, or the file is a swap file or is
            // being executed.
            Call::CopyFileRange => matches!(
                errno,
                Errno::XDEV | Errno::BADF | Errno::TXTBSY | Errno::OVERFLOW
            ),
            // An offset was given for a file that is not seekable: read(2) reports this better.
            Call::Splice | Call::Sendfile => errno == Errno::SPIPE,
        }
}

/// Asks poll(2) about this side.
///
/// # Errors
/// As poll(2), without `EINTR`.
pub fn ask(fd: BorrowedFd<'_>, side: TransferSide) -> Result<Polled, Errno> {
    let wanted = match side {
        TransferSide::Source => PollFlags::IN,
        TransferSide::Sink => PollFlags::OUT,
    };
    Ok(polled(polled_now(fd, wanted)?, wanted))
}

/// Returns what these events of one descriptor mean, of which `wanted` were asked for.
pub fn polled(found: PollFlags, wanted: PollFlags) -> Polled {
    match found {
        _ if found.intersects(wanted | PollFlags::HUP) => Polled::Ready,
        _ if found.contains(PollFlags::ERR) => Polled::Queued,
        _ if found.is_empty() => Polled::NotReady,
        _ => Polled::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Call::{CopyFileRange, Read, Sendfile, Splice};
    use End::{File, Memory, Messages, Other, Own, Pipe, Socket};
    use Polled::{Ended, NotReady, Queued, Ready};
    use TransferSide::{Sink, Source};

    const ENDS: [End; 7] = [Memory, Own, Pipe, Socket, Messages, File, Other];
    const CALLS: [Call; 4] = [Read, Splice, Sendfile, CopyFileRange];
    const POLLED: [Polled; 4] = [NotReady, Ready, Queued, Ended];
    const ERRNOS: [Errno; 20] = [
        Errno::INTR,
        Errno::AGAIN,
        Errno::NOSYS,
        Errno::PERM,
        Errno::INVAL,
        Errno::OPNOTSUPP,
        Errno::ACCESS,
        Errno::XDEV,
        Errno::BADF,
        Errno::TXTBSY,
        Errno::OVERFLOW,
        Errno::SPIPE,
        Errno::PIPE,
        Errno::NOSPC,
        Errno::FBIG,
        Errno::DQUOT,
        Errno::ROFS,
        Errno::IO,
        Errno::CONNRESET,
        Errno::NOMEM,
    ];

    /// Calls `check` with every combination that a call can have.
    fn every(
        mut check: impl FnMut(Call, (End, End), Result<usize, Errno>, Option<Polled>, Outcome),
    ) {
        let mut results: Vec<_> = ERRNOS.map(Err).to_vec();
        results.extend([Ok(0), Ok(1), Ok(1 << 30)]);
        let mut polls = vec![None];
        polls.extend(POLLED.map(Some));
        for call in CALLS {
            for source in ENDS {
                for sink in ENDS {
                    let fits = match call {
                        Read => source != Memory && sink == Memory,
                        // Only one of the two can block.
                        _ => {
                            ![source, sink].contains(&Memory)
                                && [source, sink].iter().any(|end| matches!(end, Own | File))
                        }
                    };
                    for &result in results.iter().filter(|_| fits) {
                        for &polled in &polls {
                            let outcome = of(call, (source, sink), result, polled);
                            check(call, (source, sink), result, polled, outcome);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_outcome_fits_its_call_and_its_result_in_every_combination() {
        let mut tried = 0;
        every(|call, (source, sink), result, polled, outcome| {
            tried += 1;
            let row = format!("{call:?} {source:?} {sink:?} {result:?} {polled:?}: {outcome:?}");
            let ok = match outcome {
                Outcome::Moved(n) => result == Ok(n) && n > 0,
                Outcome::End => result == Ok(0) && call == Read,
                Outcome::EmptyMessage => call == Read && source == Messages && result == Ok(0),
                Outcome::ReadOnce => {
                    call != Read
                        && source != Own
                        && (result == Ok(0) || result == Err(Errno::AGAIN) && source == Socket)
                }
                Outcome::WouldBlock(side) => {
                    let may = match side {
                        Source => source != Memory && (source != Own || call == Read),
                        Sink => sink != Memory,
                    };
                    may && result == Err(Errno::AGAIN)
                }
                Outcome::Refused => match result {
                    Ok(n) => n == 0 && source == Own,
                    Err(errno) => {
                        call != Read
                            && !matches!(
                                errno,
                                Errno::INTR | Errno::AGAIN | Errno::PIPE | Errno::IO
                            )
                    }
                },
                Outcome::RefusedOrPending(errno) => {
                    result == Err(errno)
                        && is_refused(call, errno)
                        && matches!(call, Splice | Sendfile)
                        && (source == Socket || sink == Socket)
                }
                Outcome::Interrupted => result == Err(Errno::INTR),
                Outcome::Failed(side, errno) => {
                    let only = match call {
                        Read => side == Source,
                        _ => true,
                    };
                    only && !matches!(errno, Errno::INTR | Errno::AGAIN)
                        && match (source, sink) {
                            (Own, Own) => true,
                            (Own, _) => side == Sink || call == Read,
                            (_, Own) => side == Source,
                            _ => true,
                        }
                }
                Outcome::FailedSomewhere(errno) => result == Err(errno) && call != Read,
                Outcome::Ask => polled.is_none(),
            };
            assert!(ok, "{row}");
        });
        assert!(tried > 7_000, "{tried}");
    }

    #[test]
    fn a_call_that_would_block_is_never_repeated_without_a_wait_or_a_pause() {
        every(|call, (source, sink), result, polled, outcome| {
            if result == Err(Errno::AGAIN) {
                let waits = match outcome {
                    Outcome::WouldBlock(_) => true,
                    // A read(2) follows, and that one waits.
                    Outcome::ReadOnce => source == Socket && !matches!(call, Read),
                    Outcome::Ask => polled.is_none(),
                    _ => false,
                };
                assert!(
                    waits,
                    "{call:?} {source:?} {sink:?} {polled:?}: {outcome:?}"
                );
            }
        });
    }

    /// The rows that the engines rely on, as they stand in the documentation.
    #[test]
    fn the_rows_of_the_table() {
        let again = Err(Errno::AGAIN);
        let (asked, ready) = (Some, Some(Ready));
        let rows = [
            // End of file: a 0 of splice(2) is not one.
            (Read, Pipe, Memory, Ok(0), None, Outcome::End),
            (Splice, Pipe, Own, Ok(0), None, Outcome::ReadOnce),
            (Splice, Socket, Own, Ok(0), None, Outcome::ReadOnce),
            (Splice, File, Own, Ok(0), None, Outcome::ReadOnce),
            (Sendfile, File, Socket, Ok(0), None, Outcome::ReadOnce),
            (CopyFileRange, File, File, Ok(0), None, Outcome::ReadOnce),
            (Splice, Own, Socket, Ok(0), None, Outcome::Refused),
            // Messages.
            (Read, Messages, Memory, Ok(0), None, Outcome::Ask),
            (Read, Messages, Memory, Ok(0), asked(Ended), Outcome::End),
            (
                Read,
                Messages,
                Memory,
                Ok(0),
                asked(NotReady),
                Outcome::EmptyMessage,
            ),
            // Would block: it is the only side that can.
            (Read, Pipe, Memory, again, None, Outcome::WouldBlock(Source)),
            (Splice, Pipe, Own, again, None, Outcome::WouldBlock(Source)),
            (Splice, Own, Socket, again, None, Outcome::WouldBlock(Sink)),
            (Splice, Pipe, File, again, None, Outcome::WouldBlock(Source)),
            (Splice, File, Pipe, again, None, Outcome::WouldBlock(Sink)),
            (
                Sendfile,
                File,
                Socket,
                again,
                None,
                Outcome::WouldBlock(Sink),
            ),
            (
                Splice,
                Pipe,
                Own,
                again,
                asked(NotReady),
                Outcome::WouldBlock(Source),
            ),
            (
                Splice,
                Own,
                Pipe,
                again,
                asked(NotReady),
                Outcome::WouldBlock(Sink),
            ),
            (Splice, Own, Pipe, again, ready, Outcome::WouldBlock(Sink)),
            (Splice, Pipe, Own, again, ready, Outcome::WouldBlock(Source)),
            // Urgent data: readable, and splice(2) moves nothing.
            (Splice, Socket, Own, again, None, Outcome::Ask),
            (
                Splice,
                Socket,
                Own,
                again,
                asked(NotReady),
                Outcome::WouldBlock(Source),
            ),
            (Splice, Socket, Own, again, ready, Outcome::ReadOnce),
            (
                Read,
                Socket,
                Memory,
                again,
                ready,
                Outcome::WouldBlock(Source),
            ),
            // A message in the error queue: poll(2) returns at once.
            (
                Splice,
                Own,
                Socket,
                again,
                asked(Queued),
                Outcome::WouldBlock(Sink),
            ),
            (
                Splice,
                Socket,
                Own,
                again,
                asked(Queued),
                Outcome::WouldBlock(Source),
            ),
            (
                Read,
                Socket,
                Memory,
                again,
                asked(Queued),
                Outcome::WouldBlock(Source),
            ),
            // Refusals.
            (Splice, Own, File, Err(Errno::INVAL), None, Outcome::Refused),
            (
                CopyFileRange,
                File,
                File,
                Err(Errno::XDEV),
                None,
                Outcome::Refused,
            ),
            (Splice, File, Own, Err(Errno::SPIPE), None, Outcome::Refused),
            (
                Read,
                File,
                Memory,
                Err(Errno::INVAL),
                None,
                Outcome::Failed(Source, Errno::INVAL),
            ),
            // A refusal, or the pending error of a socket.
            (
                Splice,
                Socket,
                Own,
                Err(Errno::ACCESS),
                None,
                Outcome::RefusedOrPending(Errno::ACCESS),
            ),
            (
                Sendfile,
                File,
                Socket,
                Err(Errno::ACCESS),
                None,
                Outcome::RefusedOrPending(Errno::ACCESS),
            ),
            // Failures, with their side.
            (
                Splice,
                Socket,
                Own,
                Err(Errno::CONNRESET),
                None,
                Outcome::Failed(Source, Errno::CONNRESET),
            ),
            (
                Splice,
                Own,
                Socket,
                Err(Errno::CONNRESET),
                None,
                Outcome::Failed(Sink, Errno::CONNRESET),
            ),
            (
                Splice,
                Own,
                Pipe,
                Err(Errno::PIPE),
                None,
                Outcome::Failed(Sink, Errno::PIPE),
            ),
            (
                Splice,
                Pipe,
                File,
                Err(Errno::IO),
                None,
                Outcome::Failed(Sink, Errno::IO),
            ),
            (
                Sendfile,
                File,
                Socket,
                Err(Errno::PIPE),
                None,
                Outcome::Failed(Sink, Errno::PIPE),
            ),
            (
                Sendfile,
                File,
                Socket,
                Err(Errno::IO),
                None,
                Outcome::FailedSomewhere(Errno::IO),
            ),
            (
                Splice,
                Pipe,
                File,
                Err(Errno::BADF),
                None,
                Outcome::FailedSomewhere(Errno::BADF),
            ),
            (
                CopyFileRange,
                File,
                File,
                Err(Errno::NOSPC),
                None,
                Outcome::Failed(Sink, Errno::NOSPC),
            ),
            (
                Splice,
                Pipe,
                Own,
                Err(Errno::INTR),
                None,
                Outcome::Interrupted,
            ),
        ];
        for (call, source, sink, result, polled, expected) in rows {
            let outcome = of(call, (source, sink), result, polled);
            let row = format!("{call:?} {source:?} {sink:?} {result:?} {polled:?}");
            assert_eq!(outcome, expected, "{row}");
        }
    }

    #[test]
    fn only_a_refusal_is_repeated() {
        let errno = Errno::ACCESS;
        for result in [
            Ok(0),
            Err(Errno::AGAIN),
            Err(Errno::PIPE),
            Err(Errno::CONNRESET),
        ] {
            assert_eq!(
                of_repeated(Socket, errno, result),
                Outcome::Failed(Source, errno)
            );
            assert_eq!(
                of_repeated(Own, errno, result),
                Outcome::Failed(Sink, errno)
            );
        }
        assert_eq!(of_repeated(Socket, errno, Ok(7)), Outcome::Moved(7));
        assert_eq!(of_repeated(Socket, errno, Err(errno)), Outcome::Refused);
    }

    #[test]
    fn poll_is_asked_about_one_side() {
        use std::os::fd::AsFd;
        let pipe = crate::Pipe::new().unwrap();
        let (reader, writer) = (pipe.reader.as_fd(), pipe.writer.as_fd());
        assert_eq!(ask(reader, Source), Ok(NotReady));
        assert_eq!(ask(writer, Sink), Ok(Ready));
        rustix::io::write(writer, &[1]).unwrap();
        assert_eq!(ask(reader, Source), Ok(Ready));
        assert_eq!(polled(PollFlags::ERR, PollFlags::OUT), Queued);
        assert_eq!(
            polled(PollFlags::ERR | PollFlags::OUT, PollFlags::OUT),
            Ready
        );
        assert_eq!(polled(PollFlags::HUP, PollFlags::IN), Ready);
    }
}

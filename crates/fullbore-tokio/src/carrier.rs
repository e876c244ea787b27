//! The bytes in flight between a source and a sink: in a buffer, or in a private pipe.
//!
//! It is filled only while it is empty, so an `EAGAIN` of a splice(2) into the private pipe always comes from the
//! source, and one of a splice(2) out of it always from the sink.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::SendFlags;
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, splice};

use crate::pool::{Buffer, LentPipe, Pool};
use fullbore_linux::outcome::{self, Call, End as Kind, Outcome};
use fullbore_linux::pipe::take_back;
use fullbore_linux::place::{at_position, left_in};
use fullbore_linux::{Aligned, Calls, Wait, has_hung_up, page_size, without_sigpipe};

/// The bytes in flight.
#[derive(Default)]
pub(crate) enum Carrier {
    #[default]
    Empty,
    Memory(Buffer),
    /// In a pipe that belongs to the pool.
    Piped(LentPipe, Pool),
    /// The bytes that could be read back from a pipe, and the error after them.
    Broken(Vec<u8>, Errno),
}

/// The result of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) bytes: usize,
    pub(crate) spliced: bool,
    /// Whether splice(2) was refused, and the bytes were moved by read(2) and write(2).
    pub(crate) refused: bool,
}

/// The result of a call, or its name and error.
pub(crate) type Done = Result<Moved, (&'static str, Errno)>;

/// Returns the result of a call that has moved bytes, or found the end.
pub(crate) fn moved(bytes: usize, spliced: bool, refused: bool) -> Done {
    Ok(Moved {
        bytes,
        spliced,
        refused,
    })
}

/// The most bytes that one splice(2) moves: more than a private pipe holds.
const MOST: usize = 1 << 30;

impl Carrier {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Carrier::Empty)
    }

    /// Takes at most `most` bytes from the source by read(2), and returns how many; 0 is its end.
    pub(crate) fn read(
        &mut self,
        (source, shape): (BorrowedFd<'_>, Kind),
        pool: &Pool,
        most: usize,
    ) -> Result<usize, Errno> {
        let mut buffer = pool.buffer();
        let most = most.min(buffer.bytes.len());
        let n = read(source, shape, &mut buffer.bytes[..most])?;
        if n > 0 {
            buffer.held = 0..n;
            *self = Carrier::Memory(buffer);
        }
        Ok(n)
    }

    /// Takes at most `most` bytes from the source by splice(2) into a pipe, and returns how many; `None` if the pool lends
    /// no pipe. A 0 may be the end of the source; only read(2) shows that.
    pub(crate) fn splice(
        &mut self,
        (source, shape): (BorrowedFd<'_>, Kind),
        pool: &Pool,
        most: usize,
    ) -> Option<Result<usize, Errno>> {
        let mut pipe = pool.pipe()?;
        let (sink, most) = (pipe.pipe.writer.as_fd(), most.min(MOST));
        let spliced = match shape {
            Kind::File => {
                // So many fit in, wherever in a page the first is.
                let room = fcntl_getpipe_size(sink).unwrap_or(MOST) - page_size();
                // None is claimed past the end: while others claim some, it could not be given back. With O_DIRECT, only
                // whole blocks are read.
                let is_direct =
                    fcntl_getfl(source).is_ok_and(|flags| flags.contains(OFlags::DIRECT));
                let left = left_in(source, None).ok().filter(|_| !is_direct);
                match left.map_or(room, |left| left.min(room)).min(most) {
                    0 => Ok(0),
                    most => at_position(source, most, |at| {
                        splice_once((source, Some(at)), (sink, None), most)
                    }),
                }
            }
            _ => splice_once((source, None), (sink, None), most),
        };
        match spliced {
            Ok(held @ 1..) => {
                pipe.held = held;
                *self = Carrier::Piped(pipe, pool.clone());
            }
            _ => pool.give_back(pipe),
        }
        Some(spliced)
    }

    /// Sends bytes to the sink, in one call. If splice(2) is refused, the bytes are read back and written.
    pub(crate) fn send(&mut self, sink: BorrowedFd<'_>, shape: Kind) -> Done {
        let mut refused = false;
        if let Carrier::Piped(lent, _) = self {
            let (from, held) = ((lent.pipe.reader.as_fd(), None), lent.held);
            let sent = match shape {
                Kind::Socket if waits(sink, shape) => Err(Errno::OPNOTSUPP),
                Kind::Socket => without_sigpipe(|| splice_once(from, (sink, None), held)),
                Kind::File => {
                    at_position(sink, held, |at| splice_once(from, (sink, Some(at)), held))
                }
                _ => splice_once(from, (sink, None), held),
            };
            match outcome::of(Call::Splice, (Kind::Own, shape), sent, None) {
                Outcome::Moved(bytes) => {
                    lent.held -= bytes;
                    if lent.held == 0 {
                        self.give_back();
                    }
                    return moved(bytes, true, refused);
                }
                // write(2) either sends the bytes, or returns the reason why not.
                Outcome::Refused | Outcome::RefusedOrPending(_) => refused = true,
                _ => return Err(("splice", sent.err().unwrap_or(Errno::IO))),
            }
            let taken = self.take_all().map_err(|errno| ("read", errno))?;
            let (held, pool) = (0..taken.len(), None);
            let mut bytes = Aligned::new(taken.len());
            bytes.copy_from_slice(&taken);
            *self = Carrier::Memory(Buffer { bytes, held, pool });
        }
        moved(self.write(sink, shape)?, false, refused)
    }

    fn write(&mut self, sink: BorrowedFd<'_>, shape: Kind) -> Result<usize, (&'static str, Errno)> {
        let buffer = match self {
            Carrier::Memory(buffer) => buffer,
            Carrier::Broken(_, errno) => return Err(("read", *errno)),
            _ => return Ok(0),
        };
        let bytes = &buffer.bytes[buffer.held.clone()];
        let n = write(sink, shape, bytes).map_err(|errno| ("write", errno))?;
        buffer.held.start += n;
        if buffer.held.is_empty() {
            *self = Carrier::Empty;
        }
        match n {
            0 => Err(("write", Errno::IO)),
            n => Ok(n),
        }
    }

    /// Returns a pipe that has become empty to the pool.
    fn give_back(&mut self) {
        if let Carrier::Piped(pipe, pool) = std::mem::take(self) {
            pool.give_back(pipe);
        }
    }

    /// Removes and returns all bytes in flight.
    ///
    /// # Errors
    /// As read(2) from a private pipe, which a sandbox may refuse. The next call returns the bytes that were read
    /// before.
    pub(crate) fn take_all(&mut self) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        match self {
            Carrier::Empty => {}
            Carrier::Memory(buffer) => bytes.extend_from_slice(&buffer.bytes[buffer.held.clone()]),
            Carrier::Broken(read, _) => bytes.append(read),
            Carrier::Piped(lent, _) => {
                if let Err(errno) = take_back(&lent.pipe.reader, &mut lent.held, &mut bytes) {
                    *self = Carrier::Broken(bytes, errno);
                    return Err(errno);
                }
                self.give_back();
            }
        }
        *self = Carrier::Empty;
        Ok(bytes)
    }
}

/// Returns whether calls on this pipe or socket wait, because another process that shares its description has cleared
/// `O_NONBLOCK`. Nothing else keeps splice(2) on a TCP socket from it.
pub(crate) fn waits(fd: BorrowedFd<'_>, shape: Kind) -> bool {
    let may = matches!(shape, Kind::Socket | Kind::OtherSocket | Kind::Pipe);
    may && fcntl_getfl(fd).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
}

/// Returns calls that never wait, for a description without `O_NONBLOCK`.
fn unwaiting() -> Calls {
    let mut calls = Calls::new(Wait::Block);
    calls.waiter.never = true;
    calls
}

/// Calls read(2) so that it does not wait for another process.
fn read(source: BorrowedFd<'_>, shape: Kind, room: &mut [u8]) -> Result<usize, Errno> {
    if waits(source, shape) {
        return unwaiting().read(source, room);
    }
    match retry_on_intr(|| rustix::io::read(source, &mut *room)) {
        Ok(0) if shape == Kind::Other && has_hung_up(source) => Err(Errno::IO),
        read => read,
    }
}

/// As [`read`], for write(2).
fn write(sink: BorrowedFd<'_>, shape: Kind, bytes: &[u8]) -> Result<usize, Errno> {
    let is_socket = matches!(shape, Kind::Socket | Kind::OtherSocket);
    match waits(sink, shape) {
        true => unwaiting().write(sink, bytes),
        false if is_socket => retry_on_intr(|| rustix::net::send(sink, bytes, SendFlags::NOSIGNAL)),
        false => retry_on_intr(|| rustix::io::write(sink, bytes)),
    }
}

/// A descriptor, and the offset in a file.
type At<'a> = (BorrowedFd<'a>, Option<&'a mut u64>);

fn splice_once((source, from): At<'_>, (sink, to): At<'_>, most: usize) -> Result<usize, Errno> {
    let (mut from, mut to) = (from, to);
    retry_on_intr(|| {
        let (from, to) = (from.as_deref_mut(), to.as_deref_mut());
        splice(source, from, sink, to, most, SpliceFlags::NONBLOCK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_could_not_be_read_back_is_always_an_error_of_read() {
        let pipe = fullbore::Pipe::new().unwrap();
        let mut carrier = Carrier::Broken(vec![7], Errno::IO);
        for _ in 0..2 {
            let sent = carrier.send(pipe.writer.as_fd(), Kind::Pipe);
            assert_eq!(sent.unwrap_err(), ("read", Errno::IO));
        }
        assert_eq!(carrier.take_all(), Ok(vec![7]));
    }
}

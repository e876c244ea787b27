//! Decides how bytes get to a sink: as pages, through a socket, or by write(2). No other code does.
//!
//! | how | into | when | file |
//! |---|---|---|---|
//! | pages, by vmsplice(2) | a pipe | the sender offers the memory, and the kernel shares its pages | this one |
//! | pages, through a private pipe | a Unix stream socket | the same | this one |
//! | a copy, through a private socket | a pipe | 32 KiB and more that are not sent as pages | `socket.rs` |
//! | write(2), pwrite(2) | anything | otherwise | this one |
//!
//! A [`Producer`](crate::Producer), a [`Transfer`](crate::Transfer), and each sink of a [`Tee`](crate::Tee) and a
//! [`Buffer`](crate::Buffer) has one outlet.

mod socket;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::kind::Kind;
use crate::memory::{self, Geometry};
use crate::own_pipe::OwnPipe;
use crate::way::Way;
use fullbore_linux::outcome::{End, Outcome};
use fullbore_linux::pipe::{own_writable, roomy};
use fullbore_linux::{self as linux, Calls, PipeEnd, uninterrupted};
pub(crate) use socket::{Failed, RUN};
use socket::{Through, Written};

/// Shorter sends are copied, because looking up and replacing the pages would cost more than the copy.
pub(crate) const BY_REFERENCE_FROM: usize = 32 * 1024;

/// Returns the fewest bytes that are worth sending as pages, if they are sent in chunks of this size.
pub(crate) fn least_to_give(chunk: usize) -> usize {
    BY_REFERENCE_FROM.min(chunk)
}

/// Returns whether giving pages can be faster than copying them, on this machine and kernel: faulting in base pages one
/// by one costs more than a copy.
pub(crate) fn pages_pay_off() -> bool {
    linux::has_huge_pages() && Geometry::here().huge_that_suits().is_some() && linux::shares_pages()
}

/// Grows an output to up to `capacity` bytes, if it is a pipe and the limits allow it: with a small pipe, sending is only
/// slower. This is the one place that grows outputs.
pub(crate) fn make_roomy(sink: BorrowedFd<'_>, capacity: usize) {
    if capacity > 0 {
        let _ = PipeEnd::new(sink).and_then(|pipe| pipe.grow(capacity));
    }
}

/// How some bytes were sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent {
    /// A pipe or a socket refers to the pages of this many bytes.
    Given(usize),
    /// This many bytes were copied.
    Copied(usize),
}

impl Sent {
    /// Returns the number of bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Sent::Given(bytes) | Sent::Copied(bytes) => bytes,
        }
    }
}

/// The way to one sink.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) calls: Calls,
    target: Target,
    /// Whether pages are no longer given.
    copies_all: bool,
    /// How bytes are copied into a pipe.
    through: Through,
    /// Whether copies may go through a socket once pages are no longer given, and if so, the capacity that the pipe is
    /// grown to (`None` is the default).
    socket_for: Option<Option<usize>>,
    /// How the last bytes were sent.
    pub(crate) last: Way,
    /// Whether the sink was grown, if it is a pipe.
    roomy: bool,
    /// The most bytes of one write(2) into a sink that preserves message boundaries, as far as it has refused more.
    longest: usize,
    /// Whether each write(2) is a message of the source, which must not be cut.
    pub(crate) whole_messages: bool,
}

/// The shortest message that is tried: all sockets send more.
const SHORTEST: usize = 512;

/// What an outlet writes to.
#[derive(Debug)]
enum Target {
    /// The sink, which gets only copies.
    Sink,
    /// The sink, which is the write end of a pipe, on a descriptor that no other code can redirect.
    Pipe,
    /// The write end of a pipe: a duplicate of the sink's descriptor, which no other code can redirect. `None` while it
    /// is closed.
    Duplicate(Option<OwnedFd>),
    /// The sink, which is a Unix stream socket.
    Socket(OwnPipe),
}

impl Target {
    /// Returns the pipe that pages may be given to.
    fn pipe<'fd>(&'fd self, sink: BorrowedFd<'fd>) -> Option<BorrowedFd<'fd>> {
        match self {
            Target::Pipe => Some(sink),
            Target::Duplicate(own) => own.as_ref().map(AsFd::as_fd),
            Target::Sink | Target::Socket(_) => None,
        }
    }
}

impl Outlet {
    /// Creates an outlet that only copies, until `take_pages` is called.
    pub(crate) fn new(calls: Calls) -> Self {
        Self {
            calls,
            target: Target::Sink,
            copies_all: false,
            through: Through::Nothing,
            socket_for: None,
            last: Way::Copy,
            roomy: false,
            longest: usize::MAX,
            whole_messages: false,
        }
    }

    /// Creates an outlet into the write end of a pipe, on a descriptor that no other code can redirect.
    /// [`copy_only`](Self::copy_only) explains `socket_for`.
    pub(crate) fn into_pipe(calls: Calls, socket_for: Option<Option<usize>>) -> Self {
        Self {
            target: Target::Pipe,
            socket_for,
            ..Self::new(calls)
        }
    }

    /// Grows `sink` once, as [`make_roomy`].
    pub(crate) fn make_roomy(&mut self, sink: BorrowedFd<'_>, capacity: usize) {
        if !std::mem::replace(&mut self.roomy, true) {
            make_roomy(sink, capacity);
        }
    }

    /// Gives pages to `sink` from now on, if it takes them, through a private pipe of up to `capacity` bytes if it is a
    /// Unix stream socket. Copies into a pipe go through a socket if the memory cgroup has room for a pipe of
    /// `capacity` bytes full of them. Returns whether pages are given or copies go through a socket.
    ///
    /// This and [`pages_pay_off`] are the places that decide whether pages are given.
    pub(crate) fn take_pages(&mut self, sink: BorrowedFd<'_>, kind: Kind, capacity: usize) -> bool {
        let target = match kind {
            Kind::Pipe => {
                if !self.calls.waiter.never {
                    self.through = Through::for_capacity(capacity);
                }
                let pays_off = linux::has_huge_pages() || self.through.is_socket();
                let own = pays_off.then(|| own_writable(sink).ok()).flatten();
                own.map(|own| Target::Duplicate(Some(own)))
            }
            Kind::UnixStream if linux::has_huge_pages() => {
                pipe_before(capacity).map(Target::Socket)
            }
            _ => None,
        };
        let takes = target.is_some();
        self.target = target.unwrap_or(Target::Sink);
        takes
    }

    /// Only copies into the socket from now on. The bytes in the private pipe were not sent.
    pub(crate) fn give_no_pages_to_a_socket(&mut self) {
        if let Target::Socket(_) = self.target {
            self.target = Target::Sink;
        }
    }

    /// Only copies from now on. If `socket_for` allows it, copies into the pipe go through a socket.
    pub(crate) fn copy_only(&mut self) {
        self.copies_all = true;
        if let Some(pipe_size) = self.socket_for.take() {
            self.through = Through::for_capacity(pipe_size.unwrap_or_else(roomy));
        }
    }

    /// Returns whether pages can be given to the sink.
    pub(crate) fn gives(&self) -> bool {
        !self.copies_all && !matches!(self.target, Target::Sink)
    }

    /// Returns how long copies are sent.
    pub(crate) fn way_of_copies(&self) -> Way {
        match self.through.is_socket() {
            true => Way::Socket,
            false => Way::Copy,
        }
    }

    /// Returns whether the private pipe holds pages that have not arrived.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(&self.target, Target::Socket(own) if own.held > 0)
    }

    /// Closes its duplicate of the sink, so that a reader sees the end of file once the caller has closed the sink too.
    /// The duplicate is made again if more bytes follow.
    pub(crate) fn let_go(&mut self) {
        if let Target::Duplicate(own) = &mut self.target {
            *own = None;
        }
    }

    /// Returns the descriptor to write to and to wait for: the duplicate if there is one, because `sink` may refer to
    /// another file by then.
    pub(crate) fn fd<'fd>(&'fd self, sink: BorrowedFd<'fd>) -> BorrowedFd<'fd> {
        self.target.pipe(sink).unwrap_or(sink)
    }

    /// Sends some of `bytes` to `sink`: as pages if they are `offered` and the sink accepts pages, otherwise as a copy.
    /// After an error or a short count, the next call must pass the rest of these bytes.
    ///
    /// # Safety
    /// Bytes that are offered are in a private mapping. Given bytes ([`Sent::Given`], and all of `bytes` while it [is
    /// under way](Self::is_under_way)) are not written to before they were released to the kernel, unless the caller
    /// accepts what that means for readers.
    ///
    /// # Errors
    /// The errors of write(2), vmsplice(2) and splice(2), with the name of the call; `EIO` if write(2) moves nothing.
    pub(crate) unsafe fn send(
        &mut self,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
        offered: bool,
        at: Option<u64>,
    ) -> Result<Sent, Failed> {
        self.duplicate_again(sink);
        if let Target::Socket(own) = &mut self.target {
            if offered || own.held > 0 {
                // SAFETY: as this function's own condition.
                match unsafe { send_into_socket(own, &mut self.calls, sink, bytes) }? {
                    Some(n) => return Ok(self.gave(n)),
                    None => self.target = Target::Sink,
                }
            }
        }
        if offered && self.gives() && !linux::shares_pages() {
            self.copy_only();
        }
        // A deferred error of the last call comes first.
        let may_give = offered && self.gives() && !self.through.has_failed();
        if let Some(pipe) = self.target.pipe(sink).filter(|_| may_give) {
            // SAFETY: as this function's own condition; the pages live on in the pipe after munmap. `own_writable` has
            // checked that this is the write end of a pipe, and no other code can redirect the descriptor.
            let answer = unsafe { self.calls.vmsplice(pipe, bytes, SpliceFlags::empty()) };
            match answer {
                Ok(n @ 1..) => return Ok(self.gave(n)),
                Err(errno) if !linux::is_refusal(errno) => return Err(("vmsplice", errno)),
                // write(2) either works, or returns the reason why not.
                _ => self.copy_only(),
            }
        }
        self.copy(sink, bytes, at).map(Sent::Copied)
    }

    /// Copies some of `bytes` into a pipe or a socket, or into a file at offset `at`, and returns how many.
    ///
    /// # Errors
    /// The errors of write(2) and splice(2), with the name of the call; `EIO` if write(2) moves nothing.
    pub(crate) fn copy(
        &mut self,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
        at: Option<u64>,
    ) -> Result<usize, Failed> {
        self.duplicate_again(sink);
        let (n, way) = match (self.target.pipe(sink), at) {
            // A short remainder goes to the same pipe as the bytes before it.
            (Some(pipe), None) => self.through.write(&mut self.calls, pipe, bytes)?,
            (_, None) => self.write_as_messages(sink, bytes)?,
            (_, Some(at)) => {
                self.calls.also_made(1);
                socket::written(uninterrupted(|| rustix::io::pwrite(sink, bytes, at)))?
            }
        };
        self.last = way;
        Ok(n)
    }

    /// Writes some of `bytes` to a pipe by write(2), even if copies go through a socket, and returns how many.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub(crate) fn write(&mut self, sink: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Failed> {
        self.duplicate_again(sink);
        match self.target.pipe(sink) {
            Some(pipe) if !self.through.has_failed() => {
                let (n, way) = socket::directly(&mut self.calls, pipe, bytes)?;
                self.last = way;
                Ok(n)
            }
            _ => self.copy(sink, bytes, None),
        }
    }

    /// Writes some of `bytes`, in shorter messages if the sink is a socket that cannot send so long ones.
    fn write_as_messages(&mut self, sink: BorrowedFd<'_>, bytes: &[u8]) -> Written {
        loop {
            let most = bytes.len().min(self.longest);
            match socket::directly(&mut self.calls, sink, &bytes[..most]) {
                Err((_, Errno::MSGSIZE)) if !self.whole_messages && most > SHORTEST => {
                    self.longest = most / 2;
                }
                written => return written,
            }
        }
    }

    fn duplicate_again(&mut self, sink: BorrowedFd<'_>) {
        if let Target::Duplicate(own @ None) = &mut self.target {
            *own = own_writable(sink).ok();
        }
    }

    fn gave(&mut self, n: usize) -> Sent {
        self.last = Way::Fresh;
        Sent::Given(n)
    }
}

/// Creates the private pipe before a Unix stream socket, of up to `capacity` bytes; `None` if no pipe of a useful size
/// can be made.
fn pipe_before(capacity: usize) -> Option<OwnPipe> {
    let own = OwnPipe::new(capacity).ok()?;
    (own.capacity >= memory::FIRST).then_some(own)
}

/// Sends fresh pages into a Unix stream socket, through a private pipe: vmsplice(2) gives pages only to a pipe, and
/// splice(2) moves references from there into the socket. The receiver then refers to the pages, too, and may splice them
/// on. They are never written to again, so it gets the bytes as they were, as from a pipe.
///
/// Gives as many of `bytes` to the pipe as it accepts, if it is empty, and moves them into `sink`. Returns how many
/// have arrived; `None` if the kernel or a sandbox does not allow it for this socket. After an error or a short count,
/// the next call must pass the rest of these bytes.
///
/// # Safety
/// The bytes must be in a private mapping, and must not be written to again.
///
/// # Errors
/// The call that failed, and its error. All bytes that have not arrived are still in the memory.
unsafe fn send_into_socket(
    own: &mut OwnPipe,
    calls: &mut Calls,
    sink: BorrowedFd<'_>,
    bytes: &[u8],
) -> Result<Option<usize>, Failed> {
    if own.held == 0 {
        let (pipe, flags) = (own.pipe.writer.as_fd(), SpliceFlags::NONBLOCK);
        // SAFETY: the caller vouches for the pages, and this is the write end of a pipe.
        own.held = match unsafe { calls.vmsplice(pipe, bytes, flags) } {
            Ok(given) => given,
            Err(errno) if linux::is_refusal(errno) => return Ok(None),
            Err(errno) => return Err(("vmsplice", errno)),
        };
    }
    calls.also_made(1);
    match own.send_on(&mut calls.waiter, (sink, End::Socket, None), usize::MAX) {
        Ok(Outcome::Moved(n)) => Ok(Some(n)),
        // write(2) either works, or returns the reason why not.
        Ok(Outcome::Refused) => Ok(None),
        Ok(Outcome::Failed(_, errno)) => Err(("splice", errno)),
        Ok(_) | Err(_) => Err(("splice", Errno::AGAIN)),
    }
}

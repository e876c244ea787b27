//! The table of ways to move bytes from one kind of fd to another, best first: [`methods`].
//!
//! If the kernel refuses a way for this pair of fds, the next one is tried. It usually refuses before the first byte,
//! but it may do so later, if another process changes the flags of a file. docs/guarantees.md explains for each row
//! which ways keep *snapshot*.

use std::fmt;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Stat};
use rustix::io::ioctl_fionread;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::memory;
use fullbore_linux as linux;
use fullbore_linux::wait::uninterrupted;

/// Which bytes a reader gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Guarantee {
    /// A reader gets the bytes as they were when they were moved, whatever any process does afterwards.
    #[default]
    Snapshot,
    /// A reader may get what the source's pages hold when it reads. This is faster, and correct if
    /// no process changes the source's bytes before they have been read.
    Reference,
}

/// The kind of file that a file descriptor refers to, as far as it decides how bytes can be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A pipe or a FIFO: the kernel treats them alike.
    Pipe,
    /// A regular file.
    Regular,
    /// A block device.
    Block,
    /// `/dev/null`, which discards what is written to it.
    Null,
    /// Any other character device, terminals among them.
    Char,
    /// A Unix socket of type stream.
    UnixStream,
    /// A TCP socket.
    Tcp,
    /// Everything else: sockets that preserve message boundaries, eventfds, directories, and kinds unknown to this
    /// version.
    Other,
}

impl Kind {
    /// Returns the kind of `fd`, for which fstat(2) returned `stat`.
    pub(crate) fn of(fd: BorrowedFd<'_>, stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => Kind::Pipe,
            FileType::RegularFile => Kind::Regular,
            FileType::BlockDevice => Kind::Block,
            FileType::CharacterDevice if is_null(stat) => Kind::Null,
            FileType::CharacterDevice => Kind::Char,
            FileType::Socket => Kind::of_socket(fd),
            _ => Kind::Other,
        }
    }

    fn of_socket(fd: BorrowedFd<'_>) -> Self {
        match (sockopt::socket_type(fd), sockopt::socket_domain(fd)) {
            (Ok(SocketType::STREAM), Ok(AddressFamily::UNIX)) => Kind::UnixStream,
            (Ok(SocketType::STREAM), Ok(AddressFamily::INET | AddressFamily::INET6)) => Kind::Tcp,
            _ => Kind::Other,
        }
    }

    /// Returns the most bytes that one splice(2) should move into it: fewer into sockets, so that both sides work at
    /// the same time.
    pub(super) fn splice_at_once(self) -> usize {
        match self {
            Kind::UnixStream | Kind::Tcp => 128 * 1024,
            // This is more than the capacity of most pipes.
            _ => 16 << 20,
        }
    }

    /// Returns whether splice(2) can move bytes into it as a socket.
    pub(super) fn is_stream_socket(self) -> bool {
        matches!(self, Kind::UnixStream | Kind::Tcp)
    }

    /// Returns whether `SPLICE_F_NONBLOCK` keeps splice(2) from waiting on this kind. On the other
    /// kinds only `O_NONBLOCK` of the fd itself does.
    pub(crate) fn splices_without_waiting(self) -> bool {
        matches!(self, Kind::Pipe | Kind::Regular | Kind::Block | Kind::Null)
    }
}

/// Returns how many bytes one read(2) must have room for, because it discards what does not fit: a page for a pipe,
/// whose writer may use packet mode (pipe(7)), [`memory::MESSAGE`] for a socket that preserves message boundaries
/// (recv(2)), and 0 for everything else.
pub(crate) fn longest_message(fd: BorrowedFd<'_>, stat: &Stat) -> usize {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => linux::page_size(),
        FileType::Socket if keeps_messages(fd) => memory::MESSAGE,
        _ => 0,
    }
}

/// Returns whether this is a socket that preserves message boundaries.
fn keeps_messages(fd: BorrowedFd<'_>) -> bool {
    sockopt::socket_type(fd).is_ok_and(|kind| kind != SocketType::STREAM)
}

/// Returns whether a read(2) that returned 0 has got an empty message, and not the end. A socket that preserves message
/// boundaries is at its end when it was shut down and its queue is empty.
pub(crate) fn was_empty_message(fd: BorrowedFd<'_>) -> bool {
    // poll(2) does not report the end of every other family of sockets.
    let tells_end = match sockopt::socket_domain(fd) {
        Ok(AddressFamily::UNIX | AddressFamily::INET | AddressFamily::INET6) => keeps_messages(fd),
        _ => false,
    };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
    if !tells_end || uninterrupted(|| poll(&mut fds, Some(&Timespec::default()))).is_err() {
        return false;
    }
    let ends = PollFlags::RDHUP | PollFlags::HUP;
    !fds[0].revents().intersects(ends) || ioctl_fionread(fd).is_ok_and(|queued| queued > 0)
}

/// Returns whether this is the device with major number 1 and minor number 3 (mem(4)).
fn is_null(stat: &Stat) -> bool {
    rustix::fs::major(stat.st_rdev) == 1 && rustix::fs::minor(stat.st_rdev) == 3
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Pipe => "pipe",
            Kind::Regular => "file",
            Kind::Block => "block device",
            Kind::Null => "/dev/null",
            Kind::Char => "character device",
            Kind::UnixStream => "Unix socket",
            Kind::Tcp => "TCP socket",
            Kind::Other => "other kind of file",
        })
    }
}

/// The way in which bytes move from one fd to another. (A [`Way`](crate::Way) is how a producer
/// sends.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// copy_file_range(2): within the kernel, and without copying at all where the file system
    /// can share blocks between files.
    CopyFileRange,
    /// splice(2), one end being a pipe: references move from pipe to pipe, and into a file bytes
    /// are copied once, within the kernel.
    Splice,
    /// Two splice(2) calls with a private pipe between them, so that the side of an error is known.
    SpliceThrough,
    /// sendfile(2).
    Sendfile,
    /// read(2) into fresh pages, which are given to the pipe, or through a private pipe to the Unix socket, and are
    /// never written to again.
    Fresh,
    /// read(2), and a private Unix socket from which the bytes are spliced into the pipe. Used instead of
    /// [`Fresh`](Self::Fresh) where pages cannot be given to pipes, or are not huge.
    Socket,
    /// read(2) and write(2).
    ReadWrite,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::CopyFileRange => "copy_file_range",
            Method::Splice => "splice",
            Method::SpliceThrough => "splice through a pipe",
            Method::Sendfile => "sendfile",
            Method::Fresh => "fresh pages",
            Method::Socket => "a socket",
            Method::ReadWrite => "read and write",
        })
    }
}

/// Returns the ways from a source to a sink that keep the guarantee, best first.
#[rustfmt::skip]
pub(super) fn methods(source: Kind, sink: Kind, guarantee: Guarantee) -> &'static [Method] {
    use Guarantee::{Reference, Snapshot};
    use Kind::{Block, Char, Null, Other, Pipe, Regular, Tcp, UnixStream};
    use Method::{CopyFileRange, Fresh, ReadWrite, Sendfile, Splice, SpliceThrough};
    match (source, sink, guarantee) {
        // Files share blocks or are copied within the kernel: either way the sink is independent of the source.
        (Regular,          Regular,          _)         => &[CopyFileRange, ReadWrite],

        // Into a file or device, splice(2) copies the bytes before it releases the pipe's pages, and holds the pipe's
        // lock until then. A private pipe in between would avoid the lock, but the pages would leave the queue before
        // they are copied.
        (Pipe,             Regular | Block,  Snapshot)  => &[Splice, ReadWrite],
        // Bytes that are written to /dev/null are never read.
        (Pipe,             Null,             _)         => &[Splice, ReadWrite],
        (Regular | Block,  Null,             _)         => &[SpliceThrough, ReadWrite],

        // A page that is forwarded by reference can still be written to by the process that made it.
        (_,                Pipe,             Snapshot)  => &[Fresh, ReadWrite],
        (_,                UnixStream,       Snapshot)  => &[Fresh, ReadWrite],
        (_,                _,                Snapshot)  => &[ReadWrite],

        (Other, _, _) | (_, Other, _)                   => &[ReadWrite],
        // splice(2) holds the lock of a pipe while it waits for the other side, and blocks every process that writes
        // into that pipe, reads from it or queries its size. With a private pipe in between, it holds only the lock of
        // that one.
        (_,                Pipe,             Reference) => &[SpliceThrough, Fresh, ReadWrite],
        (Pipe,             _,                Reference) => &[SpliceThrough, ReadWrite],
        (Regular | Block,  UnixStream | Tcp, Reference) => &[Sendfile, ReadWrite],
        (UnixStream | Tcp, Char,             Reference) => &[ReadWrite],
        (UnixStream | Tcp, _,                Reference) => &[SpliceThrough, ReadWrite],
        (Null | Char, _, Reference) | (_, Char | Block | Regular, Reference) => &[ReadWrite],
    }
}

//! Which ways bytes can go from one kind of fd to another, best first: [`routes`] is the table.
//!
//! A way further down is taken where the kernel refuses the one before it on this pair of fds, which
//! shows before its first byte. What keeps *snapshot* in each row, and what does not, is argued in
//! docs/guarantees.md.

use std::fmt;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// What may happen to bytes after they have been moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Guarantee {
    /// A reader gets what the bytes were when they were moved, whatever anybody does afterwards.
    #[default]
    Snapshot,
    /// A reader may get what the source's pages hold when it reads. This is faster, and right if
    /// nobody changes the source's bytes before they have been read.
    Reference,
}

/// The kind of file behind a file descriptor, as far as it decides how bytes can be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A pipe or a FIFO: to the kernel they are the same.
    Pipe,
    /// A regular file.
    Regular,
    /// A block device.
    Block,
    /// `/dev/null`, which nobody reads from.
    Null,
    /// Any other character device, terminals among them.
    Char,
    /// A Unix socket of type stream.
    UnixStream,
    /// A TCP socket.
    Tcp,
    /// Everything else: sockets that preserve message boundaries, eventfds, directories, and kinds
    /// that do not exist yet.
    Other,
}

impl Kind {
    /// The kind of `fd`, whose fstat(2) said `stat`.
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

    /// Bytes that one splice(2) to it is to move at most: on sockets fewer, so that both sides have work at
    /// the same time.
    pub(super) fn splice_at_once(self) -> usize {
        match self {
            Kind::UnixStream | Kind::Tcp => 128 * 1024,
            // More than any pipe usually holds.
            _ => 16 << 20,
        }
    }

    /// Whether `SPLICE_F_NONBLOCK` keeps splice(2) from waiting on this kind. On the other kinds
    /// only `O_NONBLOCK` of the fd itself does.
    pub(crate) fn splices_without_waiting(self) -> bool {
        matches!(self, Kind::Pipe | Kind::Regular | Kind::Block | Kind::Null)
    }
}

/// Major 1, minor 3 (mem(4)).
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
pub enum Route {
    /// copy_file_range(2): within the kernel, and without copying at all where the file system
    /// can share blocks between files.
    CopyFileRange,
    /// splice(2), one end being a pipe: references move from pipe to pipe, and into a file bytes
    /// are copied once, within the kernel.
    Splice,
    /// Two splice(2) calls with a pipe of our own between them, so that an error tells its side.
    SpliceThrough,
    /// sendfile(2).
    Sendfile,
    /// read(2) into fresh pages, which are given to the pipe and never written to again.
    Fresh,
    /// read(2) and write(2).
    ReadWrite,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Route::CopyFileRange => "copy_file_range",
            Route::Splice => "splice",
            Route::SpliceThrough => "splice through a pipe",
            Route::Sendfile => "sendfile",
            Route::Fresh => "fresh pages",
            Route::ReadWrite => "read and write",
        })
    }
}

/// The ways from a source to a sink that keep the guarantee, best first.
#[rustfmt::skip]
pub(super) fn routes(source: Kind, sink: Kind, guarantee: Guarantee) -> &'static [Route] {
    use Guarantee::{Reference, Snapshot};
    use Kind::{Block, Char, Null, Other, Pipe, Regular, Tcp, UnixStream};
    use Route::{CopyFileRange, Fresh, ReadWrite, Sendfile, Splice, SpliceThrough};
    match (source, sink, guarantee) {
        // Files share blocks or are copied within the kernel: either way the sink has its own bytes.
        (Regular,          Regular,          _)         => &[CopyFileRange, ReadWrite],

        // Into a file or device, splicing copies before it lets go of the pipe's pages. It holds the
        // pipe's lock for as long: a pipe of our own between the two would leave that free, but then the
        // pages would be out of the queue before they are copied.
        (Pipe,             Regular | Block,  Snapshot)  => &[Splice, ReadWrite],
        // Nobody reads what /dev/null gets.
        (Pipe,             Null,             _)         => &[Splice, ReadWrite],
        (Regular | Block,  Null,             _)         => &[SpliceThrough, ReadWrite],

        // Whatever is forwarded by reference can still be written to by whoever made it.
        (_,                Pipe,             Snapshot)  => &[Fresh, ReadWrite],
        (_,                _,                Snapshot)  => &[ReadWrite],

        (Other, _, _) | (_, Other, _)                   => &[ReadWrite],
        // splice(2) holds the lock of a pipe while it waits for whoever is on the other side, and all
        // who write into that pipe, read from it or ask for its size wait too. With a pipe of our own
        // in between, only our own lock is held.
        (_,                Pipe,             Reference) => &[SpliceThrough, Fresh, ReadWrite],
        (Pipe,             _,                Reference) => &[SpliceThrough, ReadWrite],
        (Regular | Block,  UnixStream | Tcp, Reference) => &[Sendfile, ReadWrite],
        (UnixStream | Tcp, Char,             Reference) => &[ReadWrite],
        (UnixStream | Tcp, _,                Reference) => &[SpliceThrough, ReadWrite],
        (Null | Char, _, Reference) | (_, Char | Block | Regular, Reference) => &[ReadWrite],
    }
}

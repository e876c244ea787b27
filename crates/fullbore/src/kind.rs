//! The kind of file that a descriptor refers to: [`Kind`].

use std::fmt;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat, makedev};
use rustix::net::{AddressFamily, SocketType, sockopt};

use fullbore_linux::outcome::End;

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
            FileType::CharacterDevice if stat.st_rdev == makedev(1, 3) => Kind::Null,
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
    pub(crate) fn splice_at_once(self) -> usize {
        match self {
            Kind::UnixStream | Kind::Tcp => 128 * 1024,
            // This is more than the capacity of most pipes.
            _ => 16 << 20,
        }
    }

    /// Returns whether calls that are given no offset use and move the position of the open file description.
    pub(crate) fn has_position(self) -> bool {
        matches!(self, Kind::Regular | Kind::Block)
    }

    /// Returns what it is to the table of outcomes.
    pub(crate) fn end(self) -> End {
        match self {
            Kind::Pipe => End::Pipe,
            // /dev/null never blocks either.
            Kind::Regular | Kind::Block | Kind::Null => End::File,
            Kind::UnixStream | Kind::Tcp => End::Socket,
            Kind::Char | Kind::Other => End::Other,
        }
    }

    /// Returns whether `SPLICE_F_NONBLOCK` keeps splice(2) from waiting on this kind. On the other
    /// kinds only `O_NONBLOCK` of the fd itself does.
    pub(crate) fn splices_without_waiting(self) -> bool {
        matches!(self, Kind::Pipe | Kind::Regular | Kind::Block | Kind::Null)
    }
}

/// Returns whether this is the device with major number 1 and minor number 3 (mem(4)).
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

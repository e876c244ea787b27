//! The table of ways to move bytes from one kind of fd to another, best first: [`methods`].
//!
//! If the kernel refuses a way for this pair of fds, the next one is tried. It usually refuses before the first byte,
//! but it may do so later, if another process changes the flags of a file. docs/guarantees.md explains for each row
//! which ways keep *snapshot*.

use std::fmt;

use crate::kind::Kind;
use fullbore_linux::outcome::Call;

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

impl Method {
    /// Returns the system call that takes bytes from the source.
    pub(super) fn call(self) -> Call {
        match self {
            Method::CopyFileRange => Call::CopyFileRange,
            Method::Splice | Method::SpliceThrough => Call::Splice,
            Method::Sendfile => Call::Sendfile,
            Method::Fresh | Method::Socket | Method::ReadWrite => Call::Read,
        }
    }
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

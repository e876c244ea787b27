//! The table of ways to move bytes from one kind of fd to another, best first: [`ways`].
//!
//! If the kernel refuses a way for this pair of fds, the next one is tried. It usually refuses before the first byte,
//! but it may do so later, if another process changes the flags of a file. docs/guarantees.md explains for each row
//! which ways keep *snapshot*.

use crate::kind::Kind;
use crate::way::Way;
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

/// Returns the system call of this way that takes bytes from the source, and its name.
pub(super) fn call(way: Way) -> (Call, &'static str) {
    match way {
        Way::CopyFileRange => (Call::CopyFileRange, "copy_file_range"),
        Way::Splice | Way::SpliceThrough => (Call::Splice, "splice"),
        Way::Sendfile => (Call::Sendfile, "sendfile"),
        _ => (Call::Read, "read"),
    }
}

/// Returns the ways from a source to a sink that keep the guarantee, best first.
#[rustfmt::skip]
pub(super) fn ways(source: Kind, sink: Kind, guarantee: Guarantee) -> &'static [Way] {
    use Guarantee::{Reference, Snapshot};
    use Kind::{Block, Char, Null, Other, Pipe, Regular, Tcp, UnixStream};
    use Way::{Copy, CopyFileRange, Fresh, Sendfile, Splice, SpliceThrough};
    match (source, sink, guarantee) {
        // Files share blocks or are copied within the kernel: either way the sink is independent of the source.
        (Regular,          Regular,          _)         => &[CopyFileRange, Copy],

        // Bytes that are written to /dev/null are never read.
        (Pipe,             Null,             _)         => &[Splice, Copy],
        (Regular | Block,  Null,             _)         => &[SpliceThrough, Copy],

        // A page that is forwarded by reference can still be written to by the process that made it.
        // From a device, splice(2) copies too. Only read(2) shows its end, and a terminal shows it only once.
        (_,                Pipe,             Snapshot) | (Null | Char, Pipe, _) => &[Fresh, Copy],
        (_,                UnixStream,       Snapshot)  => &[Fresh, Copy],
        // From a pipe into a file, splice(2) copies too, but its writer waits for the pipe's lock meanwhile.
        (_,                _,                Snapshot)  => &[Copy],

        (Other, _, _) | (_, Other, _)                   => &[Copy],
        // splice(2) holds the lock of a pipe while it waits for the other side, and blocks every process that writes
        // into that pipe, reads from it or queries its size. With a private pipe in between, it holds only the lock of
        // that one.
        (_,                Pipe,             Reference) => &[SpliceThrough, Fresh, Copy],
        (Pipe,             _,                Reference) => &[SpliceThrough, Copy],
        (Regular | Block,  UnixStream | Tcp, Reference) => &[Sendfile, Copy],
        (UnixStream | Tcp, Char,             Reference) => &[Copy],
        (UnixStream | Tcp, _,                Reference) => &[SpliceThrough, Copy],
        (Null | Char, _, Reference) | (_, Char | Block | Regular, Reference) => &[Copy],
    }
}

//! The names of the ways in which bytes are moved.

use std::fmt;

/// How bytes are moved. Of those of a [`Producer`](crate::Producer), all but [`Recycle`](Self::Recycle) keep
/// [`Guarantee::Snapshot`](crate::Guarantee::Snapshot). A [`Transfer`](crate::Transfer) chooses its way by the two ends
/// and its guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// read(2) and write(2) copy the bytes, between any two ends. A producer calls write(2) alone.
    Copy,
    /// The bytes are copied into a private Unix socket, and spliced from there into a pipe: fewer and larger pages than
    /// with [`Copy`](Self::Copy), and a pipe holds eight times as many bytes (8 MiB where its capacity is 1 MiB).
    ///
    /// Less than 32 KiB at a time are sent by [`Copy`](Self::Copy). So is everything, as
    /// [`Producer::report`](crate::Producer::report) shows, if the [`chunk`](crate::ProducerOptions::chunk) is smaller
    /// than that, if the producer is [`nonblocking`](crate::ProducerOptions::nonblocking), on base pages of 32 KiB and
    /// more, if the memory cgroup has no room for the full pipe, and once the kernel has refused a socket or splice(2).
    Socket,
    /// vmsplice(2) sends pages into a pipe, which are never written to again. The reader gets the bytes as they were
    /// when they were sent, whatever it does with them. A transfer reads into such pages, and gives them to a pipe, or
    /// through a private pipe to a Unix socket.
    ///
    /// If the kernel refuses vmsplice(2), or copies the bytes in it, they are sent by [`Socket`](Self::Socket) instead,
    /// as [`Producer::report`](crate::Producer::report) shows.
    Fresh,
    /// vmsplice(2) sends pages into a pipe, which are reused once the number of queued bytes proves that the pipe no
    /// longer refers to them, even if a process resizes it. The fallbacks are those of [`Fresh`](Self::Fresh).
    ///
    /// # The guarantee depends on the reader
    /// Every reader of the pipe must *copy* the bytes out of it, as read(2) does, or drop them. A reader that forwards
    /// references (splice(2) or tee(2) into another pipe or into a socket) takes them out of the queue while they can
    /// still be read elsewhere, and what is read there changes when the pages are reused. Recent versions of `cat`,
    /// `tee` and `pv` do that. No memory of this process is at risk, so this way is requested by name, as
    /// [`Guarantee::Reference`](crate::Guarantee::Reference) is, and is not `unsafe`.
    ///
    /// Bytes of other writers into the same pipe count as the producer's own: while they keep the pipe from running
    /// empty, the producer waits.
    Recycle,
    /// References to pages that never change are sent. Only a [`Repeat`](crate::Repeat) sends so.
    Repeat,
    /// copy_file_range(2): within the kernel, and without copying at all where the file system can share blocks between
    /// files.
    CopyFileRange,
    /// splice(2), one end being a pipe: references move from pipe to pipe, and into a file bytes are copied once, within
    /// the kernel.
    Splice,
    /// Two splice(2) calls with a private pipe between them, so that the side of an error is known.
    SpliceThrough,
    /// sendfile(2).
    Sendfile,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Copy => "copy",
            Way::Socket => "socket",
            Way::Fresh => "fresh",
            Way::Recycle => "recycle",
            Way::Repeat => "repeat",
            Way::CopyFileRange => "copy_file_range",
            Way::Splice => "splice",
            Way::SpliceThrough => "splice through a pipe",
            Way::Sendfile => "sendfile",
        })
    }
}

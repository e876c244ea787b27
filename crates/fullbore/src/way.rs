//! The names of the ways in which bytes are sent.

use std::fmt;

/// How the bytes of a [`Producer`](crate::Producer) are sent. All ways but [`Recycle`](Self::Recycle) keep
/// [`Guarantee::Snapshot`](crate::Guarantee::Snapshot).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// write(2) copies the bytes, into anything that can be written to.
    Copy,
    /// The bytes are copied into a Unix socket of the producer, and spliced from there into a pipe: fewer
    /// and larger pages than by [`Copy`](Self::Copy), and a pipe holds eight times as many bytes (8 MiB
    /// where its capacity is 1 MiB).
    ///
    /// Less than 32 KiB at a time are sent by [`Copy`](Self::Copy). Everything is, and
    /// [`Producer::report`](crate::Producer::report) says so, if the [`chunk`](crate::ProducerOptions::chunk) is
    /// smaller, if the producer is [`nonblocking`](crate::ProducerOptions::nonblocking), on pages of 32 KiB and
    /// more, if the memory cgroup has no room for the full pipe, and once the kernel has refused a socket or
    /// splice(2).
    Socket,
    /// vmsplice(2) sends pages into a pipe that are never written to again. The reader gets the bytes as
    /// they were when they were sent, whatever it does with them.
    ///
    /// If the kernel refuses vmsplice(2), which it does before the first byte is sent, or copies what it is
    /// given, bytes are sent by [`Socket`](Self::Socket) instead, and
    /// [`Producer::report`](crate::Producer::report) says so.
    Fresh,
    /// vmsplice(2) sends pages into a pipe that are used again once the number of queued bytes proves that
    /// the pipe no longer refers to them, even if a process resizes it. It falls back to copying as
    /// [`Fresh`](Self::Fresh) does.
    ///
    /// # The guarantee depends on the reader
    /// Every reader of the pipe must *copy* the bytes out of it, as read(2) does, or drop them. A
    /// reader that moves them on by reference (splice(2) or tee(2) into another pipe or into a socket)
    /// takes them out of the queue while they can still be read elsewhere, and what is read there changes
    /// as the pages are written to again. `cat`, `tee`, `pv` and others do just that in their newer
    /// versions. No memory of this process is at risk, so it is asked for by name, as
    /// [`Guarantee::Reference`](crate::Guarantee::Reference) is, and is not `unsafe`.
    ///
    /// Bytes that other writers write into the same pipe are counted as if the producer had sent
    /// them: while these bytes keep the pipe from running empty, the producer waits.
    Recycle,
    /// References to pages that never change are sent. Only a [`Repeat`](crate::Repeat) sends so.
    Repeat,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Copy => "copy",
            Way::Socket => "socket",
            Way::Fresh => "fresh",
            Way::Recycle => "recycle",
            Way::Repeat => "repeat",
        })
    }
}

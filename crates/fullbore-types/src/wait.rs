//! How to wait: [`Wait`].

/// How to wait while a pipe is full (for a writer) or empty (for a reader).
///
/// A timeout of a blocking socket (`SO_RCVTIMEO`, `SO_SNDTIMEO`) is respected: when it passes, the call fails with
/// `EAGAIN`, which std calls [`WouldBlock`](std::io::ErrorKind). Only [`Spin`](Self::Spin) ignores it, because it never
/// sleeps; a deadline also ends a spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Wait {
    /// Sleep in the call itself, as a blocking fd does.
    #[default]
    Block,
    /// Try without waiting, and sleep in poll(2) before the next try.
    Poll,
    /// Try without waiting, repeatedly. This uses a whole CPU. It is the fastest if a CPU is idle, and the slowest if
    /// the peer has to run on the same CPU.
    Spin,
    /// Spin as long as recent waits were short, at most 100 µs at a time, then sleep. This is as fast as spinning on a
    /// steady stream, and uses no CPU while the peer is idle.
    Adaptive,
}

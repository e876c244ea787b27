//! How much a buffer moves at a time.

/// How many bytes one system call of a [`Buffer`](super::Buffer) moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// At most so many: bytes are passed on as soon as they arrive.
    AtMost(usize),
    /// Each write has exactly so many, and only the last one fewer, as tapes and sockets that preserve message boundaries
    /// need it. Bytes wait until a chunk is full. If a sink takes a part of a chunk, the next write has the rest. The
    /// memory has to hold at least five chunks.
    Exactly(usize),
}

impl Chunk {
    pub(super) fn bytes(self) -> usize {
        let (Chunk::AtMost(bytes) | Chunk::Exactly(bytes)) = self;
        bytes
    }
}

impl From<usize> for Chunk {
    fn from(bytes: usize) -> Self {
        Chunk::AtMost(bytes)
    }
}

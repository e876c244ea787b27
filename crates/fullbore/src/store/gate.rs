//! What a program decides while a [`Buffer`](crate::Buffer) runs: [`Gate`].

use std::fmt;
use std::time::Duration;

/// Decides when the sides of a [`Buffer`](crate::Buffer) go on after they had to wait. By default, they do so at once.
///
/// No answer can make a buffer wait forever: reading goes on when nothing is held, and writing when reading waits for
/// room, or the source has ended.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Returns whether reading, which found the memory full, may go on while `held` of its `capacity` bytes are in use.
    fn may_read(&self, _held: u64, _capacity: u64) -> bool {
        true
    }

    /// Returns whether a sink, which had to wait for bytes or has not begun, may go on while there are `held` bytes for it
    /// in a memory of `capacity` bytes.
    fn may_write(&self, _held: u64, _capacity: u64) -> bool {
        true
    }

    /// Returns how long a sink pauses after each write(2).
    fn pause_after_write(&self) -> Duration {
        Duration::ZERO
    }
}

/// The gate that is always open.
impl Gate for () {}

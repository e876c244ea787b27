//! Whether fresh pages or a socket are faster here, as the first megabytes of a long stream show
//! (`turns.rs`).
//!
//! Both give a pipe the same guarantee. *fresh* saves a copy, and has the kernel zero every page. By a socket
//! a full pipe holds eight times as many bytes, and filling it is no throughput.

use super::options::Way;
use crate::turns::{Lengths, Turns};

/// The lead is as long as what a pipe still holds of the other way.
const LENGTHS: Lengths = Lengths {
    before: 64 << 20,
    lead: 8 << 20,
    timed: 16 << 20,
    again: 0,
};

/// How fast the two ways were in the turn of a long stream that decided between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Bytes per second as fresh pages, with [`Way::Fresh`].
    pub fresh: u64,
    /// Bytes per second through a socket, with [`Way::Socket`].
    pub socket: u64,
    /// Whether the rest of the stream is sent through the socket.
    pub by_socket: bool,
}

/// A trial of the two ways, or its result.
#[derive(Debug)]
pub(crate) struct Trial(Turns);

impl Trial {
    /// Tries nothing: everything is sent as fresh pages.
    pub(crate) fn none() -> Self {
        Self(Turns::none())
    }

    /// Tries both once the stream is long.
    pub(crate) fn new() -> Self {
        Self(Turns::new(LENGTHS))
    }

    /// Returns whether the next bytes go through the socket.
    #[inline]
    pub(crate) fn by_socket(&self) -> bool {
        self.0.is_second()
    }

    /// Returns the way of the next bytes.
    pub(crate) fn way(&self) -> Way {
        match self.by_socket() {
            true => Way::Socket,
            false => Way::Fresh,
        }
    }

    /// Returns the result, once there is one.
    pub(crate) fn result(&self) -> Option<Tried> {
        self.0.result().map(|rates| Tried {
            fresh: rates.first as u64,
            socket: rates.second as u64,
            by_socket: rates.is_second_faster,
        })
    }

    /// Leaves out a time in which other things were done.
    pub(crate) fn begin_again(&mut self) {
        self.0.begin_again();
    }

    /// Records that `n` bytes were sent in this way. `queued` returns how many the pipe holds.
    #[inline]
    pub(crate) fn sent(&mut self, way: Way, n: usize, queued: impl FnOnce() -> u64) {
        match way {
            _ if self.0.is_over() => {}
            Way::Fresh if !self.by_socket() => self.0.sent(n, queued),
            Way::Socket if self.by_socket() => self.0.sent(n, queued),
            // No socket can be had.
            Way::Copy => *self = Self::none(),
            // These are the rest of a chunk that the other way had begun.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_the_other_way_had_begun_counts_for_neither_and_a_copy_ends_the_trial() {
        let mut trial = Trial::new();
        for _ in 0..1024 {
            trial.sent(Way::Socket, 1 << 20, || 0);
        }
        assert!(!trial.by_socket() && trial.result().is_none());
        for _ in 0..80 {
            trial.sent(Way::Fresh, 1 << 20, || 0);
        }
        assert!(trial.by_socket());
        trial.sent(Way::Copy, 1 << 20, || 0);
        for _ in 0..1024 {
            trial.sent(Way::Fresh, 1 << 20, || 0);
            assert!(!trial.by_socket() && trial.result().is_none());
        }
    }
}

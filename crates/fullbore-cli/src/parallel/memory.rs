//! The memory for what has been read and not been written: a limit, and who may use how much of it.

/// Bytes of memory in use, and the limit on them.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    /// What is left free for the part of a record that is cut off a block.
    reserve: usize,
    used: usize,
    /// The most bytes that were in use.
    pub peak: usize,
    /// Whether some use had to wait.
    pub is_short: bool,
}

impl Memory {
    /// Returns memory of `limit` bytes, of which `reserve` are only for [`take_anyway`](Self::take_anyway).
    pub fn new(limit: usize, reserve: usize) -> Self {
        Self {
            limit,
            reserve,
            used: 0,
            peak: 0,
            is_short: false,
        }
    }

    /// Returns whether so many bytes are free.
    pub fn has(&mut self, bytes: usize) -> bool {
        let has = self.used + bytes + self.reserve <= self.limit;
        self.is_short |= !has;
        has
    }

    /// Uses so many bytes more, also of the reserve.
    pub fn take_anyway(&mut self, bytes: usize) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    /// Uses so many bytes less.
    pub fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
        self.is_short = false;
    }

    /// Lowers the limit to what is in use, because the kernel has given no more.
    pub fn is_refused(&mut self) {
        self.limit = self.limit.min(self.used + self.reserve);
        self.is_short = true;
    }

    pub fn used(&self) -> usize {
        self.used
    }
}

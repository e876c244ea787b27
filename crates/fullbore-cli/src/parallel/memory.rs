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
    /// Whether the kernel had no more.
    is_refused: bool,
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
            is_refused: false,
        }
    }

    /// Returns whether so many bytes are free.
    pub fn has(&mut self, bytes: usize) -> bool {
        let has = !self.is_refused && self.used + bytes + self.reserve <= self.limit;
        self.is_short |= !has;
        has
    }

    /// Returns whether this is a small part of what is free.
    pub fn is_ample_for(&self, bytes: usize) -> bool {
        !self.is_short && self.used + 8 * bytes + self.reserve <= self.limit
    }

    /// Uses so many bytes more, also of the reserve.
    pub fn take_anyway(&mut self, bytes: usize) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    /// Uses so many bytes less.
    pub fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
        if bytes > 0 {
            self.try_again();
        }
    }

    /// Has no more for now, because the kernel has not.
    pub fn refuse(&mut self) {
        (self.is_refused, self.is_short) = (true, true);
    }

    /// Memory may be free that was not.
    pub fn try_again(&mut self) {
        (self.is_refused, self.is_short) = (false, false);
    }

    pub fn used(&self) -> usize {
        self.used
    }
}

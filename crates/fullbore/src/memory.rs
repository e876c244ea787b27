//! The memory of a producer or consumer: little and at once at first, a mapping once it pays.
//!
//! A short stream is moved with memory of the allocator: a mapping takes system calls, and its first
//! huge page takes longer to zero than a short stream takes to copy.

use std::ops::{Deref, DerefMut};

use crate::error::Result;
use crate::linux;
use crate::pages::{Backing, Pages};

/// Bytes that are moved before memory is mapped.
pub(crate) const FIRST: usize = 64 * 1024;

/// Bytes that suit copying: half of the second-level cache, so that what was read is still near when it
/// is looked at; and 256 KiB where the kernel does not tell the size of that.
pub(crate) fn suits_copying() -> usize {
    linux::cache_size().map_or(256 * 1024, |l2| (l2 / 2).clamp(FIRST, 1024 * 1024))
}

/// Memory to fill.
#[derive(Debug)]
pub(crate) enum Memory {
    /// The allocator's, which no pipe may ever refer to.
    First(Vec<u8>),
    /// A mapping of our own.
    Pages(Pages),
}

impl Memory {
    /// Memory of the start: `len` bytes, and at most [`FIRST`].
    pub(crate) fn first(len: usize) -> Self {
        Memory::First(vec![0; len.min(FIRST)])
    }

    /// A mapping of `len` bytes, on huge pages if they are wanted and there are any.
    ///
    /// # Errors
    /// As [`PagesOptions::map`](crate::pages::PagesOptions::map).
    pub(crate) fn map(len: usize, huge: bool) -> Result<Pages> {
        let options = Pages::options();
        if huge {
            let huge = options.backing(Backing::Huge).map(len);
            huge.or_else(|_| options.map(len))
        } else {
            options.map(len)
        }
    }

    /// Whether a pipe may refer to it.
    pub(crate) fn is_pages(&self) -> bool {
        matches!(self, Memory::Pages(_))
    }
}

impl Deref for Memory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Memory::First(bytes) => bytes,
            Memory::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::First(bytes) => bytes,
            Memory::Pages(pages) => pages,
        }
    }
}

//! The memory of a producer or consumer: a little from the allocator at first, and a mapping once
//! that is worthwhile; and how much of it suits this machine.
//!
//! A short stream is moved with memory of the allocator: a mapping takes system calls, and its first
//! huge page takes longer to zero than a short stream takes to copy. A mapping that cannot be had
//! (RLIMIT_AS, overcommit) ends nothing: the memory of the start will do.

use std::ops::{Deref, DerefMut, Range};
use std::sync::OnceLock;

use crate::error::Result;
use crate::linux;
use crate::pages::{Backing, Pages};

/// Bytes that are moved before memory is mapped.
pub(crate) const FIRST: usize = 64 * 1024;

/// Huge pages larger than this are not asked for, and memory is given back to the kernel in about so
/// many bytes at a time: where base pages have 16 or 64 KiB, a page table spans 32 or 512 MiB.
const MOST_AT_ONCE: usize = 4 << 20;

/// The same where there is no huge page to give back as a whole.
const AT_ONCE: usize = 2 << 20;

/// One buffer or pipe may take one of this many parts of the memory that the process's cgroup
/// allows. The stages of a pipeline share a cgroup, each has buffers and pipes, and a page that a
/// pipe refers to is there besides the one that is filled next.
const PARTS: u64 = 16;

/// What the layout of memory follows from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    /// Bytes of a base page.
    pub(crate) page: usize,
    /// Bytes of a transparent huge page, where the kernel has them.
    pub(crate) huge: Option<usize>,
    /// Bytes that the process's cgroup allows, where it has a limit.
    pub(crate) limit: Option<u64>,
}

impl Geometry {
    /// That of this machine.
    pub(crate) fn here() -> Self {
        static HERE: OnceLock<Geometry> = OnceLock::new();
        *HERE.get_or_init(|| Self {
            page: linux::page_size(),
            huge: linux::huge_page_size(),
            limit: linux::memory_limit(),
        })
    }

    /// Bytes that one buffer or pipe may take.
    fn part(&self) -> usize {
        self.limit.map_or(usize::MAX, |bytes| {
            usize::try_from(bytes / PARTS).unwrap_or(usize::MAX)
        })
    }

    /// Bytes of a huge page, where there are any that suit buffers: one that is filled, beside one
    /// that a pipe still refers to.
    pub(crate) fn huge_that_suits(&self) -> Option<usize> {
        self.huge
            .filter(|&huge| huge <= MOST_AT_ONCE && huge <= self.part() / 2)
    }

    /// Bytes that are given back to the kernel at once, on huge pages or on base pages. A huge page is
    /// given back as a whole: giving a part of it back would split it.
    pub(crate) fn given_back_at_once(&self, huge: bool) -> usize {
        match self.huge_that_suits() {
            Some(bytes) if huge => bytes,
            _ => {
                let bytes = AT_ONCE.min(self.part());
                (bytes / self.page * self.page).max(self.page)
            }
        }
    }

    /// Bytes that a pipe of `wanted` bytes takes, as far as memory goes. Less than a pipe has from the
    /// start is no harm: pipes are not made smaller.
    pub(crate) fn pipe(&self, wanted: usize) -> usize {
        let most = self.part();
        if wanted <= most {
            wanted
        } else {
            // Pipes have a power of two of pages; rounding up would be more than was allowed.
            1 << most.max(1).ilog2()
        }
    }

    /// Bytes of a buffer of `wanted` bytes, as far as memory goes.
    pub(crate) fn buffer(&self, wanted: usize) -> usize {
        wanted.min(self.part().max(FIRST))
    }
}

/// Bytes that suit copying: half of the second-level cache, so that what was read is still near when it
/// is looked at; and 256 KiB where the kernel does not tell the size of that. Less in a small cgroup.
pub(crate) fn suits_copying() -> usize {
    let by_cache = linux::cache_size().map_or(256 * 1024, |l2| (l2 / 2).clamp(FIRST, 1024 * 1024));
    Geometry::here().buffer(by_cache)
}

/// Memory to fill.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Memory of the allocator, which no pipe may ever refer to.
    First(Aligned),
    /// A mapping of our own.
    Pages(Pages),
}

/// Memory of the allocator that begins at a multiple of [`BLOCK`], as reading from a source with
/// O_DIRECT demands (open(2)).
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    range: Range<usize>,
}

/// The largest logical block of usual disks.
const BLOCK: usize = 4096;

impl Aligned {
    /// `len` bytes of `bytes`, which is longer by [`BLOCK`].
    fn within(bytes: Vec<u8>, len: usize) -> Self {
        let start = bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        Self {
            range: start..start + len,
            bytes,
        }
    }
}

impl Memory {
    /// No memory at all, which takes no allocation.
    pub(crate) fn none() -> Self {
        Memory::First(Aligned::default())
    }

    /// The memory to start with: `len` bytes, at most [`FIRST`].
    pub(crate) fn first(len: usize) -> Self {
        let len = len.min(FIRST);
        Memory::First(Aligned::within(vec![0; len + BLOCK], len))
    }

    /// A mapping of `len` bytes, on huge pages if they are wanted and there are any that suit.
    ///
    /// # Errors
    /// As [`PagesOptions::map`](crate::pages::PagesOptions::map).
    pub(crate) fn map(len: usize, huge: bool) -> Result<Pages> {
        let options = Pages::options();
        if huge && Geometry::here().huge_that_suits().is_some() {
            let huge = options.backing(Backing::Huge).map(len);
            huge.or_else(|_| options.map(len))
        } else {
            options.map(len)
        }
    }

    /// Grows to `len` bytes for copying, as far as memory goes: by a mapping, or by more of the
    /// allocator's memory, or not at all.
    pub(crate) fn grow_for_copying(&mut self, len: usize, huge: bool) {
        if len <= self.len() {
            return;
        }
        if let Ok(pages) = Self::map(len, huge) {
            *self = Memory::Pages(pages);
        } else if let Memory::First(first) = self
            && let more = len + BLOCK - first.bytes.len()
            && first.bytes.try_reserve_exact(more).is_ok()
        {
            let mut bytes = std::mem::take(&mut first.bytes);
            bytes.resize(len + BLOCK, 0);
            *first = Aligned::within(bytes, len);
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
            Memory::First(first) => &first.bytes[first.range.clone()],
            Memory::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::First(first) => &mut first.bytes[first.range.clone()],
            Memory::Pages(pages) => pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Base pages, and the huge page that one page table of such pages spans.
    const PAGES: [(usize, usize); 3] = [
        (4 << 10, 2 << 20),
        (16 << 10, 32 << 20),
        (64 << 10, 512 << 20),
    ];

    #[test]
    fn memory_is_given_back_a_few_mebibytes_at_a_time_on_pages_of_every_size() {
        for (page, huge) in PAGES {
            for has_huge in [true, false] {
                let geometry = Geometry {
                    page,
                    huge: has_huge.then_some(huge),
                    limit: None,
                };
                for asks_for_huge in [true, false] {
                    let bytes = geometry.given_back_at_once(asks_for_huge);
                    assert!(bytes <= 4 << 20, "{bytes} on pages of {page}");
                    assert!(bytes >= 2 << 20, "{bytes} on pages of {page}");
                    assert!(bytes.is_multiple_of(page));
                }
                let suits = has_huge && huge == 2 << 20;
                assert_eq!(geometry.huge_that_suits(), suits.then_some(2 << 20));
            }
        }
    }

    #[test]
    fn a_small_cgroup_makes_buffers_and_pipes_small() {
        for (page, huge) in PAGES {
            let of = |limit: u64| Geometry {
                page,
                huge: Some(huge),
                limit: Some(limit),
            };
            let small = of(4 << 20);
            assert_eq!(small.huge_that_suits(), None);
            assert_eq!(small.buffer(1 << 20), 256 << 10);
            assert_eq!(small.pipe(1 << 20), 256 << 10);
            assert_eq!(small.given_back_at_once(true), 256 << 10);
            assert_eq!(of(7 << 20).pipe(1 << 20), 256 << 10);
            // What nobody can live in asks for no less than the memory of the start.
            for limit in [0, 1, 4096, 1 << 20] {
                assert_eq!(of(limit).buffer(1 << 20), FIRST);
                assert_eq!(of(limit).buffer(5), 5);
                assert!(of(limit).pipe(1 << 20) <= FIRST);
                assert!(of(limit).given_back_at_once(false) >= page);
            }
            let large = of(1 << 30);
            assert_eq!(large.buffer(1 << 20), 1 << 20);
            assert_eq!(large.pipe(1 << 20), 1 << 20);
            assert_eq!(large.huge_that_suits().is_some(), huge == 2 << 20);
        }
    }
}

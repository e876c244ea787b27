//! The memory of a producer or consumer: a little from the allocator at first, and a mapping once
//! that is worthwhile. The sizes depend on the machine and on the memory cgroup.
//!
//! A short stream is moved with memory of the allocator: a mapping takes system calls, and its first
//! huge page takes longer to zero than a short stream takes to copy. If no memory can be mapped
//! (RLIMIT_AS, overcommit), the initial memory is used instead.

use std::ops::{Deref, DerefMut, Range};
use std::sync::OnceLock;

use crate::error::Result;
use crate::linux;
use crate::pages::{Backing, Pages};
use crate::ring::Giving;

/// Bytes that are moved before memory is mapped.
pub(crate) const FIRST: usize = 64 * 1024;

/// More bytes than a message of a socket has: an unprivileged user can send about 416 KiB over a Unix socket
/// (twice `net.core.wmem_max` as the kernel has it), and 64 KiB by UDP.
pub(crate) const MESSAGE: usize = 512 * 1024;

/// Huge pages that are larger than this are not asked for, and about this many bytes of memory are
/// given back to the kernel at a time. With base pages of 16 or 64 KiB, one page table spans 32 or
/// 512 MiB.
const MOST_AT_ONCE: usize = 4 << 20;

/// Bytes that are given back at a time if there is no huge page to give back as a whole.
const AT_ONCE: usize = 2 << 20;

/// One buffer or pipe may use this fraction (1/`PARTS`) of the memory that the process's cgroup
/// allows. The stages of a pipeline share a cgroup, each of them has buffers and pipes, and a page
/// that a pipe refers to exists in addition to the one that is filled next.
const PARTS: u64 = 16;

/// The properties of the machine that decide the layout of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    /// Bytes of a base page.
    pub(crate) page: usize,
    /// Bytes of a transparent huge page, if the kernel has them.
    pub(crate) huge: Option<usize>,
    /// Bytes that the process's cgroup allows, if it has a limit.
    pub(crate) limit: Option<u64>,
}

impl Geometry {
    /// Returns the geometry of this machine.
    pub(crate) fn here() -> Self {
        static HERE: OnceLock<Geometry> = OnceLock::new();
        *HERE.get_or_init(|| Self {
            page: linux::page_size(),
            huge: linux::huge_page_size(),
            limit: linux::memory_limit(),
        })
    }

    /// Returns the number of bytes that one buffer or pipe may use.
    fn part(&self) -> usize {
        self.limit.map_or(usize::MAX, |bytes| {
            usize::try_from(bytes / PARTS).unwrap_or(usize::MAX)
        })
    }

    /// Returns the size of a huge page in bytes, if there are any that are small enough for
    /// buffers: while one is filled, a pipe still refers to another.
    pub(crate) fn huge_that_suits(&self) -> Option<usize> {
        self.huge
            .filter(|&huge| huge <= MOST_AT_ONCE && huge <= self.part() / 2)
    }

    /// Returns the number of bytes that are given back to the kernel at once, on huge pages or on base
    /// pages. A huge page is given back as a whole: giving a part of it back would split it.
    pub(crate) fn given_back_at_once(&self, huge: bool) -> usize {
        match self.huge_that_suits() {
            Some(bytes) if huge => bytes,
            _ => {
                let bytes = AT_ONCE.min(self.part());
                (bytes / self.page * self.page).max(self.page)
            }
        }
    }

    /// Returns the capacity for a pipe of `wanted` bytes, which may be less in a small cgroup. A
    /// result below the default capacity has no effect, because pipes are never shrunk.
    pub(crate) fn pipe(&self, wanted: usize) -> usize {
        let most = self.part();
        if wanted <= most {
            wanted
        } else {
            // The number of pages of a pipe is a power of two, and rounding up would exceed what is
            // allowed.
            1 << most.max(1).ilog2()
        }
    }

    /// Returns the size for a buffer of `wanted` bytes, which may be less in a small cgroup.
    pub(crate) fn buffer(&self, wanted: usize) -> usize {
        wanted.min(self.part().max(FIRST))
    }
}

/// Returns the size of a buffer for copying: half of the second-level cache, so that bytes are still in
/// the cache when they are used, and 256 KiB if the kernel does not report the size of that cache. It
/// is less in a small cgroup.
pub(crate) fn suits_copying() -> usize {
    let by_cache = linux::cache_size().map_or(256 * 1024, |l2| (l2 / 2).clamp(FIRST, 1024 * 1024));
    Geometry::here().buffer(by_cache)
}

/// Returns the size of a buffer for what is read from a pipe and copied: all that a roomy pipe holds (`roomy`, pipe.rs), or less in a
/// small cgroup.
pub(crate) fn suits_a_pipe() -> usize {
    Geometry::here().buffer(1024 * 1024)
}

/// Memory that is filled with bytes to send or to return.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Memory from the allocator, which a pipe must never refer to.
    First(Aligned),
    /// A mapping of our own.
    Pages(Pages),
    /// The ring that is shared with the consumer.
    Ring(Box<Giving>),
}

/// Memory from the allocator that begins at a multiple of [`BLOCK`], as reading from a source with
/// O_DIRECT requires (open(2)).
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    range: Range<usize>,
}

/// The largest logical block size of common disks.
pub(crate) const BLOCK: usize = 4096;

impl Aligned {
    /// Uses `len` bytes of `bytes`, which is longer by [`BLOCK`].
    fn within(bytes: Vec<u8>, len: usize) -> Self {
        let start = bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        Self {
            range: start..start + len,
            bytes,
        }
    }
}

impl Memory {
    /// Returns empty memory, which needs no allocation.
    pub(crate) fn none() -> Self {
        Memory::First(Aligned::default())
    }

    /// Returns the initial memory: `len` bytes, at most [`FIRST`].
    pub(crate) fn first(len: usize) -> Self {
        let len = len.min(FIRST);
        Memory::First(Aligned::within(vec![0; len + BLOCK], len))
    }

    /// Returns memory for one message of a socket.
    pub(crate) fn for_messages() -> Self {
        Memory::First(Aligned::within(vec![0; MESSAGE + BLOCK], MESSAGE))
    }

    /// Maps `len` bytes, on huge pages if they are wanted and there are any of a suitable size.
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

    /// Grows to `len` bytes for copying, with a mapping or with more memory from the allocator.
    /// Keeps its size if there is not enough memory.
    pub(crate) fn grow_for_copying(&mut self, len: usize, huge: bool) {
        if len <= self.len() {
            return;
        }
        if let Ok(pages) = Self::map(len, huge) {
            *self = Memory::Pages(pages);
        } else if let Memory::First(first) = self {
            let more = len + BLOCK - first.bytes.len();
            if first.bytes.try_reserve_exact(more).is_ok() {
                let mut bytes = std::mem::take(&mut first.bytes);
                bytes.resize(len + BLOCK, 0);
                *first = Aligned::within(bytes, len);
            }
        }
    }

    /// Copies `bytes` to `at`.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        match self {
            Memory::Ring(ring) => ring.put(at, bytes),
            memory => memory[at..][..bytes.len()].copy_from_slice(bytes),
        }
    }

    /// Fills a part of it, in one piece or in several.
    #[inline]
    pub(crate) fn fill(&mut self, part: Range<usize>, mut fill: impl FnMut(&mut [u8])) {
        match self {
            Memory::Ring(ring) => ring.fill(part, fill),
            memory => fill(&mut memory[part]),
        }
    }

    /// Returns whether a pipe may refer to it.
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
            Memory::Ring(ring) => ring.bytes(),
        }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::First(first) => &mut first.bytes[first.range.clone()],
            Memory::Pages(pages) => pages,
            Memory::Ring(ring) => ring.bytes_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of base pages, each with the size of the huge page that one page table of such pages
    /// spans.
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
                    assert!(bytes % page == 0);
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
            // Even a limit that is too small for any process leaves the initial memory.
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

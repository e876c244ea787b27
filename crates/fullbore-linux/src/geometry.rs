//! Sizes of memory and pipes for this machine and the memory cgroup of the process.

use std::sync::OnceLock;

use crate::cgroup::memory_limit;
use crate::sizes::{cache_size, huge_page_size, page_size};

/// The number of bytes that are moved before memory is mapped.
pub const FIRST: usize = 64 * 1024;

/// The largest huge page that is used, in bytes: with base pages of 16 or 64 KiB, a huge page has 32 or 512 MiB, which
/// takes too long to zero, and is more than a pipe needs.
pub const MOST_HUGE: usize = 4 << 20;

/// Bytes that are released at once if no huge page has to be released as a whole.
const AT_ONCE: usize = 2 << 20;

/// One buffer or pipe may use this fraction (1/`PARTS`) of the memory limit of the cgroup. The stages of a pipeline
/// share a cgroup, each has buffers and pipes, and pages that a pipe refers to exist in addition to those being filled.
const PARTS: u64 = 16;

/// The properties of the machine that determine the layout of memory.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Bytes of a base page.
    pub page: usize,
    /// Bytes of a transparent huge page, if the kernel has them.
    pub huge: Option<usize>,
    /// The memory limit of the process's cgroup in bytes, if any.
    pub limit: Option<u64>,
}

impl Geometry {
    /// Returns the geometry of this machine.
    pub fn here() -> Self {
        static HERE: OnceLock<Geometry> = OnceLock::new();
        *HERE.get_or_init(|| Self {
            page: page_size(),
            huge: huge_page_size(),
            limit: memory_limit(),
        })
    }

    /// Returns the number of bytes that one buffer or pipe may use.
    fn part(&self) -> usize {
        self.limit.map_or(usize::MAX, |bytes| {
            usize::try_from(bytes / PARTS).unwrap_or(usize::MAX)
        })
    }

    /// Returns the size of a huge page in bytes, if it is small enough for buffers: while one is filled, a pipe still
    /// refers to another.
    pub fn huge_that_suits(&self) -> Option<usize> {
        self.huge
            .filter(|&huge| huge <= MOST_HUGE && huge <= self.part() / 2)
    }

    /// Returns how many bytes are released to the kernel at once, in huge pages or base pages. Releasing part of a huge
    /// page would split it.
    pub fn given_back_at_once(&self, huge: bool) -> usize {
        match self.huge_that_suits() {
            Some(bytes) if huge => bytes,
            _ => {
                let bytes = AT_ONCE.min(self.part());
                (bytes / self.page * self.page).max(self.page)
            }
        }
    }

    /// Returns the capacity for a pipe of `wanted` bytes, which may be less in a small cgroup. A result below the
    /// default capacity has no effect, because pipes are never shrunk.
    pub fn pipe(&self, wanted: usize) -> usize {
        let most = self.part();
        if wanted <= most {
            wanted
        } else {
            // The kernel rounds the number of pages up to a power of two, which would exceed the limit.
            1 << most.max(1).ilog2()
        }
    }

    /// Returns the size for a buffer of `wanted` bytes, which may be less in a small cgroup.
    pub fn buffer(&self, wanted: usize) -> usize {
        wanted.min(self.part().max(FIRST))
    }
}

/// Returns the size of a buffer for copying: half of the L2 cache, so that bytes are still cached when they are used,
/// or 256 KiB if the kernel does not report the size. It is less in a small cgroup.
pub fn suits_copying() -> usize {
    let by_cache = cache_size().map_or(256 * 1024, |l2| (l2 / 2).clamp(FIRST, 1024 * 1024));
    Geometry::here().buffer(by_cache)
}

/// Returns the size of a buffer for copying from a pipe: the contents of a roomy pipe (`roomy`, pipe.rs), or less in a
/// small cgroup.
pub fn suits_a_pipe() -> usize {
    Geometry::here().buffer(1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of base pages, each with the size of its huge page: what one page table of such pages maps.
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
            // Even a limit too small for any process leaves the initial memory.
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

//! Page-aligned memory directly from the kernel.
//!
//! Memory that is given to a pipe by reference must not come from the allocator, which reuses freed memory while the
//! pipe still refers to it. [`Pages`] is a separate private mapping: once it is unmapped, no process can write to its
//! pages any more, and the pipe keeps the pages that it refers to until they are read.
//!
//! Every mapping begins at a multiple of `sizes::page_table_span` and has an inaccessible guard range on both sides.
//! So no two of them share a page table (whose lock is contended when two threads of a process look up pages), none is
//! merged with an adjacent mapping in `/proc/self/smaps`, and huge pages can be used for as much of it as possible.
//! Where a page table spans 32 or 512 MiB, as with base pages of 16 or 64 KiB, that would take up to 1.5 GiB of address
//! space each: there, mappings may share a page table.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, MprotectFlags, ProtFlags};

use crate::error::{self, Error, Result};
use crate::geometry::MOST_HUGE;
use crate::sizes;

/// Page-aligned memory in a separate mapping, zeroed at first.
///
/// ```
/// let mut pages = fullbore::Pages::new(1 << 20)?;
/// pages[..5].copy_from_slice(b"hello");
/// assert_eq!(pages.as_ptr() as usize % fullbore_linux::page_size(), 0);
/// # Ok::<(), fullbore::Error>(())
/// ```
///
/// A program fills it as a slice, and gives it to a pipe with `Producer::send_pages`. To use memory again while a pipe
/// still refers to its pages, [`give_back`](Self::give_back) replaces them.
///
/// A `Vec` or `Bytes` cannot take its place. Their memory is the allocator's: freed, it goes to another owner, who
/// writes to pages that a pipe still refers to, and a page may hold bytes of other owners at its ends. Only memory in
/// a mapping of its own can be taken away from the process while the pipe keeps the pages.
///
/// # fork
/// A child of fork(2) may use its copy, which has its own pages as soon as either process writes to it (it is a private
/// mapping). Pages that a pipe refers to do not change by that: what the parent writes into pages that it has given is
/// what it would be without the child.
#[derive(Debug)]
pub struct Pages {
    /// The first byte that users of the memory can access.
    start: NonNull<u8>,
    /// The number of bytes that users of the memory can access.
    len: usize,
    /// Accessible bytes: `len`, rounded up to whole pages of the backing.
    mapped: usize,
    /// The whole range to unmap: the accessible bytes and the guard ranges around them.
    whole: Range<usize>,
    /// Whether huge pages were requested.
    huge: bool,
}

// SAFETY: `Pages` owns its mapping as a `Box<[u8]>` owns its memory: shared references only read
// it, and nothing in it depends on the thread.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes in base pages (4 KiB on x86-64), all zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0 bytes; `ENOMEM` if there is not enough memory.
    pub fn new(len: usize) -> Result<Self> {
        Self::map(len, sizes::page_size(), false)
    }

    /// Maps `len` bytes in transparent huge pages (`madvise(MADV_HUGEPAGE)`), which the kernel provides if it has free
    /// ones.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Unsupported`] if the kernel has no huge pages.
    pub fn huge(len: usize) -> Result<Self> {
        let unit = sizes::huge_page_size().ok_or_else(no_transparent_huge_pages)?;
        Self::map(len, unit, true)
    }

    /// Maps whole pages of `unit` bytes each.
    fn map(len: usize, unit: usize, huge: bool) -> Result<Self> {
        if len == 0 {
            return Err(Error::Invalid("memory of 0 bytes makes no sense".into()));
        }
        let align = alignment(unit, sizes::page_table_span());
        let mapped = len
            .checked_next_multiple_of(unit)
            .filter(|&mapped| mapped <= isize::MAX as usize - 4 * align);
        let Some(mapped) = mapped else {
            return Err(Error::Invalid(format!(
                "{len} bytes are more than can be mapped"
            )));
        };
        // Enough for an aligned start, with at least one inaccessible page on either side.
        let reserved = mapped.next_multiple_of(align) + 2 * align;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let whole = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                reserved,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(error::system("mmap"))?;
        let first = whole as usize;
        let start = (first + 1).next_multiple_of(align);
        let mut pages = Self {
            start: NonNull::new(whole.cast::<u8>().wrapping_add(start - first))
                .expect("mmap never places a mapping without MAP_FIXED at address 0"),
            len,
            mapped,
            whole: first..first + reserved,
            huge,
        };
        pages.open()?;
        Ok(pages)
    }

    /// Makes the bytes of the user accessible.
    fn open(&mut self) -> Result<()> {
        let start = self.start.as_ptr().cast();
        // SAFETY: opens a part of this object's reservation, which no code has a reference to yet.
        unsafe {
            rustix::mm::mprotect(
                start,
                self.mapped,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }
        .map_err(error::system("mprotect"))?;
        match self.advised() {
            Err(_) if self.huge => Err(no_transparent_huge_pages()),
            // With transparent_hugepage=always, base pages have to be requested too. Kernels without huge pages refuse
            // the advice, and do not need it.
            _ => Ok(()),
        }
    }

    /// Requests huge pages or base pages.
    fn advised(&mut self) -> rustix::io::Result<()> {
        let advice = match self.huge {
            true => Advice::LinuxHugepage,
            false => Advice::LinuxNoHugepage,
        };
        // SAFETY: the range is this mapping, and the advice leaves its contents alone.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.mapped, advice) }
    }

    /// Locks the pages into memory (mlock(2)), and faults in those that are missing.
    ///
    /// # Errors
    /// `EPERM` or `ENOMEM` beyond `ulimit -l`.
    pub fn lock(&mut self) -> Result<()> {
        // SAFETY: locking changes no contents, and the range is this mapping.
        unsafe { rustix::mm::mlock(self.start.as_ptr().cast(), self.mapped) }
            .map_err(error::system("mlock"))?;
        Ok(())
    }

    /// Shortens the memory to its first `len` bytes. Has no effect if it is not longer than that.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// [Releases](Self::give_back) all pages to the kernel, and returns to the whole length of the mapping.
    ///
    /// # Errors
    /// As [`give_back`](Self::give_back).
    pub fn renew(&mut self) -> Result<()> {
        self.give_back(0..self.mapped)?;
        self.len = self.mapped;
        Ok(())
    }

    /// Releases the pages that are completely in `range` to the kernel (`MADV_DONTNEED`).
    ///
    /// Afterwards the memory is on new pages, and reads as zero. The pipe keeps pages that it still refers to, and no
    /// process can write to them any more: this is why giving pages to a pipe is sound whatever the reader does. Locked
    /// pages, for example after mlockall(2), are released by `MADV_DONTNEED_LOCKED` (Linux 5.18), or replaced by a new
    /// mapping.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a range outside the mapping; `ENOMEM` if locked pages cannot be replaced.
    pub fn give_back(&mut self, range: Range<usize>) -> Result<()> {
        let page = sizes::page_size();
        if range.start > range.end || range.end > self.mapped {
            return Err(Error::Invalid(format!(
                "{range:?} does not lie in memory of {} bytes",
                self.mapped
            )));
        }
        let start = range.start.next_multiple_of(page);
        let end = range.end / page * page;
        if start >= end {
            return Ok(());
        }
        let give_back = |advice| {
            // SAFETY: a range of whole pages inside this mapping; `&mut self` excludes references to it, and private
            // anonymous memory reads as zero afterwards (madvise(2)).
            unsafe {
                let first = self.start.as_ptr().add(start).cast();
                rustix::mm::madvise(first, end - start, advice)
            }
        };
        let given_back = match give_back(Advice::LinuxDontNeed) {
            // The pages are locked; this advice exists since Linux 5.18.
            Err(Errno::INVAL) => give_back(Advice::LinuxDontneedLocked),
            answer => answer,
        };
        match given_back {
            Err(Errno::INVAL) => self.replace(start..end),
            answer => answer.map_err(error::system("MADV_DONTNEED")),
        }
    }

    /// Replaces a range of whole pages by a new, empty mapping.
    fn replace(&mut self, range: Range<usize>) -> Result<()> {
        // SAFETY: as in `give_back`; the range lies inside this mapping, and is replaced atomically.
        unsafe {
            rustix::mm::mmap_anonymous(
                self.start.as_ptr().add(range.start).cast(),
                range.len(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED,
            )
        }
        .map_err(error::system("mmap"))?;
        // The new mapping gets the same advice. Without it the pages are only slower, and a kernel without huge pages
        // refuses both.
        let _ = self.advised();
        // The old pages were locked; lock the new ones if the limit allows it.
        // SAFETY: locking changes no contents, and the range is this mapping.
        let _ = unsafe {
            let first = self.start.as_ptr().add(range.start).cast();
            rustix::mm::mlock_with(first, range.len(), MlockFlags::ONFAULT)
        };
        Ok(())
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are mapped readable until `self` is dropped, anonymous memory is initialised
        // (to zero), and writing to it requires `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is the whole mapping, and `self` was its last owner. A failure would leak it, which cannot
        // be repaired here.
        let _ = unsafe {
            rustix::mm::munmap(
                ptr::with_exposed_provenance_mut(self.whole.start),
                self.whole.len(),
            )
        };
    }
}

/// Memory that can no longer be written to: it gives no mutable access.
#[derive(Debug)]
pub struct ReadOnlyPages(Pages);

impl ReadOnlyPages {
    /// Makes the memory read-only (mprotect(2)).
    ///
    /// # Errors
    /// As mprotect(2).
    pub fn new(pages: Pages) -> Result<Self> {
        let (start, len) = (pages.start.as_ptr().cast(), pages.mapped);
        // SAFETY: changes no contents, the range is that of the mapping, and nothing can write to it from now on: this
        // object has the only access to it, and gives only shared references.
        unsafe { rustix::mm::mprotect(start, len, MprotectFlags::READ) }
            .map_err(error::system("mprotect"))?;
        Ok(Self(pages))
    }
}

impl Deref for ReadOnlyPages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

fn no_transparent_huge_pages() -> Error {
    Error::Unsupported(
        "this kernel has no transparent huge pages, or they are switched off for this process"
            .into(),
    )
}

/// Returns the alignment in bytes of a mapping with pages of `unit` bytes.
fn alignment(unit: usize, page_table_span: usize) -> usize {
    match page_table_span <= MOST_HUGE {
        true => page_table_span.max(unit),
        false => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_takes_little_more_address_space_than_memory_on_pages_of_every_size() {
        for (page, span) in [
            (4 << 10, 2 << 20),
            (16 << 10, 32 << 20),
            (64 << 10, 512 << 20),
        ] {
            assert!(alignment(page, span) <= 2 << 20, "{page}");
            // Huge pages of this size were requested.
            assert_eq!(alignment(span, span), span);
        }
        let pages = Pages::new(1 << 20).unwrap();
        assert!(pages.whole.len() <= 8 << 20, "{:?}", pages.whole);
    }

    #[test]
    fn memory_is_zero_aligned_and_writable() {
        for len in [1, 4096, 4097, 3 << 20] {
            let mut pages = Pages::new(len).unwrap();
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|&b| b == 0));
            let align = alignment(sizes::page_size(), sizes::page_table_span());
            assert!(pages.as_ptr() as usize % align == 0);
            pages[len - 1] = 7;
            assert_eq!(pages[len - 1], 7);
        }
    }

    #[test]
    fn no_bytes_and_too_many_are_refused() {
        assert!(matches!(Pages::new(0), Err(Error::Invalid(_))));
        assert!(matches!(Pages::new(usize::MAX), Err(Error::Invalid(_))));
    }

    #[test]
    fn two_mappings_never_share_a_page_table_of_a_few_mebibytes() {
        let span =
            sizes::page_table_span().min(alignment(sizes::page_size(), sizes::page_table_span()));
        let several: Vec<Pages> = (0..8).map(|_| Pages::new(4096).unwrap()).collect();
        let mut tables: Vec<usize> = several
            .iter()
            .map(|pages| pages.as_ptr() as usize / span)
            .collect();
        tables.sort_unstable();
        tables.dedup();
        assert_eq!(tables.len(), 8);
    }

    #[test]
    fn what_is_given_back_reads_as_zero() {
        let page = sizes::page_size();
        let mut pages = Pages::new(4 * page).unwrap();
        pages.fill(9);
        pages.give_back(page - 1..3 * page + 1).unwrap();
        assert!(pages[..page].iter().all(|&b| b == 9));
        assert!(pages[page..3 * page].iter().all(|&b| b == 0));
        assert!(pages[3 * page..].iter().all(|&b| b == 9));
        assert!(matches!(
            pages.give_back(0..5 * page),
            Err(Error::Invalid(_))
        ));
    }
}

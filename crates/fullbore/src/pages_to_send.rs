//! Memory to send without a copy.

use std::ops::{Deref, DerefMut};

use crate::memory::Memory;
use fullbore_linux as linux;
use fullbore_linux::Result;

/// Page-aligned memory that a [`Producer`](crate::Producer) can give to a pipe without copying it
/// ([`send_pages`](crate::Producer::send_pages)). It is zeroed at first.
///
/// It is a slice of bytes, so anything that fills one fills it:
///
/// ```
/// use std::io::Read;
/// let mut pages = fullbore::Pages::huge(1 << 20)?;
/// let mut file = std::fs::File::open("/proc/self/exe")?;
/// let n = file.read(&mut pages)?;
/// pages.truncate(n);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Why not `Vec` or `Bytes`
/// The memory of a `Vec`, and of a `Bytes` that was made of one, belongs to the allocator, which reuses it as soon as it
/// is freed. A pipe refers to pages for as long as a reader does not read them, which no call reports, and the kernel
/// does not keep anybody from writing to them meanwhile: the reader would get whatever the allocator put there next.
/// The pages of a mapping of its own are never written to again once they were given, whatever becomes of the mapping.
///
/// # fork
/// A child of fork(2) may use its copy. What either process writes after the fork, neither the other one nor a pipe that
/// was given these pages gets to see.
#[derive(Debug)]
pub struct Pages(linux::Pages);

impl Pages {
    /// Maps `len` bytes of base pages, which are allocated at first use.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for 0 bytes, or more than the address space holds; `ENOMEM`.
    pub fn new(len: usize) -> Result<Self> {
        linux::Pages::new(len).map(Self)
    }

    /// Maps `len` bytes, in transparent huge pages if the kernel has them and `len` is at least one of them, and in base
    /// pages otherwise. Huge pages are faster to fill and to give, and use more memory if they are not filled.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn huge(len: usize) -> Result<Self> {
        let has_huge = linux::has_huge_pages() && linux::huge_page_size().is_some_and(|h| len >= h);
        Memory::map(len, has_huge).map(Self)
    }

    /// Releases the pages to the kernel, and gets new ones when they are written to.
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.0.renew()
    }

    /// Shortens the memory to its first `len` bytes. Has no effect if it is not longer than that.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

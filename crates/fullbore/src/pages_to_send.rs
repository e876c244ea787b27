//! Memory to send without a copy.

use std::ops::{Deref, DerefMut};

use fullbore_linux as linux;
use fullbore_linux::Result;

/// Page-aligned memory that a [`Producer`](crate::Producer) can give to a pipe without copying it
/// ([`send_pages`](crate::Producer::send_pages)). It is zeroed at first.
///
/// Memory of the allocator must not be given to a pipe: it may be freed and reused while the pipe still refers to it.
///
/// ```
/// let mut pages = fullbore::Pages::new(1 << 20)?;
/// pages[..5].copy_from_slice(b"hello");
/// assert_eq!(pages.len(), 1 << 20);
/// # Ok::<(), fullbore::Error>(())
/// ```
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

    /// Shortens the memory to its first `len` bytes. Has no effect if it is not longer than that.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl From<linux::Pages> for Pages {
    fn from(pages: linux::Pages) -> Self {
        Self(pages)
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

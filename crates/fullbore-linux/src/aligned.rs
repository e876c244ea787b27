//! Memory of the allocator that begins where a page does.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

/// Memory from the allocator that starts at a multiple of 4,096 bytes: a part of a vector that is so much longer, or
/// empty. A pipe must never refer to it.
///
/// Reading with `O_DIRECT` requires such a start (open(2)). Reading from a pipe can be four times as fast with it: large
/// memory of glibc's malloc begins 16 bytes behind the start of a page, and on some CPUs (AMD Zen 3) `rep movsb`, by which
/// the kernel copies, is slow if the target begins 1 to 31 bytes further behind the start of a page than the source.
#[derive(Default)]
pub struct Aligned(Vec<u8>);

impl Aligned {
    /// The bytes of which its start is a multiple: the largest logical block of common disks, and the smallest page.
    pub const BLOCK: usize = 4096;

    /// Allocates `len` bytes, all zero.
    pub fn new(len: usize) -> Self {
        Self(vec![0; len + Self::BLOCK])
    }

    /// Grows to `len` bytes, whose contents are unspecified, and returns whether there was enough memory.
    pub fn grow(&mut self, len: usize) -> bool {
        let more = (len + Self::BLOCK).saturating_sub(self.0.len());
        let grown = self.0.try_reserve_exact(more).is_ok();
        if grown {
            self.0.resize(self.0.len() + more, 0);
        }
        grown
    }

    #[inline]
    fn range(&self) -> Range<usize> {
        let len = self.0.len().saturating_sub(Self::BLOCK);
        let start = self
            .0
            .as_ptr()
            .align_offset(Self::BLOCK)
            .min(self.0.len() - len);
        start..start + len
    }
}

impl fmt::Debug for Aligned {
    /// Writes the number of bytes, which are the user's, and not the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aligned({} bytes)", self.range().len())
    }
}

impl Deref for Aligned {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0[self.range()]
    }
}

impl DerefMut for Aligned {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.range();
        &mut self.0[range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_where_a_page_does_and_has_its_length() {
        assert!(Aligned::default().is_empty());
        for len in [0, 1, 4096, 200_000] {
            let mut memory = Aligned::new(len);
            assert_eq!(memory.len(), len);
            assert_eq!(memory.as_ptr() as usize % Aligned::BLOCK, 0);
            assert!(memory.grow(len + 7) && memory.grow(1));
            assert_eq!(memory.len(), len + 7);
            assert_eq!(memory.as_mut_ptr() as usize % Aligned::BLOCK, 0);
        }
    }
}

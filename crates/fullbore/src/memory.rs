//! The memory of a producer or consumer: a little from the allocator at first, and a mapping once that pays off.
//!
//! A short stream uses memory of the allocator: a mapping takes system calls, and zeroing its first huge page takes
//! longer than copying a short stream. If no memory can be mapped (RLIMIT_AS, overcommit), the initial memory is used
//! throughout.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

pub(crate) use fullbore_linux::messages::MESSAGE;
use fullbore_linux::{Error, Pages, Result};
pub(crate) use fullbore_linux::{FIRST, Geometry, suits_a_pipe, suits_copying};

/// The default number of bytes of one system call: half of a pipe of 1 MiB, so that one chunk is filled while the other
/// is read.
pub(crate) const CHUNK: usize = 512 * 1024;

/// Returns the size of a buffer or chunk, after checking that the address space has room for a few of them.
///
/// # Errors
/// [`Error::Invalid`].
pub(crate) fn checked(what: &str, bytes: usize) -> Result<usize> {
    match bytes > isize::MAX as usize / 8 {
        true => Err(Error::Invalid(format!(
            "a {what} of {bytes} bytes is more than memory can hold"
        ))),
        false => Ok(bytes),
    }
}

/// Memory that is filled with bytes to send or to return.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Memory from the allocator, which a pipe must never refer to.
    First(Aligned),
    /// A private mapping.
    Pages(Pages),
}

/// Memory from the allocator that starts at a multiple of [`BLOCK`], as reading with O_DIRECT requires (open(2)): a part
/// of this vector, which is [`BLOCK`] bytes longer, or empty.
#[derive(Default)]
pub(crate) struct Aligned(Vec<u8>);

/// The largest logical block size of common disks.
pub(crate) const BLOCK: usize = 4096;

impl fmt::Debug for Aligned {
    /// Writes the number of bytes, which are the user's, and not the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aligned({} bytes)", self.range().len())
    }
}

impl Aligned {
    #[inline]
    fn range(&self) -> Range<usize> {
        let len = self.0.len().saturating_sub(BLOCK);
        let start = self.0.as_ptr().align_offset(BLOCK).min(self.0.len() - len);
        start..start + len
    }
}

impl Memory {
    /// Returns the initial memory: `len` bytes, at most [`FIRST`].
    pub(crate) fn first(len: usize) -> Self {
        Memory::First(Aligned(vec![0; len.min(FIRST) + BLOCK]))
    }

    /// Returns memory for one message of a socket.
    pub(crate) fn for_messages() -> Self {
        Memory::First(Aligned(vec![0; MESSAGE + BLOCK]))
    }

    /// Maps `len` bytes, in huge pages if wanted and if the machine has any of a suitable size.
    ///
    /// # Errors
    /// As [`Pages::new`].
    pub(crate) fn map(len: usize, huge: bool) -> Result<Pages> {
        match huge && Geometry::here().huge_that_suits().is_some() {
            true => Pages::huge(len).or_else(|_| Pages::new(len)),
            false => Pages::new(len),
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
        } else if let Memory::First(Aligned(bytes)) = self {
            if bytes.try_reserve_exact(len + BLOCK - bytes.len()).is_ok() {
                bytes.resize(len + BLOCK, 0);
            }
        }
    }

    /// Returns whether a pipe may refer to this memory.
    pub(crate) fn is_pages(&self) -> bool {
        matches!(self, Memory::Pages(_))
    }
}

impl Default for Memory {
    /// Returns no memory at all.
    fn default() -> Self {
        Memory::First(Aligned::default())
    }
}

impl Deref for Memory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Memory::First(first) => &first.0[first.range()],
            Memory::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::First(first) => {
                let range = first.range();
                &mut first.0[range]
            }
            Memory::Pages(pages) => pages,
        }
    }
}

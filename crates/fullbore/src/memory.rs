//! The memory of a producer or consumer: a little from the allocator at first, and a mapping once that pays off.
//!
//! A short stream uses memory of the allocator: a mapping takes system calls, and zeroing its first huge page takes
//! longer than copying a short stream. If no memory can be mapped (RLIMIT_AS, overcommit), the initial memory is used
//! throughout.

use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;

pub(crate) use fullbore_linux::messages::MESSAGE;
use fullbore_linux::{Aligned, Error, Pages, Result};
pub(crate) use fullbore_linux::{FIRST, Geometry, suits_a_pipe, suits_copying};

/// The default number of bytes of one system call: half of a pipe of 1 MiB, so that one chunk is filled while the other
/// is read.
pub(crate) const CHUNK: usize = 512 * 1024;

/// Returns how many bytes to read for one write(2) into a Unix stream socket: about five eighths of its buffer, 128 KiB
/// for the usual one. After a longer write it is full, and its writer is woken once three quarters of it are free
/// (`unix_writable`, net/unix/af_unix.c): the reader runs out of bytes before the next ones are there.
pub(crate) fn suits_a_socket(sink: BorrowedFd<'_>) -> usize {
    let buffer = rustix::net::sockopt::socket_send_buffer_size(sink).unwrap_or(0);
    let whole = buffer / 8 * 5 / (FIRST / 2) * (FIRST / 2);
    whole.clamp(FIRST, suits_copying())
}

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

impl Memory {
    /// Returns the initial memory: `len` bytes, at most [`FIRST`].
    pub(crate) fn first(len: usize) -> Self {
        Memory::First(Aligned::new(len.min(FIRST)))
    }

    /// Returns memory for one message of a socket.
    pub(crate) fn for_messages() -> Self {
        Memory::First(Aligned::new(MESSAGE))
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
        } else if let Memory::First(first) = self {
            first.grow(len);
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
            Memory::First(first) => first,
            Memory::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::First(first) => first,
            Memory::Pages(pages) => pages,
        }
    }
}

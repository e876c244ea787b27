//! Where the next bytes of a file are: at an offset of the caller, or at its file position, claimed before it is used.
//!
//! Processes that share an open file description (`(a & b) > file`, `xargs -P`) share its position. read(2) and write(2)
//! move it under a lock. splice(2), sendfile(2) and copy_file_range(2) read it, move bytes, and set it, without that lock
//! (`do_splice`, fs/splice.c): two of them overwrite each other's bytes. lseek(2) takes the lock. So it moves the position
//! past the bytes first, and the call gets their offset.

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, fstat, seek, tell};
use rustix::io::Errno;

/// The offset of the next byte, where it is not the file position.
#[derive(Debug, Default)]
pub struct Place {
    at: Option<u64>,
    /// Bytes from there on that are claimed. `None` if the caller has given the offset.
    claimed: Option<u64>,
}

impl Place {
    /// Returns the place that the caller has given; without an offset, it is the file position.
    pub fn of(given: Option<u64>) -> Self {
        Self {
            at: given,
            claimed: None,
        }
    }

    /// Returns the offset for the next call; `None` is the file position.
    pub fn at(&self) -> Option<u64> {
        self.at
    }

    /// Returns whether the caller has given the offset.
    pub fn is_given(&self) -> bool {
        self.at.is_some() && self.claimed.is_none()
    }

    /// Returns how many of `most` bytes the next call may move.
    pub fn most(&self, most: usize) -> usize {
        let claimed = self
            .claimed
            .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        most.min(claimed)
    }

    /// Claims the next `most` bytes, unless it has an offset already.
    ///
    /// # Errors
    /// As lseek(2).
    pub fn claim(&mut self, file: BorrowedFd<'_>, most: usize) -> Result<(), Errno> {
        if self.at.is_none() {
            let by = i64::try_from(most).map_err(|_| Errno::OVERFLOW)?;
            let end = seek(file, SeekFrom::Current(by))?;
            self.at = Some(end - most as u64);
            self.claimed = Some(most as u64);
        }
        Ok(())
    }

    /// Records that `n` bytes were moved.
    pub fn passed(&mut self, n: u64) {
        if let Some(at) = &mut self.at {
            *at += n;
        }
        if let Some(claimed) = &mut self.claimed {
            *claimed -= n;
            if *claimed == 0 {
                *self = Self::default();
            }
        }
    }

    /// Moves the position back to the next byte, unless another process has moved it: the claim lasts until then.
    pub fn give_back(&mut self, file: BorrowedFd<'_>) {
        if let (Some(at), Some(claimed)) = (self.at, self.claimed) {
            let is_unchanged = seek(file, SeekFrom::Current(0)) == Ok(at + claimed);
            if is_unchanged && seek(file, SeekFrom::Start(at)).is_ok() {
                *self = Self::default();
            }
        }
    }
}

/// Returns how many bytes a file has behind an offset; `None` is its position.
///
/// # Errors
/// As fstat(2).
pub fn left_in(file: BorrowedFd<'_>, at: Option<u64>) -> Result<usize, Errno> {
    let at = at.unwrap_or_else(|| tell(file).unwrap_or(0));
    let size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    Ok(usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX))
}

/// Makes a call that moves at most `most` bytes at an offset of `file`, which is its position, and moves the position past
/// them.
///
/// # Errors
/// As lseek(2) and `call`.
pub fn at_position(
    file: BorrowedFd<'_>,
    most: usize,
    call: impl FnOnce(&mut u64) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut place = Place::default();
    place.claim(file, most)?;
    let moved = call(&mut place.at.unwrap_or(0).clone());
    place.passed(moved.unwrap_or(0) as u64);
    place.give_back(file);
    moved
}

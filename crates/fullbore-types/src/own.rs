//! Descriptors that are created here, and a close(2) whose error is returned.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use rustix::io::Errno;

use crate::error::{Result, system};

/// Returns `fd` under a number of at least 3: 0, 1 and 2 are stdin, stdout and stderr, even in a program that was
/// started without them. Otherwise a C program might print into a pipe of this library.
#[doc(hidden)]
pub fn not_standard(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    match fd.as_raw_fd() {
        0..=2 => rustix::io::fcntl_dupfd_cloexec(&fd, 3),
        _ => Ok(fd),
    }
}

/// Closes `fd` and returns the error of close(2), which dropping a [`File`](std::fs::File) ignores.
///
/// NFS, FUSE and file systems with quotas may report a failed write only here: a write has succeeded only once this
/// returns `Ok`.
///
/// ```
/// use std::io::Write;
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"hello")?;
/// fullbore::close(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To check an fd that has to stay open, such as stdout, close a duplicate of it: Linux calls the file system at every
/// close(2) of a descriptor, not only at the last one (`filp_flush`, fs/open.c).
///
/// ```
/// use std::os::fd::AsFd;
/// fullbore::close(std::io::stdout().as_fd().try_clone_to_owned()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Error::System` as close(2): `EIO`, `ENOSPC`, `EDQUOT`; `EINTR` if a signal arrived before the file system had
/// reported whether everything was written. The fd is closed in any case, and close(2) is never repeated, because the
/// number may refer to another file by then.
pub fn close(fd: impl Into<OwnedFd>) -> Result<()> {
    let fd = fd.into().into_raw_fd();
    // SAFETY: the fd was owned, and no code uses its number afterwards, whatever the result.
    unsafe { rustix::io::try_close(fd) }.map_err(system("close"))
}

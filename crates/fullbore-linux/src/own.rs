//! Descriptors that the library creates, and a close(2) whose error is returned.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{self, Result};

/// Creates a memfd that is closed on execve(2) and, if the kernel supports it, cannot be made executable
/// (`MFD_NOEXEC_SEAL`, Linux 6.3; the sysctl vm.memfd_noexec may require it). Its number is at least 3.
pub fn memfd(name: &str, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | MemfdFlags::CLOEXEC;
    let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        answer => answer,
    }?;
    not_standard(file)
}

/// Returns `fd` under a number of at least 3: 0, 1 and 2 are stdin, stdout and stderr, even in a program that was
/// started without them. Otherwise a C program might print into a pipe of this library.
pub fn not_standard(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    match fd.as_raw_fd() {
        0..=2 => rustix::io::fcntl_dupfd_cloexec(&fd, 3),
        _ => Ok(fd),
    }
}

/// Creates a pipe whose ends are closed on execve(2) and [are not 0, 1 or 2](not_standard).
pub fn new_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(error::system("pipe2"))?;
    let both = not_standard(reader).and_then(|reader| Ok((reader, not_standard(writer)?)));
    both.map_err(error::system("F_DUPFD_CLOEXEC"))
}

/// Opens `/dev/null` for writing.
pub fn null() -> Result<OwnedFd, Errno> {
    let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    not_standard(null?)
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
    unsafe { rustix::io::try_close(fd) }.map_err(error::system("close"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{SealFlags, fchmod, fcntl_get_seals, fstat};

    #[test]
    fn a_memfd_cannot_be_made_executable_if_the_kernel_can_seal_that() {
        /// `F_SEAL_EXEC` (include/uapi/linux/fcntl.h).
        const SEAL_EXEC: SealFlags = SealFlags::from_bits_retain(0x20);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL;
        let can_seal = memfd_create("test", flags).err() != Some(Errno::INVAL);
        for flags in [MemfdFlags::empty(), MemfdFlags::ALLOW_SEALING] {
            let file = memfd("test", flags).unwrap();
            let seals = fcntl_get_seals(&file).unwrap();
            assert_eq!(seals.contains(SEAL_EXEC), can_seal, "{seals:?}");
            if can_seal {
                assert_eq!(fstat(&file).unwrap().st_mode & 0o111, 0);
                assert_eq!(fchmod(&file, Mode::RWXU), Err(Errno::PERM));
            }
        }
    }
}

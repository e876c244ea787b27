//! The descriptors that the library makes for itself.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Error, Result};

/// Creates a memfd that is closed on execve(2) and cannot be made executable, where the kernel knows that
/// (`MFD_NOEXEC_SEAL`, Linux 6.3; the sysctl vm.memfd_noexec may require it). Its number is at least 3.
pub(crate) fn memfd(name: &str, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | MemfdFlags::CLOEXEC;
    let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        answer => answer,
    }?;
    not_standard(file)
}

/// Returns `fd` under a number of at least 3: 0, 1 and 2 are stdin, stdout and stderr, also in a program that was
/// started without them. A C program would print into a pipe of this library otherwise.
pub(crate) fn not_standard(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    match fd.as_raw_fd() {
        0..=2 => rustix::io::fcntl_dupfd_cloexec(&fd, 3),
        _ => Ok(fd),
    }
}

/// Creates a pipe whose ends are closed on execve(2) and [have other numbers](not_standard) than 0, 1 and 2.
pub(crate) fn new_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::system("pipe2"))?;
    let both = not_standard(reader).and_then(|reader| Ok((reader, not_standard(writer)?)));
    both.map_err(Error::system("F_DUPFD_CLOEXEC"))
}

/// Opens `/dev/null` for writing.
pub(crate) fn null() -> Result<OwnedFd, Errno> {
    let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    not_standard(null?)
}

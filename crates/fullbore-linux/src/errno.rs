//! Interpretation of errors: whether a call is not supported rather than failed, and whether no reader is left. And what
//! is refused before the first call: a source that is also the sink.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::error::{self, Error, Result, TransferSide};

/// Returns whether `errno` means that this kernel, a sandbox (gVisor, seccomp) or this pair of fds does not support the
/// call, rather than that it failed to move bytes.
pub fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP | Errno::ACCESS
    )
}

/// Returns whether a write to `fd` failed with `errno` because its reader has closed it. `ECONNRESET` is that of a socket
/// whose reader left bytes unread (unix(7); RFC 2525, 2.17 for TCP): which of the two errors comes is a matter of chance.
pub fn is_reader_gone(errno: Errno, fd: impl AsFd) -> bool {
    matches!(errno, Errno::PIPE | Errno::CONNRESET) && is_pipe_or_socket(fd)
}

/// Returns whether `fd` is a pipe, a FIFO or a socket: only there does `EPIPE` mean that no reader is left. On a file
/// (FUSE) or a device (USB endpoints) it is an ordinary error.
pub fn is_pipe_or_socket(fd: impl AsFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| {
        let file_type = FileType::from_raw_mode(stat.st_mode);
        matches!(file_type, FileType::Fifo | FileType::Socket)
    })
}

/// Calls fstat(2) on one end of a transfer.
///
/// # Errors
/// As fstat(2), with the side.
pub fn stat_of(fd: BorrowedFd<'_>, side: TransferSide) -> Result<Stat> {
    rustix::fs::fstat(fd).map_err(|errno| error::moving(side, "fstat", errno, 0))
}

/// Refuses a transfer that would read the bytes that it writes, and might never end.
///
/// # Errors
/// [`Error::Invalid`] for one pipe, and for one file unless the ranges in it are apart.
pub fn refuse_the_same(source: &Stat, sink: &Stat, ranges_apart: bool) -> Result<()> {
    if identity(source) != identity(sink) {
        return Ok(());
    }
    match FileType::from_raw_mode(source.st_mode) {
        FileType::Fifo => Err(Error::Invalid("source and sink are the same pipe".into())),
        FileType::RegularFile | FileType::BlockDevice if !ranges_apart => {
            Err(Error::Invalid("source and sink are the same file".into()))
        }
        _ => Ok(()),
    }
}

/// Returns what is equal for two files only if they have the same bytes: the device and the inode, or the number of a
/// block device, which may have several nodes.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => (u64::MAX, stat.st_rdev),
        _ => (stat.st_dev, stat.st_ino),
    }
}

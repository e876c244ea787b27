//! What an error means: that a call is not supported here rather than that it failed, or that no reader is left.

use std::os::fd::AsFd;

use rustix::fs::FileType;
use rustix::io::Errno;

/// Returns whether `errno` means that the call is refused as such, by this kernel, by a sandbox
/// (gVisor, seccomp) or for this pair of fds, rather than that it failed to move bytes.
pub fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP | Errno::ACCESS
    )
}

/// Returns whether `fd` is a pipe, a FIFO or a socket: only there does `EPIPE` mean that no reader is left. From a
/// file (FUSE) or a device (USB endpoints) it is a failure like any other.
pub fn is_pipe_or_socket(fd: impl AsFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| {
        let file_type = FileType::from_raw_mode(stat.st_mode);
        matches!(file_type, FileType::Fifo | FileType::Socket)
    })
}

//! Errors that mean that a call is not supported here, rather than that it failed.

use rustix::io::Errno;

/// Returns whether `errno` means that the call is refused as such, by this kernel, by a sandbox
/// (gVisor, seccomp) or for this pair of fds, rather than that it failed to move bytes.
pub(crate) fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP | Errno::ACCESS
    )
}

//! Errors that say that a call cannot be made here, rather than that it failed.

use rustix::io::Errno;

/// Whether a call that says `errno` is refused as such, by this kernel, by a sandbox (gVisor, seccomp)
/// or for this pair of fds, rather than having failed at moving bytes.
pub(crate) fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP | Errno::ACCESS
    )
}

//! What rustix and std do not offer: page sizes, the limits on pipes, and the calls that move
//! bytes, each with a choice of how to wait ([`Calls`]).

mod calls;
mod cgroup;
mod named;
pub(crate) mod own;
mod peer;
mod refusal;
mod sharing;
mod sigpipe;
mod threads;

use std::fs;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use crate::error::{Error, Result};

pub use calls::Calls;
pub(crate) use calls::{can_be, is_closed, is_ready};
pub use cgroup::memory_limit;
pub use named::descriptor_of;
pub(crate) use own::{memfd, new_pipe, not_standard, null};
pub use peer::{Peer, peer_of};
pub use refusal::is_pipe_or_socket;
pub(crate) use refusal::is_refusal;
/// The kernel's error number, as rustix has it: [`Calls`] and [`Waiter`](crate::Waiter) return it.
pub use rustix::io::Errno;
/// The flags of splice(2) and vmsplice(2), as rustix has them.
pub use rustix::pipe::SpliceFlags;
pub(crate) use sharing::shares_pages;
pub use sharing::vmsplice_shares;
pub(crate) use sigpipe::without_sigpipe;
pub use threads::{live_thread, proc_directory};

/// Returns the size of a base page in bytes (`AT_PAGESZ`, getauxval(3)).
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Returns the size of a transparent huge page in bytes, or `None` if the kernel has none
/// (`/sys/kernel/mm/transparent_hugepage/hpage_pmd_size`).
pub fn huge_page_size() -> Option<usize> {
    static SIZE: OnceLock<Option<usize>> = OnceLock::new();
    *SIZE.get_or_init(|| number_in("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"))
}

/// Returns whether the kernel gives transparent huge pages to memory that asks for them:
/// `/sys/kernel/mm/transparent_hugepage/enabled` exists and is not `never`.
pub fn has_huge_pages() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .is_ok_and(|setting| !setting.contains("[never]"))
    })
}

/// Returns the size in bytes of a page of the default hugetlb pool, or `None` if there is no pool
/// (`Hugepagesize` in `/proc/meminfo`).
pub fn hugetlb_page_size() -> Option<usize> {
    static SIZE: OnceLock<Option<usize>> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
        let line = meminfo.lines().find(|l| l.starts_with("Hugepagesize:"))?;
        let kib: usize = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(kib * 1024)
    })
}

/// Returns the number of bytes that one page table maps: two addresses that far apart have
/// different page-table entries *and* different page-table locks (`pmd_lockptr`,
/// `include/linux/mm.h`).
pub fn page_table_span() -> usize {
    huge_page_size().unwrap_or_else(|| page_size() * (page_size() / size_of::<u64>()))
}

/// Returns `/proc/sys/fs/pipe-max-size`: the largest capacity in bytes that an unprivileged user
/// may give a pipe.
pub fn pipe_max_size() -> Option<usize> {
    number_in("/proc/sys/fs/pipe-max-size")
}

/// Returns `/proc/sys/fs/pipe-user-pages-soft`: the number of pages that all pipes of an
/// unprivileged user may hold together. Past it, new pipes are smaller and none can grow; 0 means
/// no limit.
pub fn pipe_user_pages_soft() -> Option<usize> {
    number_in("/proc/sys/fs/pipe-user-pages-soft")
}

/// Returns `/proc/sys/fs/pipe-user-pages-hard`: the number of pages past which an unprivileged user
/// cannot create pipes; 0 means no limit.
pub fn pipe_user_pages_hard() -> Option<usize> {
    number_in("/proc/sys/fs/pipe-user-pages-hard")
}

/// Returns the size in bytes of the second-level cache of the first CPU, or `None` if the kernel
/// does not report it.
pub fn cache_size() -> Option<usize> {
    static SIZE: OnceLock<Option<usize>> = OnceLock::new();
    *SIZE.get_or_init(|| {
        (0..8).find_map(|index| {
            let cache = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
            let level: usize = number_in(format!("{cache}/level"))?;
            let size = fs::read_to_string(format!("{cache}/size")).ok()?;
            let kib: usize = size.trim().strip_suffix('K')?.parse().ok()?;
            (level == 2).then_some(kib * 1024)
        })
    })
}

/// Closes `fd` and returns the error of close(2), which dropping a [`File`](fs::File) ignores.
///
/// NFS, FUSE and file systems with quotas may report a failed write only here: a write has
/// succeeded only once this has returned `Ok`.
///
/// ```
/// use std::io::Write;
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"hello")?;
/// fullbore::close(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An fd that has to stay open, such as stdout, is checked by closing a duplicate of it: Linux
/// calls the file system at every close(2) of a descriptor, not only at the last one (`filp_flush`,
/// fs/open.c).
///
/// ```
/// use std::os::fd::AsFd;
/// fullbore::close(std::io::stdout().as_fd().try_clone_to_owned()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::System`] as close(2): `EIO`, `ENOSPC`, `EDQUOT`. Also `EINTR`, if a signal came before
/// the file system had reported whether all is written. The fd is closed in any case, and close(2)
/// is never repeated, because the number may belong to another file by then.
pub fn close(fd: impl Into<OwnedFd>) -> Result<()> {
    let fd = fd.into().into_raw_fd();
    // SAFETY: the fd was owned, and nobody uses its number after this, whatever the answer.
    unsafe { rustix::io::try_close(fd) }.map_err(Error::system("close"))
}

fn number_in(path: impl AsRef<Path>) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_table_spans_whole_pages() {
        assert!(page_size().is_power_of_two());
        assert!(page_table_span() % page_size() == 0);
        assert!(page_table_span() > page_size());
    }
}

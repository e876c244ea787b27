//! Says how much memory the experiments may use, and makes files of it.

use std::fs::File;

use anyhow::{Context, Result};
use fullbore_host::machine::available_memory;
use fullbore_linux::memory_limit;
use rustix::fs::{MemfdFlags, memfd_create};

/// Creates an unnamed file in memory, which is removed with its last fd, so that none is left
/// behind, however this process ends.
pub fn memory_file() -> Result<File> {
    let fd = memfd_create("fullbore-bench", MemfdFlags::CLOEXEC).context("memfd_create")?;
    Ok(File::from(fd))
}

/// Returns the bytes of memory that this process and those that it starts can get: what the machine has
/// available, and at most half of what their cgroup may use, because the other half may be in use already.
/// `None` if neither is known.
pub fn available() -> Option<u64> {
    let of_cgroup = memory_limit().map(|limit| limit / 2);
    available_memory().into_iter().chain(of_cgroup).min()
}

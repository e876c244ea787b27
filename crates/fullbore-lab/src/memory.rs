//! Says how much memory the experiments may use.

use fullbore_host::machine::available_memory;
use fullbore_linux::memory_limit;

/// Returns the bytes of memory that this process and those that it starts can get: what the machine has
/// available, and at most half of what their cgroup may use, because the other half may be in use already.
/// `None` if neither is known.
pub fn available() -> Option<u64> {
    let of_cgroup = memory_limit().map(|limit| limit / 2);
    available_memory().into_iter().chain(of_cgroup).min()
}

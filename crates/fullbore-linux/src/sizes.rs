//! Page sizes, and the limits on pipes.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

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

/// Returns whether the kernel gives transparent huge pages to memory with the advice for them:
/// `/sys/kernel/mm/transparent_hugepage/enabled` exists and is not `never`.
pub fn has_huge_pages() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .is_ok_and(|setting| !setting.contains("[never]"))
    })
}

/// Returns the number of bytes that one page table maps: two addresses this far apart have different page tables, and
/// so different page-table locks (`pte_lockptr`, `include/linux/mm.h`).
pub fn page_table_span() -> usize {
    huge_page_size().unwrap_or_else(|| page_size() * (page_size() / size_of::<u64>()))
}

/// Returns `/proc/sys/fs/pipe-user-pages-soft`: the number of pages that all pipes of an unprivileged user may have
/// together. Beyond it, new pipes are smaller and none can grow; 0 means no limit.
pub fn pipe_user_pages_soft() -> Option<usize> {
    number_in("/proc/sys/fs/pipe-user-pages-soft")
}

/// Returns the size in bytes of the L2 cache of the first CPU, or `None` if the kernel does not report it.
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

pub(crate) fn number_in(path: impl AsRef<Path>) -> Option<usize> {
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

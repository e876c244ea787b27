//! What the kernel backs a range of this process's memory with, as `/proc/self/smaps` shows it (proc_pid_smaps(5)).

use std::fmt;
use std::ops::Range;

use procfs::process::{MemoryMap, Process};

/// What the kernel backs a mapping with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackedBy {
    /// The sizes that the kernel reports.
    Known {
        /// Bytes on transparent huge pages.
        huge: u64,
        /// Bytes on base pages.
        base: u64,
        /// Bytes that have no page yet.
        absent: u64,
    },
    /// The sizes cannot be determined, for this reason.
    Unknown(String),
}

impl BackedBy {
    /// Returns whether the memory has pages and all of them are huge pages.
    pub fn is_huge(&self) -> bool {
        matches!(
            self,
            BackedBy::Known {
                huge: 1..,
                base: 0,
                ..
            }
        )
    }
}

impl fmt::Display for BackedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (huge, base, absent) = match self {
            BackedBy::Unknown(reason) => return write!(f, "unknown ({reason})"),
            BackedBy::Known { huge, base, absent } => (*huge, *base, *absent),
        };
        let parts: Vec<String> = [
            (huge, "on huge pages"),
            (base, "on base pages"),
            (absent, "not touched"),
        ]
        .iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, what)| format!("{} KiB {what}", bytes / 1024))
        .collect();
        write!(f, "{} (/proc/self/smaps)", parts.join(", "))
    }
}

/// Returns what the kernel backs the mappings with that these addresses are in.
pub fn backed_by(memory: Range<*const u8>) -> BackedBy {
    let maps = match Process::myself().and_then(|process| process.smaps()) {
        Ok(maps) => maps,
        Err(error) => return BackedBy::Unknown(format!("/proc/self/smaps: {error}")),
    };
    let (first, end) = (memory.start.addr() as u64, memory.end.addr() as u64);
    let overlaps = |map: &&MemoryMap| map.address.0 < end && first < map.address.1;
    let (mut all, mut present, mut huge) = (0, 0, 0);
    for map in maps.0.iter().filter(overlaps) {
        let bytes = |name| map.extension.map.get(name).copied().unwrap_or(0);
        all += map.address.1 - map.address.0;
        present += bytes("Rss");
        huge += bytes("AnonHugePages");
    }
    match all {
        0 => BackedBy::Unknown("/proc/self/smaps does not list the mapping".into()),
        _ => BackedBy::Known {
            huge,
            base: present.saturating_sub(huge),
            absent: all.saturating_sub(present),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_linux::{Pages, page_size};

    #[test]
    fn untouched_memory_has_no_pages_and_touched_and_locked_memory_has_all() {
        let len = 64 * page_size();
        let all = |base, absent| {
            let (base, absent) = (base as u64, absent as u64);
            BackedBy::Known {
                huge: 0,
                base,
                absent,
            }
        };
        let mut pages = Pages::new(len).unwrap();
        assert_eq!(backed_by(pages.as_ptr_range()), all(0, len));
        pages[0] = 1;
        let mut of_a_part = backed_by(pages[page_size()..].as_ptr_range());
        assert_eq!(of_a_part, all(page_size(), len - page_size()));
        match pages.lock() {
            Ok(()) => of_a_part = backed_by(pages.as_ptr_range()),
            Err(error) => return fullbore_tests::skipped(&format!("{error}")),
        }
        assert_eq!(of_a_part, all(len, 0));
    }

    #[test]
    fn huge_pages_are_seen_where_the_kernel_gives_them() {
        let Ok(mut pages) = Pages::huge(4 << 20) else {
            return println!("skipped: no huge pages");
        };
        pages.fill(1);
        match backed_by(pages.as_ptr_range()) {
            BackedBy::Known { huge, base, absent } => {
                assert!(huge + base >= 4 << 20);
                assert_eq!(absent, 0);
            }
            unknown => panic!("{unknown}"),
        }
        let nowhere = std::ptr::null()..std::ptr::null();
        assert!(matches!(backed_by(nowhere), BackedBy::Unknown(_)));
    }
}

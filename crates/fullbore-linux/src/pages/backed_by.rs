//! What the kernel backs a range of this process's memory with, as far as /proc shows it.

use std::fmt;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::sizes;

/// What the kernel backs a mapping with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackedBy {
    /// The sizes that the kernel reports.
    Known {
        /// Bytes on huge pages, transparent or hugetlb.
        huge: usize,
        /// Bytes on base pages.
        base: usize,
        /// Bytes that have no page yet.
        absent: usize,
        /// The file under `/proc` that they were read from.
        source: &'static str,
    },
    /// The sizes cannot be determined.
    Unknown {
        /// The files that could not be read, and the errors.
        reason: String,
    },
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
        let (huge, base, absent, source) = match self {
            BackedBy::Unknown { reason } => return write!(f, "unknown ({reason})"),
            BackedBy::Known {
                huge,
                base,
                absent,
                source,
            } => (*huge, *base, *absent, source),
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
        write!(f, "{} ({source})", parts.join(", "))
    }
}

/// Returns what the kernel backs the mapping with that contains these addresses, which `as_ptr_range` of a slice
/// returns.
pub fn backed_by(memory: Range<*const u8>) -> BackedBy {
    let part = memory.start as usize..memory.end as usize;
    match read_smaps().map(|smaps| mappings_with(&smaps, &part)) {
        Ok(mappings) => of_addresses(&mappings),
        Err(reason) => BackedBy::Unknown { reason },
    }
}

/// Returns the addresses of the mappings that overlap `range`.
fn mappings_with(smaps: &str, range: &Range<usize>) -> Range<usize> {
    let first_words = smaps.lines().filter_map(|line| line.split(' ').next());
    first_words
        .filter_map(address_range)
        .filter(|(from, to)| *from < range.end && range.start < *to)
        .fold(range.clone(), |all, (from, to)| {
            all.start.min(from)..all.end.max(to)
        })
}

fn read_smaps() -> Result<String, String> {
    fs::read_to_string("/proc/self/smaps").map_err(|e| format!("/proc/self/smaps: {e}"))
}

/// Returns what the kernel backs these addresses with now: from the flags of the pages if they are readable, otherwise
/// from the sums of the mappings.
pub(super) fn of_addresses(addresses: &Range<usize>) -> BackedBy {
    by_page_flags(addresses)
        .or_else(|closed| by_smaps(addresses).map_err(|also| format!("{closed}; {also}")))
        .unwrap_or_else(|reason| BackedBy::Unknown { reason })
}

/// Counts the pages by their flags in `/proc/self/pagemap` and `/proc/kpageflags`
/// (Documentation/admin-guide/mm/pagemap.rst).
pub(super) fn by_page_flags(addresses: &Range<usize>) -> Result<BackedBy, String> {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    // KPF_HUGE and KPF_THP, include/uapi/linux/kernel-page-flags.h.
    const HUGE: u64 = 1 << 17 | 1 << 22;
    let open = |path: &str| File::open(path).map_err(|e| format!("{path}: {e}"));
    let map = open("/proc/self/pagemap")?;
    let flags = open("/proc/kpageflags")?;
    let read = |file: &File, index: u64, path: &str| {
        let mut entry = [0; 8];
        file.read_exact_at(&mut entry, index * 8)
            .map_err(|e| format!("{path}: {e}"))?;
        Ok::<u64, String>(u64::from_ne_bytes(entry))
    };
    let page = sizes::page_size();
    let mut found = Count::default();
    for address in addresses.clone().step_by(page) {
        let entry = read(&map, (address / page) as u64, "/proc/self/pagemap")?;
        if entry & PRESENT == 0 {
            found.absent += page;
            continue;
        }
        if entry & FRAME == 0 {
            return Err("/proc/self/pagemap hides page frames from all but root".into());
        }
        if read(&flags, entry & FRAME, "/proc/kpageflags")? & HUGE != 0 {
            found.huge += page;
        } else {
            found.base += page;
        }
    }
    Ok(found.by("/proc/kpageflags"))
}

pub(super) fn by_smaps(addresses: &Range<usize>) -> Result<BackedBy, String> {
    count_in_smaps(&read_smaps()?, addresses)
        .map(|count| count.by("/proc/self/smaps"))
        .ok_or_else(|| "/proc/self/smaps does not list the mapping".into())
}

/// Sums the mappings of `smaps` that are in `range`, in the format of proc_pid_smaps(5).
fn count_in_smaps(smaps: &str, range: &Range<usize>) -> Option<Count> {
    let mut count = Count::default();
    let mut inside = false;
    let mut seen = false;
    let mut present = 0;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((from, to)) = address_range(first) {
            inside = range.start <= from && to <= range.end;
            seen |= inside;
        } else if inside {
            let mut bytes = || {
                words
                    .next()
                    .and_then(|n| n.parse::<usize>().ok())
                    .map(|n| n * 1024)
            };
            match first {
                "Rss:" => present += bytes()?,
                "AnonHugePages:" => count.huge += bytes()?,
                // Hugetlb pages are not part of Rss.
                "Private_Hugetlb:" => {
                    let hugetlb = bytes()?;
                    count.huge += hugetlb;
                    present += hugetlb;
                }
                _ => {}
            }
        }
    }
    count.base = present.saturating_sub(count.huge);
    count.absent = range.len().saturating_sub(present);
    seen.then_some(count)
}

fn address_range(word: &str) -> Option<(usize, usize)> {
    let (from, to) = word.split_once('-')?;
    let number = |hex| usize::from_str_radix(hex, 16).ok();
    Some((number(from)?, number(to)?))
}

#[derive(Debug, Default, PartialEq)]
struct Count {
    huge: usize,
    base: usize,
    absent: usize,
}

impl Count {
    fn by(self, source: &'static str) -> BackedBy {
        BackedBy::Known {
            huge: self.huge,
            base: self.base,
            absent: self.absent,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_of_a_known_text_are_counted() {
        let smaps = "\
7f0000000000-7f0000200000 ---p 00000000 00:00 0 \nRss:  0 kB\n\
7f0000200000-7f0000600000 rw-p 00000000 00:00 0 \nRss:  2056 kB\nAnonHugePages:  2048 kB\nPrivate_Hugetlb: 0 kB\n\
7f0000600000-7f0000800000 rw-p 00000000 00:00 0 \nRss:  2048 kB\nAnonHugePages:  0 kB\n";
        let count = count_in_smaps(smaps, &(0x7f00_0020_0000..0x7f00_0060_0000)).unwrap();
        assert_eq!(
            count,
            Count {
                huge: 2 << 20,
                base: 8 << 10,
                absent: (4 << 20) - (2056 << 10),
            }
        );
        assert_eq!(count_in_smaps(smaps, &(0..4096)), None);
        let part = 0x7f00_0030_0000..0x7f00_0030_1000;
        assert_eq!(
            mappings_with(smaps, &part),
            0x7f00_0020_0000..0x7f00_0060_0000
        );
    }
}

//! The caches of a CPU, from `/sys/devices/system/cpu/cpuN/cache`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::Root;
use crate::size;

/// Whether a cache holds data, instructions or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only, so that bytes of a pipe are never in it.
    Instruction,
    /// Data and instructions.
    Unified,
}

/// The kinds as sysfs calls them, and what follows `L1` in the short name of a cache.
const KINDS: [(CacheKind, &str, &str); 3] = [
    (CacheKind::Data, "Data", "d"),
    (CacheKind::Instruction, "Instruction", "i"),
    (CacheKind::Unified, "Unified", ""),
];

/// One cache of a CPU, as `/sys/devices/system/cpu/cpuN/cache/indexM` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 for the one nearest to the CPU.
    pub level: u8,
    /// Whether it holds data, instructions or both.
    #[serde(rename = "type")]
    pub kind: CacheKind,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// The CPUs that share this cache, such as `0-3`.
    pub shared_cpu_list: Option<String>,
}

impl Cache {
    /// Reads the cache that `directory` describes; `None` where it describes none.
    fn read(root: &Root, directory: &Path) -> Option<Cache> {
        let kind = root.text(directory.join("type"))?;
        let size = root.text(directory.join("size"));
        Some(Cache {
            level: root.number(directory.join("level"))?.try_into().ok()?,
            kind: KINDS.iter().find(|(_, word, _)| *word == kind)?.0,
            size: size.and_then(|text| size::parse(&text).ok()),
            shared_cpu_list: root.text(directory.join("shared_cpu_list")),
        })
    }

    /// Returns the name and the size, such as `L1d 32 KiB`.
    pub fn describe(&self) -> String {
        let name = format!("L{}{}", self.level, KINDS[self.kind as usize].2);
        match self.size {
            Some(size) => format!("{name} {}", size::format(size)),
            None => name,
        }
    }
}

/// Reads the caches in the `cache` directory of a CPU, nearest first.
pub fn read_caches(root: &Root, directory: &Path) -> Vec<Cache> {
    let all = (0..).map(|index| directory.join(format!("index{index}")));
    let all = all.take_while(|index| root.has_directory(index));
    all.filter_map(|index| Cache::read(root, &index)).collect()
}

/// Returns the cache that is farthest from its CPU and holds data.
pub fn last_level(caches: &[Cache]) -> Option<&Cache> {
    let caches = caches
        .iter()
        .filter(|cache| cache.kind != CacheKind::Instruction);
    caches.max_by_key(|cache| cache.level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_are_read_with_their_unit() {
        let read = |text: &str| size::parse(text).ok();
        assert_eq!(read("32768K"), Some(32 << 20));
        assert_eq!(read("1M"), Some(1 << 20));
        assert_eq!(read("64"), Some(64));
        assert_eq!(read("many"), None);
    }
}

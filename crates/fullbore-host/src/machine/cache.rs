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

impl CacheKind {
    /// Returns the kind that sysfs calls `word`.
    fn parse(word: &str) -> Option<CacheKind> {
        match word {
            "Data" => Some(CacheKind::Data),
            "Instruction" => Some(CacheKind::Instruction),
            "Unified" => Some(CacheKind::Unified),
            _ => None,
        }
    }

    /// Returns what follows `L1` in the short name of a cache.
    fn suffix(self) -> &'static str {
        match self {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        }
    }
}

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
        Some(Cache {
            level: root.number(directory.join("level"))?.try_into().ok()?,
            kind: CacheKind::parse(&root.text(directory.join("type"))?)?,
            size: root
                .text(directory.join("size"))
                .and_then(|text| size::parse(&text).ok()),
            shared_cpu_list: root.text(directory.join("shared_cpu_list")),
        })
    }

    /// Returns the name and the size, such as `L1d 32 KiB`.
    pub fn describe(&self) -> String {
        let name = format!("L{}{}", self.level, self.kind.suffix());
        match self.size {
            Some(size) => format!("{name} {}", size::format(size)),
            None => name,
        }
    }
}

/// Reads the caches in the `cache` directory of a CPU, nearest first.
pub fn read_caches(root: &Root, directory: &Path) -> Vec<Cache> {
    (0..)
        .map(|index| directory.join(format!("index{index}")))
        .take_while(|index| root.has_directory(index))
        .filter_map(|index| Cache::read(root, &index))
        .collect()
}

/// Returns the cache that is farthest from its CPU and holds data.
pub fn last_level(caches: &[Cache]) -> Option<&Cache> {
    caches
        .iter()
        .filter(|cache| cache.kind != CacheKind::Instruction)
        .max_by_key(|cache| cache.level)
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

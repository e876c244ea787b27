//! Which CPUs there are, which of them this process may use, and what any two of them share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use super::cache::{Cache, CacheKind, last_level, read_caches};
use super::files::{Root, parse_cpu_list};

/// Which CPUs there are, which of them this process may use, and what they share.
#[derive(Debug, Clone)]
pub struct Topology {
    cpus: BTreeMap<usize, Cpu>,
    allowed: Vec<usize>,
    offline: Vec<usize>,
}

impl Topology {
    /// Reads the topology of this machine, as this process may use it.
    pub fn read() -> Topology {
        Topology::at(&Root::system(), affinity())
    }

    /// Reads the topology of the machine under `root`, of which the process may use the CPUs in
    /// `affinity`; all that are online where that is `None`.
    pub fn at(root: &Root, affinity: Option<Vec<usize>>) -> Topology {
        let online = root.cpu_list("sys/devices/system/cpu/online");
        let online = online.filter(|cpus| !cpus.is_empty());
        let online = online
            .or_else(|| affinity.clone())
            .unwrap_or_else(|| vec![0]);
        let cpus = online
            .iter()
            .map(|&number| (number, Cpu::read(root, number)));
        let cpus: BTreeMap<usize, Cpu> = cpus.collect();
        let mut allowed = affinity.unwrap_or_else(|| online.clone());
        // An affinity mask still has CPUs that have gone offline since it was set.
        allowed.retain(|cpu| cpus.contains_key(cpu));
        if allowed.is_empty() {
            allowed = online;
        }
        let present = root.cpu_list("sys/devices/system/cpu/present");
        let mut offline = present.unwrap_or_default();
        offline.retain(|cpu| !cpus.contains_key(cpu));
        Topology {
            cpus,
            allowed,
            offline,
        }
    }

    /// Returns the CPUs that are online, in ascending order.
    pub fn online(&self) -> Vec<usize> {
        self.cpus.keys().copied().collect()
    }

    /// Returns whether this CPU is online.
    pub fn is_online(&self, cpu: usize) -> bool {
        self.cpus.contains_key(&cpu)
    }

    /// Returns the CPUs that this process may use, in ascending order; never empty.
    pub fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    /// Returns the CPUs that are present but not online, in ascending order.
    pub fn offline(&self) -> &[usize] {
        &self.offline
    }

    /// Returns the hardware threads of a CPU's core that are online, the CPU itself included.
    pub fn core(&self, cpu: usize) -> Vec<usize> {
        let siblings = self.cpus.get(&cpu).map(|place| place.siblings.as_slice());
        self.online_of(siblings.unwrap_or(&[cpu]))
    }

    /// Returns the package (socket) that a CPU is in; `None` where the kernel does not tell.
    pub fn package(&self, cpu: usize) -> Option<u64> {
        self.cpus.get(&cpu)?.package
    }

    /// Returns the cache of a CPU at a level that holds data, and the online CPUs that share it;
    /// `None` where the kernel does not tell both.
    pub fn cache(&self, cpu: usize, level: u8) -> Option<(&Cache, Vec<usize>)> {
        let mut caches = self.caches(cpu).iter();
        let cache =
            caches.find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)?;
        let sharing = parse_cpu_list(cache.shared_cpu_list.as_deref()?)?;
        Some((cache, self.online_of(&sharing)))
    }

    /// Returns the caches of a CPU, nearest first; none where the kernel does not tell.
    pub fn caches(&self, cpu: usize) -> &[Cache] {
        self.cpus.get(&cpu).map_or(&[], |cpu| &cpu.caches)
    }

    /// Returns the level of the cache that is farthest from a CPU.
    pub fn last_level(&self, cpu: usize) -> Option<u8> {
        Some(last_level(self.caches(cpu))?.level)
    }

    fn online_of(&self, cpus: &[usize]) -> Vec<usize> {
        let online = |cpu: &usize| self.is_online(*cpu);
        cpus.iter().copied().filter(online).collect()
    }

    /// Returns what the CPUs `a` and `b` have in common, as far as the kernel tells.
    pub fn relation(&self, a: usize, b: usize) -> Relation {
        if a == b {
            return Relation::OneCpu;
        }
        let (Some(a), Some(b_place)) = (self.cpus.get(&a), self.cpus.get(&b)) else {
            return Relation::Unknown;
        };
        match (&a.behind_last_level, a.package.zip(b_place.package)) {
            _ if a.siblings.contains(&b) => Relation::Siblings,
            (Some(behind), _) if behind.contains(&b) => Relation::SharedCache,
            (Some(_), _) => Relation::DifferentCaches,
            (None, Some((a, b))) if a == b => Relation::SharedPackage,
            (None, Some(_)) => Relation::DifferentCaches,
            (None, None) => Relation::Unknown,
        }
    }
}

/// Where a CPU is, as far as the kernel tells.
#[derive(Debug, Clone)]
struct Cpu {
    /// Its caches, nearest first.
    caches: Vec<Cache>,
    /// The CPUs that share its last-level cache, itself included; `None` where that is unknown.
    behind_last_level: Option<Vec<usize>>,
    /// The hardware threads of its core, itself included.
    siblings: Vec<usize>,
    /// The package (socket) that it is in.
    package: Option<u64>,
}

impl Cpu {
    /// Reads what `/sys/devices/system/cpu/cpuN` tells of the CPU with this number.
    fn read(root: &Root, number: usize) -> Cpu {
        let directory = PathBuf::from(format!("sys/devices/system/cpu/cpu{number}"));
        let topology = directory.join("topology");
        let caches = read_caches(root, &directory.join("cache"));
        let last = last_level(&caches).and_then(|cache| cache.shared_cpu_list.as_deref());
        let behind_last_level = last.and_then(parse_cpu_list);
        let mut siblings = ["core_cpus_list", "thread_siblings_list"].iter();
        let siblings = siblings.find_map(|file| root.cpu_list(topology.join(file)));
        Cpu {
            behind_last_level,
            caches,
            // The name since Linux 5.3, then the one that it has deprecated
            // (Documentation/admin-guide/cputopology.rst).
            siblings: siblings.unwrap_or_else(|| vec![number]),
            package: root.number(topology.join("physical_package_id")),
        }
    }
}

/// What two CPUs have in common. The order is that of preference: the best for a pipe comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Two cores behind the same last-level cache.
    SharedCache,
    /// Two cores of one package; the kernel does not tell of their caches.
    SharedPackage,
    /// Two cores with different last-level caches, in one package or in two.
    DifferentCaches,
    /// Two CPUs of which the kernel tells nothing.
    Unknown,
    /// Two hardware threads of one core, which share all of its caches and its units too.
    Siblings,
    /// The same CPU twice: writer and reader take turns.
    OneCpu,
}

/// Returns the CPUs that this process may run on; `None` where the kernel does not tell.
fn affinity() -> Option<Vec<usize>> {
    let set = sched_getaffinity(None).ok()?;
    let is_set = |cpu: &usize| set.is_set(*cpu);
    Some((0..CpuSet::MAX_CPU).filter(is_set).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fixture;

    #[test]
    fn allowed_cpus_that_are_offline_are_not_chosen() {
        assert_eq!(Fixture::smt().topology("6-9").allowed(), [6, 7]);
    }

    #[test]
    fn relations_are_serialised_in_kebab_case() {
        let json = serde_json::to_string(&Relation::SharedCache).unwrap();
        assert_eq!(json, "\"shared-cache\"");
    }
}

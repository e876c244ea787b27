//! What a figure depends on besides the code: the machine, and which two CPUs it was taken on.
//!
//! Everything is read from `/proc` and `/sys`, and any of it can be missing: a container hides
//! `/sys`, a virtual machine has no caches to show, gVisor has no pipe limits. A missing fact is
//! `None` here and left out of what people see; reading never fails and never panics. All files
//! are found through a [`Root`], so that the tests can describe machines that we do not own.
//!
//! The choice of CPUs comes first ([`Topology`], [`CpuPair`]), for it decides more than most
//! experiments do: through a shared cache the reader finds what the writer has just written, and
//! across two caches every byte makes the trip between them. Then the rest ([`Machine`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::refusal::Usage;

/// The directory that `/proc` and `/sys` are looked for in: `/`, except in tests.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// The machine that this runs on.
    pub fn system() -> Root {
        Root(PathBuf::from("/"))
    }

    /// The machine whose `/proc` and `/sys` are copied to this directory.
    pub fn at(directory: impl Into<PathBuf>) -> Root {
        Root(directory.into())
    }

    /// The text of the file at `path` (relative, such as `proc/meminfo`), without the spaces,
    /// newlines and NULs around it; `None` where it cannot be read or is empty.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.0.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The number in the file at `path`.
    pub fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The CPUs in the file at `path`, which holds a list such as `0-3,8`.
    pub fn cpu_list(&self, path: impl AsRef<Path>) -> Option<Vec<usize>> {
        parse_cpu_list(&self.text(path)?)
    }
}

/// The CPUs of the kernel's list format, such as `0-3,8` (cpuset(7), "List format"), ascending;
/// `None` where the text is no such list.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    // No kernel is built for more CPUs than this (Linux's largest NR_CPUS is 8192), so a range
    // that goes further is a damaged file and not worth the memory.
    const CPUS_AT_MOST: usize = 1 << 16;
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPUS_AT_MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// CPUs in the kernel's list format: `[0, 1, 2, 3, 8]` is `0-3,8`.
pub fn format_cpu_list(cpus: &[usize]) -> String {
    cpus.chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [only] => only.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// A number of bytes as people write it: `512 B`, `32 KiB`, `1.5 MiB`, `7.8 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut amount = bytes as f64;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let tenths = (amount * 10.0).round() / 10.0;
    format!("{tenths} {}", UNITS[unit])
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only: no byte that goes through a pipe is ever in it.
    Instruction,
    /// Both.
    Unified,
}

impl CacheKind {
    /// The kind that sysfs calls `word`.
    fn parse(word: &str) -> Option<CacheKind> {
        match word {
            "Data" => Some(CacheKind::Data),
            "Instruction" => Some(CacheKind::Instruction),
            "Unified" => Some(CacheKind::Unified),
            _ => None,
        }
    }

    /// What follows `L1` in a cache's short name.
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
    /// What it holds.
    #[serde(rename = "type")]
    pub kind: CacheKind,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// The CPUs that have this same cache, such as `0-3`.
    pub shared_cpu_list: Option<String>,
}

impl Cache {
    /// The cache in `directory`, where that describes one.
    fn read(root: &Root, directory: &Path) -> Option<Cache> {
        Some(Cache {
            level: root.number(directory.join("level"))?.try_into().ok()?,
            kind: CacheKind::parse(&root.text(directory.join("type"))?)?,
            size: root
                .text(directory.join("size"))
                .and_then(|text| parse_cache_size(&text)),
            shared_cpu_list: root.text(directory.join("shared_cpu_list")),
        })
    }

    /// Its name and size, such as `L1d 32 KiB`.
    pub fn describe(&self) -> String {
        let name = format!("L{}{}", self.level, self.kind.suffix());
        match self.size {
            Some(size) => format!("{name} {}", format_bytes(size)),
            None => name,
        }
    }
}

/// The bytes of a cache size as sysfs writes it, such as `32768K`.
fn parse_cache_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// What the kernel tells of one CPU's place.
#[derive(Debug, Clone)]
struct Cpu {
    /// Its caches, nearest first.
    caches: Vec<Cache>,
    /// The CPUs behind its last-level cache, itself among them; `None` where that is not told.
    behind_last_level: Option<Vec<usize>>,
    /// The hardware threads of its core, itself among them.
    siblings: Vec<usize>,
    /// The package (socket) that it is in.
    package: Option<u64>,
}

impl Cpu {
    /// What `/sys/devices/system/cpu/cpuN` tells of CPU `number`.
    fn read(root: &Root, number: usize) -> Cpu {
        let directory = PathBuf::from(format!("sys/devices/system/cpu/cpu{number}"));
        let topology = directory.join("topology");
        let caches = read_caches(root, &directory.join("cache"));
        let behind_last_level = last_level(&caches)
            .and_then(|cache| cache.shared_cpu_list.as_deref())
            .and_then(parse_cpu_list);
        Cpu {
            behind_last_level,
            caches,
            // The name since Linux 5.3, then the one that it has deprecated
            // (Documentation/admin-guide/cputopology.rst).
            siblings: root
                .cpu_list(topology.join("core_cpus_list"))
                .or_else(|| root.cpu_list(topology.join("thread_siblings_list")))
                .unwrap_or_else(|| vec![number]),
            package: root.number(topology.join("physical_package_id")),
        }
    }
}

/// The caches in a CPU's `cache` directory, nearest first.
fn read_caches(root: &Root, directory: &Path) -> Vec<Cache> {
    (0..)
        .map(|index| directory.join(format!("index{index}")))
        .take_while(|index| root.0.join(index).is_dir())
        .filter_map(|index| Cache::read(root, &index))
        .collect()
}

/// The cache that is farthest from its CPU and holds data.
fn last_level(caches: &[Cache]) -> Option<&Cache> {
    caches
        .iter()
        .filter(|cache| cache.kind != CacheKind::Instruction)
        .max_by_key(|cache| cache.level)
}

/// Which CPUs there are, which of them this process may use, and what they share.
#[derive(Debug, Clone)]
pub struct Topology {
    cpus: BTreeMap<usize, Cpu>,
    allowed: Vec<usize>,
    offline: Vec<usize>,
}

impl Topology {
    /// The topology of this machine, as this process may use it.
    pub fn read() -> Topology {
        Topology::at(&Root::system(), affinity())
    }

    /// The topology of the machine under `root`, of which the process may use `affinity`.
    pub fn at(root: &Root, affinity: Option<Vec<usize>>) -> Topology {
        let online = online_cpus(root)
            .or_else(|| affinity.clone())
            .unwrap_or_else(|| vec![0]);
        let cpus: BTreeMap<usize, Cpu> = online
            .iter()
            .map(|&number| (number, Cpu::read(root, number)))
            .collect();
        let mut allowed = affinity.unwrap_or_else(|| online.clone());
        // An affinity mask keeps CPUs that have gone offline since.
        allowed.retain(|cpu| cpus.contains_key(cpu));
        if allowed.is_empty() {
            allowed = online;
        }
        let mut offline = root
            .cpu_list("sys/devices/system/cpu/present")
            .unwrap_or_default();
        offline.retain(|cpu| !cpus.contains_key(cpu));
        Topology {
            cpus,
            allowed,
            offline,
        }
    }

    /// The CPUs that are online, ascending.
    pub fn online(&self) -> Vec<usize> {
        self.cpus.keys().copied().collect()
    }

    /// The CPUs that this process may use, ascending; never empty.
    pub fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    /// The CPUs that are there, and not online, ascending.
    pub fn offline(&self) -> &[usize] {
        &self.offline
    }

    /// The hardware threads of a CPU's core that are online, itself among them.
    pub fn core(&self, cpu: usize) -> Vec<usize> {
        let siblings = self.cpus.get(&cpu).map(|place| place.siblings.as_slice());
        self.online_of(siblings.unwrap_or(&[cpu]))
    }

    /// The package (socket) that a CPU is in, where the kernel tells.
    pub fn package(&self, cpu: usize) -> Option<u64> {
        self.cpus.get(&cpu)?.package
    }

    /// A CPU's cache of that level that holds data, and the CPUs online that have this same cache;
    /// `None` where the kernel tells of none, or not who shares it.
    pub fn cache(&self, cpu: usize, level: u8) -> Option<(&Cache, Vec<usize>)> {
        let caches = &self.cpus.get(&cpu)?.caches;
        let cache = caches
            .iter()
            .find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)?;
        let sharing = parse_cpu_list(cache.shared_cpu_list.as_deref()?)?;
        Some((cache, self.online_of(&sharing)))
    }

    /// The level of the cache that is farthest from a CPU.
    pub fn last_level(&self, cpu: usize) -> Option<u8> {
        Some(last_level(&self.cpus.get(&cpu)?.caches)?.level)
    }

    fn online_of(&self, cpus: &[usize]) -> Vec<usize> {
        let online = |cpu: &usize| self.cpus.contains_key(cpu);
        cpus.iter().copied().filter(online).collect()
    }

    /// What CPUs `a` and `b` have in common, as far as the kernel tells.
    fn relation(&self, a: usize, b: usize) -> Relation {
        if a == b {
            return Relation::OneCpu;
        }
        let (Some(a_place), Some(b_place)) = (self.cpus.get(&a), self.cpus.get(&b)) else {
            return Relation::Unknown;
        };
        if a_place.siblings.contains(&b) {
            return Relation::Siblings;
        }
        match (&a_place.behind_last_level, a_place.package, b_place.package) {
            (Some(behind), ..) if behind.contains(&b) => Relation::SharedCache,
            (Some(_), ..) => Relation::DifferentCaches,
            (None, Some(a_package), Some(b_package)) if a_package == b_package => {
                Relation::SharedPackage
            }
            (None, Some(_), Some(_)) => Relation::DifferentCaches,
            (None, ..) => Relation::Unknown,
        }
    }
}

/// The CPUs that are online, ascending, from the first file that tells.
fn online_cpus(root: &Root) -> Option<Vec<usize>> {
    root.cpu_list("sys/devices/system/cpu/online")
        .or_else(|| root.text("proc/cpuinfo").map(|text| cpuinfo_cpus(&text)))
        .filter(|cpus| !cpus.is_empty())
}

/// The CPUs that this process may run on; `None` where the kernel does not tell.
fn affinity() -> Option<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    match sched_getaffinity(None) {
        Ok(set) => Some(
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect(),
        ),
        // The kernel refuses a mask smaller than its own (sched_getaffinity(2), EINVAL): more
        // than 1024 CPUs. The list in status has no such limit.
        Err(_) => parse_cpu_list(field(
            &Root::system().text("proc/self/status")?,
            "Cpus_allowed_list",
        )?),
    }
}

/// What two CPUs have in common, the best for a pipe first: the order is that of preference.
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

/// Why a CPU that was asked for cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchCpu {
    /// The CPU is not online.
    #[error("there is no CPU {cpu}; CPUs {online} are online")]
    Offline {
        /// The number of the CPU.
        cpu: usize,
        /// The CPUs that are online, such as `0-3,8`.
        online: String,
    },
    /// The affinity mask of this process does not include the CPU.
    #[error("this process may not use CPU {cpu}: a cpuset or taskset allows only CPUs {allowed}")]
    NotAllowed {
        /// The number of the CPU.
        cpu: usize,
        /// The CPUs that this process may use, such as `0-3,8`.
        allowed: String,
    },
}

/// The CPUs that the writer and the reader of an experiment are pinned to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    /// The writer's CPU.
    pub writer: usize,
    /// The reader's CPU.
    pub reader: usize,
    /// What the two have in common.
    pub relation: Relation,
    /// The last-level cache that they share, where `relation` is [`Relation::SharedCache`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cache: Option<Cache>,
}

impl CpuPair {
    /// The one that was asked for, or else the best.
    ///
    /// # Errors
    /// Where this process may not use those.
    pub fn wanted(pair: Option<(usize, usize)>, topology: &Topology) -> Result<CpuPair, Usage> {
        match pair {
            None => Ok(Self::choose(topology)),
            Some((writer, reader)) => Self::of(writer, reader, topology)
                .map_err(|error| Usage(format!("--cpus {writer},{reader}: {error}"))),
        }
    }

    /// The best pair of the CPUs that this process may use: the first in the order of
    /// [`Relation`], and of those the lowest numbers.
    pub fn choose(topology: &Topology) -> CpuPair {
        let allowed = topology.allowed();
        let pairs = allowed.iter().enumerate().flat_map(|(index, &writer)| {
            let readers = allowed[index + 1..].iter();
            readers.map(move |&reader| (writer, reader))
        });
        // `min_by_key` keeps the first of equals, and the pairs come in ascending order.
        let (writer, reader) = pairs
            .min_by_key(|&(writer, reader)| topology.relation(writer, reader))
            .unwrap_or((allowed[0], allowed[0]));
        CpuPair::related(writer, reader, topology)
    }

    /// The pair that `--cpus writer,reader` asks for.
    ///
    /// # Errors
    ///
    /// Where one of them is not online, or this process may not run on it.
    pub fn of(writer: usize, reader: usize, topology: &Topology) -> Result<CpuPair, NoSuchCpu> {
        for cpu in [writer, reader] {
            if !topology.cpus.contains_key(&cpu) {
                let online = format_cpu_list(&topology.online());
                return Err(NoSuchCpu::Offline { cpu, online });
            }
            if !topology.allowed.contains(&cpu) {
                let allowed = format_cpu_list(&topology.allowed);
                return Err(NoSuchCpu::NotAllowed { cpu, allowed });
            }
        }
        Ok(CpuPair::related(writer, reader, topology))
    }

    /// The pair with what the topology says of it.
    fn related(writer: usize, reader: usize, topology: &Topology) -> CpuPair {
        let relation = topology.relation(writer, reader);
        let shared_cache = match relation {
            Relation::SharedCache => last_level(&topology.cpus[&writer].caches).cloned(),
            _ => None,
        };
        CpuPair {
            writer,
            reader,
            relation,
            shared_cache,
        }
    }

    /// The pair in words: `CPU 0 and CPU 1, sharing a 32 MiB L3 cache`.
    pub fn describe(&self) -> String {
        let CpuPair { writer, reader, .. } = self;
        let both = format!("CPU {writer} and CPU {reader}");
        match self.relation {
            Relation::SharedCache => format!("{both}, sharing {}", self.describe_shared_cache()),
            Relation::SharedPackage => format!("{both} of one package, caches unknown"),
            Relation::DifferentCaches => format!("{both}, with different last-level caches"),
            Relation::Unknown => format!("{both}, what they share is unknown"),
            Relation::Siblings => format!("{both}, two threads of one core"),
            Relation::OneCpu => {
                format!("writer and reader share one CPU, {writer}")
            }
        }
    }

    /// The cache that both have, such as `a 32 MiB L3 cache`.
    fn describe_shared_cache(&self) -> String {
        match &self.shared_cache {
            Some(Cache {
                level,
                size: Some(size),
                ..
            }) => {
                let size = format_bytes(*size);
                format!("{} {size} L{level} cache", indefinite_article(&size))
            }
            Some(Cache { level, .. }) => format!("an L{level} cache"),
            None => "a cache".to_owned(),
        }
    }
}

/// `an` before a number that is spoken with a vowel first (8, 11, 18, 80 and the like), else `a`.
fn indefinite_article(number: &str) -> &'static str {
    let whole = number.split([' ', '.']).next().unwrap_or(number);
    if whole.starts_with('8') || whole == "11" || whole == "18" {
        "an"
    } else {
        "a"
    }
}

/// How far the kernel lets pipes grow (pipe(7), "/proc files"), and whom it stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeLimits {
    /// The largest capacity in bytes that an unprivileged process may set.
    pub max_size: Option<u64>,
    /// Pages in all pipes of a user, above which a new pipe gets one or two slots and none can be
    /// made roomier; 0 for no limit.
    pub user_pages_soft: Option<u64>,
    /// Pages in all pipes of a user, above which there are no new pipes; 0 for no limit.
    pub user_pages_hard: Option<u64>,
    /// Whether this process has `CAP_SYS_RESOURCE` in the first user namespace, so that none of
    /// these limits binds it.
    pub privileged: bool,
    /// Whether the two limits of a user do not bind this process: it has `CAP_SYS_RESOURCE` or
    /// `CAP_SYS_ADMIN` in the first user namespace. `max_size` binds it still, unless it is
    /// `privileged`.
    pub exempt_from_user_pages: bool,
}

impl PipeLimits {
    /// The limits of the machine under `root`.
    fn read(root: &Root) -> PipeLimits {
        let capabilities = Capabilities::read(root);
        PipeLimits {
            max_size: root.number("proc/sys/fs/pipe-max-size"),
            user_pages_soft: root.number("proc/sys/fs/pipe-user-pages-soft"),
            user_pages_hard: root.number("proc/sys/fs/pipe-user-pages-hard"),
            privileged: capabilities.sys_resource,
            exempt_from_user_pages: capabilities.sys_resource || capabilities.sys_admin,
        }
    }

    /// The limits in words; `None` where none is known.
    fn describe(&self) -> Option<String> {
        let pages = |name: &str, limit: Option<u64>| match limit? {
            0 => Some(format!("no {name} limit")),
            pages => Some(format!("{pages} pages ({name})")),
        };
        let a_user: Vec<String> = [
            pages("soft", self.user_pages_soft),
            pages("hard", self.user_pages_hard),
        ]
        .into_iter()
        .flatten()
        .collect();
        let a_pipe = self.max_size.map(format_bytes);
        let limits: Vec<String> = [
            a_pipe.map(|size| format!("{size} per pipe")),
            (!a_user.is_empty()).then(|| format!("{} per user", a_user.join(", "))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let lifted = match (self.privileged, self.exempt_from_user_pages) {
            (true, _) => "; not enforced for this process (CAP_SYS_RESOURCE)",
            (false, true) => {
                "; the limits per user are not enforced for this process (CAP_SYS_ADMIN)"
            }
            (false, false) => "",
        };
        (!limits.is_empty()).then(|| limits.join("; ") + lifted)
    }
}

/// The capabilities that lift what this program meets, where this process has them.
///
/// The kernel asks for them with `capable()` (for pipes, fs/pipe.c, `pipe_set_size` and
/// `pipe_is_unprivileged_user`), which means the first user namespace. In a rootless container
/// every capability reads as set, and none lifts a limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities {
    /// Lifts the limits of a user's pipes.
    pub sys_admin: bool,
    /// Lifts all limits of pipes.
    pub sys_resource: bool,
    /// Lifts the limits of sockets' buffers.
    pub net_admin: bool,
    /// Opens other processes.
    pub sys_ptrace: bool,
    /// Lifts `ulimit -l`.
    pub ipc_lock: bool,
    /// Shows the kernel's addresses.
    pub syslog: bool,
    /// Lifts `perf_event_paranoid`.
    pub perfmon: bool,
}

impl Capabilities {
    /// What `/proc/self/status` says of them; none where it says nothing.
    pub fn read(root: &Root) -> Capabilities {
        // The numbers of include/uapi/linux/capability.h.
        const CAP_NET_ADMIN: u32 = 12;
        const CAP_IPC_LOCK: u32 = 14;
        const CAP_SYS_PTRACE: u32 = 19;
        const CAP_SYS_ADMIN: u32 = 21;
        const CAP_SYS_RESOURCE: u32 = 24;
        const CAP_SYSLOG: u32 = 34;
        const CAP_PERFMON: u32 = 38;
        let effective = root
            .text("proc/self/status")
            .filter(|_| in_first_user_namespace(root))
            .and_then(|status| u64::from_str_radix(field(&status, "CapEff")?, 16).ok())
            .unwrap_or(0);
        let has = |capability: u32| effective & (1 << capability) != 0;
        Capabilities {
            sys_admin: has(CAP_SYS_ADMIN),
            sys_resource: has(CAP_SYS_RESOURCE),
            net_admin: has(CAP_NET_ADMIN),
            sys_ptrace: has(CAP_SYS_PTRACE),
            ipc_lock: has(CAP_IPC_LOCK),
            syslog: has(CAP_SYSLOG),
            // What CAP_PERFMON lifts, CAP_SYS_ADMIN lifts too (perfmon_capable()).
            perfmon: has(CAP_PERFMON) || has(CAP_SYS_ADMIN),
        }
    }
}

/// Whether this process is in the first user namespace, which maps every id to itself
/// (user_namespaces(7), "User and group ID mappings"). A kernel without namespaces has no map.
fn in_first_user_namespace(root: &Root) -> bool {
    root.text("proc/self/uid_map").is_none_or(|map| {
        let words: Vec<&str> = map.split_whitespace().collect();
        words == ["0", "0", "4294967295"]
    })
}

/// What figures depend on: the machine, and the two CPUs they were taken on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release, such as `6.12.30`.
    pub kernel: Option<String>,
    /// The architecture that this program was compiled for, such as `x86_64`.
    pub architecture: String,
    /// The CPU's model, as it or the firmware names it.
    pub cpu_model: Option<String>,
    /// How many CPUs are online.
    pub cpus_online: usize,
    /// How many CPUs this process may use.
    pub cpus_allowed: usize,
    /// The caches of the writer's CPU, nearest first; empty where the kernel does not tell.
    pub caches: Vec<Cache>,
    /// The hypervisor below the kernel; `None` where none was seen.
    pub hypervisor: Option<String>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// The size of a base page in bytes.
    pub page_size: u64,
    /// The size of a transparent huge page in bytes.
    pub huge_page_size: Option<u64>,
    /// The setting of transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// How many hugetlb pages of the default size are free.
    pub hugetlb_pages_free: Option<u64>,
    /// How far pipes may grow.
    pub pipe_limits: PipeLimits,
    /// The CPUs of the writer and the reader.
    pub cpus: CpuPair,
}

impl Machine {
    /// This machine, with the writer and the reader on `cpus`.
    pub fn read(cpus: CpuPair) -> Machine {
        let cpuid = hypervisor_of_cpuid();
        Machine::at(&Root::system(), &Topology::read(), cpus, cpuid)
    }

    /// The machine under `root`, whose CPU calls its hypervisor `cpuid`.
    pub(crate) fn at(
        root: &Root,
        topology: &Topology,
        cpus: CpuPair,
        cpuid: Option<&str>,
    ) -> Machine {
        let meminfo = root.text("proc/meminfo").unwrap_or_default();
        let transparent = Path::new("sys/kernel/mm/transparent_hugepage");
        Machine {
            kernel: kernel_release(root),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu_model: cpu_model(root, cpus.writer),
            cpus_online: topology.cpus.len(),
            cpus_allowed: topology.allowed.len(),
            caches: topology
                .cpus
                .get(&cpus.writer)
                .map(|cpu| cpu.caches.clone())
                .unwrap_or_default(),
            hypervisor: hypervisor(root, cpuid),
            memory: meminfo_number(&meminfo, "MemTotal").map(|kibibytes| kibibytes * 1024),
            page_size: rustix::param::page_size() as u64,
            huge_page_size: root.number(transparent.join("hpage_pmd_size")),
            transparent_huge_pages: root
                .text(transparent.join("enabled"))
                .and_then(|text| bracketed_word(&text).map(str::to_owned)),
            hugetlb_pages_free: meminfo_number(&meminfo, "HugePages_Free"),
            pipe_limits: PipeLimits::read(root),
            cpus,
        }
    }

    /// The machine for people, as labelled lines; what is not known has none.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let lines = [
            ("kernel", Some(self.describe_kernel())),
            ("CPU", Some(self.describe_cpu())),
            ("caches", self.describe_caches()),
            ("memory", Some(self.describe_memory())),
            ("hypervisor", self.hypervisor.clone()),
            ("huge pages", self.describe_huge_pages()),
            ("pipe limits", self.pipe_limits.describe()),
            ("CPUs used", Some(self.cpus.describe())),
        ];
        lines
            .into_iter()
            .filter_map(|(label, value)| Some((label, value?)))
            .collect()
    }

    fn describe_kernel(&self) -> String {
        let release = self.kernel.as_deref().unwrap_or("unknown release");
        format!("Linux {release} on {}", self.architecture)
    }

    fn describe_cpu(&self) -> String {
        let model = self.cpu_model.as_deref().unwrap_or("model unknown");
        let (online, allowed) = (self.cpus_online, self.cpus_allowed);
        if online == allowed {
            format!("{model}, {online} online")
        } else {
            format!("{model}, {online} online, {allowed} allowed")
        }
    }

    fn describe_caches(&self) -> Option<String> {
        let all: Vec<String> = self.caches.iter().map(Cache::describe).collect();
        let shared = last_level(&self.caches).and_then(|cache| {
            let list = cache.shared_cpu_list.as_deref()?;
            let alone = list == self.cpus.writer.to_string();
            (!alone).then(|| format!(" (of CPUs {list})"))
        });
        (!all.is_empty()).then(|| all.join(", ") + &shared.unwrap_or_default())
    }

    fn describe_memory(&self) -> String {
        let pages = format!("base pages of {}", format_bytes(self.page_size));
        match self.memory {
            Some(memory) => format!("{}, {pages}", format_bytes(memory)),
            None => pages,
        }
    }

    fn describe_huge_pages(&self) -> Option<String> {
        let parts: Vec<String> = [
            self.huge_page_size.map(format_bytes),
            self.transparent_huge_pages
                .as_ref()
                .map(|setting| format!("transparent: {setting}")),
            self.hugetlb_pages_free
                .map(|free| format!("hugetlb: {free} free")),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The kernel's release: what uname(2) says, from the files that show it.
fn kernel_release(root: &Root) -> Option<String> {
    root.text("proc/sys/kernel/osrelease").or_else(|| {
        // "Linux version 6.12.30 (builder@host) …"
        let version = root.text("proc/version")?;
        version.split_whitespace().nth(2).map(str::to_owned)
    })
}

/// The value of `key` in lines of `key : value`; `None` where it is missing or empty.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// The number of `key` in `/proc/meminfo`, in the unit it has there: KiB, or none.
fn meminfo_number(meminfo: &str, key: &str) -> Option<u64> {
    field(meminfo, key)?.split_whitespace().next()?.parse().ok()
}

/// The word in brackets, by which sysfs marks the setting in force: `always [madvise] never`.
pub fn bracketed_word(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// The CPUs that `/proc/cpuinfo` describes, ascending.
fn cpuinfo_cpus(cpuinfo: &str) -> Vec<usize> {
    let mut cpus: Vec<usize> = cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.trim() == "processor")
        .filter_map(|(_, number)| number.trim().parse().ok())
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The lines that `/proc/cpuinfo` has for `cpu`, else all of them: the cores of one machine may
/// differ (big.LITTLE), and some architectures describe all CPUs at once.
fn cpuinfo_of(cpuinfo: &str, cpu: usize) -> &str {
    let number = cpu.to_string();
    cpuinfo
        .split("\n\n")
        .find(|block| field(block, "processor") == Some(&number))
        .unwrap_or(cpuinfo)
}

/// What architectures call the model in `/proc/cpuinfo`: x86, MIPS, POWER, RISC-V.
const CPU_MODEL_KEYS: [&str; 4] = ["model name", "cpu model", "cpu", "uarch"];

/// Arm cores by implementer and part, which is all that `/proc/cpuinfo` says of them.
/// From the kernel's arch/arm64/include/asm/cputype.h.
const ARM_CORES: [(&str, &str, &str); 16] = [
    ("0x41", "0xd03", "Arm Cortex-A53"),
    ("0x41", "0xd05", "Arm Cortex-A55"),
    ("0x41", "0xd07", "Arm Cortex-A57"),
    ("0x41", "0xd08", "Arm Cortex-A72"),
    ("0x41", "0xd0b", "Arm Cortex-A76"),
    ("0x41", "0xd0c", "Arm Neoverse N1"),
    ("0x41", "0xd40", "Arm Neoverse V1"),
    ("0x41", "0xd41", "Arm Cortex-A78"),
    ("0x41", "0xd49", "Arm Neoverse N2"),
    ("0x41", "0xd4f", "Arm Neoverse V2"),
    ("0x41", "0xd84", "Arm Neoverse V3"),
    ("0x41", "0xd8e", "Arm Neoverse N3"),
    ("0x61", "0x022", "Apple M1 Icestorm"),
    ("0x61", "0x023", "Apple M1 Firestorm"),
    ("0xc0", "0xac3", "Ampere-1"),
    ("0xc0", "0xac4", "Ampere-1A"),
];

/// The model of `cpu`, or failing that of the board.
fn cpu_model(root: &Root, cpu: usize) -> Option<String> {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let cpuinfo = cpuinfo_of(&cpuinfo, cpu);
    let named = CPU_MODEL_KEYS.iter().find_map(|key| field(cpuinfo, key));
    named
        .or_else(|| arm_core(cpuinfo))
        .map(|model| model.split_whitespace().collect::<Vec<_>>().join(" "))
        .or_else(|| root.text("proc/device-tree/model"))
        .or_else(|| {
            let implementer = field(cpuinfo, "CPU implementer")?;
            let part = field(cpuinfo, "CPU part")?;
            Some(format!("Arm implementer {implementer} part {part}"))
        })
}

/// The name of the Arm core that these lines describe, where we know it.
fn arm_core(cpuinfo: &str) -> Option<&'static str> {
    let implementer = field(cpuinfo, "CPU implementer")?;
    let part = field(cpuinfo, "CPU part")?;
    ARM_CORES
        .iter()
        .find(|core| (core.0, core.1) == (implementer, part))
        .map(|core| core.2)
}

/// The hypervisor below this kernel and the product that it makes up, such as
/// `KVM (Amazon EC2 m7a.large)`; `None` where there is no sign of one.
///
/// DMI names the product of a bare machine as well, so it counts only where something else says
/// that there is a hypervisor.
fn hypervisor(root: &Root, cpuid: Option<&str>) -> Option<String> {
    let name = cpuid
        .map(str::to_owned)
        .or_else(|| root.text("sys/hypervisor/type"))
        .or_else(|| root.text("proc/device-tree/hypervisor/compatible"));
    if name.is_none() && !has_hypervisor_flag(root) {
        return None;
    }
    match (name, dmi_product(root)) {
        (Some(name), Some(product)) => Some(format!("{name} ({product})")),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => Some("unknown hypervisor".to_owned()),
    }
}

/// Whether `/proc/cpuinfo` shows the flag that a CPU has only under a hypervisor.
fn has_hypervisor_flag(root: &Root) -> bool {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    field(&cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The vendor and the product that the firmware names.
fn dmi_product(root: &Root) -> Option<String> {
    let names: Vec<String> = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| root.text(format!("sys/class/dmi/id/{file}")))
        .collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// The hypervisor as it names itself to its guests (CPUID leaf 0x4000_0000).
#[cfg(target_arch = "x86_64")]
fn hypervisor_of_cpuid() -> Option<&'static str> {
    use raw_cpuid::{CpuId, Hypervisor};
    match CpuId::new().get_hypervisor_info()?.identify() {
        Hypervisor::Xen => Some("Xen"),
        Hypervisor::VMware => Some("VMware"),
        Hypervisor::HyperV => Some("Hyper-V"),
        Hypervisor::KVM => Some("KVM"),
        Hypervisor::QEMU => Some("QEMU without an accelerator"),
        Hypervisor::Bhyve => Some("bhyve"),
        Hypervisor::QNX => Some("QNX"),
        Hypervisor::ACRN => Some("ACRN"),
        Hypervisor::Unknown(..) => None,
    }
}

/// Other architectures have no instruction for it.
#[cfg(not(target_arch = "x86_64"))]
fn hypervisor_of_cpuid() -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fixture;

    /// Four cores of two threads each (0,4 1,5 2,6 3,7) behind one L3 cache.
    fn smt() -> Fixture {
        let fixture = Fixture::new(&[]).online("0-7");
        for cpu in 0..8 {
            let core = cpu % 4;
            fixture.cpu(cpu, &format!("{core},{}", core + 4), "0-7");
        }
        fixture
    }

    /// Eight cores without threads, four behind each of two L3 caches.
    fn two_l3() -> Fixture {
        let fixture = Fixture::new(&[]).online("0-7");
        for cpu in 0..8 {
            let l3 = if cpu < 4 { "0-3" } else { "4-7" };
            fixture.cpu(cpu, &cpu.to_string(), l3);
        }
        fixture
    }

    fn chosen(fixture: &Fixture, allowed: &str) -> (usize, usize, Relation) {
        let pair = CpuPair::choose(&fixture.topology(allowed));
        (pair.writer, pair.reader, pair.relation)
    }

    #[test]
    fn cpu_lists_are_read_as_the_kernel_writes_them() {
        let cases: [(&str, Option<&[usize]>); 9] = [
            ("0", Some(&[0])),
            ("0-3", Some(&[0, 1, 2, 3])),
            ("0-3,8", Some(&[0, 1, 2, 3, 8])),
            ("8,0-1\n", Some(&[0, 1, 8])),
            ("", Some(&[])),
            ("3-1", None),
            ("a", None),
            ("-1", None),
            ("0-99999999999", None),
        ];
        for (text, cpus) in cases {
            assert_eq!(parse_cpu_list(text).as_deref(), cpus, "{text:?}");
        }
    }

    #[test]
    fn cpu_lists_are_written_as_they_are_read() {
        for list in ["0", "0-3", "0-3,8", "0,4", "1-2,4-5,9"] {
            assert_eq!(format_cpu_list(&parse_cpu_list(list).unwrap()), list);
        }
    }

    #[test]
    fn bytes_are_written_in_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 B"),
            (512, "512 B"),
            (32 << 10, "32 KiB"),
            (1536 << 10, "1.5 MiB"),
            (32 << 20, "32 MiB"),
            (1 << 40, "1 TiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(format_bytes(bytes), text);
        }
    }

    #[test]
    fn cache_sizes_are_read_with_their_unit() {
        assert_eq!(parse_cache_size("32768K"), Some(32 << 20));
        assert_eq!(parse_cache_size("1M"), Some(1 << 20));
        assert_eq!(parse_cache_size("64"), Some(64));
        assert_eq!(parse_cache_size("many"), None);
    }

    #[test]
    fn two_cores_behind_one_cache_are_preferred_to_two_threads_of_one_core() {
        assert_eq!(chosen(&smt(), "0-7"), (0, 1, Relation::SharedCache));
        assert_eq!(chosen(&smt(), "0,4-5"), (0, 5, Relation::SharedCache));
    }

    #[test]
    fn two_threads_of_one_core_are_taken_where_there_is_no_other_core() {
        assert_eq!(chosen(&smt(), "0,4"), (0, 4, Relation::Siblings));
    }

    #[test]
    fn cores_behind_one_cache_are_preferred_to_lower_numbers() {
        assert_eq!(chosen(&two_l3(), "0-7"), (0, 1, Relation::SharedCache));
        assert_eq!(chosen(&two_l3(), "3-5"), (4, 5, Relation::SharedCache));
    }

    #[test]
    fn cores_behind_different_caches_are_taken_where_no_cache_is_shared() {
        assert_eq!(chosen(&two_l3(), "3,4"), (3, 4, Relation::DifferentCaches));
    }

    #[test]
    fn a_single_cpu_is_both_writer_and_reader() {
        let single = Fixture::new(&[]).online("0");
        single.cpu(0, "0", "0");
        assert_eq!(chosen(&single, "0"), (0, 0, Relation::OneCpu));
        assert_eq!(chosen(&smt(), "3"), (3, 3, Relation::OneCpu));
        assert_eq!(single.machine().cpus_online, 1);
    }

    #[test]
    fn without_caches_the_package_decides() {
        let fixture = Fixture::new(&[]).online("0-3");
        for cpu in 0..4 {
            let package = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            fixture.file(&package, if cpu % 2 == 0 { "0" } else { "1" });
        }
        assert_eq!(chosen(&fixture, "0-3"), (0, 2, Relation::SharedPackage));
        assert_eq!(chosen(&fixture, "0-1"), (0, 1, Relation::DifferentCaches));
        assert_eq!(fixture.machine().caches, []);
    }

    #[test]
    fn the_names_that_kernels_before_5_3_use_are_understood() {
        let fixture = Fixture::new(&[
            (
                "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
                "0-1",
            ),
            (
                "sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
                "0-1",
            ),
        ])
        .online("0-1");
        assert_eq!(chosen(&fixture, "0-1"), (0, 1, Relation::Siblings));
    }

    #[test]
    fn without_sys_the_cpus_come_from_cpuinfo() {
        let fixture = Fixture::new(&[("proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n")]);
        assert_eq!(chosen(&fixture, "0-1"), (0, 1, Relation::Unknown));
        assert_eq!(fixture.topology("0-1").online(), [0, 1]);
    }

    #[test]
    fn allowed_cpus_that_are_offline_are_not_chosen() {
        assert_eq!(smt().topology("6-9").allowed(), [6, 7]);
    }

    #[test]
    fn an_asked_for_pair_is_taken_in_the_order_asked_for() {
        let pair = CpuPair::of(5, 0, &smt().topology("0-7")).unwrap();
        assert_eq!((pair.writer, pair.reader), (5, 0));
        assert_eq!(pair.relation, Relation::SharedCache);
        let one = CpuPair::of(2, 2, &smt().topology("0-7")).unwrap();
        assert_eq!(one.relation, Relation::OneCpu);
    }

    #[test]
    fn an_asked_for_cpu_that_is_not_there_or_not_allowed_is_named() {
        let topology = smt().topology("0-3");
        let absent = CpuPair::of(0, 64, &topology).unwrap_err().to_string();
        assert_eq!(absent, "there is no CPU 64; CPUs 0-7 are online");
        let refused = CpuPair::of(5, 0, &topology).unwrap_err().to_string();
        assert!(refused.contains("may not use CPU 5"), "{refused}");
        assert!(refused.contains("allows only CPUs 0-3"), "{refused}");
    }

    #[test]
    fn pairs_are_described_for_people() {
        let cases = [
            (smt(), (0, 1), "CPU 0 and CPU 1, sharing a 32 MiB L3 cache"),
            (smt(), (0, 4), "CPU 0 and CPU 4, two threads of one core"),
            (
                two_l3(),
                (0, 4),
                "CPU 0 and CPU 4, with different last-level caches",
            ),
            (smt(), (3, 3), "writer and reader share one CPU, 3"),
        ];
        for (fixture, (writer, reader), words) in cases {
            let pair = CpuPair::of(writer, reader, &fixture.topology("0-7")).unwrap();
            assert_eq!(pair.describe(), words);
        }
        assert_eq!(indefinite_article("8 MiB"), "an");
        assert_eq!(indefinite_article("1.5 MiB"), "a");
    }

    #[test]
    fn relations_are_serialised_in_kebab_case() {
        let json = serde_json::to_string(&Relation::SharedCache).unwrap();
        assert_eq!(json, "\"shared-cache\"");
    }

    #[test]
    fn a_machine_that_tells_everything_is_read_in_full() {
        let fixture = smt();
        let files = [
            ("proc/sys/kernel/osrelease", "6.12.30\n"),
            (
                "proc/cpuinfo",
                "processor : 0\nmodel name : Some  CPU @ 3 GHz\nflags : fpu hypervisor\n",
            ),
            ("proc/meminfo", "MemTotal:  1024 kB\nHugePages_Free:  7\n"),
            ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
            ("sys/class/dmi/id/product_name", "m7a.large\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            (
                "sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
                "2097152\n",
            ),
            ("proc/sys/fs/pipe-max-size", "1048576\n"),
            ("proc/sys/fs/pipe-user-pages-soft", "16384\n"),
            ("proc/sys/fs/pipe-user-pages-hard", "0\n"),
            ("proc/self/status", "CapEff:\t0000000001000000\n"),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
        ];
        for (path, text) in files {
            fixture.file(path, text);
        }
        let machine = fixture.machine();
        assert_eq!(machine.kernel.as_deref(), Some("6.12.30"));
        assert_eq!(machine.cpu_model.as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(machine.hypervisor.as_deref(), Some("Amazon EC2 m7a.large"));
        assert_eq!(machine.memory, Some(1 << 20));
        assert_eq!(machine.huge_page_size, Some(2 << 20));
        assert_eq!(machine.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!(machine.hugetlb_pages_free, Some(7));
        assert_eq!(machine.caches.len(), 2);
        assert!(machine.pipe_limits.privileged);
        let lines: BTreeMap<_, _> = machine.lines().into_iter().collect();
        assert_eq!(lines["caches"], "L1d 32 KiB, L3 32 MiB (of CPUs 0-7)");
        assert_eq!(
            lines["huge pages"],
            "2 MiB, transparent: madvise, hugetlb: 7 free"
        );
        assert_eq!(
            lines["pipe limits"],
            "1 MiB per pipe; 16384 pages (soft), no hard limit per user; \
             not enforced for this process (CAP_SYS_RESOURCE)"
        );
    }

    #[test]
    fn a_machine_that_tells_nothing_is_all_none() {
        let machine = Fixture::new(&[]).machine();
        assert_eq!(machine.kernel, None);
        assert_eq!(machine.cpu_model, None);
        assert_eq!(machine.caches, []);
        assert_eq!(machine.hypervisor, None);
        assert_eq!(machine.memory, None);
        assert_eq!(machine.huge_page_size, None);
        assert_eq!(machine.transparent_huge_pages, None);
        assert_eq!(machine.hugetlb_pages_free, None);
        assert_eq!(machine.pipe_limits.max_size, None);
        assert_eq!(machine.pipe_limits.user_pages_soft, None);
        assert_eq!(machine.pipe_limits.user_pages_hard, None);
        assert!(!machine.pipe_limits.privileged);
        assert!(
            machine
                .lines()
                .iter()
                .all(|(label, _)| *label != "pipe limits")
        );
    }

    #[test]
    fn root_in_a_container_is_not_privileged() {
        let fixture = Fixture::new(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
            ("proc/self/uid_map", "0 1000 1\n1 100000 65536\n"),
        ]);
        let limits = fixture.machine().pipe_limits;
        assert!(!limits.privileged);
        assert!(!limits.exempt_from_user_pages);
    }

    #[test]
    fn without_sys_resource_the_administrator_is_bound_by_the_largest_size_only() {
        let fixture = Fixture::new(&[("proc/self/status", "CapEff:\t000001fffeffffff\n")]);
        let limits = fixture.machine().pipe_limits;
        assert!(!limits.privileged);
        assert!(limits.exempt_from_user_pages);
    }

    #[test]
    fn arm_cores_are_named_from_their_numbers_and_the_board_stands_in() {
        let numbers = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n";
        let known = Fixture::new(&[("proc/cpuinfo", numbers)]);
        assert_eq!(
            known.machine().cpu_model.as_deref(),
            Some("Arm Neoverse N1")
        );

        let numbers = "processor : 0\nCPU implementer : 0x42\nCPU part : 0x001\n";
        let unknown = Fixture::new(&[("proc/cpuinfo", numbers)]);
        let model = unknown.machine().cpu_model;
        assert_eq!(model.as_deref(), Some("Arm implementer 0x42 part 0x001"));
        unknown.file("proc/device-tree/model", "Some Board\0");
        assert_eq!(unknown.machine().cpu_model.as_deref(), Some("Some Board"));
    }

    #[test]
    fn a_bare_machine_is_not_taken_for_its_dmi_product() {
        let fixture = Fixture::new(&[
            ("proc/cpuinfo", "processor : 0\nflags : fpu vme\n"),
            ("sys/class/dmi/id/sys_vendor", "LENOVO"),
        ]);
        assert_eq!(fixture.machine().hypervisor, None);
    }

    #[test]
    fn the_hypervisor_is_named_with_its_product_as_far_as_either_is_known() {
        let silent = Fixture::new(&[]);
        let named = hypervisor(&silent.root(), Some("KVM"));
        assert_eq!(named.as_deref(), Some("KVM"));

        let cloud = Fixture::new(&[("sys/class/dmi/id/sys_vendor", "Amazon EC2")]);
        let named = hypervisor(&cloud.root(), Some("KVM"));
        assert_eq!(named.as_deref(), Some("KVM (Amazon EC2)"));
        assert_eq!(hypervisor(&cloud.root(), None), None);

        let flag_only = Fixture::new(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
        let named = hypervisor(&flag_only.root(), None);
        assert_eq!(named.as_deref(), Some("unknown hypervisor"));
    }

    #[test]
    fn the_kernel_release_is_found_in_the_version_too() {
        let fixture = Fixture::new(&[("proc/version", "Linux version 4.4.0 (a@b) #1\n")]);
        assert_eq!(fixture.machine().kernel.as_deref(), Some("4.4.0"));
    }

    #[test]
    fn this_machine_can_be_read_and_survives_json() {
        let machine = Machine::read(CpuPair::choose(&Topology::read()));
        let json = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
        assert!(machine.lines().len() >= 3);
    }
}

//! What a figure depends on besides the code: the machine, and which two CPUs it was taken on.
//!
//! Everything is read from `/proc` and `/sys`, and any of it can be missing: a container hides
//! `/sys`, a virtual machine may not show its caches, gVisor has no pipe limits. A missing fact is
//! `None` and left out of what people see; reading never fails and never panics.
//!
//! The choice of the two CPUs ([`Topology`], [`CpuPair`]) has more effect than most experiments:
//! with a shared cache the reader finds there what the writer has just written; without one, every
//! byte crosses from one cache to the other. [`Machine`] holds the other facts.

mod cache;
mod capabilities;
mod files;
mod hypervisor;
mod model;
mod pair;
mod pipe_limits;
mod topology;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::size;
use crate::text::joined;
use cache::last_level;
use hypervisor::hypervisor;
use model::cpu_model;

pub use cache::{Cache, CacheKind};
pub use capabilities::Capabilities;
pub use files::{Root, access_mode, bracketed_word, field, format_cpu_list, parse_cpu_list};
pub use pair::CpuPair;
pub use pipe_limits::PipeLimits;
pub use topology::{Relation, Topology};

/// The facts that figures depend on: the machine, and the two CPUs on which they were measured.
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
    /// Reads the facts about this machine, with the writer and the reader on `cpus`.
    pub fn read(cpus: CpuPair) -> Machine {
        Machine::at(&Root::system(), &Topology::read(), cpus)
    }

    /// Reads the facts about the machine under `root`.
    pub(crate) fn at(root: &Root, topology: &Topology, cpus: CpuPair) -> Machine {
        let meminfo = root.text("proc/meminfo").unwrap_or_default();
        let transparent = Path::new("sys/kernel/mm/transparent_hugepage");
        let enabled = root.text(transparent.join("enabled"));
        Machine {
            kernel: kernel_release(root),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu_model: cpu_model(root, cpus.writer),
            cpus_online: topology.online().len(),
            cpus_allowed: topology.allowed().len(),
            caches: topology.caches(cpus.writer).to_vec(),
            hypervisor: hypervisor(root),
            memory: meminfo_number(&meminfo, "MemTotal").map(|kibibytes| kibibytes * 1024),
            page_size: rustix::param::page_size() as u64,
            huge_page_size: root.number(transparent.join("hpage_pmd_size")),
            transparent_huge_pages: enabled
                .and_then(|text| bracketed_word(&text).map(str::to_owned)),
            hugetlb_pages_free: meminfo_number(&meminfo, "HugePages_Free"),
            pipe_limits: PipeLimits::read(root),
            cpus,
        }
    }

    /// Returns the facts for people, as labels and values. An unknown fact is left out.
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
        let lines = lines.into_iter();
        lines
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
        let pages = format!("base pages of {}", size::format(self.page_size));
        match self.memory {
            Some(memory) => format!("{}, {pages}", size::format(memory)),
            None => pages,
        }
    }

    fn describe_huge_pages(&self) -> Option<String> {
        let transparent = self.transparent_huge_pages.as_ref();
        let transparent = transparent.map(|setting| format!("transparent: {setting}"));
        let free = self
            .hugetlb_pages_free
            .map(|free| format!("hugetlb: {free} free"));
        joined(
            [self.huge_page_size.map(size::format), transparent, free],
            ", ",
        )
    }
}

/// Returns the release of the kernel as uname(2) gives it, from files.
fn kernel_release(root: &Root) -> Option<String> {
    root.text("proc/sys/kernel/osrelease").or_else(|| {
        // "Linux version 6.12.30 (builder@host) …"
        let version = root.text("proc/version")?;
        version.split_whitespace().nth(2).map(str::to_owned)
    })
}

/// Returns the bytes of memory that programs can get without swapping (proc_meminfo(5), `MemAvailable`).
pub fn available_memory() -> Option<u64> {
    let meminfo = Root::system().text("proc/meminfo")?;
    meminfo_number(&meminfo, "MemAvailable").map(|kibibytes| kibibytes * 1024)
}

/// Returns the number of `key` in `/proc/meminfo`, in the unit it has there: KiB, or none.
fn meminfo_number(meminfo: &str, key: &str) -> Option<u64> {
    field(meminfo, key)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fixture;
    use std::collections::BTreeMap;

    #[test]
    fn a_machine_that_tells_everything_is_read_in_full() {
        let fixture = Fixture::smt();
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

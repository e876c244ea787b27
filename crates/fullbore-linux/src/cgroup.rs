//! The limit on the memory of this process's cgroup (cgroups(7)).
//!
//! The memory of a process, the pages in its pipes, and the kernel memory for both count against its memory cgroup and
//! every ancestor of it. The lowest of their limits applies.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns how many bytes of memory all processes of this process's cgroup may use, or `None` if there is no limit or
/// none can be read. It is the lowest `memory.max` or `memory.high` (cgroup v2), or `memory.limit_in_bytes` (v1), of
/// the cgroup and its ancestors.
///
/// The limit is read once, at the first call.
pub fn memory_limit() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    let read = |path: &Path| fs::read_to_string(path).ok();
    *LIMIT.get_or_init(|| lowest_limit(&cgroup_directories("memory"), read))
}

/// Returns the directories of this process's cgroup and its ancestors, nearest first, in the v2 hierarchy and in the v1
/// hierarchy of `controller`; none if /proc cannot be read.
pub fn cgroup_directories(controller: &str) -> Vec<PathBuf> {
    let read = |name| fs::read_to_string(name).unwrap_or_default();
    let (cgroups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    directories_of(&cgroups, &mounts, controller)
}

/// Returns the directories, given the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
pub(crate) fn directories_of(cgroups: &str, mounts: &str, controller: &str) -> Vec<PathBuf> {
    let hierarchies = [("", "cgroup2"), (controller, "cgroup")].into_iter();
    let found = hierarchies.filter_map(|(controller, kind)| {
        let cgroup = cgroup_of(cgroups, controller)?;
        directories(cgroup, mounts, kind, controller)
    });
    found.flatten().collect()
}

/// Returns the lowest limit in these directories, given a function that reads files.
pub(crate) fn lowest_limit(
    directories: &[PathBuf],
    read: impl Fn(&Path) -> Option<String>,
) -> Option<u64> {
    let names = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let files = (directories.iter()).flat_map(|directory| names.map(|name| directory.join(name)));
    // Without a limit, v2 has `max`, and v1 has the largest number of whole pages
    // (PAGE_COUNTER_MAX, include/linux/page_counter.h).
    files
        .filter_map(|file| read(&file)?.trim().parse::<u64>().ok())
        .filter(|&bytes| bytes < 1 << 62)
        .min()
}

/// Returns the process's cgroup in the hierarchy with this controller; the name of the v2 hierarchy is empty.
fn cgroup_of<'a>(cgroups: &'a str, controller: &str) -> Option<&'a str> {
    cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let mut controllers = fields.next()?.split(',');
        let path = fields.next()?;
        controllers.any(|name| name == controller).then_some(path)
    })
}

/// Returns the directories of `cgroup` and its ancestors, as far as the hierarchy is mounted.
fn directories(cgroup: &str, mounts: &str, kind: &str, controller: &str) -> Option<Vec<PathBuf>> {
    mounts.lines().find_map(|line| {
        let (mount, of) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, Path::new(mount.next()?));
        let mut of = of.split(' ');
        let is_kind = of.next()? == kind;
        let mut options = of.nth(1)?.split(',');
        if !is_kind || !options.any(|o| controller.is_empty() || o == controller) {
            return None;
        }
        // A container may have mounted only its own subtree.
        let below = Path::new(cgroup).strip_prefix(root);
        let ancestors = below.unwrap_or(Path::new("")).ancestors();
        Some(ancestors.map(|directory| point.join(directory)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
9:name=systemd:/
4:cpu,memory:/jobs/one
0::/
";
    const V1_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const V2: &str = "0::/user.slice/shell.scope\n";
    const V2_MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    fn limit(cgroups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        lowest_limit(&directories_of(cgroups, mounts, "memory"), |path| {
            files
                .iter()
                .find(|(name, _)| Path::new(name) == path)
                .map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_limit_is_the_lowest_of_a_cgroup_and_those_above_it() {
        let unlimited = "9223372036854771712\n";
        let v1 = |own, above| {
            limit(
                V1,
                V1_MOUNTS,
                &[
                    ("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", own),
                    ("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", above),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited),
                ],
            )
        };
        assert_eq!(v1("4194304\n", unlimited), Some(4 << 20));
        assert_eq!(v1("8388608\n", "4194304\n"), Some(4 << 20));
        assert_eq!(v1(unlimited, unlimited), None);
        let v2 = |own, high, above| {
            limit(
                V2,
                V2_MOUNTS,
                &[
                    ("/sys/fs/cgroup/user.slice/shell.scope/memory.max", own),
                    ("/sys/fs/cgroup/user.slice/shell.scope/memory.high", high),
                    ("/sys/fs/cgroup/user.slice/memory.max", above),
                ],
            )
        };
        assert_eq!(v2("max\n", "max\n", "max\n"), None);
        assert_eq!(v2("8388608\n", "max\n", "max\n"), Some(8 << 20));
        assert_eq!(v2("max\n", "4194304\n", "8388608\n"), Some(4 << 20));
        assert_eq!(v2("max\n", "max\n", "4194304\n"), Some(4 << 20));
    }

    #[test]
    fn in_a_container_the_limit_is_where_its_part_of_the_hierarchy_is_mounted() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let files = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "16777216\n")];
        for cgroups in ["4:memory:/docker/abc\n", "4:memory:/elsewhere\n"] {
            assert_eq!(limit(cgroups, mounts, &files), Some(16 << 20));
        }
        let files = [(
            "/sys/fs/cgroup/memory/inner/memory.limit_in_bytes",
            "4194304\n",
        )];
        let inner = "4:memory:/docker/abc/inner\n";
        assert_eq!(limit(inner, mounts, &files), Some(4 << 20));
    }

    #[test]
    fn where_nothing_can_be_read_there_is_no_limit() {
        assert_eq!(limit("", "", &[]), None);
        assert_eq!(limit(V1, "", &[]), None);
        assert_eq!(limit(V2, V2_MOUNTS, &[]), None);
        assert_eq!(limit("nonsense", "nonsense - more", &[]), None);
    }
}

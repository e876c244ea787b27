//! A memory cgroup with a limit, which is removed when the run ends (cgroups(7)).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use procfs::process::MountInfos;
use procfs::{FromRead, ProcessCGroups};
use serde::{Deserialize, Serialize};

use crate::keeper::{Keeper, wait_for_the_end_of_stdin};
use crate::part::Task;
use crate::process::{self, Process};
use crate::program::Program;
use fullbore_host::refusal::Unsupported;

/// The files of a memory cgroup, which have other names in each version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    V1,
    V2,
}

impl Version {
    fn limit(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        }
    }

    /// Returns a file, and what to write to it, so that nothing is swapped out in place of page cache.
    fn no_swap(self) -> (&'static str, &'static str) {
        match self {
            Version::V1 => ("memory.swappiness", "0"),
            Version::V2 => ("memory.swap.max", "0"),
        }
    }

    /// Returns how often memory had to be reclaimed because the limit was reached, given a function that reads files.
    fn times_at_limit(self, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
        match self {
            Version::V1 => read("memory.failcnt")?.trim().parse().ok(),
            Version::V2 => read("memory.events")?
                .lines()
                .find_map(|line| line.strip_prefix("max "))?
                .parse()
                .ok(),
        }
    }
}

/// A memory cgroup, as a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    pub path: PathBuf,
    version: Version,
}

impl Directory {
    /// Returns how many bytes it uses.
    pub fn usage(&self) -> Option<u64> {
        let text = fs::read_to_string(self.path.join(self.version.usage()));
        text.ok()?.trim().parse().ok()
    }

    /// Returns how often memory had to be reclaimed because the limit was reached.
    pub fn times_at_limit(&self) -> Option<u64> {
        let read = |name: &str| fs::read_to_string(self.path.join(name)).ok();
        self.version.times_at_limit(read)
    }
}

/// A memory cgroup with a limit, below the cgroup of this process.
#[derive(Debug)]
pub struct Cgroup {
    pub directory: Directory,
    _keeper: Keeper,
}

impl Cgroup {
    /// Makes one, and tries whether a process can enter it.
    ///
    /// # Errors
    /// Fails if this user may not do that here.
    pub fn make(program: &Program, limit: u64) -> Result<Self> {
        let cgroups = fs::read("/proc/self/cgroup").context("read '/proc/self/cgroup'")?;
        let mounts = fs::read("/proc/self/mountinfo").context("read '/proc/self/mountinfo'")?;
        let read = |path: &Path| fs::read_to_string(path).ok();
        let above = parent(&cgroups, &mounts, read)
            .context("no memory cgroup can be made below this one")?;
        let name = format!(
            "fullbore-bench-{}-{}",
            std::process::id(),
            fastrand::u32(..)
        );
        let directory = Directory {
            path: above.path.join(name),
            version: above.version,
        };
        // The keeper is there before the cgroup, so that it removes it whenever this process ends.
        let keeper = Keeper::start(program, &RemoveTask(directory.clone()))?;
        let write = |name: &str, text: &str| {
            let file = directory.path.join(name);
            fs::write(&file, text).with_context(|| format!("write to '{}'", file.display()))
        };
        fs::create_dir(&directory.path)
            .with_context(|| format!("create '{}'", directory.path.display()))?;
        write(directory.version.limit(), &limit.to_string())?;
        let (name, text) = directory.version.no_swap();
        // Without swap, the file may be missing.
        let _ = write(name, text);
        let command = program.part(&EnterTask(directory.clone()), None)?;
        let entered = Process::start(command)?.end_within(process::GRACE)?;
        ensure!(
            entered.output.status.success(),
            process::last_words(&entered.output)
        );
        Ok(Self {
            directory,
            _keeper: keeper,
        })
    }
}

/// Returns the cgroup in which one for memory can be made, given the contents of `/proc/self/cgroup` and
/// `/proc/self/mountinfo`, and a function that reads files.
///
/// In v1, it is the process's own. In v2, a cgroup that hands out memory to cgroups below it has no processes itself,
/// unless it is the root; so it is the nearest one above the process that does.
fn parent(
    cgroups: &[u8],
    mounts: &[u8],
    read: impl Fn(&Path) -> Option<String>,
) -> Option<Directory> {
    let cgroups = ProcessCGroups::from_read(cgroups).ok()?;
    let mounts = MountInfos::from_read(mounts).ok()?;
    let hierarchies = cgroups.0.iter().filter_map(|cgroup| {
        let (version, kind) = match cgroup.controllers.iter().any(|name| name == "memory") {
            true => (Version::V1, "cgroup"),
            false if cgroup.hierarchy == 0 => (Version::V2, "cgroup2"),
            false => return None,
        };
        let mount = mounts.0.iter().find(|mount| {
            mount.fs_type == kind
                && (version == Version::V2 || mount.super_options.contains_key("memory"))
        })?;
        // A container may have only its own part of the hierarchy mounted.
        let below = Path::new(&cgroup.pathname).strip_prefix(&mount.root);
        Some((
            version,
            mount.mount_point.clone(),
            below.unwrap_or(Path::new("")),
        ))
    });
    let candidates = hierarchies.flat_map(|(version, mount, own)| {
        let above = own.ancestors().map(move |path| Directory {
            path: mount.join(path),
            version,
        });
        above.take(if version == Version::V1 {
            1
        } else {
            usize::MAX
        })
    });
    { candidates }.find(|directory| {
        let hands_out = || read(&directory.path.join("cgroup.subtree_control"));
        directory.version == Version::V1
            || hands_out().is_some_and(|names| names.split_whitespace().any(|n| n == "memory"))
    })
}

/// Moves this process to a cgroup, if one is given.
///
/// # Errors
/// Returns [`Unsupported`] if this user may not do that.
pub fn enter(cgroup: Option<&Path>) -> Result<()> {
    let Some(cgroup) = cgroup else {
        return Ok(());
    };
    let file = cgroup.join("cgroup.procs");
    // 0 is the process that writes.
    fs::write(&file, "0")
        .map_err(|error| Unsupported(format!("write to '{}': {error}", file.display())))?;
    Ok(())
}

/// The task of entering a cgroup, and ending.
#[derive(Debug, Serialize, Deserialize)]
pub struct EnterTask(Directory);

impl Task for EnterTask {
    const NAME: &'static str = "many_enter";

    fn play(self) -> Result<()> {
        enter(Some(&self.0.path))
    }
}

/// The task of removing a cgroup when the process that made it has ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemoveTask(Directory);

impl Task for RemoveTask {
    const NAME: &'static str = "many_remove";

    /// Waits until stdin ends, and then removes the cgroup.
    ///
    /// # Errors
    /// Fails if it cannot be removed.
    fn play(self) -> Result<()> {
        wait_for_the_end_of_stdin();
        let directory = &self.0.path;
        let mut attempts = 0;
        loop {
            match fs::remove_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // Its processes are still being killed.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && attempts < 1500 => {
                    attempts += 1;
                    thread::sleep(Duration::from_millis(20));
                }
                done => {
                    return done.with_context(|| format!("remove '{}'", directory.display()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    const V2_MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    fn found(cgroups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<(String, Version)> {
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(file.1.to_owned())
        };
        let directory = parent(cgroups.as_bytes(), mounts.as_bytes(), read)?;
        Some((
            directory.path.to_str()?.trim_end_matches('/').to_owned(),
            directory.version,
        ))
    }

    #[test]
    fn in_v1_it_is_made_below_that_of_this_process() {
        let cgroups = "4:memory:/jobs/one\n1:cpu:/\n0::/elsewhere\n";
        let expected = ("/sys/fs/cgroup/memory/jobs/one".to_owned(), Version::V1);
        assert_eq!(found(cgroups, V1_MOUNTS, &[]), Some(expected));
        assert_eq!(found("0::/\n", V1_MOUNTS, &[]), None);
        assert_eq!(found(cgroups, "", &[]), None);
    }

    #[test]
    fn in_v2_it_is_made_below_the_nearest_one_that_hands_out_memory() {
        let cgroups = "0::/user.slice/user-0.slice/session-1.scope\n";
        let file = |directory: &str| format!("/sys/fs/cgroup{directory}/cgroup.subtree_control");
        let (session, user, slice) = (
            file("/user.slice/user-0.slice/session-1.scope"),
            file("/user.slice/user-0.slice"),
            file("/user.slice"),
        );
        let files = [
            (session.as_str(), "\n"),
            (user.as_str(), "cpu memory pids\n"),
            (slice.as_str(), "memory\n"),
        ];
        let expected = (
            "/sys/fs/cgroup/user.slice/user-0.slice".to_owned(),
            Version::V2,
        );
        assert_eq!(found(cgroups, V2_MOUNTS, &files), Some(expected));
        assert_eq!(found(cgroups, V2_MOUNTS, &files[..1]), None);
    }

    #[test]
    fn reaching_the_limit_is_counted_in_both_versions() {
        let file = |known: &'static str, text: &'static str| {
            move |name: &str| (name == known).then(|| text.to_owned())
        };
        let v1 = Version::V1.times_at_limit(file("memory.failcnt", "12\n"));
        let events = "low 0\nhigh 0\nmax 34\noom 0\noom_kill 0\n";
        let v2 = Version::V2.times_at_limit(file("memory.events", events));
        assert_eq!((v1, v2), (Some(12), Some(34)));
        assert_eq!(
            Version::V2.times_at_limit(file("memory.failcnt", "1")),
            None
        );
    }
}

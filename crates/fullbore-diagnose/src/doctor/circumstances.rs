//! Reads the environment of this process: a filter of system calls, an emulated kernel, capabilities
//! and settings. The cause of a refusal is derived from it.

use fullbore_host::machine::{Capabilities, PipeLimits, Root, bracketed_word, field};
use fullbore_results::doctor::{Conditions, SECCOMP_FILTER};
use rustix::process::{Resource, getrlimit};

/// The facts from which the cause of a refusal is derived.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// Those that the report shows.
    pub conditions: Conditions,
    /// The settings to which refusals refer.
    pub pipe_limits: PipeLimits,
    pub huge_pages: Option<String>,
    /// `ulimit -n`; `None` means no limit.
    pub open_files: Option<u64>,
    /// The pages in this user's pipes, as far as they are visible.
    pub pipe_pages_in_use: u64,
}

impl Circumstances {
    /// Reads the circumstances of this process.
    pub fn read(pipe_pages_in_use: u64) -> Self {
        let mut around = Self::at(&Root::system());
        around.conditions.uid = rustix::process::geteuid().as_raw();
        around.open_files = getrlimit(Resource::Nofile).current;
        around.pipe_pages_in_use = pipe_pages_in_use;
        around
    }

    /// Reads the part that is in the files under `root`.
    pub fn at(root: &Root) -> Self {
        let status = root.text("proc/self/status").unwrap_or_default();
        let of_status = |key| field(&status, key)?.parse::<u64>().ok();
        let capabilities = Capabilities::read(root);
        let version = root.text("proc/version").unwrap_or_default();
        let huge_pages = root.text("sys/kernel/mm/transparent_hugepage/enabled");
        Circumstances {
            conditions: Conditions {
                uid: 0,
                seccomp: of_status("Seccomp").unwrap_or(0),
                gvisor: is_gvisor(&version),
                capabilities: names(&capabilities),
                huge_pages_disabled: of_status("THP_enabled") == Some(0),
            },
            pipe_limits: PipeLimits::read(root),
            huge_pages: huge_pages.and_then(|text| bracketed_word(&text).map(str::to_owned)),
            ..Circumstances::default()
        }
    }

    /// Returns whether a filter of system calls is active.
    pub fn is_filtered(&self) -> bool {
        self.conditions.seccomp == SECCOMP_FILTER
    }
}

fn names(capabilities: &Capabilities) -> Vec<String> {
    let names = [
        ("CAP_SYS_ADMIN", capabilities.sys_admin),
        ("CAP_SYS_RESOURCE", capabilities.sys_resource),
    ];
    let has = names.iter().filter(|(_, has)| *has);
    has.map(|(name, _)| (*name).to_owned()).collect()
}

/// Returns whether this is the version that gVisor always reports
/// (pkg/sentry/syscalls/linux/linux64.go).
fn is_gvisor(version: &str) -> bool {
    version.starts_with("Linux version 4.4.0 ")
        && version.contains("#1 SMP Sun Jan 10 15:06:54 PST 2016")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::fixtures::Fixture;

    #[test]
    fn a_filter_and_a_sandbox_are_seen() {
        let fixture = Fixture::new(&[
            (
                "proc/self/status",
                "Seccomp:\t2\nTHP_enabled:\t0\nCapEff:\t0000000000000000\n",
            ),
            (
                "proc/version",
                "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016",
            ),
        ]);
        let seen = Circumstances::at(&fixture.root());
        assert!(seen.is_filtered());
        assert!(seen.conditions.gvisor && seen.conditions.huge_pages_disabled);
    }

    #[test]
    fn nothing_is_seen_where_nothing_is_told() {
        let seen = Circumstances::at(&Fixture::new(&[]).root());
        assert_eq!(seen.conditions, Conditions::default());
        assert!(!seen.pipe_limits.exempt_from_user_pages);
    }
}

//! Reads the environment of this process: a filter of system calls, an emulated kernel, capabilities
//! and settings. The cause of a refusal is derived from it.

use fullbore_host::machine::{Capabilities, Root, bracketed_word, field};
use fullbore_results::doctor::{Conditions, SECCOMP_FILTER};
use rustix::process::{Resource, getrlimit};

/// The facts from which the cause of a refusal is derived.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// The user.
    pub uid: u32,
    /// `Seccomp` in /proc/self/status: 0 none, 1 strict, 2 a filter (proc_pid_status(5)).
    pub seccomp: u64,
    /// Whether the kernel is gVisor.
    pub gvisor: bool,
    /// The capabilities that matter.
    pub capabilities: Capabilities,
    /// Whether transparent huge pages are switched off for this process (prctl(2),
    /// `PR_SET_THP_DISABLE`).
    pub huge_pages_disabled: bool,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality` (kernel_lockdown(7)).
    pub lockdown: Option<String>,
    /// The settings to which refusals refer.
    pub pipe_max_size: Option<u64>,
    pub user_pages_soft: Option<u64>,
    pub user_pages_hard: Option<u64>,
    pub huge_pages: Option<String>,
    /// Bytes of a transparent huge page.
    pub huge_page: Option<u64>,
    pub perf_event_paranoid: Option<i64>,
    pub kptr_restrict: Option<u64>,
    pub ptrace_scope: Option<u64>,
    pub hugetlb_free: Option<u64>,
    /// `ulimit -n`, `ulimit -l` and `ulimit -q`; `None` means no limit.
    pub open_files: Option<u64>,
    pub locked_bytes: Option<u64>,
    pub queue_bytes: Option<u64>,
    /// The pages in this user's pipes, as far as they are visible.
    pub pipe_pages_in_use: u64,
}

impl Circumstances {
    /// Reads the circumstances of this process.
    pub fn read(pipe_pages_in_use: u64) -> Self {
        let soft = |resource| getrlimit(resource).current;
        Circumstances {
            uid: rustix::process::geteuid().as_raw(),
            open_files: soft(Resource::Nofile),
            locked_bytes: soft(Resource::Memlock),
            queue_bytes: soft(Resource::Msgqueue),
            pipe_pages_in_use,
            ..Self::at(&Root::system())
        }
    }

    /// Reads the part that is in the files under `root`.
    pub fn at(root: &Root) -> Self {
        let status = root.text("proc/self/status").unwrap_or_default();
        let of_status = |key| field(&status, key)?.parse::<u64>().ok();
        let meminfo = root.text("proc/meminfo").unwrap_or_default();
        Circumstances {
            seccomp: of_status("Seccomp").unwrap_or(0),
            gvisor: root
                .text("proc/version")
                .is_some_and(|version| is_gvisor(&version)),
            capabilities: Capabilities::read(root),
            huge_pages_disabled: of_status("THP_enabled") == Some(0),
            lockdown: root
                .text("sys/kernel/security/lockdown")
                .and_then(|text| bracketed_word(&text).map(str::to_owned)),
            pipe_max_size: root.number("proc/sys/fs/pipe-max-size"),
            user_pages_soft: root.number("proc/sys/fs/pipe-user-pages-soft"),
            user_pages_hard: root.number("proc/sys/fs/pipe-user-pages-hard"),
            huge_pages: root
                .text("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| bracketed_word(&text).map(str::to_owned)),
            huge_page: root.number("sys/kernel/mm/transparent_hugepage/hpage_pmd_size"),
            perf_event_paranoid: root
                .text("proc/sys/kernel/perf_event_paranoid")
                .and_then(|text| text.parse().ok()),
            kptr_restrict: root.number("proc/sys/kernel/kptr_restrict"),
            ptrace_scope: root.number("proc/sys/kernel/yama/ptrace_scope"),
            hugetlb_free: field(&meminfo, "HugePages_Free").and_then(|text| text.parse().ok()),
            ..Circumstances::default()
        }
    }

    /// Returns the part that the report shows.
    pub fn conditions(&self) -> Conditions {
        Conditions {
            uid: self.uid,
            seccomp: self.seccomp,
            gvisor: self.gvisor,
            capabilities: names(&self.capabilities),
            huge_pages_disabled: self.huge_pages_disabled,
            lockdown: self.lockdown.clone(),
        }
    }

    /// Returns whether a filter of system calls is active.
    pub fn is_filtered(&self) -> bool {
        self.seccomp == SECCOMP_FILTER
    }

    /// Returns whether this process is exempt from the limits of a user's pipes.
    pub fn is_exempt_from_user_pages(&self) -> bool {
        self.capabilities.sys_admin || self.capabilities.sys_resource
    }

    /// Returns whether `perf_event_paranoid` forbids sampling the kernel (kernel.perf_event_paranoid,
    /// Documentation/admin-guide/sysctl/kernel.rst).
    pub fn is_too_paranoid(&self) -> bool {
        !self.capabilities.perfmon && self.perf_event_paranoid.is_some_and(|level| level > 1)
    }
}

fn names(capabilities: &Capabilities) -> Vec<String> {
    let names = [
        ("CAP_NET_ADMIN", capabilities.net_admin),
        ("CAP_IPC_LOCK", capabilities.ipc_lock),
        ("CAP_SYS_PTRACE", capabilities.sys_ptrace),
        ("CAP_SYS_ADMIN", capabilities.sys_admin),
        ("CAP_SYS_RESOURCE", capabilities.sys_resource),
        ("CAP_SYSLOG", capabilities.syslog),
        ("CAP_PERFMON", capabilities.perfmon),
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
            ("proc/sys/kernel/perf_event_paranoid", "-1"),
            (
                "sys/kernel/security/lockdown",
                "none [integrity] confidentiality",
            ),
        ]);
        let seen = Circumstances::at(&fixture.root());
        assert!(seen.is_filtered() && seen.gvisor && seen.huge_pages_disabled);
        assert_eq!(seen.perf_event_paranoid, Some(-1));
        assert_eq!(seen.lockdown.as_deref(), Some("integrity"));
        assert!(!seen.is_too_paranoid());
    }

    #[test]
    fn nothing_is_seen_where_nothing_is_told() {
        let seen = Circumstances::at(&Fixture::new(&[]).root());
        assert!(!seen.is_filtered() && !seen.gvisor && !seen.huge_pages_disabled);
        assert!(!seen.is_too_paranoid() && !seen.is_exempt_from_user_pages());
    }
}

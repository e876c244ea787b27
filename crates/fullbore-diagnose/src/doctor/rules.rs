//! Defines the rules that explain a refusal: each checks for the evidence of one reason.

use rustix::io::Errno;

use super::circumstances::Circumstances;
use fullbore_results::doctor::{Refusal, RefusalCause};

fn errno(refusal: &Refusal) -> Option<Errno> {
    refusal.errno.map(Errno::from_raw_os_error)
}

fn is(refusal: &Refusal, errnos: &[Errno]) -> bool {
    errno(refusal).is_some_and(|errno| errnos.contains(&errno))
}

pub fn pipe_max_size(_: &Refusal, around: &Circumstances) -> Option<RefusalCause> {
    let max = around.pipe_max_size.filter(|&max| max < 1 << 20)?;
    (!around.capabilities.sys_resource).then(|| {
        RefusalCause::new(
            format!("fs.pipe-max-size is {max}"),
            "sudo sysctl -w fs.pipe-max-size=1048576",
        )
    })
}

/// Returns the number of pages of a pipe of 1 MiB: 256 if a page has 4 KiB.
fn pages_of_1_mib() -> u64 {
    (1 << 20) / fullbore_linux::page_size() as u64
}

pub fn user_pages(_: &Refusal, around: &Circumstances) -> Option<RefusalCause> {
    if around.is_exempt_from_user_pages() {
        return None;
    }
    let limits = [
        ("fs.pipe-user-pages-soft", around.user_pages_soft),
        ("fs.pipe-user-pages-hard", around.user_pages_hard),
    ];
    let (name, limit) = limits
        .into_iter()
        .filter_map(|(name, limit)| Some((name, limit.filter(|&pages| pages > 0)?)))
        .min_by_key(|(_, limit)| *limit)?;
    let used = around.pipe_pages_in_use;
    // A filter can cause the same error, but then the limit is not reached.
    if around.is_filtered() && used + pages_of_1_mib() <= limit {
        return None;
    }
    let room = limit.max(used).saturating_mul(2).next_power_of_two();
    Some(RefusalCause::new(
        format!(
            "{name} allows {limit} pages for all pipes of a user, and the visible pipes of this \
             user use {used}"
        ),
        format!("close unused pipes, or: sudo sysctl -w {name}={room}"),
    ))
}

pub fn huge_pages_off(_: &Refusal, around: &Circumstances) -> Option<RefusalCause> {
    match around.huge_pages.as_deref() {
        None => Some(RefusalCause::for_good(
            "this kernel has no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)",
        )),
        Some("never") => Some(RefusalCause::new(
            "transparent_hugepage/enabled is set to 'never'",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )),
        Some(_) if around.conditions.huge_pages_disabled => Some(RefusalCause::new(
            "a parent process disabled them for this process (prctl PR_SET_THP_DISABLE)",
            "start it from another shell or service",
        )),
        Some(_) => None,
    }
}

/// Matches if huge pages were requested, and the kernel had none to give.
pub fn no_huge_page_free(refusal: &Refusal, _: &Circumstances) -> Option<RefusalCause> {
    refusal.said.contains("the kernel gave").then(|| {
        RefusalCause::new(
            "memory is too fragmented for huge pages, or its cgroup is full",
            "echo 1 | sudo tee /proc/sys/vm/compact_memory",
        )
    })
}

pub fn killed_by_a_filter(refusal: &Refusal, _: &Circumstances) -> Option<RefusalCause> {
    const SIGSYS: i32 = rustix::process::Signal::SYS.as_raw();
    (refusal.signal == Some(SIGSYS)).then(|| {
        RefusalCause::new(
            "a seccomp filter kills the calling process (SIGSYS)",
            allow("the call"),
        )
    })
}

pub fn gvisor(refusal: &Refusal, around: &Circumstances) -> Option<RefusalCause> {
    (around.conditions.gvisor && refusal.errno.is_some()).then(|| {
        RefusalCause::new(
            "gVisor does not implement it",
            "run it on the host's kernel: docker run --runtime=runc",
        )
    })
}

pub fn too_many_files(refusal: &Refusal, around: &Circumstances) -> Option<RefusalCause> {
    match errno(refusal)? {
        Errno::MFILE => Some(RefusalCause::new(
            format!("ulimit -n is {}", around.open_files.unwrap_or_default()),
            "ulimit -n 1024",
        )),
        Errno::NFILE => Some(RefusalCause::new(
            "fs.file-max, or fs.pipe-user-pages-hard for pipes, is reached",
            "sudo sysctl -w fs.file-max=1000000 fs.pipe-user-pages-hard=0",
        )),
        _ => None,
    }
}

/// Matches errors that the kernel itself does not return for a call on a process's own pipes and
/// memory.
pub fn filter(refusal: &Refusal, around: &Circumstances) -> Option<RefusalCause> {
    let errnos = [
        Errno::PERM,
        Errno::NOSYS,
        Errno::ACCESS,
        Errno::INVAL,
        Errno::OPNOTSUPP,
    ];
    let by_word = refusal.errno.is_none() && refusal.signal.is_none();
    (around.is_filtered() && (is(refusal, &errnos) || by_word)).then(|| {
        let call = match refusal.operation.as_str() {
            "" => "the call",
            operation => operation,
        };
        RefusalCause::new(
            "most likely a seccomp filter, since one is active (Seccomp: 2 in /proc/self/status)",
            allow(call),
        )
    })
}

fn allow(call: &str) -> String {
    format!(
        "allow {call} in the filter: docker run --security-opt seccomp=PROFILE.json, or \
         SystemCallFilter= of the systemd unit"
    )
}

pub fn kernel_without(refusal: &Refusal, _: &Circumstances) -> Option<RefusalCause> {
    is(refusal, &[Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL]).then(|| {
        RefusalCause::new(
            "this kernel does not support it: it is too old, or was built without it",
            "use a newer kernel ('uname -r' prints the version)",
        )
    })
}

pub fn denied(refusal: &Refusal, _: &Circumstances) -> Option<RefusalCause> {
    is(refusal, &[Errno::PERM, Errno::ACCESS]).then(|| {
        RefusalCause::new(
            "this user lacks permission: a capability is missing, or a security module (AppArmor, \
             SELinux) denies it",
            "sudo fullbore doctor, and sudo dmesg | grep -i denied",
        )
    })
}

//! Why something was refused, and what would change that: rules, of which the first that matches is used. Rules
//! for one technique come before those for any call.

use rustix::io::Errno;
use rustix::process::Signal;

use super::circumstances::Circumstances;
use fullbore_results::doctor::{Refusal, RefusalCause};

/// Returns why `trial` was refused.
pub fn of(trial: &str, refusal: &Refusal, around: &Circumstances) -> RefusalCause {
    let special = match trial {
        "roomy_pipe" => pipe_max_size(around).or_else(|| user_pages(around)),
        "huge_pages" => huge_pages_off(around).or_else(|| no_huge_page_free(refusal)),
        _ => None,
    };
    special.unwrap_or_else(|| general(refusal, around))
}

fn pipe_max_size(around: &Circumstances) -> Option<RefusalCause> {
    let max = around.pipe_limits.max_size.filter(|&max| max < 1 << 20)?;
    let why = format!("fs.pipe-max-size is {max}");
    let cause = RefusalCause::new(why, "sudo sysctl -w fs.pipe-max-size=1048576");
    (!around.pipe_limits.privileged).then_some(cause)
}

/// Returns the number of pages of a pipe of 1 MiB: 256 if a page has 4 KiB.
fn pages_of_1_mib() -> u64 {
    (1 << 20) / fullbore_linux::page_size() as u64
}

fn user_pages(around: &Circumstances) -> Option<RefusalCause> {
    if around.pipe_limits.exempt_from_user_pages {
        return None;
    }
    let limits = [
        (
            "fs.pipe-user-pages-soft",
            around.pipe_limits.user_pages_soft,
        ),
        (
            "fs.pipe-user-pages-hard",
            around.pipe_limits.user_pages_hard,
        ),
    ];
    let limits = limits.into_iter();
    let limits = limits.filter_map(|(name, limit)| Some((name, limit.filter(|&pages| pages > 0)?)));
    let (name, limit) = limits.min_by_key(|(_, limit)| *limit)?;
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

fn huge_pages_off(around: &Circumstances) -> Option<RefusalCause> {
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
fn no_huge_page_free(refusal: &Refusal) -> Option<RefusalCause> {
    let why = "memory is too fragmented for huge pages, or its cgroup is full";
    let cause = || RefusalCause::new(why, "echo 1 | sudo tee /proc/sys/vm/compact_memory");
    // No call failed: the trial has seen pages of another size.
    let is_seen = refusal.errno.is_none() && refusal.signal.is_none();
    is_seen.then(cause)
}

/// Returns the cause for any trial.
fn general(refusal: &Refusal, around: &Circumstances) -> RefusalCause {
    let errno = refusal.errno.map(Errno::from_raw_os_error);
    let call = match refusal.operation.as_str() {
        "" => "the call",
        operation => operation,
    };
    // The kernel itself does not return these errors for a call on a process's own pipes and memory.
    use Errno as E;
    let may_be_filtered = match errno {
        None => refusal.signal.is_none(),
        Some(errno) => [E::PERM, E::NOSYS, E::ACCESS, E::INVAL, E::OPNOTSUPP].contains(&errno),
    };
    match errno {
        _ if refusal.signal == Some(Signal::SYS.as_raw()) => RefusalCause::new(
            "a seccomp filter kills the calling process (SIGSYS)",
            allow("the call"),
        ),
        Some(_) if around.conditions.gvisor => RefusalCause::new(
            "gVisor does not implement it",
            "run it on the host's kernel: docker run --runtime=runc",
        ),
        Some(Errno::MFILE) => RefusalCause::new(
            format!("ulimit -n is {}", around.open_files.unwrap_or_default()),
            "ulimit -n 1024",
        ),
        // pipe2(2) has this error for a limit of its own, too.
        Some(Errno::NFILE) => match around
            .pipe_limits
            .user_pages_hard
            .filter(|&pages| pages > 0)
        {
            Some(pages) if call.contains("pipe") => RefusalCause::new(
                format!("fs.pipe-user-pages-hard is {pages} pages for all pipes of this user"),
                "sudo sysctl -w fs.pipe-user-pages-hard=0",
            ),
            _ => RefusalCause::new(
                "fs.file-max is reached",
                "sudo sysctl -w fs.file-max=1000000",
            ),
        },
        _ if around.is_filtered() && may_be_filtered => RefusalCause::new(
            "most likely a seccomp filter, since one is active (Seccomp: 2 in /proc/self/status)",
            allow(call),
        ),
        Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => RefusalCause::new(
            "this kernel does not support it: it is too old, or was built without it",
            "use a newer kernel ('uname -r' prints the version)",
        ),
        Some(Errno::PERM | Errno::ACCESS) => RefusalCause::new(
            "this user lacks permission: a capability is missing, or a security module (AppArmor, \
             SELinux) denies it",
            "sudo fullbore doctor, and sudo dmesg | grep -i denied",
        ),
        _ => RefusalCause::for_good("the cause is not known"),
    }
}

fn allow(call: &str) -> String {
    format!(
        "allow {call} in the filter: docker run --security-opt seccomp=PROFILE.json, or \
         SystemCallFilter= of the systemd unit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::machine::PipeLimits;
    use rustix::io::Errno;

    fn refused(operation: &str, errno: Errno) -> Refusal {
        Refusal {
            operation: operation.into(),
            errno: Some(errno.raw_os_error()),
            ..Refusal::default()
        }
    }

    fn nobody() -> Circumstances {
        Circumstances {
            pipe_limits: PipeLimits {
                max_size: Some(1 << 20),
                user_pages_soft: Some(16384),
                user_pages_hard: Some(0),
                ..PipeLimits::default()
            },
            huge_pages: Some("madvise".into()),
            ..Circumstances::default()
        }
    }

    fn filtered() -> Circumstances {
        let mut around = nobody();
        around.conditions.seccomp = 2;
        around
    }

    #[test]
    fn a_filter_is_named_where_one_is_in_force_and_the_kernel_otherwise() {
        for errno in [Errno::PERM, Errno::NOSYS] {
            let cause = of("vmsplice", &refused("vmsplice", errno), &filtered());
            assert!(cause.why.contains("seccomp"), "{cause:?}");
            assert!(cause.remedy.unwrap().contains("allow vmsplice"));
        }
        let cause = of("vmsplice", &refused("vmsplice", Errno::NOSYS), &nobody());
        assert!(
            cause.why.contains("this kernel does not support it"),
            "{cause:?}"
        );
        let mut gvisor = filtered();
        gvisor.conditions.gvisor = true;
        let cause = of("vmsplice", &refused("vmsplice", Errno::NOSYS), &gvisor);
        assert!(cause.why.contains("gVisor"), "{cause:?}");
    }

    #[test]
    fn a_small_pipe_is_the_fault_of_the_limit_that_made_it_so() {
        let refusal = refused("F_SETPIPE_SZ", Errno::PERM);
        let mut small = nobody();
        small.pipe_limits.max_size = Some(65536);
        assert!(
            of("roomy_pipe", &refusal, &small)
                .why
                .contains("fs.pipe-max-size is 65536")
        );
        let full = Circumstances {
            pipe_pages_in_use: 16384,
            ..filtered()
        };
        let cause = of("roomy_pipe", &refusal, &full);
        assert!(
            cause
                .why
                .contains("fs.pipe-user-pages-soft allows 16384 pages"),
            "{cause:?}"
        );
        assert!(
            cause
                .remedy
                .unwrap()
                .ends_with("fs.pipe-user-pages-soft=32768")
        );
        // The limit is not reached, so the filter is the cause.
        assert!(
            of("roomy_pipe", &refusal, &filtered())
                .why
                .contains("seccomp")
        );
        let mut root = full;
        root.pipe_limits.exempt_from_user_pages = true;
        assert!(of("roomy_pipe", &refusal, &root).why.contains("seccomp"));
    }

    #[test]
    fn every_special_rule_is_of_a_trial() {
        for name in ["roomy_pipe", "huge_pages"] {
            let known = fullbore_lab::trials::TRIALS
                .iter()
                .any(|trial| trial.name == name);
            assert!(known, "{name}");
        }
    }

    #[test]
    fn huge_pages_that_are_off_and_those_that_are_used_up_are_told_apart() {
        let refusal = Refusal {
            said: "the kernel gave 0 B on huge pages and 4 MiB on base pages".into(),
            ..Refusal::default()
        };
        let off = Circumstances {
            huge_pages: Some("never".into()),
            ..nobody()
        };
        assert!(
            of("huge_pages", &refusal, &off)
                .remedy
                .unwrap()
                .contains("echo madvise")
        );
        assert!(
            of("huge_pages", &refusal, &nobody())
                .why
                .contains("fragmented")
        );
        let mut disabled = nobody();
        disabled.conditions.huge_pages_disabled = true;
        assert!(
            of("huge_pages", &refusal, &disabled)
                .why
                .contains("PR_SET_THP_DISABLE")
        );
    }
}

//! Simulates machines that refuse a call: a child installs a seccomp filter for itself before it
//! executes fullbore, so that the filter applies to that child and the processes that it starts.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::*;

/// Numbers of system calls.
#[cfg(target_arch = "x86_64")]
pub mod call {
    pub const FSTAT: i64 = 5;
    pub const RT_SIGPROCMASK: i64 = 14;
    pub const IOCTL: i64 = 16;
    pub const MADVISE: i64 = 28;
    pub const WAIT4: i64 = 61;
    pub const WAITID: i64 = 247;
    pub const SENDFILE: i64 = 40;
    pub const SOCKET: i64 = 41;
    pub const FCNTL: i64 = 72;
    pub const SOCKETPAIR: i64 = 53;
    pub const SENDTO: i64 = 44;
    pub const SETSOCKOPT: i64 = 54;
    pub const MLOCK: i64 = 149;
    pub const PRCTL: i64 = 157;
    pub const FUTEX: i64 = 202;
    pub const MQ_OPEN: i64 = 240;
    pub const OPENAT: i64 = 257;
    pub const MKNODAT: i64 = 259;
    pub const NEWFSTATAT: i64 = 262;
    pub const PPOLL: i64 = 271;
    pub const SPLICE: i64 = 275;
    pub const TEE: i64 = 276;
    pub const VMSPLICE: i64 = 278;
    pub const SIGNALFD4: i64 = 289;
    pub const EVENTFD2: i64 = 290;
    pub const PERF_EVENT_OPEN: i64 = 298;
    pub const MEMFD_CREATE: i64 = 319;
    pub const COPY_FILE_RANGE: i64 = 326;
    pub const PREADV2: i64 = 327;
    pub const PWRITEV2: i64 = 328;
    pub const PIDFD_OPEN: i64 = 434;
    pub const CLONE3: i64 = 435;
    pub const STATX: i64 = 332;
}
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
pub mod call {
    pub const EVENTFD2: i64 = 19;
    pub const FCNTL: i64 = 25;
    pub const IOCTL: i64 = 29;
    pub const MKNODAT: i64 = 33;
    pub const SIGNALFD4: i64 = 74;
    pub const SENDFILE: i64 = 71;
    pub const PPOLL: i64 = 73;
    pub const OPENAT: i64 = 56;
    pub const VMSPLICE: i64 = 75;
    pub const SPLICE: i64 = 76;
    pub const TEE: i64 = 77;
    pub const NEWFSTATAT: i64 = 79;
    pub const FSTAT: i64 = 80;
    pub const WAITID: i64 = 95;
    pub const WAIT4: i64 = 260;
    pub const FUTEX: i64 = 98;
    pub const RT_SIGPROCMASK: i64 = 135;
    pub const PRCTL: i64 = 167;
    pub const MQ_OPEN: i64 = 180;
    pub const SOCKET: i64 = 198;
    pub const SOCKETPAIR: i64 = 199;
    pub const SENDTO: i64 = 206;
    pub const SETSOCKOPT: i64 = 208;
    pub const MLOCK: i64 = 228;
    pub const MADVISE: i64 = 233;
    pub const PERF_EVENT_OPEN: i64 = 241;
    pub const MEMFD_CREATE: i64 = 279;
    pub const COPY_FILE_RANGE: i64 = 285;
    pub const PREADV2: i64 = 286;
    pub const PWRITEV2: i64 = 287;
    pub const PIDFD_OPEN: i64 = 434;
    pub const CLONE3: i64 = 435;
    pub const STATX: i64 = 291;
}

/// `include/uapi/asm-generic/mman-common.h` and `include/uapi/linux/fcntl.h`.
pub const MADV_HUGEPAGE: u64 = 14;
pub const F_SETPIPE_SZ: u64 = 1031;

/// Conditions on a call's arguments: number of the argument, comparison, value. An empty list
/// matches any call.
pub type Conditions<'a> = &'a [(u8, SeccompCmpOp, u64)];

/// Returns a filter that makes these calls fail with `errno` and allows everything else.
pub fn refusing(calls: &[(i64, Conditions<'_>)], errno: Errno) -> BpfProgram {
    let rules: BTreeMap<i64, Vec<SeccompRule>> = calls
        .iter()
        .map(|(call, conditions)| {
            let conditions: Vec<SeccompCondition> = conditions
                .iter()
                .map(|(argument, compare, value)| {
                    let width = SeccompCmpArgLen::Dword;
                    SeccompCondition::new(*argument, width, compare.clone(), *value).unwrap()
                })
                .collect();
            let rules = if conditions.is_empty() {
                Vec::new()
            } else {
                vec![SeccompRule::new(conditions).unwrap()]
            };
            (*call, rules)
        })
        .collect();
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.raw_os_error() as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    )
    .unwrap()
    .try_into()
    .unwrap()
}

/// Makes the command install the filter before it starts.
pub fn under(filter: BpfProgram, command: &mut Command) -> &mut Command {
    let install =
        move || seccompiler::apply_filter(&filter).map_err(|_| io::Error::from(Errno::OPNOTSUPP));
    // SAFETY: between fork and exec it makes two system calls and allocates nothing: the filter
    // was built before, and an error from an errno holds no memory.
    unsafe { command.pre_exec(install) }
}

/// Runs `fullbore` under the filter.
pub fn run_under(filter: &BpfProgram, words: &str) -> Output {
    until_measured(words, |words| {
        finish(start(under(filter.clone(), &mut fullbore(words))))
    })
}

/// Asserts that each of these experiments was skipped for a reason that contains `word`, in JSON
/// and in the table, that every other one has a figure, and that the command succeeded. The ends of a ring may
/// need longer to meet than a short run takes.
#[track_caller]
pub fn assert_skipped(output: &Output, names: &[&str], word: &str) {
    assert_code(output, 0);
    let run = bench_json(output);
    for experiment in &run.experiments {
        let name = experiment.name.as_str();
        if names.contains(&name) {
            let reason = experiment.skipped.as_deref().unwrap_or_default();
            assert!(reason.contains(word), "'{word}' in {experiment:#?}");
            assert!(experiment.figure.is_none() && experiment.ratio.is_none());
            let table = stderr(output);
            assert!(table.contains(name) && table.contains("skipped"), "{table}");
        } else if !has_not_met(experiment) {
            assert!(has_figure(experiment), "{experiment:#?}");
        }
    }
    for name in names {
        experiment(&run, name);
    }
}

/// Returns whether this is an experiment with a ring whose ends have not met.
pub fn has_not_met(experiment: &Outcome) -> bool {
    let reason = experiment.skipped.as_deref().unwrap_or_default();
    experiment.name.starts_with("ring") && reason.contains("did not meet")
}

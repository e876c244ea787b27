//! Lists the limits and settings that matter for fullbore in one table: the current value, its purpose,
//! whether it is fine, and if not, the command that would change it and the cost of that change.
//!
//! A setting that this machine does not have is left out.

use super::circumstances::Circumstances;
use fullbore_host::machine::{Root, bracketed_word};
use fullbore_host::size;
use fullbore_results::doctor::Setting;

/// How a setting is read and judged.
struct Definition {
    /// Its name in sysctl(8) or the shell, or the name of the file.
    name: &'static str,
    read: fn(&Root, &Circumstances) -> Option<String>,
    purpose: &'static str,
    judge: fn(&str, &Circumstances) -> Judgement,
    command: &'static str,
    cost: &'static str,
}

/// Whether a value is fine, and why.
struct Judgement {
    is_fine: bool,
    because: String,
}

fn fine(because: impl Into<String>) -> Judgement {
    Judgement {
        is_fine: true,
        because: because.into(),
    }
}

fn low(because: impl Into<String>) -> Judgement {
    Judgement {
        is_fine: false,
        because: because.into(),
    }
}

macro_rules! in_proc {
    ($path:literal) => {
        |root, _| root.text(concat!("proc/sys/", $path))
    };
}

/// How long an idle CPU of a guest looks for work before it halts, in nanoseconds
/// (Documentation/virt/guest-halt-polling.rst).
pub const HALT_POLL: &str = "guest_halt_poll_ns";

pub const HALT_POLL_FILE: &str = "sys/module/haltpoll/parameters/guest_halt_poll_ns";

/// The file with the name of the governor, which is the part of the kernel that decides how deep an idle
/// CPU sleeps.
pub const GOVERNOR_FILE: &str = "sys/devices/system/cpu/cpuidle/current_governor";

/// The settings.
const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "fs.pipe-max-size",
        read: in_proc!("fs/pipe-max-size"),
        purpose: "maximum capacity of a pipe, in bytes, for users without privileges",
        judge: |value, around| match number(value) {
            _ if around.capabilities.sys_resource => {
                fine("does not apply to this process (CAP_SYS_RESOURCE)")
            }
            bytes if bytes >= 1 << 20 => fine("pipes can have a capacity of 1 MiB"),
            bytes => low(format!(
                "pipes are limited to {}; fullbore uses 1 MiB",
                size::format(bytes)
            )),
        },
        command: "sudo sysctl -w fs.pipe-max-size=1048576",
        cost: "each pipe of every user can hold that much of the kernel's memory",
    },
    Definition {
        name: "fs.pipe-user-pages-soft",
        read: in_proc!("fs/pipe-user-pages-soft"),
        purpose: "limit of pages in all pipes of a user; above it, new pipes get one or two pages \
         and cannot be enlarged",
        judge: |value, around| {
            let pages = number(value);
            let roomy = pages.saturating_mul(fullbore_linux::page_size() as u64) >> 20;
            match pages {
                _ if around.is_exempt_from_user_pages() => {
                    fine("does not apply to this process (CAP_SYS_ADMIN)")
                }
                0 => fine("no limit"),
                _ if roomy < 16 => low(format!("enough for only {roomy} pipes of 1 MiB")),
                _ if around.pipe_pages_in_use > pages / 4 * 3 => {
                    low(format!("{} pages are in use", around.pipe_pages_in_use))
                }
                _ => fine(format!("enough for {roomy} pipes of 1 MiB")),
            }
        },
        command: "sudo sysctl -w fs.pipe-user-pages-soft=65536",
        cost: "the pipes of each user can hold that many pages of the kernel's memory",
    },
    Definition {
        name: "fs.pipe-user-pages-hard",
        read: in_proc!("fs/pipe-user-pages-hard"),
        purpose: "limit of pages in all pipes of a user; above it, no pipe can be created",
        judge: |value, around| match number(value) {
            _ if around.is_exempt_from_user_pages() => {
                fine("does not apply to this process (CAP_SYS_ADMIN)")
            }
            0 => fine("no limit"),
            pages if pages.saturating_mul(fullbore_linux::page_size() as u64) < 16 << 20 => {
                low("above it, no pipe can be created")
            }
            _ => fine("high enough"),
        },
        command: "sudo sysctl -w fs.pipe-user-pages-hard=0",
        cost: "a user's pipes can take as much memory as there are open files",
    },
    Definition {
        name: "transparent_hugepage/enabled",
        read: huge_page_setting::<0>,
        purpose: "huge pages for buffers, which are faster to look up and to allocate",
        judge: |value, around| match value {
            _ if around.huge_page > Some(fullbore_linux::MOST_HUGE as u64) => fine(format!(
                "a huge page has {}, and fullbore asks for none above {}",
                size::format(around.huge_page.unwrap_or(0)),
                size::format(fullbore_linux::MOST_HUGE as u64),
            )),
            "never" => low("no program gets huge pages"),
            "always" => fine("all programs get them"),
            _ => fine("programs that ask for them get them, and fullbore asks"),
        },
        command: "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        cost: "programs that ask for them use memory in units of a huge page",
    },
    Definition {
        name: "transparent_hugepage/defrag",
        read: huge_page_setting::<1>,
        purpose: "whether a page fault may compact memory to get a huge page",
        judge: |value, _| match value {
            "never" | "defer" => low("a page fault gets base pages if no huge page is free"),
            _ => fine("programs that ask for huge pages wait until memory is compacted"),
        },
        command: "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/defrag",
        cost: "a fault of a program that asks can take milliseconds on a full machine",
    },
    Definition {
        name: "vm.nr_hugepages",
        read: in_proc!("vm/nr_hugepages"),
        purpose: "the reserved pool, for programs that use Backing::HugeTlb of the library",
        judge: |value, _| match number(value) {
            0 => fine("empty, and fullbore itself does not need it"),
            pages => fine(format!("a pool of {pages} pages")),
        },
        command: "sudo sysctl -w vm.nr_hugepages=64",
        cost: "128 MiB, with pages of 2 MiB, that nothing else can use",
    },
    Definition {
        name: HALT_POLL,
        read: halt_poll,
        purpose: "how long an idle CPU of a virtual machine polls for work before it halts; \
         waking a halted CPU needs the hypervisor",
        judge: |value, _| match number(value) {
            0 => low("idle CPUs halt at once, so every sleep on a pipe is expensive"),
            time if time < 50_000 => low("shorter than most waits for a pipe"),
            time => fine(format!("{} us", time / 1000)),
        },
        command: "echo 200000 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns",
        cost: "an idle CPU polls for up to 0.2 ms, which uses CPU time of the host",
    },
    Definition {
        name: "kernel.perf_event_paranoid",
        read: in_proc!("kernel/perf_event_paranoid"),
        purpose: "which users may sample the kernel while it runs on behalf of their processes",
        judge: |value, around| match around.is_too_paranoid() {
            _ if around.capabilities.perfmon => {
                fine("does not apply to this process (CAP_PERFMON)")
            }
            true => low("this user may not sample the kernel"),
            false => fine(format!("{value} lets users sample the kernel")),
        },
        command: "sudo sysctl -w kernel.perf_event_paranoid=1",
        cost: "every user can sample the kernel on behalf of their processes, which is a side \
         channel",
    },
    Definition {
        name: "kernel.kptr_restrict",
        read: in_proc!("kernel/kptr_restrict"),
        purpose: "which users may see the addresses of kernel functions, to name them in samples",
        judge: |value, around| match number(value) {
            0 => fine("shown to users who may sample the kernel"),
            1 if around.capabilities.syslog => fine("shown to this process (CAP_SYSLOG)"),
            _ => low("samples of the kernel have no names"),
        },
        command: "sudo sysctl -w kernel.kptr_restrict=0",
        cost: "users who may sample the kernel learn its addresses, which helps an attacker",
    },
    Definition {
        name: "net.core.wmem_max",
        read: in_proc!("net/core/wmem_max"),
        purpose: "the longest send buffer of a socket: bench unix_copy asks for 512 KiB",
        judge: |value, around| match number(value) {
            _ if around.capabilities.net_admin => {
                fine("does not apply to this process (CAP_NET_ADMIN)")
            }
            bytes if bytes >= 512 << 10 => fine("512 KiB is allowed"),
            bytes => low(format!("send buffers stay at {}", size::format(bytes))),
        },
        command: "sudo sysctl -w net.core.wmem_max=524288",
        cost: "a socket of any user that asks can queue 512 KiB",
    },
    Definition {
        name: "fs.file-max",
        read: in_proc!("fs/file-max"),
        purpose: "limit of open files for the whole machine; a pipe needs two",
        judge: |value, _| match number(value) {
            files if files < 65536 => low("too low for a machine with many pipes"),
            _ => fine("high enough"),
        },
        command: "sudo sysctl -w fs.file-max=1000000",
        cost: "about 1 KiB of the kernel's memory for each file that is opened",
    },
    Definition {
        name: "ulimit -n",
        read: |_, around| Some(limit(around.open_files)),
        purpose: "open files of a process",
        judge: |value, _| match value.parse::<u64>() {
            Ok(files) if files < 256 => low("too low for a tee with many outputs"),
            _ => fine("high enough"),
        },
        command: "ulimit -n 1024",
        cost: "none, up to the hard limit",
    },
    Definition {
        name: "ulimit -l",
        read: |_, around| Some(locked_limit(around.locked_bytes)),
        purpose: "memory that a process may lock: --lock-memory, and the buffers of samples",
        judge: |_, around| match around.locked_bytes {
            _ if around.capabilities.ipc_lock => {
                fine("does not apply to this process (CAP_IPC_LOCK)")
            }
            Some(bytes) if bytes < 1 << 20 => low("less than the buffers of --lock-memory"),
            _ => fine("high enough"),
        },
        command: "sudo prlimit --pid $$ --memlock=8388608",
        cost: "up to 8 MiB per process that cannot be reclaimed",
    },
    Definition {
        name: "kernel.yama.ptrace_scope",
        read: in_proc!("kernel/yama/ptrace_scope"),
        purpose: "which processes may duplicate file descriptors of another process",
        judge: |value, around| match number(value) {
            0 => fine("processes of the same user may"),
            1 | 2 if around.capabilities.sys_ptrace => {
                fine("does not apply to this process (CAP_SYS_PTRACE)")
            }
            _ => low("only ancestors of a process may; opening /proc/PID/fd still works"),
        },
        command: "sudo sysctl -w kernel.yama.ptrace_scope=0",
        cost: "a compromised program can take over all other programs of its user",
    },
    Definition {
        name: "fs.mqueue.msg_max",
        read: in_proc!("fs/mqueue/msg_max"),
        purpose: "maximum number of messages in a POSIX message queue; bench uses 10",
        judge: |value, _| match number(value) {
            messages if messages < 10 => low("lower than bench uses: figures cannot be compared"),
            _ => fine("as many as bench uses"),
        },
        command: "sudo sysctl -w fs.mqueue.msg_max=10",
        cost: "nothing: it is the kernel's default",
    },
    Definition {
        name: "fs.mqueue.msgsize_max",
        read: in_proc!("fs/mqueue/msgsize_max"),
        purpose: "bytes of a message in it: bench asks for 8 KiB",
        judge: |value, _| match number(value) {
            bytes if bytes < 8192 => low("shorter than bench asks for: figures do not compare"),
            _ => fine("as high as bench uses"),
        },
        command: "sudo sysctl -w fs.mqueue.msgsize_max=8192",
        cost: "nothing: it is the kernel's default",
    },
    Definition {
        name: "vm.overcommit_memory",
        read: in_proc!("vm/overcommit_memory"),
        purpose: "whether memory is accounted when it is mapped or when it is used",
        judge: |value, _| match value {
            "2" => low(
                "accounted when it is mapped: large buffers can be refused although memory \
             is free",
            ),
            _ => fine("accounted when it is used"),
        },
        command: "sudo sysctl -w vm.overcommit_memory=0",
        cost: "if memory runs out, the kernel kills a process later instead of refusing a mapping",
    },
];

/// Reads the settings of the machine under `root`, in the order of the table.
pub fn read(root: &Root, around: &Circumstances) -> Vec<Setting> {
    DEFINITIONS
        .iter()
        .filter_map(|row| {
            let value = (row.read)(root, around)?;
            let Judgement { is_fine, because } = (row.judge)(&value, around);
            Some(Setting {
                name: row.name.to_owned(),
                fine: is_fine,
                meaning: because,
                purpose: row.purpose.to_owned(),
                command: row.command.to_owned(),
                cost: row.cost.to_owned(),
                value,
            })
        })
        .collect()
}

/// Returns whether the table contains a setting with this name.
#[cfg(test)]
pub fn has(name: &str) -> bool {
    DEFINITIONS.iter().any(|row| row.name == name)
}

fn number(value: &str) -> u64 {
    // Some limits are the largest number of their type, and some kernels print a number that does not
    // fit.
    value.parse().unwrap_or(u64::MAX)
}

fn huge_page_setting<const DEFRAG: usize>(root: &Root, _: &Circumstances) -> Option<String> {
    let name = ["enabled", "defrag"][DEFRAG];
    let text = root.text(format!("sys/kernel/mm/transparent_hugepage/{name}"))?;
    bracketed_word(&text).map(str::to_owned)
}

/// Returns the setting only if the active governor is the one that polls.
fn halt_poll(root: &Root, _: &Circumstances) -> Option<String> {
    (root.text(GOVERNOR_FILE)?.trim() == "haltpoll").then(|| root.text(HALT_POLL_FILE))?
}

fn limit(value: Option<u64>) -> String {
    value.map_or_else(|| "unlimited".into(), |value| value.to_string())
}

/// Formats the limit in KiB, as the shell does.
fn locked_limit(bytes: Option<u64>) -> String {
    limit(bytes.map(|bytes| bytes / 1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::fixtures::Fixture;
    use fullbore_host::machine::Capabilities;

    fn settings(files: &[(&str, &str)]) -> Vec<Setting> {
        let fixture = Fixture::new(files);
        let around = Circumstances {
            open_files: Some(1024),
            ..Circumstances::at(&fixture.root())
        };
        read(&fixture.root(), &around)
    }

    fn setting<'a>(settings: &'a [Setting], name: &str) -> &'a Setting {
        settings
            .iter()
            .find(|setting| setting.name == name)
            .unwrap()
    }

    #[test]
    fn what_a_machine_has_not_got_is_left_out() {
        let found = settings(&[]);
        let names: Vec<_> = found.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["ulimit -n", "ulimit -l"]);
        assert!(found.iter().all(|setting| setting.fine));
    }

    #[test]
    fn what_holds_back_is_told_from_what_is_fine() {
        let usual = [
            ("proc/sys/fs/pipe-max-size", "1048576"),
            ("proc/sys/fs/pipe-user-pages-soft", "16384"),
            ("proc/sys/kernel/perf_event_paranoid", "1"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never",
            ),
            ("proc/sys/vm/overcommit_memory", "0"),
        ];
        assert!(settings(&usual).iter().all(|setting| setting.fine));
        let tight = [
            ("proc/sys/fs/pipe-max-size", "65536"),
            ("proc/sys/fs/pipe-user-pages-soft", "1024"),
            ("proc/sys/kernel/perf_event_paranoid", "3"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]",
            ),
            ("proc/sys/vm/overcommit_memory", "2"),
        ];
        let found = settings(&tight);
        let held: Vec<_> = found.iter().filter(|setting| !setting.fine).collect();
        assert_eq!(held.len(), 5, "{held:?}");
        assert_eq!(
            setting(&found, "fs.pipe-user-pages-soft").meaning,
            "enough for only 4 pipes of 1 MiB"
        );
    }

    #[test]
    fn huge_pages_that_fullbore_does_not_ask_for_hold_nothing_back() {
        let enabled = "sys/kernel/mm/transparent_hugepage/enabled";
        let size = "sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
        for (bytes, is_fine) in [("2097152", false), ("33554432", true), ("536870912", true)] {
            let found = settings(&[(enabled, "always madvise [never]"), (size, bytes)]);
            assert_eq!(
                setting(&found, "transparent_hugepage/enabled").fine,
                is_fine,
                "{bytes}"
            );
        }
    }

    #[test]
    fn a_limit_that_does_not_bind_is_fine_however_low() {
        let root = Circumstances {
            capabilities: Capabilities {
                sys_admin: true,
                sys_resource: true,
                perfmon: true,
                ..Capabilities::default()
            },
            ..Circumstances::default()
        };
        let fixture = Fixture::new(&[
            ("proc/sys/fs/pipe-max-size", "4096"),
            ("proc/sys/fs/pipe-user-pages-soft", "1"),
            ("proc/sys/fs/pipe-user-pages-hard", "1"),
            ("proc/sys/kernel/perf_event_paranoid", "4"),
        ]);
        assert!(
            read(&fixture.root(), &root)
                .iter()
                .all(|setting| setting.fine)
        );
    }
}

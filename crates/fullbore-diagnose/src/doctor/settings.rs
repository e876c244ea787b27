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
type Judgement = (bool, String);

fn fine(because: impl Into<String>) -> Judgement {
    (true, because.into())
}

fn low(because: impl Into<String>) -> Judgement {
    (false, because.into())
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
                _ if around.conditions.pipe_pages > pages / 4 * 3 => {
                    low(format!("{} pages are in use", around.conditions.pipe_pages))
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
        read: huge_pages,
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
];

/// Reads the settings of the machine under `root`, in the order of the table.
pub fn read(root: &Root, around: &Circumstances) -> Vec<Setting> {
    DEFINITIONS
        .iter()
        .filter_map(|row| {
            let value = (row.read)(root, around)?;
            let (is_fine, because) = (row.judge)(&value, around);
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

fn huge_pages(root: &Root, _: &Circumstances) -> Option<String> {
    let text = root.text("sys/kernel/mm/transparent_hugepage/enabled")?;
    bracketed_word(&text).map(str::to_owned)
}

/// Returns the setting only if the active governor is the one that polls.
fn halt_poll(root: &Root, _: &Circumstances) -> Option<String> {
    (root.text(GOVERNOR_FILE)?.trim() == "haltpoll").then(|| root.text(HALT_POLL_FILE))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::fixtures::Fixture;
    use fullbore_host::machine::Capabilities;

    fn settings(files: &[(&str, &str)]) -> Vec<Setting> {
        let fixture = Fixture::new(files);
        read(&fixture.root(), &Circumstances::at(&fixture.root()))
    }

    fn setting<'a>(settings: &'a [Setting], name: &str) -> &'a Setting {
        settings
            .iter()
            .find(|setting| setting.name == name)
            .unwrap()
    }

    #[test]
    fn what_a_machine_has_not_got_is_left_out() {
        assert_eq!(settings(&[]), []);
    }

    #[test]
    fn what_holds_back_is_told_from_what_is_fine() {
        let usual = [
            ("proc/sys/fs/pipe-max-size", "1048576"),
            ("proc/sys/fs/pipe-user-pages-soft", "16384"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never",
            ),
        ];
        assert!(settings(&usual).iter().all(|setting| setting.fine));
        let tight = [
            ("proc/sys/fs/pipe-max-size", "65536"),
            ("proc/sys/fs/pipe-user-pages-soft", "1024"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]",
            ),
        ];
        let found = settings(&tight);
        let held: Vec<_> = found.iter().filter(|setting| !setting.fine).collect();
        assert_eq!(held.len(), 3, "{held:?}");
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
            },
            ..Circumstances::default()
        };
        let fixture = Fixture::new(&[
            ("proc/sys/fs/pipe-max-size", "4096"),
            ("proc/sys/fs/pipe-user-pages-soft", "1"),
            ("proc/sys/fs/pipe-user-pages-hard", "1"),
        ]);
        assert!(
            read(&fixture.root(), &root)
                .iter()
                .all(|setting| setting.fine)
        );
    }
}

//! The settings that limit or slow pipes: each with its value, what the value means on
//! this machine, and the command that changes it.

use super::circumstances::Circumstances;
use fullbore_host::machine::Root;
use fullbore_host::size;
use fullbore_results::doctor::Setting;

/// The name of the setting that is also a row of the advice.
pub const HALT_POLL: &str = "guest_halt_poll_ns";

pub const HALT_POLL_FILE: &str = "sys/module/haltpoll/parameters/guest_halt_poll_ns";

pub const GOVERNOR_FILE: &str = "sys/devices/system/cpu/cpuidle/current_governor";

/// Reads those that this machine has.
pub fn read(root: &Root, around: &Circumstances) -> Vec<Setting> {
    let all = [max_size(around), user_pages(around), halt_poll(root)];
    all.into_iter().flatten().collect()
}

fn max_size(around: &Circumstances) -> Option<Setting> {
    let bytes = around.pipe_limits.max_size?;
    let is_exempt = around.pipe_limits.privileged;
    let meaning = match size::format(bytes) {
        _ if is_exempt => "does not apply to this process (CAP_SYS_RESOURCE)".into(),
        most if bytes < 1 << 20 => format!("pipes are limited to {most}; fullbore uses 1 MiB"),
        _ => "pipes can have a capacity of 1 MiB".into(),
    };
    Some(Setting {
        name: "fs.pipe-max-size".into(),
        value: bytes.to_string(),
        fine: is_exempt || bytes >= 1 << 20,
        meaning,
        purpose: "maximum capacity of a pipe, in bytes, for users without privileges".into(),
        command: "sudo sysctl -w fs.pipe-max-size=1048576".into(),
        cost: "each pipe of every user can hold that much of the kernel's memory".into(),
    })
}

const EXEMPT: &str = "does not apply to this process (CAP_SYS_ADMIN)";
const DEAR: &str = "idle CPUs halt at once, so every sleep on a pipe is expensive";

fn user_pages(around: &Circumstances) -> Option<Setting> {
    let pages = around.pipe_limits.user_pages_soft?;
    let used = around.pipe_pages_in_use;
    let roomy = pages.saturating_mul(fullbore_linux::page_size() as u64) >> 20;
    let (fine, meaning) = match pages {
        _ if around.pipe_limits.exempt_from_user_pages => (true, EXEMPT.into()),
        0 => (true, "no limit".into()),
        _ if roomy < 16 => (false, format!("enough for only {roomy} pipes of 1 MiB")),
        _ if used > pages / 4 * 3 => (false, format!("{used} pages are in use")),
        _ => (true, format!("enough for {roomy} pipes of 1 MiB")),
    };
    Some(Setting {
        name: "fs.pipe-user-pages-soft".into(),
        value: pages.to_string(),
        fine,
        meaning,
        purpose: "limit of pages in all pipes of a user; above it, new pipes get one or two pages \
                  and cannot be enlarged"
            .into(),
        command: "sudo sysctl -w fs.pipe-user-pages-soft=65536".into(),
        cost: "the pipes of each user can hold that many pages of the kernel's memory".into(),
    })
}

/// Returns the setting only if the active governor is the one that polls.
fn halt_poll(root: &Root) -> Option<Setting> {
    let governor = root.text(GOVERNOR_FILE)?;
    let time = root.number(HALT_POLL_FILE);
    let time = time.filter(|_| governor.trim() == "haltpoll")?;
    let (fine, meaning) = match time {
        0 => (false, DEAR.into()),
        1..50_000 => (false, "shorter than most waits for a pipe".into()),
        _ => (true, format!("{} us", time / 1000)),
    };
    Some(Setting {
        name: HALT_POLL.into(),
        value: time.to_string(),
        fine,
        meaning,
        purpose: "how long an idle CPU of a virtual machine polls for work before it halts; \
                  waking a halted CPU needs the hypervisor"
            .into(),
        command: format!("echo 200000 | sudo tee /{HALT_POLL_FILE}"),
        cost: "an idle CPU polls for up to 0.2 ms, which uses CPU time of the host".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::fixtures::Fixture;
    use fullbore_host::machine::PipeLimits;

    fn settings(files: &[(&str, &str)]) -> Vec<Setting> {
        let fixture = Fixture::new(files);
        read(&fixture.root(), &Circumstances::at(&fixture.root()))
    }

    #[test]
    fn what_a_machine_has_not_got_is_left_out() {
        assert_eq!(settings(&[]), []);
    }

    #[test]
    fn what_holds_back_is_told_from_what_is_fine() {
        let of = |bytes, pages, time| {
            settings(&[
                ("proc/sys/fs/pipe-max-size", bytes),
                ("proc/sys/fs/pipe-user-pages-soft", pages),
                (GOVERNOR_FILE, "haltpoll\n"),
                (HALT_POLL_FILE, time),
            ])
        };
        let usual = of("1048576", "16384", "200000");
        assert!(usual.iter().all(|setting| setting.fine), "{usual:?}");
        let tight = of("65536", "1024", "0");
        assert!(tight.iter().all(|setting| !setting.fine), "{tight:?}");
        assert_eq!(tight[1].meaning, "enough for only 4 pipes of 1 MiB");
        assert_eq!(tight.len(), 3);
    }

    #[test]
    fn a_limit_that_does_not_bind_is_fine_however_low() {
        let root = Circumstances {
            pipe_limits: PipeLimits {
                max_size: Some(4096),
                user_pages_soft: Some(1),
                user_pages_hard: None,
                privileged: true,
                exempt_from_user_pages: true,
            },
            ..Circumstances::default()
        };
        let found = read(&Fixture::new(&[]).root(), &root);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|setting| setting.fine), "{found:?}");
    }
}

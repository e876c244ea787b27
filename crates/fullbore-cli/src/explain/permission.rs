//! What is not allowed here, and which setting allows it.

use std::fs;

use rustix::io::Errno;

use super::record::Sampled;
use super::sampling::Refused;

/// What to say of it: nothing where all is allowed.
pub fn notes(sampled: Result<Sampled, Refused>, samples: u64, names_hidden: bool) -> Vec<String> {
    let mut notes = Vec::new();
    match sampled {
        Err(refused) => notes.push(no_samples(refused)),
        Ok(sampled) if !sampled.kernel => notes.push(format!(
            "the kernel is not sampled, only user code: kernel.perf_event_paranoid is {}; root (or \
             CAP_PERFMON) may, and everybody after 'sysctl kernel.perf_event_paranoid=1'",
            setting("perf_event_paranoid")
        )),
        Ok(_) if samples == 0 => notes.push(
            "samples are permitted here, but none came: what is said here comes from user and system \
             time, context switches and page faults"
                .to_owned(),
        ),
        Ok(_) if names_hidden => notes.push(format!(
            "the kernel's functions have no names here: kernel.kptr_restrict is {} and \
             /proc/kallsyms shows no addresses; root (or CAP_SYSLOG) sees them, and everybody after \
             'sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1'",
            setting("kptr_restrict")
        )),
        Ok(_) => {}
    }
    notes
}

fn no_samples(Refused(errno): Refused) -> String {
    let why = match errno {
        Errno::ACCESS | Errno::PERM => format!(
            "it is not permitted: kernel.perf_event_paranoid is {}, of which 2 and less let \
             everybody sample user code, and 1 and less the kernel ('sysctl \
             kernel.perf_event_paranoid=1'); in a container, its seccomp profile has to allow the \
             call as well, or give it CAP_PERFMON",
            setting("perf_event_paranoid")
        ),
        Errno::NOSYS => {
            "this kernel has none (CONFIG_PERF_EVENTS), or a seccomp filter says so".to_owned()
        }
        errno => format!("{errno}"),
    };
    format!(
        "there are no samples, perf_event_open(2) failed: {why}. What is said here comes from user \
         and system time, context switches and page faults"
    )
}

fn setting(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}"))
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

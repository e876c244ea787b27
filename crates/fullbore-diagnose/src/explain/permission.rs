//! Describes what is not allowed here, and which setting allows it.

use fullbore_host::machine::Root;
use rustix::io::Errno;

use super::sampling::Sampled;

/// Returns notes for the user, or none if everything is allowed.
pub fn notes(sampled: Result<Sampled, Errno>, samples: u64, names_hidden: bool) -> Vec<String> {
    let mut notes = Vec::new();
    match sampled {
        Err(refused) => notes.push(no_samples(refused)),
        Ok(sampled) if !sampled.kernel => notes.push(format!(
            "only user code is sampled, because kernel.perf_event_paranoid is {}: to sample the \
             kernel too, run as root, grant CAP_PERFMON, or run 'sysctl \
            kernel.perf_event_paranoid=1'",
            setting("perf_event_paranoid")
        )),
        Ok(_) if samples == 0 => notes.push(
            "sampling is permitted, but no samples arrived: this report is based on user and \
             system time, context switches and page faults"
                .to_owned(),
        ),
        Ok(_) if names_hidden => notes.push(format!(
            "the names of the kernel's functions are unknown: kernel.kptr_restrict is {} and \
             /proc/kallsyms shows no addresses. Run as root, grant CAP_SYSLOG, or run \
             'sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1'",
            setting("kptr_restrict")
        )),
        Ok(_) => {}
    }
    notes
}

fn no_samples(errno: Errno) -> String {
    let why = match errno {
        Errno::ACCESS | Errno::PERM => format!(
            "it is not permitted: kernel.perf_event_paranoid is {}. With 2 or less, all users may \
             sample user code; with 1 or less, the kernel too ('sysctl \
             kernel.perf_event_paranoid=1'); in a container, its seccomp profile has to allow the \
             call as well, or give it CAP_PERFMON",
            setting("perf_event_paranoid")
        ),
        Errno::NOSYS => {
            "this kernel lacks it (CONFIG_PERF_EVENTS), or a seccomp filter hides it".to_owned()
        }
        errno => format!("{errno}"),
    };
    format!(
        "perf_event_open(2) failed, so there are no samples: {why}. This report is based on user \
         and system time, context switches and page faults"
    )
}

fn setting(name: &str) -> String {
    let text = Root::system().text(format!("proc/sys/kernel/{name}"));
    text.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::sampling::{Clock, Scope};
    use super::*;

    fn sampled(kernel: bool) -> Result<Sampled, Errno> {
        Ok(Sampled {
            clock: Clock::Software,
            scope: Scope::Tasks,
            kernel,
            lost: 0,
        })
    }

    #[test]
    fn where_all_is_allowed_there_is_nothing_to_say() {
        assert_eq!(notes(sampled(true), 100, false), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_said_with_the_setting_that_allows_it() {
        for (sampled, samples, names_hidden, words) in [
            (sampled(false), 100, true, "only user code is sampled"),
            (sampled(true), 0, false, "no samples arrived"),
            (sampled(true), 100, true, "kernel.kptr_restrict=0"),
            (Err(Errno::ACCESS), 0, true, "perf_event_paranoid=1"),
            (Err(Errno::PERM), 0, true, "CAP_PERFMON"),
            (Err(Errno::NOSYS), 0, true, "CONFIG_PERF_EVENTS"),
            (Err(Errno::MFILE), 0, true, "perf_event_open(2) failed"),
        ] {
            let [note] = &notes(sampled, samples, names_hidden)[..] else {
                panic!("not one note about '{words}'");
            };
            assert!(note.contains(words), "{note}");
        }
    }
}

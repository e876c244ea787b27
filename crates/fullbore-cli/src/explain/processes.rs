//! Reads what every user can read about a process: its name, how long it ran, how often it slept.
//!
//! This requires no permission. This process scans its descendants repeatedly, and the last scan
//! of each process counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use procfs::process::Process;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use fullbore_observe::descendants;

/// What was read about one process.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its role in an experiment, or its program's name.
    pub name: String,
    /// The CPUs that its threads may use, according to the last scan.
    pub cpus: BTreeSet<u32>,
    first: Figures,
    last: Figures,
}

/// The result of one scan.
#[derive(Debug, Clone, Copy)]
struct Figures {
    at: Instant,
    so_far: Accounts,
}

/// The resource usage of a process, summed over its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Accounts {
    /// Seconds between the first and the last scan.
    pub seconds: f64,
    /// Seconds in user mode.
    pub user_seconds: f64,
    /// Seconds in the kernel.
    pub system_seconds: f64,
    /// Seconds that it was runnable and waited for a CPU.
    pub waited_seconds: f64,
    /// The number of times it slept.
    pub voluntary_switches: u64,
    /// The number of times another task took its CPU.
    pub involuntary_switches: u64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults with disk access.
    pub major_faults: u64,
}

/// All processes below this one, with their last scan.
#[derive(Debug, Default)]
pub struct Processes(BTreeMap<u32, Seen>);

impl Processes {
    /// Scans all of them.
    pub fn read(&mut self) {
        for pid in descendants(std::process::id()) {
            let Some((name, so_far, cpus)) = look_at(pid) else {
                continue;
            };
            let figures = Figures {
                at: Instant::now(),
                so_far,
            };
            match self.0.get_mut(&pid) {
                // If the name has changed, the process runs another program, and the usage before
                // that does not count.
                Some(seen) if seen.name == name => (seen.last, seen.cpus) = (figures, cpus),
                _ => {
                    self.0.insert(pid, Seen::first(name, cpus, figures));
                }
            }
        }
    }

    /// Discards the usage so far, so that it counts from now on.
    pub fn start_over(&mut self) {
        for seen in self.0.values_mut() {
            seen.first = seen.last;
        }
    }

    /// Returns the last known name of a process.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.0.get(&pid).map(|seen| seen.name.as_str())
    }

    /// Returns each process with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Seen)> {
        self.0.iter().map(|(&pid, seen)| (pid, seen))
    }
}

impl Seen {
    fn first(name: String, cpus: BTreeSet<u32>, figures: Figures) -> Self {
        Self {
            name,
            cpus,
            first: figures,
            last: figures,
        }
    }

    /// Returns the usage between the first and the last scan.
    pub fn accounts(&self) -> Accounts {
        let (first, last) = (&self.first.so_far, &self.last.so_far);
        Accounts {
            seconds: (self.last.at - self.first.at).as_secs_f64(),
            user_seconds: (last.user_seconds - first.user_seconds).max(0.0),
            system_seconds: (last.system_seconds - first.system_seconds).max(0.0),
            // The waiting times of threads that have ended are lost.
            waited_seconds: (last.waited_seconds - first.waited_seconds).max(0.0),
            voluntary_switches: last
                .voluntary_switches
                .saturating_sub(first.voluntary_switches),
            involuntary_switches: last
                .involuntary_switches
                .saturating_sub(first.involuntary_switches),
            minor_faults: last.minor_faults.saturating_sub(first.minor_faults),
            major_faults: last.major_faults.saturating_sub(first.major_faults),
        }
    }
}

impl Accounts {
    /// Adds the usage of another process.
    pub fn add(&mut self, other: &Accounts) {
        self.seconds += other.seconds;
        self.user_seconds += other.user_seconds;
        self.system_seconds += other.system_seconds;
        self.waited_seconds += other.waited_seconds;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
    }

    /// Returns the fraction of its time in which it ran; it is above 1 if threads ran in parallel.
    pub fn ran(&self) -> f64 {
        self.of_time(self.user_seconds + self.system_seconds)
    }

    /// Returns the fraction of its time in which it waited for a CPU.
    pub fn waited(&self) -> f64 {
        self.of_time(self.waited_seconds).min(1.0)
    }

    /// Returns the fraction of its time in which it slept, so neither ran nor waited for a CPU.
    pub fn slept(&self) -> f64 {
        (1.0 - self.ran() - self.waited()).max(0.0)
    }

    fn of_time(&self, seconds: f64) -> f64 {
        if self.seconds > 0.0 {
            seconds / self.seconds
        } else {
            0.0
        }
    }
}

fn look_at(pid: u32) -> Option<(String, Accounts, BTreeSet<u32>)> {
    let process = Process::new(pid as i32).ok()?;
    let stat = process.stat().ok()?;
    let words = process.cmdline().ok()?;
    if words.is_empty() {
        // The process is a zombie, or a kernel thread.
        return None;
    }
    let tick = 1.0 / procfs::ticks_per_second() as f64;
    let mut accounts = Accounts {
        user_seconds: stat.utime as f64 * tick,
        system_seconds: stat.stime as f64 * tick,
        minor_faults: stat.minflt,
        major_faults: stat.majflt,
        ..Accounts::default()
    };
    let mut cpus = BTreeSet::new();
    for task in process.tasks().ok()?.flatten() {
        if let Ok(times) = task.schedstat() {
            accounts.waited_seconds += times.run_delay as f64 / 1e9;
        }
        if let Ok(status) = task.status() {
            accounts.voluntary_switches += status.voluntary_ctxt_switches.unwrap_or(0);
            accounts.involuntary_switches += status.nonvoluntary_ctxt_switches.unwrap_or(0);
            let allowed = status.cpus_allowed_list.unwrap_or_default();
            cpus.extend(allowed.into_iter().flat_map(|(first, last)| first..=last));
        }
    }
    Some((role(&words, &stat.comm), accounts, cpus))
}

/// Returns the name of a process: its role in an experiment, according to its command line, or
/// else `name`.
fn role(words: &[String], name: &str) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["/proc/self/exe", "write", ..] => "writer".to_owned(),
        ["/proc/self/exe", "read", ..] => "reader".to_owned(),
        ["/proc/self/exe", "part", .., part, task] => {
            role_in(task).unwrap_or_else(|| (*part).to_owned())
        }
        ["/proc/self/exe", verb, ..] => (*verb).to_owned(),
        _ => name.to_owned(),
    }
}

/// Returns the `role` in the task of a part, if there is one.
fn role_in(task: &str) -> Option<String> {
    let task: Value = serde_json::from_str(task).ok()?;
    let role = match task.get("role")? {
        Value::String(role) => role,
        Value::Object(fields) => fields.keys().next()?,
        _ => return None,
    };
    Some(role.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_an_experiment_are_called_by_what_they_do() {
        let role = |words: &[&str], name: &str| {
            let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
            super::role(&words, name)
        };
        let exe = "/proc/self/exe";
        assert_eq!(role(&[exe, "write", "--json"], "exe"), "writer");
        assert_eq!(role(&[exe, "read", "--json"], "exe"), "reader");
        assert_eq!(role(&[exe, "copy", "-"], "exe"), "copy");
        let part = |name, task| role(&[exe, "part", "--cpu=1", name, task], "exe");
        assert_eq!(part("send", r#"{"message":1}"#), "send");
        assert_eq!(part("wakeup", r#"{"role":"Waker"}"#), "waker");
        assert_eq!(part("unixcopy", r#"{"role":{"Client":{}}}"#), "client");
        assert_eq!(role(&["cat", "-"], "cat"), "cat");
        assert_eq!(role(&["write", "someone"], "write"), "write");
    }

    #[test]
    fn what_is_below_this_process_is_found_and_accounted_for() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done & sleep 60; kill $!"])
            .spawn()
            .unwrap();
        let mut processes = Processes::default();
        let began = Instant::now();
        while began.elapsed().as_secs() < 30 {
            processes.read();
            let names: Vec<&str> = processes
                .iter()
                .map(|(_, seen)| seen.name.as_str())
                .collect();
            let busy =
                |(_, seen): (u32, &Seen)| seen.name == "sh" && seen.accounts().user_seconds > 0.05;
            if names.contains(&"sleep") && processes.iter().any(busy) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let asleep = processes
            .iter()
            .find(|(_, seen)| seen.name == "sleep")
            .unwrap()
            .1;
        assert!(asleep.accounts().slept() > 0.5, "{asleep:?}");
        for pid in descendants(child.id()) {
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

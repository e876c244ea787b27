//! Reads what every user can read about a process: its name, how long it ran, how often it slept.
//!
//! This requires no permission. This process scans its descendants repeatedly, and the last scan
//! of each process counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use procfs::process::Process;

use fullbore_lab::program::role;
use fullbore_observe::{descendants, proc_is_ours};
use fullbore_results::explain::Accounts;

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

/// The figures of a process, and when they were read.
type Figures = (Instant, Accounts);

/// All processes below this one, with their last scan.
#[derive(Debug, Default)]
pub struct Processes(BTreeMap<u32, Seen>);

impl Processes {
    /// Scans all of them.
    pub fn read(&mut self) {
        // In a /proc of another PID namespace, the PID of this process belongs to another one.
        if !proc_is_ours() {
            return;
        }
        for pid in descendants(std::process::id()) {
            let Some((name, so_far, cpus)) = look_at(pid) else {
                continue;
            };
            let figures = (Instant::now(), so_far);
            match self.0.get_mut(&pid) {
                // If the name has changed, the process runs another program, and the usage before
                // that does not count.
                Some(seen) if seen.name == name => (seen.last, seen.cpus) = (figures, cpus),
                _ => {
                    let (first, last) = (figures, figures);
                    self.0.insert(
                        pid,
                        Seen {
                            name,
                            cpus,
                            first,
                            last,
                        },
                    );
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
    /// Returns the usage between the first and the last scan.
    pub fn accounts(&self) -> Accounts {
        let ((began, first), (until, last)) = (&self.first, &self.last);
        let more = |of: fn(&Accounts) -> u64| of(last).saturating_sub(of(first));
        Accounts {
            seconds: (*until - *began).as_secs_f64(),
            user_seconds: (last.user_seconds - first.user_seconds).max(0.0),
            system_seconds: (last.system_seconds - first.system_seconds).max(0.0),
            // The waiting times of threads that have ended are lost.
            waited_seconds: (last.waited_seconds - first.waited_seconds).max(0.0),
            voluntary_switches: more(|of| of.voluntary_switches),
            involuntary_switches: more(|of| of.involuntary_switches),
            minor_faults: more(|of| of.minor_faults),
            major_faults: more(|of| of.major_faults),
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
    Some((role(&words).unwrap_or(stat.comm), accounts, cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_this_process_is_found_and_accounted_for() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done & sleep 600; kill $!"])
            .spawn()
            .unwrap();
        let mut processes = Processes::default();
        let is_busy =
            |(_, seen): (u32, &Seen)| seen.name == "sh" && seen.accounts().user_seconds > 0.05;
        // It must have got a CPU before most of its time is sleep.
        let is_asleep = |(_, seen): (u32, &Seen)| {
            let accounts = seen.accounts();
            seen.name == "sleep" && accounts.seconds > 0.0 && accounts.slept() > 0.5
        };
        let began = Instant::now();
        let found = loop {
            processes.read();
            if processes.iter().any(is_busy) && processes.iter().any(is_asleep) {
                break true;
            }
            if began.elapsed().as_secs() > 300 {
                break false;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        for pid in descendants(child.id()) {
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
        assert!(found, "{processes:?}");
    }
}

//! Waits for the processes that are still running in the background when the stages have ended.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::left::name;
use super::runner::{Ending, Runner};
use super::signals::{is_ending, is_in_this_session};
use crate::processes::ending;

/// The interval at which the processes in the background are listed.
const LISTING_INTERVAL: Duration = Duration::from_millis(100);

/// How long the runner waits for processes in the background before it prints a message.
const SAY_AFTER: Duration = Duration::from_secs(1);

impl Runner<'_> {
    /// Waits for the processes that the stages have left running. A process in the session of this one is
    /// waited for like a stage. When only processes in sessions of their own are left, such as daemons, they
    /// are ended.
    pub(super) fn wait_for_the_background(&mut self) {
        let began = Instant::now();
        let mut told = false;
        while ending::has_children() && self.ended_by.is_none() && !self.has_failed() {
            if let Ending::Signal(signal) = self.ending() {
                // The stages have died of Ctrl-C, which a shell makes its background processes ignore.
                self.end_left();
                self.ended_by = Signal::from_named_raw(signal);
                return;
            }
            // Without /proc, daemons cannot be distinguished from other processes.
            let known = ending::proc_is_ours();
            if known {
                let left = ending::living().into_iter();
                let (jobs, daemons): (Vec<_>, Vec<_>) =
                    left.partition(|&pid| is_in_this_session(pid));
                if jobs.is_empty() && !daemons.is_empty() {
                    let daemons = named(&daemons);
                    self.say_unless_quiet(&format!(
                        "ended processes that the pipeline has left running in sessions of their own: {daemons}; to keep \
                         such a process running, start it before the pipeline"
                    ));
                    self.end_left();
                    while let Some(came) = self.signals.next() {
                        if is_ending(came.signal.as_raw()) {
                            self.ended_by = Some(came.signal);
                        }
                    }
                    return;
                }
                if !told && !jobs.is_empty() && began.elapsed() >= SAY_AFTER {
                    told = true;
                    let jobs = named(&jobs);
                    self.say_unless_quiet(&format!(
                        "all stages have ended; waiting for what they have left in the background: {jobs}"
                    ));
                }
            }
            // No event reports that a process has created a session (setsid(2)), so the processes are listed
            // periodically.
            let time = known.then_some(LISTING_INTERVAL);
            self.wait(time, |runner, came| match came.signal {
                // A shell makes its background processes ignore these signals, so they get SIGTERM.
                Signal::INT | Signal::QUIT => {
                    runner.end_all(Signal::TERM);
                    runner.ended_by = Some(came.signal);
                }
                _ => runner.obey(came),
            });
            self.reap();
        }
    }
}

/// Returns the names and PIDs of processes.
fn named(pids: &[u32]) -> String {
    let name = |&pid: &u32| format!("{} ({pid})", name(pid).as_deref().unwrap_or("process"));
    let names: Vec<String> = pids.iter().map(name).collect();
    names.join(", ")
}

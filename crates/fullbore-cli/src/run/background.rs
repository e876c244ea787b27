//! What the stages have left running in the background when they have ended.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::unistd::getsid;
use procfs::process::Process;
use rustix::process::Signal;

use super::runner::{Ending, GRACE, Runner, wait_for};
use crate::ending;
use fullbore_host::text::clean;

/// Between two looks at who is left in the background.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long what is left in the background is waited for before a person is told.
const SAY_AFTER: Duration = Duration::from_secs(1);

impl Runner<'_> {
    /// Waits for what the stages have left running: as for a stage for what is still in the session of this
    /// process, and what is in one of its own, as daemons are, is ended then.
    pub(super) fn wait_for_the_background(&mut self) {
        let began = Instant::now();
        let mut told = false;
        while ending::has_children() && self.ended_by.is_none() {
            if let Ending::Signal(signal) = self.ending() {
                // They have died of Ctrl-C, which a shell has what is in the background ignore.
                ending::end_all(Signal::TERM, GRACE, || self.reap());
                self.ended_by = Signal::from_named_raw(signal);
                return;
            }
            // Without /proc nobody can be told from a daemon.
            let known = ending::proc_is_ours();
            if known {
                let left = ending::living();
                let (jobs, daemons): (Vec<u32>, Vec<u32>) =
                    left.into_iter().partition(|&pid| is_in_this_session(pid));
                if jobs.is_empty() && !daemons.is_empty() {
                    let daemons = named(&daemons);
                    self.say_unless_quiet(&format!(
                        "ended what the pipeline has left in a session of its own: {daemons}; what is to stay \
                         is started before the pipeline"
                    ));
                    ending::end_all(Signal::TERM, GRACE, || self.reap());
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
            let fds = [self.signals.as_fd(), self.keeper.as_fd()];
            // That somebody makes a session of his own is told by nothing.
            let came = wait_for(&fds, known.then_some(LOOK_EVERY));
            self.reap();
            while let Some(came) = self.signals.next() {
                match came.signal {
                    // A shell has what it starts in the background ignore them.
                    Signal::INT | Signal::QUIT => {
                        self.end_all(Signal::TERM);
                        self.ended_by = Some(came.signal);
                    }
                    _ => self.obey(came),
                }
            }
            if came[1] && self.ended_by.is_none() {
                self.end_all(Signal::TERM);
            }
            self.stop_with_the_others();
        }
    }
}

/// Whether a process is in the session of this one. One that has gone is in none.
fn is_in_this_session(pid: u32) -> bool {
    // Not rustix's: the number is 0 where who began the session is outside of this PID namespace, as in a
    // container.
    let session = getsid(Some(nix::unistd::Pid::from_raw(pid as i32)));
    session.is_ok() && session == getsid(None)
}

/// The names and numbers of processes.
fn named(pids: &[u32]) -> String {
    let names: Vec<String> = pids
        .iter()
        .map(|&pid| {
            let stat = Process::new(pid as i32).and_then(|process| process.stat());
            let name = stat.map_or_else(|_| "process".to_owned(), |stat| clean(&stat.comm));
            format!("{name} ({pid})")
        })
        .collect();
    names.join(", ")
}

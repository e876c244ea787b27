//! What `--whole` does when a stage has ended: a success lets the next stage see the end of its input, and a failure
//! ends all stages behind.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::runner::{Runner, say};
use super::status::code;
use crate::ending;
use fullbore_observe::census::ProcessId;
use fullbore_observe::descendants;

impl Runner<'_> {
    /// Acts on the end of a stage: a success lets the next stage see the end of its input, and a failure ends
    /// all stages behind.
    pub(super) fn settle(&mut self, stage: usize, status: ExitStatus, succeeded: bool) {
        // If everything is being ended, nobody is to see an end.
        let is_ended = self.is_ended || self.ended_by.is_some();
        let Some(whole) = self.whole.as_mut().filter(|_| !is_ended) else {
            return;
        };
        if whole.broken.is_some_and(|broken| stage > broken) {
            return;
        }
        if succeeded {
            if let Err(error) = whole.release(stage) {
                say(&format!("{error:#}; the pipeline is ended"));
                self.end_all(Signal::TERM);
            }
            return;
        }
        whole.failed = whole.failed.or(Some(status));
        whole.broken = Some(stage);
        self.end_behind(stage, status);
    }

    /// Asks all stages behind a failed one to end, and says so.
    fn end_behind(&mut self, failed: usize, status: ExitStatus) {
        let (mut asked, mut numbers) = (BTreeSet::new(), Vec::new());
        for (stage, pid) in self.running().filter(|&(stage, _)| stage > failed) {
            asked.extend(with_descendants(pid.as_raw_nonzero().get() as u32));
            numbers.push((stage + 1).to_string());
        }
        signal_all(&asked, Signal::TERM);
        signal_all(&asked, Signal::CONT);
        let ended = match numbers.as_slice() {
            [] => String::new(),
            [one] => format!("; stage {one} was ended before it saw the end of its input"),
            [before @ .., last] => format!(
                "; stages {} and {last} were ended before they saw the end of their input",
                before.join(", ")
            ),
        };
        let how = match status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("failed with exit code {}", code(status)),
        };
        let text = &self.stages[failed].text;
        if self.noted.is_none() {
            let early = self.about_early(failed);
            say(&format!(
                "stage {}, {text}, {how}{early}{ended}",
                failed + 1
            ));
        }
        let grace = self.options.grace;
        if let Some(whole) = self.whole.as_mut().filter(|_| !asked.is_empty()) {
            whole.asked.extend(asked);
            whole.kill_at = Some(Instant::now() + grace);
        }
    }

    /// Kills what was asked to end and has not ended in time, with all that it has started since.
    pub(super) fn kill_asked(&mut self) {
        let Some(whole) = &mut self.whole else {
            return;
        };
        let is_time = |at: &mut Instant| *at <= Instant::now();
        if whole.kill_at.take_if(is_time).is_some() {
            let is_left = |id: &&ProcessId| ProcessId::of(id.pid) == Some(**id);
            let left = whole.asked.iter().filter(is_left);
            let left = left.flat_map(|id| with_descendants(id.pid)).collect();
            signal_all(&left, Signal::KILL);
        }
    }

    /// After a failure, ends what the stages have left running, because it may still read from a pipe of the
    /// pipeline. Returns whether there was a failure.
    pub(super) fn end_after_failure(&mut self) -> bool {
        let has_failed = matches!(&self.whole, Some(whole) if whole.failed.is_some());
        if has_failed && self.ended_by.is_none() && ending::has_children() {
            self.end_left();
        }
        has_failed
    }
}

/// Returns a process and its descendants.
fn with_descendants(pid: u32) -> impl Iterator<Item = ProcessId> {
    let all = descendants(pid).into_iter().chain([pid]);
    all.filter_map(ProcessId::of)
}

/// Sends a signal to processes that are still the same. All are descendants of this process, and what has lost
/// its parent is not waited for meanwhile, so no PID is used again.
fn signal_all(processes: &BTreeSet<ProcessId>, signal: Signal) {
    for id in processes {
        let pid = Pid::from_raw(id.pid as i32);
        if let Some(pid) = pid.filter(|_| ProcessId::of(id.pid) == Some(*id)) {
            let _ = kill_process(pid, signal);
        }
    }
}

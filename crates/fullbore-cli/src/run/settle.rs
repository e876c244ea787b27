//! What `--whole` does when a process has ended: the success of a stage lets the next stage see the end of its input, and
//! a failure ends the pipeline.
//!
//! The stages behind a failure, and what any stage has left behind, are stopped before any of them is asked to end. The
//! stages before it end by themselves when they write. Those that do not are asked to end after the grace period.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::fs::fstat;
use rustix::process::{Pid, Signal};

use super::failure::FAILED;
use super::left::{say, say_left};
use super::observer::Observer;
use super::runner::Runner;
use super::shelf::pipes_of;
use super::signals::is_in_this_session;
use super::status::{how_it_failed, was_ended_by_sigpipe};
use super::whole::{Note, Step};
use crate::exit;
use crate::processes::ending;
use crate::processes::guard::number;

/// The interval at which a process is looked at that still has the pipe of its stage open. No event reports that it
/// closes it.
const LISTING_INTERVAL: Duration = Duration::from_millis(100);

impl Runner<'_> {
    /// Acts on the end of a stage: a success lets the next stage see the end of its input, and a failure ends
    /// all stages behind.
    pub(super) fn settle(&mut self, stage: usize, status: ExitStatus, succeeded: bool) {
        // If everything is being ended, nobody is to see an end.
        let whole = self.whole.as_ref().filter(|_| !self.is_over());
        if whole.is_none_or(|whole| whole.is_ending(stage)) {
            return;
        }
        if succeeded {
            return self.release(stage);
        }
        let what = format!("stage {}, {},", stage + 1, self.stages[stage].text);
        self.fail(status, what, self.about_early(stage), stage + 1);
    }

    /// Acts on the end of a process that a stage has left behind.
    pub(super) fn settle_left(&mut self, pid: Pid, name: Option<String>, status: ExitStatus) {
        let whole = self.whole.as_ref().filter(|_| !self.is_over());
        // After a failure, what is left behind is ended here.
        let Some(whole) = whole.filter(|whole| whole.failed.is_none()) else {
            return;
        };
        if status.success() || was_ended_by_sigpipe(status) && !self.options.sigpipe_fails {
            return self.release_what_is_complete();
        }
        // If it wrote to a pipe of the pipeline, only the stages behind have to be ended at once.
        let from = whole.written.first().map_or(0, |stage| stage + 1);
        let name = name.map_or(String::new(), |name| format!(", {name}"));
        let what = format!("process {pid}{name}, which a stage has left behind,");
        self.fail(status, what, String::new(), from);
    }

    /// Lets the next stage see the end, unless a process that a stage has left behind still writes to it.
    fn release(&mut self, stage: usize) {
        // What has ended meanwhile, and had this pipe open, may have failed: that is known once it was waited for.
        let is_written = self.is_written(stage) || ending::has_ended_child();
        if let Some(whole) = self.whole.as_mut().filter(|_| is_written) {
            whole.written.insert(stage);
            return;
        }
        if let Err(error) = self.others.shelf.release(stage) {
            exit::say("fullbore run", &error.context("end the pipeline"));
            let failed = ExitStatus::from_raw(i32::from(FAILED) << 8);
            self.fail(failed, String::new(), String::new(), 0);
        }
    }

    /// Lets stages see the end for which others had written too.
    pub(super) fn release_what_is_complete(&mut self) {
        if self.is_over() || self.has_failed() {
            return;
        }
        let whole = self.whole.as_mut();
        let written = whole.map(|whole| std::mem::take(&mut whole.written));
        for stage in written.unwrap_or_default() {
            self.release(stage);
        }
    }

    /// Returns whether a process that a stage has left behind has the write end of the pipe after this stage open, as far
    /// as this user may look.
    fn is_written(&self, stage: usize) -> bool {
        let stages: Vec<u32> = self.running_pids(|_| true);
        let me = std::process::id();
        let mut left = fullbore_observe::children(me).unwrap_or_default();
        left.retain(|pid| !stages.contains(pid));
        if left.is_empty() || !ending::proc_is_ours() {
            return false;
        }
        left.extend(ending::living_besides(&stages));
        let end = self.others.shelf.end_of(stage).ok().flatten();
        let Some(pipe) = end.and_then(|end| fstat(end).ok()) else {
            return false;
        };
        let is_it = |id: (u64, u64)| id == (pipe.st_dev, pipe.st_ino);
        left.iter().any(|&pid| match pipes_of(&pid.to_string()) {
            Some(ends) => ends.iter().any(|end| end.is_writer && is_it(end.id)),
            // Of another user: it may have it, unless it is a daemon, which is not waited for.
            None => is_in_this_session(pid),
        })
    }

    /// Returns the first processes of the running stages with such a number.
    fn running_pids(&self, is_meant: impl Fn(usize) -> bool) -> Vec<u32> {
        let running = self.running().filter(|&(stage, _)| is_meant(stage));
        running.map(|(_, pid)| number(pid)).collect()
    }

    /// Asks the stages from this number on to end, and what all stages have left behind. `what` has failed, and was
    /// named before if it is empty. `early` is added to the message.
    fn fail(&mut self, status: ExitStatus, what: String, early: String, from: usize) {
        let behind = self.running().map(|(stage, _)| stage);
        let behind = behind.filter(|&stage| stage >= from).collect();
        let how = how_it_failed(status);
        let grace = self.options.grace;
        let Some(whole) = &mut self.whole else {
            return;
        };
        whole.failed = whole.failed.or(Some(status));
        whole.ended_from = Some(whole.ended_from.map_or(from, |other| other.min(from)));
        whole.due = whole.due.or(Some(Instant::now() + grace));
        if !what.is_empty() && self.noted.is_none() {
            let failure = format!("{what} {how}{early}");
            whole.notes.push(Note { failure, behind });
        }
        self.tell_from(from, ending_signal(grace));
    }

    /// Stops the stages from this number on and what was left behind, and sends them a signal.
    fn tell_from(&mut self, from: usize, signal: Signal) {
        let before = self.running_pids(|stage| stage < from);
        let find = || ending::living_besides(&before);
        let shelf = self.others.shelf;
        let told = shelf.with_all_stopped(true, |stopped| ending::tell(find, signal, stopped));
        if let Some(whole) = &mut self.whole {
            whole.refused.extend(told.refused);
            whole.untold = told.untold;
        }
    }

    /// Does what is due after a failure: kills what was asked to end and has not, then asks the stages before it.
    fn end_further(&mut self) {
        let Some(whole) = &mut self.whole else {
            return;
        };
        let is_time = |at: &mut Instant| *at <= Instant::now();
        if whole.due.take_if(is_time).is_none() {
            return;
        }
        let from = whole.ended_from.unwrap_or_default();
        let grace = self.options.grace;
        let (step, next) = match whole.step {
            Step::Behind => (Step::Before, grace),
            Step::Before => (Step::All, ending::AT_MOST),
            Step::All => (Step::GivenUp, Duration::ZERO),
            Step::GivenUp => return,
        };
        whole.step = step;
        whole.due = Some(Instant::now() + next);
        match step {
            Step::Before => {
                self.tell_from(from, Signal::KILL);
                if !self.running_pids(|stage| stage < from).is_empty() {
                    self.tell_from(0, ending_signal(grace));
                }
            }
            Step::All => self.tell_from(0, Signal::KILL),
            Step::Behind | Step::GivenUp => {}
        }
    }

    /// Waits for all stages and, after a failure, for everything that has been ended.
    pub(super) fn wait_for_the_stages(&mut self) {
        self.reap();
        while !self.is_over() && self.is_any_left() {
            let due = self.observer.as_mut().map(Observer::sample);
            if self.stalled().is_some() {
                return;
            }
            self.end_further();
            let mut whole = self.whole.as_mut();
            if let Some(whole) = &mut whole {
                let signal = ending_signal(self.options.grace);
                self.others.shelf.with_all_stopped(true, |stopped| {
                    ending::tell_orphans(&mut whole.untold, signal, stopped);
                });
            }
            let is_written = whole
                .as_ref()
                .is_some_and(|whole| !whole.written.is_empty());
            let look = is_written.then(|| Instant::now() + LISTING_INTERVAL);
            let whole = whole.and_then(|whole| whole.write_back());
            let due = [due, self.stop_by, whole, look].into_iter().flatten().min();
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            self.wait(left, Self::obey);
            if is_written && !self.has_failed() {
                self.release_what_is_complete();
            }
        }
    }

    /// Returns whether to wait for a process: not for those that cannot be ended.
    fn is_any_left(&self) -> bool {
        let Some(whole) = self.whole.as_ref().filter(|whole| whole.failed.is_some()) else {
            return self.running().next().is_some();
        };
        let can_be_ended = || {
            let living = ending::living();
            living.is_empty() || living.iter().any(|pid| !whole.refused.contains(pid))
        };
        ending::has_children()
            && match whole.step {
                Step::Behind => true,
                // What has been killed is a child that has to be reaped, or is one at the second look.
                Step::Before | Step::All => can_be_ended() || can_be_ended(),
                Step::GivenUp => false,
            }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(&self.whole, Some(whole) if whole.failed.is_some())
    }

    /// Says what has failed, what was ended because of that, and what could not be ended.
    pub(super) fn say_failures(&mut self) {
        let Some(whole) = &mut self.whole else {
            return;
        };
        // What could not be ended may belong to a stage whose first process has ended.
        let is_all = self.ended_by.is_some() || !ending::has_children();
        let of = if is_all { "" } else { "the first process of " };
        for note in std::mem::take(&mut whole.notes) {
            let has_ended = |stage: &&usize| self.stages[**stage].status.is_some();
            let ended = note.behind.iter().filter(has_ended);
            let ended: Vec<String> = ended.map(|stage| (stage + 1).to_string()).collect();
            let ended = match ended.as_slice() {
                [] => String::new(),
                [one] => format!("; {of}stage {one} was ended before it saw the end of its input"),
                [before @ .., last] => format!(
                    "; {of}stages {} and {last} were ended before they saw the end of their input",
                    before.join(", ")
                ),
            };
            say(&format!("{}{ended}", note.failure));
        }
        if is_all {
            return;
        }
        match ending::living().as_slice() {
            [] => say("processes that /proc does not show could not be ended"),
            left => say_left(left, self.others.shelf.is_read()),
        }
    }
}

/// Returns the signal that asks processes to end: if they have no time for it, they never run again.
fn ending_signal(grace: Duration) -> Signal {
    match grace.is_zero() {
        true => Signal::KILL,
        false => Signal::TERM,
    }
}

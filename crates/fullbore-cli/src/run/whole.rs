//! `--whole`: no stage sees an end of its input that a failure has caused.
//!
//! The write end of every pipe is also on a [`Shelf`]. It is taken off when the stage that writes to the pipe has
//! exited and succeeded. If that stage fails, its end stays there until the stages behind it have been ended,
//! so that none of them can mistake the failure for the end of its input.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::runner::{Runner, say};
use super::shelf::{MOST, Shelf};
use super::status::{code, was_ended_by_sigpipe};
use crate::ending;
use fullbore_host::refusal::Usage;
use fullbore_observe::census::ProcessId;
use fullbore_observe::descendants;
use fullbore_observe::process_id;

/// The state of a pipeline that runs with `--whole`.
pub struct Whole<'a> {
    shelf: &'a Shelf,
    /// The stages whose write ends are on the shelf, in its order.
    held: Vec<usize>,
    /// How the stage that failed first ended.
    failed: Option<ExitStatus>,
    /// The first of the stages that failed. Those behind it are ended.
    broken: Option<usize>,
    /// When the processes that have been asked to end are killed.
    kill_at: Option<Instant>,
    asked: BTreeSet<ProcessId>,
}

impl<'a> Whole<'a> {
    /// Prepares for a pipeline of so many stages.
    ///
    /// # Errors
    /// Returns [`Usage`] if there are too many.
    pub fn new(shelf: &'a Shelf, stages: usize) -> Result<Self, Usage> {
        if stages > MOST + 1 {
            return Err(Usage(format!(
                "--whole takes at most {} stages, and the pipeline has {stages}",
                MOST + 1
            )));
        }
        Ok(Self {
            shelf,
            held: Vec::new(),
            failed: None,
            broken: None,
            kill_at: None,
            asked: BTreeSet::new(),
        })
    }

    /// Holds the write end of the pipe after this stage.
    ///
    /// # Errors
    /// Fails if too many descriptors are in messages of this user.
    pub fn hold(&mut self, stage: usize, end: impl AsFd) -> Result<()> {
        let before = self.shelf.contents();
        let mut ends: Vec<_> = before.iter().map(AsFd::as_fd).collect();
        ends.push(end.as_fd());
        self.shelf.replace(&ends)?;
        self.held.push(stage);
        Ok(())
    }

    /// Lets the next stage see the end.
    fn release(&mut self, stage: usize) -> Result<()> {
        let Some(at) = self.held.iter().position(|&held| held == stage) else {
            return Ok(());
        };
        let before = self.shelf.contents();
        let mut ends: Vec<_> = before.iter().map(AsFd::as_fd).collect();
        ends.remove(at);
        self.shelf.replace(&ends)?;
        self.held.remove(at);
        Ok(())
    }

    /// Returns whether the pipe after this stage still has a reader.
    fn has_reader(&self, stage: usize) -> bool {
        let ends = self.shelf.contents();
        let at = self.held.iter().position(|&held| held == stage);
        let Some(end) = at.and_then(|at| ends.get(at)) else {
            return false;
        };
        let mut polled = [PollFd::new(end, PollFlags::OUT)];
        let asked = poll(&mut polled, Some(&Timespec::default()));
        // poll(2) reports POLLERR for a write end without readers.
        asked.is_err() || !polled[0].revents().contains(PollFlags::ERR)
    }

    /// Returns how the stage that failed first ended.
    pub fn failed(&self) -> Option<ExitStatus> {
        self.failed
    }

    /// Returns when [`Runner::kill_asked`] is due.
    pub fn due(&self) -> Option<Instant> {
        self.kill_at
    }
}

impl Runner<'_> {
    /// Acts on the end of a stage: a success lets the next stage see the end of its input, and a failure ends
    /// all stages behind.
    pub(super) fn settle(&mut self, stage: usize, status: ExitStatus) {
        let sigpipe_fails = self.options.sigpipe_fails;
        let Some(whole) = &mut self.whole else {
            return;
        };
        // Everything is being ended, and nobody is to see an end.
        if self.ended_by.is_some() {
            return;
        }
        if whole.broken.is_some_and(|broken| stage > broken) {
            return;
        }
        let succeeded = status.success()
            // SIGPIPE can also come from another pipe than that to the next stage.
            || was_ended_by_sigpipe(status) && !sigpipe_fails && !whole.has_reader(stage);
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
        let behind: Vec<(usize, Pid)> = self
            .running()
            .filter(|&(stage, _)| stage > failed)
            .collect();
        let mut asked = BTreeSet::new();
        for &(_, pid) in &behind {
            let pid = pid.as_raw_nonzero().get() as u32;
            asked.extend(
                descendants(pid)
                    .into_iter()
                    .chain([pid])
                    .filter_map(process_id),
            );
        }
        signal_all(&asked, Signal::TERM);
        signal_all(&asked, Signal::CONT);
        let numbers: Vec<String> = behind
            .iter()
            .map(|(stage, _)| (stage + 1).to_string())
            .collect();
        let ended = match numbers.as_slice() {
            [] => String::new(),
            [one] => format!("; stage {one} was ended before it saw the end of its input"),
            [before @ .., last] => format!(
                "; stages {} and {last} were ended before they saw the end of their input",
                before.join(", ")
            ),
        };
        let how = match (code(status), status.signal()) {
            (_, Some(signal)) => format!("was ended by signal {signal}"),
            (code, None) => format!("failed with exit code {code}"),
        };
        let text = self.text_of(failed);
        if self.noted.is_none() {
            say(&format!("stage {}, {text}, {how}{ended}", failed + 1));
        }
        let grace = self.options.grace;
        if let Some(whole) = &mut self.whole
            && !asked.is_empty()
        {
            whole.asked.extend(asked);
            whole.kill_at = Some(Instant::now() + grace);
        }
    }

    /// Kills what was asked to end and has not ended in time, with all that it has started since.
    pub(super) fn kill_asked(&mut self) {
        let Some(whole) = &mut self.whole else {
            return;
        };
        if whole.kill_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        whole.kill_at = None;
        let mut left: BTreeSet<ProcessId> = BTreeSet::new();
        for &id in &whole.asked {
            if process_id(id.pid) == Some(id) {
                left.extend(descendants(id.pid).into_iter().filter_map(process_id));
                left.insert(id);
            }
        }
        signal_all(&left, Signal::KILL);
    }

    /// After a failure, ends what the stages have left running, because it may still read from a pipe of the
    /// pipeline. Returns whether there was a failure.
    pub(super) fn end_after_failure(&mut self) -> bool {
        let has_failed = self
            .whole
            .as_ref()
            .is_some_and(|whole| whole.failed.is_some());
        if has_failed && self.ended_by.is_none() && ending::has_children() {
            self.end_left();
        }
        has_failed
    }
}

/// Sends a signal to processes that are still the same. All are descendants of this process, and what has lost
/// its parent is not waited for meanwhile, so no PID is used again.
fn signal_all(processes: &BTreeSet<ProcessId>, signal: Signal) {
    for id in processes {
        if let Some(pid) = Pid::from_raw(id.pid as i32)
            && process_id(id.pid) == Some(*id)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

//! `--whole`: no stage sees an end of its input that a failure has caused.
//!
//! The write end of every pipe is also on a [`Shelf`]. It is taken off when the stage that writes to the pipe has
//! exited and succeeded. If that stage fails, its end stays there until the stages behind it have been ended,
//! so that none of them can mistake the failure for the end of its input.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::time::Instant;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::shelf::{MOST, Shelf};
use fullbore_host::refusal::Usage;
use fullbore_observe::census::ProcessId;

/// The state of a pipeline that runs with `--whole`.
pub struct Whole<'a> {
    shelf: &'a Shelf,
    /// The stages whose write ends are on the shelf, in its order.
    held: Vec<usize>,
    /// How the stage that failed first ended.
    pub(super) failed: Option<ExitStatus>,
    /// The first of the stages that failed. Those behind it are ended.
    pub(super) broken: Option<usize>,
    /// When the processes that have been asked to end are killed.
    pub(super) kill_at: Option<Instant>,
    pub(super) asked: BTreeSet<ProcessId>,
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
    pub fn release(&mut self, stage: usize) -> Result<()> {
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
    pub fn has_reader(&self, stage: usize) -> bool {
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

    /// Returns when the processes that were asked to end are to be killed.
    pub fn due(&self) -> Option<Instant> {
        self.kill_at
    }
}

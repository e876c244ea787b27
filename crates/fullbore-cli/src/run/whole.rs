//! `--whole`: no stage sees an end of its input that a failure has caused.
//!
//! The write end of every pipe is also on a [`Shelf`]. It is taken off when the stage that writes to the pipe has
//! exited and succeeded. If that stage fails, its end stays there until the stages behind it have been ended,
//! so that none of them can mistake the failure for the end of its input.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fullbore_linux::is_closed;

use super::options::Options;
use super::shelf::{MOST, Shelf};
use crate::copying::{Replacement, WriteBack};
use fullbore_host::refusal::Usage;
use fullbore_observe::census::ProcessId;

/// The time after which what was written to the output is handed to the disk.
const INTERVAL: Duration = Duration::from_millis(100);

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
    /// The file that gets the output of the last stage.
    output: Option<Replacement>,
    /// Writes that file back to its disk, next at this time.
    write_back: Option<(WriteBack, Instant)>,
}

impl<'a> Whole<'a> {
    /// Prepares for a pipeline of so many stages, whose output replaces a file if that was asked for and all succeed.
    ///
    /// # Errors
    /// Returns [`Usage`] if there are too many stages. Fails if the file cannot be replaced.
    pub fn new(shelf: &'a Shelf, stages: usize, options: &Options) -> Result<Self> {
        if stages > MOST + 1 {
            bail!(Usage(format!(
                "--whole takes at most {} stages, and the pipeline has {stages}",
                MOST + 1
            )));
        }
        let output = options.output.as_ref();
        let output = output
            .map(|path| Replacement::new(path, true))
            .transpose()?;
        let write_back = match &output {
            Some(output) if options.sync => {
                Some((WriteBack::begun(output)?, Instant::now() + INTERVAL))
            }
            _ => None,
        };
        Ok(Self {
            shelf,
            held: Vec::new(),
            failed: None,
            broken: None,
            kill_at: None,
            asked: BTreeSet::new(),
            output,
            write_back,
        })
    }

    /// Holds the write end of the pipe after this stage.
    ///
    /// # Errors
    /// Fails if too many descriptors are in messages of this user.
    pub fn hold(&mut self, stage: usize, end: impl AsFd) -> Result<()> {
        let before = self.shelf.contents();
        let ends = before.iter().map(AsFd::as_fd).chain([end.as_fd()]);
        self.shelf.replace(&ends.collect::<Vec<_>>())?;
        self.held.push(stage);
        Ok(())
    }

    /// Returns where the write end of the pipe after this stage is on the shelf.
    fn place_of(&self, stage: usize) -> Option<usize> {
        self.held.iter().position(|&held| held == stage)
    }

    /// Lets the next stage see the end.
    pub fn release(&mut self, stage: usize) -> Result<()> {
        if let Some(at) = self.place_of(stage) {
            let mut ends = self.shelf.contents();
            drop(ends.remove(at));
            let ends: Vec<_> = ends.iter().map(AsFd::as_fd).collect();
            self.shelf.replace(&ends)?;
            self.held.remove(at);
        }
        Ok(())
    }

    /// Returns whether the pipe after this stage still has a reader.
    pub fn has_reader(&self, stage: usize) -> bool {
        let ends = self.shelf.contents();
        let Some(end) = self.place_of(stage).and_then(|at| ends.get(at)) else {
            return false;
        };
        // poll(2) reports POLLERR for a write end without readers.
        is_closed(end.as_fd()) != Ok(true)
    }

    /// Returns the file that gets the output of the last stage.
    pub fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    /// Puts the output in place.
    ///
    /// # Errors
    /// Those of storing and of naming the file. The old file is as it was then.
    pub fn put_in_place(&mut self) -> Result<()> {
        match self.output.take() {
            Some(output) => output.put_in_place(self.write_back.is_some()),
            None => Ok(()),
        }
    }

    /// Hands to the disk what was written to the output, if it is time to. Returns when that is due the next time, or
    /// the processes that were asked to end are to be killed.
    pub fn write_back(&mut self) -> Option<Instant> {
        let next = self.write_back.as_mut().map(|(write_back, next)| {
            if *next <= Instant::now() {
                write_back.hand_over();
                *next = Instant::now() + INTERVAL;
            }
            *next
        });
        [self.kill_at, next].into_iter().flatten().min()
    }
}

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

use super::options::Options;
use super::shelf::{MOST, Shelf, is_read};
use crate::copying::{AtLeast, Replacement, WriteBack};
use fullbore_host::refusal::Usage;

/// The time after which what was written to the output is handed to the disk.
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of a pipeline that runs with `--whole`.
pub struct Whole<'a> {
    shelf: &'a Shelf,
    /// How what failed first ended.
    pub(super) failed: Option<ExitStatus>,
    /// The stages from this number on are being ended, because of a failure before them.
    pub(super) ended_from: Option<usize>,
    /// What was done after a failure, and when the next step is due.
    pub(super) step: Step,
    pub(super) due: Option<Instant>,
    /// The processes that this user may not signal.
    pub(super) refused: BTreeSet<u32>,
    /// Those that were not asked to end yet, because the process above them seemed to go on.
    pub(super) untold: BTreeSet<u32>,
    /// The stages that have succeeded and left a process behind that still has their output open.
    pub(super) written: BTreeSet<usize>,
    /// What is to be said when all has ended.
    pub(super) notes: Vec<Note>,
    /// The file that gets the output of the last stage.
    output: Option<Replacement>,
    /// Writes that file back to its disk, next at this time.
    write_back: Option<(WriteBack, Instant)>,
}

/// A failure, and the numbers of the stages that were running behind it, from 0.
pub struct Note {
    pub failure: String,
    pub behind: Vec<usize>,
}

/// What was done after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The stages behind were asked to end.
    Behind,
    /// They were killed, and the stages before were asked to end.
    Before,
    /// All were killed.
    All,
    /// What is left is not waited for.
    GivenUp,
}

impl<'a> Whole<'a> {
    /// Prepares for a pipeline of so many stages, whose output replaces a file if that was asked for and all succeed.
    ///
    /// # Errors
    /// Returns [`Usage`] if there are too many stages. Fails if the file cannot be replaced.
    pub fn new(shelf: &'a Shelf, stages: usize, options: &Options) -> Result<Self> {
        if stages > MOST + 1 {
            let most = MOST + 1;
            bail!(Usage(format!(
                "--whole takes at most {most} stages, and the pipeline has {stages}"
            )));
        }
        shelf.reserve(stages.saturating_sub(1))?;
        let output = options
            .output
            .as_ref()
            .map(|path| Replacement::new(path, true));
        let output = output.transpose()?;
        let written = output
            .as_ref()
            .filter(|_| options.sync)
            .map(WriteBack::begun);
        let write_back = written
            .transpose()?
            .map(|begun| (begun, Instant::now() + INTERVAL));
        Ok(Self {
            shelf,
            failed: None,
            ended_from: None,
            step: Step::Behind,
            due: None,
            refused: BTreeSet::new(),
            untold: BTreeSet::new(),
            written: BTreeSet::new(),
            notes: Vec::new(),
            output,
            write_back,
        })
    }

    /// Returns whether the pipe after this stage still has a reader, as far as that can be seen.
    pub fn has_reader(&self, stage: usize) -> bool {
        match self.shelf.end_of(stage) {
            Ok(end) => end.as_ref().is_some_and(is_read),
            Err(_) => true,
        }
    }

    /// Returns whether the stage is being ended because of a failure.
    pub fn is_ending(&self, stage: usize) -> bool {
        self.ended_from.is_some_and(|from| stage >= from) || self.step != Step::Behind
    }

    /// Returns the file that gets the output of the last stage.
    pub fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    /// Puts the output in place.
    ///
    /// # Errors
    /// If the file has fewer bytes than that; those of storing and of naming the file. The old file is as it was then.
    pub fn put_in_place(&mut self, at_least: AtLeast) -> Result<()> {
        let Some(output) = self.output.take() else {
            return Ok(());
        };
        at_least.check(rustix::fs::fstat(&output)?.st_size as u64)?;
        output.put_in_place(self.write_back.is_some())
    }

    /// Hands to the disk what was written to the output, if it is time to. Returns when that is due the next time, or
    /// the next step after a failure.
    pub fn write_back(&mut self) -> Option<Instant> {
        let next = self.write_back.as_mut().map(|(write_back, next)| {
            if *next <= Instant::now() {
                write_back.hand_over();
                *next = Instant::now() + INTERVAL;
            }
            *next
        });
        [self.due, next].into_iter().flatten().min()
    }
}

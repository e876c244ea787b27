//! What a stage that has ended was: a success, a failure, or a failure that is accepted.
//!
//! `early` needs to know that the next stage succeeded without having read to the end. So the write end of the pipe
//! between them stays open here until the end of the first one is judged: until then, the next stage cannot have seen
//! an end of its input. With `--whole` it is on the shelf anyway.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::{Context, Result};
use fullbore_linux::is_closed;

use super::accept::Outcome;
use super::left::say;
use super::observer::Observer;
use super::runner::{Ending, Runner};
use super::shelf::{OpenEnd, pipes_of};
use super::stall::STALLED;
use super::status::{code, how_it_failed, was_ended_by_sigpipe, whole};

impl Runner<'_> {
    /// Keeps the write end of the pipe after a stage open, if that has to be done here.
    ///
    /// # Errors
    /// Those of dup(2).
    pub(super) fn hold_for_early(&mut self, stage: usize, end: impl AsFd) -> Result<()> {
        if self.accepted[stage].early && self.whole.is_none() {
            let end = end.as_fd().try_clone_to_owned();
            let number = stage + 1;
            let why =
                || format!("keep the pipe after stage {number} open for --accept {number}=early");
            self.held[stage] = Some(end.with_context(why)?);
        }
        Ok(())
    }

    /// Judges the stages that have ended and were not judged yet, and does what follows.
    pub(super) fn judge_all(&mut self) {
        // From the last one: that a stage has failed can be the reason for the failure of the one before it, and not
        // the other way round, because none of them has seen an end yet.
        for stage in (0..self.stages.len()).rev() {
            let started = &self.stages[stage];
            let (Some(status), None) = (started.status, &started.outcome) else {
                continue;
            };
            let Some(outcome) = self.judge(stage) else {
                continue;
            };
            if let (Outcome::Accepted(what), Some(observer)) = (&outcome, &mut self.observer) {
                observer.watch.accepted(stage, what.clone());
            }
            self.stages[stage].outcome = Some(outcome.clone());
            if outcome == Outcome::Failed && was_ended_by_sigpipe(status) {
                self.say_that_an_end_came_early(stage, status);
            }
            if outcome != Outcome::FailedAfterNext {
                self.settle(stage, status, outcome.is_success());
            }
            self.held[stage] = None;
        }
    }

    /// Says that the next stage has seen an end of its input that was none.
    fn say_that_an_end_came_early(&self, stage: usize, status: ExitStatus) {
        let is_early = self.whole.is_none() && self.noted.is_none() && !self.is_over();
        if is_early && !self.options.sigpipe_fails {
            let (number, next, text) = (stage + 1, stage + 2, &self.stages[stage].text);
            let how = how_it_failed(status);
            say(&format!(
                "stage {number}, {text}, {how} because of another pipe than that to stage {next}, whose input may have ended too early (--whole prevents that)"
            ));
        }
    }

    /// Returns what a stage was; `None` if it has not ended, or if that depends on the next stage, which has not.
    fn judge(&self, stage: usize) -> Option<Outcome> {
        let started = self.stages.get(stage)?;
        let status = started.status?;
        if started.outcome.is_some() {
            return started.outcome.clone();
        }
        let by_sigpipe = was_ended_by_sigpipe(status) && !self.options.sigpipe_fails;
        // While the pipe to the next stage has a reader, SIGPIPE has come from another pipe.
        if status.success() || by_sigpipe && !self.has_reader(stage) {
            return Some(Outcome::Succeeded);
        }
        // A signal of the terminal ends the pipeline, and what was ended here did not end by itself.
        let is_ending = self
            .whole
            .as_ref()
            .is_some_and(|whole| whole.is_ending(stage));
        let noted = self.noted.map(|signal| signal.as_raw());
        if self.is_over() || is_ending || noted.is_some() && status.signal() == noted {
            return Some(Outcome::Failed);
        }
        let accepted = &self.accepted[stage];
        let code = code(status);
        if accepted.contain(code) {
            return Some(Outcome::Accepted(code.to_string()));
        }
        if !accepted.early {
            return Some(Outcome::Failed);
        }
        match (self.judge(stage + 1), self.has_reader(stage)) {
            // Its input has not ended yet, so it has not read to the end.
            (Some(next), _) if next.is_success() => Some(Outcome::Accepted("early".to_owned())),
            (Some(_), false) => Some(Outcome::FailedAfterNext),
            // Nothing reads its output any more; the next stage may still succeed.
            (None, false) => None,
            (_, true) => Some(Outcome::Failed),
        }
    }

    /// Returns whether the pipe after a stage still has a reader; the last stage has none. Without a write end of the
    /// pipe, only the first process of the next stage is looked at.
    fn has_reader(&self, stage: usize) -> bool {
        match (&self.whole, &self.held[stage]) {
            (Some(whole), _) => whole.has_reader(stage),
            // poll(2) reports POLLERR for a write end without readers.
            (None, Some(end)) => is_closed(end.as_fd()) != Ok(true),
            (None, None) => self.is_read_by_the_next(stage),
        }
    }

    /// Returns whether the first process of the next stage has the pipe after this stage open, as far as this user may
    /// look.
    fn is_read_by_the_next(&self, stage: usize) -> bool {
        let running = self
            .stages
            .get(stage + 1)
            .filter(|next| next.status.is_none());
        let ends = running.and_then(|next| pipes_of(&next.pid.to_string()));
        let reads = |end: &OpenEnd| !end.is_writer && Some(end.id) == self.stages[stage].pipe;
        ends.is_some_and(|ends| ends.iter().any(reads))
    }

    /// Returns what `early` has to do with a failure that was not accepted.
    pub(super) fn about_early(&self, stage: usize) -> String {
        let (number, next) = (stage + 1, stage + 2);
        let started = self.stages.get(number).filter(|_| !self.has_reader(stage));
        match started.map(|started| started.status) {
            Some(Some(status)) if status.success() => format!(
                " after stage {next} had succeeded without reading to the end (--accept {number}=early accepts this)"
            ),
            Some(None) => format!(
                " after stage {next} had stopped reading (if that is right, --accept {number}=early accepts this)"
            ),
            _ => String::new(),
        }
    }

    /// Returns the statuses of the stages; those that count as success are one. That of the last stage counts as it is.
    fn statuses(&self) -> Vec<ExitStatus> {
        let stages = self.stages.iter().enumerate();
        let counted = stages.filter_map(|(number, stage)| match stage.outcome {
            Some(Outcome::Accepted(_)) => Some(ExitStatus::default()),
            Some(Outcome::Succeeded) if number + 1 < self.stages.len() => {
                Some(ExitStatus::default())
            }
            _ => stage.status,
        });
        counted.collect()
    }

    /// Returns which stage the pipeline waits for, if nothing has moved for too long. A failure ends it anyway.
    pub(super) fn stalled(&self) -> Option<String> {
        let observer = self.observer.as_ref().filter(|_| !self.has_failed());
        observer.and_then(Observer::stalled)
    }

    /// Ends a pipeline in which nothing moves.
    pub(super) fn end_stalled(mut self, why: &str) -> Result<Ending> {
        // Without --whole, a stage would see the end when the one before it has been ended. From the shelf, the holder
        // takes what a stage reads that could not be ended.
        let observer = self.observer.as_mut().filter(|_| self.whole.is_none());
        let ends = observer.map(|observer| observer.watch.write_ends());
        let ends = ends.unwrap_or_default();
        for (number, end) in ends.iter().enumerate() {
            let _ = self.others.shelf.put(number as u32, end.as_fd());
        }
        self.end_left();
        drop(ends);
        say(why);
        if let Some(observer) = self.observer.take() {
            observer.report(self.options)?;
        }
        Ok(Ending::Code(STALLED))
    }

    /// Returns the status that follows from those of the stages.
    pub(super) fn status(&self) -> ExitStatus {
        let failed = self.whole.as_ref().and_then(|whole| whole.failed);
        failed.unwrap_or_else(|| whole(&self.statuses(), self.options))
    }

    /// Returns the exit code or the signal that follows from the statuses of the stages.
    pub(super) fn ending(&self) -> Ending {
        if let Some(signal) = self.ended_by {
            return Ending::Signal(signal.as_raw());
        }
        let status = self.status();
        match (status.signal(), self.noted) {
            // The stages have died of Ctrl-C, and the parent of this process should see the same signal.
            (Some(signal), Some(noted)) if signal == noted.as_raw() => Ending::Signal(signal),
            _ => Ending::Code(match self.negated {
                true => u8::from(status.success()),
                false => code(status),
            }),
        }
    }
}

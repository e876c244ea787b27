//! What follows from the numbers of a pipeline: how much work each stage had, and how much of the time went
//! to what is no stage's work.

use super::attribution::Attribution;
use super::moment::Cause;
use super::numbers::{Numbers, PipeNumbers, StageNumbers};

impl Numbers {
    /// How much of the time there was more to run than there were CPUs: all that stages waited for one,
    /// unless there were CPUs with nothing to do.
    pub(super) fn starved(&self) -> f64 {
        let queued = self.queued();
        match self.cpus_idle {
            Some(idle) if idle >= 0.15 => 0.0,
            _ => queued,
        }
    }

    /// The share of the pipeline's time in which a stage waited for no other.
    pub(super) fn busy(&self, stage: &StageNumbers) -> f64 {
        let time = &stage.time;
        let busy = time.ran + time.waited_for_cpu + time.waited_elsewhere;
        busy * stage.seconds / self.seconds.max(1e-9)
    }

    /// The share of the pipeline's time that a stage's work took: it ran, or waited for what is not of this
    /// pipeline. Time in which it waited for a CPU is no work of its own, but due to all that runs on this
    /// machine.
    pub(super) fn work(&self, stage: &StageNumbers) -> f64 {
        let time = &stage.time;
        (time.ran + time.waited_elsewhere) * stage.seconds / self.seconds.max(1e-9)
    }

    /// Whether it may be one that asks again and again without sleeping: it runs all the time, although there
    /// is nothing to take or no room to put it. One that takes what comes at once, and is busy with it until
    /// the next comes, looks the same.
    pub(super) fn may_spin(&self, stage: &StageNumbers) -> bool {
        let (before, after) = self.pipes_of(stage.number);
        stage.time.ran >= 0.5
            && stage.time.waited_for_input + stage.time.waited_for_output < 0.05
            && (before.is_some_and(|pipe| pipe.empty >= 0.6)
                || after.is_some_and(|pipe| pipe.full >= 0.6))
    }

    /// The pipes before and after a stage, where they were there long enough to tell something.
    pub(super) fn pipes_of(&self, number: usize) -> (Option<&PipeNumbers>, Option<&PipeNumbers>) {
        let long = |pipe: &&PipeNumbers| pipe.seconds >= 0.5 * self.seconds;
        let mut pipes = self.pipes.iter().filter(long);
        let before = pipes.clone().find(|pipe| pipe.reader == number);
        (before, pipes.find(|pipe| pipe.writer == number))
    }

    /// How much of the time went to waking: all waited for each other, or for a CPU where there were
    /// CPUs with nothing to do.
    pub(super) fn waking(&self) -> f64 {
        let queued = match self.starved() > 0.0 {
            true => 0.0,
            false => self.queued(),
        };
        self.all_wait + queued
    }

    /// How much of the time stages waited for a CPU, all together. Of one whose figures may be of somebody
    /// else, that says nothing.
    pub(super) fn queued(&self) -> f64 {
        (self.stages.iter())
            .filter(|stage| stage.attribution != Attribution::Unclear)
            .map(|stage| stage.time.waited_for_cpu * stage.seconds / self.seconds.max(1e-9))
            .sum()
    }
}

impl StageNumbers {
    /// What it waited for most outside of the pipeline.
    pub fn main_cause(&self) -> (Cause, f64) {
        (self.elsewhere.iter())
            .map(|(&cause, &share)| (cause, share))
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .unwrap_or((Cause::Unknown, 0.0))
    }
}

//! Figures that are derived from the numbers of a pipeline: how much work each stage had, and how much of
//! the time was not spent on the work of any stage.

use crate::sampling::attribution::Attribution;
use crate::sampling::moment::Cause;
use crate::verdict::numbers::{Numbers, PipeNumbers, StageNumbers};

impl Numbers {
    /// Returns the share of the time in which more was ready to run than there were CPUs: the time that
    /// stages waited for a CPU, unless CPUs were idle.
    pub(crate) fn starved(&self) -> f64 {
        let queued = self.queued();
        match self.cpus_idle {
            Some(idle) if idle >= 0.15 => 0.0,
            _ => queued,
        }
    }

    /// Returns how many of the CPUs that it may run on the pipeline used, other programs used, and there are; `None` if
    /// that is not known.
    pub(crate) fn cpus_used(&self) -> Option<(f64, f64, f64)> {
        let (all, idle) = self.cpus_offered.zip(self.cpus_idle)?;
        let own: f64 = self.stages.iter().map(|stage| stage.cpu_seconds).sum();
        let own = own / self.seconds.max(1e-9);
        Some((own, (all * (1.0 - idle) - own).max(0.0), all))
    }

    /// Returns the share of the pipeline's time in which a stage waited for no other.
    pub(crate) fn busy(&self, stage: &StageNumbers) -> f64 {
        let time = &stage.time;
        let busy = time.ran + time.waited_for_cpu + time.waited_elsewhere;
        busy * stage.seconds / self.seconds.max(1e-9)
    }

    /// Returns the share of the pipeline's time that a stage's work took: it ran, or waited for something
    /// outside of this pipeline. The time in which it waited for a CPU is not its own work, but is due to
    /// everything that runs on this machine.
    pub(crate) fn work(&self, stage: &StageNumbers) -> f64 {
        let time = &stage.time;
        (time.ran + time.waited_elsewhere) * stage.seconds / self.seconds.max(1e-9)
    }

    /// Returns whether a stage may be spinning: it runs all the time, although there is nothing to read or no
    /// room to write. A stage that reads bytes as soon as they arrive, and is busy with them until the next
    /// ones arrive, looks the same.
    pub(crate) fn may_spin(&self, stage: &StageNumbers) -> bool {
        let (before, after) = self.pipes_of(stage.number);
        stage.time.ran >= 0.5
            && stage.time.waited_for_input + stage.time.waited_for_output < 0.05
            && (before.is_some_and(|pipe| pipe.empty >= 0.6)
                || after.is_some_and(|pipe| pipe.full >= 0.6))
    }

    /// Returns the pipes before and after a stage, if they were observed for long enough.
    pub(crate) fn pipes_of(&self, number: usize) -> (Option<&PipeNumbers>, Option<&PipeNumbers>) {
        let long = |pipe: &&PipeNumbers| pipe.seconds >= 0.5 * self.seconds;
        let mut pipes = self.pipes.iter().filter(long);
        let before = pipes.clone().find(|pipe| pipe.reader == number);
        (before, pipes.find(|pipe| pipe.writer == number))
    }

    /// Returns the share of the time that was spent on wake-ups: all stages waited for each other,
    /// or for a CPU although CPUs were idle.
    pub(crate) fn waking(&self) -> f64 {
        let queued = match self.starved() > 0.0 {
            true => 0.0,
            false => self.queued(),
        };
        self.all_wait + queued
    }

    /// Returns the share of the time that all stages together waited for a CPU. Stages whose figures may
    /// be of an unrelated process are not included.
    pub(crate) fn queued(&self) -> f64 {
        (self.stages.iter())
            .filter(|stage| stage.attribution != Attribution::Unclear)
            .map(|stage| stage.time.waited_for_cpu * stage.seconds / self.seconds.max(1e-9))
            .sum()
    }
}

impl StageNumbers {
    /// Returns what it waited for most outside of the pipeline.
    pub fn main_cause(&self) -> (Cause, f64) {
        (self.elsewhere.iter())
            .map(|(&cause, &share)| (cause, share))
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .unwrap_or((Cause::Unknown, 0.0))
    }
}

//! The judgement which stage is the slow one, from the figures of the stages and of the pipes between them.
//! This module reads neither /proc nor a clock.
//!
//! The slow stage is the one that the others wait for. The share of the time in which they did so decides. A
//! stage is named with less certainty, or not at all, if the pipes next to it or its own time contradict
//! this. A wrong name is worse than none.

use crate::sampling::attribution::Attribution;
use crate::sampling::moment::Cause;
use crate::verdict::next::next;
use crate::verdict::numbers::{Numbers, StageNumbers};
use crate::verdict::sentence::words;
use crate::verdict::{Bound, Sureness, Verdict, VerdictKind};

/// The least number of samples for a verdict.
const SAMPLES: u64 = 15;

/// Stages whose work is this similar are slow together: the least ratio of the work of one to the work of
/// the other.
const ALIKE: f64 = 0.85;

/// The work of a stage that is certainly the slow one, as a multiple of the work of every other
/// stage.
const SURELY_MORE: f64 = 1.25;

impl Verdict {
    /// Returns the verdict that follows from these numbers.
    pub fn of(numbers: &Numbers) -> Self {
        let (kind, mut stages, mut sure) = judge(numbers);
        stages.sort_unstable();
        let stage = |number: &usize| &numbers.stages[number - 1];
        let is_unclear = |stage: &StageNumbers| stage.attribution == Attribution::Unclear;
        if stages.iter().map(stage).any(is_unclear) {
            sure = Sureness::NotSure;
        }
        let bound_by = match kind {
            VerdictKind::Stage => stages.first().map(stage).map(bound),
            _ => None,
        };
        let mut verdict = Self {
            kind,
            stages,
            bound_by,
            sure,
            words: String::new(),
            next: None,
        };
        verdict.words = words(&verdict, numbers);
        verdict.next = next(&verdict, numbers);
        verdict
    }
}

/// Returns the statement, the numbers of the slow stages, and how sure that is at best.
fn judge(numbers: &Numbers) -> (VerdictKind, Vec<usize>, Sureness) {
    if numbers.stages.len() < 2 {
        return (VerdictKind::Alone, vec![], Sureness::Sure);
    }
    if numbers.samples < SAMPLES {
        return (VerdictKind::TooShort, vec![], Sureness::NotSure);
    }
    let mut by_blame: Vec<&StageNumbers> = numbers.stages.iter().collect();
    by_blame.sort_by(|a, b| b.blame.total_cmp(&a.blame));
    let (top, second) = (by_blame[0], by_blame[1]);
    let (at_least, _) = bounds(top.blame, numbers.effective_samples);
    let starved = numbers.starved();
    let stands_out = top.blame >= 0.6 && at_least >= 0.5 && top.blame - second.blame >= 0.3;
    let short_of_cpus = match starved {
        0.8.. => Some((VerdictKind::Cpus, vec![], Sureness::Sure)),
        0.5.. => Some((VerdictKind::Cpus, vec![], Sureness::Likely)),
        _ => None,
    };
    if stands_out {
        // If the slow stage were faster, the stage with the most work besides it would become the slow
        // one.
        let next = rivals(top, numbers).max_by(|a, b| numbers.work(a).total_cmp(&numbers.work(b)));
        let is_alike =
            |rival: &&StageNumbers| numbers.work(rival) / numbers.work(top).max(1e-9) >= ALIKE;
        if let Some(rival) = next.filter(is_alike) {
            let stages = vec![top.number, rival.number];
            let shared = (VerdictKind::Shared, stages, Sureness::Likely);
            return short_of_cpus.unwrap_or(shared);
        }
        let doubts = [
            top.blame < 0.8 || at_least < 0.65,
            is_denied(top, numbers),
            rivals(top, numbers).any(|rival| {
                let (least, most) = (work_between(top, numbers).0, work_between(rival, numbers).1);
                least < SURELY_MORE * most
            }),
            top.blame < 0.8 && starved >= 0.5,
            // The figures of another stage may be of a process that does not use the pipe.
            others(top, numbers)
                .any(|stage| numbers.may_spin(stage) || stage.attribution == Attribution::Unclear),
            top.attribution == Attribution::Likely,
            numbers.stages.iter().any(|stage| stage.is_mixed),
        ];
        let sure = match doubts.iter().filter(|&&doubt| doubt).count() {
            0 => Sureness::Sure,
            1 => Sureness::Likely,
            _ => Sureness::NotSure,
        };
        return (VerdictKind::Stage, vec![top.number], sure);
    }
    if let Some(short_of_cpus) = short_of_cpus {
        return short_of_cpus;
    }
    if numbers.waking() >= 0.5 {
        return (VerdictKind::Waking, vec![], Sureness::Likely);
    }
    let sharing: Vec<&&StageNumbers> = by_blame.iter().filter(|stage| stage.blame >= 0.2).collect();
    let together: f64 = sharing.iter().map(|stage| stage.blame).sum();
    if sharing.len() > 1 && together >= 0.75 {
        // If each were slow in a part of the time only, it would wait during the rest.
        let busy: f64 = sharing.iter().map(|stage| numbers.busy(stage)).sum();
        let stages = sharing.iter().map(|stage| stage.number).collect();
        let kind = match busy >= 0.75 * sharing.len() as f64 {
            true => VerdictKind::Shared,
            false => VerdictKind::ByTurns,
        };
        return (kind, stages, Sureness::Likely);
    }
    (VerdictKind::Nobody, vec![], Sureness::NotSure)
}

/// Returns whether the pipes next to it, or its own time, contradict that it is the slow one.
fn is_denied(stage: &StageNumbers, numbers: &Numbers) -> bool {
    let (before, after) = numbers.pipes_of(stage.number);
    before.is_some_and(|pipe| pipe.empty >= 0.5)
        || after.is_some_and(|pipe| pipe.full >= 0.5)
        || numbers.busy(stage) < 0.5
}

/// Returns the least and the most work of a stage, as a share of the pipeline's time. How long it ran was counted, and
/// what it waited for while it slept was sampled.
fn work_between(stage: &StageNumbers, numbers: &Numbers) -> (f64, f64) {
    let slept = (1.0 - stage.time.ran - stage.time.waited_for_cpu).max(0.0);
    let life = stage.seconds / numbers.seconds.max(1e-9);
    let share = (stage.time.waited_elsewhere / slept.max(1e-9)).min(1.0);
    let (least, most) = bounds(share, numbers.effective_samples * life * slept);
    let work = |share: f64| (stage.time.ran + slept * share) * life;
    (work(least), work(most))
}

/// Returns between which shares the true one is with 95% probability, if this share of the samples was counted (the score
/// interval of Wilson, 1927).
fn bounds(share: f64, samples: f64) -> (f64, f64) {
    const Z: f64 = 2.0;
    let samples = samples.max(1.0);
    let middle = share + Z * Z / (2.0 * samples);
    let spread = Z * (share * (1.0 - share) / samples + (Z / samples / 2.0).powi(2)).sqrt();
    let scale = 1.0 + Z * Z / samples;
    ((middle - spread) / scale, (middle + spread) / scale)
}

/// Returns the stages besides the slow one, without stages that may only be spinning.
fn rivals<'a>(top: &StageNumbers, numbers: &'a Numbers) -> impl Iterator<Item = &'a StageNumbers> {
    (others(top, numbers))
        .filter(|stage| !numbers.may_spin(stage) && stage.attribution != Attribution::Unclear)
}

fn others<'a>(top: &StageNumbers, numbers: &'a Numbers) -> impl Iterator<Item = &'a StageNumbers> {
    let top = top.number;
    (numbers.stages.iter()).filter(move |stage| stage.number != top)
}

fn bound(stage: &StageNumbers) -> Bound {
    if stage.attribution == Attribution::Unclear {
        return Bound::Cause(Cause::Unknown);
    }
    let (cause, elsewhere) = stage.main_cause();
    let time = &stage.time;
    if elsewhere > time.ran && elsewhere > time.waited_for_cpu {
        Bound::Cause(cause)
    } else if time.waited_for_cpu > time.ran {
        Bound::Queue
    } else {
        Bound::Cpu
    }
}

#[cfg(test)]
mod tests;

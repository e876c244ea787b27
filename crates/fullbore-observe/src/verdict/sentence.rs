//! A verdict as a line of text.

use crate::sampling::attribution::Attribution;
use crate::verdict::numbers::{Numbers, StageNumbers};
use crate::verdict::{Bound, Verdict, VerdictKind};
use fullbore_host::text::{Percent, counted, one_line};

/// Returns the verdict as a line of text.
pub fn words(verdict: &Verdict, numbers: &Numbers) -> String {
    let (sure, slow) = (verdict.sure, &verdict.stages);
    let names: Vec<String> = slow.iter().map(|&number| name(number, numbers)).collect();
    let names = names.join(" and ");
    let slow_stages = || slow.iter().map(|&number| &numbers.stages[number - 1]);
    match verdict.kind {
        VerdictKind::Alone => numbers.stages.first().map_or_else(
            || "there are no stages".to_owned(),
            |stage| format!("there is only one stage: it {}", doing(stage)),
        ),
        VerdictKind::TooShort => format!(
            "too short to tell which stage is slow: {} in {:.3} s",
            counted(numbers.samples as usize, "sample", "samples"),
            numbers.seconds
        ),
        VerdictKind::Stage => {
            let stage = &numbers.stages[slow[0] - 1];
            let waited = format!(
                "the others waited for it {} of the time{}",
                Percent(stage.blame),
                pipes(stage.number, numbers),
            );
            match verdict.bound_by {
                Some(bound) if stage.attribution != Attribution::Unclear => format!(
                    "bottleneck: {names} ({sure}), {}: {waited}, and it {}",
                    bound.in_words(),
                    doing(stage),
                ),
                _ => format!(
                    "bottleneck: {names} ({sure}): {waited}, but several processes have its pipe \
                     open, and it is unknown for which of them they waited"
                ),
            }
        }
        VerdictKind::Shared => format!(
            "bottleneck: {names} together ({sure}), which are about equally slow: {} of the time",
            of_each(slow_stages(), |stage| work(stage, numbers))
        ),
        VerdictKind::ByTurns => format!(
            "bottleneck: {names} at different times ({sure}): {} of the time",
            of_each(slow_stages(), blame)
        ),
        VerdictKind::Cpus if others_use_more(numbers).is_some() => {
            let (own, others, all) = others_use_more(numbers).unwrap_or_default();
            format!(
                "bottleneck: other programs ({sure}): they used {others:.1} of {all:.0} CPUs, and this pipeline {own:.1}: {}",
                queues(numbers),
            )
        }
        VerdictKind::Cpus => format!(
            "bottleneck: too few CPUs ({sure}): {}, and CPUs were idle {} of the time",
            queues(numbers),
            numbers.cpus_idle.map_or_else(
                || "an unknown part".to_owned(),
                |idle| Percent(idle).to_string()
            ),
        ),
        VerdictKind::Waking => format!(
            "bottleneck: none ({sure}). The stages alternate, and {} of the time went into waking \
             each other",
            Percent(numbers.waking().min(1.0))
        ),
        VerdictKind::Nobody => format!(
            "bottleneck: none found ({sure}): {} of the time",
            of_each(numbers.stages.iter(), blame)
        ),
    }
}

/// Returns how many CPUs the pipeline, others and all together used, if others used more of them than the pipeline.
fn others_use_more(numbers: &Numbers) -> Option<(f64, f64, f64)> {
    numbers.cpus_used().filter(|(own, others, _)| others > own)
}

/// Returns the name of a stage: its number and its command.
fn name(number: usize, numbers: &Numbers) -> String {
    let text = &numbers.stages[number - 1].text;
    format!("stage {number}, {}", one_line(text, 30))
}

/// Returns how full the pipes next to a stage were.
fn pipes(number: usize, numbers: &Numbers) -> String {
    let (before, after) = numbers.pipes_of(number);
    let mut words = String::new();
    if let Some(pipe) = before {
        words += &format!(", the pipe before it was full {}", Percent(pipe.full));
    }
    if let Some(pipe) = after {
        words += &format!(", the pipe after it empty {}", Percent(pipe.empty));
    }
    words
}

/// Returns what a stage did most of its time.
fn doing(stage: &StageNumbers) -> String {
    let time = &stage.time;
    let mut words = match stage.cpus {
        cpus if cpus > 1.15 => format!("kept {cpus:.1} CPUs busy"),
        _ => format!("ran {} of the time", Percent(time.ran)),
    };
    if time.waited_for_cpu >= 0.1 {
        words += &format!(", waited for a CPU {}", Percent(time.waited_for_cpu));
    }
    let (cause, share) = stage.main_cause();
    if share >= 0.1 {
        words += &format!(", waited for {} {}", cause.in_words(), Percent(share));
    }
    words
}

fn of_each<'a>(
    stages: impl Iterator<Item = &'a StageNumbers>,
    words: impl Fn(&StageNumbers) -> String,
) -> String {
    stages.map(words).collect::<Vec<_>>().join(", ")
}

fn work(stage: &StageNumbers, numbers: &Numbers) -> String {
    let work = numbers.work(stage);
    let words = format!("stage {} worked {}", stage.number, Percent(work));
    match numbers.busy(stage) - work {
        queued if queued >= 0.1 => format!("{words} and waited for a CPU {}", Percent(queued)),
        _ => words,
    }
}

fn blame(stage: &StageNumbers) -> String {
    let (number, share) = (stage.number, Percent(stage.blame));
    format!("other stages waited for stage {number} {share}")
}

fn queues(numbers: &Numbers) -> String {
    let waited = |stage: &&StageNumbers| stage.time.waited_for_cpu >= 0.1;
    of_each(numbers.stages.iter().filter(waited), |stage| {
        let share = Percent(stage.time.waited_for_cpu);
        format!("stage {} waited for a CPU {share}", stage.number)
    })
}

impl Bound {
    fn in_words(self) -> String {
        match self {
            Bound::Cpu => "limited by the CPU".to_owned(),
            Bound::Queue => "waiting for a free CPU".to_owned(),
            Bound::Cause(cause) => format!("limited by {}", cause.in_words()),
        }
    }
}

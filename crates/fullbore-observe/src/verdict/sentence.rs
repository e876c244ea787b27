//! A verdict as a line of text.

use crate::sampling::attribution::Attribution;
use crate::verdict::numbers::{Numbers, StageNumbers};
use crate::verdict::{Bound, Sureness, VerdictKind};
use fullbore_host::text::{Percent, counted, one_line};

/// Returns the verdict as a line of text.
pub fn words(kind: &VerdictKind, sure: Sureness, numbers: &Numbers) -> String {
    let stages = |of: &[usize]| {
        let names: Vec<String> = of.iter().map(|&number| name(number, numbers)).collect();
        names.join(" and ")
    };
    match kind {
        VerdictKind::Alone => numbers.stages.first().map_or_else(
            || "there are no stages".to_owned(),
            |stage| format!("there is only one stage: it {}", doing(stage)),
        ),
        VerdictKind::TooShort => format!(
            "too short to tell which stage is slow: {} in {:.3} s",
            counted(numbers.samples as usize, "sample", "samples"),
            numbers.seconds
        ),
        VerdictKind::Stage(number, bound) => {
            let stage = &numbers.stages[number - 1];
            let waited = format!(
                "the others waited for it {} of the time{}",
                Percent(stage.blame),
                pipes(*number, numbers),
            );
            let name = name(*number, numbers);
            match stage.attribution {
                Attribution::Unclear => format!(
                    "bottleneck: {name} ({sure}): {waited}, but several processes have its pipe \
                     open, and it is unknown for which of them they waited"
                ),
                _ => format!(
                    "bottleneck: {name} ({sure}), {}: {waited}, and it {}",
                    bound.in_words(),
                    doing(stage),
                ),
            }
        }
        VerdictKind::Shared(numbers_of) => format!(
            "bottleneck: {} together ({sure}), which are about equally slow: {}",
            stages(numbers_of),
            works(numbers_of, numbers)
        ),
        VerdictKind::ByTurns(numbers_of) => format!(
            "bottleneck: {} at different times ({sure}): {}",
            stages(numbers_of),
            blames(numbers_of, numbers)
        ),
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
        VerdictKind::Nobody => {
            let all: Vec<usize> = (1..=numbers.stages.len()).collect();
            format!("bottleneck: none found ({sure}): {}", blames(&all, numbers))
        }
    }
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

fn works(stages: &[usize], numbers: &Numbers) -> String {
    let parts: Vec<String> = (stages.iter())
        .map(|&number| {
            let stage = &numbers.stages[number - 1];
            let work = Percent(numbers.work(stage));
            match numbers.busy(stage) - numbers.work(stage) {
                queued if queued >= 0.1 => {
                    format!(
                        "stage {number} worked {work} and waited for a CPU {}",
                        Percent(queued)
                    )
                }
                _ => format!("stage {number} worked {work}"),
            }
        })
        .collect();
    parts.join(", ") + " of the time"
}

fn blames(stages: &[usize], numbers: &Numbers) -> String {
    let parts: Vec<String> = (stages.iter())
        .map(|&number| {
            let stage = &numbers.stages[number - 1];
            format!(
                "other stages waited for stage {number} {}",
                Percent(stage.blame)
            )
        })
        .collect();
    parts.join(", ") + " of the time"
}

fn queues(numbers: &Numbers) -> String {
    let parts: Vec<String> = (numbers.stages.iter())
        .filter(|stage| stage.time.waited_for_cpu >= 0.1)
        .map(|stage| {
            format!(
                "stage {} waited for a CPU {}",
                stage.number,
                Percent(stage.time.waited_for_cpu)
            )
        })
        .collect();
    parts.join(", ")
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

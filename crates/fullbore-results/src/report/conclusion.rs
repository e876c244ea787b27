//! What a run found, and why its figures may be doubtful, in a few sentences: what reports begin with.

use super::grid::Grid;
use super::{
    against_c, figure, groups, is_noisy, marked_median, noisy_footnote, one_line, over_all_tables,
};
use crate::run::{Outcome, Run};
use fullbore_host::text::counted;

/// Returns the title of a run: what was measured, and on which CPU and kernel.
pub fn title(run: &Run) -> String {
    let machine = &run.machine;
    let cpu = machine
        .cpu_model
        .as_deref()
        .unwrap_or(&machine.architecture);
    let kernel = machine.kernel.as_deref().unwrap_or("of unknown release");
    format!("Measured by fullbore bench: {cpu}, Linux {kernel}")
}

/// Returns which experiment of a table is the best, in one sentence; `None` where fewer than two were
/// measured.
pub fn in_short(outcomes: &[&Outcome]) -> Option<String> {
    if let Some(grid) = Grid::of(outcomes) {
        return grid.in_words();
    }
    let measured: Vec<(&Outcome, f64)> = outcomes
        .iter()
        .filter_map(|outcome| Some((*outcome, outcome.figure.as_ref()?.median)))
        .collect();
    let (first, base) = measured.first()?;
    let unit = first.unit;
    let sign = if unit.more_is_better() { 1.0 } else { -1.0 };
    let by_speed = measured
        .iter()
        .max_by(|one, other| (sign * one.1).total_cmp(&(sign * other.1)));
    let (best, median) = by_speed?;
    let ratio = match unit.times_as_fast(*median, *base) {
        ratio if ratio.is_normal() && first.name != best.name => {
            format!(", {}× as fast as {}", figure(ratio), first.name)
        }
        _ => String::new(),
    };
    (measured.len() > 1).then(|| {
        format!(
            "{} is the fastest: {} {}{ratio}",
            best.name,
            marked_median(best),
            unit.name()
        )
    })
}

/// The most tables of which each has a sentence in the conclusion.
const MOST_TABLES: usize = 4;

/// Returns what the run found, a sentence each.
pub fn conclusion(run: &Run) -> Vec<String> {
    let tables = groups(run);
    let few = tables.iter().filter(|_| tables.len() <= MOST_TABLES);
    let each = few.filter_map(|(name, outcomes)| Some(format!("{name}: {}", in_short(outcomes)?)));
    over_all_tables(run)
        .into_iter()
        .chain(each)
        .chain(against_c(run))
        .map(|s| one_line(&s))
        .collect()
}

/// Returns why figures of the run are doubtful, a sentence each.
pub fn doubts(run: &Run) -> Vec<String> {
    let noisy = run.experiments.iter().any(is_noisy).then(noisy_footnote);
    let once = (run.settings.rounds == 1)
        .then(|| "there was one round: nothing shows how far figures vary (--rounds)".to_owned());
    kept_apart(run)
        .into_iter()
        .chain(noisy)
        .chain(once)
        .collect()
}

/// Returns how many measurements were kept although the CPUs were far apart or busy; `None` where none was.
pub fn kept_apart(run: &Run) -> Option<String> {
    (run.apart.taken > 0).then(|| {
        format!(
            "{} kept although the CPUs were farther apart than usual (the host of a virtual machine can move \
             them) or busy with other work",
            counted(run.apart.taken as usize, "measurement was", "measurements were")
        )
    })
}

//! What a run found, and why its figures may be doubtful, in a few sentences: what reports begin with.

use super::grid::Grid;
use super::{
    against_c, figure, groups, is_noisy, marked_median, noisy_footnote, one_line, over_all_tables,
    percent,
};
use crate::run::{Outcome, Run};
use crate::statistics::BUSY;
use fullbore_host::text::counted;

/// Returns the title of a run: what was measured, and on which CPU and kernel.
pub fn title(run: &Run) -> String {
    let machine = &run.machine;
    let cpu = machine.cpu_model.as_ref().unwrap_or(&machine.architecture);
    let kernel = machine.kernel.as_deref().unwrap_or("of unknown release");
    format!("Measured by fullbore bench: {cpu}, Linux {kernel}")
}

/// Returns which experiment of a table is the best, in one sentence, and whether rounds of another one are as good;
/// `None` where fewer than two were measured.
pub fn in_short(outcomes: &[&Outcome]) -> Option<String> {
    if let Some(grid) = Grid::of(outcomes) {
        return grid.in_words();
    }
    let measured = outcomes.iter();
    let measured = measured.filter_map(|outcome| Some((*outcome, outcome.median()?)));
    let measured: Vec<(&Outcome, f64)> = measured.collect();
    let (first, base) = measured.first()?;
    let unit = first.unit;
    let sign = if unit.more_is_better() { 1.0 } else { -1.0 };
    let by_speed = |one: &&(&Outcome, f64), other: &&(&Outcome, f64)| {
        (sign * one.1).total_cmp(&(sign * other.1))
    };
    let (best, median) = measured.iter().max_by(by_speed)?;
    let rivals = measured.iter().filter(|(one, _)| one.name != best.name);
    let rival = rivals
        .filter(|(one, _)| overlap(one, best))
        .max_by(by_speed);
    let (words, rival) = match rival {
        None => ("is the fastest", String::new()),
        Some((rival, _)) => {
            let (name, median) = (&rival.name, marked_median(rival));
            let but = format!(", but its rounds overlap those of {name} ({median})");
            ("has the best median", but)
        }
    };
    let ratio = match unit.times_as_fast(*median, *base) {
        ratio if ratio.is_normal() && first.name != best.name => {
            format!(", {}× as fast as {}", figure(ratio), first.name)
        }
        _ => String::new(),
    };
    let (name, median, unit) = (&best.name, marked_median(best), unit.name());
    (measured.len() > 1).then(|| format!("{name} {words}: {median} {unit}{ratio}{rival}"))
}

/// Returns whether the ranges of two figures overlap.
fn overlap(one: &Outcome, other: &Outcome) -> bool {
    let both = one.figure.as_ref().zip(other.figure.as_ref());
    both.is_some_and(|(one, other)| one.min <= other.max && other.min <= one.max)
}

/// The most tables of which each has a sentence in the conclusion.
const MOST_TABLES: usize = 4;

/// Returns what the run found, a sentence each.
pub fn conclusion(run: &Run) -> Vec<String> {
    let tables = groups(run);
    let few = tables.iter().filter(|_| tables.len() <= MOST_TABLES);
    let each = few.filter_map(|(name, outcomes)| Some(format!("{name}: {}", in_short(outcomes)?)));
    let all = over_all_tables(run)
        .into_iter()
        .chain(each)
        .chain(against_c(run));
    all.map(|sentence| one_line(&sentence)).collect()
}

/// Returns why figures of the run are doubtful, a sentence each.
pub fn doubts(run: &Run) -> Vec<String> {
    let noisy = run.experiments.iter().any(is_noisy).then(noisy_footnote);
    let once = "there was one round: nothing shows how far figures vary (--rounds)".to_owned();
    let once = (run.settings.rounds == 1).then_some(once);
    warnings(run).into_iter().chain(noisy).chain(once).collect()
}

/// Returns what makes all figures of the run doubtful: that the machine was busy, or the CPUs were far apart.
pub fn warnings(run: &Run) -> Vec<String> {
    let busy = run.other_work.filter(|&share| share > BUSY).map(|share| {
        format!(
            "the machine was busy: others used {} of its CPU time during the run, so all figures are uncertain; run it \
             again when the machine is idle",
            percent(share)
        )
    });
    let apart = (run.apart.taken > 0).then(|| {
        format!(
            "{} kept although the CPUs were farther apart than usual (the host of a virtual machine can move \
             them) or busy with other work",
            counted(run.apart.taken as usize, "measurement was", "measurements were")
        )
    });
    busy.into_iter().chain(apart).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::statistics::Spread;

    #[test]
    fn an_experiment_whose_rounds_overlap_those_of_another_one_is_not_called_the_fastest() {
        let mut run = fixture();
        let sentence = |run: &Run| in_short(&run.experiments.iter().collect::<Vec<_>>()).unwrap();
        assert!(sentence(&run).contains(" is the fastest: "));
        run.experiments[0].figure = Spread::of(&[0.9, 0.9, 100.0]);
        let sentence = sentence(&run);
        assert!(sentence.contains(" has the best median: "), "{sentence}");
        let rival = format!("overlap those of {} (~0.90)", run.experiments[0].name);
        assert!(sentence.ends_with(&rival), "{sentence}");
    }

    #[test]
    fn a_busy_machine_is_the_first_warning() {
        let mut run = fixture();
        run.apart.taken = 2;
        run.other_work = Some(0.1);
        assert_eq!(warnings(&run).len(), 1);
        run.other_work = Some(0.62);
        let warnings = warnings(&run);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].starts_with("the machine was busy: others used 62"));
    }
}

//! The forms in which a run is shown to people and to programs: one [`Report`] and one file per form.
//!
//! A report shows a [`Run`] and computes nothing: the figures, the ratios and the notes are in the run.
//! What several reports say in the same words (numbers, groups, how it was measured) is here. A new
//! report is a new file beside these, and an option of `bench`.

pub(crate) mod chart;
pub(crate) mod conclusion;
pub(crate) mod fields;
#[cfg(test)]
mod fixture;
mod grid;
pub mod html;
pub mod json;
pub mod svg;
pub mod table;
pub mod text;

use std::io;

#[cfg(test)]
pub(crate) use self::fixture::fixture;
use super::run::{Outcome, Overall, Remark, Run};
use super::statistics::{DISAGREEMENT_WORTH_A_WARNING, Spread};
use fullbore_host::size;
use fullbore_host::text::{REPLACEMENT, reorders};

/// A form in which a result is shown: a [`Run`], or a [`Comparison`](crate::compare::Comparison) of
/// several.
pub trait Report<Of> {
    /// Writes all of the result to `out`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn write(&self, result: &Of, out: &mut dyn io::Write) -> io::Result<()>;
}

/// Returns a number with three significant digits, or two below 1: 0.0021, 0.93, 12.4, 104.
pub fn figure(number: f64) -> String {
    // Compared after rounding, so that 9.996 is 10.0 and not 10.00.
    let decimals = match number.abs() {
        n if n > 0.0 && n < 0.0995 => (1.0 - n.log10().floor()).min(6.0) as usize,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

/// The mark on a figure whose rounds disagree; [`noisy_footnote`] explains it.
const NOISY_MARK: &str = "~";

/// Returns what [`NOISY_MARK`] means.
fn noisy_footnote() -> String {
    let percent = DISAGREEMENT_WORTH_A_WARNING * 100.0;
    format!("{NOISY_MARK} the rounds differ by more than {percent:.0}%")
}

/// Returns the facts about the machine and the programs.
fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let mut facts = run.machine.lines();
    facts.extend(distance(run).map(|text| ("cache line", text)));
    facts.extend(limit(run).map(|text| ("limit", text)));
    facts.extend(peers(run).map(|text| ("peers", text)));
    facts
}

/// Returns how far apart the two CPUs were; `None` where that was not measured.
fn distance(run: &Run) -> Option<String> {
    let spread = run.line_round_trip_ns.as_ref()?;
    Some(format!(
        "{:.0} ns from one CPU to the other and back, {:.0} to {:.0} over the run; measurements repeated \
         because of it: {}",
        spread.median, spread.min, spread.max, run.apart.repeated
    ))
}

/// Returns what the two CPUs can do at most; `None` where that was not measured.
fn limit(run: &Run) -> Option<String> {
    let limit = run.limit.as_ref()?;
    let most = figure(limit.handed_over.max);
    Some(format!(
        "{most} GiB/s written by one CPU and read by the other in shared memory"
    ))
}

/// Returns a share as a percentage, such as `56%`.
fn percent(share: f64) -> String {
    format!("{}%", figure(share * 100.0))
}

/// The fastest costs more than the one with the least cost if it costs more than this many times as much.
const COSTS_MORE: f64 = 1.05;

/// Returns which experiment of a table costs the least CPU time, in a sentence, if it is not the fastest one.
fn least_cost(outcomes: &[&Outcome]) -> Option<String> {
    let figures = outcomes
        .iter()
        .filter(|outcome| outcome.unit.more_is_better());
    let both = figures.filter_map(|outcome| {
        let cost = outcome.cost.as_ref()?.total.median;
        Some((outcome.name.as_str(), outcome.median()?, cost))
    });
    let both: Vec<(&str, f64, f64)> = both.collect();
    let (fastest, _, more) = both.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (cheapest, _, less) = both.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
    (*more > less * COSTS_MORE).then(|| {
        format!(
            "{fastest} is the fastest, and {cheapest} uses the least CPU time: {} instead of {} seconds for each GiB",
            figure(*less),
            figure(*more)
        )
    })
}

/// Returns the median of an outcome, marked where its rounds disagree; empty where there is none.
fn marked_median(outcome: &Outcome) -> String {
    match &outcome.figure {
        Some(spread) if spread.is_noisy() => format!("{NOISY_MARK}{}", figure(spread.median)),
        Some(spread) => figure(spread.median),
        None => String::new(),
    }
}

/// Returns why an outcome has no figure.
fn reason(outcome: &Outcome) -> String {
    match outcome.missing() {
        Some((what, reason)) => format!("{what}: {reason}"),
        None => "not measured".to_owned(),
    }
}

/// Returns whether the rounds of an outcome disagree.
fn is_noisy(outcome: &Outcome) -> bool {
    outcome.figure.as_ref().is_some_and(Spread::is_noisy)
}

/// Returns the experiments that are shown together, with the name of the group, or of the table of
/// it. Groups and experiments are in the order in which they appear in the run.
fn groups(run: &Run) -> Vec<(String, Vec<&Outcome>)> {
    let mut groups: Vec<(String, Vec<&Outcome>)> = Vec::new();
    for outcome in &run.experiments {
        let name = match &outcome.table {
            None => outcome.group.clone(),
            Some(table) => format!("{}: {table}", outcome.group),
        };
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, outcomes)) => outcomes.push(outcome),
            None => groups.push((name, vec![outcome])),
        }
    }
    groups
}

/// Returns the outcomes that have a figure.
fn measured<'a>(outcomes: &[&'a Outcome]) -> Vec<&'a Outcome> {
    let measured = outcomes.iter().filter(|outcome| outcome.figure.is_some());
    measured.copied().collect()
}

/// Returns the notes on these experiments, each once, with the names of those that it is about if these are not all.
fn notes(outcomes: &[&Outcome]) -> Vec<String> {
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for outcome in outcomes {
        for note in &outcome.notes {
            match notes.iter_mut().find(|(known, _)| known == note) {
                Some((_, names)) => names.push(&outcome.name),
                None => notes.push((note, vec![&outcome.name])),
            }
        }
    }
    let words = |(note, names): (&str, Vec<&str>)| match names.len() == outcomes.len() {
        true => note.to_owned(),
        false => format!("{}: {note}", names.join(", ")),
    };
    notes.into_iter().map(words).collect()
}

/// Returns what the table of these experiments shows, a sentence each.
fn remarks<'a>(run: &'a Run, outcomes: &[&'a Outcome]) -> impl Iterator<Item = &'a str> {
    let first = outcomes.first().copied();
    let of_table = move |remark: &&Remark| {
        first.is_some_and(|first| remark.group == first.group && remark.table == first.table)
    };
    let remarks = run.remarks.iter().filter(of_table);
    remarks.map(|remark| remark.text.as_str())
}

/// Returns the programs that moved bytes, each once, with their versions; `None` without any.
fn peers(run: &Run) -> Option<String> {
    let mut peers: Vec<&str> = Vec::new();
    for mover in run.experiments.iter().filter_map(|e| e.mover.as_ref()) {
        let is_new = |version: &&str| !peers.contains(version);
        peers.extend(mover.version.as_deref().filter(is_new));
    }
    (!peers.is_empty()).then(|| peers.join(", "))
}

/// Returns how experiments compare with their programs in C, in one sentence; `None` where none
/// was measured.
fn against_c(run: &Run) -> Option<String> {
    /// Ratios that are nearer to 1 than this count as equal.
    const NEAR: f64 = 0.05;
    let ratios = run.experiments.iter();
    let ratios = ratios.filter_map(|outcome| outcome.peer.as_ref()?.ratio);
    let ratios: Vec<f64> = ratios.collect();
    let count = |is_meant: fn(f64) -> bool| ratios.iter().filter(|r| is_meant(**r)).count();
    let slower = count(|ratio| ratio < 1.0 - NEAR);
    let faster = count(|ratio| ratio > 1.0 + NEAR);
    (!ratios.is_empty()).then(|| {
        format!(
            "compared with C: {} of {} experiments are within {:.0}% of the C program that does the same; \
             {faster} are faster, and {slower} slower",
            ratios.len() - slower - faster,
            ratios.len(),
            NEAR * 100.0,
        )
    })
}

/// Returns how fast contestants are over all tables of their group, a sentence each.
fn over_all_tables(run: &Run) -> Vec<String> {
    let words = |overall: &Overall| {
        format!(
            "{}: {}× as fast as {} (geometric mean of {} tables of {}), from {}× ({}) to {}× ({})",
            overall.contestant,
            figure(overall.geometric_mean),
            overall.base,
            overall.tables,
            overall.group,
            figure(overall.least.ratio),
            overall.least.name,
            figure(overall.most.ratio),
            overall.most.name,
        )
    };
    run.overall.iter().map(words).collect()
}

/// Returns how the figures were taken, in one sentence.
fn how_measured(run: &Run) -> String {
    let settings = &run.settings;
    let seconds = settings.seconds;
    let mut sentence = match settings.rounds {
        1 => format!("one round of {seconds} s"),
        rounds => format!("median of {rounds} rounds of {seconds} s each, shuffled"),
    };
    if let Some(size) = settings.pipe_size {
        sentence += &format!("; with --pipe-size {}", size::typed(size as u64));
    }
    sentence
}

/// Returns how the figures were taken, and what their ratios are to.
fn how_measured_with_ratios(run: &Run) -> String {
    let measured = how_measured(run);
    match base_of_ratios(run) {
        Some(base) => format!("{measured}; ratios are to {base} in this run"),
        None => measured,
    }
}

/// Returns what the ratios are to; `None` without ratios.
fn base_of_ratios(run: &Run) -> Option<String> {
    let has_ratios = |outcomes: &[&Outcome]| outcomes.iter().any(|one| one.ratio.is_some());
    let mut groups = groups(run);
    groups.retain(|(_, outcomes)| has_ratios(outcomes));
    match groups.as_slice() {
        [] => None,
        [(_, outcomes)] => Some(outcomes[0].name.clone()),
        _ => Some("the first of each table".to_owned()),
    }
}

/// Returns a character that may be shown: a space for a control character, and [`REPLACEMENT`] for
/// one that changes the order of text or is not allowed in XML (1.0, 2.2).
fn harmless(c: char) -> char {
    match c {
        c if c.is_control() => ' ',
        c if reorders(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => REPLACEMENT,
        c => c,
    }
}

/// Returns `text` on one line, without characters that a terminal obeys or an XML parser rejects.
pub(crate) fn one_line(text: &str) -> String {
    let printable: String = text.chars().map(harmless).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::MoverReport;

    #[test]
    fn figures_have_two_or_three_significant_digits() {
        let cases = [
            (0.0, "0.00"),
            (0.0021, "0.0021"),
            (0.05, "0.050"),
            (0.93, "0.93"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (12.44, "12.4"),
            (99.96, "100"),
            (104.3, "104"),
            (1234.0, "1234"),
        ];
        for (number, text) in cases {
            assert_eq!(figure(number), text);
        }
    }

    #[test]
    fn groups_keep_the_order_of_the_catalogue() {
        let mut run = fixture();
        let last = run.experiments.remove(1);
        run.experiments.push(last);
        let run_groups = groups(&run);
        let names: Vec<&str> = run_groups.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["ladder", "more <&> \"others\""]);
        assert_eq!(
            run_groups[0].1.last().unwrap().name,
            "vmsplice_splice_same_buffer"
        );
    }

    #[test]
    fn a_group_of_several_jobs_is_shown_job_by_job() {
        let mut run = fixture();
        for (outcome, job) in run.experiments.iter_mut().zip(["a", "b", "a"]) {
            outcome.table = Some(job.to_owned());
            outcome.mover = Some(MoverReport {
                job: job.to_owned(),
                command: "cat".to_owned(),
                version: Some("cat (GNU coreutils) 9.1".to_owned()),
                bytes: None,
                seconds: None,
            });
        }
        let run_groups = groups(&run);
        let names: Vec<&str> = run_groups.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["ladder: a", "ladder: b", "ladder", "more <&> \"others\""]
        );
        assert_eq!(run_groups[0].1.len(), 2);
        assert_eq!(peers(&run).unwrap(), "cat (GNU coreutils) 9.1");
    }

    #[test]
    fn a_run_says_how_it_was_measured() {
        let mut run = fixture();
        assert_eq!(
            how_measured_with_ratios(&run),
            "median of 3 rounds of 0.5 s each, shuffled; ratios are to write_read in this run"
        );
        run.settings.rounds = 1;
        run.settings.pipe_size = Some(1 << 20);
        for outcome in &mut run.experiments {
            outcome.ratio = None;
        }
        assert_eq!(
            how_measured_with_ratios(&run),
            "one round of 0.5 s; with --pipe-size 1M"
        );
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("a\n\tb \u{1b}[31mc"), "a b [31mc");
        assert_eq!(one_line("a\u{202e}b\u{2066}c\u{ffff}"), "a�b�c�");
    }
}

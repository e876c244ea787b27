//! Finds the change that would gain the most: the first loss of the table whose condition holds. The losses
//! are ordered by their cost, and those that slow down everything come before one that slows down a single
//! kind of work. Placement comes before a loss that costs less than placement gains, by the figures of this
//! machine; the loss is then the next advice. Wrong bytes come before all of them.
//!
//! The value of each other change is a ratio of two experiments of the groups `ladder` and `produce`, as in the
//! README: it is exact for the machine on which it was measured, and approximate elsewhere.

use super::cpu_sharing::{COMMAND, gain};
use super::settings::HALT_POLL;
use fullbore_results::doctor::{Advice, Examination};
use fullbore_results::placement::Placement;

/// Something that makes pipes slower, and the condition under which it applies.
struct Loss {
    holds: fn(&Examination) -> bool,
    loses: &'static str,
    /// How many times as fast the workload would be without it.
    worth: f64,
    /// The two figures whose ratio this is.
    measured_as: &'static str,
    /// The trial or the setting whose remedy would change it.
    held_by: &'static str,
}

const LOSSES: &[Loss] = &[
    Loss {
        holds: |report| report.is_refused("vmsplice"),
        loses: "vmsplice is refused, so writers must copy every byte",
        worth: 4.8,
        measured_as: "the ratio of vmsplice_read to write_read",
        held_by: "vmsplice",
    },
    Loss {
        holds: |report| report.is_refused("roomy_pipe"),
        loses: "pipes cannot grow to 1 MiB",
        worth: 4.1,
        measured_as: "the ratio of roomy_pipe to write_read",
        held_by: "roomy_pipe",
    },
    Loss {
        holds: |report| report.is_refused("splice"),
        loses: "splice is refused, so copy, tee and readers must copy every byte",
        worth: 3.8,
        measured_as: "the ratio of pipe_pipe_reference to pipe_pipe_snapshot",
        held_by: "splice",
    },
    Loss {
        holds: |report| slows(report, HALT_POLL),
        loses: "idle CPUs halt at once, so waking a task that sleeps on a pipe needs an exit to \
         the hypervisor",
        worth: 2.9,
        measured_as: "the ratio of write_read with 200000 to write_read with 0",
        held_by: HALT_POLL,
    },
    Loss {
        holds: |report| report.is_refused("huge_pages") && !report.is_refused("vmsplice"),
        loses: "there are no huge pages, so fresh pages are allocated one base page at a time",
        worth: 2.7,
        measured_as: "the ratio of fresh_sum to fresh_sum on base pages",
        held_by: "huge_pages",
    },
    Loss {
        holds: |report| report.is_refused("jumbo_slots") && !report.is_refused("roomy_pipe"),
        loses: "a slot holds at most one page, which slows down only Repeat",
        worth: 7.3,
        measured_as: "the ratio of repeat_splice to repeat_splice without socketpair(2)",
        held_by: "jumbo_slots",
    },
];

/// Returns the advice for this report.
pub fn of(report: &Examination) -> Advice {
    match leading_placement(report) {
        Some(placement) => of_placement(placement),
        None => of_losses(report, "largest possible gain"),
    }
}

/// Returns the advice about the largest loss, if [`of`] is about placement and there is a loss.
pub fn next(report: &Examination) -> Option<Advice> {
    leading_placement(report)?;
    Some(of_losses(report, "next")).filter(|advice| advice.worth.is_some())
}

/// Returns what placement gains, if that is more than the largest loss costs.
fn leading_placement(report: &Examination) -> Option<&Placement> {
    let gain = gain(&report.placement)?;
    let worth = of_losses(report, "").worth.unwrap_or(1.0);
    (!report.is_wrong() && gain.ratio > worth).then_some(gain)
}

const MEASURED_HERE: &str =
    "the ratio of write_read on one CPU to write_read on two, on this machine";

fn of_placement(placement: &Placement) -> Advice {
    Advice {
        text: format!(
            "largest possible gain: both ends of a pipe on one CPU, which is {:.1} times the \
             throughput; the price is that nothing runs in parallel, so it pays only where the \
             stages compute little: {COMMAND}",
            placement.ratio
        ),
        worth: Some(placement.ratio),
        measured_as: Some(MEASURED_HERE.to_owned()),
        command: Some(COMMAND.to_owned()),
        ..Advice::default()
    }
}

/// Returns the advice about the largest loss, which begins with `rank`.
fn of_losses(report: &Examination, rank: &str) -> Advice {
    let wrong = report.wrong().next();
    let mut losses = LOSSES
        .iter()
        .filter(|loss| wrong.is_none() && (loss.holds)(report));
    if let Some(loss) = losses.next() {
        let (trial, setting) = (report.trial(loss.held_by), report.setting(loss.held_by));
        let remedy = trial.and_then(|trial| trial.cause.as_ref()?.remedy.as_ref());
        let command = remedy.or(setting.map(|setting| &setting.command));
        let how = command.map_or(String::new(), |command| format!(": {command}"));
        return Advice {
            text: format!(
                "{rank}: {}; about {:.1} times the throughput (measured on another machine){how}",
                loss.loses, loss.worth
            ),
            worth: Some(loss.worth),
            measured_as: Some(loss.measured_as.to_owned()),
            trial: trial.map(|trial| trial.name.clone()),
            setting: setting.map(|setting| setting.name.clone()),
            command: command.cloned(),
        };
    }
    let wrong = wrong.map(|trial| &trial.name);
    let corrupts = wrong.map(|name| format!("{name} corrupts data on this machine: do not use it"));
    Advice {
        text: corrupts.unwrap_or_else(|| "no setting limits pipes on this machine".into()),
        ..Advice::default()
    }
}

/// Returns whether a setting slows pipes down.
fn slows(report: &Examination, setting: &str) -> bool {
    report.setting(setting).is_some_and(|setting| !setting.fine)
}

#[cfg(test)]
mod tests {
    use super::super::settings::{self, GOVERNOR_FILE, HALT_POLL_FILE};
    use super::super::{fixture, fixture_circumstances, fixture_placement};
    use super::*;
    use fullbore_host::fixtures::Fixture;
    use fullbore_results::doctor::TrialOutcome;

    #[test]
    fn where_nothing_is_refused_nothing_is_held_back() {
        let advice = of(&fixture(&[]));
        assert_eq!(advice.text, "no setting limits pipes on this machine");
        assert_eq!((advice.worth, advice.command), (None, None));
    }

    #[test]
    fn the_biggest_of_several_is_said_with_the_command_that_changes_it() {
        let advice = of(&fixture(&["splice", "roomy_pipe"]));
        assert_eq!(advice.trial.as_deref(), Some("roomy_pipe"));
        assert!(
            advice
                .text
                .contains("pipes cannot grow to 1 MiB; about 4.1 times"),
            "{advice:?}"
        );
        let command = advice.command.unwrap();
        assert!(advice.text.ends_with(&command), "{}", advice.text);
        let advice = of(&fixture(&["vmsplice", "huge_pages", "splice"]));
        assert_eq!(
            advice.trial.as_deref(),
            Some("vmsplice"),
            "huge pages gain nothing without it"
        );
    }

    #[test]
    fn a_guest_whose_idle_cpus_halt_at_once_is_told_what_would_help() {
        let mut report = fixture(&["huge_pages"]);
        let machine = Fixture::new(&[(GOVERNOR_FILE, "haltpoll"), (HALT_POLL_FILE, "0")]);
        report.settings = settings::read(&machine.root(), &fixture_circumstances());
        let advice = of(&report);
        assert_eq!(
            (advice.trial, advice.setting.as_deref()),
            (None, Some(HALT_POLL))
        );
        assert!(
            advice.text.contains("about 2.9 times") && advice.text.contains("echo 200000"),
            "{}",
            advice.text
        );
        let of_another = Fixture::new(&[(GOVERNOR_FILE, "menu"), (HALT_POLL_FILE, "0")]);
        report.settings = settings::read(&of_another.root(), &fixture_circumstances());
        assert_eq!(of(&report).trial.as_deref(), Some("huge_pages"));
    }

    #[test]
    fn placement_comes_before_what_gains_less_and_after_what_gains_more() {
        let advised = |refused: &[&str], ratio| {
            let mut report = fixture(refused);
            report.placement = fixture_placement(ratio);
            (of(&report), next(&report))
        };
        let (first, second) = advised(&["splice"], 5.0);
        assert_eq!((first.worth, &first.trial), (Some(5.0), &None));
        assert!(first.text.contains("nothing runs in parallel"), "{first:?}");
        assert!(
            first
                .text
                .ends_with(": fullbore run --place together 'A | B'"),
            "{first:?}"
        );
        let second = second.unwrap();
        assert_eq!(second.trial.as_deref(), Some("splice"));
        assert!(
            second.text.starts_with("next: splice is refused"),
            "{second:?}"
        );
        let (first, second) = advised(&["splice"], 2.0);
        assert_eq!((first.trial.as_deref(), second), (Some("splice"), None));
        let (first, second) = advised(&[], 2.0);
        assert_eq!((first.worth, second), (Some(2.0), None));
        // What gains little is not advised.
        assert_eq!(advised(&[], 1.1).0.worth, None);
    }

    #[test]
    fn wrong_bytes_are_said_before_praise() {
        let mut report = fixture(&["splice"]);
        report.placement = fixture_placement(9.0);
        report.trials[1].outcome = TrialOutcome::Wrong("byte 0 of 1".into());
        assert!(of(&report).text.contains("corrupts data"));
        assert_eq!(next(&report), None);
    }

    #[test]
    fn rows_are_of_trials_and_in_order() {
        let report = fixture(&[]);
        assert!(
            LOSSES
                .iter()
                .all(|loss| { report.trial(loss.held_by).is_some() || loss.held_by == HALT_POLL })
        );
        // The last loss concerns only one kind of work.
        let general = &LOSSES[..LOSSES.len() - 1];
        assert!(general.is_sorted_by(|a, b| a.worth >= b.worth));
    }
}

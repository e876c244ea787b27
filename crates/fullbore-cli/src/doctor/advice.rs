//! The biggest win that is left on the table: the first row whose condition holds. Rows stand in the order
//! of what they are worth, those that slow everything before one that slows a single kind of work.
//!
//! What each is worth is a ratio of two rungs of this project's ladder, or of its group `produce`, as the
//! README has them: of the machine that they were measured on, and about right elsewhere.

use serde::Serialize;

use super::Report;
use super::trials::Outcome;

/// A condition, and what to say where it holds.
struct Row {
    holds: fn(&Report) -> bool,
    loses: &'static str,
    /// How many times as fast it would be.
    worth: f64,
    /// The two figures that this is the ratio of.
    measured_as: &'static str,
    /// Whose remedy would change it.
    trial: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        holds: |report| report.is_refused("vmsplice"),
        loses: "vmsplice is refused, so that writers have to copy every byte",
        worth: 4.8,
        measured_as: "vmsplice_read to write_read",
        trial: "vmsplice",
    },
    Row {
        holds: |report| report.is_refused("roomy_pipe"),
        loses: "pipes cannot grow to 1 MiB",
        worth: 4.1,
        measured_as: "roomy_pipe to write_read",
        trial: "roomy_pipe",
    },
    Row {
        holds: |report| report.is_refused("splice"),
        loses: "splice is refused, so that copy, tee and readers have to copy every byte",
        worth: 3.8,
        measured_as: "pipe_pipe_reference to pipe_pipe_snapshot",
        trial: "splice",
    },
    Row {
        holds: |report| report.is_refused("huge_pages") && !report.is_refused("vmsplice"),
        loses: "there are no huge pages, so that fresh pages come 4 KiB at a time",
        worth: 2.7,
        measured_as: "fresh_sum to the same on base pages, on a busy machine",
        trial: "huge_pages",
    },
    Row {
        holds: |report| report.is_refused("jumbo_slots") && !report.is_refused("roomy_pipe"),
        loses: "a slot holds no more than a page, which slows Repeat and nothing else",
        worth: 7.0,
        measured_as: "repeat_splice to the same without socketpair(2), on a busy machine",
        trial: "jumbo_slots",
    },
];

/// What is said last.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// One sentence.
    pub text: String,
    /// How many times as fast it would be, and of what that was measured; `None` where nothing is held
    /// back.
    pub worth: Option<f64>,
    pub measured_as: Option<&'static str>,
    /// The trial whose refusal it is about.
    pub trial: Option<&'static str>,
    /// The command that would change it.
    pub command: Option<String>,
}

/// The advice for what was found.
pub fn of(report: &Report) -> Advice {
    if let Some(row) = ROWS.iter().find(|row| (row.holds)(report)) {
        let command = report
            .trial(row.trial)
            .and_then(|trial| trial.cause.as_ref()?.remedy.clone());
        let how = match &command {
            Some(command) => format!(": {command}"),
            None => String::new(),
        };
        return Advice {
            text: format!(
                "the biggest win left: {}, about {:.1}× of throughput{how}",
                row.loses, row.worth
            ),
            worth: Some(row.worth),
            measured_as: Some(row.measured_as),
            trial: Some(row.trial),
            command,
        };
    }
    Advice {
        text: match report.wrong().next() {
            Some(trial) => format!("{} moves wrong bytes here: do not use it", trial.name),
            None => "nothing is held back here".into(),
        },
        worth: None,
        measured_as: None,
        trial: None,
        command: None,
    }
}

impl Report {
    fn is_refused(&self, name: &str) -> bool {
        self.trial(name)
            .is_some_and(|trial| matches!(trial.outcome, Outcome::Refused(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn where_nothing_is_refused_nothing_is_held_back() {
        let advice = of(&fixture(&[]));
        assert_eq!(advice.text, "nothing is held back here");
        assert_eq!((advice.worth, advice.command), (None, None));
    }

    #[test]
    fn what_needs_hardware_or_root_only_to_look_is_no_win() {
        for trial in [
            "hardware_counters",
            "page_flags",
            "hugetlb",
            "others_fds",
            "sampling",
        ] {
            assert_eq!(
                of(&fixture(&[trial])).text,
                "nothing is held back here",
                "{trial}"
            );
        }
    }

    #[test]
    fn the_biggest_of_several_is_said_with_the_command_that_changes_it() {
        let advice = of(&fixture(&["splice", "roomy_pipe"]));
        assert_eq!(advice.trial, Some("roomy_pipe"));
        assert!(
            advice
                .text
                .contains("pipes cannot grow to 1 MiB, about 4.1×"),
            "{advice:?}"
        );
        let command = advice.command.unwrap();
        assert!(advice.text.ends_with(&command), "{}", advice.text);
        let advice = of(&fixture(&["vmsplice", "huge_pages", "splice"]));
        assert_eq!(
            advice.trial,
            Some("vmsplice"),
            "huge pages gain nothing without it"
        );
    }

    #[test]
    fn wrong_bytes_are_said_before_praise() {
        let mut report = fixture(&[]);
        report.trials[1].outcome = Outcome::Wrong("byte 0 of 1".into());
        assert!(of(&report).text.contains("wrong bytes"));
    }

    #[test]
    fn rows_are_of_trials_and_in_order() {
        let report = fixture(&[]);
        assert!(ROWS.iter().all(|row| report.trial(row.trial).is_some()));
        // The last is for one kind of work only.
        let general = &ROWS[..ROWS.len() - 1];
        assert!(general.is_sorted_by(|a, b| a.worth >= b.worth));
    }
}

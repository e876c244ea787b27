//! Lists what reduces the time of each class, as a table.

use fullbore_observe::verdict::next::step_on_cpu;
use fullbore_results::explain::{Class, CostAdvice};

/// The conditions for a piece of advice.
struct Remedy {
    class: Class,
    /// Options of the experiment's endpoints, of which at least one must be present.
    with: &'static [&'static str],
    /// Options of which none may be present.
    without: &'static [&'static str],
    /// Programs, of which the side that spends most on the class must be one; an empty list
    /// matches any.
    program: &'static [&'static str],
    /// The experiment or the verb to use instead.
    instead: &'static str,
    words: &'static str,
}

/// The options that move pages by reference instead of copying them.
#[rustfmt::skip]
const BY_REFERENCE: &[&str] = &["--write-with-vmsplice", "--way fresh", "--way recycle", "--way repeat", "--memory"];

const ANY: &[&str] = &[];

/// The table of remedies; the first one that matches is the advice.
#[rustfmt::skip]
const TABLE: &[Remedy] = &[
    Remedy { class: Class::Copying, with: ANY, without: ANY, program: &["cat", "dd", "socat"], instead: "fullbore copy",
        words: "it copies bytes once instead of twice" },
    Remedy { class: Class::Copying, with: ANY, without: ANY, program: &["tee"], instead: "fullbore tee",
        words: "it copies bytes once for all outputs" },
    Remedy { class: Class::Copying, with: ANY, without: ANY, program: &["pv", "mbuffer"], instead: "fullbore meter",
        words: "it measures progress and copies bytes once instead of twice" },
    Remedy { class: Class::Copying, with: ANY, without: BY_REFERENCE, program: ANY, instead: "vmsplice_read",
        words: "vmsplice(2) passes the writer's pages to the pipe, which saves one of two copies" },
    Remedy { class: Class::Copying, with: ANY, without: &["--read-with-splice", "--sum"], program: ANY, instead: "vmsplice_splice",
        words: "splice(2) passes the pages on instead of copying them, if the reader does not \
         need the data" },
    Remedy { class: Class::Copying, with: &["--sum"], without: ANY, program: ANY, instead: "shared_memory",
        words: "shared memory needs no copy; in a pipe, the copy of read(2) remains" },
    Remedy { class: Class::LookingUp, with: ANY, without: &["--huge-page", "--way repeat"], program: ANY, instead: "vmsplice_splice_huge",
        words: "with huge pages, one look-up finds 512 base pages" },
    Remedy { class: Class::LookingUp, with: ANY, without: &["--way repeat"], program: ANY, instead: "repeat_splice",
        words: "data that never changes can be sent repeatedly without looking up pages" },
    Remedy { class: Class::Pages, with: &["--way fresh"], without: ANY, program: ANY, instead: "recycle_sum",
        words: "if the reader copies, pages can be reused instead of freed" },
    Remedy { class: Class::Pages, with: ANY, without: BY_REFERENCE, program: ANY, instead: "vmsplice_read",
        words: "vmsplice(2) passes the writer's pages, so the pipe allocates none" },
    Remedy { class: Class::Pages, with: ANY, without: &["--way repeat"], program: ANY, instead: "repeat_splice",
        words: "if a slot holds many pages, it needs one reference instead of one per page, for \
         data that never changes" },
    Remedy { class: Class::Faults, with: &["--dont-touch-pages"], without: ANY, program: ANY, instead: "vmsplice_splice",
        words: "pages that were touched before cause no more faults" },
    Remedy { class: Class::Faults, with: &["--way fresh"], without: ANY, program: ANY, instead: "recycle_sum",
        words: "if the reader copies, pages can be reused instead of new ones, which have to be \
         zeroed" },
    Remedy { class: Class::Faults, with: ANY, without: &["--huge-page"], program: ANY, instead: "vmsplice_splice_huge",
        words: "a huge page takes one fault where base pages take 512" },
    Remedy { class: Class::Lock, with: ANY, without: &["--buf-size 2M", "--way repeat"], program: ANY, instead: "large_slots",
        words: "with 1 MiB per call, the lock is taken an eighth as often" },
    Remedy { class: Class::Lock, with: ANY, without: &["--way repeat"], program: ANY, instead: "repeat_splice",
        words: "if slots hold many pages, more bytes move each time the lock is taken, for data \
         that never changes" },
    Remedy { class: Class::Sleeping, with: ANY, without: ANY, program: ANY, instead: "fullbore run",
        words: "with pipes of 1 MiB, the programs run longer before they have to sleep" },
    Remedy { class: Class::Sleeping, with: ANY, without: &["--pipe-size", "--write-with-vmsplice", "--way", "--memory"], program: ANY, instead: "roomy_pipe",
        words: "with a pipe of 1 MiB, both sides run longer before they have to sleep" },
    Remedy { class: Class::Sleeping, with: &["--read-with-splice"], without: &["--busy-loop", "--wait adaptive"], program: ANY, instead: "adaptive",
        words: "spinning briefly before sleeping saves the more expensive wake-up" },
    Remedy { class: Class::Sleeping, with: ANY, without: &["--memory", "--way", "--busy-loop", "--wait adaptive"], program: ANY, instead: "deep_ring",
        words: "larger chunks over a pipe of 1 MiB need fewer wake-ups for the same bytes" },
    Remedy { class: Class::Sleeping, with: ANY, without: &["--busy-loop", "--wait adaptive"], program: ANY, instead: "adaptive",
        words: "spinning briefly before sleeping saves the more expensive wake-up" },
    Remedy { class: Class::Entering, with: ANY, without: &["--buf-size 2M", "--way repeat"], program: ANY, instead: "large_slots",
        words: "with 1 MiB per call, an eighth of the calls is needed" },
    Remedy { class: Class::Bookkeeping, with: ANY, without: &["--buf-size 2M", "--way repeat"], program: ANY, instead: "large_slots",
        words: "with 1 MiB per call, an eighth of the calls and checks is needed" },
    Remedy { class: Class::Bookkeeping, with: ANY, without: &["--way repeat"], program: ANY, instead: "repeat_splice",
        words: "fewer slots have to be filled and emptied if each holds many pages, for data that \
         never change" },
];

/// Returns the text for a class without a remedy.
fn without_a_remedy(class: Class) -> &'static str {
    match class {
        Class::User => "the programs themselves take the time, not the pipe",
        Class::Interrupts => {
            "other processes use these CPUs: choose idle ones with --cpus, or wait until the \
             machine is idle"
        }
        _ => "no experiment of the ladder is known to reduce this",
    }
}

/// What the verdict is about: the options of an experiment's endpoints, and its name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// The name of the experiment, which is never recommended.
    pub experiment: Option<&'a str>,
    /// The options of its writer and its reader.
    pub options: &'a str,
}

/// Returns what to type: a verb, or a comparison with an experiment.
fn command(instead: &str, with: Option<&str>) -> String {
    match (instead.starts_with("fullbore "), with) {
        (true, _) => instead.to_owned(),
        (false, with) => format!("fullbore bench {} {instead}", with.unwrap_or("write_read")),
    }
}

/// Returns the advice about the class with most of the time, to which the side of `program`
/// contributes most.
pub fn advice(class: Class, program: &str, subject: Subject<'_>) -> CostAdvice {
    let has = |options: &[&str]| {
        options
            .iter()
            .any(|option| subject.options.contains(option))
    };
    let remedy = TABLE.iter().find(|remedy| {
        remedy.class == class
            && (remedy.with.is_empty() || has(remedy.with))
            && !has(remedy.without)
            && (remedy.program.is_empty() || remedy.program.contains(&program))
            && subject.experiment != Some(remedy.instead)
            // A verb takes the place of a program, not of an experiment.
            && (subject.experiment.is_none() || !remedy.instead.starts_with("fullbore "))
    });
    match remedy {
        Some(remedy) => CostAdvice {
            instead: Some(command(remedy.instead, subject.experiment)),
            words: remedy.words.to_owned(),
        },
        None => {
            let (instead, mut words) = (None, without_a_remedy(class).to_owned());
            if class == Class::User && subject.experiment.is_none() && !program.is_empty() {
                // As under a verdict of run.
                words = format!("{words}; next: {}", step_on_cpu(program));
            }
            CostAdvice { instead, words }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_lab::catalogue::Catalogue;

    #[test]
    fn advice_is_never_what_the_experiment_does_already() {
        let about = |class, experiment, options| {
            let subject = Subject {
                experiment: Some(experiment),
                options,
            };
            let command = advice(class, "reader", subject).instead?;
            let named = command.strip_prefix(&format!("fullbore bench {experiment} "));
            Some(named.unwrap_or(&command).to_owned())
        };
        let vmsplice = "--write-with-vmsplice";
        assert_eq!(
            about(Class::Copying, "write_read", " ").unwrap(),
            "vmsplice_read"
        );
        assert_eq!(
            about(Class::Copying, "vmsplice_read", vmsplice).unwrap(),
            "vmsplice_splice"
        );
        let busy = "--write-with-vmsplice --huge-page --busy-loop --read-with-splice --busy-loop";
        assert_eq!(
            about(Class::Lock, "busy_loop_huge", busy).unwrap(),
            "large_slots"
        );
        assert_eq!(
            about(Class::Sleeping, "write_read", " ").unwrap(),
            "roomy_pipe"
        );
        assert_eq!(about(Class::Sleeping, "busy_loop_huge", busy), None);
        assert_eq!(
            advice(Class::Copying, "cat", Subject::default())
                .instead
                .unwrap(),
            "fullbore copy"
        );
        let own = advice(Class::User, "sort", Subject::default()).words;
        assert!(own.contains("; next: 'LC_ALL=C sort"), "{own}");
        let experiment = Subject {
            experiment: Some("write_read"),
            ..Subject::default()
        };
        assert!(
            !advice(Class::User, "reader", experiment)
                .words
                .contains("next")
        );
    }

    #[test]
    fn every_instead_is_an_experiment_or_a_verb() {
        let catalogue = Catalogue::default();
        for remedy in TABLE {
            let verbs = ["copy", "tee", "meter", "run"];
            let verb = remedy.instead.strip_prefix("fullbore ");
            let is_verb = verb.is_some_and(|verb| verbs.contains(&verb));
            assert!(
                is_verb || catalogue.iter().any(|e| e.name == remedy.instead),
                "{}",
                remedy.instead
            );
        }
    }
}

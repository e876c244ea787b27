//! What the samples come to: the share of each class, which is the largest, and what removes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::classes::Class;
use super::processes::Accounts;
use super::profile::{Side, Stack};

/// One side's time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SideReport {
    /// Its role in an experiment, or its program's name.
    pub name: String,
    /// How many processes of that name there were.
    pub processes: usize,
    /// How often it was seen running.
    pub samples: u64,
    /// Of its time, the part it was on a CPU. Above 1 where threads ran side by side.
    pub ran: f64,
    /// Of its time, the part it slept.
    pub slept: f64,
    /// Of its time, the part it waited for a CPU that others had.
    pub waited: f64,
    /// What these are computed from, and more of the kind.
    pub accounts: Accounts,
    /// What its time on CPU went to, the largest share first.
    pub shares: Vec<Share>,
}

/// What part of a side's time on CPU went to one class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Share {
    pub class: Class,
    /// From 0 to 1.
    pub share: f64,
    /// The functions it was seen in, the largest first.
    pub symbols: Vec<Symbol>,
}

/// A function, and what part of the side's time on CPU it was in it, for this class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Symbol {
    pub name: String,
    pub share: f64,
}

/// Functions named of each share.
const SYMBOLS: usize = 8;

impl SideReport {
    /// Of a side. Where `whole` is false there are no samples of the kernel, and how much of the time was
    /// the kernel's is what the kernel's own accounts say.
    pub fn of(side: &Side, whole: bool) -> Self {
        let mut report = Self::sampled(side);
        let accounts = &side.accounts;
        let ran = accounts.user_seconds + accounts.system_seconds;
        if !whole && ran > 0.0 {
            let user = accounts.user_seconds / ran;
            let mut symbols = report
                .shares
                .pop()
                .map_or(Vec::new(), |share| share.symbols);
            for symbol in &mut symbols {
                symbol.share *= user;
            }
            let share = |class, share, symbols| Share {
                class,
                share,
                symbols,
            };
            report.shares = vec![
                share(Class::User, user, symbols),
                share(Class::NotClassified, 1.0 - user, Vec::new()),
            ];
            report.shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        }
        report
    }

    fn sampled(side: &Side) -> Self {
        let samples = side.samples();
        let mut classes: BTreeMap<Class, BTreeMap<&str, u64>> = BTreeMap::new();
        for (stack, &count) in &side.stacks {
            let symbols = classes.entry(stack.class()).or_default();
            *symbols.entry(stack.leaf()).or_default() += count;
        }
        let part = |count: u64| count as f64 / samples.max(1) as f64;
        let mut shares: Vec<Share> = classes
            .into_iter()
            .map(|(class, symbols)| {
                let share = part(symbols.values().sum());
                let mut symbols: Vec<Symbol> = symbols
                    .into_iter()
                    .map(|(name, count)| Symbol {
                        name: name.to_owned(),
                        share: part(count),
                    })
                    .collect();
                symbols.sort_by(|a, b| b.share.total_cmp(&a.share));
                symbols.truncate(SYMBOLS);
                Share {
                    class,
                    share,
                    symbols,
                }
            })
            .collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self {
            name: side.name.clone(),
            processes: side.processes,
            samples,
            ran: side.accounts.ran(),
            slept: side.accounts.slept(),
            waited: side.accounts.waited(),
            accounts: side.accounts,
            shares,
        }
    }

    /// What part of its time on CPU went to `class`.
    pub fn share(&self, class: Class) -> f64 {
        self.shares
            .iter()
            .find(|share| share.class == class)
            .map_or(0.0, |share| share.share)
    }
}

/// What most of the time went to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verdict {
    /// The class of the largest share of all sides' time on CPU together.
    pub class: Class,
    /// That share, from 0 to 1.
    pub share: f64,
    /// The next one.
    pub next: Option<Class>,
    /// In words.
    pub words: String,
    /// What removes it.
    pub advice: Advice,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The experiment that shows it, or the verb that does it; `None` where there is none.
    #[serde(rename = "try")]
    pub rung: Option<String>,
    /// In words.
    pub words: String,
}

/// A row of the table of advice.
struct Row {
    class: Class,
    /// Options of the experiment's endpoints, of which there has to be one.
    with: &'static [&'static str],
    /// Options of which there must be none.
    without: &'static [&'static str],
    /// Programs, of which the side that spends most on it has to be one; any where there are none.
    program: &'static [&'static str],
    rung: &'static str,
    words: &'static str,
}

/// What hands pages over instead of copying them.
const BY_REFERENCE: &[&str] = &[
    "--write-with-vmsplice",
    "--way fresh",
    "--way recycle",
    "--way repeat",
    "--ring",
];

const ANY: &[&str] = &[];

/// The first row that fits is the advice.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    Row { class: Class::Copying, with: ANY, without: ANY, program: &["cat", "dd", "socat"], rung: "fullbore copy",
        words: "it copies bytes once instead of twice" },
    Row { class: Class::Copying, with: ANY, without: ANY, program: &["tee"], rung: "fullbore tee",
        words: "it passes references to pages where it can" },
    Row { class: Class::Copying, with: ANY, without: ANY, program: &["pv", "mbuffer"], rung: "fullbore meter",
        words: "it measures progress and copies bytes once instead of twice" },
    Row { class: Class::Copying, with: ANY, without: BY_REFERENCE, program: ANY, rung: "vmsplice_read",
        words: "vmsplice(2) passes the writer's pages to the pipe, which saves one of two copies" },
    Row { class: Class::Copying, with: ANY, without: &["--read-with-splice", "--sum"], program: ANY, rung: "vmsplice_splice",
        words: "splice(2) passes the pages on instead of copying them, if the reader does not \
         need the data" },
    Row { class: Class::Copying, with: &["--sum"], without: ANY, program: ANY, rung: "shared_memory",
        words: "shared memory needs no copy; in a pipe, the copy of read(2) remains" },
    Row { class: Class::LookingUp, with: ANY, without: &["--huge-page", "--way repeat"], program: ANY, rung: "vmsplice_splice_huge",
        words: "with huge pages, one look-up finds 512 base pages" },
    Row { class: Class::LookingUp, with: ANY, without: &["--way repeat"], program: ANY, rung: "repeat_splice",
        words: "data that never changes can be sent repeatedly without looking up pages" },
    Row { class: Class::Pages, with: &["--way fresh"], without: ANY, program: ANY, rung: "recycle_sum",
        words: "if the reader copies, pages can be reused instead of freed" },
    Row { class: Class::Pages, with: ANY, without: BY_REFERENCE, program: ANY, rung: "vmsplice_read",
        words: "vmsplice(2) passes the writer's pages, so the pipe allocates none" },
    Row { class: Class::Pages, with: ANY, without: &["--way repeat"], program: ANY, rung: "repeat_splice",
        words: "if a slot holds many pages, it needs one reference instead of one per page, for \
         data that never changes" },
    Row { class: Class::Faults, with: &["--dont-touch-pages"], without: ANY, program: ANY, rung: "vmsplice_splice",
        words: "pages that were touched before cause no more faults" },
    Row { class: Class::Faults, with: &["--way fresh"], without: ANY, program: ANY, rung: "recycle_sum",
        words: "if the reader copies, pages can be reused instead of new ones, which have to be \
         zeroed" },
    Row { class: Class::Faults, with: ANY, without: &["--huge-page"], program: ANY, rung: "vmsplice_splice_huge",
        words: "a huge page takes one fault where base pages take 512" },
    Row { class: Class::Lock, with: ANY, without: &["--buf-size 2M", "--way repeat"], program: ANY, rung: "large_slots",
        words: "with 1 MiB per call, the lock is taken an eighth as often" },
    Row { class: Class::Lock, with: ANY, without: &["--way repeat"], program: ANY, rung: "repeat_splice",
        words: "if slots hold many pages, more bytes move each time the lock is taken, for data \
         that never changes" },
    Row { class: Class::Sleeping, with: ANY, without: &["--pipe-size", "--write-with-vmsplice", "--way", "--ring"], program: ANY, rung: "roomy_pipe",
        words: "with a pipe of 1 MiB, both sides run longer before they have to sleep" },
    Row { class: Class::Sleeping, with: &["--read-with-splice"], without: &["--busy-loop", "--wait adaptive"], program: ANY, rung: "adaptive",
        words: "spinning briefly before sleeping saves the more expensive wake-up" },
    Row { class: Class::Sleeping, with: ANY, without: &["--ring", "--way", "--busy-loop", "--wait adaptive"], program: ANY, rung: "deep_ring",
        words: "larger chunks over a pipe of 1 MiB need fewer wake-ups for the same bytes" },
    Row { class: Class::Sleeping, with: ANY, without: &["--busy-loop", "--wait adaptive"], program: ANY, rung: "adaptive",
        words: "spinning briefly before sleeping saves the more expensive wake-up" },
    Row { class: Class::Entering, with: ANY, without: &["--buf-size 2M", "--way repeat"], program: ANY, rung: "large_slots",
        words: "with 1 MiB per call, an eighth of the calls is needed" },
    Row { class: Class::Bookkeeping, with: ANY, without: &["--buf-size 2M", "--way repeat"], program: ANY, rung: "large_slots",
        words: "with 1 MiB per call, an eighth of the calls and checks is needed" },
    Row { class: Class::Bookkeeping, with: ANY, without: &["--way repeat"], program: ANY, rung: "repeat_splice",
        words: "fewer slots have to be filled and emptied if each holds many pages, for data that \
         never change" },
];

/// What no rung removes.
fn no_rung(class: Class) -> &'static str {
    match class {
        Class::User => "the programs themselves take the time, not the pipe",
        Class::Interrupts => {
            "other processes use these CPUs: choose idle ones with --cpus, or wait until the \
             machine is idle"
        }
        Class::NotClassified => "the flame graph (--flame) shows where in the kernel that is",
        _ => "no experiment of the ladder is known to reduce this",
    }
}

/// What a program is about: the options of an experiment's endpoints, and its own name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// The name of the experiment, which is never the advice.
    pub experiment: Option<&'a str>,
    /// The options of its writer and its reader.
    pub options: &'a str,
}

impl Verdict {
    /// By the samples; `None` where there are too few to say anything.
    pub fn of(sides: &[SideReport], subject: Subject<'_>) -> Option<Self> {
        let all: u64 = sides.iter().map(|side| side.samples).sum();
        if all < LEAST {
            return None;
        }
        let mut totals: BTreeMap<Class, f64> = BTreeMap::new();
        for side in sides {
            for share in &side.shares {
                *totals.entry(share.class).or_default() += share.share * side.samples as f64;
            }
        }
        let mut totals: Vec<(Class, f64)> = totals.into_iter().collect();
        totals.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (class, samples) = *totals.first()?;
        let next = totals
            .iter()
            .find(|(other, _)| *other != class && *other != Class::User)
            .filter(|(_, samples)| *samples > 0.1 * all as f64)
            .map(|(class, _)| *class);
        let words = format!(
            "Most of the time on CPU goes to {}: {}.{}",
            class.name(),
            of_sides(sides, class),
            next.map_or(String::new(), |next| format!(
                " Next is {}: {}.",
                next.name(),
                of_sides(sides, next)
            )),
        );
        let most = sides.iter().max_by(|a, b| {
            let weight = |side: &SideReport| side.share(class) * side.samples as f64;
            weight(a).total_cmp(&weight(b))
        })?;
        Some(Self {
            class,
            share: samples / all as f64,
            next,
            words,
            advice: advice(class, &most.name, subject),
        })
    }
}

/// Samples that are too few to judge by.
const LEAST: u64 = 50;

/// `48% of the reader's and 20% of the writer's`, the largest first.
fn of_sides(sides: &[SideReport], class: Class) -> String {
    let mut parts: Vec<(f64, &str)> = sides
        .iter()
        .filter(|side| side.samples >= LEAST / 5)
        .map(|side| (side.share(class), side.name.as_str()))
        .filter(|(share, _)| *share >= 0.01)
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    parts.truncate(3);
    let words: Vec<String> = parts
        .iter()
        .map(|(share, name)| format!("{:.0}% of {name}'s", share * 100.0))
        .collect();
    match words.as_slice() {
        [] => "a little of everybody's".to_owned(),
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => words.concat(),
    }
}

fn advice(class: Class, program: &str, subject: Subject<'_>) -> Advice {
    let has = |options: &[&str]| {
        options
            .iter()
            .any(|option| subject.options.contains(option))
    };
    let row = TABLE.iter().find(|row| {
        row.class == class
            && (row.with.is_empty() || has(row.with))
            && !has(row.without)
            && (row.program.is_empty() || row.program.contains(&program))
            && subject.experiment != Some(row.rung)
    });
    match row {
        Some(row) => Advice {
            rung: Some(row.rung.to_owned()),
            words: row.words.to_owned(),
        },
        None => Advice {
            rung: None,
            words: no_rung(class).to_owned(),
        },
    }
}

/// What can be said without samples: from user and system time, switches and faults.
pub fn without_samples(sides: &[SideReport], subject: Subject<'_>) -> Option<Verdict> {
    let sum = |figure: fn(&Accounts) -> f64| -> f64 {
        sides.iter().map(|side| figure(&side.accounts)).sum()
    };
    let user = sum(|a| a.user_seconds);
    let system = sum(|a| a.system_seconds);
    let switches = sum(|a| a.voluntary_switches as f64);
    let faults = sum(|a| a.minor_faults as f64);
    if user + system <= 0.05 {
        return None;
    }
    let (class, words) = if user > system {
        (
            Class::User,
            "Most of the time on CPU goes to user code".to_owned(),
        )
    } else if faults * FAULT > system / 3.0 {
        (
            Class::Faults,
            format!(
                "Most of the time on CPU is the kernel's, with {faults:.0} page faults: zeroing and page faults have a large part in it"
            ),
        )
    } else if switches * SWITCH > system / 3.0 {
        (
            Class::Sleeping,
            format!(
                "Most of the time on CPU is the kernel's, and a side went to sleep {switches:.0} times: sleeping and waking have a large part in it"
            ),
        )
    } else {
        (
            Class::NotClassified,
            "Most of the time on CPU is the kernel's, with few page faults and few sleeps: copying, looking pages up or the pipe's lock, which only samples tell apart".to_owned(),
        )
    };
    let advice = match class {
        Class::NotClassified => Advice {
            rung: None,
            words: "allow samples (see above) to learn which".to_owned(),
        },
        class => advice(class, "", subject),
    };
    Some(Verdict {
        class,
        share: (user.max(system)) / (user + system),
        next: None,
        words: format!("{words}."),
        advice,
    })
}

/// Seconds that a page fault costs at the least, and a sleep with its wake-up: guesses on the low side.
const FAULT: f64 = 0.25e-6;
const SWITCH: f64 = 2e-6;

impl Stack {
    /// Reads a line of folded stacks: the side, the stack and the count.
    #[cfg(test)]
    pub fn unfold(line: &str) -> Option<(&str, Stack, u64)> {
        let (frames, count) = line.rsplit_once(' ')?;
        let (side, frames) = frames.split_once(';')?;
        let mut names: Vec<String> = frames
            .split(';')
            .map(|frame| frame.trim_end_matches("_[k]").to_owned())
            .collect();
        names.reverse();
        let stack = match frames.ends_with("_[k]") {
            true => Stack::Kernel(names),
            false => Stack::User(names.remove(0)),
        };
        Some((side, stack, count.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_lab::catalogue::Catalogue;
    use fullbore_lab::catalogue::sweep::Axes;

    fn sides(lines: &[&str]) -> Vec<SideReport> {
        let mut sides: Vec<Side> = Vec::new();
        for line in lines {
            let (name, stack, count) = Stack::unfold(line).unwrap();
            let side = match sides.iter_mut().position(|side| side.name == name) {
                Some(at) => &mut sides[at],
                None => {
                    sides.push(Side {
                        name: name.to_owned(),
                        processes: 1,
                        ..Side::default()
                    });
                    sides.last_mut().unwrap()
                }
            };
            *side.stacks.entry(stack).or_default() += count;
        }
        sides
            .iter()
            .map(|side| SideReport::of(side, true))
            .collect()
    }

    #[test]
    fn the_largest_share_of_all_is_named_with_whose_it_is() {
        let sides = sides(&[
            "writer;do_syscall_64_[k];pipe_write_[k];mutex_lock_[k] 10",
            "writer;[fullbore] main 90",
            "reader;do_syscall_64_[k];pipe_read_[k];copy_page_to_iter_[k];_copy_to_iter_[k] 150",
            "reader;do_syscall_64_[k];pipe_read_[k];schedule_[k];finish_task_switch.isra.0_[k] 50",
        ]);
        let verdict = Verdict::of(&sides, Subject::default()).unwrap();
        assert_eq!(verdict.class, Class::Copying);
        assert_eq!(verdict.share, 0.5);
        assert_eq!(verdict.next, Some(Class::Sleeping));
        assert_eq!(
            verdict.words,
            "Most of the time on CPU goes to copying: 75% of reader's. Next is sleeping and waking: \
             25% of reader's."
        );
        assert_eq!(verdict.advice.rung.as_deref(), Some("vmsplice_read"));
        let shares = &sides[1].shares;
        assert_eq!(shares[0].symbols[0].name, "_copy_to_iter");
        assert_eq!(shares[0].symbols[0].share, 0.75);
    }

    #[test]
    fn what_nothing_classifies_is_shown_under_its_own_heading() {
        let sides = sides(&["cat;do_syscall_64_[k];some_new_function_[k] 60"]);
        assert_eq!(sides[0].shares[0].class, Class::NotClassified);
        assert_eq!(sides[0].shares[0].symbols[0].name, "some_new_function");
    }

    #[test]
    fn a_few_samples_are_too_few() {
        let sides = sides(&["cat;[cat] 49"]);
        assert!(Verdict::of(&sides, Subject::default()).is_none());
    }

    #[test]
    fn advice_is_never_what_the_experiment_does_already() {
        let about = |class, experiment, options| {
            let subject = Subject {
                experiment: Some(experiment),
                options,
            };
            advice(class, "reader", subject).rung
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
                .rung
                .unwrap(),
            "fullbore copy"
        );
    }

    #[test]
    fn every_rung_is_an_experiment_or_a_verb() {
        let catalogue = Catalogue::new(&Axes::default());
        for row in TABLE {
            let is_verb = ["fullbore copy", "fullbore tee", "fullbore meter"].contains(&row.rung);
            assert!(
                is_verb || catalogue.iter().any(|e| e.name == row.rung),
                "{}",
                row.rung
            );
        }
    }

    #[test]
    fn without_samples_the_accounts_say_what_they_can() {
        let side = |accounts| {
            let side = Side {
                name: "cat".to_owned(),
                accounts,
                ..Side::default()
            };
            vec![SideReport::of(&side, false)]
        };
        let accounts = Accounts {
            seconds: 2.0,
            user_seconds: 0.25,
            system_seconds: 0.75,
            ..Accounts::default()
        };
        let class =
            |accounts| without_samples(&side(accounts), Subject::default()).map(|v| v.class);
        assert_eq!(class(accounts), Some(Class::NotClassified));
        let voluntary_switches = 200_000;
        assert_eq!(
            class(Accounts {
                voluntary_switches,
                ..accounts
            }),
            Some(Class::Sleeping)
        );
        let minor_faults = 2_000_000;
        assert_eq!(
            class(Accounts {
                minor_faults,
                ..accounts
            }),
            Some(Class::Faults)
        );
        let user_seconds = 1.0;
        assert_eq!(
            class(Accounts {
                user_seconds,
                ..accounts
            }),
            Some(Class::User)
        );
        assert_eq!(class(Accounts::default()), None);
        let sides = side(accounts);
        assert_eq!((sides[0].ran, sides[0].slept), (0.5, 0.5));
        assert_eq!(sides[0].share(Class::User), 0.25);
    }
}

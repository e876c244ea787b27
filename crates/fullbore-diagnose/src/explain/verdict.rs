//! Determines on what all sides together spent most of their time.

use std::collections::BTreeMap;

use super::advice::{Subject, advice};
use fullbore_observe::verdict::next::{on_all_cpus, step_on_cpu};
use fullbore_results::explain::{Accounts, Class, CostAdvice, MainCost, SideReport};

/// Returns on what most of the time was spent, by the samples, or `None` if there are too few.
pub fn of_samples(sides: &[SideReport], subject: Subject<'_>) -> Option<MainCost> {
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
    let mut others = totals
        .iter()
        .filter(|(other, _)| ![class, Class::User].contains(other));
    let next = others
        .next()
        .filter(|(_, samples)| *samples > 0.1 * all as f64);
    let next = next.map(|(class, _)| *class);
    let place = |class: Class| format!("{}: {}.", class.name(), of_sides(sides, class));
    let second = next.map_or(String::new(), |next| format!(" Next is {}", place(next)));
    let words = format!("Most of the time on CPU goes to {}{second}", place(class));
    let most = sides.iter().max_by(|a, b| {
        let weight = |side: &SideReport| side.share(class) * side.samples as f64;
        weight(a).total_cmp(&weight(b))
    })?;
    Some(MainCost {
        class,
        share: samples / all as f64,
        next,
        words,
        advice: advice(class, &most.name, subject),
    })
}

/// The least share of its time in which a program that is limited by the CPU runs.
const RUNS: f64 = 0.8;

/// Returns how the program of a shell's line whose own code takes the most time can run on all of these CPUs, if it is
/// limited by the CPU and CPUs were idle.
pub fn in_parallel(line: &str, sides: &[SideReport], cpus: usize) -> Option<CostAdvice> {
    let user = |side: &SideReport| side.accounts.user_seconds;
    let slow = sides.iter().max_by(|a, b| user(a).total_cmp(&user(b)))?;
    if slow.processes != 1 || slow.ran < RUNS {
        return None;
    }
    let used = sides.iter().map(|side| side.ran * side.processes as f64);
    let spread = on_all_cpus(line, &slow.name, cpus as f64 - used.sum::<f64>())?;
    Some(CostAdvice {
        instead: spread.command,
        words: format!("{}; or {}", spread.why, step_on_cpu(&slow.name)),
    })
}

/// The smallest number of samples for a verdict.
pub const LEAST: u64 = 50;

/// Formats the shares of the sides, the largest first: `48% of the reader's and 20% of the writer's`.
fn of_sides(sides: &[SideReport], class: Class) -> String {
    let sides = sides.iter().filter(|side| side.samples >= LEAST / 5);
    let mut parts: Vec<_> = sides.map(|side| (side.share(class), &side.name)).collect();
    parts.retain(|(share, _)| *share >= 0.01);
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts = parts.iter().take(3);
    let words = parts.map(|(share, name)| format!("{:.0}% of {name}'s", share * 100.0));
    match words.collect::<Vec<_>>().as_slice() {
        [] => "a small share of each side".to_owned(),
        [only] => only.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// Returns a verdict without samples, from user and system time, switches and faults.
pub fn without_samples(sides: &[SideReport], subject: Subject<'_>) -> Option<MainCost> {
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
    let class = match () {
        () if user > system => Class::User,
        () if faults * FAULT > system / 3.0 => Class::Faults,
        () if switches * SWITCH > system / 3.0 => Class::Sleeping,
        () => Class::NotClassified,
    };
    let on_what = match class {
Class::User => "user code".to_owned(),
Class::Faults => format!(
"the kernel, with {faults:.0} page faults: zeroing and page faults are a large part of it"
),
Class::Sleeping => format!(
"the kernel, and a side went to sleep {switches:.0} times: sleeping and waking are a large part of it"
),
_ => "the kernel, with few page faults and few sleeps: on copying, page look-ups or the pipe's lock, which \
cannot be distinguished without samples".to_owned(),
};
    let advice = match class {
        Class::NotClassified => CostAdvice {
            instead: None,
            words: "allow samples (see above) to learn which".to_owned(),
        },
        class => advice(class, "", subject),
    };
    Some(MainCost {
        class,
        share: (user.max(system)) / (user + system),
        next: None,
        words: format!("Most of the CPU time was spent in {on_what}."),
        advice,
    })
}

/// The minimum cost in seconds of a page fault, and of a sleep with its wake-up: both are low
/// estimates.
const FAULT: f64 = 0.25e-6;
const SWITCH: f64 = 2e-6;

#[cfg(test)]
mod tests {
    use super::super::profile::{SideProfile, Stack};
    use super::*;

    fn sides(lines: &[&str]) -> Vec<SideReport> {
        let mut sides: Vec<SideProfile> = Vec::new();
        for line in lines {
            let (name, stack, count) = Stack::unfold(line).unwrap();
            let side = match sides.iter_mut().position(|side| side.name == name) {
                Some(at) => &mut sides[at],
                None => {
                    sides.push(SideProfile {
                        name: name.to_owned(),
                        processes: 1,
                        ..SideProfile::default()
                    });
                    sides.last_mut().unwrap()
                }
            };
            *side.stacks.entry(stack).or_default() += count;
        }
        sides.iter().map(|side| side.report(true)).collect()
    }

    #[test]
    fn the_largest_share_of_all_is_named_with_whose_it_is() {
        let sides = sides(&[
            "writer;do_syscall_64_[k];pipe_write_[k];mutex_lock_[k] 10",
            "writer;[fullbore] main 90",
            "reader;do_syscall_64_[k];pipe_read_[k];copy_page_to_iter_[k];_copy_to_iter_[k] 150",
            "reader;do_syscall_64_[k];pipe_read_[k];schedule_[k];finish_task_switch.isra.0_[k] 50",
        ]);
        let verdict = of_samples(&sides, Subject::default()).unwrap();
        assert_eq!(verdict.class, Class::Copying);
        assert_eq!(verdict.share, 0.5);
        assert_eq!(verdict.next, Some(Class::Sleeping));
        assert_eq!(
            verdict.words,
            "Most of the time on CPU goes to copying: 75% of reader's. Next is sleeping and waking: \
             25% of reader's."
        );
        assert_eq!(
            verdict.advice.instead.as_deref(),
            Some("fullbore bench write_read vmsplice_read")
        );
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
    fn a_program_of_lines_that_takes_a_whole_cpu_can_have_the_others() {
        let side = |name: &str, user_seconds| {
            let accounts = Accounts {
                seconds: 2.0,
                user_seconds,
                ..Accounts::default()
            };
            let (name, processes) = (name.to_owned(), 1);
            let side = SideProfile {
                name,
                processes,
                accounts,
                ..SideProfile::default()
            };
            side.report(false)
        };
        let advice = |line, user_seconds, cpus| {
            let sides = [side("cat", 0.1), side("grep", user_seconds)];
            in_parallel(line, &sides, cpus).map(|advice| advice.instead)
        };
        let typed = Some("fullbore parallel --accept 1 -- grep -E 'a|b'".to_owned());
        assert_eq!(advice("cat f | grep -E 'a|b'", 1.9, 2), Some(typed));
        assert_eq!(advice("cat f | grep \"$x\"", 1.9, 2), Some(None));
        for (line, user_seconds, cpus) in [
            ("cat f | grep -c x", 1.9, 2),
            ("cat f | grep x", 1.2, 2),
            ("cat f | grep x", 1.9, 1),
        ] {
            assert_eq!(advice(line, user_seconds, cpus), None, "{line}");
        }
    }

    #[test]
    fn a_few_samples_are_too_few() {
        let sides = sides(&["cat;[cat] 49"]);
        assert!(of_samples(&sides, Subject::default()).is_none());
    }

    #[test]
    fn without_samples_the_accounts_say_what_they_can() {
        let side = |accounts| {
            let side = SideProfile {
                name: "cat".to_owned(),
                accounts,
                ..SideProfile::default()
            };
            vec![side.report(false)]
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

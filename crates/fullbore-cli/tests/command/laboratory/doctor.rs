//! Tests of `fullbore doctor`: what it reports when a machine refuses a call, and that its reports
//! are true.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Output, Stdio};

use crate::common::load::Load;
use crate::common::refusing::*;
use crate::common::users::*;
use crate::common::*;
use fullbore_results::doctor::{Advice, Examination, PairReport, TrialOutcome, TrialReport};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use seccompiler::{SeccompAction, SeccompCmpOp, SeccompFilter};

/// Returns the doctor's findings.
#[track_caller]
fn report(output: &Output) -> Examination {
    assert_quiet_success(output);
    json(stdout(output))
}

/// Returns the trial with that name.
#[track_caller]
fn trial<'a>(report: &'a Examination, name: &str) -> &'a TrialReport {
    let trial = report.trial(name);
    trial.unwrap_or_else(|| panic!("no trial {name}"))
}

fn works(trial: &TrialReport) -> bool {
    matches!(trial.outcome, TrialOutcome::Works(_))
}

#[track_caller]
fn assert_works(report: &Examination, name: &str) {
    let trial = trial(report, name);
    assert!(works(trial) && trial.cause.is_none(), "{trial:#?}");
}

/// Asserts that it was refused with that error, for a reason that contains `word`, and that there
/// is advice.
#[track_caller]
fn assert_refused(report: &Examination, name: &str, errno: &str, word: &str) {
    let trial = trial(report, name);
    assert!(report.is_refused(name), "{trial:#?}");
    assert_eq!(trial.errno_name.as_deref(), Some(errno), "{trial:#?}");
    let cause = trial.cause.as_ref().unwrap();
    assert!(cause.why.contains(word), "'{word}' in {trial:#?}");
    assert!(cause.remedy.is_some(), "{trial:#?}");
}

/// Returns the advice about a trial or a setting, which is the second one if placement gains more.
fn advice_on_limits(report: &Examination) -> &Advice {
    let advice = report.next_advice.as_ref().or(report.advice.as_ref());
    advice.unwrap()
}

#[test]
fn what_works_here_is_said_in_json_and_in_text_alike() {
    let found = report(&run("doctor --json"));
    let text = run("doctor");
    assert_quiet_success(&text);
    let text = stdout(&text);
    // What depends on free memory or on the limits of a user may change between two runs. The text is from
    // the time between these two.
    let later = report(&run("doctor --json"));
    assert_eq!(found.schema, 1);
    for (trial, later) in found.trials.iter().zip(&later.trials) {
        let word_of = |trial: &TrialReport| match trial.outcome {
            TrialOutcome::Works(_) => "works",
            TrialOutcome::Refused(_) => "refused",
            TrialOutcome::Wrong(_) => "WRONG",
            TrialOutcome::NotTried(_) => "not tried",
        };
        let words = [word_of(trial), word_of(later)];
        let name = &trial.name;
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
        assert!(
            words.iter().any(|word| line.contains(word)),
            "{words:?} in {line}"
        );
    }
    for setting in &found.settings {
        let (name, value) = (setting.name.as_str(), setting.value.as_str());
        let shown = text.lines().any(|line| {
            line.trim_start().starts_with(name) && line.split_whitespace().any(|word| word == value)
        });
        assert!(shown, "{name} {value} in {text}");
    }
    // Every kernel with pipes has splice and tee.
    assert_works(&found, "splice");
    assert_works(&found, "tee");
    // What gains most is measured anew each time. It is placement, or a change that stands above as well, or
    // nothing.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((above, last)) = text.split_once("largest possible gain: ") else {
        let nothing = "\nno setting limits pipes on this machine\n";
        return assert!(text.ends_with(nothing), "{text}");
    };
    let last = words(last);
    let change = last.rsplit(' ').take(4).collect::<Vec<_>>();
    let change = change.into_iter().rev().collect::<Vec<_>>().join(" ");
    let placement = last.starts_with("both ends of a pipe on one CPU");
    assert!(placement || words(above).contains(&change), "{text}");
}

#[test]
fn every_call_that_is_refused_is_named_with_the_filter_and_the_rest_goes_on() {
    let calls = [
        ("vmsplice", call::VMSPLICE),
        ("splice", call::SPLICE),
        ("tee", call::TEE),
        ("memfd", call::MEMFD_CREATE),
    ];
    for errno in [Errno::NOSYS, Errno::PERM] {
        let name = if errno == Errno::PERM {
            "EPERM"
        } else {
            "ENOSYS"
        };
        for (refused, number) in calls {
            let found = report(&run_under(
                &refusing(&[(number, &[])], errno),
                "doctor --json",
            ));
            assert_refused(&found, refused, name, "seccomp");
            for (other, _) in calls.iter().filter(|(other, _)| *other != refused) {
                assert_works(&found, other);
            }
            assert_eq!(found.circumstances.seccomp, 2);
            if refused == "vmsplice" {
                assert_eq!(advice_on_limits(&found).trial.as_deref(), Some("vmsplice"));
                assert!(found.is_refused("fresh_pages"));
            }
        }
    }
}

#[test]
fn without_splice_out_of_a_socket_there_are_no_jumbo_slots() {
    let filter = refusing(&[(call::SOCKETPAIR, &[])], Errno::PERM);
    let found = report(&run_under(&filter, "doctor --json"));
    assert_refused(&found, "jumbo_slots", "EPERM", "seccomp");
    assert_works(&found, "tee");
}

#[test]
fn a_filter_that_kills_takes_one_trial_and_not_the_report() {
    let filter = SeccompFilter::new(
        [(call::TEE, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let filter = filter.unwrap().try_into().unwrap();
    let found = report(&run_under(&filter, "doctor --json"));
    let tee = trial(&found, "tee");
    let TrialOutcome::Refused(refusal) = &tee.outcome else {
        panic!("not refused: {tee:#?}");
    };
    assert_eq!(refusal.signal, Some(31));
    let why = &tee.cause.as_ref().unwrap().why;
    assert!(why.contains("kills"), "{why}");
    assert_works(&found, "splice");
}

#[test]
fn pipes_that_stay_small_are_the_biggest_win_left() {
    let conditions: &[_] = &[
        (1, SeccompCmpOp::Eq, F_SETPIPE_SZ),
        (2, SeccompCmpOp::Gt, 65536),
    ];
    let filter = refusing(&[(call::FCNTL, conditions)], Errno::PERM);
    let output = run_under(&filter, "doctor --json");
    let found = report(&output);
    // For root the reason can only be the filter; for another user it may also be the limit on all
    // pipes of the user.
    let word = if is_root() { "seccomp" } else { "" };
    assert_refused(&found, "roomy_pipe", "EPERM", word);
    let advice = advice_on_limits(&found);
    assert_eq!(advice.trial.as_deref(), Some("roomy_pipe"));
    assert!(advice.worth > Some(1.0));
    let output = run_under(&filter, "doctor");
    assert_quiet_success(&output);
    let text = stdout(&output);
    let is_said = |rank| text.contains(&format!("{rank}: pipes cannot grow"));
    assert!(
        is_said("largest possible gain") || is_said("next"),
        "{text}"
    );
}

/// How much is gained is not asserted, because it depends on the machine and on other work.
#[test]
fn placement_is_measured_or_the_reason_is_said() {
    let found = report(&run("doctor --json"));
    let placement = &found.placement;
    let words = &placement.words;
    if let Some(figures) = &placement.figures {
        let of_medians = figures.one_cpu.median / figures.two_cpus.median;
        let difference = figures.ratio / of_medians - 1.0;
        assert!(difference.abs() < 1e-9, "{placement:#?}");
        assert_eq!(words.contains("--place together"), figures.gains());
        let is_reader = |pair: &PairReport| pair.reader == figures.cpu;
        assert!(found.cpus.pairs.iter().any(is_reader), "{found:#?}");
    } else {
        let reasons = ["There is nothing to choose", "It could not be measured"];
        let is_reason = |reason| words.starts_with(reason);
        assert!(reasons.into_iter().any(is_reason), "{placement:#?}");
    }
    assert!(stdout(&run("doctor")).contains("\nplacement\n  "));
}

#[test]
fn a_user_who_has_too_many_pipes_is_told_so_and_how_many() {
    let somebody = nobody_else(4);
    if !is_root() {
        return skipped("a user beyond pipe-user-pages-soft: making one needs root");
    }
    let soft = fullbore_linux::pipe_user_pages_soft();
    let Some(soft) = soft.filter(|pages| (1..=1 << 16).contains(pages)) else {
        return skipped("a user beyond pipe-user-pages-soft: there is no such limit here");
    };
    let copy = ForEverybody::new();
    let mut holder = copy.command(somebody, "read");
    holder.stdin(Stdio::piped());
    // SAFETY: between fork and exec it makes system calls and allocates nothing.
    unsafe { holder.pre_exec(hold_pipes) };
    let mut holder = start(&mut holder);
    let mut command = copy.command(somebody, "doctor --json");
    let found = report(&finish(start(&mut command)));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_refused(&found, "roomy_pipe", "EPERM", "fs.pipe-user-pages-soft");
    assert_eq!(found.allowance.uid, somebody);
    // The process stopped making pipes less than one large pipe below the limit.
    let allowance = &found.allowance;
    assert!(allowance.pages + 256 > soft as u64, "{allowance:#?}");
    let setting = found.setting("fs.pipe-user-pages-soft").unwrap();
    assert!(!setting.fine, "{setting:#?}");
    // Small pipes still work.
    assert_works(&found, "pinning");
}

#[test]
fn who_is_not_root_is_told_what_is_roots() {
    const NOBODY: u32 = 65534;
    let copy;
    let output = if is_root() {
        copy = ForEverybody::new();
        finish(start(&mut copy.command(NOBODY, "doctor --json")))
    } else {
        run("doctor --json")
    };
    let found = report(&output);
    for name in ["splice", "vmsplice", "tee", "roomy_pipe", "pinning"] {
        assert_works(&found, name);
    }
    if has_huge_pages() {
        // It is still known what backs the memory.
        assert_works(&found, "huge_pages");
    }
    if is_root() {
        assert_eq!(found.circumstances.capabilities, [""; 0]);
    }
}

#[test]
fn with_one_cpu_there_is_no_pair() {
    let mut only = CpuSet::new();
    let cpu = rustix::thread::sched_getcpu();
    only.set(cpu);
    for words in ["doctor", "doctor --json"] {
        let mut command = fullbore(words);
        // SAFETY: between fork and exec it makes one system call and allocates nothing.
        unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &only)?)) };
        let output = finish(start(&mut command));
        assert_quiet_success(&output);
        if words == "doctor" {
            assert!(stdout(&output).contains("only one CPU: writer and reader share it"));
        } else {
            let found = report(&output);
            assert_eq!(found.cpus.allowed, cpu.to_string());
            assert_eq!(found.cpus.pairs, []);
            assert_eq!(found.placement.figures, None);
            let words = &found.placement.words;
            assert!(
                words.contains(&format!("CPU {cpu} is the only one")),
                "{words}"
            );
            assert_works(&found, "pinning");
        }
    }
}

#[test]
fn a_closed_stdout_is_no_news() {
    for words in ["doctor", "doctor --json"] {
        let output = finish(start(fullbore(words).stdout(nobody_reads())));
        assert_quiet_success(&output);
    }
    let output = finish(start(fullbore("doctor").stdout(full())));
    assert_code(&output, 1);
    one_line(stderr(&output));
}

#[test]
fn nothing_hangs_and_nothing_is_left_behind() {
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"before").unwrap();
    let doctor = start(fullbore("doctor").stdout(Stdio::null()));
    let pid = doctor.id();
    finish(doctor);
    assert_eq!(children(pid), Vec::new());
    // The doctor examined this pipe without reading bytes from it, and has closed it again.
    drop(writer);
    let mut came = [0; 16];
    assert_eq!(rustix::io::read(reader.as_fd(), &mut came), Ok(6));
    assert_eq!(rustix::io::read(reader.as_fd(), &mut came), Ok(0));
}

#[test]
fn without_proc_that_is_said() {
    let Some(output) = run_without("/proc", "doctor") else {
        return;
    };
    assert_code(&output, 3);
    assert!(output.stdout.is_empty(), "{}", said(&output));
    assert!(one_line(stderr(&output)).contains("/proc is not mounted"));
}

/// Runs the doctor under `strace`, which changes the result of a system call; returns `None` if no
/// such strace is installed.
fn meddled_with(call: &str, how: &str) -> Option<Output> {
    let mut strace = std::process::Command::new("strace");
    strace
        .args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &format!("trace={call}"),
        ])
        .args(["-e", &format!("inject={call}:{how}"), FULLBORE, "doctor"]);
    let output = output_of(strace.stdin(Stdio::null())).ok()?;
    // A strace that may not trace, or does not support this change, never starts the command.
    (!output.stdout.is_empty()).then_some(output)
}

#[test]
fn wrong_bytes_are_said_last_and_are_a_failure() {
    let Some(output) = meddled_with("pread64", "poke_exit=@arg2=ffff:when=2+") else {
        return skipped("no strace that can change what was read");
    };
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = stdout(&output);
    assert!(text.contains("WRONG "), "{text}");
    let last = text.trim_end().lines().last().unwrap_or_default();
    assert!(last.contains("corrupts data on this machine"), "{last}");
}

#[test]
fn a_trial_that_hangs_is_ended_and_the_others_go_on() {
    let Some(output) = meddled_with("tee", "delay_enter=11000000") else {
        return skipped("no strace that can delay a call");
    };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = stdout(&output);
    assert!(text.contains("tee: no result within 10 s"), "{text}");
    assert!(text.contains("  sendfile         works"), "{text}");
}

#[test]
fn a_busy_machine_is_named_first_and_no_placement_is_advised() {
    let load = Load::new();
    let found = report(&run("doctor --json"));
    let output = run("doctor");
    drop(load);
    assert!(found.other_work.unwrap() > 0.15, "{found:#?}");
    assert!(
        !found
            .placement
            .figures
            .is_some_and(|figures| figures.gains())
    );
    let advice = found.advice.unwrap();
    assert!(!advice.text.contains("on one CPU"), "{advice:?}");
    let first = stdout(&output).lines().next().unwrap();
    assert!(
        first.starts_with("warning: the machine was busy: others used"),
        "{first}"
    );
}

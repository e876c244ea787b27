//! Tests of `fullbore explain`: it agrees with perf, it reports what is missing, and it leaves
//! nothing behind.

use std::process::{Command, Output};

use crate::common::explain::*;
use crate::common::load::Load;
use crate::common::users::ForEverybody;
use crate::common::*;
use fullbore_results::explain::{Class, Explanation, SideReport};
use rustix::process::{Pid, Signal, kill_process};

/// Options with which an experiment takes a second.
const SHORT: &str = "--rounds 1 --seconds 0.5";

#[test]
fn an_experiment_is_explained_side_by_side() {
    let explanation = explained(&run(&format!("explain write_read {SHORT} --json")));
    assert_eq!(explanation.experiment.as_deref(), Some("write_read"));
    for name in ["writer", "reader"] {
        let side = side(&explanation, name);
        let sum: f64 = side.shares.iter().map(|share| share.share).sum();
        assert!((sum - 1.0).abs() < 1e-6 || side.samples == 0, "{side:#?}");
        let parts = [side.ran, side.slept, side.waited];
        assert!(parts.iter().all(|part| *part >= 0.0), "{side:#?}");
    }
    let disturbance = explanation.disturbance.as_ref().unwrap();
    assert_eq!(disturbance.unit, "GiB/s");
    assert_eq!(disturbance.with.len(), 1);
}

/// Whether the sides take turns, and what one CPU gains, depends on the machine and on other work.
#[test]
fn placement_is_advised_only_where_a_measurement_shows_a_gain() {
    let line = "explain --json=/dev/stderr -o /dev/null --seconds 1 --";
    let of_command = finish(start(fullbore(line).arg("yes | cat > /dev/null")));
    let of_experiment = run(&format!("explain write_read {SHORT} --json"));
    for (text, estimated) in [(stderr(&of_command), true), (stdout(&of_experiment), false)] {
        let explanation: Explanation = json(text);
        let Some(placement) = explanation.placement else {
            skipped("the sides do not take turns here, or one CPU gains too little");
            continue;
        };
        assert_eq!(placement.estimated, estimated, "{placement:#?}");
        assert!(placement.cpus_used <= 1.2);
        let is_gain = placement.figures.gains();
        assert_eq!(placement.advised, is_gain, "{placement:#?}");
        assert_eq!(
            placement
                .words
                .contains("The price is that nothing runs in parallel"),
            is_gain
        );
    }
}

#[test]
fn what_is_on_one_cpu_already_or_computes_in_parallel_is_not_placed() {
    let mut computing = fullbore("explain --json=/dev/stderr -o /dev/null --seconds 1 --");
    let computing = computing.arg("(while :; do :; done) | while :; do :; done");
    let explanation: Explanation = json(stderr(&finish(start(computing))));
    assert_eq!(explanation.placement, None);
    let words = format!("explain write_read_one_cpu {SHORT} --json");
    assert_eq!(explained(&run(&words)).placement, None);
}

/// Returns whether a side has a paragraph, or is named among those that hardly ran: on a busy machine one side
/// may get no CPU.
fn names_side(text: &str, side: &str) -> bool {
    let not_shown = text.lines().find(|line| line.starts_with("Not shown"));
    text.contains(&format!("\n{side}: ")) || not_shown.is_some_and(|line| line.contains(side))
}

#[test]
fn text_names_the_sides_the_classes_and_a_rung() {
    let output = run(&format!("explain write_read {SHORT}"));
    assert_code(&output, 0);
    let text = stdout(&output);
    for word in ["write_read: ", ": on CPU ", "slept "] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    assert!(
        names_side(text, "writer") && names_side(text, "reader"),
        "{text}"
    );
    if text.contains("samples, ") {
        assert!(text.contains("Sampling changed the figure by "), "{text}");
        assert!(text.contains(" lost. "), "{text}");
    }
}

#[test]
fn other_work_than_a_writer_and_a_reader_has_its_parts_for_sides() {
    // On a busy machine one side may not have run for one tick of the clock.
    wait_for("sides that ran", || {
        let explanation = explained(&run(&format!("explain unix_stream {SHORT} --json")));
        let ran = |name| side(&explanation, name).ran > 0.0;
        (ran("send") & ran("receive")).then_some(())
    });
}

/// A program that only computes runs only user code, whichever program samples it. This does not depend on
/// chance; only the number of samples does.
#[test]
fn what_a_program_computes_is_its_own_time() {
    let mut command = fullbore("explain --json=/dev/stderr -o /dev/null --seconds 2 --");
    let output = finish(start(command.arg("while :; do :; done")));
    assert_code(&output, 0);
    let explanation: Explanation = json(stderr(&output));
    let Some(sampling) = &explanation.sampling else {
        return skipped("nothing is sampled here");
    };
    let side = side(&explanation, "sh");
    assert!(side.samples > 0, "{explanation:#?}");
    assert!(side.share(Class::User) > 0.5, "{side:#?}");
    assert_eq!(sampling.lost, 0);
}

#[test]
fn a_command_is_explained_by_the_names_of_its_processes() {
    let line = "head -c 600M /dev/zero | cat | wc -c";
    let mut command = fullbore("explain --json=/dev/stderr -o /dev/null --");
    let output = finish(start(command.arg(line)));
    assert_code(&output, 0);
    assert_eq!(
        stdout(&output).trim(),
        "629145600",
        "stdout is the command's own"
    );
    let explanation: Explanation = json(stderr(&output));
    assert_eq!(explanation.command, [line]);
    for name in ["head", "cat", "wc"] {
        side(&explanation, name);
    }
    assert!(explanation.disturbance.is_none());
}

#[test]
fn a_command_that_never_ends_is_ended_when_its_time_is_up() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.txt");
    let mut command = fullbore("explain --seconds 0.6 --output");
    command.arg(&report).args(["--", "yes | cat > /dev/null"]);
    let output = finish(start(&mut command));
    assert_quiet_success(&output);
    let text = std::fs::read_to_string(report).unwrap();
    assert!(
        names_side(&text, "yes") && names_side(&text, "cat"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_with_the_command_line_is_said_with_code_2() {
    for (words, said) in [
        ("explain nothing_of_the_kind", "unknown experiment"),
        ("explain", "required"),
        ("explain write_read -- true", "not"),
        ("explain write_read --seconds 0", "expected seconds"),
        ("explain write_read --rounds 0", "0"),
        ("explain write_read --cpus 0,9999", "there is no CPU 9999"),
    ] {
        let output = run(words);
        assert_code(&output, 2);
        assert!(
            one_line(stderr(&output)).contains(said),
            "{words}: {}",
            said_by(&output)
        );
    }
}

#[test]
fn a_dash_is_stdout() {
    let output = run(&format!("explain write_read {SHORT} --output -"));
    assert_quiet_success(&output);
    assert!(stdout(&output).starts_with("write_read: "));
}

#[test]
fn what_a_caller_calls_things_does_not_move_the_cursor() {
    const NAME: &str = "a\u{1b}[2Jb\u{9b}c";
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(NAME);
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let program = program.to_str().unwrap();
    let looping = "while :; do :; done";
    for (words, arguments) in [
        ("explain", vec![NAME]),
        ("explain --", vec!["/nowhere/at/all", NAME]),
        ("explain --seconds 0.5 --", vec![program, "-c", looping]),
    ] {
        let output = finish(start(fullbore(words).args(&arguments)));
        let said = stderr(&output).replace('\n', " ");
        assert!(!said.contains(char::is_control), "{said:?}");
        assert!(said.contains("?[2Jb") || arguments.len() == 2, "{said:?}");
    }
}

#[test]
fn without_a_proc_of_its_own_that_is_said() {
    for words in ["explain -- true", "explain write_read"] {
        if let Some(output) = run_without("/proc", words) {
            assert_code(&output, 3);
            assert!(one_line(stderr(&output)).contains("/proc is not mounted"));
        }
    }
    let mut elsewhere = Command::new("unshare");
    let user: &[&str] = if is_root() { &[] } else { &["-r"] };
    elsewhere.args(user).args(["--pid", "--fork"]);
    let mut true_program = Command::new("unshare");
    true_program.args(user).args(["--pid", "--fork", "true"]);
    if !output_of(&mut true_program).is_ok_and(|o| o.status.success()) {
        return skipped("no PID namespace can be made here");
    }
    let output = output_of(elsewhere.args([FULLBORE, "explain", "--", "true"]));
    let output = output.unwrap();
    assert_code(&output, 3);
    assert!(one_line(stderr(&output)).contains("another PID namespace"));
}

fn said_by(output: &Output) -> String {
    crate::common::said(output)
}

#[test]
fn a_command_that_fails_or_is_not_there_is_a_failure() {
    let output = run("explain -- /nowhere/at-all");
    assert_code(&output, 127);
    assert!(one_line(stderr(&output)).contains("/nowhere/at-all: not found"));
    let output = finish(start(fullbore("explain --").arg("exit 7")));
    assert_code(&output, 1);
    assert!(stderr(&output).contains("the command ended with exit status: 7"));
    let output = finish(start(fullbore("explain --").arg("kill -9 $$")));
    assert_code(&output, 1);
    assert!(stderr(&output).contains("signal: 9"));
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    for words in [
        vec!["write_read"],
        vec!["--", "sleep 61 | (trap '' TERM; sleep 61; sleep 62)"],
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut command = fullbore("explain");
            let child = start(command.args(&words));
            let at_least = if words.len() == 1 { 2 } else { 1 };
            let below = wait_for("processes", || {
                let all = all_below(child.id());
                (all.len() >= at_least).then_some(all)
            });
            kill_process(Pid::from_child(&child), signal).unwrap();
            let output = finish(child);
            assert_eq!(output.status.code(), None, "{}", said_by(&output));
            for pid in below {
                wait_for("its end", || (!is_running(pid)).then_some(()));
            }
        }
    }
}

fn all_below(pid: u32) -> Vec<Pid> {
    children(pid)
        .into_iter()
        .flat_map(|(child, _)| {
            let mut all = all_below(child.as_raw_nonzero().get() as u32);
            all.push(child);
            all
        })
        .collect()
}

#[test]
fn a_report_that_nobody_reads_ends_quietly() {
    let mut command = fullbore(&format!("explain write_read {SHORT}"));
    let output = finish(start(command.stdout(nobody_reads())));
    assert_quiet_success(&output);
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    let mut command = fullbore(&format!("explain write_read {SHORT}"));
    let output = finish(start(command.stdout(full())));
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("No space left"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn without_perf_event_open_the_kernels_accounts_have_to_do() {
    use crate::common::refusing::{refusing, run_under};
    use rustix::io::Errno;

    const PERF_EVENT_OPEN: i64 = 298;
    for (errno, word) in [
        (Errno::ACCESS, "perf_event_paranoid"),
        (Errno::PERM, "seccomp"),
        (Errno::NOSYS, "CONFIG_PERF_EVENTS"),
    ] {
        let filter = refusing(&[(PERF_EVENT_OPEN, &[])], errno);
        let explanation = explained(&run_under(
            &filter,
            &format!("explain write_read {SHORT} --json"),
        ));
        assert!(explanation.sampling.is_none());
        let notes = &explanation.notes;
        let says_why = |note: &String| note.contains(word) && note.contains("context switches");
        assert!(notes.iter().any(says_why), "{notes:#?}");
        for side in ["writer", "reader"].map(|name| side(&explanation, name)) {
            assert_eq!(side.samples, 0);
            assert!((side.ran - side.accounts.ran()).abs() < 1e-6, "{side:#?}");
        }
        // Sides that hardly ran, because other programs had the CPUs, do not allow a verdict.
        let ran = |side: &SideReport| side.accounts.user_seconds + side.accounts.system_seconds;
        if explanation.sides.iter().map(ran).sum::<f64>() > 0.1 {
            assert!(explanation.verdict.is_some(), "{explanation:#?}");
        }
    }
}

/// `kernel.perf_event_paranoid` of 2 is the kernel's own default, and lets ordinary users sample only
/// their own code.
#[test]
fn an_ordinary_user_is_told_which_setting_is_in_the_way() {
    if !is_root() {
        return skipped("only root can become somebody else");
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok());
    let Some(paranoid @ 2..) = paranoid else {
        return skipped("everybody may sample the kernel here, or nobody knows");
    };
    const NOBODY: u32 = 65534;
    let copy = ForEverybody::new();
    let words = format!("explain write_read {SHORT} --json");
    // On a busy machine it may not have run for one tick of the clock.
    let explanation = wait_for("a writer that ran", || {
        let explanation = explained(&finish(start(&mut copy.command(NOBODY, &words))));
        let ran = side(&explanation, "writer").ran;
        (ran > 0.0).then_some(explanation)
    });
    let note = &explanation.notes[0];
    assert!(
        note.contains(&format!("kernel.perf_event_paranoid is {paranoid}")),
        "{note}"
    );
    assert!(
        note.contains("sysctl kernel.perf_event_paranoid=1"),
        "{note}"
    );
    let writer = side(&explanation, "writer");
    let parts = writer.share(Class::User) + writer.share(Class::NotClassified);
    assert!((parts - 1.0).abs() < 1e-6, "{writer:#?}");
    if paranoid == 2 {
        let of_kernel = explanation
            .sampling
            .as_ref()
            .map(|sampling| sampling.of_kernel);
        assert_eq!(of_kernel, Some(false), "{explanation:#?}");
    }
}

#[test]
fn a_file_for_the_report_that_cannot_be_written_is_noticed_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut command = fullbore("explain --output /nowhere/report.txt -- touch");
    let output = finish(start(command.arg(&trace)));
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("/nowhere/report.txt"));
    assert!(!trace.exists(), "the command ran");
}

#[test]
fn on_a_busy_machine_no_placement_is_advised() {
    let load = Load::new();
    let explanation = explained(&run("explain write_read --rounds 1 --seconds 0.1 --json"));
    drop(load);
    if let Some(placement) = explanation.placement {
        assert!(!placement.advised, "{placement:?}");
        assert!(
            placement.words.starts_with("The machine was too busy"),
            "{placement:?}"
        );
    }
}

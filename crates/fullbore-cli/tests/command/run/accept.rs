//! What counts as the success of a stage: `run --accept`, signals that the parent ignored, and a '!' before the
//! pipeline.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::io::Errno;
use seccompiler::SeccompCmpOp;
use tempfile::TempDir;

use crate::common::refusing::{call, refusing, under};

use crate::common::{
    FULLBORE, assert_code, assert_quiet_success, finish, fullbore, one_line, output_of,
    run_without, said, start, stderr, stdout, users,
};

/// Writes until its output has lost its reader, and then ends with this code, as programs do that handle EPIPE.
const WRITES_ON: &str = "sh -c 'trap \"\" PIPE; while echo y 2> /dev/null; do :; done; exit 7'";

fn run_in(place: &Path, options: &str, line: &str) -> Output {
    let mut command = fullbore(&format!("run {options}"));
    finish(start(command.arg(line).current_dir(place)))
}

fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("f"), "old\n").unwrap();
    place
}

fn file(place: &TempDir) -> String {
    fs::read_to_string(place.path().join("f")).unwrap()
}

#[test]
fn a_failure_that_is_accepted_is_a_success_and_any_other_is_none() {
    let place = place();
    for (options, line, code) in [
        ("--accept 1=7", "(seq 3; exit 7) | cat", 0),
        ("--accept 1=1,6-8", "(seq 3; exit 7) | cat", 0),
        ("--accept 1=6", "(seq 3; exit 7) | cat", 7),
        ("--accept 2=7", "(seq 3; exit 7) | cat", 7),
        ("--accept sh=7", "sh -c 'seq 3; exit 7' | cat", 0),
        (
            "--accept sh=7",
            "sh -c 'seq 3; exit 7' | sh -c 'cat; exit 7'",
            0,
        ),
        (
            "--accept sh=7",
            "sh -c 'seq 3; exit 7' | sh -c 'cat; exit 8'",
            8,
        ),
        (
            "--accept sh=7",
            "A=b /bin/sh -c 'seq 3; exit 7' 2>&1 | cat",
            0,
        ),
        ("--accept 2=137", "seq 3 | sh -c 'cat; kill -9 $$'", 0),
        ("--accept 1=7", "(exit 7)", 0),
        ("--accept grep=1", "grep x /dev/null", 0),
        ("--accept 1=7", "! (seq 3; exit 7) | cat", 1),
    ] {
        for more in ["", "--whole", "-o f", "--no-pipefail"] {
            fs::write(place.path().join("f"), "old\n").unwrap();
            let output = run_in(place.path(), &format!("{options} {more}"), line);
            let last_alone = more == "--no-pipefail" && code == 7;
            let what = format!("{options} {more} {line}: {}", said(&output));
            assert_eq!(
                output.status.code(),
                Some(if last_alone { 0 } else { code }),
                "{what}"
            );
            let all_succeeded = matches!(code, 0 | 1);
            if more == "-o f" {
                assert_eq!(file(&place) != "old\n", all_succeeded, "{what}");
            }
        }
    }
}

#[test]
fn early_accepts_what_fails_after_the_next_stage_has_read_enough() {
    let place = place();
    for (options, line, code) in [
        ("--accept 1=early", format!("{WRITES_ON} | head -n 1"), 0),
        (
            "--accept sh=early",
            format!("{WRITES_ON} | head -n 1 | cat"),
            0,
        ),
        // The next stage has succeeded because its failure is accepted as well.
        (
            "--accept 1=early --accept 2=early",
            format!("{WRITES_ON} | {WRITES_ON} | head -n 1"),
            0,
        ),
        (
            "--accept 1=early --accept 2=4",
            format!("{WRITES_ON} | (head -n 1; exit 4)"),
            0,
        ),
        (
            "--sigpipe-fails --accept 1=early",
            "yes | head -n 1".to_owned(),
            0,
        ),
        // It stops reading, and succeeds only later.
        (
            "--accept 1=early",
            format!("{WRITES_ON} | (head -n 1; exec < /dev/null; sleep 0.3)"),
            0,
        ),
        // The next stage has failed.
        (
            "--accept 1=early",
            format!("{WRITES_ON} | (head -n 1; exit 4)"),
            4,
        ),
        (
            "--accept 1=early",
            format!("{WRITES_ON} | (head -n 1; exec < /dev/null; sleep 0.3; exit 4)"),
            4,
        ),
        // It has read to the end, or would have.
        ("--accept 1=early", "(echo y; exit 7) | cat".to_owned(), 7),
        (
            "--accept 1=early",
            "(echo y; exec >&-; sleep 0.3; exit 7) | cat".to_owned(),
            7,
        ),
        (
            "--accept 2=early",
            format!("{WRITES_ON} | (head -n 1; exit 4) | cat"),
            4,
        ),
    ] {
        for more in ["", "--whole", "-o f"] {
            fs::write(place.path().join("f"), "old\n").unwrap();
            let output = run_in(place.path(), &format!("{options} {more}"), &line);
            let what = format!("{options} {more} {line}: {}", said(&output));
            assert_eq!(output.status.code(), Some(code), "{what}");
            if more == "-o f" {
                assert_eq!(file(&place) == "old\n", code != 0, "{what}");
            }
        }
    }
}

#[test]
fn an_error_says_that_early_would_accept_it_and_a_report_what_was_accepted() {
    let place = place();
    let early = format!("{WRITES_ON} | head -n 1");
    let output = run_in(place.path(), "--whole", &early);
    assert_code(&output, 7);
    let said_by_run = one_line(stderr(&output));
    assert!(
        said_by_run.contains("--accept 1=early accepts this"),
        "{said_by_run}"
    );
    let output = run_in(place.path(), "--whole", "(echo y; exit 7) | cat");
    assert!(!stderr(&output).contains("early"), "{}", said(&output));
    for (options, line, json, report) in [
        (
            "--accept 1=early",
            early.as_str(),
            "early",
            "stage 1 failed after",
        ),
        (
            "--accept 2=3",
            "echo y | (cat; exit 3)",
            "3",
            "stage 2 ended with 3",
        ),
    ] {
        let output = run_in(place.path(), &format!("--json=j --report {options}"), line);
        assert_code(&output, 0);
        assert!(stderr(&output).contains(report), "{}", said(&output));
        let found: serde_json::Value =
            serde_json::from_slice(&fs::read(place.path().join("j")).unwrap()).unwrap();
        let accepted: Vec<_> = (0..2)
            .filter_map(|at| found["stages"][at]["accepted"].as_str())
            .collect();
        assert_eq!(accepted, [json]);
    }
}

#[test]
fn what_accept_is_about_has_to_exist_before_anything_starts() {
    let place = place();
    for (options, line, words) in [
        (
            "--accept tar=1",
            "touch made | cat",
            "the stages are 1 touch, 2 cat",
        ),
        (
            "--accept 3=1",
            "touch made | cat",
            "the stages are 1 touch, 2 cat",
        ),
        (
            "--accept cat=early",
            "touch made | cat",
            "stage 2 is the last one",
        ),
        (
            "--accept 1=1",
            "touch made; true | cat",
            "--accept needs one pipeline",
        ),
        (
            "--accept 1=0",
            "touch made | cat",
            "expected exit codes from 1 to 255",
        ),
        ("--accept 1", "touch made | cat", "expected STAGE=CODES"),
        ("-o f", "! touch made", "omit the '!'"),
        ("-o f", "touch made; true | cat", "-o needs one pipeline"),
        (
            "-o f --no-pipefail",
            "touch made | cat",
            "cannot be used with",
        ),
    ] {
        let output = run_in(place.path(), options, line);
        assert_code(&output, 2);
        let said_by_run = one_line(stderr(&output));
        assert!(said_by_run.contains(words), "{options}: {said_by_run}");
        assert!(!place.path().join("made").exists(), "{options}");
    }
    let words = [
        "run", "--accept", "sh=7", "--", "/bin/sh", "-c", "exit 7", "|", "cat",
    ];
    assert_quiet_success(&finish(start(Command::new(FULLBORE).args(words))));
}

#[test]
fn early_needs_no_proc() {
    let words = "run --whole --quiet --sigpipe-fails --accept 1=early -- yes | head -n 1";
    if let Some(output) = run_without("/proc", words) {
        assert_code(&output, 0);
    }
}

#[test]
fn a_negated_pipeline_replaces_its_file_as_its_stages_say() {
    let place = place();
    let output = run_in(place.path(), "-o f", "! (seq 3; exit 7) | sed s/^/x/");
    assert_code(&output, 0);
    assert_eq!(file(&place), "old\n", "{}", said(&output));
    let output = run_in(place.path(), "-o f", "! echo hi | cat");
    assert_code(&output, 1);
    assert_eq!(file(&place), "hi\n", "{}", said(&output));
    let output = run_in(place.path(), "-o f", "! echo hi | (cat; kill -9 $$) ");
    assert_code(&output, 0);
    assert_eq!(file(&place), "hi\n", "{}", said(&output));
}

/// Runs a line with these signals ignored and blocked by the parent.
fn with_signals(
    ignored: &[Signal],
    blocked: &[Signal],
    place: &Path,
    options: &str,
    line: &str,
) -> Output {
    let traps: Vec<String> = ignored
        .iter()
        .map(|signal| (*signal as i32).to_string())
        .collect();
    let trap = match traps.is_empty() {
        true => String::new(),
        false => format!("trap '' {};", traps.join(" ")),
    };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{trap} exec \"$@\""), "sh", FULLBORE, "run"]);
    command
        .args(options.split_whitespace())
        .arg(line)
        .current_dir(place);
    users::with_usual_signals(&mut command);
    let blocked = SigSet::from_iter(blocked.iter().copied());
    // SAFETY: sigprocmask(2) is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            nix::sys::signal::sigprocmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None)?;
            Ok(())
        });
    }
    output_of(&mut command).unwrap()
}

#[test]
fn sigpipe_ends_a_stage_also_if_the_parent_ignored_or_blocked_it() {
    let place = place();
    let pipe = [Signal::SIGPIPE];
    for (ignored, blocked) in [
        (&[][..], &[][..]),
        (&pipe, &[]),
        (&[], &pipe),
        (&pipe, &pipe),
    ] {
        for options in ["", "--whole", "-o f"] {
            for line in [
                "yes | head -n 1",
                "yes | cat | head -n 1",
                "(yes) | sh -c 'head -n 1'",
            ] {
                let output = with_signals(ignored, blocked, place.path(), options, line);
                assert_quiet_success(&output);
            }
        }
        let output = with_signals(
            ignored,
            blocked,
            place.path(),
            "--sigpipe-fails",
            "yes | head -n 1",
        );
        assert_code(&output, 141);
    }
    assert_eq!(file(&place), "y\n");
}

#[test]
fn stages_start_with_the_signals_of_a_shell_that_a_user_has_started() {
    use Signal::{SIGHUP, SIGINT, SIGPIPE, SIGUSR1, SIGXFSZ};
    let all = [SIGHUP, SIGINT, SIGPIPE, SIGUSR1, SIGXFSZ];
    let place = place();
    let mask_of = |ignored: &[Signal], blocked: &[Signal], field: &str| {
        let line = format!("grep {field} /proc/self/status | cat");
        let output = with_signals(ignored, blocked, place.path(), "", &line);
        let text = stdout(&output);
        u64::from_str_radix(text.split_whitespace().last().unwrap(), 16).unwrap()
    };
    let bits = |signals: &[Signal]| {
        signals
            .iter()
            .map(|&signal| 1 << (signal as u64 - 1))
            .sum::<u64>()
    };
    let kept = bits(&[SIGHUP, SIGINT, SIGUSR1]);
    assert_eq!(mask_of(&all, &[], "SigIgn") & bits(&all), kept);
    assert_eq!(mask_of(&[], &all, "SigBlk") & bits(&all), kept);
}

#[test]
fn early_whose_pipe_cannot_be_kept_open_is_refused() {
    // F_DUPFD_CLOEXEC of include/uapi/linux/fcntl.h.
    let condition = (1, SeccompCmpOp::Eq, 1030);
    let filter = refusing(&[(call::FCNTL, &[condition])], Errno::MFILE);
    let mut command = fullbore("run --accept 1=early -- yes | head -n 1");
    let output = finish(start(under(filter, &mut command)));
    // The last act of every verb needs a duplicate as well, so the code is not that of this error.
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{}",
        said(&output)
    );
    let text = "keep the pipe after stage 1 open for --accept 1=early";
    assert!(stderr(&output).contains(text), "{}", said(&output));
}

//! `run --stalled`: a pipeline in which no byte moves is ended, without an end of a stage's input, and one that moves is
//! not. What moves does so many times within the time that is allowed, however slow the machine is.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::common::{
    FULLBORE, assert_code, assert_quiet_success, children, finish, fullbore, holder_and_runner,
    is_running, one_line, run_without, said, start, stderr, wait_for,
};

fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("f"), "old\n").unwrap();
    place
}

fn run_in(place: &TempDir, options: &str, line: &str) -> Output {
    let mut command = fullbore(&format!("run --stalled {options}"));
    command
        .env("PATH", path())
        .arg(line)
        .current_dir(place.path());
    finish(start(&mut command))
}

/// Returns a PATH in which `fullbore` is the program that is tested.
fn path() -> String {
    let directory = std::path::Path::new(FULLBORE).parent().unwrap();
    format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
}

/// Runs `check` for each of these at the same time, in a place of its own.
fn each<T: Sync>(all: &[T], check: impl Fn(&TempDir, &T) + Sync) {
    thread::scope(|scope| {
        for one in all {
            let check = &check;
            scope.spawn(move || check(&place(), one));
        }
    });
}

#[test]
fn a_pipeline_that_stalls_is_ended_without_an_end_of_input() {
    let witness = "(cat && echo seen > marker)";
    let lines = [
        (
            format!("(echo a; sleep 1000) | {witness}"),
            "stage 1, (echo a; sleep 1000), waits for a timer",
        ),
        (
            format!("(echo a; exec sleep 1000) | cat | {witness}"),
            "stage 1,",
        ),
        (
            format!("yes | sleep 1000 | {witness}"),
            "stage 2, sleep 1000, waits for a timer",
        ),
        (
            format!("yes | (head -c 100000; trap '' TERM; sleep 1000; echo a) | {witness}"),
            "stage 2,",
        ),
        (
            format!("seq 3 | (cat > /dev/null; sleep 1000; echo a > marker) | {witness}"),
            "stage 2,",
        ),
        // It reads other files all the time, as a connection that is kept alive.
        (
            "yes | (while :; do read x < f; sleep 0.2; done; echo a > marker)".to_owned(),
            "stage 2,",
        ),
        // It computes.
        (
            "(while :; do :; done) | cat".to_owned(),
            "stage 1, (while :; do :; done), runs",
        ),
    ];
    each(&lines, |place, (line, words)| {
        for options in ["1", "1 --whole", "1 -o f --report", "0.5 --no-pipefail"] {
            let output = run_in(place, &format!("{options} --grace 0.5"), line);
            let what = format!("{options} {line}: {}", said(&output));
            assert_code(&output, 122);
            let text = stderr(&output);
            let mut lines = text.lines();
            let found = lines.find(|line| line.contains("no byte has moved for"));
            assert!(found.is_some_and(|line| line.contains(words)), "{what}");
            assert!(!place.path().join("marker").exists(), "{what}");
            assert_eq!(
                text.contains("for CPU"),
                options.contains("--report"),
                "{what}"
            );
            let file = fs::read_to_string(place.path().join("f")).unwrap();
            assert_eq!(file, "old\n", "{what}");
        }
    });
    for line in ["! sleep 1000 | cat", "sleep 1000"] {
        assert_code(&run_in(&place(), "0.5", line), 122);
    }
}

#[test]
fn what_reads_from_a_stage_sees_no_end_either() {
    let lines = ["", "trap : TERM; cat > up; "].map(|trap| {
        format!(
            "(echo a; exec sleep 1000) | tee >({trap}cat > up && echo seen > marker) > /dev/null"
        )
    });
    each(&lines, |place, line| {
        let output = run_in(place, "0.5 --shell bash --grace 0.5", line);
        assert_code(&output, 122);
        assert!(!place.path().join("marker").exists(), "{}", said(&output));
    });
}

#[test]
fn a_pipeline_that_moves_does_not_stall() {
    let often =
        |what: &str| format!("i=0; while [ $i -lt 40 ]; do {what}; sleep 0.05; i=$((i + 1)); done");
    let lines = [
        // Some bytes through an empty pipe.
        format!("({}) | cat > /dev/null", often("echo a")),
        format!("(sleep 0.3; {}) | cat | cat > out", often("echo a")),
        // By splice(2), through pipes that are full.
        "fullbore copy big | fullbore copy | fullbore meter -q -L 200K > out".to_owned(),
        "fullbore copy big | cat | fullbore meter -q -L 200K > out".to_owned(),
        // Beside the pipes.
        format!("({}) | cat", often("head -c 200000 /dev/zero > /dev/null")),
        format!("seq 3 | ({})", often("head -c 200000 /dev/zero > out")),
        // Without a pipe.
        format!("({})", often("echo a >> log")),
        format!("({})", often("echo a")),
        format!("({})", often("read x < f")),
    ];
    each(&lines, |place, line| {
        fs::write(place.path().join("big"), vec![b'x'; 400_000]).unwrap();
        for options in ["1 -o g --quiet", "1 --report --pipe-size 16K"] {
            // It stalls on a machine that runs none of it for a second, but in each of five runs only by a fault.
            let mut output = run_in(place, options, line);
            for _ in 0..4 {
                if output.status.code() == Some(122) {
                    output = run_in(place, options, line);
                }
            }
            assert_code(&output, 0);
        }
    });
}

#[test]
fn the_time_in_which_the_pipeline_is_stopped_does_not_count() {
    let place = place();
    let mut command = Command::new(FULLBORE);
    command
        .args(["run", "--stalled", "1.5"])
        .arg("(echo $$ > started; until [ -e enough ]; do echo a; sleep 0.05; done) | cat > /dev/null")
        .current_dir(place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let running = start(&mut command);
    let group = Pid::from_child(&running);
    let path = place.path().join("started");
    let stage = || fs::read_to_string(&path).ok()?.trim().parse::<i32>().ok();
    let stage = wait_for("the first stage", stage);
    let time = Duration::from_secs(3);
    // All of them, and a stage alone.
    kill_process_group(group, Signal::STOP).unwrap();
    thread::sleep(time);
    kill_process_group(group, Signal::CONT).unwrap();
    let stage = Pid::from_raw(stage).unwrap();
    rustix::process::kill_process(stage, Signal::STOP).unwrap();
    thread::sleep(time);
    rustix::process::kill_process(stage, Signal::CONT).unwrap();
    fs::write(place.path().join("enough"), "").unwrap();
    assert_quiet_success(&finish(running));
}

#[test]
fn nothing_is_left_of_a_pipeline_that_stalls() {
    let place = place();
    let mut command = fullbore("run --stalled 0.5 --grace 0.2");
    let line = "(sleep 1000 & setsid sleep 1000) | (trap '' TERM; sleep 1000 | sleep 1000)";
    let running = start(command.arg(line).current_dir(place.path()));
    let (_, runner) = wait_for("the runner", || holder_and_runner(running.id()));
    let mut all = Vec::new();
    wait_for("the stages", || {
        all = children(runner.as_raw_nonzero().get() as u32)
            .iter()
            .map(|&(pid, _)| pid)
            .collect();
        (all.len() >= 2).then_some(())
    });
    assert_code(&finish(running), 122);
    assert!(all.iter().all(|&pid| !is_running(pid)));
}

#[test]
fn without_proc_a_stall_is_not_looked_for() {
    let Some(output) = run_without("/proc", "run --stalled 1 -- sleep 1 | cat") else {
        return;
    };
    assert_code(&output, 125);
    assert!(
        one_line(stderr(&output)).contains("--stalled need /proc"),
        "{}",
        said(&output)
    );
}

#[test]
fn with_few_descriptors_no_stage_sees_an_end_either() {
    let place = place();
    let line = "(echo a; sleep 1000) | (cat && echo seen > marker)";
    for files in [16, 20, 24, 32] {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("ulimit -n {files}; exec \"$@\""),
                "sh",
                FULLBORE,
                "run",
            ])
            .args(["--stalled", "0.5", "--grace", "0.2", line])
            .current_dir(place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = finish(start(&mut command));
        let code = output.status.code();
        assert!(
            matches!(code, Some(122 | 125)),
            "{files}: {}",
            said(&output)
        );
        assert!(
            !place.path().join("marker").exists(),
            "{files}: {}",
            said(&output)
        );
    }
}

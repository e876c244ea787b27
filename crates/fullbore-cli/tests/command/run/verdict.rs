//! Tests of the verdict on pipelines whose slow stage is known, because it was made slow, and on pipelines
//! whose slow stage cannot be known: which stages are named as sure.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread;

use crate::common::top::is_among;
use crate::common::verdicts::judged;
use crate::common::*;
use fullbore_observe::overview::{Overview, PipeState};
use fullbore_observe::verdict::Sureness;
use rustix::process::{Pid, Signal, kill_process_group};

/// Pipelines that other programs have started, in which more processes have an end of a pipe open than use
/// it: the number of processes that have the write end of the pipe that `tee` reads, and the stages that may
/// be named as sure.
const HELD_BY_SEVERAL: &[(&str, usize, &[&str])] = &[
    // One process computes and writes to /dev/null, one sleeps, and one waits for the sleeping one: it is
    // not visible which of them tee waits for.
    (
        "(gzip </dev/zero >/dev/null & sleep 600 | wc -c & wait) 2>&1 >/dev/null | tee /dev/null",
        4,
        &[],
    ),
    (
        "(gzip </dev/zero >/dev/null & while :; do sleep 1; done) 2>&1 | tee /dev/null",
        2,
        &[],
    ),
    (
        "(gzip </dev/zero & sleep 600 & wait) | tee /dev/null",
        3,
        &[],
    ),
    // A process that has started the writer, and only waits for it, does not matter.
    ("(sleep 600; :) 2>&1 | tee /dev/null", 2, &["sleep"]),
    ("(sleep 600 | cat) 2>&1 | tee /dev/null", 2, &["sleep"]),
    // It stays in the shell's process group, which is killed at the end of the test.
    (
        "timeout --foreground 600 sleep 600 | tee /dev/null",
        2,
        &["sleep", "timeout"],
    ),
    ("sleep 600 2>&1 | tee /dev/null", 1, &["sleep"]),
];

#[test]
fn nobody_is_named_with_conviction_by_what_another_one_does() {
    thread::scope(|scope| {
        for &(script, writers, right) in HELD_BY_SEVERAL {
            scope.spawn(move || names_nobody_else_with_conviction(script, writers, right));
        }
    });
}

fn names_nobody_else_with_conviction(script: &str, writers: usize, right: &[&str]) {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("{script}; exit 3")]);
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut shell = start(shell.process_group(0));
    let overview = || -> Overview {
        let output = run(&format!("top --once --json --pipeline {}", shell.id()));
        assert_quiet_success(&output);
        json(stdout(&output))
    };
    let is_read_by_tee = |pipe: &PipeState| is_among("tee", &pipe.readers);
    // All processes have to run before the test asks for a verdict.
    wait_for(script, || {
        let overview = overview();
        let pipe = overview.pipes.iter().find(|pipe| is_read_by_tee(pipe))?;
        (pipe.writers.len() >= writers).then_some(())
    });
    let overview = overview();
    for chain in &overview.chains {
        let last = &overview.pipes[*chain.pipes.last().unwrap()];
        let verdict = chain.verdict.as_ref();
        let sure = verdict.filter(|verdict| verdict.sure == Sureness::Sure);
        let Some(verdict) = sure.filter(|_| is_read_by_tee(last)) else {
            continue;
        };
        for &number in &verdict.stages {
            let name = chain.stages[number - 1].processes[0].name.as_str();
            assert!(right.contains(&name), "{script}: {verdict}");
        }
    }
    let _ = kill_process_group(Pid::from_child(&shell), Signal::KILL);
    let _ = shell.wait();
}

#[test]
fn no_wrong_stage_is_named_with_conviction() {
    if let Some([_, _, _, misled]) = judged(4) {
        assert_eq!(misled, 0);
    }
}

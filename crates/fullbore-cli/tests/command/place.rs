//! Tests of `fullbore run --place`: the stages run on the CPUs that were named or
//! found, never on others, and nothing keeps fewer CPUs than it had.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::common::*;
use fullbore_host::machine::{format_cpu_list, parse_cpu_list};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

/// A stage that prints its CPUs, and first waits until it has been placed.
const SHOW: &str = "sh -c 'sleep 1; grep Cpus_allowed_list /proc/self/status'";

/// Returns the CPUs that a process may use; those of this process for `None`.
fn cpus(pid: Option<u32>) -> Option<Vec<usize>> {
    let pid = pid.and_then(|pid| Pid::from_raw(pid as i32));
    let set = sched_getaffinity(pid).ok()?;
    Some(
        (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
    )
}

/// Returns the CPUs of this process; `None` if there is nothing to choose from.
fn several() -> Option<Vec<usize>> {
    let all = cpus(None).unwrap();
    if all.len() < 2 {
        skipped("there is only one CPU");
        return None;
    }
    Some(all)
}

/// Makes a command run on one CPU.
fn only_on(command: &mut Command, cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &only)?)) };
}

fn run_line(options: &str, line: &str) -> Output {
    let mut command = fullbore(&format!("run {options}"));
    finish(start(command.arg(line)))
}

/// Returns the CPUs that a stage has printed.
#[track_caller]
fn shown(output: &Output) -> Vec<usize> {
    assert_code(output, 0);
    let list = stdout(output).split_whitespace().last().unwrap();
    parse_cpu_list(list).unwrap()
}

fn placement(options: &str, line: &str) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    let mut command = fullbore(&format!("run {options} --json"));
    let output = finish(start(command.arg(&file).arg(line)));
    assert_code(&output, 0);
    let report = json(&fs::read_to_string(file).unwrap());
    report["placement"].clone()
}

#[test]
fn stages_run_on_the_cpus_that_were_named() {
    let Some(all) = several() else {
        return;
    };
    let (first, last) = (all[0], all[all.len() - 1]);
    let line = format!("{SHOW} | cat");
    for (place, expected) in [
        (format!("{last}/{first}"), vec![last]),
        (format!("{first},{last}/"), vec![first, last]),
        (format!("/{first}"), all.clone()),
        ("none".to_owned(), all.clone()),
    ] {
        let output = run_line(&format!("--place {place}"), &line);
        assert_eq!(shown(&output), expected, "{place}");
    }
    for place in ["together", "spread"] {
        let output = run_line(&format!("--place {place}"), &line);
        assert_eq!(shown(&output).len(), 1, "{place}");
    }
    let found = placement(&format!("--place {last}/{first}"), "echo | cat");
    assert_eq!(found["kind"], "chosen");
    assert_eq!(found["stages"][0], last.to_string());
    let found = placement("--place together", "echo | cat | cat");
    assert_eq!(found["kind"], "together");
    assert_eq!(found["stages"][0], found["stages"][2]);
}

#[test]
fn cpus_that_are_not_there_or_not_allowed_are_refused() {
    for (place, words) in [
        ("900/", "no CPU 900"),
        ("///", "for 4 stages, but the pipeline has 2"),
        ("here", "expected auto, together, spread, none"),
    ] {
        let output = run_line(&format!("--place {place}"), "echo | cat");
        assert_code(&output, 2);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let Some(all) = several() else {
        return;
    };
    let mut command = fullbore(&format!("run --place {}/", all[1]));
    only_on(command.arg("echo | cat"), all[0]);
    let output = finish(start(&mut command));
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("may not use CPU"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn nothing_gets_cpus_that_the_user_has_taken_away() {
    let Some(all) = several() else {
        return;
    };
    for place in ["auto", "together", "spread"] {
        let mut command = fullbore(&format!("run --place {place}"));
        only_on(command.arg(format!("{SHOW} | cat")), all[1]);
        let output = finish(start(&mut command));
        assert_eq!(shown(&output), [all[1]], "{place}");
        // What a stage has chosen for itself is left alone.
        let line = format!("taskset -c {} {SHOW} | cat", all[1]);
        let output = run_line(&format!("--place {place}"), &line);
        assert_eq!(shown(&output), [all[1]], "{place}");
    }
}

#[test]
fn what_is_left_in_the_background_gets_its_cpus_back() {
    let Some(all) = several() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cpus");
    // The background process reads a FIFO that is written to when the stages have ended.
    let line = format!(
        "sh -c '(exec > {0} 2>&1; grep Cpus_allowed_list /proc/self/status; sleep 2; grep Cpus_allowed_list \
         /proc/self/status) & sleep 1' | cat",
        file.display()
    );
    let output = run_line("--quiet --place together", &line);
    assert_code(&output, 0);
    let text = fs::read_to_string(file).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.ends_with(&format_cpu_list(&all)), "{text}");
}

#[test]
fn a_short_pipeline_is_left_alone_and_a_long_one_is_reported() {
    let found = placement("--place auto", "echo | cat");
    assert_eq!(
        (found["kind"].as_str(), found["untried"].as_str()),
        (Some("none"), Some("too_short"))
    );
    let line = "sh -c 'timeout 2 cat /dev/zero; :' | wc -c";
    let found = placement("--save-cpu", line);
    let tried = found["trials"].as_array().unwrap();
    assert!(
        !tried.is_empty() || found["untried"].is_string(),
        "{found:#}"
    );
    assert!(found["words"].as_str().unwrap().starts_with("placement: "));
    let output = run_line("--save-cpu --report", line);
    assert!(
        stderr(&output).contains("placement: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn nothing_stays_placed_whichever_process_of_run_or_stage_is_killed() {
    let Some(all) = several() else {
        return;
    };
    for (killed, line) in [
        ("runner", "sleep 1000.7701 | sleep 1000.7702"),
        ("keeper", "sleep 1000.7701 | sleep 1000.7702"),
        ("stage", "sleep 1000.7701 | sleep 2"),
    ] {
        let mut command = fullbore("run --place together");
        let keeper = start(command.arg(line));
        let runner = wait_for("the runner", || {
            let all = children(keeper.id()).into_iter();
            all.map(|(pid, _)| pid).next()
        });
        let stage = wait_for("a stage on one CPU", || {
            let mut stages = children(runner.as_raw_nonzero().get() as u32).into_iter();
            let (pid, _) =
                stages.find(|(_, words)| words.iter().any(|word| word == "1000.7701"))?;
            let number = pid.as_raw_nonzero().get() as u32;
            (cpus(Some(number))?.len() == 1).then_some(pid)
        });
        let victim = match killed {
            "runner" => runner,
            "keeper" => Pid::from_child(&keeper),
            _ => stage,
        };
        kill_process(victim, Signal::KILL).unwrap();
        finish(keeper);
        wait_for("the end of the stage", || {
            (!is_running(stage)).then_some(())
        });
    }
    assert_eq!(cpus(None), Some(all));
}

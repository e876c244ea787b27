//! Tests of `fullbore run --place`: the stages run on the CPUs that were named, and never on others.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::common::*;
use fullbore_host::machine::parse_cpu_list;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A stage that prints its CPUs.
const SHOW: &str = "grep Cpus_allowed_list /proc/self/status";

/// Returns the CPUs of this process; `None` if there is nothing to choose from.
fn several() -> Option<Vec<usize>> {
    let set = sched_getaffinity(None).unwrap();
    let all: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect();
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

/// Returns the CPUs that the stages have printed, in the order of the lines.
#[track_caller]
fn shown(output: &Output) -> Vec<Vec<usize>> {
    assert_code(output, 0);
    let lines = stdout(output).lines();
    let list = |line: &str| parse_cpu_list(line.split_whitespace().last().unwrap()).unwrap();
    lines.map(list).collect()
}

#[test]
fn stages_run_on_the_cpus_that_were_named_from_their_start() {
    let Some(all) = several() else {
        return;
    };
    let (first, last) = (all[0], all[all.len() - 1]);
    let line = format!("{SHOW} | (cat; {SHOW}) | (cat; {SHOW})");
    for (place, expected) in [
        (
            format!("{last}/{first}/{last}"),
            [vec![last], vec![first], vec![last]],
        ),
        (
            format!("/{first}/"),
            [all.clone(), vec![first], all.clone()],
        ),
        ("none".to_owned(), [&all; 3].map(Clone::clone)),
    ] {
        let output = run_line(&format!("--place {place}"), &line);
        assert_eq!(shown(&output), expected, "{place}");
    }
    let together = shown(&run_line("--place together", &line));
    assert!(together.iter().all(|cpus| *cpus == together[0]));
    assert_eq!(together[0].len(), 1);
    let spread = shown(&run_line("--place spread", &line));
    assert!(spread.iter().all(|cpus| cpus.len() == 1));
    assert_ne!(spread[0], spread[1]);
}

#[test]
fn verbose_names_the_cpus_of_each_stage() {
    let output = run_line("--verbose --place together", "echo | cat");
    assert_code(&output, 0);
    let lines = stderr(&output).lines();
    let cpus: Vec<&str> = lines
        .filter_map(|line| line.split_once(", on CPU ")?.1.split_once(':'))
        .map(|(cpu, _)| cpu)
        .collect();
    assert!(cpus.len() == 2 && cpus[0] == cpus[1], "{output:?}");
}

#[test]
fn cpus_that_do_not_exist_or_are_not_allowed_are_refused() {
    for (place, words) in [
        ("900/", "no CPU 900"),
        ("///", "for 4 stages, but the pipeline has 2"),
        ("auto", "expected together, spread, none"),
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
fn no_stage_gets_a_cpu_that_run_may_not_use() {
    let Some(all) = several() else {
        return;
    };
    for place in ["together", "spread"] {
        let mut command = fullbore(&format!("run --place {place}"));
        only_on(command.arg(format!("{SHOW} | cat")), all[1]);
        let output = finish(start(&mut command));
        assert_eq!(shown(&output), [[all[1]]], "{place}");
    }
}

//! The laboratory without the `fullbore` command: the example `embedding`, run as the program that it is.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Where the program is: `cargo test` builds it beside the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().unwrap().parent().unwrap();
    target.join("examples/embedding")
}

/// Runs it; `None` where it is not built, as by `cargo test --test embedding` alone.
fn run(words: &[&str]) -> Option<Output> {
    if !program().exists() {
        fullbore_tests::skipped("the example is not built; `cargo build --examples` does that");
        return None;
    }
    Some(Command::new(program()).args(words).output().unwrap())
}

#[test]
fn a_program_of_its_own_runs_experiments() {
    let Some(output) = run(&[]) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let [[first, median, unit], second] = &lines.iter().map(Vec::as_slice).collect::<Vec<_>>()[..]
    else {
        panic!("{text}");
    };
    assert_eq!((*first, *unit), ("write_read", "GiB/s"));
    assert!(median.parse::<f64>().unwrap() > 0.0, "{text}");
    // A sandbox may refuse vmsplice; that is said in its place.
    assert!(second[0] == "vmsplice_splice" && second.len() > 2, "{text}");
}

#[test]
fn a_process_whose_parent_has_ended_does_nothing() {
    // No process has this number: PIDs are below 2^22 (proc(5), pid_max).
    let words = "write --bytes-to-pipe=1 --die-with-parent=2000000000";
    let Some(output) = run(&words.split(' ').collect::<Vec<_>>()) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("has ended"), "{said}");
}

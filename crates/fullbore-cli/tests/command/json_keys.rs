//! Tests that the JSON, which other programs read, has the keys in `json_keys/`, and no others.
//!
//! A line is the path of a key, in which `[]` means every item of a list. A `?` at its end says that
//! the key may be missing, because it depends on the machine or on what was measured. A key that is
//! added or renamed on purpose is changed there, and in the documentation of the command.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Output, Stdio};

use crate::common::{assert_code, finish, fullbore, json, start, stderr, stdout};
use serde_json::Value;

#[test]
fn bench_prints_the_keys_that_it_always_has() {
    let output = crate::common::run(
        "bench --json --rounds 2 --seconds 0.02 --pipe-size 64K --chunks 4K --pipe-sizes 64K \
         write_read write_default_sum pipe_pipe_std pipe_file_std pipe_byte_block cat_wc_* \
         cat_grep_* copy_normal memory_read sweep",
    );
    assert_keys(&json(stdout(&output)), include_str!("json_keys/bench.txt"));
}

#[test]
fn doctor_prints_the_keys_that_it_always_has() {
    let output = crate::common::run("doctor --json");
    assert_keys(&json(stdout(&output)), include_str!("json_keys/doctor.txt"));
}

#[test]
fn run_writes_the_keys_that_it_always_has() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    let mut command = fullbore("run --json");
    command.arg(&file).arg("head -c 1M /dev/zero | cat | wc -c");
    let output = finish(start(&mut command));
    assert_code(&output, 0);
    let report: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_keys(&report, include_str!("json_keys/run.txt"));
}

#[test]
fn top_prints_the_keys_that_it_always_has() {
    let output = beside_a_pipeline("top --json --count 1 --pid");
    assert_keys(&json(stdout(&output)), include_str!("json_keys/top.txt"));
}

#[test]
fn tune_prints_the_keys_that_it_always_has() {
    let output = beside_a_pipeline("tune --json --dry-run");
    assert_keys(&json(stdout(&output)), include_str!("json_keys/tune.txt"));
}

#[test]
fn explain_prints_the_keys_that_it_always_has() {
    let list = include_str!("json_keys/explain.txt");
    let output = crate::common::run("explain write_read --json --rounds 1 --seconds 0.5");
    assert_code(&output, 0);
    assert_keys(&json(stdout(&output)), list);
    let mut command = fullbore("explain --json --");
    let output = finish(start(command.arg("head -c 100M /dev/zero | wc -c")));
    assert_code(&output, 0);
    assert_keys(&json(stderr(&output)), list);
}

#[test]
fn a_comparison_has_the_keys_that_it_always_has() {
    let directory = tempfile::tempdir().unwrap();
    for (file, settings) in [("a", "--rounds 2"), ("b", "--rounds 3 --pipe-size 128K")] {
        let words = format!("bench --json --seconds 0.02 {settings} write_read");
        let output = crate::common::run(&words);
        fs::write(directory.path().join(file), &output.stdout).unwrap();
    }
    let mut command = fullbore("bench --json --compare a b");
    let output = finish(start(command.current_dir(&directory)));
    assert_code(&output, 0);
    let list = include_str!("json_keys/comparison.txt");
    assert_keys(&json(stdout(&output)), list);
}

#[test]
fn write_and_read_print_the_keys_that_they_always_have() {
    let words = "--json --bytes-to-pipe 1M --verify";
    let (writing, reading) = crate::common::pipeline(words, words);
    let list = include_str!("json_keys/endpoint.txt");
    assert_keys(&json(stderr(&writing)), list);
    assert_keys(&json(stdout(&reading)), list);
}

/// Runs `fullbore` with these options and the id of a process that writes to another one.
fn beside_a_pipeline(words: &str) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut cat = std::process::Command::new("cat");
    let mut first = start(cat.stdin(Stdio::piped()).stdout(writer));
    let mut cat = std::process::Command::new("cat");
    let mut second = start(cat.stdin(reader).stdout(Stdio::null()));
    let output = crate::common::run(&format!("{words} {}", first.id()));
    drop(first.stdin.take());
    first.wait().unwrap();
    second.wait().unwrap();
    assert_code(&output, 0);
    output
}

/// Asserts that a value has all keys of a list, except those that may be missing, and no others.
fn assert_keys(value: &Value, list: &str) {
    let mut found = BTreeSet::new();
    add_keys(value, "", &mut found);
    let listed: BTreeSet<&str> = list
        .lines()
        .map(|line| line.trim_end_matches('?'))
        .collect();
    let missing: Vec<&str> = list
        .lines()
        .filter(|key| !key.ends_with('?') && !found.contains(*key))
        .collect();
    let unknown: Vec<&String> = found
        .iter()
        .filter(|key| !listed.contains(key.as_str()))
        .collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "missing: {missing:?}; not in the list: {unknown:?}\n{value:#}"
    );
}

fn add_keys(value: &Value, before: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = match before {
                    "" => key.clone(),
                    _ => format!("{before}.{key}"),
                };
                add_keys(value, &path, keys);
                keys.insert(path);
            }
        }
        Value::Array(items) => {
            for item in items {
                add_keys(item, &format!("{before}[]"), keys);
            }
        }
        _ => {}
    }
}

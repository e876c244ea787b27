//! Tests that the JSON, which other programs read, has the keys in `json_keys/`, and no others.
//!
//! A line is the path of a key, in which `[]` means every item of a list. A `?` at its end says that
//! the key may be missing, because it depends on the machine or on what was measured. A key that is
//! added or renamed on purpose is changed there, and in the documentation of the command.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use crate::common::{assert_code, finish, fullbore, json, start, stdout};
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
    let (reader, writer) = std::io::pipe().unwrap();
    let mut cat = std::process::Command::new("cat");
    let mut first = start(cat.stdin(Stdio::piped()).stdout(writer));
    let mut cat = std::process::Command::new("cat");
    let mut second = start(cat.stdin(reader).stdout(Stdio::null()));
    let words = format!("top --json --count 1 --pid {}", first.id());
    let output = crate::common::run(&words);
    drop(first.stdin.take());
    first.wait().unwrap();
    second.wait().unwrap();
    assert_code(&output, 0);
    let look: Value = serde_json::from_str(stdout(&output).trim()).unwrap();
    assert_keys(&look, include_str!("json_keys/top.txt"));
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

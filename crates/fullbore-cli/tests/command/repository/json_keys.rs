//! Tests that the JSON, which other programs read, has the keys in `json_keys/`, and no others, and that the
//! types that programs in Rust read it by hold all of it.
//!
//! A line is the path of a key, in which `[]` means every item of a list. A `?` at its end says that
//! the key may be missing, because it depends on the machine or on what was measured. A key that is
//! added or renamed on purpose is changed there, and in the documentation of the command.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Output, Stdio};

use crate::common::{assert_code, finish, fullbore, json, start, stderr, stdout};
use fullbore_observe::Findings;
use fullbore_observe::overview::Overview;
use fullbore_observe::tune::report::TuningReport;
use fullbore_results::compare::Comparison;
use fullbore_results::doctor::Examination;
use fullbore_results::explain::Explanation;
use fullbore_results::run::{EndpointReport, Run};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[test]
fn bench_prints_the_keys_that_it_always_has() {
    let output = crate::common::run(
        "bench --json --rounds 2 --seconds 0.02 --pipe-size 64K write_read write_default_sum pipe_pipe_std pipe_file_std pipe_byte_block cat_wc_* \
         cat_grep_* copy_normal memory_read chunk_4K_pipe_64K",
    );
    assert_keys::<Run>(stdout(&output), include_str!("json_keys/bench.txt"));
}

#[test]
fn doctor_prints_the_keys_that_it_always_has() {
    let output = crate::common::run("doctor --json");
    assert_keys::<Examination>(stdout(&output), include_str!("json_keys/doctor.txt"));
}

#[test]
fn run_writes_the_keys_that_it_always_has() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    let mut command = fullbore(&format!("run --json={}", file.display()));
    command.arg("head -c 1M /dev/zero | cat | wc -c");
    let output = finish(start(&mut command));
    assert_code(&output, 0);
    let report = fs::read_to_string(file).unwrap();
    assert_keys::<Findings>(&report, include_str!("json_keys/run.txt"));
}

#[test]
fn top_prints_the_keys_that_it_always_has() {
    let output = beside_a_pipeline("top --json --count 1");
    assert_keys::<Overview>(stdout(&output), include_str!("json_keys/top.txt"));
}

#[test]
fn tune_prints_the_keys_that_it_always_has() {
    let output = beside_a_pipeline("tune --json --dry-run --force");
    assert_keys::<TuningReport>(stdout(&output), include_str!("json_keys/tune.txt"));
}

#[test]
fn explain_prints_the_keys_that_it_always_has() {
    let list = include_str!("json_keys/explain.txt");
    let output = crate::common::run("explain write_read --json --rounds 1 --seconds 0.5");
    assert_code(&output, 0);
    assert_keys::<Explanation>(stdout(&output), list);
    let mut command = fullbore("explain --json=/dev/stderr -o /dev/null --");
    let output = finish(start(command.arg("head -c 100M /dev/zero | wc -c")));
    assert_code(&output, 0);
    assert_keys::<Explanation>(stderr(&output), list);
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
    assert_keys::<Comparison>(stdout(&output), list);
}

#[test]
fn write_and_read_print_the_keys_that_they_always_have() {
    let words = "--bytes-to-pipe 1M --verify";
    let write = format!("{words} --json=/dev/stderr");
    let (writing, reading) = crate::common::pipeline(&write, &format!("{words} --json"));
    let list = include_str!("json_keys/endpoint.txt");
    assert_keys::<EndpointReport>(stderr(&writing), list);
    assert_keys::<EndpointReport>(stdout(&reading), list);
}

#[test]
fn buffer_prints_the_keys_that_it_always_has() {
    let mut command = fullbore("buffer -q --json=/dev/stderr -m 10M -o /dev/null -o -");
    let zero = fs::File::open("/dev/null").unwrap();
    let output = finish(start(command.stdin(zero)));
    assert_code(&output, 0);
    assert_keys::<Value>(stderr(&output), include_str!("json_keys/buffer.txt"));
}

#[test]
fn parallel_writes_the_keys_that_it_always_has() {
    let mut command = fullbore("parallel -j 1 --json=/dev/stderr cat");
    let zero = fs::File::open("/dev/null").unwrap();
    let output = finish(start(command.stdin(zero)));
    assert_code(&output, 0);
    assert_keys::<Value>(stderr(&output), include_str!("json_keys/parallel.txt"));
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

/// Asserts that JSON has all keys of a list, except those that may be missing, and no others, and that it is
/// the same after it was read as a `T`.
#[track_caller]
fn assert_keys<T: Serialize + DeserializeOwned>(text: &str, list: &str) {
    let value: Value = json(text);
    let read = serde_json::to_value(json::<T>(text)).unwrap();
    assert!(read == value, "{value:#} was read as {read:#}");
    let mut found = BTreeSet::new();
    add_keys(&value, "", &mut found);
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

//! Tests of `bench -- LINE`: what it says of a pipeline that is right, one that fails, and one whose output differs.

use serde_json::Value;

use crate::common::*;

/// Returns what `bench` with these options says of a line, in an empty directory.
fn bench(options: &str, line: &str) -> (std::process::Output, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("$F bench {options} -- \"$LINE\"");
    let output = finish(start(bash(&directory, &text).env("LINE", line)));
    (output, directory)
}

#[test]
fn every_way_runs_in_every_round_and_the_outputs_are_the_same() {
    let (output, directory) = bench(
        "--rounds 5 --warmup 1 --all --json=report --prepare 'echo >> prepared'",
        "echo one | cat; echo two | cat | cat",
    );
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("the outputs are the same: 8 bytes"), "{text}");
    assert_eq!(text.matches("slow stage with").count(), 3, "{text}");
    let report = std::fs::read(directory.path().join("report")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let ways = report["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 3);
    for way in ways {
        assert_eq!(way["seconds"]["rounds"].as_array().unwrap().len(), 5);
        assert_eq!(way["outputs"][0]["bytes"], 8);
        assert!(way["largest_process_bytes"].as_u64().unwrap() > 0);
    }
    // One that is observed, one to warm up, and five rounds.
    let prepared = std::fs::read(directory.path().join("prepared")).unwrap();
    assert_eq!(prepared.len(), 3 * 7);
}

#[test]
fn outputs_that_differ_between_the_ways_are_an_error_and_those_that_always_differ_are_not() {
    // The name of the shell is different, as the shell and `run` start it.
    let (output, _) = bench("--rounds 2", "echo $0");
    assert_code(&output, 1);
    assert!(
        stdout(&output).contains("THE OUTPUTS DIFFER"),
        "{}",
        said(&output)
    );
    assert!(stdout(&output).contains("too few rounds for a verdict"));
    let (output, _) = bench("--rounds 2", "echo $$");
    assert_code(&output, 0);
    assert!(
        stdout(&output).contains("differs from run to run"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_line_that_fails_is_not_measured() {
    for (options, line, words) in [
        (
            "--rounds 1",
            "echo no >&2; exit 3",
            "'sh -c' ended with code 3: no",
        ),
        // The shell does not see that the first stage has failed.
        (
            "--rounds 1",
            "false | cat",
            "'fullbore run' ended with code 1",
        ),
        ("--rounds 1 --prepare 'exit 4'", "true", "--prepare failed"),
    ] {
        let (output, _) = bench(options, line);
        assert_code(&output, 1);
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).contains(words), "{}", said(&output));
    }
    for words in [
        "bench -- true a",
        "bench --all",
        "bench pipe -- true",
        "bench --quick -- true",
    ] {
        assert_code(&run(words), 2);
    }
}

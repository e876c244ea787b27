//! Tests of `fullbore run --summary`: one verdict about the reports of many pipelines.

use std::fs;

use crate::common::*;
use serde_json::Value;

#[test]
fn reports_of_many_pipelines_have_one_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut names = Vec::new();
    for number in 0..3 {
        let report = path(&format!("{number}.json"));
        let json = format!("--json={report}");
        let line = "head -c 300K /dev/zero | cat | wc -c";
        let output = output_of(fullbore("run").args([&json, line])).unwrap();
        assert_code(&output, 0);
        // As a scheduler of many machines adds it.
        let mut found: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
        assert!(!found["host"].as_str().unwrap().is_empty());
        found["host"] = format!("host{number}").into();
        found["input"] = format!("input{number}").into();
        fs::write(&report, found.to_string()).unwrap();
        names.push(report);
    }
    let page = path("page.html");
    let html = format!("--html={page}");
    let with =
        |options: &[&str]| output_of(fullbore("run --summary").args(options).args(&names)).unwrap();
    let output = with(&[&html]);
    assert_code(&output, 0);
    let text = stdout(&output);
    for words in ["3 pipelines on 3 machines", "3 wc", "input1 on host1"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(fs::read_to_string(&page).unwrap().contains("input2"));
    let output = with(&["--json"]);
    assert_code(&output, 0);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["pipelines"], 3);
    assert_eq!(summary["stages"].as_array().unwrap().len(), 3);
    assert_eq!(summary["odd"], Value::Null);
}

#[test]
fn what_is_no_report_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.json");
    fs::write(&empty, "{}").unwrap();
    for (words, said) in [
        (vec!["--summary"], "give the files"),
        (
            vec!["--summary", "/none"],
            "'/none': No such file or directory",
        ),
        (
            vec!["--summary", empty.to_str().unwrap()],
            "not the output of 'fullbore run --json'",
        ),
        (vec!["--html", "x", "true"], "--summary"),
        (vec!["--summary", "--", "true"], "--summary"),
    ] {
        let output = output_of(fullbore("run").args(&words)).unwrap();
        assert_code(&output, 2);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

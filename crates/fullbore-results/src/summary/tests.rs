//! Tests of summaries.

use super::*;

fn report(host: &str, input: usize, seconds: f64, slow: usize, exit: i32) -> String {
    format!(
        r#"{{"host": "{host}", "input": "in{input}", "seconds": {seconds}, "looks": 3, "stages": [
            {{"text": "/bin/cat in{input}", "cpu_seconds": 0.5, "exit_code": {exit}}},
            {{"text": "gzip -1", "cpu_seconds": 2.0, "exit_code": 0}}],
          "pipes": [{{"writer": 1, "reader": 2, "bytes": 1073741824}}],
          "verdict": {{"kind": "stage", "stages": [{slow}], "bound_by": {}, "sure": "sure", "words": "w{input}"}}}}"#,
        if slow == 1 {
            r#"{"cause": "disk"}"#
        } else {
            r#""cpu""#
        }
    )
}

/// Reads them as one file.
fn summary(reports: &[String]) -> Summary {
    let mut read = Reports::default();
    read.read(reports.join("\n").as_bytes()).unwrap();
    Summary::of(&read).unwrap()
}

#[test]
fn many_reports_have_one_verdict() {
    let mut reports: Vec<_> = (0..6).map(|at| report("a", at, 2.0, 2, 0)).collect();
    reports.extend((6..10).map(|at| report("b", at, 5.0 + at as f64, 1, 0)));
    reports.push(report("c", 10, 2.0, 2, 3));
    reports.push(r#"{"skipped": true, "host": "d"}"#.to_owned());
    let summary = summary(&reports);
    assert_eq!((summary.pipelines, summary.failed), (11, 1));
    let gzip = &summary.stages[1];
    assert_eq!((gzip.program.as_str(), gzip.slow), ("gzip", 7));
    assert_eq!(gzip.slow_on, ["a", "c"]);
    assert_eq!(gzip.limited_by, [("the CPU".to_owned(), 7)]);
    assert_eq!(summary.stages[0].limited_by, [("disk".to_owned(), 4)]);
    assert_eq!(summary.stages[0].cpu_seconds, 5.5);
    let odd = summary.odd.as_ref().unwrap();
    assert_eq!(odd.host, "b");
    assert_eq!(summary.slowest[0].input, "in9");
    let text = summary.to_string();
    for words in [
        "11 pipelines on 3 machines, 1 of them failed, and 1 more skipped; 2.000 s",
        "stage 2, gzip, was the slow one in 7 of 11",
        "b is the odd one out",
        "in9 on b, 14.000 s: stage 1, cat, limited by disk",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_is_no_report_is_refused_and_machines_that_are_alike_are_not_odd() {
    assert!(Summary::of(&Reports::default()).is_none());
    let long = format!(r#"{{"seconds": "{}"}}"#, "x".repeat(100_000));
    for text in ["{\"schema\": 1}", "", "{\"skipped\": true} x", &long] {
        let refused = Reports::default().read(text.as_bytes()).unwrap_err();
        assert!(refused.len() < 500, "{} bytes", refused.len());
        assert!(
            refused.starts_with("not the output of 'fullbore run --json'"),
            "{refused}"
        );
    }
    let mut reports: Vec<_> = (0..4).map(|at| report("a", at, 2.0, 2, 0)).collect();
    reports.extend((0..4).map(|at| report("b", at, 2.5, 2, 0)));
    // Two pipelines are too few to say anything about their machine.
    reports.extend((0..2).map(|at| report("c", at, 90.0, 2, 0)));
    // A machine that got the large files is not slow.
    let large = report("d", 0, 900.0, 2, 0).replace("1073741824", "99073741824");
    reports.extend(vec![large; 9]);
    let summary = summary(&reports);
    assert!(summary.odd.is_none(), "{:?}", summary.machines);
    assert_eq!(summary.machines[1].times_as_long, Some(1.25));
    assert_eq!(summary.machines[3].times_as_long, None);
}

#[test]
fn pipelines_that_were_all_skipped_are_counted() {
    let skipped = summary(&[
        "{\"skipped\": true}".to_owned(),
        "{\"skipped\": true}".to_owned(),
    ]);
    assert_eq!(
        skipped.to_string(),
        "0 pipelines on 0 machines, and 2 more skipped\n"
    );
}

//! Tests of `fullbore bench page_lookup`: the cost of looking up a page, as measured by the kernel or
//! as estimated, and the results when a machine refuses a call.

use std::path::Path;

use crate::common::refusing::*;
use crate::common::*;
use fullbore_results::run::Unit;
use rustix::io::Errno;
use seccompiler::SeccompCmpOp;

/// Options for the shortest possible run.
const SHORT: &str = "bench page_lookup --json --rounds 1 --seconds 0.01";

const ROWS: [&str; 4] = [
    "lookup_base_touched",
    "lookup_base_untouched",
    "lookup_huge_touched",
    "lookup_huge_untouched",
];

/// Returns whether this user can run the benchmark in the kernel, and this kernel has it.
fn has_benchmark() -> bool {
    Path::new("/sys/kernel/debug/gup_test").exists()
}

#[test]
fn every_row_has_nanoseconds_a_page_and_says_where_they_are_from() {
    let output = run(SHORT);
    assert_code(&output, 0);
    let run = bench_json(&output);
    let names: Vec<&str> = run.experiments.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ROWS);
    for experiment in &run.experiments {
        assert_eq!(experiment.unit, Unit::NanosecondsPerPage);
        if let Some(reason) = experiment.skipped.as_deref() {
            assert!(!has_huge_pages(), "{experiment:#?}");
            skipped(&format!("{}: {reason}", experiment.name));
            continue;
        }
        assert!(has_figure(experiment), "{experiment:#?}");
        let notes = &experiment.notes;
        if has_benchmark() {
            let by = notes.iter().any(|note| note.contains("get_user_pages"));
            assert!(by || notes[0].contains("an estimate"), "{notes:?}");
        } else {
            assert!(notes[0].starts_with("an estimate of "), "{notes:?}");
            assert!(
                notes[0].contains("/sys/kernel/debug/gup_test: "),
                "{notes:?}"
            );
        }
        let untouched = experiment.name.as_str().ends_with("untouched");
        let fault = notes.iter().any(|note| note.contains("page fault"));
        assert_eq!(untouched, fault, "{notes:?}");
    }
    assert!(stderr(&output).contains("ns/page"), "{}", said(&output));
}

#[test]
fn ratios_say_how_many_times_as_fast() {
    let output = run(SHORT);
    assert_code(&output, 0);
    let run = bench_json(&output);
    let median = |name| median(experiment(&run, name));
    let ratio = experiment(&run, ROWS[1]).ratio.unwrap();
    let expected = median(ROWS[0]) / median(ROWS[1]);
    assert!((ratio - expected).abs() < 1e-9, "{ratio} {expected}");
}

#[test]
fn where_vmsplice_is_refused_rows_are_skipped_with_the_reason() {
    if has_benchmark() {
        return skipped("the kernel's own benchmark needs no vmsplice");
    }
    for (call, name) in [(call::VMSPLICE, "vmsplice(2)"), (call::SPLICE, "splice(2)")] {
        for errno in [Errno::NOSYS, Errno::PERM] {
            let output = run_under(&refusing(&[(call, &[])], errno), SHORT);
            assert_code(&output, 0);
            for experiment in &bench_json(&output).experiments {
                let reason = experiment.skipped.as_deref().unwrap_or_default();
                let huge = experiment.name.as_str().contains("huge");
                assert!(
                    reason.contains(name) || huge && !has_huge_pages(),
                    "{experiment:#?}"
                );
                assert!(experiment.figure.is_none());
            }
        }
    }
}

#[test]
fn without_huge_pages_base_pages_are_looked_up_all_the_same() {
    let filter = refusing(
        &[(call::MADVISE, &[(2, SeccompCmpOp::Eq, MADV_HUGEPAGE)])],
        Errno::INVAL,
    );
    assert_skipped(&run_under(&filter, SHORT), &ROWS[2..], "huge pages");
}

#[test]
fn a_part_that_is_none_is_refused_in_one_line() {
    for words in ["part {}", "part pagelookup {}", "part nothing {}"] {
        let output = run(words);
        assert_code(&output, 2);
        one_line(stderr(&output));
    }
}

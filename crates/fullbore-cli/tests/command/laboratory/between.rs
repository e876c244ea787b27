//! Tests of the group `between` of `fullbore bench`: programs that pass bytes on, between ordinary programs.

use super::pipelines::{SHORT, path_with, script, short_json_with};
use crate::common::*;

#[test]
fn programs_are_measured_between_ordinary_ones_and_missing_ones_are_skipped_by_name() {
    let path = path_with(&["bash", "sh", "cat", "wc", "cksum"]);
    let words = "between_cat_cat_nothing between_cat_cat_copy between_cat_cat_plain between_cat_cat_pv \
                 between_cat_cat_roomy_copy between_cat_wc_meter between_file_wc_reference between_cat_grep_copy";
    let (code, run) = short_json_with(path.path(), words);
    assert_eq!(code, Some(0), "{run:#?}");
    for (name, program) in [("cat_cat_pv", "pv"), ("cat_grep_copy", "grep")] {
        let skipped = &experiment(&run, &format!("between_{name}")).skipped;
        assert_eq!(*skipped, Some(format!("{program} is not on PATH")));
    }
    for (name, command) in [
        ("cat_cat_nothing", "bash -c 'cat big | cat > /dev/null'"),
        (
            "cat_cat_plain",
            "bash -c 'cat big | FULLBORE_PLAIN=1 fullbore copy | cat > /dev/null'",
        ),
        (
            "cat_cat_roomy_copy",
            "fullbore run 'cat big | fullbore copy | cat > /dev/null'",
        ),
        (
            "file_wc_reference",
            "bash -c 'fullbore copy --by-reference < big | wc -l'",
        ),
    ] {
        let experiment = experiment(&run, &format!("between_{name}"));
        assert!(has_figure(experiment), "{experiment:#?}");
        assert!(experiment.cost.is_some(), "{experiment:#?}");
        assert_eq!(experiment.mover.as_ref().unwrap().command, command);
    }
}

#[test]
fn sockets_and_connections_are_ends_too() {
    let words = "between_unix_wc_copy between_tcp_wc_meter between_cat_unix_copy between_cat_tcp_reference \
                 between_cat_tcp_buffer between_python_wc_copy between_cat_python_cat";
    let output = run(&format!("bench --json {SHORT} {words}"));
    assert_code(&output, 0);
    for experiment in &bench_json(&output).experiments {
        assert!(has_figure(experiment), "{experiment:#?}");
    }
}

#[test]
fn a_program_that_loses_a_byte_has_no_figure_whatever_its_reader_prints() {
    let path = path_with(&["bash", "sh", "cat", "tail", "wc", "cksum"]);
    script(path.path(), "pv", "exec tail -c +2");
    let (code, run) = short_json_with(path.path(), "between_cat_cat_pv between_file_wc_pv");
    assert_eq!(code, Some(1), "{run:#?}");
    let failed = experiment(&run, "between_cat_cat_pv").failed.as_deref();
    let failed = failed.unwrap();
    assert!(
        failed.starts_with("the output of pv -q differs from that of bash -c: "),
        "{failed}"
    );
    // Only the first byte of a line is missing, and no line.
    assert!(has_figure(experiment(&run, "between_file_wc_pv")));
}

//! Tests of `fullbore bench sweep`: its axes, its options, its grid and its heat map.

use std::fs;
use std::process::Output;

use crate::common::refusing::*;
use crate::common::*;
use fullbore_results::run::{EndpointReport, Run};
use rustix::io::Errno;

/// Options for the shortest possible run with few cells.
const SHORT: &str = "--rounds 1 --seconds 0.01 --chunks 4K,64K --pipe-sizes 4K,64K";

fn short(words: &str) -> Output {
    run(&format!("bench sweep --json {SHORT} {words}"))
}

fn listed(words: &str) -> Vec<String> {
    let output = run(&format!("bench --list {words}"));
    assert_quiet_success(&output);
    let rows = stdout(&output).lines();
    let rows = rows.filter_map(|line| line.strip_prefix("  "));
    rows.map(|row| row.split_whitespace().next().unwrap().to_owned())
        .collect()
}

/// Asserts that every cell has a figure, and a pipe of the capacity in its name.
#[track_caller]
fn assert_measured(run: &Run) {
    for experiment in &run.experiments {
        if let Some(reason) = experiment.skipped.as_deref() {
            skipped(&format!("{}: {reason}", experiment.name));
            continue;
        }
        assert!(has_figure(experiment), "{experiment:#?}");
        let capacity = writer(experiment).pipe_capacity;
        assert_eq!(capacity, experiment.cell.map(|cell| cell.pipe_size));
    }
}

#[test]
fn every_chunk_meets_every_pipe() {
    assert_eq!(listed("sweep").len(), 5 * 4);
    let output = short("");
    assert_code(&output, 0);
    let run = bench_json(&output);
    let names: Vec<&str> = run.experiments.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "chunk_4K_pipe_4K",
            "chunk_4K_pipe_64K",
            "chunk_64K_pipe_4K",
            "chunk_64K_pipe_64K"
        ]
    );
    assert_measured(&run);
    let cell = experiment(&run, "chunk_4K_pipe_64K").cell.unwrap();
    assert_eq!((cell.chunk, cell.pipe_size), (4 << 10, 64 << 10));
    let table = stderr(&output);
    assert!(table.contains("sweep: copy → read, block"), "{table}");
    assert!(table.contains("▸ best: "), "{table}");
    let across = ["4", "KiB", "64", "KiB"];
    let is_header = |line: &str| line.split_whitespace().eq(across);
    assert!(table.lines().any(is_header), "{table}");
}

#[test]
fn writers_readers_and_waits_can_be_chosen() {
    for (words, writer, reader) in [
        (
            "--sweep-reader sum --sweep-wait poll",
            "--wait poll",
            "--sum",
        ),
        (
            "--sweep-writer fresh --sweep-reader sum",
            "--way fresh",
            "--sum",
        ),
        (
            "--sweep-writer recycle --sweep-reader splice --sweep-wait adaptive",
            "--way recycle",
            "--read-with-splice",
        ),
    ] {
        let output = short(words);
        assert_code(&output, 0);
        let run = bench_json(&output);
        assert_measured(&run);
        for experiment in &run.experiments {
            let says = |role: &Option<EndpointReport>, word: &str| {
                role.as_ref()
                    .is_none_or(|report| report.options.contains(word))
            };
            assert!(says(&experiment.writer, writer) && says(&experiment.reader, reader));
        }
    }
}

#[test]
fn a_pipe_that_cannot_be_had_is_skipped_by_name() {
    // One size is rounded up by the kernel, and one is larger than any user may have.
    let output = run(
        "bench sweep --json --rounds 1 --seconds 0.01 --chunks 1000,64K \
                      --pipe-sizes 5000,64K,2G",
    );
    assert_code(&output, 0);
    let run = bench_json(&output);
    for chunk in ["1000", "64K"] {
        let at = |pipe: &str| experiment(&run, &format!("chunk_{chunk}_pipe_{pipe}")).clone();
        assert!(has_figure(&at("64K")));
        for (pipe, word) in [
            ("5000", "rounded the capacity 5000 to 8K"),
            ("2G", "a capacity of 2 GiB"),
        ] {
            let reason = at(pipe).skipped.as_deref().unwrap_or_default().to_owned();
            assert!(reason.contains(word), "{pipe}: {reason}");
            assert!(at(pipe).figure.is_none());
        }
    }
    let table = stderr(&output);
    assert!(table.contains("chunk_1000_pipe_5000: "), "{table}");
}

#[test]
fn writers_by_reference_are_skipped_without_vmsplice() {
    let filter = refusing(&[(call::VMSPLICE, &[])], Errno::PERM);
    for writer in ["fresh", "recycle"] {
        let words = format!("bench sweep --json {SHORT} --sweep-writer {writer}");
        let output = run_under(&filter, &words);
        assert_code(&output, 0);
        for experiment in &bench_json(&output).experiments {
            let reason = experiment.skipped.as_deref().unwrap_or_default();
            assert!(
                reason.contains("vmsplice") || !has_huge_pages(),
                "{experiment:#?}"
            );
        }
        assert!(!stderr(&output).contains("best"), "{}", said(&output));
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    for words in [
        "--chunks 4K",
        "write_read --pipe-sizes 4K",
        "ladder produce --sweep-writer copy",
        "write_read --sweep-reader read",
        "--list write_read --sweep-wait block",
    ] {
        let output = run(&format!("bench {words}"));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty());
        let line = one_line(stderr(&output));
        assert!(line.contains("'sweep'"), "{line}");
    }
    assert_eq!(
        listed("--chunks 4K --pipe-sizes 1M sweep"),
        ["chunk_4K_pipe_1M"]
    );
    // Everything is listed, including the sweep.
    assert!(listed("--chunks 8K").contains(&"chunk_8K_pipe_1M".into()));
}

#[test]
fn what_is_no_axis_is_refused() {
    for words in [
        "--chunks 0",
        "--chunks 4K,,64K",
        "--chunks 4K,big",
        "--chunks 2G",
        "--pipe-sizes 0",
        "--pipe-sizes 64K,0",
        "--sweep-writer repeat",
        "--sweep-reader verify",
        "--sweep-wait sometimes",
    ] {
        let output = run(&format!("bench sweep {words}"));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty());
        one_line(stderr(&output));
    }
    // A comparison measures nothing.
    let output = run("bench --compare old.json --chunks 4K");
    assert_code(&output, 2);
    assert!(one_line(stderr(&output)).contains("--chunks"));
    let output = run("bench chunk_4K_pipe_3K");
    assert_code(&output, 2);
    assert!(one_line(stderr(&output)).contains("chunk_4K_pipe_3K"));
}

#[test]
fn the_chart_is_a_heat_map_and_csv_has_the_axes() {
    let directory = tempfile::tempdir().unwrap();
    let (svg, csv) = (
        directory.path().join("sweep.svg"),
        directory.path().join("sweep.csv"),
    );
    let output = short(&format!("--svg {} --csv {}", svg.display(), csv.display()));
    assert_code(&output, 0);
    let svg = fs::read_to_string(svg).unwrap();
    for word in ["heat map in GiB/s", "capacity of the pipe", "best: "] {
        assert!(svg.contains(word), "{word}");
    }
    let csv = fs::read_to_string(csv).unwrap();
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().contains(",chunk,pipe_size,"));
    assert!(lines.next().unwrap().contains(",4096,4096,"));
}

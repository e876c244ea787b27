//! Tests of `fullbore bench sweep`: its cells, its grid and its heat map.

use std::fs;
use std::process::Output;

use crate::common::*;
use fullbore_results::run::Run;

/// Options for the shortest possible run with few cells.
const SHORT: &str = "--rounds 1 --seconds 0.01 chunk_4K_pipe_4K chunk_4K_pipe_64K chunk_64K_pipe_4K chunk_64K_pipe_64K";

fn short(words: &str) -> Output {
    run(&format!("bench --json {SHORT} {words}"))
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
    assert!(table.contains("sweep"), "{table}");
    assert!(table.contains("▸ best: "), "{table}");
    let across = ["4", "KiB", "64", "KiB"];
    let is_header = |line: &str| line.split_whitespace().eq(across);
    assert!(table.lines().any(is_header), "{table}");
}

#[test]
fn the_chart_is_a_heat_map() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("sweep.svg");
    let output = short(&format!("--svg {}", svg.display()));
    assert_code(&output, 0);
    let svg = fs::read_to_string(svg).unwrap();
    for word in ["heat map in GiB/s", "capacity of the pipe", "best: "] {
        assert!(svg.contains(word), "{word}");
    }
}

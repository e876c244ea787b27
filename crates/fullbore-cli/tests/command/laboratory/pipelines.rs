//! Tests of the group `pipelines` of `fullbore bench`: what it runs, what it compares, and that it
//! cleans up.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::*;
use fullbore_results::run::{Run, Unit};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Options for the shortest possible run.
pub const SHORT: &str = "--rounds 1 --seconds 0.01";

const WAYS: [&str; 4] = ["bash", "run", "report", "together"];

/// Returns the names of the group's experiments.
fn listed() -> Vec<String> {
    let output = run("bench --list pipelines");
    assert_quiet_success(&output);
    let rows = stdout(&output)
        .lines()
        .filter_map(|line| line.strip_prefix("  "));
    rows.map(|row| row.split(' ').next().unwrap().to_owned())
        .collect()
}

/// Makes a directory for PATH that contains the installed versions of these programs.
pub fn path_with(programs: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for program in programs {
        let places = std::env::var_os("PATH").unwrap();
        let file = std::env::split_paths(&places)
            .map(|place| place.join(program))
            .find(|file| file.is_file())
            .unwrap_or_else(|| panic!("{program} is not on PATH"));
        symlink(file, directory.path().join(program)).unwrap();
    }
    directory
}

/// Writes a script to that directory.
pub fn script(path: &Path, name: &str, text: &str) {
    let file = path.join(name);
    let _ = fs::remove_file(&file);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs these experiments briefly with another PATH, and returns the exit code and the JSON.
pub fn short_json_with(path: &Path, words: &str) -> (Option<i32>, Run) {
    let words = format!("bench --json {SHORT} {words}");
    let output = finish(start(fullbore(&words).env("PATH", path)));
    (output.status.code(), bench_json(&output))
}

#[test]
fn every_pipeline_is_run_in_every_way_bash_first() {
    let names = listed();
    let pipelines: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_suffix("_bash"))
        .collect();
    assert!(pipelines.len() >= 10, "{names:?}");
    let expected: Vec<String> = pipelines
        .iter()
        .flat_map(|pipeline| WAYS.map(|way| format!("{pipeline}_{way}")))
        .collect();
    assert_eq!(names, expected);
}

#[test]
fn each_row_is_measured_where_its_programs_are() {
    let output = run(&format!("bench --json {SHORT} pipelines"));
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_eq!(run.experiments.len(), listed().len());
    let mut lines = Vec::new();
    for experiment in &run.experiments {
        if let Some(reason) = experiment.skipped.as_deref() {
            assert!(reason.ends_with("is not on PATH"), "{experiment:#?}");
            skipped(&format!("{}: {reason}", experiment.name));
            continue;
        }
        assert!(has_figure(experiment), "{experiment:#?}");
        assert_eq!(experiment.unit, Unit::MbPerS);
        let mover = experiment.mover.as_ref().unwrap();
        let line = experiment.table.as_deref().unwrap();
        assert_eq!(mover.job, line);
        let rate = mover.bytes.unwrap() as f64 / 1e6 / mover.seconds.unwrap();
        let figure = median(experiment);
        assert!((rate / figure - 1.0).abs() < 1e-6, "{experiment:#?}");
        let command = &mover.command;
        assert!(
            command.starts_with("bash -c '") || command.starts_with("fullbore run "),
            "{command}"
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    // The overall result agrees with the rows.
    assert_eq!(run.overall.len(), WAYS.len() - 1, "{:#?}", run.overall);
    for (overall, way) in run.overall.iter().zip(&WAYS[1..]) {
        let ratios: Vec<f64> = run
            .experiments
            .iter()
            .filter(|e| e.name.as_str().ends_with(&format!("_{way}")))
            .filter_map(|e| e.ratio)
            .collect();
        assert_eq!(overall.base, "bash -c");
        assert_eq!(overall.tables, ratios.len());
        let mean = ratios
            .iter()
            .product::<f64>()
            .powf(1.0 / ratios.len() as f64);
        let said = overall.geometric_mean;
        assert!((said / mean - 1.0).abs() < 1e-9, "{said} {mean}");
        let least = overall.least.ratio;
        assert!(ratios.iter().all(|&ratio| ratio >= least));
        let mean = format!("(geometric mean of {} tables of pipelines)", ratios.len());
        let table = stderr(&output)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(table.contains(&mean), "{table}");
    }
}

#[test]
fn all_forms_of_report_have_the_group() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (html, json) = (file("a.html"), file("a.json"));
    let output = run(&format!(
        "bench --json {SHORT} cat_wc_* cat_cat_cat_wc_* --html {}",
        html.display()
    ));
    assert_code(&output, 0);
    fs::write(&json, &output.stdout).unwrap();
    let html = fs::read_to_string(html).unwrap();
    for words in [
        "pipelines: cat big | cat | cat | wc -l",
        "as fast as bash -c (geometric mean of 2 tables of pipelines)",
    ] {
        assert!(html.contains(words), "{words}");
    }
    let json = json.display();
    let output = run(&format!("bench cat_wc_run --compare {json} {json}"));
    assert_quiet_success(&output);
    assert!(stdout(&output).contains("cat_wc_run"));
}

#[test]
fn a_pipeline_whose_program_is_missing_is_skipped_by_its_name() {
    let path = path_with(&["bash", "sh", "cat", "wc"]);
    let (code, run) = short_json_with(path.path(), "cat_wc_bash cat_wc_run tar_zstd_* cat_awk_run");
    assert_eq!(code, Some(0), "{run:#?}");
    for (name, program) in [
        ("tar_zstd_bash", "tar"),
        ("tar_zstd_report", "tar"),
        ("cat_awk_run", "awk"),
    ] {
        let reason = format!("{program} is not on PATH");
        assert_eq!(experiment(&run, name).skipped, Some(reason));
        assert!(!has_figure(experiment(&run, name)));
    }
    assert!(has_figure(experiment(&run, "cat_wc_run")));
}

#[test]
fn without_bash_there_is_nothing_to_compare_with() {
    let path = path_with(&["sh", "cat", "wc"]);
    let (code, run) = short_json_with(path.path(), "cat_wc_run");
    assert_eq!(code, Some(0), "{run:#?}");
    assert_eq!(
        experiment(&run, "cat_wc_run").skipped.as_deref(),
        Some("bash is not on PATH")
    );
}

#[test]
fn a_program_that_breaks_is_named_with_what_it_said() {
    let path = path_with(&["bash", "sh", "cat"]);
    script(
        path.path(),
        "wc",
        "cat > /dev/null; echo no such luck >&2; exit 7",
    );
    let (code, run) = short_json_with(path.path(), "cat_wc_bash");
    assert_eq!(code, Some(1), "{run:#?}");
    assert_eq!(
        experiment(&run, "cat_wc_bash").failed.as_deref(),
        Some("bash -c ended with code 7: no such luck")
    );
}

#[test]
fn whoever_prints_something_else_than_bash_has_no_figure() {
    let path = path_with(&["bash", "sh", "cat", "wc"]);
    // The script prints the right number when bash determines the expected result, and another
    // number later.
    let counted = path.path().join("counted");
    script(
        path.path(),
        "wc",
        &format!(
            "n=$(cat); if [ -e {0} ]; then echo wrong; else : > {0}; echo right; fi",
            counted.display()
        ),
    );
    let (code, run) = short_json_with(path.path(), "cat_wc_run");
    assert_eq!(code, Some(1), "{run:#?}");
    let failed = experiment(&run, "cat_wc_run").failed.as_deref().unwrap();
    assert!(
        failed.starts_with("the output of fullbore run differs from that of bash -c: "),
        "{failed}"
    );
    assert!(
        failed.contains("differ at byte 0") && failed.contains("6 bytes"),
        "{failed}"
    );
    assert!(!has_figure(experiment(&run, "cat_wc_run")));
}

/// Returns the processes that run the parts of a pipeline for `bench` and clean up after it, and the
/// directory that they use.
fn cleaning_up(bench: u32) -> Option<(Vec<Pid>, PathBuf)> {
    // Their arguments are 'part NAME JSON'; a process that ends together with bench has an option
    // before these.
    let parts: Vec<(Pid, String, Value)> = children(bench)
        .into_iter()
        .filter_map(|(pid, words)| {
            let task = serde_json::from_str(words.get(3)?).ok()?;
            Some((pid, words[2].clone(), task))
        })
        .collect();
    let directory = parts
        .iter()
        .find(|(_, name, _)| name == "keep")
        .and_then(|(_, _, task)| task["directory"].as_str())?;
    Some((
        parts.iter().map(|(pid, ..)| *pid).collect(),
        directory.into(),
    ))
}

#[test]
fn nothing_is_left_of_a_run_that_ends_or_is_killed() {
    for signal in [None, Some(Signal::INT), Some(Signal::KILL)] {
        let path = path_with(&["bash", "sh", "cat", "sleep"]);
        let file = |name: &str| path.path().join(name);
        let (began, go_on) = (file("began"), file("go_on"));
        // It stays in the middle of a pipeline until the test lets it continue.
        let text = format!(
            "echo $$ > {}; cat > /dev/null; until [ -e {} ]; do sleep 0.02; done; echo 1",
            began.display(),
            go_on.display()
        );
        script(path.path(), "wc", &text);
        let words = format!("bench {SHORT} cat_wc_bash");
        let bench = start(fullbore(&words).env("PATH", path.path()));
        let id = bench.id();
        let stage = wait_for("a pipeline that runs", || {
            let text = fs::read_to_string(&began).ok()?;
            Pid::from_raw(text.trim().parse().ok()?)
        });
        let (mut parts, directory) = wait_for("who cleans up", || {
            cleaning_up(id).filter(|(parts, _)| parts.len() == 2)
        });
        assert!(directory.join("big-1000/big").exists());
        match signal {
            None => fs::write(&go_on, "").unwrap(),
            Some(signal) => kill_process(Pid::from_child(&bench), signal).unwrap(),
        }
        assert_eq!(finish(bench).status.success(), signal.is_none());
        parts.push(stage);
        wait_for("the end of everything", || {
            (!directory.exists() && !parts.iter().any(|&pid| is_running(pid))).then_some(())
        });
    }
}

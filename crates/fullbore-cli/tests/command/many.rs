//! Tests of the group `many`: every byte arrives, the figures fit together, and nothing is left of the cgroup in
//! which memory is made short.

use std::path::PathBuf;

use crate::common::meter::sh;
use crate::common::refusing::*;
use crate::common::users::{ForEverybody, hold_pipes, nobody_else};
use crate::common::*;
use fullbore_results::run::{Outcome, Run, Unit};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Options for a short run.
const SHORT: &str = "--rounds 1 --seconds 0.02";

/// A user without any privileges.
const NOBODY: u32 = 65534;

/// How the note begins where memory was made short in a cgroup.
const LIMITED: &str = "memory is short: in a cgroup";

fn measured(names: &str) -> Run {
    let output = run(&format!("bench --json {SHORT} {names}"));
    assert_code(&output, 0);
    bench_json(&output)
}

/// Asserts that an experiment has a throughput, percentiles in their order, and a cost, or is skipped.
#[track_caller]
fn assert_measured(experiment: &Outcome) {
    if let Some(reason) = &experiment.skipped {
        skipped(&format!("{}: {reason}", experiment.name));
        return;
    }
    assert!(has_figure(experiment), "{experiment:#?}");
    assert_eq!(experiment.unit, Unit::GibPerS);
    let names: Vec<&str> = experiment
        .also
        .iter()
        .map(|also| also.name.as_str())
        .collect();
    assert_eq!(names, ["p50", "p99", "p99.9"], "{experiment:#?}");
    assert!(
        experiment
            .also
            .iter()
            .all(|also| also.unit == Unit::Microseconds)
    );
    let times = experiment.also.iter().map(|also| also.figure.median);
    assert!(times.is_sorted(), "{experiment:#?}");
    assert!(experiment.also[0].figure.median > 0.0, "{experiment:#?}");
    assert!(
        experiment.cost.as_ref().unwrap().total.median > 0.0,
        "{experiment:#?}"
    );
}

#[track_caller]
fn remark<'a>(run: &'a Run, name: &str) -> &'a str {
    let table = experiment(run, name).table.as_ref();
    let remark = run
        .remarks
        .iter()
        .find(|remark| remark.table.as_ref() == table);
    &remark.unwrap_or_else(|| panic!("{:#?}", run.remarks)).text
}

#[test]
fn what_needs_more_fds_than_it_may_have_is_skipped_and_the_others_are_measured() {
    let line = format!("ulimit -n 100; exec $F bench --json {SHORT} pipes_64_write write_read");
    let output = until_measured(&line, |line| finish(start(&mut sh(line))));
    assert_code(&output, 0);
    let run = bench_json(&output);
    let reason = experiment(&run, "pipes_64_write").skipped.as_deref();
    assert!(
        reason.is_some_and(|reason| reason.contains("Too many open files")),
        "{reason:?}"
    );
    assert!(has_figure(experiment(&run, "write_read")));
}

#[test]
fn many_writers_and_readers_of_one_pipe_lose_nothing() {
    let run = measured("w*_r*[0-9]");
    let names: Vec<&str> = run.experiments.iter().map(|e| e.name.as_str()).collect();
    let expected = ["1", "2", "5"].map(|w| ["1", "5", "10"].map(|r| format!("w{w}_r{r}")));
    assert_eq!(names, expected.concat());
    run.experiments.iter().for_each(assert_measured);
    let text = remark(&run, "w1_r1");
    assert!(
        text.starts_with("with 5 writers and 10 readers, one pipe carries"),
        "{text}"
    );
    assert!(!text.contains("while"), "{text}");
}

#[test]
fn many_pipelines_side_by_side_lose_nothing() {
    let run = measured("pipes_1_* pipes_8_write pipes_8_fresh pipes_64_write");
    run.experiments.iter().for_each(assert_measured);
    let text = remark(&run, "pipes_64_write");
    assert!(
        text.starts_with("64 pipelines side by side carry in all"),
        "{text}"
    );
}

#[test]
fn memory_is_short_for_both_and_the_notes_say_how() {
    let run = measured("w1_r1 w5_r10 w1_r1_reclaim w5_r10_reclaim pipes_8_*_reclaim");
    for experiment in &run.experiments {
        assert_measured(experiment);
        if experiment.name.ends_with("_reclaim") && experiment.skipped.is_none() {
            let says_how =
                |note: &String| note.starts_with(LIMITED) || note.starts_with("memory is taken");
            assert!(experiment.notes.iter().any(says_how), "{experiment:#?}");
        }
    }
    if has_figure(experiment(&run, "w5_r10_reclaim")) {
        let text = remark(&run, "w1_r1");
        // How often the limit is reached depends on how much the process that reads the file gets done.
        let mut notes = experiment(&run, "w1_r1_reclaim").notes.iter();
        let when = match notes.any(|note| note.starts_with("the limit was not reached")) {
            true => "; in a cgroup with a limit that was not always reached, ",
            false => "; while ",
        };
        assert!(text.contains(when), "{text}");
        assert!(text.contains("5 writers and 10 readers keep "), "{text}");
    }
}

#[test]
fn all_forms_of_report_have_the_percentiles() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (csv, html) = (file("a.csv"), file("a.html"));
    let output = run(&format!(
        "bench {SHORT} w1_r1 --csv {} --html {}",
        csv.display(),
        html.display()
    ));
    assert_code(&output, 0);
    let table = stdout(&output);
    assert!(
        table.contains("many: writers and readers of one pipe"),
        "{table}"
    );
    assert!(
        table.contains("p99 µs") && table.contains("p99.9 µs"),
        "{table}"
    );
    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(
        csv.contains("many,w1_r1,GiB/s,") && csv.contains("; p99="),
        "{csv}"
    );
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("p99 µs"), "{html}");
}

#[test]
fn without_vmsplice_only_fresh_pages_are_skipped() {
    let filter = refusing(&[(call::VMSPLICE, &[])], Errno::NOSYS);
    let words = format!("bench --json {SHORT} pipes_1_write pipes_1_fresh");
    let output = run_under(&filter, &words);
    assert_skipped(&output, &["pipes_1_fresh"], "vmsplice");
}

#[test]
fn a_user_who_may_not_make_cgroups_gets_another_shortage() {
    if !is_root() {
        return skipped("only root can become another user");
    }
    let everybody = ForEverybody::new();
    let words = format!("bench --json {SHORT} w1_r1_reclaim");
    let output = until_measured(&words, |words| {
        finish(start(&mut everybody.command(NOBODY, words)))
    });
    assert_code(&output, 0);
    let run = bench_json(&output);
    let experiment = experiment(&run, "w1_r1_reclaim");
    assert_measured(experiment);
    if has_figure(experiment) {
        let note = &experiment.notes.join("; ");
        assert!(note.contains("memory is taken and returned"), "{note}");
        assert!(note.contains("no cgroup could be used"), "{note}");
    }
}

#[test]
fn pipes_that_are_smaller_than_usual_are_not_measured() {
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return skipped("only root can become another user");
    }
    let everybody = ForEverybody::new();
    let words = format!("bench --json {SHORT} pipes_1_write");
    let mut command = everybody.command(nobody_else(3), &words);
    // SAFETY: between fork and exec it makes only system calls.
    unsafe { command.pre_exec(hold_pipes) };
    let output = finish(start(&mut command));
    assert_skipped(
        &output,
        &["pipes_1_write"],
        "/proc/sys/fs/pipe-user-pages-soft",
    );
}

/// Returns the cgroup that this run of `bench` has made, and its processes.
fn cgroup(bench: u32) -> Option<(PathBuf, Vec<Pid>)> {
    let processes = children(bench);
    let task = processes.iter().find_map(|(_, words)| match &words[1..] {
        [part, name, task, ..] if part == "part" && name == "many_remove" => Some(task),
        _ => None,
    })?;
    let task: Value = serde_json::from_str(task).ok()?;
    let directory = PathBuf::from(task["path"].as_str()?);
    let inside = std::fs::read_to_string(directory.join("cgroup.procs")).ok()?;
    let pids = processes.iter().map(|(pid, _)| *pid).collect();
    (inside.lines().count() >= 3).then_some((directory, pids))
}

#[test]
fn no_cgroup_is_left_of_a_run_that_ends_or_is_killed() {
    let run = measured("w1_r1_reclaim");
    let experiment = experiment(&run, "w1_r1_reclaim");
    if !experiment
        .notes
        .iter()
        .any(|note| note.starts_with(LIMITED))
    {
        let why = experiment.skipped.iter().chain(&experiment.notes);
        return skipped(&why.cloned().collect::<Vec<_>>().join("; "));
    }
    let mut above = PathBuf::new();
    for signal in [Signal::INT, Signal::KILL] {
        let bench = start(&mut fullbore(
            "bench --rounds 1 --seconds 200 w1_r1_reclaim",
        ));
        let id = bench.id();
        let (directory, pids) = wait_for("processes in a cgroup", || cgroup(id));
        kill_process(Pid::from_child(&bench), signal).unwrap();
        assert!(!finish(bench).status.success());
        wait_for("the end of everything", || {
            let is_left = directory.exists() || pids.iter().any(|&pid| is_running(pid));
            (!is_left).then_some(())
        });
        above = directory.parent().unwrap().to_owned();
    }
    let bench = start(&mut fullbore(&format!("bench {SHORT} w1_r1_reclaim")));
    let made = format!("fullbore-bench-{}-", bench.id());
    finish(bench);
    let names = std::fs::read_dir(&above).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name());
    assert!(!names.any(|name| name.to_string_lossy().starts_with(&made)));
}

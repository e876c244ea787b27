//! Tests of `fullbore bench`: which experiments it selects, and how and where it reports.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::common::load::Load;
use crate::common::meter::sh;
use crate::common::*;
use fullbore_results::run::{EndpointReport, Run, SCHEMA};
use rustix::process::{Pid, Signal, kill_process};

/// Options for the shortest possible run.
const SHORT: &str = "--rounds 1 --seconds 0.01";

/// For runs that are not repeated where nothing came through while it was measured, because their output is
/// nobody's or no JSON.
const LONGER: &str = "--rounds 1 --seconds 0.5";

/// Returns the names that `--list` prints for these patterns.
fn listed(patterns: &str) -> Vec<String> {
    let output = run(&format!("bench --list {patterns}"));
    assert_quiet_success(&output);
    stdout(&output)
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

/// Runs these experiments briefly, and returns the JSON.
fn short_json(words: &str) -> Run {
    let output = run(&format!("bench --json {SHORT} {words}"));
    assert_code(&output, 0);
    bench_json(&output)
}

fn names(run: &Run) -> Vec<&str> {
    run.experiments
        .iter()
        .map(|experiment| experiment.name.as_str())
        .collect()
}

#[test]
fn the_list_names_every_rung_with_a_line_of_what_it_shows() {
    let names = listed("");
    for name in [
        "write_read",
        "write_read_one_cpu",
        "write_read_huge",
        "vmsplice_read",
        "vmsplice_read_huge",
        "vmsplice_splice",
        "vmsplice_splice_huge",
        "busy_loop_huge",
        "roomy_pipe",
        "deep_ring",
        "adaptive",
        "large_slots",
    ] {
        assert!(names.iter().any(|listed| listed == name), "{name}");
    }
    for line in stdout(&run("bench --list")).lines() {
        match line.strip_prefix("  ") {
            Some(row) => assert!(row.split_whitespace().count() > 2, "{line}"),
            None => assert!(line.split_whitespace().count() > 2, "a group: {line}"),
        }
    }
    // These are the two side remarks of the article.
    assert_eq!(listed("ladder/*untouched* ladder/*same_buffer*").len(), 2);
}

#[test]
fn names_groups_and_globs_select_in_the_order_of_the_catalogue() {
    assert_eq!(
        listed("roomy_pipe ladder/write_*"),
        [
            "write_read",
            "write_read_one_cpu",
            "write_read_huge",
            "roomy_pipe"
        ]
    );
    assert_eq!(listed("ladder/vmsplice_rea?"), ["vmsplice_read"]);
    assert_eq!(listed("*"), listed(""));
    assert_eq!(listed("ladder/*"), listed("ladder"));
    let run = short_json("roomy_pipe write_read write_read");
    assert_eq!(names(&run), ["write_read", "roomy_pipe"]);
}

#[test]
fn without_names_the_whole_ladder_runs() {
    let run = short_json("");
    assert_eq!(names(&run), listed("ladder"));
    for experiment in &run.experiments {
        assert_eq!(experiment.group, "ladder");
        match experiment.skipped.as_deref() {
            Some(reason) => skipped(&format!("{}: {reason}", experiment.name)),
            None => assert!(has_figure(experiment), "{experiment:#?}"),
        }
    }
}

#[test]
fn what_is_not_in_the_catalogue_is_refused() {
    for (words, word) in [
        ("bench writ_read", "writ_read"),
        ("bench write_read nothing_*", "nothing_*"),
        ("bench [", "["),
        ("bench --list nothing", "nothing"),
    ] {
        let output = run(words);
        assert_code(&output, 2);
        assert!(output.stdout.is_empty());
        assert!(
            one_line(stderr(&output)).contains(word),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for words in [
        "--rounds 0",
        "--rounds many",
        "--seconds 0",
        "--seconds -1",
        "--seconds 1e9",
        "--quick --rounds 2",
        "--quick --seconds 1",
        "--cpus 0",
        "--cpus 0,",
        "--cpus 0;1",
        "--cpus 0,1,2",
        "--cpus 0,1023",
        "--cpus 99999999,0",
        "--pipe-size big",
        "--seed x",
        "--turbo",
    ] {
        let output = run(&format!("bench write_read {words}"));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        one_line(stderr(&output));
    }
}

#[test]
fn the_json_is_of_the_documented_shape() {
    let output = run("bench --json --rounds 3 --seconds 0.01 --seed 7 write_read vmsplice_read");
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_eq!(run.schema, SCHEMA);
    assert_eq!((run.settings.rounds, run.settings.seed), (3, 7));
    assert_eq!(names(&run), ["write_read", "vmsplice_read"]);
    for experiment in &run.experiments {
        assert_eq!(experiment.group, "ladder");
        let figure = experiment.figure.as_ref().unwrap();
        let mut sorted = figure.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        assert_eq!([figure.min, figure.median, figure.max], sorted[..]);
        assert!(figure.min > 0.0);
        for endpoint in [&experiment.writer, &experiment.reader] {
            let endpoint = endpoint.as_ref().unwrap();
            assert!(!endpoint.options.is_empty());
            assert!(endpoint.bytes > 0 && endpoint.cpu.is_some(), "{endpoint:?}");
        }
        assert!(experiment.skipped.is_none() && experiment.failed.is_none());
    }
}

#[test]
fn costs_and_shares_of_the_limit_are_in_the_json_and_in_the_table_on_request() {
    let words = "bench --json --rounds 1 --seconds 0.05 write_read write_read_one_cpu";
    let output = run(words);
    assert_code(&output, 0);
    let taken = bench_json(&output);
    assert_eq!(
        taken.limit.is_some(),
        taken.machine.cpus.writer != taken.machine.cpus.reader
    );
    for experiment in &taken.experiments {
        let cost = experiment.cost.as_ref().unwrap();
        let [total, user, system] = [&cost.total, &cost.user, &cost.system].map(|s| s.median);
        assert!(total > 0.0 && user >= 0.0 && system >= 0.0, "{cost:?}");
        assert!((total - user - system).abs() < 1e-9, "{cost:?}");
        // The endpoints report their own share of it, which ends a moment before they do.
        let [writer, reader] = [&experiment.writer, &experiment.reader].map(|endpoint| {
            let endpoint = endpoint.as_ref().unwrap();
            (endpoint.cpu_seconds, endpoint.moved)
        });
        let known = (writer.0 + reader.0) / (reader.1 as f64 / (1u64 << 30) as f64);
        assert!(total > known * 0.99, "{total} and {known}");
    }
    let one_cpu = experiment(&taken, "write_read_one_cpu");
    let cpus = [&one_cpu.writer, &one_cpu.reader].map(|end| end.as_ref().unwrap().cpu);
    assert_eq!(cpus[0], cpus[1]);
    assert!(!stderr(&output).contains("CPU s/GiB"));
    let output = run(&format!("{words} --cost --limit"));
    assert_code(&output, 0);
    let text = stderr(&output);
    assert!(text.contains("CPU s/GiB (user + system)"), "{text}");
    assert_eq!(text.contains("of limit"), taken.limit.is_some(), "{text}");
}

#[test]
fn with_json_stdout_is_json_and_the_table_goes_to_stderr() {
    let output = run(&format!("bench --json {SHORT} write_read"));
    assert_code(&output, 0);
    bench_json(&output);
    assert!(stderr(&output).contains("write_read"));
}

#[test]
fn ratios_are_to_the_first_experiment_of_this_run() {
    for (words, first) in [
        ("write_read roomy_pipe", "write_read"),
        ("roomy_pipe vmsplice_splice", "vmsplice_splice"),
    ] {
        let run = short_json(words);
        let median = |name| median(experiment(&run, name));
        assert_eq!(experiment(&run, first).ratio, Some(1.0));
        let ratio = experiment(&run, "roomy_pipe").ratio.unwrap();
        let expected = median("roomy_pipe") / median(first);
        assert!((ratio - expected).abs() < 1e-9, "{ratio} {expected}");
    }
}

#[test]
fn the_table_stands_below_what_its_figures_depend_on() {
    let output = run(&format!("bench {SHORT} write_read roomy_pipe"));
    assert_quiet_success(&output);
    let text = stdout(&output);
    let table = text.find("write_read").expect("a row");
    for fact in [
        "kernel",
        "CPU",
        "cache",
        "huge pages",
        "pipe limits",
        "CPUs used",
    ] {
        let at = text
            .find(fact)
            .unwrap_or_else(|| panic!("no {fact}: {text}"));
        assert!(at < table, "{fact} stands below the table");
    }
    // Each row has a bar in eighths of a column, and the bar of the larger figure is full.
    let rows = ["write_read", "roomy_pipe"].map(|row| {
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with(row))
            .expect(row);
        assert!(row.contains('×') && row.ends_with(is_bar), "{row}");
        row
    });
    assert!(rows.iter().any(|row| row.contains('█')), "{text}");
    assert!(text.contains("1.00×"), "{text}");
}

/// Returns whether it is a part of a bar: U+2588 is a whole column, and seven eighths to one eighth
/// follow.
fn is_bar(c: char) -> bool {
    ('\u{2588}'..='\u{258f}').contains(&c)
}

#[test]
fn where_there_is_no_terminal_there_is_no_progress_bar_and_no_colour() {
    let output = run(&format!("bench {SHORT} write_read vmsplice_read"));
    // There is no output on stderr.
    assert_quiet_success(&output);
    assert!(!output.stdout.contains(&b'\r') && !output.stdout.contains(&0x1b));
    let output = run(&format!("bench --json {SHORT} write_read"));
    assert!(!output.stderr.contains(&b'\r') && !output.stderr.contains(&0x1b));
}

#[test]
fn the_chart_is_written_beside_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("a.svg");
    let output = run(&format!(
        "bench {SHORT} write_read roomy_pipe --svg {}",
        svg.display()
    ));
    assert_quiet_success(&output);
    assert!(stdout(&output).contains("roomy_pipe"));

    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.trim_start().starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for part in ["write_read", "roomy_pipe", "prefers-color-scheme: dark"] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn a_dash_is_stdout_and_the_table_goes_to_stderr() {
    let directory = tempfile::tempdir().unwrap();
    let in_directory = |words: &str| {
        finish(start(
            fullbore(&format!("bench {words}")).current_dir(directory.path()),
        ))
    };
    for (option, begins) in [("--svg -", "<svg"), ("--html -", "<!doctype html>")] {
        let output = in_directory(&format!("{LONGER} write_read {option}"));
        assert_code(&output, 0);
        let report = stdout(&output).trim_start().to_lowercase();
        assert!(report.starts_with(begins), "{}", said(&output));
        assert!(stderr(&output).contains("CPUs used"), "{}", said(&output));
    }
    let json = in_directory(&format!("{LONGER} write_read --json"));
    fs::write(directory.path().join("a.json"), &json.stdout).unwrap();
    let output = in_directory("--html - --compare a.json a.json");
    assert_code(&output, 0);
    assert!(stdout(&output).contains("write_read"), "{}", said(&output));
    assert!(stderr(&output).contains("ratio:"), "{}", said(&output));
    for words in [
        "write_read --json --svg -",
        "write_read --svg - --html -",
        "--json --html - --compare a.json a.json",
    ] {
        let output = in_directory(words);
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        assert!(one_line(stderr(&output)).contains("both write to stdout"));
    }
    let left = fs::read_dir(directory.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a.json"]);
}

#[test]
fn a_long_run_says_how_long_it_takes_and_shows_the_figures_of_its_first_round() {
    // Fourteen seconds are planned, but the test does not wait for the end. Half a second is enough for each
    // process to get a CPU.
    let words = "bench --rounds 12 --seconds 0.5 write_read roomy_pipe";
    let mut bench = start(&mut fullbore(words));
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    let first = lines.next().expect("a line").unwrap();
    assert_eq!(
        first,
        "2 experiments in 12 rounds: this takes about 18 seconds"
    );
    let mut names: Vec<String> = Vec::new();
    for _ in 0..2 {
        let line = lines.next().expect("a line").unwrap();
        let figure = line.strip_prefix("first round: ").unwrap_or_default();
        let words: Vec<&str> = figure.split(' ').collect();
        let [name, figure, "GiB/s"] = words[..] else {
            panic!("no figure in '{line}'");
        };
        assert!(figure.parse::<f64>().unwrap() > 0.0, "{line}");
        names.push(name.to_owned());
    }
    names.sort();
    assert_eq!(names, ["roomy_pipe", "write_read"]);
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    finish(bench);
}

#[test]
fn without_proc_that_is_said() {
    let Some(output) = run_without("/proc", &format!("bench {SHORT} write_read")) else {
        return;
    };
    assert_code(&output, 3);
    assert!(output.stdout.is_empty(), "{}", said(&output));
    assert!(one_line(stderr(&output)).contains("/proc is not mounted"));
    // Commands that do not need /proc still work.
    assert_quiet_success(&run_without("/proc", "bench --list").unwrap());
}

#[test]
fn what_a_caller_calls_things_does_not_move_the_cursor() {
    const NAME: &str = "a\u{1b}[2Jb\u{9b}c";
    let write_read = format!("bench {SHORT} write_read");
    for (words, argument) in [
        ("bench", NAME.to_owned()),
        ("bench --cpus", NAME.to_owned()),
        ("bench write_read --peers", NAME.to_owned()),
        ("bench --compare", NAME.to_owned()),
        (&format!("{write_read} --svg"), format!("/no/{NAME}/file")),
    ] {
        let mut command = fullbore(words);
        command.arg(&argument);
        if words.ends_with("--compare") {
            // It needs two files or more.
            command.arg(&argument);
        }
        let output = finish(start(&mut command));
        assert!(!output.status.success(), "{}", said(&output));
        let line = one_line(stderr(&output));
        assert!(!line.trim_end().contains(char::is_control), "{line:?}");
        assert!(
            line.contains("[2Jb") || words.contains("--cpus"),
            "{line:?}"
        );
    }
}

#[test]
fn files_are_written_also_when_nobody_reads_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("a.svg");
    let words = format!("bench {LONGER} write_read --svg {}", svg.display());
    let output = finish(start(fullbore(&words).stdout(nobody_reads())));
    assert_quiet_success(&output);
    assert!(Path::new(&svg).exists());
}

#[test]
fn a_file_that_cannot_be_written_costs_nobody_the_figures() {
    for option in ["--svg", "--html"] {
        let output = run(&format!(
            "bench {SHORT} write_read {option} /no/such/directory/file"
        ));
        assert_code(&output, 1);
        let line = one_line(stderr(&output));
        assert!(line.contains("/no/such/directory/file"), "{line}");
        // The error was found before anything was measured.
        assert!(output.stdout.is_empty(), "{}", said(&output));
    }
}

#[test]
fn a_closed_stdout_ends_it_quietly() {
    for words in [
        "bench --list".to_owned(),
        format!("bench {LONGER} write_read"),
    ] {
        let output = finish(start(fullbore(&words).stdout(nobody_reads())));
        assert_quiet_success(&output);
    }
    let words = format!("bench --json {LONGER} write_read");
    let output = finish(start(fullbore(&words).stdout(nobody_reads())));
    assert_code(&output, 0);
    assert!(!stderr(&output).contains("panicked") && !stderr(&output).contains("roken pipe"));
    let output = finish(start(fullbore(&words).stderr(nobody_reads())));
    assert_code(&output, 0);
    assert_eq!(names(&bench_json(&output)), ["write_read"]);
}

#[test]
fn a_full_stdout_is_an_error() {
    for words in [
        "bench --list".to_owned(),
        format!("bench {LONGER} write_read"),
    ] {
        let output = finish(start(fullbore(&words).stdout(full())));
        assert_code(&output, 1);
        assert!(one_line(stderr(&output)).contains("No space left on device"));
    }
}

#[test]
fn one_cpu_is_said_to_be_one_cpu() {
    let cpu = rustix::thread::sched_getcpu();
    let words = format!("bench --json {SHORT} --cpus {cpu},{cpu} write_read vmsplice_splice");
    let output = run(&words);
    assert_code(&output, 0);
    assert!(
        stderr(&output).to_lowercase().contains("one cpu"),
        "{}",
        stderr(&output)
    );
    let run = bench_json(&output);
    let pair = run.machine.cpus;
    assert_eq!((pair.writer, pair.reader), (cpu, cpu));
    assert_eq!(run.line_round_trip_ns, None);
    for experiment in &run.experiments {
        assert!(has_figure(experiment));
        assert_eq!(writer(experiment).cpu, Some(cpu));
        assert_eq!(reader(experiment).cpu, Some(cpu));
    }
}

#[test]
fn two_endpoints_run_on_the_two_cpus_that_were_given() {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect();
    let [first, second, ..] = allowed[..] else {
        return skipped("two CPUs: there is one here");
    };
    let run = short_json(&format!("--cpus {second},{first} write_read"));
    let experiment = experiment(&run, "write_read");
    assert_eq!(writer(experiment).cpu, Some(second));
    assert_eq!(reader(experiment).cpu, Some(first));
}

#[test]
fn a_pipe_size_is_given_to_every_pipe_that_is_free_to_have_one() {
    let run = short_json("--pipe-size 128K write_read vmsplice_read");
    assert_eq!(run.settings.pipe_size, Some(128 << 10));
    let capacity = |name: &str| writer(experiment(&run, name)).pipe_capacity;
    assert_eq!(capacity("write_read"), Some(128 << 10));
    assert!(experiment(&run, "write_read").notes.is_empty());
}

#[test]
fn a_pipe_size_of_0_leaves_pipes_as_they_are() {
    let run = short_json("--pipe-size 0 pipe");
    assert_eq!(run.settings.pipe_size, None);
    assert!(has_figure(experiment(&run, "pipe")));
}

#[test]
fn processes_are_waited_for_though_the_parent_ignored_their_end() {
    let line = format!("trap '' CHLD; exec $F bench --json {SHORT} write_read");
    let output = until_measured(&line, |line| finish(start(&mut sh(line))));
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert!(has_figure(experiment(&run, "write_read")));
}

#[test]
fn a_pipe_size_that_is_the_technique_is_left_alone_and_that_is_said() {
    let run = short_json("--pipe-size 64K write_read vmsplice_read roomy_pipe");
    for (name, technique) in [("vmsplice_read", 128 << 10), ("roomy_pipe", 1 << 20)] {
        let experiment = experiment(&run, name);
        if let Some(reason) = &experiment.skipped {
            skipped(&format!("{name}: {reason}"));
            continue;
        }
        assert_eq!(writer(experiment).pipe_capacity, Some(technique), "{name}");
        let notes = experiment.notes.concat();
        assert!(notes.contains("--pipe-size"), "{name}: {notes}");
    }
}

#[test]
fn a_quick_look_is_few_and_short_rounds() {
    let output = run("bench --quick --json write_read");
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_eq!(run.settings.rounds, 3);
    assert!(run.settings.seconds < 0.5);
    assert!(has_figure(experiment(&run, "write_read")));
}

#[test]
fn an_experiment_can_be_repeated_in_a_shell() {
    let run = short_json("vmsplice_read");
    let experiment = experiment(&run, "vmsplice_read");
    let options = |role: &EndpointReport| role.options.clone();
    let (write, read) = (options(writer(experiment)), options(reader(experiment)));
    // On a busy machine no bytes may arrive in the 10 ms that are measured.
    wait_for("a figure", || {
        let (writer, reader) = pipeline(&write, &read);
        assert_code(&writer, 0);
        assert_code(&reader, 0);
        (endpoint(stdout(&reader)).gib_per_s > 0.0).then_some(())
    });
}

// Tests of jobs with several movers.

/// Options for a short run that is long enough for three processes on a busy machine.
const SHORT_MOVE: &str = "--rounds 1 --seconds 0.1";

#[test]
fn every_mover_does_every_job_that_it_can() {
    let names = listed("move");
    for job in [
        "file_pipe",
        "pipe_pipe",
        "pipe_file",
        "file_file",
        "pipe_socket",
        "socket_pipe",
        "one_three",
    ] {
        // The mover that the others are compared with comes first.
        let of_job: Vec<&String> = names.iter().filter(|name| name.starts_with(job)).collect();
        assert_eq!(*of_job[0], format!("{job}_std"));
        for mover in ["snapshot", "reference", "uutils", "mbuffer"] {
            // A tee always copies.
            let is_there = (job, mover) != ("one_three", "reference");
            let name = format!("{job}_{mover}");
            assert_eq!(names.contains(&name), is_there, "{name}");
        }
        assert_eq!(listed(&format!("{job}_*")).len(), of_job.len());
    }
    assert!(names.contains(&"pipe_pipe_cat".into()) && names.contains(&"one_three_tee".into()));
}

#[test]
fn a_mover_is_measured_and_its_bytes_are_checked() {
    let output = run("bench --quick --json pipe_pipe_snapshot pipe_pipe_reference");
    assert_code(&output, 0);
    let run = bench_json(&output);
    for (name, command, right) in [
        ("pipe_pipe_snapshot", "fullbore copy", true),
        ("pipe_pipe_reference", "fullbore copy --by-reference", false),
    ] {
        let experiment = experiment(&run, name);
        assert!(has_figure(experiment), "{experiment:#?}");
        assert_eq!(experiment.group, "move");
        let mover = experiment.mover.as_ref().unwrap();
        assert_eq!(
            (mover.job.as_str(), mover.command.as_str()),
            ("pipe → pipe", command)
        );
        let soundness = experiment.soundness.as_ref().unwrap();
        assert_eq!(soundness.right, right, "{experiment:#?}");
        assert_eq!(soundness.verdicts.len(), 1);
        assert!(soundness.verdicts[0].check.is_some());
        assert!(writer(experiment).pipe_capacity > Some(0));
        assert!(reader(experiment).bytes > 0);
    }
    let table = stderr(&output);
    assert!(table.contains("move: pipe → pipe"), "{table}");
    assert!(
        table.contains("WRONG") && table.contains("right"),
        "{table}"
    );
}

#[test]
fn snapshot_is_right_at_every_job() {
    let output = run(&format!(
        "bench --json {SHORT_MOVE} file_*_snapshot pipe_*_snapshot socket_*_snapshot one_*_snapshot"
    ));
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_eq!(run.experiments.len(), 7);
    for experiment in &run.experiments {
        assert!(has_figure(experiment), "{experiment:#?}");
        let soundness = experiment.soundness.as_ref();
        assert!(soundness.unwrap().right, "{experiment:#?}");
        // It is the first of its job in this run.
        assert_eq!(experiment.ratio, Some(1.0));
    }
}

#[test]
fn files_have_no_endpoint_and_the_mover_is_timed_in_its_place() {
    let words = "file_pipe_std pipe_file_std file_file_std";
    let output = run(&format!("bench --json {SHORT_MOVE} {words}"));
    assert_code(&output, 0);
    let run = bench_json(&output);
    for (name, writer, reader) in [
        ("file_pipe_std", false, true),
        ("pipe_file_std", true, false),
        ("file_file_std", false, false),
    ] {
        let experiment = experiment(&run, name);
        assert!(has_figure(experiment), "{name}");
        assert_eq!(experiment.writer.is_some(), writer, "{name}");
        assert_eq!(experiment.reader.is_some(), reader, "{name}");
        let mover = experiment.mover.as_ref().unwrap();
        let timed = mover.bytes > Some(0) && mover.seconds > Some(0.0);
        assert_eq!(timed, !reader, "{mover:#?}");
    }
}

#[test]
fn a_program_that_is_not_on_path_is_skipped() {
    for path in ["", "/no/such/directory"] {
        let words = format!("bench --json {SHORT_MOVE} pipe_pipe_pv pipe_pipe_std file_file_cat");
        let output = until_measured(&words, |words| {
            finish(start(fullbore(words).env("PATH", path)))
        });
        assert_code(&output, 0);
        let run = bench_json(&output);
        assert!(has_figure(experiment(&run, "pipe_pipe_std")));
        for (name, program) in [("pipe_pipe_pv", "pv"), ("file_file_cat", "cat")] {
            let experiment = experiment(&run, name);
            let reason = format!("{program} is not on PATH");
            assert_eq!(experiment.skipped, Some(reason), "{experiment:#?}");
            assert!(experiment.figure.is_none() && experiment.soundness.is_none());
        }
    }
}

#[test]
fn a_program_that_breaks_is_named_with_what_it_said() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("pv");
    fs::write(&program, "#!/bin/sh\necho no such luck >&2\nexit 7\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    wait_for_starts();
    let words = format!("bench --json {SHORT_MOVE} pipe_pipe_pv file_file_pv");
    let output = finish(start(fullbore(&words).env("PATH", directory.path())));
    assert_code(&output, 1);
    for experiment in &bench_json(&output).experiments {
        let reason = experiment.failed.as_deref().unwrap();
        assert!(
            reason.contains("pv -q ended with code 7") && reason.ends_with("no such luck"),
            "{reason}"
        );
    }
}

#[test]
fn a_program_that_takes_long_to_start_is_not_taken_for_a_broken_one() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("pv");
    // This is ten times as long as its reader measures.
    fs::write(
        &program,
        "#!/bin/sh\nPATH=/usr/bin:/bin\nsleep 1\nexec cat\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    wait_for_starts();
    let words = "bench --json --rounds 1 --seconds 0.1 pipe_pipe_pv file_pipe_pv pipe_socket_pv";
    let output = until_measured(words, |words| {
        finish(start(fullbore(words).env("PATH", directory.path())))
    });
    assert_code(&output, 0);
    for experiment in &bench_json(&output).experiments {
        assert!(has_figure(experiment), "{experiment:?}");
    }
}

#[test]
fn a_busy_machine_is_named_first() {
    let load = Load::new();
    let output = run("bench write_read --rounds 2 --seconds 0.1");
    drop(load);
    assert_code(&output, 0);
    let first = stdout(&output).lines().next().unwrap();
    let expected = "warning: the machine was busy: others used";
    assert!(first.starts_with(expected), "{first}");
}

//! Failures: system calls that a machine refuses, and processes that are killed or go away. Each
//! experiment runs and reports what was missing, or is skipped by name with the reason, and the
//! others continue.
//!
//! Refusals are made by seccomp filters that a child installs for itself before it becomes
//! fullbore, so they apply to that child and the processes that it starts.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Output;
use std::thread;
use std::time::Duration;

use crate::common::refusing::*;
use crate::common::users::*;
use crate::common::*;
use fullbore_results::run::Outcome;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use seccompiler::{BpfProgram, SeccompCmpOp};

/// Options for the shortest possible run.
const SHORT: &str = "--rounds 1 --seconds 0.01";

/// Runs `fullbore write … | fullbore read …`, both under the filter.
fn pipeline_under(filter: &BpfProgram, write: &str, read: &str) -> (Output, Output) {
    let (source, sink) = pipe();
    let mut reader = fullbore(&format!("read {read}"));
    let reading = start(under(filter.clone(), reader.stdin(source)));
    let mut writer = fullbore(&format!("write {write}"));
    let writing = start(under(filter.clone(), writer.stdout(sink)));
    (finish(writing), finish(reading))
}

/// Asserts exit code 3, and one line that contains `word`.
#[track_caller]
fn assert_unsupported(output: &Output, word: &str) {
    assert_code(output, 3);
    assert!(one_line(stderr(output)).contains(word), "{}", said(output));
}

// Tests with calls that the kernel or a sandbox refuses.

#[test]
fn without_vmsplice_the_rest_of_the_ladder_goes_on() {
    let mut needs_it = vec![
        "vmsplice_read",
        "vmsplice_splice",
        "vmsplice_splice_same_buffer",
    ];
    if has_huge_pages() {
        needs_it.extend(["busy_loop_huge", "double_buffer", "deep_ring"]);
    } else {
        skipped("experiments on huge pages: there are none here");
    }
    let words = format!(
        "bench --json {SHORT} write_read roomy_pipe {}",
        needs_it.join(" ")
    );
    for errno in [Errno::NOSYS, Errno::PERM] {
        let filter = refusing(&[(call::VMSPLICE, &[])], errno);
        let output = run_under(&filter, &words);
        assert_skipped(&output, &needs_it, "vmsplice");
    }
}

#[test]
fn without_vmsplice_a_writer_by_reference_says_so() {
    for errno in [Errno::NOSYS, Errno::PERM] {
        let filter = refusing(&[(call::VMSPLICE, &[])], errno);
        for options in [
            "--write-with-vmsplice",
            "--write-with-vmsplice --busy-loop --same-buffer",
            "--memory 1M --chunk 64K",
            "--memory 1M --chunk 64K --wait adaptive",
        ] {
            let (writer, reader) = pipeline_under(&filter, options, "--json");
            assert_unsupported(&writer, "vmsplice");
            // The reader only sees an early end.
            assert_quiet_success(&reader);
        }
    }
}

#[test]
fn without_splice_the_reader_says_so_and_the_rest_go_on() {
    for errno in [Errno::NOSYS, Errno::PERM] {
        let filter = refusing(&[(call::SPLICE, &[])], errno);
        let words = format!("bench --json {SHORT} write_read vmsplice_read vmsplice_splice");
        let output = run_under(&filter, &words);
        assert_skipped(&output, &["vmsplice_splice"], "splice");
        let (_, reader) = pipeline_under(&filter, "", "--read-with-splice");
        assert_unsupported(&reader, "splice");
    }
}

#[test]
fn without_huge_pages_the_rest_of_the_ladder_goes_on() {
    let filter = refusing(
        &[(call::MADVISE, &[(2, SeccompCmpOp::Eq, MADV_HUGEPAGE)])],
        Errno::INVAL,
    );
    let output = run_under(&filter, &format!("bench --json {SHORT}"));
    let needs_them = [
        "write_read_huge",
        "vmsplice_read_huge",
        "vmsplice_splice_huge",
        "busy_loop_huge",
        "large_slots",
        "adaptive",
        "double_buffer",
        "deep_ring",
    ];
    assert_skipped(&output, &needs_them, "huge pages");
    for options in [
        "--huge-page",
        "--huge-page --write-with-vmsplice",
        "--memory 1M --chunk 64K --huge-page --check-huge-page",
    ] {
        let (writer, _) = pipeline_under(&filter, options, "");
        assert_unsupported(&writer, "huge pages");
    }
}

#[test]
fn pages_that_cannot_be_locked_are_refused_with_the_limit_to_raise() {
    let filter = refusing(&[(call::MLOCK, &[])], Errno::NOMEM);
    let (writer, reader) = pipeline_under(&filter, "--lock-memory", "--lock-memory");
    assert_unsupported(&writer, "ulimit -l");
    assert_unsupported(&reader, "ulimit -l");
}

#[test]
fn where_pipes_may_have_64_kib_the_rest_of_the_ladder_goes_on() {
    let filter = refusing(
        &[(
            call::FCNTL,
            &[
                (1, SeccompCmpOp::Eq, F_SETPIPE_SZ),
                (2, SeccompCmpOp::Gt, 65536),
            ],
        )],
        Errno::PERM,
    );
    let needs_more = ["vmsplice_read", "vmsplice_splice", "roomy_pipe"];
    let words = format!("bench --json {SHORT} write_read {}", needs_more.join(" "));
    let output = run_under(&filter, &words);
    assert_skipped(&output, &needs_more, "pipe");
    // A transfer that fits still works.
    let verify = "--verify --bytes-to-pipe 1M";
    let write = format!("{verify} --write-with-vmsplice --buf-size 128K");
    let (writer, reader) = pipeline_under(&filter, &write, &format!("{verify} --json"));
    assert_quiet_success(&writer);
    assert_eq!(endpoint(stdout(&reader)).verified, Some(true));
    let (writer, _) = pipeline_under(&filter, "--pipe-size 1M", "");
    assert_unsupported(&writer, "1 MiB");
}

#[test]
fn where_a_call_cannot_be_told_not_to_wait_every_byte_still_comes() {
    for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
        let filter = refusing(&[(call::PREADV2, &[]), (call::PWRITEV2, &[])], errno);
        for wait in ["poll", "spin", "adaptive"] {
            for bytes in [1u64, 3_000_001] {
                let both = format!("--wait {wait} --verify --bytes-to-pipe {bytes}");
                let (writer, reader) = pipeline_under(&filter, &both, &format!("{both} --json"));
                assert_quiet_success(&writer);
                assert_quiet_success(&reader);
                let report = endpoint(stdout(&reader));
                assert_eq!(report.bytes, bytes, "{wait}");
                assert_eq!(report.verified, Some(true), "{wait}");
            }
            // The end of either side is still seen.
            let (writer, reader) = pipeline_under(
                &filter,
                &format!("--wait {wait}"),
                &format!("--wait {wait} --bytes-to-pipe 1M"),
            );
            assert_quiet_success(&writer);
            assert_quiet_success(&reader);
        }
    }
}

// Tests of a process without some permissions.

#[test]
fn where_one_cpu_is_allowed_that_is_said_and_everything_runs_on_it() {
    let mut only = CpuSet::new();
    let cpu = rustix::thread::sched_getcpu();
    only.set(cpu);
    let words = format!(
        "bench --json {SHORT} write_read vmsplice_splice_same_buffer roomy_pipe busy_loop_huge"
    );
    let output = until_measured(&words, |words| {
        let mut command = fullbore(words);
        // SAFETY: between fork and exec it makes one system call and allocates nothing.
        unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &only)?)) };
        finish(start(&mut command))
    });
    assert_code(&output, 0);
    let table = stderr(&output);
    assert!(table.to_lowercase().contains("one cpu"), "{table}");
    let run = bench_json(&output);
    assert_eq!(run.machine.cpus_allowed, 1);
    for experiment in &run.experiments {
        let ran = has_figure(experiment);
        assert!(ran || experiment.skipped.is_some(), "{experiment:#?}");
    }
    assert!(has_figure(experiment(&run, "write_read")));
}

#[test]
fn who_is_not_root_gets_the_whole_ladder() {
    const NOBODY: u32 = 65534;
    let copy;
    let words = format!("bench --json {SHORT}");
    let output = if is_root() {
        copy = ForEverybody::new();
        until_measured(&words, |words| {
            finish(start(&mut copy.command(NOBODY, words)))
        })
    } else {
        run(&words)
    };
    assert_code(&output, 0);
    let run = bench_json(&output);
    for experiment in &run.experiments {
        if let Some(reason) = experiment.skipped.as_deref() {
            assert!(!has_huge_pages(), "{}: {reason}", experiment.name);
            continue;
        }
        assert!(has_figure(experiment), "{experiment:#?}");
        // It is known what backs the memory of any user.
        let backing = writer(experiment).backing.as_deref().unwrap();
        assert!(backing.contains("/proc/self/smaps"), "{backing}");
    }
}

#[test]
fn a_user_who_has_too_many_pipes_gets_what_small_pipes_allow() {
    if !is_root() {
        return skipped("a user beyond pipe-user-pages-soft: making one needs root");
    }
    if fullbore_linux::pipe_user_pages_soft().is_none_or(|pages| pages == 0 || pages > 1 << 16) {
        return skipped("a user beyond pipe-user-pages-soft: there is no such limit here");
    }
    let copy = ForEverybody::new();
    let words = format!("bench --json {SHORT} write_read vmsplice_read roomy_pipe");
    let output = until_measured(&words, |words| {
        let mut command = copy.command(nobody_else(2), words);
        // SAFETY: between fork and exec it makes system calls and allocates nothing.
        unsafe { command.pre_exec(hold_pipes) };
        finish(start(&mut command))
    });
    assert_skipped(
        &output,
        &["vmsplice_read", "roomy_pipe"],
        "pipe-user-pages-soft",
    );
    let run = bench_json(&output);
    let capacity = writer(experiment(&run, "write_read")).pipe_capacity;
    assert!(capacity.unwrap() < 65536, "{capacity:?}");
}

// Tests in which a process is killed.

/// Starts bench, waits for a child whose command line has all of `words`, and sends it a signal.
fn bench_with_a_victim(options: &str, words: &[&str], signal: Signal) -> Output {
    let bench = start(&mut fullbore(&format!("bench --json {options}")));
    let victim = wait_for("the child to kill", || {
        children(bench.id())
            .into_iter()
            .find(|(_, line)| words.iter().all(|word| line.iter().any(|w| w == word)))
            .map(|(pid, _)| pid)
    });
    // The signal should arrive during its work rather than before it.
    thread::sleep(Duration::from_millis(30));
    kill_process(victim, signal).unwrap();
    finish(bench)
}

#[track_caller]
fn assert_failed(output: &Output, name: &str, words: &[&str]) {
    assert_code(output, 1);
    let run = bench_json(output);
    for experiment in &run.experiments {
        if experiment.name == name {
            let reason = experiment.failed.as_deref().unwrap_or_default();
            for word in words {
                assert!(reason.contains(word), "'{word}' in {experiment:#?}");
            }
            assert!(experiment.figure.is_none());
        } else {
            assert!(has_figure(experiment), "{experiment:#?}");
        }
    }
    let table = stderr(output);
    assert!(table.contains(name) && table.contains("failed"), "{table}");
}

#[test]
fn a_writer_that_is_killed_fails_its_experiment_and_no_other() {
    let output = bench_with_a_victim(
        "--rounds 1 --seconds 1 write_read vmsplice_read vmsplice_splice",
        // The signal can hit any of the experiments.
        &["write", "--bytes-to-pipe=1048576G", "--json=/dev/stderr"],
        Signal::KILL,
    );
    assert_code(&output, 1);
    let run = bench_json(&output);
    let failed: Vec<&Outcome> = run
        .experiments
        .iter()
        .filter(|experiment| experiment.failed.is_some())
        .collect();
    assert_eq!(failed.len(), 1, "{run:#?}");
    let name = &failed[0].name;
    assert_failed(&output, name, &["writer", "killed by signal 9"]);
}

#[test]
fn a_reader_that_is_killed_fails_its_experiment_and_no_other() {
    let output = bench_with_a_victim(
        "--rounds 2 --seconds 1 write_read vmsplice_splice",
        &["read", "--read-with-splice"],
        Signal::KILL,
    );
    assert_failed(
        &output,
        "vmsplice_splice",
        &["reader", "killed by signal 9"],
    );
    let run = bench_json(&output);
    let figure = experiment(&run, "write_read").figure.as_ref().unwrap();
    assert_eq!(figure.rounds.len(), 2, "the rounds went on");
}

#[test]
fn a_mover_that_is_killed_fails_its_experiment_and_no_other() {
    let output = bench_with_a_victim(
        "--rounds 1 --seconds 1 pipe_pipe_std pipe_pipe_snapshot",
        &["copy"],
        Signal::KILL,
    );
    assert_failed(
        &output,
        "pipe_pipe_snapshot",
        &["fullbore copy", "killed by signal 9"],
    );
}

#[test]
fn nobody_is_left_behind_when_bench_is_killed() {
    for (name, processes) in [
        ("pipe_pipe_snapshot", 3),
        ("one_three_snapshot", 5),
        ("copy_zero_copy", 2),
        ("chain_normal", 3),
    ] {
        let bench = start(&mut fullbore(&format!(
            "bench {name} --seconds 600 --rounds 1"
        )));
        let started = wait_for("all processes", || {
            let started: Vec<Pid> = children(bench.id())
                .into_iter()
                .map(|(pid, _)| pid)
                .collect();
            (started.len() == processes).then_some(started)
        });
        thread::sleep(Duration::from_millis(100));
        kill_process(Pid::from_child(&bench), Signal::KILL).unwrap();
        finish(bench);
        assert_nobody_is_left(&started);
    }
}

#[test]
fn an_endpoint_that_stands_still_fails_its_experiment_and_no_other() {
    let output = bench_with_a_victim(
        "--rounds 1 --seconds 2 write_read vmsplice_splice",
        &["read", "--read-with-splice"],
        Signal::STOP,
    );
    assert_failed(&output, "vmsplice_splice", &["did not finish in time"]);
}

#[test]
fn nobody_is_left_behind_when_bench_is_ended() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let bench = start(&mut fullbore("bench write_read --seconds 600 --rounds 1"));
        let started: Vec<Pid> = wait_for("both endpoints", || {
            let pids: Vec<Pid> = children(bench.id())
                .into_iter()
                .filter(|(_, line)| {
                    line.iter()
                        .any(|word| word.starts_with("--die-with-parent"))
                })
                .map(|(pid, _)| pid)
                .collect();
            (pids.len() == 2).then_some(pids)
        });
        thread::sleep(Duration::from_millis(100));
        kill_process(Pid::from_child(&bench), signal).unwrap();
        let output = finish(bench);
        let ended_by = output.status.signal();
        assert_eq!(ended_by, Some(signal.as_raw()), "{}", said(&output));

        assert_nobody_is_left(&started);
    }
}

#[test]
fn a_pipeline_whose_reader_is_killed_ends_quietly() {
    for options in ["", "--write-with-vmsplice", "--memory 1M --chunk 128K"] {
        let (source, sink) = pipe();
        let (mut reading, writing) = start_pipeline(options, sink, "", source);
        thread::sleep(Duration::from_millis(50));
        reading.kill().unwrap();
        assert_eq!(finish(reading).status.signal(), Some(9));
        assert_quiet_success(&finish(writing));
    }
}

#[test]
fn a_pipeline_whose_writer_is_killed_reports_what_came() {
    for options in ["", "--read-with-splice", "--wait adaptive"] {
        let (source, sink) = pipe();
        let read = format!("--json {options}");
        let (reading, mut writing) = start_pipeline("--bytes-to-pipe 1T", sink, &read, source);
        thread::sleep(Duration::from_millis(50));
        writing.kill().unwrap();
        let output = finish(reading);
        assert_quiet_success(&output);
        endpoint(stdout(&output));
        assert_eq!(finish(writing).status.signal(), Some(9));
    }
}

#[test]
fn a_refused_vmsplice_is_the_reason_also_where_the_reader_has_gone() {
    for errno in [Errno::NOSYS, Errno::PERM] {
        let filter = refusing(&[(call::VMSPLICE, &[])], errno);
        for options in [
            "--write-with-vmsplice",
            "--way fresh",
            "--way recycle",
            "--memory 1M --chunk 64K",
        ] {
            let mut writer = fullbore(&format!("write --bytes-to-pipe 8M {options}"));
            let writing = start(under(filter.clone(), writer.stdout(nobody_reads())));
            assert_unsupported(&finish(writing), "vmsplice");
        }
        // The first few lines are always copied.
        let lines = "--bytes-to-pipe 8M --way fresh --lines 64";
        assert_unsupported(&pipeline_under(&filter, lines, "").0, "vmsplice");
    }
}

#[test]
fn bench_needs_no_ioctl() {
    let filter = refusing(&[(call::IOCTL, &[])], Errno::PERM);
    let words = format!("bench --json {SHORT} write_read");
    let output = run_under(&filter, &words);
    assert_skipped(&output, &[], "");
}

#[test]
fn nobody_is_left_behind_when_bench_is_killed_while_it_starts_processes() {
    for delay in 0..20 {
        let mut command = fullbore("bench write_read --seconds 0.9 --rounds 1");
        // A process that loses its parent keeps its process group.
        let bench = start(command.process_group(0));
        let group = bench.id() as i32;
        while children(bench.id()).is_empty() {
            thread::sleep(Duration::from_micros(100));
        }
        thread::sleep(Duration::from_micros(200 * delay));
        kill_process(Pid::from_child(&bench), Signal::KILL).unwrap();
        finish(bench);
        wait_for("the end of the processes that bench started", || {
            let running = procfs::process::all_processes().unwrap().any(|process| {
                let stat = process.and_then(|process| process.stat());
                stat.is_ok_and(|stat| stat.pgrp == group && stat.state != 'Z')
            });
            (!running).then_some(())
        });
    }
}

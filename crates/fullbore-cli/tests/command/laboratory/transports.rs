//! Tests of the groups `transports` and `latency`: every row runs or says why it does not, and on a
//! machine without one of the transports the others are measured.

use std::fs;

use crate::common::refusing::*;
use crate::common::*;
use fullbore_results::run::{Run, Unit};
use rustix::io::Errno;
use seccompiler::SeccompCmpOp;

/// Options for the shortest possible run.
const SHORT: &str = "--rounds 1 --seconds 0.01";

/// include/linux/socket.h.
const AF_INET: u64 = 2;

/// Returns the names of a group's rows, as `--list` prints them.
fn listed(pattern: &str) -> Vec<String> {
    stdout(&run(&format!("bench --list {pattern}")))
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

fn names(run: &Run) -> Vec<&str> {
    run.experiments
        .iter()
        .map(|experiment| experiment.name.as_str())
        .collect()
}

/// Asserts that every experiment has a figure, or is skipped for a reason that is specific to this
/// machine.
#[track_caller]
fn assert_measured(run: &Run) {
    for experiment in &run.experiments {
        match experiment.skipped.as_deref() {
            Some(reason) => skipped(&format!("{}: {reason}", experiment.name)),
            None => assert!(has_figure(experiment), "{experiment:#?}"),
        }
    }
}

#[test]
fn every_transport_carries_the_stream_and_stands_in_lmbenchs_order() {
    let output = run(&format!("bench --json {SHORT} transports"));
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_eq!(
        names(&run),
        [
            "pipe",
            "fifo",
            "unix_stream",
            "socketpair",
            "unix_seqpacket",
            "tcp",
            "shared_memory",
            "ring",
            "message_queue",
            "file_reread",
            "mmap_reread",
            "memory_copy",
            "memory_copy_by_hand",
            "memory_read",
            "memory_write",
        ]
    );
    assert_measured(&run);
    for experiment in &run.experiments {
        assert_eq!(experiment.unit, Unit::GibPerS);
        // This is the same figure in lmbench's unit.
        let Some(figure) = &experiment.figure else {
            continue;
        };
        let also = &experiment.also[0];
        assert_eq!((also.name.as_str(), also.unit), ("lmbench", Unit::MbPerS));
        let megabytes = also.figure.median;
        assert!(
            (megabytes / (figure.median * 1073.741824) - 1.0).abs() < 1e-6,
            "{experiment:#?}"
        );
    }
    // The published figures are shown next to ours.
    assert!(experiment(&run, "pipe").published.is_some());
    assert_eq!(experiment(&run, "memory_read").published, Some(16.0));
    assert!(stderr(&output).contains("published"));
}

#[test]
fn every_transport_is_timed_there_and_back_in_every_way_to_wait() {
    let rows = listed("latency");
    assert_eq!(rows.len(), 1 + 9 * 2 * 3);
    let output = run(&format!("bench --json {SHORT} latency"));
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_eq!(names(&run), rows);
    assert_measured(&run);
    for experiment in &run.experiments {
        assert_eq!(experiment.unit, Unit::Microseconds);
        if experiment.skipped.is_some() {
            continue;
        }
        let [p99, p999, ..] = &experiment.also[..] else {
            panic!("no percentiles: {experiment:#?}");
        };
        assert_eq!((p99.name.as_str(), p999.name.as_str()), ("p99", "p99.9"));
        let (p99, p999) = (p99.figure.median, p999.figure.median);
        assert!(median(experiment) <= p99 && p99 <= p999, "{experiment:#?}");
    }
    let wake_up = experiment(&run, "wake_up");
    assert_eq!(wake_up.also[2].name, "waker");
    // There are tables for one byte, for 4 KiB, and for the wake-up, each with its own base of
    // ratios.
    for base in ["wake_up", "pipe_byte_block", "pipe_4k_block"] {
        assert_eq!(experiment(&run, base).ratio, Some(1.0));
    }
}

#[test]
fn less_time_is_a_ratio_above_one() {
    let output = run(
        "bench --json --rounds 3 --seconds 0.02 shared_memory_byte_block shared_memory_byte_spin",
    );
    assert_code(&output, 0);
    let run = bench_json(&output);
    let median = |name| median(experiment(&run, name));
    let ratio = experiment(&run, "shared_memory_byte_spin").ratio.unwrap();
    let expected = median("shared_memory_byte_block") / median("shared_memory_byte_spin");
    assert!((ratio / expected - 1.0).abs() < 1e-9);
}

#[test]
fn a_pipe_takes_the_size_that_was_asked_for() {
    let output = run(&format!(
        "bench --json {SHORT} --pipe-size 1M pipe fifo tcp pipe_byte_block"
    ));
    assert_code(&output, 0);
    assert_measured(&bench_json(&output));
}

#[test]
fn without_message_queues_the_others_are_measured() {
    let filter = refusing(&[(call::MQ_OPEN, &[])], Errno::NOSYS);
    let output = run_under(
        &filter,
        &format!("bench --json {SHORT} pipe message_queue tcp"),
    );
    assert_skipped(&output, &["message_queue"], "message queue");
    let words = "pipe_byte_block message_queue_byte_block message_queue_4k_spin";
    let output = run_under(&filter, &format!("bench --json {SHORT} {words}"));
    let names = ["message_queue_byte_block", "message_queue_4k_spin"];
    assert_skipped(&output, &names, "mq_open");
}

#[test]
fn without_tcp_the_others_are_measured() {
    let inet: Conditions = &[(0, SeccompCmpOp::Eq, AF_INET)];
    let filter = refusing(&[(call::SOCKET, inet)], Errno::AFNOSUPPORT);
    let words = "unix_stream socketpair tcp tcp_byte_spin socketpair_byte_spin";
    let output = run_under(&filter, &format!("bench --json {SHORT} {words}"));
    assert_skipped(&output, &["tcp", "tcp_byte_spin"], "TCP over the loopback");
}

#[test]
fn without_files_in_memory_the_others_are_measured() {
    let filter = refusing(&[(call::MEMFD_CREATE, &[])], Errno::NOSYS);
    let words = "pipe shared_memory file_reread wake_up pipe_4k_block shared_memory_4k_block";
    let output = run_under(&filter, &format!("bench --json {SHORT} {words}"));
    let names = ["shared_memory", "wake_up", "shared_memory_4k_block"];
    assert_skipped(&output, &names, "memfd_create");
}

#[test]
fn without_unix_sockets_or_fifos_the_others_are_measured() {
    let calls: [(i64, Conditions); 2] = [(call::SOCKETPAIR, &[]), (call::MKNODAT, &[])];
    let filter = refusing(&calls, Errno::ACCESS);
    let words = "pipe fifo socketpair unix_seqpacket tcp";
    let output = run_under(&filter, &format!("bench --json {SHORT} {words}"));
    assert_skipped(
        &output,
        &["fifo", "socketpair", "unix_seqpacket"],
        "ermission denied",
    );
}

#[test]
fn without_a_place_for_temporary_files_the_others_are_measured() {
    let words = format!("bench --json {SHORT} pipe fifo file_reread mmap_reread memory_read");
    let output = until_measured(&words, |words| {
        finish(start(fullbore(words).env("TMPDIR", "/nowhere")))
    });
    assert_skipped(
        &output,
        &["fifo", "file_reread", "mmap_reread"],
        "No such file",
    );
}

#[test]
fn nothing_is_left_in_the_directory_of_temporary_files() {
    let directory = tempfile::tempdir().unwrap();
    let words = format!("bench --json {SHORT} fifo unix_stream file_reread message_queue");
    let output = until_measured(&words, |words| {
        finish(start(fullbore(words).env("TMPDIR", directory.path())))
    });
    assert_code(&output, 0);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_part_is_no_verb_for_people_and_says_what_it_cannot_read() {
    for words in [
        "part",
        "part {}",
        "part nonsense {}",
        "part send {}",
        "part send nonsense",
    ] {
        let output = run(words);
        assert_code(&output, 2);
        one_line(stderr(&output));
    }
    assert!(!stdout(&run("--help")).contains("part "));
}

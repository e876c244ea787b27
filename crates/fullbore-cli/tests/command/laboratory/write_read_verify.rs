//! Tests of `--verify`: every way to write delivers every byte at its place to every way to read,
//! and a stream that was changed is detected.

use std::io::{Read, Write};
use std::process::Output;
use std::thread;

use crate::common::*;

const WAITS: [&str; 4] = ["block", "poll", "spin", "adaptive"];

/// Moves `bytes` with `--verify` on both ends, and asserts that they are right.
#[track_caller]
fn assert_verified(what: &str, write: &str, read: &str, bytes: u64) {
    let both = format!("--verify --bytes-to-pipe {bytes}");
    let (writer, reader) = pipeline(&format!("{both} {write}"), &format!("{both} --json {read}"));
    assert_eq!(writer.status.code(), Some(0), "{what}: {}", said(&writer));
    assert_eq!(reader.status.code(), Some(0), "{what}: {}", said(&reader));
    let report = endpoint(stdout(&reader));
    assert_eq!(report.verified, Some(true), "{what}");
    assert_eq!(report.bytes, bytes, "{what}");
}

/// Returns the options of an endpoint of an experiment, without those that bench adds for measuring
/// and those that --verify replaces.
fn technique(options: &str) -> String {
    let added = [
        "--json",
        "--die-with-parent",
        "--cpu=",
        "--seconds=",
        "--warm-up=",
        "--bytes-to-pipe=",
        "--sum",
        "--dont-touch-pages",
    ];
    let kept: Vec<&str> = options
        .split_whitespace()
        .filter(|word| !added.iter().any(|added| word.starts_with(added)))
        .collect();
    kept.join(" ")
}

#[test]
fn two_ends_that_share_memory_deliver_every_byte() {
    for (i, wait) in WAITS.iter().enumerate() {
        // Two ends that spin take turns by their time slices where there are fewer CPUs than tasks.
        let most = if *wait == "spin" { 16 << 20 } else { 200 << 20 };
        let bytes = most + 13 * i as u64;
        let ring = format!("--way ring --wait {wait}");
        assert_verified(wait, &format!("{ring} --chunk 512K"), &ring, bytes);
        // An end that does not share reads or writes the same pipe.
        assert_verified(wait, &ring, &format!("--wait {wait}"), bytes);
        assert_verified(wait, &format!("--wait {wait}"), &ring, bytes);
    }
}

#[test]
fn every_case_of_the_ladder_delivers_every_byte() {
    let run = run("bench --json --rounds 1 --seconds 0.01 ladder");
    assert_code(&run, 0);
    let run = bench_json(&run);
    assert!(run.experiments.len() >= 14);
    for experiment in &run.experiments {
        let name = experiment.name.as_str();
        if let Some(reason) = experiment.skipped.as_deref() {
            skipped(&format!("{name}: {reason}"));
            continue;
        }
        let write = technique(&writer(experiment).options);
        let read = technique(&reader(experiment).options);
        assert_verified(name, &write, &read, 16 << 20);
    }
}

#[test]
fn every_wait_delivers_every_byte_of_every_way() {
    let ways = [
        "--buf-size 64K",
        "--write-with-vmsplice",
        "--write-with-vmsplice --same-buffer --buf-size 64K",
        "--memory 512K --chunk 64K --pipe-size 256K",
        // The pipe can hold the whole ring, so only the count of queued bytes keeps it right.
        "--memory 256K --chunk 64K --pipe-size 1M",
    ];
    for wait in WAITS {
        for way in ways {
            let write = format!("{way} --wait {wait}");
            assert_verified(&write, &write, &format!("--wait {wait}"), (8 << 20) + 4321);
            let read = format!("--wait {wait} --read-with-splice");
            assert_verified(&write, &write, &read, 4 << 20);
        }
    }
}

#[test]
fn endpoints_that_wait_differently_go_together() {
    for writers in WAITS {
        for readers in WAITS {
            for way in ["--buf-size 64K", "--write-with-vmsplice"] {
                let write = format!("{way} --wait {writers}");
                assert_verified(&write, &write, &format!("--wait {readers}"), 1 << 20);
            }
        }
    }
}

#[test]
fn buffers_of_odd_sizes_deliver_every_byte() {
    for write in [
        "--buf-size 1",
        "--buf-size 4097",
        "--memory 100000 --chunk 12345",
        "--memory 1M --chunk 70001 --wait spin",
    ] {
        for read in [
            "--chunk 777",
            "--buf-size 65537",
            "--read-with-splice --chunk 5000",
        ] {
            assert_verified(&format!("{write} into {read}"), write, read, 200_003);
        }
    }
}

/// Runs `fullbore write --verify | filter | fullbore read --verify`.
fn filtered(write: &str, read: &str, filter: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Output {
    const BYTES: u64 = 1 << 20;
    let (mut source, sink) = pipe();
    let writing =
        start(fullbore(&format!("write --verify --bytes-to-pipe {BYTES} {write}")).stdout(sink));
    let mut stream = Vec::new();
    source.read_to_end(&mut stream).unwrap();
    assert_quiet_success(&finish(writing));
    assert_eq!(stream.len() as u64, BYTES);
    let stream = filter(stream);

    let (source, mut sink) = pipe();
    let reading = start(fullbore(&format!("read --verify --json {read}")).stdin(source));
    thread::scope(|scope| {
        scope.spawn(move || {
            // A reader that has found a wrong byte closes its end.
            let _ = sink.write_all(&stream);
        });
        finish(reading)
    })
}

/// Asserts exit code 1, no report, and one line that says where the stream is wrong.
#[track_caller]
fn assert_wrong_at(output: &Output, position: std::ops::Range<usize>) {
    assert_code(output, 1);
    assert!(output.stdout.is_empty(), "{}", said(output));
    let line = one_line(stderr(output));
    let found: usize = line
        .strip_prefix("fullbore read: wrong byte at position ")
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no position in '{line}'"));
    assert!(position.contains(&found), "{found} is not in {position:?}");
}

const READERS: [&str; 3] = ["", "--wait spin --chunk 5000", "--read-with-splice"];

#[test]
fn a_stream_that_nobody_touched_is_right() {
    for read in READERS {
        let output = filtered("--write-with-vmsplice", read, |stream| stream);
        assert_quiet_success(&output);
        assert_eq!(endpoint(stdout(&output)).verified, Some(true));
    }
}

#[test]
fn one_flipped_bit_is_found_wherever_it_is() {
    for read in READERS {
        for position in [0, 1, 4096, 123_457, (1 << 20) - 1] {
            let output = filtered("", read, |mut stream| {
                stream[position] ^= 0x10;
                stream
            });
            assert_wrong_at(&output, position..position + 1);
        }
    }
}

#[test]
fn bytes_lost_in_the_middle_are_found() {
    for read in READERS {
        for lost in [1, 8, 4096, 65_536] {
            let output = filtered("--memory 512K --chunk 64K", read, |mut stream| {
                stream.drain(300_000..300_000 + lost);
                stream
            });
            // Two words may begin with the same bytes.
            assert_wrong_at(&output, 300_000..300_016);
        }
    }
}

#[test]
fn bytes_that_come_twice_or_in_another_order_are_found() {
    let twice = filtered("", "", |stream| {
        let page = stream[8192..12288].to_vec();
        [&stream[..12288], &page, &stream[12288..]].concat()
    });
    assert_wrong_at(&twice, 12288..12304);
    let swapped = filtered("", "--read-with-splice", |mut stream| {
        let (one, other) = stream.split_at_mut(65_536);
        one[..4096].swap_with_slice(&mut other[..4096]);
        stream
    });
    assert_wrong_at(&swapped, 0..16);
}

#[test]
fn a_stream_that_ends_early_is_right_as_far_as_it_goes_and_reported_so() {
    for read in READERS {
        let output = filtered("", &format!("{read} --bytes-to-pipe 1M"), |mut stream| {
            stream.truncate(300_001);
            stream
        });
        assert_quiet_success(&output);
        let report = endpoint(stdout(&output));
        assert_eq!(report.verified, Some(true));
        assert_eq!(report.bytes, 300_001);
    }
}

#[test]
fn constant_data_is_not_what_verify_expects() {
    let (writer, reader) = pipeline("--bytes-to-pipe 1M", "--verify --bytes-to-pipe 1M");
    assert_quiet_success(&writer);
    assert_wrong_at(&reader, 0..8);
}

#[test]
fn the_sum_of_all_words_is_the_same_however_the_stream_is_cut() {
    let sums: Vec<u64> = ["--chunk 64K", "--chunk 4097 --wait spin", "--buf-size 1000"]
        .iter()
        .map(|read| {
            let (_, reader) = pipeline(
                "--data words --bytes-to-pipe 1000003",
                &format!("--sum --json {read}"),
            );
            endpoint(stdout(&reader)).sum.unwrap()
        })
        .collect();
    assert!(sums[0] != 0 && sums.iter().all(|sum| *sum == sums[0]));
}

//! Tests of `fullbore write` and `fullbore read`: options, reports, how they end, and what they
//! refuse.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::*;
use fullbore_results::run::EndpointReport;

const WAITS: [&str; 4] = ["block", "poll", "spin", "adaptive"];

/// The three ways to write, each with the matching options of a reader.
const WAYS: [&str; 3] = [
    "--buf-size 64K",
    "--write-with-vmsplice --buf-size 128K",
    "--memory 512K --chunk 64K --pipe-size 256K",
];

/// The article's columns, in its order.
const COLUMNS: [&str; 14] = [
    "gigabytes_per_second",
    "bytes_to_pipe",
    "buf_size",
    "pipe_size",
    "busy_loop",
    "poll",
    "huge_page",
    "check_huge_page",
    "write_with_vmsplice",
    "read_with_splice",
    "gift",
    "lock_memory",
    "dont_touch_pages",
    "same_buffer",
];

fn column(line: &str, name: &str) -> String {
    let at = COLUMNS.iter().position(|column| *column == name).unwrap();
    line.split(',').nth(at).unwrap().to_owned()
}

/// Returns the whole output of `fullbore write`.
fn written(options: &str) -> Vec<u8> {
    let output = run(&format!("write {options}"));
    assert_quiet_success(&output);
    output.stdout
}

/// Returns the report of `fullbore read --json` with `bytes` on its stdin.
fn read_json(options: &str, bytes: &[u8]) -> EndpointReport {
    let output = read(options, bytes);
    assert_quiet_success(&output);
    endpoint(stdout(&output))
}

fn read(options: &str, bytes: &[u8]) -> std::process::Output {
    let (source, mut sink) = pipe();
    let reading = start(fullbore(&format!("read --json {options}")).stdin(source));
    thread::scope(|scope| {
        scope.spawn(move || {
            // A reader that has read enough closes its end.
            let _ = sink.write_all(bytes);
        });
        finish(reading)
    })
}

// Tests of options.

#[test]
fn both_endpoints_take_every_option_of_the_article_with_underscores_and_with_dashes() {
    let everywhere = [
        "--busy_loop",
        "--poll",
        "--poll --busy_loop",
        "--buf_size 64K",
        "--buf_size=64K",
        "--gift",
        "--lock_memory",
        "--dont_touch_pages",
        "--pipe_size 128K",
        "--write_with_vmsplice",
        "--write_with_vmsplice --same_buffer",
        "--write_with_vmsplice --gift --read_with_splice",
        "--read_with_splice",
        "--verbose",
        "--csv",
        "--huge_page",
        "--huge_page --check_huge_page",
    ];
    for options in everywhere {
        if options.contains("huge_page") && !has_huge_pages() {
            skipped("huge pages: there are none here");
            continue;
        }
        for options in [options.to_owned(), options.replace('_', "-")] {
            let with_bytes = format!("--bytes_to_pipe 300K {options}");
            let (writer, reader) = pipeline(&with_bytes, &with_bytes);
            assert_code(&writer, 0);
            assert_quiet_success(&reader);
            one_line(stdout(&reader));
        }
    }
}

#[test]
fn same_buffer_means_nothing_to_a_reader() {
    assert_code(&read("--same_buffer", b"x"), 0);
}

#[test]
fn both_endpoints_document_the_defaults_of_the_article() {
    for verb in ["write", "read"] {
        let help = run(&format!("{verb} --help"));
        assert_quiet_success(&help);
        let default_of = |option: &str| {
            let text = stdout(&help);
            let at = text
                .find(&format!("--{option} <"))
                .expect("the option is in the help");
            let rest = &text[at..];
            let from = rest.find("[default: ").expect("it has a default") + 10;
            rest[from..].split(']').next().unwrap().to_owned()
        };
        assert_eq!(default_of("buf-size"), "256K");
        assert_eq!(default_of("bytes-to-pipe"), "10G");
        if verb == "write" {
            assert_eq!(default_of("pipe-size"), "0");
        }
        // What has an effect only at the other end is accepted and not listed.
        let others: &[&str] = match verb {
            "write" => &["--read-with-splice", "--warm-up", "--sum", "--pause"],
            _ => &[
                "--write-with-vmsplice",
                "--pipe-size",
                "--same-buffer",
                "--memory",
                "--lines",
                "--data",
            ],
        };
        for option in others {
            let is_listed = |line: &str| line.starts_with(&format!("      {option}"));
            assert!(!stdout(&help).lines().any(is_listed), "{verb} {option}");
        }
    }
}

#[test]
fn without_bytes_given_both_endpoints_move_ten_gibibytes() {
    // These are fast options, so that the test is short. Ends that spin would take turns by their time slices.
    let huge = if has_huge_pages() { "--huge-page" } else { "" };
    let (writer, reader) = pipeline(
        &format!("--write-with-vmsplice --json=/dev/stderr {huge}"),
        "--read-with-splice",
    );
    assert_code(&writer, 0);
    assert_eq!(endpoint(stderr(&writer)).bytes, 10u64 << 30);
    assert_quiet_success(&reader);
    let line = one_line(stdout(&reader));
    assert!(
        line.ends_with("GiB/s, 256KiB buffer, 40960 iterations (10GiB piped)"),
        "{line}"
    );
}

#[test]
fn the_last_of_a_repeated_option_wins() {
    assert_eq!(
        written("--bytes-to-pipe 5 --buf-size 8 --bytes_to_pipe 7 --poll --poll --buf_size=4"),
        b"XXXXXXX"
    );
    let (_, reader) = pipeline(
        "--bytes-to-pipe 1M",
        "--csv --csv --buf_size 1K --buf-size 64K",
    );
    assert_quiet_success(&reader);
    assert_eq!(column(one_line(stdout(&reader)), "buf_size"), "65536");
}

#[test]
fn sizes_have_the_units_of_coreutils() {
    for (text, bytes) in [
        ("1000", 1000),
        ("64K", 64 << 10),
        ("64k", 64 << 10),
        ("64KiB", 64 << 10),
        ("1M", 1 << 20),
        ("1MiB", 1 << 20),
        ("1MB", 1_000_000),
        ("10G", 10u64 << 30),
        ("10GiB", 10u64 << 30),
    ] {
        // A size in the report shows that it was parsed.
        let (_, reader) = pipeline("--bytes-to-pipe 1K", &format!("--csv --pipe-size {text}"));
        let line = one_line(stdout(&reader)).to_owned();
        assert_eq!(column(&line, "pipe_size"), bytes.to_string(), "{text}");
    }
}

// Tests of reports.

#[test]
fn the_human_line_is_the_articles() {
    let (writer, reader) = pipeline(
        "--bytes-to-pipe 10M --verbose",
        "--bytes-to-pipe 10M --buf-size 64K",
    );
    assert_quiet_success(&reader);
    let line = one_line(stdout(&reader));
    let (figure, rest) = line.split_once("GiB/s, ").expect(line);
    assert_eq!(rest, "64KiB buffer, 160 iterations (10MiB piped)");
    let (whole, decimal) = figure.split_once('.').expect(figure);
    assert!(
        !whole.is_empty() && decimal.len() == 1,
        "one digit after the point: {figure}"
    );
    assert!(
        (whole.to_owned() + decimal)
            .bytes()
            .all(|b| b.is_ascii_digit())
    );

    // The writer prints its report on stderr if it is asked to, because its stdout is the pipe.
    assert_code(&writer, 0);
    let line = one_line(stderr(&writer));
    assert!(
        line.ends_with("GiB/s, 256KiB buffer, 40 iterations (10MiB piped)"),
        "{line}"
    );
}

#[test]
fn the_csv_line_has_the_articles_columns_and_echoes_the_options() {
    let (_, reader) = pipeline(
        "--bytes-to-pipe 1M",
        "--csv --bytes-to-pipe 1M --buf-size 64K --pipe-size 128K --lock-memory",
    );
    assert_quiet_success(&reader);
    let line = one_line(stdout(&reader));
    let fields: Vec<&str> = line.split(',').collect();
    assert_eq!(fields.len(), COLUMNS.len(), "{line}");
    assert!(fields[0].parse::<f64>().unwrap() > 0.0, "{line}");
    assert_eq!(
        fields[1..],
        [
            "1048576", "65536", "131072", "0", "0", "0", "0", "0", "0", "0", "1", "0", "0"
        ]
    );
}

#[test]
fn every_flag_has_its_own_column_in_the_csv() {
    let flags = [
        "busy_loop",
        "poll",
        "huge_page",
        "check_huge_page",
        "write_with_vmsplice",
        "read_with_splice",
        "gift",
        "lock_memory",
        "dont_touch_pages",
        "same_buffer",
    ];
    for flag in flags {
        let mut given = vec![flag];
        if flag == "check_huge_page" {
            given.push("huge_page");
        }
        if flag.contains("huge_page") && !has_huge_pages() {
            skipped("huge pages: there are none here");
            continue;
        }
        let options: Vec<String> = given.iter().map(|flag| format!("--{flag}")).collect();
        let (_, reader) = pipeline(
            "--bytes-to-pipe 1K",
            &format!("--csv {}", options.join(" ")),
        );
        assert_quiet_success(&reader);
        let line = one_line(stdout(&reader));
        for other in flags {
            let expected = u8::from(given.contains(&other)).to_string();
            assert_eq!(column(line, other), expected, "{other} of {flag}: {line}");
        }
    }
}

#[test]
fn both_endpoints_report_in_json() {
    let (writer, reader) = pipeline(
        "--bytes-to-pipe 1M --json=/dev/stderr",
        "--json --bytes-to-pipe 1M",
    );
    assert_code(&writer, 0);
    assert!(writer.stdout.is_empty());
    assert_quiet_success(&reader);
    for report in [stderr(&writer), stdout(&reader)].map(endpoint) {
        assert_eq!(report.bytes, 1 << 20);
        assert_eq!(report.moved, 1 << 20);
        for figure in [report.seconds, report.gib_per_s, report.cpu_seconds] {
            assert!(figure > 0.0, "{report:?}");
        }
        assert!(report.calls > 0);
        assert!(report.pipe_capacity > Some(0));
        assert!(report.options.contains("--json"));
        assert!(report.backing.unwrap().contains("pages"));
        assert_eq!(report.verified, None, "not asked for");
    }
}

#[test]
fn the_iterations_are_those_of_the_bytes_that_came() {
    let (_, reader) = pipeline("--bytes-to-pipe 640K", "--buf-size 64K");
    let line = one_line(stdout(&reader)).to_owned();
    assert!(
        line.ends_with(" 64KiB buffer, 10 iterations (640KiB piped)"),
        "{line}"
    );
}

// Tests of exact numbers of bytes.

#[test]
fn bytes_to_pipe_is_exact_to_the_byte() {
    let ways = WAYS
        .into_iter()
        .chain(["--wait spin", "--wait poll --write-with-vmsplice"]);
    for way in ways {
        for bytes in [0, 1, 4096, 65_537, 1_234_567] {
            let got = written(&format!("{way} --bytes-to-pipe {bytes}"));
            assert_eq!(got.len(), bytes, "{way}");
            assert!(got.iter().all(|&byte| byte == b'X'), "{way}");
        }
    }
}

#[test]
fn a_reader_takes_no_byte_more_than_it_was_told_to() {
    for options in [
        "",
        "--wait poll",
        "--wait spin",
        "--read-with-splice",
        "--read-with-splice --wait adaptive",
    ] {
        let (mut source, mut sink) = pipe();
        sink.write_all(&[7; 5000]).unwrap();
        drop(sink);
        let words = format!("read --json --bytes-to-pipe 1234 {options}");
        let output = finish(start(fullbore(&words).stdin(source.try_clone().unwrap())));
        assert_quiet_success(&output);
        assert_eq!(endpoint(stdout(&output)).bytes, 1234);
        let mut rest = Vec::new();
        source.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 5000 - 1234, "{options}");
    }
}

#[test]
fn a_writer_and_a_reader_work_on_files_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stream");
    let output = finish(start(
        fullbore("write --verify --bytes-to-pipe 300001").stdout(File::create(&path).unwrap()),
    ));
    assert_quiet_success(&output);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 300_001);
    let output = finish(start(
        fullbore("read --verify --json --wait spin").stdin(File::open(&path).unwrap()),
    ));
    assert_quiet_success(&output);
    let report = endpoint(stdout(&output));
    assert_eq!(report.bytes, 300_001);
    assert_eq!(report.verified, Some(true));
    assert_eq!(report.pipe_capacity, None);
}

// Tests of how they end.

#[test]
fn a_reader_ends_when_the_writer_stops_early() {
    for wait in WAITS {
        for options in [
            "",
            "--read-with-splice",
            "--verify",
            "--read-with-splice --verify",
        ] {
            let options = format!("{options} --wait {wait}");
            let verify = if options.contains("verify") {
                "--verify"
            } else {
                ""
            };
            let bytes = 300_000;
            let (writer, reader) = pipeline(
                &format!("--bytes-to-pipe {bytes} {verify}"),
                &format!("--json {options}"),
            );
            assert_quiet_success(&writer);
            assert_quiet_success(&reader);
            let report = endpoint(stdout(&reader));
            assert_eq!(report.bytes, bytes, "{options}");
        }
    }
}

#[test]
fn a_reader_of_nothing_reports_nothing() {
    let report = read_json("", b"");
    assert_eq!(report.bytes, 0);
    let (source, sink) = pipe();
    drop(sink);
    let output = finish(start(fullbore("read").stdin(source)));
    assert_quiet_success(&output);
    assert_eq!(
        one_line(stdout(&output)),
        "0.0GiB/s, 256KiB buffer, 0 iterations (0B piped)"
    );
}

#[test]
fn a_writer_ends_quietly_when_the_reader_closes() {
    for wait in WAITS {
        for way in WAYS {
            let options = format!("{way} --wait {wait}");
            let (mut source, sink) = pipe();
            let writing = start(fullbore(&format!("write {options}")).stdout(sink));
            source.read_exact(&mut [0; 300_000]).unwrap();
            // The pause makes it end while it waits, too.
            thread::sleep(Duration::from_millis(20));
            drop(source);
            let output = finish(writing);
            assert_quiet_success(&output);
        }
    }
}

#[test]
fn a_writer_reports_what_went_out_when_the_reader_closes() {
    let more_ways = [
        // Full pages of the ring wait until the pipe no longer refers to them, rather than for room
        // in it.
        "--memory 512K --chunk 128K --pipe-size 512K",
        "--memory 512K --chunk 256K --pipe-size 512K",
    ];
    for wait in WAITS {
        for way in WAYS.into_iter().chain(more_ways) {
            let options = format!("write --json=/dev/stderr {way} --wait {wait}");
            let (mut source, sink) = pipe();
            let writing = start(fullbore(&options).stdout(sink));
            source.read_exact(&mut [0; 300_000]).unwrap();
            thread::sleep(Duration::from_millis(20));
            drop(source);
            let output = finish(writing);
            assert_code(&output, 0);
            assert!(!output.stderr.is_empty(), "no report of '{options}'");
            let report = endpoint(stderr(&output));
            assert!(report.bytes >= 256 << 10, "{options}");
        }
    }
}

/// Runs `fullbore write | fullbore read …`, and starts the reader once there is something to read.
fn ready_pipeline(read: &str) -> (std::process::Output, std::process::Output) {
    let (source, sink) = pipe();
    let writing = start(fullbore("write").stdout(sink));
    wait_for("something to read", || {
        (rustix::io::ioctl_fionread(&source).unwrap() > 0).then_some(())
    });
    let reading = start(fullbore(&format!("read {read}")).stdin(source));
    (finish(writing), finish(reading))
}

#[test]
fn seconds_end_a_writer() {
    for way in WAYS {
        let (writer, reader) =
            pipeline(&format!("{way} --seconds 0.1 --json=/dev/stderr"), "--json");
        assert_code(&writer, 0);
        assert_quiet_success(&reader);
        let (writer, reader) = (endpoint(stderr(&writer)), endpoint(stdout(&reader)));
        assert!(writer.seconds >= 0.1, "{way}");
        // A writer that gets no CPU when its time is over is ended there and then. The bytes of its last
        // call, at most 128 KiB, may have been moved by then and not been counted.
        let uncounted = reader.bytes - writer.bytes;
        assert!(uncounted <= 128 << 10, "{way}: {uncounted}");
    }
}

#[test]
fn seconds_end_a_reader_and_then_its_writer() {
    for options in ["--seconds 0.1", "--seconds 0.1 --read-with-splice"] {
        wait_for("bytes in this time", || {
            let (writer, reader) = ready_pipeline(&format!("{options} --json"));
            assert_quiet_success(&writer);
            assert_quiet_success(&reader);
            let report = endpoint(stdout(&reader));
            assert!(report.seconds >= 0.1);
            (report.bytes > 0).then_some(())
        });
    }
}

#[test]
fn a_warm_up_is_moved_and_not_measured() {
    wait_for("bytes in both times", || {
        let (writer, reader) = ready_pipeline("--warm-up 0.2 --seconds 0.5 --json");
        assert_quiet_success(&writer);
        let report = endpoint(stdout(&reader));
        assert!(report.bytes <= report.moved);
        (report.bytes > 0 && report.bytes < report.moved).then_some(())
    });
}

#[test]
fn an_adaptive_reader_sleeps_while_the_writer_is_idle() {
    assert_sleeps("a reader", || {
        let (source, mut sink) = pipe();
        let reading = start(fullbore("read --json --wait adaptive").stdin(source));
        for _ in 0..3 {
            sink.write_all(&[1; 1000]).unwrap();
            thread::sleep(Duration::from_millis(300));
        }
        drop(sink);
        let report = endpoint(stdout(&finish(reading)));
        assert_eq!(report.bytes, 3000);
        report.cpu_seconds
    });
}

/// Asserts that one of some runs, each of which has nothing to do for most of a second, takes little CPU time; the
/// time for which a virtual machine is paused may be counted as the time of the process that it paused. One that
/// spins takes most of the second each time.
#[track_caller]
fn assert_sleeps(what: &str, mut cpu_seconds: impl FnMut() -> f64) {
    let taken: Vec<f64> = (0..5)
        .map_while(|_| Some(cpu_seconds()).filter(|&cpu| cpu >= 0.2))
        .collect();
    assert!(
        taken.len() < 5,
        "{what} that has nothing to do: {taken:?} s of CPU"
    );
}

#[test]
fn an_adaptive_writer_sleeps_while_the_reader_is_idle() {
    for way in WAYS {
        assert_sleeps(way, || {
            let (mut source, sink) = pipe();
            let words =
                format!("write --json=/dev/stderr --wait adaptive --bytes-to-pipe 2M {way}");
            let writing = start(fullbore(&words).stdout(sink));
            thread::sleep(Duration::from_millis(800));
            std::io::copy(&mut source, &mut std::io::sink()).unwrap();
            endpoint(stderr(&finish(writing))).cpu_seconds
        });
    }
}

// Tests of what only readers support, and of what only writers do not support.

#[test]
fn the_pause_of_a_slow_reader_is_in_its_help() {
    assert!(stdout(&run("read --help")).contains("--pause <SECONDS>"));
    assert_eq!(read_json("--pause 1us", b"12345").bytes, 5);
}

#[test]
fn a_repeated_pattern_is_verified_with_its_period_only() {
    let output = run("write --way repeat --verify --bytes-to-pipe 1M");
    assert_code(&output, 2);
    assert!(output.stdout.is_empty());
    assert!(one_line(stderr(&output)).contains("--period SIZE"));
    let both = "--verify --period 12K --bytes-to-pipe 1M";
    let (writer, reader) = pipeline(&format!("--way repeat {both}"), &format!("{both} --json"));
    assert_quiet_success(&writer);
    let report = endpoint(stdout(&reader));
    assert_eq!((report.verified, report.bytes), (Some(true), 1 << 20));
}

#[test]
fn a_period_of_0_and_a_line_that_is_no_line_are_refused() {
    for words in [
        "read --verify --period 0",
        "write --way repeat --verify --period 0",
        "write --lines 0",
        "write --lines 2M",
        "write --lines 64P",
    ] {
        let output = run(words);
        assert_code(&output, 2);
        assert!(
            one_line(stderr(&output)).contains("must be above 0"),
            "{words}"
        );
    }
}

// Tests of closed and full outputs.

#[test]
fn a_reader_whose_report_nobody_wants_ends_quietly() {
    let (source, sink) = pipe();
    drop(sink);
    let mut reader = fullbore("read --json");
    let output = finish(start(reader.stdin(source).stdout(nobody_reads())));
    assert_quiet_success(&output);
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let (source, sink) = pipe();
    drop(sink);
    let output = finish(start(fullbore("read").stdin(source).stdout(full())));
    assert_code(&output, 1);
    one_line(stderr(&output));
}

#[test]
fn a_closed_stderr_is_no_panic() {
    for words in [
        "write --json=/dev/stderr --bytes-to-pipe 10",
        "write --verbose --bytes-to-pipe 10",
    ] {
        let output = finish(start(fullbore(words).stderr(nobody_reads())));
        assert_code(&output, 0);
        assert_eq!(output.stdout, b"XXXXXXXXXX");
    }
    for words in ["write --bytes-to-pipe nonsense", "read --chunk 0"] {
        let output = finish(start(fullbore(words).stderr(nobody_reads())));
        assert_code(&output, 2);
    }
}

#[test]
fn a_full_device_is_an_error_that_says_how_far_it_came() {
    let output = finish(start(fullbore("write").stdout(full())));
    assert_code(&output, 1);
    let line = one_line(stderr(&output));
    assert!(
        line.starts_with("fullbore write: ") && line.contains("No space left on device"),
        "{line}"
    );
}

// Tests of what is refused.

/// Asserts exit code 2, one line on stderr that contains each of `words`, and nothing on stdout.
#[track_caller]
fn assert_refused(command: &mut std::process::Command, words: &[&str]) {
    let output = finish(start(command));
    assert_code(&output, 2);
    assert!(output.stdout.is_empty(), "{}", said(&output));
    let line = one_line(stderr(&output));
    assert!(line.starts_with("fullbore"), "{line}");
    for word in words {
        assert!(line.contains(word), "'{word}' in: {line}");
    }
}

#[test]
fn what_needs_a_pipe_is_refused_where_there_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    for (options, option) in [
        ("--write-with-vmsplice", "--write-with-vmsplice"),
        ("--memory 1M", "--memory"),
        ("--pipe-size 64K", "--pipe-size"),
    ] {
        for sink in [
            File::create(&path).unwrap(),
            File::options().write(true).open("/dev/null").unwrap(),
        ] {
            let mut command = fullbore(&format!("write {options}"));
            assert_refused(command.stdout(sink), &[option, "pipe"]);
        }
    }
    for source in [File::open(&path).unwrap(), File::open("/dev/null").unwrap()] {
        let mut command = fullbore("read --read-with-splice");
        assert_refused(command.stdin(source), &["--read-with-splice", "pipe"]);
    }
}

/// Runs both endpoints on the two ends of a Unix stream socket.
fn through_a_socket(write: &str, read: &str) -> (std::process::Output, std::process::Output) {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let (near, far) = (
        std::os::fd::OwnedFd::from(near),
        std::os::fd::OwnedFd::from(far),
    );
    let reading = start(fullbore(&format!("read {read}")).stdin(far));
    let writing = start(fullbore(&format!("write {write}")).stdout(near));
    (finish(writing), finish(reading))
}

#[test]
fn pages_go_through_a_unix_socket_and_are_right_before_a_reader_that_copies() {
    for size in ["1M", "3000001"] {
        let write = format!(
            "--write-with-vmsplice --through-pipe --buf-size 64K --bytes-to-pipe {size} --verify"
        );
        let (writer, reader) = through_a_socket(&write, "--verify --json --pause 200us");
        assert_quiet_success(&writer);
        assert_code(&reader, 0);
        let report = endpoint(stdout(&reader));
        assert_eq!(report.verified, Some(true));
        assert!(report.moved >= 1 << 20);
    }
}

#[test]
fn a_unix_socket_is_spliced_from_through_a_pipe() {
    let (writer, reader) = through_a_socket(
        "--write-with-vmsplice --through-pipe --bytes-to-pipe 32M",
        "--read-with-splice --through-pipe --json --chunk 1M",
    );
    assert_quiet_success(&writer);
    assert_quiet_success(&reader);
    assert_eq!(endpoint(stdout(&reader)).moved, 32 << 20);
}

#[test]
fn a_socket_whose_reader_is_gone_ends_the_writer_quietly() {
    let (writer, reader) = through_a_socket(
        "--write-with-vmsplice --through-pipe --bytes-to-pipe 1T",
        "--read-with-splice --through-pipe --bytes-to-pipe 1M",
    );
    assert_quiet_success(&writer);
    assert_code(&reader, 0);
}

#[test]
fn a_pipe_needs_no_other_pipe_before_it() {
    let (source, sink) = pipe();
    let mut command = fullbore("write --write-with-vmsplice --through-pipe");
    assert_refused(command.stdout(sink), &["--through-pipe", "socket"]);
    drop(source);
}

#[test]
fn writers_options_that_contradict_each_other_are_refused() {
    for (options, words) in [
        (
            "--write-with-vmsplice --pipe-size 1M",
            ["--pipe-size", "--write-with-vmsplice"],
        ),
        (
            "--write-with-vmsplice --buf-size 64K --pipe-size 64K",
            ["--pipe-size", "--write-with-vmsplice"],
        ),
        (
            "--huge-page --check-huge-page --dont-touch-pages",
            ["--check-huge-page", "--dont-touch-pages"],
        ),
        ("--check-huge-page", ["--check-huge-page", "--huge-page"]),
        (
            "--write-with-vmsplice --buf-size 100001",
            ["--write-with-vmsplice", "100001"],
        ),
        (
            "--write-with-vmsplice --buf-size 100000",
            ["--write-with-vmsplice", "100000"],
        ),
        (
            "--write-with-vmsplice --buf-size 96K",
            ["--write-with-vmsplice", "power of two"],
        ),
        (
            "--write-with-vmsplice --chunk 64K",
            ["--chunk", "--write-with-vmsplice"],
        ),
        ("--same-buffer", ["--same-buffer", "--write-with-vmsplice"]),
        ("--wait block --busy-loop", ["--wait", "--busy-loop"]),
        ("--wait spin --poll", ["--wait", "--poll"]),
        ("--wait adaptive --busy-loop --poll", ["--wait", "spin"]),
        ("--memory 128K --chunk 128K", ["--memory", "two chunks"]),
        ("--memory 256K", ["--memory", "two chunks"]),
        ("--memory 0", ["--memory", "two chunks"]),
        ("--buf-size 0", ["--buf-size", "0"]),
        ("--memory 2M --chunk 0", ["--chunk", "0"]),
        ("--verify --data constant", ["--verify", "--data words"]),
        (
            "--verify --dont-touch-pages",
            ["--dont-touch-pages", "words"],
        ),
        (
            "--bytes-to-pipe 1M --seconds 1",
            ["--seconds", "--bytes-to-pipe"],
        ),
        ("--json=FILE --csv", ["--json", "--csv"]),
        ("--json", ["--json needs a file", "--json=FILE"]),
    ] {
        assert_refused(&mut fullbore(&format!("write {options}")), &words);
    }
}

#[test]
fn readers_options_that_contradict_each_other_are_refused() {
    for (options, words) in [
        ("--read-with-splice --sum", ["--read-with-splice", "--sum"]),
        (
            "--huge-page --check-huge-page --dont-touch-pages",
            ["--check-huge-page", "--dont-touch-pages"],
        ),
        ("--wait poll --busy-loop", ["--wait", "--busy-loop"]),
        ("--chunk 0", ["--chunk", "0"]),
        (
            "--bytes-to-pipe 1M --seconds 1",
            ["--seconds", "--bytes-to-pipe"],
        ),
        (
            "--read-with-splice --through-pipe --verify",
            ["--through-pipe", "--verify"],
        ),
    ] {
        let (source, sink) = pipe();
        let mut command = fullbore(&format!("read {options}"));
        assert_refused(command.stdin(source), &words);
        drop(sink);
    }
}

#[test]
fn options_that_say_the_same_twice_are_no_contradiction() {
    for options in [
        "--wait spin --busy-loop",
        "--wait poll --poll",
        "--busy-loop --poll --wait spin",
        "--write-with-vmsplice --pipe-size 128K",
    ] {
        assert_eq!(written(&format!("{options} --bytes-to-pipe 9")), [b'X'; 9]);
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_named() {
    for verb in ["write", "read"] {
        for (options, word) in [
            ("--buf-size 1Q", "1Q"),
            ("--buf-size -1", "-1"),
            ("--buf-size=", "buf-size"),
            ("--bytes-to-pipe 99999999999999999999G", "9999999"),
            ("--pipe-size huge", "huge"),
            ("--seconds 0", "0"),
            ("--seconds nan", "nan"),
            ("--seconds -1", "-1"),
            ("--wait never", "never"),
            ("--data noise", "noise"),
            ("--cpu one", "one"),
            ("--cpu 1023", "CPU 1023"),
            ("--cpu 99999999", "CPU 99999999"),
            ("--turbo", "--turbo"),
            ("--busy__loop", "--busy__loop"),
            ("stray", "stray"),
        ] {
            assert_refused(&mut fullbore(&format!("{verb} {options}")), &[word]);
        }
    }
    assert_refused(&mut fullbore("polish"), &["polish"]);
}

#[test]
fn memory_that_no_machine_has_is_an_error_in_one_line() {
    let output = run("write --buf-size 1000000000G");
    assert!(!output.status.success());
    one_line(stderr(&output));
}

#[test]
fn a_cpu_that_is_there_is_run_on() {
    let cpu = rustix::thread::sched_getcpu();
    let (writer, reader) = pipeline(
        &format!("--bytes-to-pipe 1M --json=/dev/stderr --cpu {cpu}"),
        &format!("--json --cpu {cpu}"),
    );
    assert_eq!(endpoint(stderr(&writer)).cpu, Some(cpu));
    assert_eq!(endpoint(stdout(&reader)).cpu, Some(cpu));
}

#[test]
fn without_a_verb_there_is_help_and_code_2() {
    let output = finish(start(&mut fullbore("")));
    assert_code(&output, 2);
    assert!(stderr(&output).contains("Usage: fullbore"));
    for words in [
        "--help",
        "--version",
        "write --help",
        "read --help",
        "bench --help",
    ] {
        let output = run(words);
        assert_quiet_success(&output);
        assert!(!output.stdout.is_empty());
        // This corresponds to `fullbore --help | head -1`.
        let output = finish(start(fullbore(words).stdout(nobody_reads())));
        assert_quiet_success(&output);
    }
}

#[test]
fn the_help_documents_the_exit_codes() {
    let help = run("--help");
    for code in ["0 done", "1 ", "2 ", "3 "] {
        assert!(stdout(&help).contains(code), "{code}");
    }
}

// Tests with other programs at the other end.

#[test]
fn a_reader_copes_with_an_odd_writer() {
    // The bytes are written in pieces of different sizes, as other programs write.
    let mut bytes = written("--verify --bytes-to-pipe 100003");
    for options in ["--verify", "--verify --read-with-splice --wait spin"] {
        let (source, mut sink) = pipe();
        let words = format!("read --json {options}");
        let reading = start(fullbore(&words).stdin(source));
        let mut rest = &bytes[..];
        for length in [1, 2, 4093, 1, 5000, 77].into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(length.min(rest.len()));
            sink.write_all(now).unwrap();
            rest = later;
        }
        drop(sink);
        let output = finish(reading);
        assert_quiet_success(&output);
        let report = endpoint(stdout(&output));
        assert_eq!(report.bytes, bytes.len() as u64);
        assert_eq!(report.verified, Some(true));
    }
    bytes[50_000] ^= 1;
    assert_code(&read("--verify", &bytes), 1);
}

#[test]
fn nonblocking_fds_are_polled() {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    for options in ["", "--read-with-splice", "--wait poll", "--wait adaptive"] {
        let (source, sink) = pipe();
        let both = [
            std::os::fd::AsFd::as_fd(&source),
            std::os::fd::AsFd::as_fd(&sink),
        ];
        for fd in both {
            // Another program that shares the pipe may have done this.
            fcntl_setfl(fd, fcntl_getfl(fd).unwrap() | OFlags::NONBLOCK).unwrap();
        }
        let write = "--bytes-to-pipe 3M --verify";
        let read = format!("--json --verify {options}");
        let (reading, writing) = start_pipeline(write, sink, &read, source);
        assert_quiet_success(&finish(writing));
        let output = finish(reading);
        assert_quiet_success(&output);
        assert_eq!(endpoint(stdout(&output)).bytes, 3 << 20, "{options}");
    }
}

#[test]
fn endpoints_are_told_apart_from_their_data() {
    // The messages of a writer must never get into the stream.
    let mut command = fullbore("write --json=/dev/stderr --verbose --bytes-to-pipe 3");
    let output = finish(start(command.stdout(Stdio::piped())));
    assert_eq!(output.stdout, b"XXX");
}

#[test]
fn seconds_end_a_reader_whose_writer_is_idle() {
    // Its time may be over before it gets a CPU.
    wait_for("its bytes in this time", || {
        let (source, mut sink) = pipe();
        sink.write_all(b"some").unwrap();
        let reading = start(fullbore("read --json --seconds 0.2").stdin(source));
        let output = finish(reading);
        drop(sink);
        assert_quiet_success(&output);
        (endpoint(stdout(&output)).bytes == 4).then_some(())
    });
}

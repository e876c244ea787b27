//! Tests of `fullbore buffer`: every output gets every byte, the options are those of mbuffer, and what is
//! wrong is refused before the first byte. Where mbuffer is installed, the outcomes are compared.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::sync::may_trace;
use crate::common::*;
use fullbore::PipeEnd;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How many bytes `big` has.
const BIG: usize = 400_000 * 8;

fn big() -> &'static [u8] {
    numbers(400_000)
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), "hello\n").unwrap();
    std::fs::write(directory.path().join("big"), big()).unwrap();
    directory
}

/// Runs a line of bash in the directory, where `$B` is `buffer`.
fn with_buffer(directory: &TempDir, buffer: &str, line: &str) -> Output {
    let mut command = bash(directory, &format!("set -o pipefail; {line}"));
    finish(start(
        command.env("B", buffer).env("TMPDIR", directory.path()),
    ))
}

/// mbuffer without a terminal, on which it would ask what to do about a full volume.
const THEIRS: &str = "setsid -w mbuffer";

fn ours() -> String {
    format!("{FULLBORE} buffer")
}

fn content(directory: &TempDir, name: &str) -> Vec<u8> {
    std::fs::read(directory.path().join(name)).unwrap()
}

fn has_mbuffer() -> bool {
    let has = output_of(Command::new("mbuffer").arg("-V")).is_ok();
    if !has {
        skipped("a comparison with mbuffer: it is not installed");
    }
    has
}

#[test]
fn it_needs_no_proc() {
    for words in ["buffer -q -m 1M", "buffer -q"] {
        let Some(output) = run_without("/proc", words) else {
            return;
        };
        assert_quiet_success(&output);
    }
}

#[test]
fn every_output_gets_every_byte_whatever_the_options() {
    let dir = directory();
    for options in [
        "",
        "-m 64k",
        "-m 16M",
        "-m 10%",
        "-s 4k -b 16",
        "-s 100k -m 1M",
        "-P 50 -m 1M",
        "-p 50 -m 128k",
        "-P 80 -p 20 -m 128k",
        "-t -m 1M",
        "-T file -m 256k",
        "-r 100M -R 100M",
        "-u 1",
        "-c",
        "-e",
        "-W 100",
        "-q -m 1M -m 2M -P 100 -P 1",
        "-v 3 -Q --no-direct --keep-input",
    ] {
        for line in [
            format!("$B -q {options} < big"),
            format!("cat big | $B -q {options} | cat"),
            format!("$B -q {options} -i big -o -"),
            format!("cat big | $B -q {options} -f -o x -o - -o y && cmp x big && cmp y big"),
        ] {
            let output = with_buffer(&dir, &ours(), &line);
            assert_quiet_success(&output);
            assert!(output.stdout == big(), "{line}");
        }
    }
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 4, "a, big, x and y: {names:?}");
}

/// Options and situations, with what both do: whether they succeed, what is printed, and the file x.
#[test]
fn files_that_exist_are_kept_replaced_or_appended_to_as_mbuffer_does() {
    let lines = [
        ("$B -o x < a", false, "before\n"),
        ("$B -f -o x < a", true, "hello\n"),
        ("$B -f --truncate -o x < a", true, "hello\n"),
        ("$B --append -o x < a", true, "before\nhello\n"),
        ("$B -o new --append -o x < a", true, "before\nhello\n"),
        ("$B --append -o new -o x < a", false, "before\n"),
        ("$B -o /dev/null < a", true, "before\n"),
        ("$B -o no/where < a", false, "before\n"),
        ("$B -i no/where -o x", false, "before\n"),
        ("$B -T x < a", false, "before\n"),
        ("$B -o /dev/full < big", false, "before\n"),
        ("$B -o /dev/full -o - < a", false, "before\n"),
    ];
    let buffers: &[String] = match has_mbuffer() {
        true => &[ours(), THEIRS.to_owned()],
        false => &[ours()],
    };
    for buffer in buffers {
        for (line, succeeds, x) in lines {
            let dir = directory();
            std::fs::write(dir.path().join("x"), "before\n").unwrap();
            let output = with_buffer(&dir, buffer, &line.replace("$B", "$B -q -m 1M"));
            let what = format!("{buffer}: {line}: {}", said(&output));
            assert_eq!(output.status.success(), succeeds, "{what}");
            assert_eq!(String::from_utf8(content(&dir, "x")).unwrap(), x, "{what}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line_as_mbuffer_does() {
    let dir = directory();
    let has_mbuffer = has_mbuffer();
    for (options, says) in [
        ("-m 0", "0 bytes"),
        ("-m 1x", "invalid size '1x'"),
        ("-m 1000000G", "does not fit"),
        ("-m 95%", "at most 90%"),
        ("-b 4", "5"),
        ("-s 0", "0 bytes"),
        ("-m 10k -s 4k", "fewer than five blocks"),
        ("-m 64k -s 4k -b 8", "is not 8 blocks"),
        ("-P 101", "invalid percentage '101'"),
        ("-P 0", "-P"),
        ("-P x", "invalid percentage 'x'"),
        ("-p 101", "invalid percentage '101'"),
        ("-P 50 -p 80", "-p 80 has to be below -P 50"),
        ("-P 50 -p 50", "-p 50 has to be below -P 50"),
        ("-R 0", "0 bytes"),
    ] {
        let line = format!("$B {options} -f -o x < a");
        let output = with_buffer(&dir, &ours(), &line);
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{line}");
        let said = one_line(stderr(&output));
        assert!(said.contains(says), "{line}: {said}");
        assert!(!dir.path().join("x").exists(), "{line}");
        if has_mbuffer {
            let theirs = with_buffer(&dir, THEIRS, &line);
            assert!(!theirs.status.success(), "{line}");
        }
    }
    for line in ["$B -i a -o a -f", "$B --append -o a < a"] {
        let output = with_buffer(&dir, &ours(), line);
        assert_code(&output, 2);
        assert!(one_line(stderr(&output)).contains("is both input and output"));
        assert_eq!(content(&dir, "a"), b"hello\n");
    }
}

#[test]
fn options_for_tapes_are_refused_with_what_to_use_instead() {
    let dir = directory();
    for (options, says) in [
        ("-n 3", "use mbuffer"),
        ("-a 5", "use mbuffer"),
        ("--tapeaware", "use mbuffer"),
        ("-A true", "use mbuffer"),
        ("-D 1G", "use mbuffer"),
    ] {
        let output = with_buffer(&dir, &ours(), &format!("$B {options} < a"));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty());
        let said = one_line(stderr(&output));
        let option = options.split(' ').next().unwrap();
        assert!(said.contains(&format!("{option} is not offered")), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn an_output_that_fails_leaves_the_others_complete() {
    let dir = directory();
    let buffers = match has_mbuffer() {
        true => vec![ours(), THEIRS.to_owned()],
        false => vec![ours()],
    };
    for buffer in buffers {
        for failing in ["/dev/full", ">(head -c 1 > /dev/null)"] {
            // More than a pipe of 256 slots can hold, up to 32 KiB in each, while head has not begun yet.
            let line = format!("cat big big big big | $B -q -m 1M -o {failing} -o -");
            let output = with_buffer(&dir, &buffer, &line);
            assert!(!output.status.success(), "{buffer}: {line}");
            assert!(output.stdout == big().repeat(4), "{buffer}: {line}");
        }
    }
    let output = with_buffer(&dir, &ours(), "$B -q -o /dev/full -o - < big");
    assert_code(&output, 1);
    let said = one_line(stderr(&output));
    assert!(said.contains("write to '/dev/full': No space left on device"));
    // With -e, the first error ends it.
    let output = with_buffer(&dir, &ours(), "$B -q -e -o /dev/full -o - < big");
    assert_code(&output, 1);
    one_line(stderr(&output));
}

#[test]
fn a_reader_of_stdout_that_has_enough_is_no_error() {
    let dir = directory();
    let output = with_buffer(&dir, &ours(), "($B -q < big; echo $? >&2) | head -c 5");
    assert_eq!(output.stdout, big()[..5]);
    assert_eq!(stderr(&output), "0\n");
}

#[test]
fn a_digest_keeps_no_buffer_alive_whose_outputs_are_gone() {
    let dir = directory();
    let full = "fullbore buffer: write to '/dev/full': No space left on device\n";
    for (line, says) in [
        ("yes | $C -q --md5 | head -c 1 > /dev/null", "0\n"),
        (
            "mkfifo f; exec 3<> f; $C -q --md5 < f | true & echo >&3; wait",
            "0\n",
        ),
        ("yes | $C -q --md5 -o /dev/full", &format!("{full}1\n")),
        // One is left.
        (
            "cat big big | $C -q --md5 -o /dev/full -o out; cmp -n 3200000 big out",
            &format!("{full}MD5 hash: 3d00d92ba2cb6bf5baa7d409dc862d19\n1\n"),
        ),
    ] {
        let line = format!(
            "c() {{ $B \"$@\"; echo $? >&2; }}; {}",
            line.replace("$C", "c")
        );
        let output = with_buffer(&dir, &ours(), &line);
        assert_eq!(stderr(&output), says, "{line}");
    }
}

#[test]
fn failures_end_with_1_as_the_documentation_says() {
    let dir = directory();
    for (line, says) in [
        ("$B -q -i nofile", "open 'nofile'"),
        ("$B -q -o no/x", "open 'no/x'"),
        ("$B -q --atomic -o no/x", "to replace 'no/x'"),
        ("$B -q -o /dev/full", "write to '/dev/full'"),
        ("$B -q > /dev/full", "write to stdout"),
        ("$B -q >&-", "standard output is closed"),
        // Nobody listens at port 1.
        ("$B -q -O 127.0.0.1:1", "connect to 127.0.0.1:1"),
        ("$B -q -T a", "create the buffer's file 'a'"),
        ("$B -q -l no/log", "open the log 'no/log'"),
        (
            "$B -q --json=/dev/full > out",
            "write the report to '/dev/full'",
        ),
    ] {
        let output = with_buffer(&dir, &ours(), &format!("{line} < a"));
        assert_code(&output, 1);
        let said = one_line(stderr(&output));
        assert!(said.contains(says), "{line}: {said}");
    }
}

#[test]
fn the_end_is_summed_up_on_stderr_or_in_the_log() {
    let dir = directory();
    let all = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("summary: 3.05 MiB in "), "{text}");
        assert!(lines[1].starts_with("buffer: 1 MiB, at most "), "{text}");
        assert!(lines[2].contains("A larger buffer "), "{text}");
    };
    let output = with_buffer(&dir, &ours(), "$B -m 1M < big");
    assert_code(&output, 0);
    all(stderr(&output));
    for (options, has_summary) in [("", true), ("-q", true), ("-Q", false)] {
        let line = format!("$B -m 1M -l log {options} < big");
        assert_quiet_success(&with_buffer(&dir, &ours(), &line));
        let log = String::from_utf8(content(&dir, "log")).unwrap();
        match has_summary {
            // Lines of a log begin with the time of day.
            true => all(&log
                .lines()
                .map(|line| format!("{}\n", &line["00:00:00 ".len()..]))
                .collect::<String>()),
            false => assert_eq!(log, ""),
        }
    }
    let output = with_buffer(&dir, &ours(), "$B -q --report -m 1M < big");
    assert!(stderr(&output).starts_with("buffer: 1 MiB"));
    // Errors are in the log too.
    let output = with_buffer(&dir, &ours(), "$B -q -l log -o /dev/full < big");
    assert_code(&output, 1);
    assert!(output.stderr.is_empty());
    let log = String::from_utf8(content(&dir, "log")).unwrap();
    assert!(log.contains("write to '/dev/full'"), "{log}");
    let output = with_buffer(&dir, &ours(), "$B -l log -i no/where");
    assert_code(&output, 1);
    let log = String::from_utf8(content(&dir, "log")).unwrap();
    assert!(log.contains("open 'no/where'"), "{log}");
}

#[test]
fn a_log_that_cannot_be_written_is_an_error_and_the_data_are_complete() {
    let dir = directory();
    let says = "fullbore buffer: write the log '/dev/full': No space left on device";
    for (options, lines) in [
        ("-q", vec!["summary: ", "buffer: ", "A larger"]),
        ("-Q", vec![]),
        ("-Q --md5", vec![" hash: "]),
        // What the log does not take is on stderr, errors too.
        ("-Q -o /dev/full", vec!["write to '/dev/full'"]),
        ("-Q --pid --hash=xxh3 -o other", vec!["PID is", " hash: "]),
    ] {
        let line = format!("$B {options} -l /dev/full -o - -f < big > out");
        let output = with_buffer(&dir, &ours(), &line);
        let said: Vec<&str> = stderr(&output).lines().collect();
        match lines.is_empty() {
            // Nothing was to be written.
            true => assert_quiet_success(&output),
            false => {
                assert_code(&output, 1);
                assert_eq!(said[0], says, "{line}");
                assert_eq!(said.len(), 1 + lines.len(), "{line}: {said:#?}");
            }
        }
        for (said, expected) in said.iter().skip(1).zip(&lines) {
            assert!(said.contains(expected), "{line}: {said}");
        }
        assert!(content(&dir, "out") == big(), "{line}");
    }
}

#[test]
fn the_report_is_also_json() {
    let dir = directory();
    let output = with_buffer(
        &dir,
        &ours(),
        "$B -m 1M -q --json=/dev/stderr -o /dev/full -o - < big",
    );
    assert_code(&output, 1);
    let text = &stderr(&output)[stderr(&output).find('{').unwrap()..];
    let report: Value = json(text);
    assert_eq!(report["bytes"], BIG);
    assert_eq!(report["memory"], 1 << 20);
    assert_eq!(report["outputs"][0]["name"], "'/dev/full'");
    assert_eq!(report["outputs"][0]["bytes"], 0);
    let error = report["outputs"][0]["error"].as_str().unwrap();
    assert!(error.contains("No space left"), "{error}");
    assert_eq!(report["outputs"][1]["bytes"], BIG);
    assert!(report["outputs"][1]["error"].is_null());
    for key in ["empty", "full"] {
        assert!(report[key]["times"].is_u64() && report[key]["seconds"].is_f64());
    }
    for key in ["seconds", "could_save_seconds"] {
        assert!(report[key].is_f64(), "{key}");
    }
    for key in ["slow", "verdict"] {
        assert!(report[key].is_string(), "{key}");
    }
    assert!(report["levels"].is_array() && report["most"].is_u64());
}

/// Bytes of memory that a process has of its own.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
fn memory_is_taken_as_it_fills_and_given_back_as_it_empties() {
    const MIB: u64 = 1 << 20;
    let ((stdin, mut writer), (mut reader, stdout)) = (pipe(), pipe());
    let mut command = fullbore("buffer -q -m 64M");
    let mut child = start(command.stdin(stdin).stdout(stdout));
    drop(command);
    let pid = child.id();
    let before = wait_for("the start", || {
        Some(resident(pid)).filter(|&bytes| bytes > 0)
    });
    assert!(before < 20 * MIB, "{before}");
    let bytes = vec![7; 60 << 20];
    // All of it goes in although nobody reads.
    writer.write_all(&bytes).unwrap();
    wait_for("all to be read", || {
        let queued = fullbore_linux::pipe::of(&writer)
            .unwrap()
            .unwrap()
            .queued()
            .unwrap();
        (queued == 0).then_some(())
    });
    let full = resident(pid);
    assert!((50 * MIB..90 * MIB).contains(&full), "{full}");
    let mut all = vec![0; bytes.len()];
    reader.read_exact(&mut all).unwrap();
    assert!(all == bytes);
    wait_for("the memory to be given back", || {
        (resident(pid) < before + 12 * MIB).then_some(())
    });
    drop(writer);
    assert_eq!(reader.read(&mut all).unwrap(), 0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn memory_is_locked_or_a_warning_says_why_not() {
    let everybody = users::ForEverybody::new();
    let users: &[Option<u32>] = match is_root() {
        true => &[None, Some(users::nobody_else(9))],
        false => &[None],
    };
    for user in users {
        let ((stdin, mut writer), (mut reader, stdout)) = (pipe(), pipe());
        let words = "buffer -q -L -m 64M";
        let mut command = match user {
            Some(user) => everybody.command(*user, words),
            None => fullbore(words),
        };
        let child = start(command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()));
        drop(command);
        writer.write_all(b"a").unwrap();
        reader.read_exact(&mut [0]).unwrap();
        let status = format!("/proc/{}/status", child.id());
        let locked = || {
            let status = std::fs::read_to_string(&status).ok()?;
            let line = status.lines().find(|line| line.starts_with("VmLck:"))?;
            let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            (kib >= 64 << 10).then_some(())
        };
        // It is locked soon after the start. Without the permission, it never is.
        for _ in 0..100 {
            if locked().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_locked = locked().is_some();
        drop(writer);
        let output = finish(child);
        assert_code(&output, 0);
        match is_locked {
            true => assert_eq!(stderr(&output), ""),
            false => {
                let said = one_line(stderr(&output));
                assert!(said.contains("the memory cannot be locked: "), "{said}");
            }
        }
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn locked_memory_leaves_what_is_mapped_later_to_its_limit() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    // With MCL_FUTURE, mmap(2) fails with EAGAIN beyond RLIMIT_MEMLOCK, in the middle of a stream too.
    for (inject, says) in [("", 0), ("-e inject=mlockall:error=ENOMEM", 1)] {
        let line = format!(
            "(cat big; sleep 0.3) | strace -f -o trace -e trace=mlockall {inject} $B -q -L"
        );
        let output = with_buffer(&dir, &ours(), &line);
        assert_code(&output, 0);
        assert!(output.stdout == big());
        assert!(
            stderr(&output).lines().count() >= says,
            "{}",
            stderr(&output)
        );
        let trace = String::from_utf8(content(&dir, "trace")).unwrap();
        let locks: Vec<&str> = trace
            .lines()
            .filter(|line| line.contains("mlockall("))
            .collect();
        assert_eq!(locks.len(), 1, "{trace}");
        assert!(!locks[0].contains("MCL_FUTURE"), "{trace}");
    }
}

#[test]
fn a_byte_is_passed_on_at_once() {
    let ((stdin, mut writer), (mut reader, stdout)) = (pipe(), pipe());
    let mut command = fullbore("buffer -q");
    let child = start(command.stdin(stdin).stdout(stdout));
    drop(command);
    for byte in 0..50 {
        writer.write_all(&[byte]).unwrap();
        let mut arrived = [0];
        reader.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived, [byte]);
    }
    drop(writer);
    assert_quiet_success(&finish(child));
}

#[test]
fn a_full_disk_under_the_buffer_is_one_clear_line() {
    let dir = directory();
    let mount = "mount -t tmpfs -o size=1M none /mnt";
    let mut tried = Command::new("unshare");
    tried.args(["--mount", "--map-root-user", "sh", "-c", mount]);
    if !output_of(&mut tried).is_ok_and(|output| output.status.success()) {
        skipped("a full disk: this user may not mount one");
        return;
    }
    for options in ["-t", "-T /mnt/file"] {
        let line = format!("{mount}; TMPDIR=/mnt $B -q -m 8M {options} < a; echo $?; ls /mnt");
        let output = with_buffer(
            &dir,
            &ours(),
            &format!("unshare --mount --map-root-user sh -c '{line}'"),
        );
        let said = one_line(stderr(&output));
        assert!(
            said.contains("needs 8 MiB: No space left on device"),
            "{said}"
        );
        assert_eq!(stdout(&output), "1\n");
    }
}

#[test]
fn a_digest_that_fails_is_an_error_and_no_panic() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    // Only the digest is written to by splice(2): stdout is a file.
    let traced = "strace -f -o /dev/null -e trace=splice -e inject=splice:error=EFAULT";
    for (options, says) in [
        ("-t", "cannot be read or written"),
        (
            "-T file",
            "the buffer's file 'file' cannot be read or written",
        ),
        ("", "fullbore buffer: compute the digest: "),
    ] {
        let line = format!("{traced} $B -q {options} -m 1M --md5 < big > out");
        let output = with_buffer(&dir, &ours(), &line);
        assert_code(&output, 1);
        let said = stderr(&output);
        assert!(said.contains(says) && !said.contains("hash"), "{said}");
    }
}

#[test]
fn the_watchdog_ends_a_side_that_has_stalled() {
    let (stdin, _writer) = pipe();
    let output = finish(start(fullbore("buffer -q -W 1").stdin(stdin)));
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("watchdog: the input has stalled"));

    let (stdout, _reader) = full_pipe();
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let mut command = fullbore("buffer -q -m 64K -W 1");
    let output = finish(start(command.stdin(zeros).stdout(stdout)));
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("watchdog: the output has stalled"));
}

/// A pipe that has no room, and its reader.
fn full_pipe() -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
    let fullbore::Pipe { reader, writer, .. } = fullbore::Pipe::new().unwrap();
    let capacity = PipeEnd::new(writer.as_fd()).unwrap().capacity().unwrap();
    rustix::io::write(&writer, &vec![0; capacity]).unwrap();
    (writer, reader)
}

#[test]
fn a_named_output_without_a_reader_is_an_error() {
    let dir = directory();
    let line = "$B -q -e -m 64K -i big -o >(head -c 1 >/dev/null) -o out; echo $?";
    let output = with_buffer(&dir, &ours(), line);
    assert_eq!(stdout(&output), "1\n");
    let said = one_line(stderr(&output));
    assert!(
        said.contains("/dev/fd/") && said.contains("Broken pipe"),
        "{said}"
    );
}

#[test]
fn what_a_program_reads_is_not_lost_in_silence() {
    let dir = directory();
    let output = with_buffer(&dir, &ours(), "$B -m 64K -q --json=/dev/full < a; echo $?");
    assert_eq!(stdout(&output), "hello\n1\n");
    let said = one_line(stderr(&output));
    assert!(
        said.contains("/dev/full'") && said.contains("No space left"),
        "{said}"
    );
    let output = with_buffer(
        &dir,
        &ours(),
        "$B -m 64K -q --json=/dev/stderr < a 2>/dev/full; echo $?",
    );
    assert_eq!(stdout(&output), "hello\n1\n");
}

#[test]
fn blocks_of_no_bytes_are_refused_before_an_output_is_replaced() {
    let dir = directory();
    let output = with_buffer(&dir, &ours(), "$B -m 64K -b 100000 -f -o a < big; echo $?");
    assert_eq!(stdout(&output), "2\n");
    assert!(one_line(stderr(&output)).contains("the 100000 blocks of -b"));
    assert_eq!(content(&dir, "a"), b"hello\n");
}

/// Starts `fullbore write | fullbore buffer | fullbore read`, and kills one of the three after `time`.
fn kill_one(options: &str, killed: usize, time: Duration) {
    let ((stdin, writer), (reader, stdout)) = (pipe(), pipe());
    let reading = start(fullbore("read --json --verify --bytes-to-pipe 100G").stdin(reader));
    let moving = start(fullbore(options).stdin(stdin).stdout(stdout));
    let writing = start(fullbore("write --verify --bytes-to-pipe 100G").stdout(writer));
    let all = [writing, moving, reading];
    std::thread::sleep(time);
    let pid = Pid::from_child(&all[killed]);
    kill_process(pid, Signal::KILL).unwrap();
    let [writing, moving, reading] = all.map(finish);
    let what = format!("{options}, {killed} killed after {time:?}");
    if killed != 1 {
        assert_quiet_success(&moving);
    }
    if killed != 2 && !reading.stdout.is_empty() {
        // It got the first bytes, and all of them were right.
        let report = endpoint(crate::common::stdout(&reading));
        assert_ne!(report.verified, Some(false), "{what}");
    }
    let _ = writing;
}

#[test]
fn whichever_process_is_killed_the_others_end_and_no_byte_is_wrong() {
    let dir = directory();
    for (i, options) in ["buffer -q", "buffer -q -m 256k", "buffer -q -t -m 8M"]
        .into_iter()
        .enumerate()
    {
        for killed in 0..3 {
            let time = fastrand::u64(1..80) + 10 * i as u64;
            kill_one(options, killed, Duration::from_millis(time));
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn the_pipe_on_stdin_of_a_long_stream_grows_unless_it_is_to_be_kept() {
    let lines = [
        ("buffer -q", true),
        ("buffer -q --keep-input", false),
        ("copy", true),
        ("copy --pipe-size 0", false),
        ("tee", true),
        ("tee --pipe-size 0", false),
        ("meter -q", true),
        ("parallel cat", true),
    ];
    if std::fs::read_dir("/proc").unwrap().count() > 400 {
        skipped("pipes that grow: there are many processes to look at");
        return;
    }
    for (line, grows) in lines {
        let (stdin, writer) = pipe();
        let watched = stdin.try_clone().unwrap();
        let capacity = || {
            fullbore_linux::pipe::of(&watched)
                .unwrap()
                .unwrap()
                .capacity()
                .unwrap()
        };
        let before = capacity();
        if before >= 1 << 20 {
            skipped("a pipe that grows: pipes are large here already");
            return;
        }
        let mover = start(fullbore(line).stdin(stdin).stdout(Stdio::null()));
        // dd is known to send by write(2).
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=64K", "status=none"])
            .stdout(writer);
        let mut dd = start(&mut dd);
        match grows {
            true => wait_for("the pipe to grow", || (capacity() > before).then_some(())),
            false => std::thread::sleep(Duration::from_millis(300)),
        }
        if !grows {
            assert_eq!(capacity(), before);
        }
        dd.kill().unwrap();
        dd.wait().unwrap();
        assert!(watched.as_fd().try_clone_to_owned().is_ok());
        drop(watched);
        assert_quiet_success(&finish(mover));
    }
}

#[test]
fn a_mover_looks_through_proc_at_most_once_while_bytes_flow() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    let calls = "trace=openat,read,preadv2,splice";
    for verb in ["buffer -q --log 9", "copy", "meter -q", "tee"] {
        for sink in ["> /dev/null", "| cat > /dev/null"] {
            let traced = format!("strace -f -qq -o trace -e {calls} {FULLBORE} {verb}");
            let line = format!("head -c 80M /dev/zero | {traced} {sink}");
            assert_code(&with_buffer(&dir, "", &line), 0);
            let trace = content(&dir, "trace");
            let trace = String::from_utf8_lossy(&trace);
            // The first bytes are those of /dev/zero.
            let flows = |line: &&str| line.contains(r#""\0\0\0\0"#) || line.contains("splice(");
            let flowing: Vec<&str> = trace.lines().skip_while(|line| !flows(line)).collect();
            assert!(flowing.len() > 1, "{verb} {sink}: {trace}");
            let looks = flowing.iter().filter(|line| line.contains(r#""/proc","#));
            // buffer has looked before the first byte.
            let most = usize::from(!verb.starts_with("buffer"));
            assert!(looks.count() <= most, "{verb} {sink}: {trace}");
        }
    }
}

/// Lines of bash in which each verb that has --log takes a while.
const LOGGED: [&str; 7] = [
    "$B copy --log 0.1 big > out",
    "(cat big; sleep 0.3) | $B copy --log 0.1 > out",
    "(cat big; sleep 0.3) | $B meter -q --log 0.1 > out",
    "(cat big; sleep 0.3) | $B buffer -q --log 0.1 > out",
    "$B run --log 0.1 '(cat big; sleep 0.3) | cat > out'",
    "$B run --log 0.1 --size $(stat -c %s big) 'cat big | (cat; sleep 0.3) > out'",
    "(cat big; sleep 0.3) | $B parallel --log 0.1 --size $(stat -c %s big) cat > out",
];

#[test]
fn plain_lines_about_the_progress_begin_with_the_time() {
    let dir = directory();
    for line in LOGGED {
        let output = with_buffer(&dir, FULLBORE, line);
        assert_code(&output, 0);
        assert!(content(&dir, "out") == big(), "{line}");
        let text = stderr(&output);
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.contains(" 3.05 MiB ") && last.contains("done"),
            "{line}: {text}"
        );
        let is_known = line.contains("--size");
        assert!(!is_known || last.contains(" 100% "), "{line}: {text}");
        for line in text.lines() {
            let time: Vec<&str> = line.split(' ').next().unwrap().split(':').collect();
            let is_number = |part: &&str| part.len() == 2 && part.parse::<u8>().is_ok();
            assert!(time.len() == 3 && time.iter().all(is_number), "{text}");
            assert!(!line.contains('\x1b') && !line.contains('\r'), "{text:?}");
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let dir = directory();
    for line in LOGGED {
        // Full; closed; a pipe without a reader.
        for stderr in ["2> /dev/full", "2>&-", "2> >(exec sleep 0)"] {
            let line = format!("({line}) {stderr}");
            assert_quiet_success(&with_buffer(&dir, FULLBORE, &line));
            assert!(content(&dir, "out") == big(), "{line}");
        }
    }
}

#[test]
fn nothing_wakes_an_idle_buffer_that_shows_nothing() {
    let dir = directory();
    for options in ["", "--json=report", "--hash md5", "--sync -o out", "-L"] {
        let ((from, to_buffer), (from_buffer, to)) = (pipe(), pipe());
        let mut command = fullbore(&format!("buffer -q {options}"));
        let child = start(command.stdin(from).stdout(to).current_dir(&dir));
        drop(command);
        // The main thread sleeps in poll(2) without a timeout (proc_pid_syscall(5)).
        let polls = match cfg!(target_arch = "x86_64") {
            true => "271",
            false => "73",
        };
        let path = format!("/proc/{}/syscall", child.id());
        let sleeps = || {
            wait_for("a sleep without a timeout", || {
                let call = std::fs::read_to_string(&path).unwrap();
                let words: Vec<&str> = call.split_whitespace().collect();
                (words[0] == polls && words[3] == "0x0").then_some(())
            });
        };
        sleeps();
        let mut input = to_buffer;
        input.write_all(b"hello").unwrap();
        match options.contains("-o") {
            true => wait_for("the output", || {
                std::fs::read(dir.path().join("out"))
                    .is_ok_and(|out| out == b"hello")
                    .then_some(())
            }),
            false => {
                let mut five = [0; 5];
                (&from_buffer).read_exact(&mut five).unwrap();
                assert_eq!(&five, b"hello");
            }
        }
        sleeps();
        drop(input);
        assert_code(&finish(child), 0);
    }
}

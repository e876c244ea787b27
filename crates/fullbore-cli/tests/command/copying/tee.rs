//! Tests of `fullbore tee`: it behaves like tee, and is compared with the tee of this machine.

use std::io::Write;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn big() -> &'static [u8] {
    numbers(400_000)
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), "hello\n").unwrap();
    std::fs::write(directory.path().join("big"), big()).unwrap();
    directory
}

/// Runs a line of bash in the directory, where `$TEE` is `tee`.
fn with_tee(directory: &TempDir, tee: &str, line: &str) -> Output {
    finish(start(bash(directory, line).env("TEE", tee)))
}

fn ours() -> String {
    format!("{FULLBORE} tee")
}

fn content(directory: &TempDir, name: &str) -> Vec<u8> {
    std::fs::read(directory.path().join(name)).unwrap()
}

/// Returns whether the system's tee is GNU tee and supports `--output-error`.
fn has_gnu_tee() -> bool {
    let help = output_of(Command::new("tee").arg("--help"));
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("warn-nopipe"))
}

#[test]
fn every_output_gets_every_byte() {
    let dir = directory();
    for line in [
        "$TEE x y < big",
        "cat big | $TEE x y",
        "cat big | $TEE x >(cat > y) | cat",
    ] {
        let output = with_tee(&dir, &ours(), line);
        assert_quiet_success(&output);
        assert!(output.stdout == big(), "{line}");
        assert!(content(&dir, "x") == big(), "{line}");
        // The process that writes to y in the last line may end after the pipeline.
        wait_for(line, || (content(&dir, "y") == big()).then_some(()));
    }
}

#[test]
fn files_are_replaced_or_appended_to() {
    let dir = directory();
    let line = "$TEE big < a; $TEE -a big new < a; $TEE --append big < a; $TEE - < a";
    let output = with_tee(&dir, &ours(), line);
    assert_quiet_success(&output);
    assert_eq!(content(&dir, "big"), b"hello\n".repeat(3));
    assert_eq!(content(&dir, "new"), b"hello\n");
    assert_eq!(
        content(&dir, "-"),
        b"hello\n",
        "'-' is a name like any other"
    );
    assert_eq!(output.stdout, b"hello\n".repeat(4));
}

#[test]
fn a_file_that_cannot_be_opened_keeps_back_no_other() {
    let dir = directory();
    let output = with_tee(&dir, &ours(), "$TEE x no/where y < a");
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("open 'no/where': No such file"));
    assert_eq!(stdout(&output), "hello\n");
    assert_eq!(content(&dir, "x"), b"hello\n");
    assert_eq!(content(&dir, "y"), b"hello\n");
}

#[test]
fn an_output_that_is_the_input_is_refused_and_not_changed() {
    let dir = directory();
    for line in [
        "$TEE a < a",
        "$TEE -a a < a",
        "$TEE < a >> a",
        "$TEE x < a >> a",
    ] {
        let output = with_tee(&dir, &ours(), line);
        assert_code(&output, 2);
        assert!(
            one_line(stderr(&output)).contains("is both input and output"),
            "{line}"
        );
        assert_eq!(content(&dir, "a"), b"hello\n", "{line}");
    }
}

#[test]
fn a_command_line_that_is_wrong_is_one_line_and_code_2() {
    let dir = directory();
    for line in ["$TEE --output-error=never x < a", "$TEE --no-such x < a"] {
        let output = with_tee(&dir, &ours(), line);
        assert_code(&output, 2);
        one_line(stderr(&output));
        assert!(!dir.path().join("x").exists());
    }
}

/// Returns the result of one tee: its own exit code, whether it printed a message, and its files.
fn outcome(tee: &str, options: &str, rest: &str) -> (i32, bool, Vec<Vec<u8>>) {
    let dir = directory();
    let line = rest.replace("$TEE", &format!("{tee} {options}"));
    let output = with_tee(&dir, tee, &format!("{line}; sleep 0.05"));
    let code: i32 = String::from_utf8(content(&dir, "code"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let files = ["x", "y"].map(|name| std::fs::read(dir.path().join(name)).unwrap_or_default());
    (code, !output.stderr.is_empty(), files.into())
}

#[test]
fn each_mode_does_what_the_systems_tee_does() {
    if !has_gnu_tee() {
        return skipped("side by side with tee: there is no GNU tee here");
    }
    let situations = [
        // There is no error.
        "$TEE x y < big > /dev/null; echo $? > code",
        // The disk is full, for a file and for stdout.
        "$TEE x /dev/full y < big > /dev/null; echo $? > code",
        "$TEE x y < big > /dev/full; echo $? > code",
        // A file cannot be opened.
        "$TEE x no/where y < big > /dev/null; echo $? > code",
        // stdout has no reader, and a FIFO has no reader.
        "{ sleep 0.05; $TEE x y < big; echo $? > code; } | true",
        "$TEE x >(exec true) y < big > /dev/null; echo $? > code",
    ];
    for situation in situations {
        for options in [
            "",
            "-p",
            "--output-error",
            "--output-error=warn",
            "--output-error=warn-nopipe",
            "--output-error=exit",
            "--output-error=exit-nopipe",
        ] {
            let theirs = outcome("tee", options, situation);
            let ours = outcome(&ours(), options, situation);
            let what = format!("tee {options}: {situation}: {} and {}", theirs.0, ours.0);
            if theirs.0 == 128 + 13 {
                // The system's tee is ended by SIGPIPE. Ours ends without a message if the reader of
                // stdout has gone, and prints a message for any other reader.
                let of_stdout = situation.contains("| true");
                let expected = if of_stdout { (0, false) } else { (1, true) };
                assert_eq!((ours.0, ours.1), expected, "{what}");
                continue;
            }
            assert_eq!((ours.0, ours.1), (theirs.0, theirs.1), "{what}");
            if theirs.0 == 0 || !options.contains("=exit") {
                // How much the other outputs get before it stops may differ.
                assert!(ours.2 == theirs.2, "{what}");
            }
        }
    }
}

/// Returns whether the process has a handler for SIGINT (proc_pid_status(5)).
fn catches_interrupts(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn interrupts_can_be_ignored() {
    for (options, survives) in [("-i", true), ("--ignore-interrupts", true), ("", false)] {
        let (source, mut sink) = pipe();
        let running = start(fullbore(&format!("tee {options}")).stdin(source));
        let pid = Pid::from_child(&running);
        sink.write_all(b"before ").unwrap();
        if survives {
            wait_for("its handler", || catches_interrupts(pid).then_some(()));
        }
        for _ in 0..3 {
            let _ = kill_process(pid, Signal::INT);
            thread::sleep(Duration::from_millis(10));
        }
        let wrote = sink.write_all(b"after");
        drop(sink);
        let output = finish(running);
        assert_eq!(
            output.status.code() == Some(0),
            survives,
            "{}",
            said(&output)
        );
        if survives {
            wrote.unwrap();
            assert_eq!(stdout(&output), "before after");
        }
    }
}

#[test]
fn a_slow_reader_beside_it_gets_every_byte_too() {
    let dir = directory();
    let line = format!(
        "mkfifo f; {FULLBORE} read --verify --pause 300us --bytes-to-pipe 64M < f > slow & slow=$!; \
         {FULLBORE} write --write-with-vmsplice --verify --bytes-to-pipe 64M \
         | $TEE f | {FULLBORE} read --verify --bytes-to-pipe 64M > quick && wait $slow"
    );
    let output = with_tee(&dir, &ours(), &line);
    assert_code(&output, 0);
    assert!(
        content(&dir, "slow").ends_with(b"(64MiB piped)\n"),
        "{}",
        said(&output)
    );
    assert!(
        content(&dir, "quick").ends_with(b"(64MiB piped)\n"),
        "{}",
        said(&output)
    );
}

#[test]
fn closed_descriptors_are_neither_a_crash_nor_a_hang() {
    let dir = directory();
    for line in ["$TEE x <&-", "$TEE x < a >&-", "$TEE no/x < a 2>&-"] {
        let output = with_tee(&dir, &ours(), line);
        assert!(output.status.code().is_some_and(|code| code <= 1), "{line}");
    }
}

#[test]
fn an_output_that_is_the_input_is_refused_before_the_others_are_truncated() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("keep"), "kept").unwrap();
    std::fs::write(path("in"), "in").unwrap();
    let words = format!("tee {} {}", path("keep").display(), path("in").display());
    let stdin = std::fs::File::open(path("in")).unwrap();
    let output = finish(start(fullbore(&words).stdin(stdin)));
    assert_code(&output, 2);
    assert_eq!(std::fs::read(path("keep")).unwrap(), b"kept");
    assert_eq!(std::fs::read(path("in")).unwrap(), b"in");
}

#[test]
fn a_reader_of_another_pipe_that_goes_away_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let gone = fifo.clone();
    let reading = std::thread::spawn(move || drop(std::fs::File::open(gone).unwrap()));
    let source = std::fs::File::open("/dev/zero").unwrap();
    let words = format!("tee {}", fifo.display());
    let null = std::fs::File::create("/dev/null").unwrap();
    let output = finish(start(fullbore(&words).stdin(source).stdout(null)));
    reading.join().unwrap();
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("fifo"));
}

#[test]
fn an_output_that_failed_is_reported_although_the_reader_of_stdout_leaves() {
    let directory = directory();
    let line = "yes | $TEE /dev/full | head -n 1; echo ${PIPESTATUS[1]}";
    let output = with_tee(&directory, &ours(), line);
    assert_eq!(stdout(&output), "y\n1\n");
    let said = one_line(stderr(&output));
    assert!(
        said.contains("write to '/dev/full': No space left"),
        "{said}"
    );
}

/// Runs a tee whose stdin stays open and says nothing, and whose outputs have no reader.
fn without_readers(words: &str) -> Output {
    let (silent, _stays) = pipe();
    let mut command = fullbore(&format!("tee {words}"));
    command.stdin(silent).stdout(nobody_reads());
    finish(start(&mut command))
}

#[test]
fn it_ends_when_all_outputs_are_gone_although_nothing_comes_in() {
    for (mode, code) in [
        ("-p", 0),
        ("--output-error", 0),
        ("--output-error=warn-nopipe", 0),
        ("--output-error=exit-nopipe", 0),
        ("--output-error=warn", 1),
        ("--output-error=exit", 1),
    ] {
        let output = without_readers(mode);
        assert_code(&output, code);
        let said = match code {
            0 => "",
            _ => "fullbore tee: write to stdout: Broken pipe\n",
        };
        assert_eq!(stderr(&output), said, "{mode}");
    }
}

#[test]
fn a_null_device_that_was_opened_for_reading_is_an_error() {
    let dir = directory();
    for line in ["$TEE x < a 1< /dev/null", "cat a | $TEE x 1< /dev/null"] {
        let output = with_tee(&dir, &ours(), line);
        assert_code(&output, 1);
        let said = one_line(stderr(&output));
        assert!(
            said.contains("write to stdout: Bad file descriptor"),
            "{line}: {said}"
        );
        assert_eq!(content(&dir, "x"), b"hello\n");
    }
}

/// Its poll(2) never says that it can be written to.
#[test]
fn the_log_of_the_kernel_gets_its_bytes() {
    if std::fs::File::options()
        .write(true)
        .open("/dev/kmsg")
        .is_err()
    {
        return skipped("/dev/kmsg cannot be opened here");
    }
    let dir = directory();
    for line in [
        "echo '<7>a test of fullbore' | $TEE /dev/kmsg",
        "echo '<7>a test of fullbore' | ${TEE% tee} buffer -q -f -o /dev/kmsg -o -",
    ] {
        let output = with_tee(&dir, &ours(), line);
        assert_quiet_success(&output);
        assert_eq!(stdout(&output), "<7>a test of fullbore\n", "{line}");
    }
}

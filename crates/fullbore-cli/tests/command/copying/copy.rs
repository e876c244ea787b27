//! Tests of `fullbore copy`: it behaves like cat, and its messages, its exit codes, and its use
//! with other programs are right.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::*;
use fullbore_results::run::EndpointReport;
use tempfile::TempDir;

/// Makes a directory with `a` (hello), `b` (world) and `big`, which is larger than any pipe.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), "hello\n").unwrap();
    std::fs::write(directory.path().join("b"), "world\n").unwrap();
    std::fs::write(directory.path().join("big"), big()).unwrap();
    directory
}

fn big() -> &'static [u8] {
    numbers(400_000)
}

fn content(directory: &TempDir, name: &str) -> Vec<u8> {
    std::fs::read(directory.path().join(name)).unwrap()
}

/// Returns the output of a line of shell, which must succeed without messages.
#[track_caller]
fn assert_prints(directory: &TempDir, line: &str, expected: &[u8]) {
    let output = shell(directory, line);
    assert_quiet_success(&output);
    assert!(output.stdout == expected, "{line}: {}", said(&output));
}

// Tests that it behaves like cat.

#[test]
fn files_and_stdin_are_joined_in_order() {
    let dir = directory();
    for by in ["", "--by-reference"] {
        assert_prints(&dir, &format!("$FB copy {by} a"), b"hello\n");
        assert_prints(&dir, &format!("$FB copy {by} < a"), b"hello\n");
        assert_prints(&dir, &format!("$FB copy {by} - < a"), b"hello\n");
        assert_prints(
            &dir,
            &format!("echo x | $FB copy {by} a - b"),
            b"hello\nx\nworld\n",
        );
        assert_prints(
            &dir,
            &format!("echo x | $FB copy {by} - a -"),
            b"x\nhello\n",
        );
        assert_prints(
            &dir,
            &format!("$FB copy {by} a a b a"),
            b"hello\nhello\nworld\nhello\n",
        );
        assert_prints(&dir, &format!("$FB copy {by} /dev/null"), b"");
        assert_prints(&dir, &format!("$FB copy {by} big"), big());
        assert_prints(
            &dir,
            &format!("$FB copy {by} big | $FB copy {by} | cat"),
            big(),
        );
        assert_prints(
            &dir,
            &format!("$FB copy {by} big a > o; cat o"),
            &[big(), b"hello\n"].concat(),
        );
        assert_prints(
            &dir,
            &format!("$FB copy {by} < big | $FB copy {by} -o o; cat o"),
            big(),
        );
    }
}

#[test]
fn an_input_that_cannot_be_read_keeps_back_no_other() {
    let dir = directory();
    for (line, words) in [
        (
            "$FB copy a missing b",
            "open 'missing': No such file or directory",
        ),
        ("$FB copy a . b", "read from '.': Is a directory"),
        ("echo hello | $FB copy - missing b", "open 'missing'"),
        ("$FB copy missing a b", "open 'missing'"),
        ("$FB copy a b missing", "open 'missing'"),
        (
            "$FB copy a missing b | cat; $FB copy missing",
            "open 'missing'",
        ),
    ] {
        let output = shell(&dir, line);
        assert_code(&output, 1);
        assert_eq!(stdout(&output), "hello\nworld\n", "{line}");
        let said = stderr(&output).lines().next().unwrap();
        assert!(
            said.starts_with("fullbore copy: ") && said.contains(words),
            "{said}"
        );
    }
    let output = shell(&dir, "$FB copy < .");
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("read from stdin: Is a directory"));
}

#[test]
fn an_output_file_is_created_replaced_or_appended_to() {
    let dir = directory();
    assert_prints(&dir, "$FB copy a -o new; cat new", b"hello\n");
    assert_prints(
        &dir,
        "cat big > old; $FB copy a -o old; cat old",
        b"hello\n",
    );
    assert_prints(&dir, "$FB copy /dev/null -o old; cat old", b"");
    assert_prints(
        &dir,
        "$FB copy a -o x; $FB copy b --append -o x; cat x",
        b"hello\nworld\n",
    );
    assert_prints(
        &dir,
        "$FB copy a b -a -o x; cat x",
        b"hello\nworld\nhello\nworld\n",
    );
    assert_prints(
        &dir,
        "$FB copy big -o y; $FB copy big -a -o y; cat y",
        &big().repeat(2),
    );
    assert_prints(&dir, "$FB copy a >> x; tail -n 1 x", b"hello\n");
}

#[test]
fn an_output_file_is_not_touched_where_no_input_can_be_opened() {
    let dir = directory();
    let output = shell(
        &dir,
        "$FB copy missing -o a; code=$?; $FB copy missing -o none; exit $code",
    );
    assert_code(&output, 1);
    assert_eq!(content(&dir, "a"), b"hello\n");
    assert!(!dir.path().join("none").exists());
}

#[test]
fn an_output_that_cannot_be_opened_is_said_by_name() {
    let dir = directory();
    for (line, words) in [
        (
            "$FB copy a -o no/where",
            "open 'no/where': No such file or directory",
        ),
        ("$FB copy a -o b/c", "open 'b/c': Not a directory"),
    ] {
        let output = shell(&dir, line);
        assert_code(&output, 1);
        assert!(
            one_line(stderr(&output)).contains(words),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn in_a_directory_the_copy_of_one_named_file_has_its_name_and_anything_else_is_refused() {
    let dir = directory();
    std::fs::create_dir_all(dir.path().join("d/big")).unwrap();
    for options in ["", "--atomic"] {
        assert_prints(
            &dir,
            &format!("$FB copy a -o d {options}; cat d/a; rm d/a"),
            b"hello\n",
        );
        assert_prints(
            &dir,
            &format!("$FB copy ./a -o d/ {options}; cat d/a; rm d/a"),
            b"hello\n",
        );
        for (line, words) in [
            ("$FB copy -o d < a", "it is a directory"),
            ("$FB copy -o d/ - < a", "it is a directory"),
            ("$FB copy -o d /dev/stdin < a", "it is a directory"),
            ("$FB copy a b -o d", "it is a directory"),
            ("$FB copy a -o new/", "there is no such directory"),
            ("$FB copy .. -o d", "it is a directory"),
            (
                "$FB copy big -o d",
                "a directory in it has the name of the input",
            ),
        ] {
            let output = shell(&dir, &format!("{line} {options}"));
            assert_code(&output, 2);
            let line_said = one_line(stderr(&output));
            assert!(
                line_said.starts_with("fullbore copy: -o '") && line_said.contains(words),
                "{line_said}"
            );
            let names = std::fs::read_dir(dir.path().join("d")).unwrap();
            assert_eq!(names.count(), 1, "{line}");
            assert!(!dir.path().join("new").exists(), "{line}");
        }
    }
    let output = shell(&dir, "$FB copy a -o .");
    assert_code(&output, 2);
    assert!(one_line(stderr(&output)).contains("is both input and output"));
}

#[test]
fn an_input_that_is_the_output_is_refused_and_nothing_is_changed() {
    let dir = directory();
    std::fs::hard_link(dir.path().join("b"), dir.path().join("hard")).unwrap();
    symlink("b", dir.path().join("soft")).unwrap();
    for line in [
        "$FB copy b -o b",
        "$FB copy b >> b",
        "$FB copy - -o b < b",
        "$FB copy < b >> b",
        "$FB copy a b -o b",
        "$FB copy a - -o b < b",
        "$FB copy b -o hard",
        "$FB copy b -o soft",
        "$FB copy hard -o soft",
        "$FB copy b -a -o ./b",
        "$FB copy --by-reference b -o b",
        "$FB copy -n 3 b -o b",
        "$FB copy --hash md5 b >> b",
        "$FB copy --seal b >> b",
        "$FB copy --seal < b 1<> b",
        "$FB copy --seal /dev/fd/5 5< b >> hard",
        "$FB copy --unseal b >> b",
        "$FB meter -q -l b >> b",
        "$FB meter -q -E b >> b",
        "$FB tee < b >> b",
        "$FB buffer -q < b >> b",
    ] {
        let output = shell(&dir, line);
        assert_code(&output, 2);
        let line_said = one_line(stderr(&output));
        assert!(
            line_said.contains("is both input and output"),
            "{line}: {line_said}"
        );
        assert_eq!(content(&dir, "b"), b"world\n", "{line}");
    }
}

#[test]
fn a_command_line_that_is_wrong_is_one_line_and_code_2() {
    let dir = directory();
    for line in [
        "$FB copy --append a",
        "$FB copy -n 1X a",
        "$FB copy -n -1 a",
        "$FB copy -n '' a",
        "$FB copy -n 99999999999999999999 a",
        "$FB copy --bytes=lots a",
        "$FB copy --no-such-option",
        "$FB copy -o",
        "$FB copy -a -o x --hash sha256 a",
    ] {
        let output = shell(&dir, line);
        assert_code(&output, 2);
        assert!(output.stdout.is_empty());
        assert!(
            one_line(stderr(&output)).starts_with("fullbore copy: "),
            "{line}"
        );
    }
}

#[test]
fn bytes_are_counted_across_inputs_and_the_rest_is_left() {
    let dir = directory();
    assert_prints(&dir, "$FB copy -n 8 a b", b"hello\nwo");
    assert_prints(&dir, "$FB copy -n 6 a b", b"hello\n");
    assert_prints(&dir, "$FB copy -n 0 a b", b"");
    assert_prints(&dir, "$FB copy -n 1G a b", b"hello\nworld\n");
    for by in ["", "--by-reference"] {
        for n in [0, 10, 4096, 65_537, 1_500_001] {
            for source in ["cat big |", "< big"] {
                let line = format!("($FB copy {by} -n {n} | wc -c >&2; cat)");
                let line = match source {
                    "< big" => format!("{line} < big"),
                    _ => format!("{source} {line}"),
                };
                let output = shell(&dir, &line);
                assert_code(&output, 0);
                assert_eq!(stderr(&output).trim(), n.to_string(), "{line}");
                assert!(output.stdout == big()[n..], "{line}");
            }
        }
    }
}

#[test]
fn a_sparse_file_stays_sparse() {
    let dir = directory();
    let path = dir.path().join("sparse");
    let mut file = File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all(b"start").unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"end", (64 << 20) - 3).unwrap();
    drop(file);
    if path.metadata().unwrap().blocks() > 2048 {
        return skipped("a sparse file: this file system has none");
    }
    assert_prints(&dir, "$FB copy sparse -o again", b"");
    let again = dir.path().join("again");
    assert!(again.metadata().unwrap().blocks() < 2048);
    assert!(std::fs::read(again).unwrap() == std::fs::read(path).unwrap());
}

#[test]
fn files_without_a_size_and_names_that_are_no_text_are_copied() {
    let dir = directory();
    for by in ["", "--by-reference"] {
        let version = std::fs::read("/proc/version").unwrap();
        assert_prints(&dir, &format!("$FB copy {by} /proc/version"), &version);
        assert_prints(
            &dir,
            &format!("$FB copy {by} /proc/version -o v; cat v"),
            &version,
        );
        assert_prints(
            &dir,
            &format!("$FB copy {by} /proc/kallsyms | cmp - /proc/kallsyms"),
            b"",
        );
        assert_prints(
            &dir,
            &format!("$FB copy {by} -n 3M /dev/zero | wc -c"),
            b"3145728\n",
        );
    }
    let name = OsStr::from_bytes(b"\xff\xfe");
    std::fs::write(dir.path().join(name), "odd\n").unwrap();
    let mut command = fullbore("copy");
    let output = finish(start(command.arg(name).current_dir(dir.path())));
    assert_quiet_success(&output);
    assert_eq!(stdout(&output), "odd\n");
    let mut command = fullbore("copy a -o");
    let out = OsStr::from_bytes(b"out\xff");
    assert_quiet_success(&finish(start(command.arg(out).current_dir(dir.path()))));
    assert_eq!(std::fs::read(dir.path().join(out)).unwrap(), b"hello\n");
    let mut command = fullbore("copy");
    let missing = OsStr::from_bytes(b"missing\xff");
    let output = finish(start(command.arg(missing).current_dir(dir.path())));
    assert_code(&output, 1);
    one_line(stderr(&output));
}

// Tests of its messages.

#[test]
fn a_full_disk_is_said_with_its_side_and_name() {
    let dir = directory();
    for (line, words) in [
        (
            "$FB copy big > /dev/full",
            "write to stdout: No space left on device",
        ),
        (
            "$FB copy a > /dev/full",
            "write to stdout: No space left on device",
        ),
        (
            "$FB copy big -o /dev/full",
            "write to '/dev/full': No space left on device",
        ),
        (
            "cat big | $FB copy > /dev/full",
            "write to stdout: No space left on device",
        ),
        (
            "cat big | $FB copy --by-reference > /dev/full",
            "write to stdout: No space left",
        ),
        (
            "$FB copy --by-reference big > /dev/full",
            "write to stdout: No space left",
        ),
    ] {
        let output = shell(&dir, line);
        assert_code(&output, 1);
        let line_said = one_line(stderr(&output));
        assert!(line_said.starts_with("fullbore copy: "), "{line_said}");
        assert!(line_said.contains(words), "{line}: {line_said}");
    }
}

#[test]
fn a_reader_that_goes_is_no_news() {
    let dir = directory();
    for by in ["", "--by-reference"] {
        for line in [
            format!("$FB copy {by} big"),
            format!("$FB copy {by} < big"),
            format!("$FB copy {by} -n 1G /dev/zero"),
        ] {
            let output = shell(
                &dir,
                &format!("{{ {line}; echo $? >&2; }} | head -c 1 > /dev/null"),
            );
            assert_eq!(stderr(&output), "0\n", "{line}");
        }
        let mut command = fullbore(&format!("copy {by} /proc/version"));
        assert_quiet_success(&finish(start(command.stdout(nobody_reads()))));
        // It also does not hide that another input could not be read before.
        let mut command = fullbore(&format!("copy {by} /no/where /proc/version"));
        let output = finish(start(command.stdout(nobody_reads())));
        assert_code(&output, 1);
        one_line(stderr(&output));
    }
}

#[test]
fn closed_descriptors_are_neither_a_crash_nor_a_hang() {
    let dir = directory();
    for line in [
        "$FB copy <&-",
        "$FB copy a >&-",
        "$FB copy big 2>&-",
        "$FB copy missing 2>&-",
        "$FB copy a <&- >&- 2>&-",
    ] {
        let output = shell(&dir, line);
        assert!(output.status.code().is_some_and(|code| code <= 1), "{line}");
    }
}

#[test]
fn what_is_closed_is_neither_an_empty_input_nor_an_output_that_takes_everything() {
    let dir = directory();
    for (line, side) in [
        ("$FB copy <&-", "input"),
        ("$FB copy - a <&-", "input"),
        ("$FB copy a >&-", "output"),
        ("$FB copy < a >&-", "output"),
        ("$FB meter <&-", "input"),
        ("$FB meter a >&-", "output"),
        ("$FB tee <&-", "input"),
        ("$FB tee x < a >&-", "output"),
        ("$FB read <&-", "input"),
        ("$FB write --bytes-to-pipe 1M >&-", "output"),
    ] {
        let output = shell(&dir, line);
        assert_code(&output, 1);
        let said = one_line(stderr(&output));
        assert!(
            said.ends_with(&format!("standard {side} is closed")),
            "{line}: {said}"
        );
    }
    // The files that are closed here are not needed, and the other outputs of a tee get the bytes.
    assert_quiet_success(&shell(&dir, "$FB copy a -o y <&- >&-"));
    assert_eq!(content(&dir, "x"), content(&dir, "a"));
    assert_eq!(content(&dir, "y"), content(&dir, "a"));
}

#[test]
fn a_report_says_how_much_went_and_progress_says_nothing_to_a_pipe() {
    let dir = directory();
    let output = shell(&dir, "$FB copy --report --progress a big b");
    assert_code(&output, 0);
    let line = one_line(stderr(&output));
    assert!(line.starts_with("3.05 MiB in "), "{line}");
    assert!(line.contains("/s, "), "{line}");
    let output = shell(&dir, "$FB copy --report a missing");
    assert_code(&output, 1);
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("6 B in "), "{lines:?}");
    assert_prints(&dir, "$FB copy --progress big", big());
}

// Tests with other programs before and after it.

/// Runs a chain of processes, each of which reads the output of the one before it.
fn chain(links: &[&str]) -> Vec<Output> {
    let mut source = None;
    let mut running = Vec::new();
    for (i, link) in links.iter().enumerate() {
        let mut command = fullbore(link);
        if let Some(source) = source.take() {
            command.stdin::<std::io::PipeReader>(source);
        }
        if i + 1 < links.len() {
            let (reader, writer) = pipe();
            command.stdout(writer);
            source = Some(reader);
        }
        running.push(start(&mut command));
    }
    running.into_iter().map(finish).collect()
}

/// The endpoints of the article: pages that are used again, with a slow reader.
const REUSING: &str = "write --write-with-vmsplice --verify --bytes-to-pipe";
const SLOW: &str = "read --pause 300us --verify --json --bytes-to-pipe 1G";

#[test]
fn behind_pages_that_are_used_again_every_byte_is_right() {
    for links in [
        &["copy"][..],
        &["copy", "tee", "copy"],
        &["tee /dev/null"],
        &["copy", "copy"],
    ] {
        let write = format!("{REUSING} 96M");
        let mut all = vec![write.as_str()];
        all.extend(links);
        all.push(SLOW);
        let outputs = chain(&all);
        for output in &outputs {
            assert_code(output, 0);
        }
        let report = endpoint_report(outputs.last().unwrap());
        assert_eq!(report.verified, Some(true), "{links:?}");
        assert_eq!(report.bytes, 96 << 20, "{links:?}");
    }
}

#[test]
fn by_reference_such_bytes_may_be_wrong() {
    // This is documented, and it shows that the test before this one can fail.
    let wrong = (0..5).any(|_| {
        let outputs = chain(&[&format!("{REUSING} 96M"), "copy --by-reference", SLOW]);
        outputs[2].status.code() == Some(1) && stderr(&outputs[2]).contains("wrong byte")
    });
    if !wrong {
        skipped("wrong bytes by reference: there were none this time");
    }
}

#[test]
fn a_neighbour_that_is_killed_ends_it_at_once_and_what_came_is_right() {
    for verb in ["copy", "copy --by-reference", "tee"] {
        for round in 0..20_u64 {
            let (from, writer) = pipe();
            let (mut reader, to) = pipe();
            let write = "write --way fresh --verify --bytes-to-pipe 1T";
            let mut writing = start(fullbore(write).stdout(writer));
            let middle = start(fullbore(verb).stdin(from).stdout(to));
            let taking = thread::spawn(move || {
                let mut bytes = Vec::new();
                reader
                    .by_ref()
                    .take(8 << 20)
                    .read_to_end(&mut bytes)
                    .unwrap();
                let mut more = vec![0; 1 << 20];
                if round.is_multiple_of(2) {
                    while reader.read(&mut more).unwrap() > 0 {}
                }
                bytes
            });
            thread::sleep(Duration::from_millis(10 + round * 3));
            if round.is_multiple_of(2) {
                // In this round the writer goes, and in the other rounds the reader.
                writing.kill().unwrap();
            }
            assert_quiet_success(&finish(middle));
            let _ = writing.kill();
            let _ = finish(writing);
            let bytes = taking.join().unwrap();
            assert_prefix(&bytes);
        }
    }
}

/// Reads the report of `fullbore read --json`.
#[track_caller]
fn endpoint_report(output: &Output) -> EndpointReport {
    serde_json::from_str(stdout(output)).unwrap()
}

/// Asserts that the bytes are the first bytes that `fullbore write --verify` sends.
#[track_caller]
fn assert_prefix(bytes: &[u8]) {
    let (source, mut sink) = pipe();
    let reading = start(fullbore("read --verify --json").stdin(source));
    sink.write_all(bytes).unwrap();
    drop(sink);
    let output = finish(reading);
    assert_code(&output, 0);
    assert_eq!(endpoint_report(&output).bytes, bytes.len() as u64);
}

#[test]
fn an_input_that_is_the_output_is_refused_before_the_others_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a"), "aaaa").unwrap();
    std::fs::write(path("f"), "ffff").unwrap();
    let to_append = File::options().append(true).open(path("f")).unwrap();
    let words = format!("copy {} {}", path("a").display(), path("f").display());
    let output = finish(start(fullbore(&words).stdout(to_append)));
    assert_code(&output, 2);
    assert_eq!(std::fs::read(path("f")).unwrap(), b"ffff");
}

/// Neither a pipe nor a disk gets back what is read from it, under whatever name.
#[test]
fn an_input_that_is_the_output_is_refused_if_it_is_a_pipe_or_a_disk() {
    let line = format!(
        "set -e; for n in 1 2; do head -c 300000 /dev/urandom; done > disk; md5sum disk > sum; mkfifo pipe; exec 7<> pipe
        device=$(losetup -f --show disk) || exit 77; trap 'losetup -d $device' EXIT
        mknod node b $(stat -c '0x%t 0x%T' $device); set +e
        for verb in 'copy --seal' 'copy --unseal' copy 'copy --hash md5' tee 'meter -q' 'meter -q -l' 'meter -q -E' 'buffer -q'; do
            timeout 60 {FULLBORE} $verb < $device 1<> node; echo $verb $?
            timeout 60 {FULLBORE} $verb <&7 >&7; echo $verb $?
        done
        for verb in 'copy -o' 'copy --seal -o' 'copy sum -o' 'meter -q -o' 'tee'; do
            case $verb in tee) operand= ;; *) operand=$device ;; esac
            timeout 60 {FULLBORE} $verb node $operand < $device > /dev/null; echo $verb $?
        done
        sync; md5sum --quiet --check sum"
    );
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(directory.path());
    let output = output_of(command.stdin(Stdio::null())).unwrap();
    if output.status.code() == Some(77) {
        return skipped("a disk that is both input and output: no loop device here");
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.lines().all(|line| line.ends_with(" 2")), "{said}");
    assert_eq!(said.lines().count(), 23, "{said}");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn an_output_is_not_emptied_for_an_input_that_cannot_be_read() {
    let dir = directory();
    for line in [
        "$FB copy -o a .",
        "$FB copy -o a 0> x",
        "$FB tee a 0> x",
        "$FB meter -q -o a 0> x",
        "$FB buffer -q -f -o a 0> x",
    ] {
        let kept = content(&dir, "a");
        assert_code(&shell(&dir, line), 1);
        assert_eq!(content(&dir, "a"), kept, "{line}");
    }
}

#[test]
fn a_name_does_not_get_into_the_terminal_raw() {
    let mut command = fullbore("copy");
    command.arg("\x1b[31mred\nfullbore copy: made up");
    let output = finish(start(&mut command));
    assert_code(&output, 1);
    let said = one_line(stderr(&output));
    assert!(
        !said.contains('\x1b') && said.contains("?[31mred?"),
        "{said}"
    );
}

#[test]
fn a_reader_that_is_killed_ends_the_whole_pipeline_quietly() {
    for verb in ["copy", "copy --by-reference", "tee", "meter -q"] {
        for round in 0..10_u64 {
            let ((from, writer), (reader, to)) = (pipe(), pipe());
            let way = ["--verify", "--read-with-splice"][(round % 2) as usize];
            let mut reading =
                start(fullbore(&format!("read {way} --bytes-to-pipe 1T")).stdin(reader));
            let middle = start(fullbore(verb).stdin(from).stdout(to));
            let write = "write --way fresh --verify --bytes-to-pipe 1T";
            let writing = start(fullbore(write).stdout(writer));
            thread::sleep(Duration::from_millis(7 + round * 5));
            // The reader still runs, so it has found no wrong byte.
            assert!(reading.try_wait().unwrap().is_none(), "{verb}");
            reading.kill().unwrap();
            let _ = finish(reading);
            assert_quiet_success(&finish(middle));
            let _ = finish(writing);
        }
    }
}

// Tests of digests.

#[test]
fn a_digest_is_the_one_of_what_was_written_by_every_way() {
    let dir = directory();
    for line in [
        "$FB copy big -o out --hash sha256 | sha256sum --check",
        "cat big | $FB copy -o out --hash sha256 | sha256sum --check",
        "$FB copy a big b -o out --hash sha256 | sha256sum --check",
        "$FB copy --bytes 100001 big -o out --hash sha256 --progress | sha256sum --check",
        "truncate -s 5M holes && $FB copy holes -o out --hash sha256 | sha256sum --check",
    ] {
        assert_prints(&dir, line, b"out: OK\n");
    }
    // Into a pipe.
    let line = "cat big | $FB copy --hash sha256 2> digest | sha256sum > sum; cmp digest sum";
    assert_prints(&dir, line, b"");
    // A producer that uses its pages again, and a reader that is late.
    let line =
        "$FB write --write-with-vmsplice --bytes-to-pipe 64M | $FB copy --hash sha256 2> digest |
        (sleep 0.2; sha256sum > sum); cmp digest sum";
    assert_prints(&dir, line, b"");
    assert_prints(
        &dir,
        "$FB copy a -o 'x y\n' --hash crc32c",
        b"\\353dd8be  x y\\n\n",
    );
}

#[test]
fn an_incomplete_copy_has_no_digest() {
    let dir = directory();
    for (line, code) in [
        ("$FB copy a missing -o out --hash blake3", 1),
        ("$FB copy big --hash xxh3 > /dev/full", 1),
        (
            "$FB copy /dev/zero --hash sha256 | head -c 1 > /dev/null",
            0,
        ),
    ] {
        let output = shell(&dir, line);
        assert_code(&output, code);
        assert_eq!(stdout(&output), "");
        assert!(
            stderr(&output).lines().count() == code as usize,
            "{}",
            said(&output)
        );
    }
    let output = shell(&dir, "$FB copy a -o never --hash sha1");
    assert_code(&output, 2);
    assert!(one_line(stderr(&output)).contains("md5, sha256, blake3, xxh3, crc32c"));
    assert!(!dir.path().join("never").exists());
}

#[test]
fn the_output_pipe_gets_the_capacity_that_is_asked_for_and_is_never_shrunk() {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
    let directory = tempfile::tempdir().unwrap();
    let bytes = numbers(100_000);
    std::fs::write(directory.path().join("big"), bytes).unwrap();
    for verb in ["copy", "tee"] {
        for (options, before, after) in [
            ("--pipe-size 256K", 64 << 10, 256 << 10),
            ("--pipe-size 0", 64 << 10, 64 << 10),
            ("--pipe-size 64K", 128 << 10, 128 << 10),
        ] {
            let (mut reader, writer) = std::io::pipe().unwrap();
            fcntl_setpipe_size(&writer, before).unwrap();
            let mut command = bash(&directory, &format!("$FB {verb} {options} < big"));
            let child = start(command.stdout(writer));
            drop(command);
            let mut came = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut came).unwrap();
            assert_code(&finish(child), 0);
            assert_eq!(came, bytes, "{verb} {options}");
            assert_eq!(
                fcntl_getpipe_size(&reader).unwrap(),
                after,
                "{verb} {options}"
            );
        }
    }
    assert_code(&run("copy --seal --pipe-size 64K"), 2);
}

//! Tests of `fullbore meter`: it does not change bytes, its display is right, and it names the slow
//! side.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, PipeWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::meter::*;
use crate::common::*;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, kill_process};

/// Returns the length and a checksum, which a failed test can print.
fn sum(bytes: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    (bytes.len(), hasher.finish())
}

/// Returns the line that was drawn last over the others.
#[track_caller]
fn last_drawn(output: &Output) -> &str {
    let line = stderr(output).lines().rev().nth(1).expect("a line");
    line.rsplit('\r').next().unwrap().trim_end()
}

/// Returns the numbers on stderr.
#[track_caller]
fn numbers(output: &Output) -> Vec<u64> {
    assert_code(output, 0);
    let lines = stderr(output).lines();
    lines.map(|line| line.parse().expect(line)).collect()
}

// Tests that bytes are not changed.

#[test]
fn bytes_pass_unchanged_from_a_pipe_a_file_and_a_redirected_file() {
    let files = Files::new();
    for size in [0, 1, 4096, 65537, 5_000_001] {
        let (path, bytes) = files.file("a", size);
        for options in ["-q", "-f", "-n", "-q --by-reference", "-q --line-mode"] {
            let from_pipe = fed(&mut meter(options, &[]), &bytes);
            let from_file = finish(start(&mut meter(options, &[&path])));
            let redirected = File::open(&path).unwrap();
            let redirected = finish(start(meter(options, &[]).stdin(redirected)));
            for output in [from_pipe, from_file, redirected] {
                assert_code(&output, 0);
                assert_eq!(sum(&output.stdout), sum(&bytes), "{size} {options}");
            }
        }
    }
}

#[test]
fn several_files_are_joined_and_a_dash_among_them_is_stdin() {
    let files = Files::new();
    let (first, mut all) = files.file("first", 300_000);
    let (last, tail) = files.file("last", 100_001);
    let middle = vec![b'm'; 200_000];
    let output = fed(&mut meter("-q", &[&first, Path::new("-"), &last]), &middle);
    assert_quiet_success(&output);
    all.extend(middle);
    all.extend(tail);
    assert_eq!(sum(&output.stdout), sum(&all));
}

#[test]
fn bytes_come_into_a_file_too() {
    let files = Files::new();
    let (from, bytes) = files.file("from", 1_000_000);
    let to = files.0.path().join("to");
    let command = &mut meter("-q", &[&from]);
    let output = finish(start(command.stdout(File::create(&to).unwrap())));
    assert_quiet_success(&output);
    assert_eq!(sum(&std::fs::read(to).unwrap()), sum(&bytes));
}

#[test]
fn a_producer_that_uses_its_pages_again_spoils_nothing() {
    for options in ["-q", "-f", "-q -l", "-q -L 400M"] {
        let (source, to_meter) = pipe();
        let (from_meter, sink) = pipe();
        let reading =
            start(fullbore("read --pause 300us --verify --bytes-to-pipe 64M").stdin(from_meter));
        let metering = start(meter(options, &[]).stdin(source).stdout(sink));
        let words = "write --write-with-vmsplice --verify --bytes-to-pipe 64M";
        let writing = start(fullbore(words).stdout(to_meter));
        assert_code(&finish(writing), 0);
        assert_code(&finish(metering), 0);
        assert_quiet_success(&finish(reading));
    }
}

#[test]
fn a_file_that_is_missing_does_not_keep_the_others_back() {
    let files = Files::new();
    let (there, bytes) = files.file("there", 1000);
    let output = finish(start(&mut meter("", &[Path::new("/missing"), &there])));
    assert_code(&output, 1);
    assert_eq!(
        one_line(stderr(&output)),
        "fullbore meter: open '/missing': No such file or directory"
    );
    assert_eq!(sum(&output.stdout), sum(&bytes));
}

#[test]
fn a_closed_reader_ends_it_quietly() {
    for options in ["", "-q", "-n -i 100", "-L 1M"] {
        let output = finish(start(
            meter(options, &[Path::new("/dev/zero")]).stdout(nobody_reads()),
        ));
        assert_code(&output, 0);
        assert!(!stderr(&output).contains("meter"), "{}", said(&output));
    }
    let shown = finish(start(
        meter("-f", &[Path::new("/dev/zero")]).stdout(nobody_reads()),
    ));
    assert_code(&shown, 0);
    assert_eq!(stderr(&shown).lines().count(), 2, "{}", said(&shown));
}

#[test]
fn a_full_output_is_an_error_below_the_line() {
    let output = finish(start(meter("-f", &[Path::new("/dev/zero")]).stdout(full())));
    assert_code(&output, 1);
    assert_eq!(
        verdict(&output),
        "fullbore meter: write to stdout: No space left on device"
    );
}

// Tests of the display.

#[test]
fn nothing_is_shown_where_stderr_is_no_terminal_or_it_is_to_be_quiet() {
    for options in ["", "-i 0.02", "-q", "--name in"] {
        assert_quiet_success(&fed(&mut meter(options, &[]), &[0; 100_000]));
    }
}

#[test]
fn what_is_to_be_quiet_shows_nothing_whatever_else_is_asked_for() {
    for options in ["-q -f", "-f -q", "-q -n", "-q -f -i 0.02 -N in"] {
        let output = fed(&mut meter(options, &[]), &[1; 100_000]);
        assert_quiet_success(&output);
        assert_eq!(sum(&output.stdout), sum(&[1; 100_000]), "{options}");
    }
}

#[test]
fn the_line_has_name_amount_rate_and_how_far_it_is() {
    let files = Files::new();
    let (path, _) = files.file("a", 1 << 20);
    let output = finish(start(&mut meter("-f -N in", &[&path])));
    let line = last_drawn(&output);
    assert!(line.starts_with("in:    1 MiB "), "{line}");
    assert!(line.contains("iB/s] [="), "{line}");
    assert!(line.ends_with("=] 100%"), "{line}");
    assert!(verdict(&output).starts_with("in: "), "{}", said(&output));
}

#[test]
fn the_sizes_of_all_files_are_what_a_hundred_percent_is() {
    let files = Files::new();
    let ((a, _), (b, _)) = (files.file("a", 30_000), files.file("b", 10_000));
    // A pipe among the inputs makes the size unknown, unless the size is given.
    let both = finish(start(&mut meter("-f", &[&a, &b])));
    assert!(last_drawn(&both).ends_with("100%"), "{}", said(&both));
    let unknown = fed(&mut meter("-f", &[&a, Path::new("-"), &b]), b"x");
    assert!(!last_drawn(&unknown).contains('%'), "{}", said(&unknown));
    let given = fed(
        &mut meter("-f --size 80000", &[&a, Path::new("-"), &b]),
        b"x",
    );
    assert!(last_drawn(&given).ends_with(" 50%"), "{}", said(&given));
}

/// Writes half of 200,000 bytes to it, waits until it has printed `expected`, and writes the other
/// half.
fn fed_by_halves(words: &str, expected: &str) -> Output {
    let files = Files::new();
    let path = files.0.path().join("said");
    let mut command = meter(words, &[]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = start(command.stderr(File::create(&path).unwrap()));
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[0; 100_000]).unwrap();
    wait_for_words(&path, expected);
    input.write_all(&[0; 100_000]).unwrap();
    drop(input);
    let mut output = finish(child);
    output.stderr = std::fs::read(&path).unwrap();
    output
}

/// Waits until the file contains these words.
fn wait_for_words(path: &Path, words: &str) {
    wait_for(words, || {
        let said = std::fs::read_to_string(path).ok()?;
        said.contains(words).then_some(())
    });
}

#[test]
fn while_it_runs_the_line_has_an_estimate_of_the_time_left() {
    let output = fed_by_halves("-f -i 0.1 -s 200000", "50% ETA 0:0");
    assert_code(&output, 0);
}

#[test]
fn numbers_are_percent_where_the_size_is_known_and_end_with_the_last() {
    let seen = numbers(&fed_by_halves("-n -i 0.1 -s 200000", "50\n"));
    assert!(seen.is_sorted() && seen.contains(&50), "{seen:?}");
    assert_eq!(seen.last(), Some(&100));
    assert_eq!(
        numbers(&fed(&mut meter("-n -i 60", &[]), &[0; 1234])),
        [1234]
    );
    assert_eq!(
        numbers(&fed(&mut meter("-n -i 60 -s 4936", &[]), &[0; 1234])),
        [25]
    );
    assert_eq!(
        numbers(&fed(&mut meter("-n -i 60 -s 10", &[]), &[0; 1234])),
        [12_340]
    );
}

#[test]
fn lines_are_newlines_whether_or_not_the_last_has_one() {
    for (text, lines) in [("", 0), ("a", 0), ("a\n", 1), ("a\nb", 1), ("\n\n\n", 3)] {
        let output = fed(&mut meter("-n -i 60 -l", &[]), text.as_bytes());
        assert_eq!(numbers(&output), [lines], "{text:?}");
        assert_eq!(stdout(&output), text);
    }
    let many = "line\n".repeat(1_000_000);
    let output = fed(&mut meter("-n -i 60 -l", &[]), many.as_bytes());
    assert_eq!(numbers(&output), [1_000_000]);
    assert_eq!(sum(&output.stdout), sum(many.as_bytes()));
    let output = fed(&mut meter("-n -i 60 -l --size 4M", &[]), many.as_bytes());
    assert_eq!(numbers(&output), [23], "the size is one of lines");
    let output = fed(&mut meter("-f -l", &[]), many.as_bytes());
    assert!(
        last_drawn(&output).starts_with("1 000 000 lines "),
        "{}",
        said(&output)
    );
}

/// What has been read beyond the last line that is wanted is left to whatever has the same open file.
#[test]
fn lines_that_are_not_passed_are_left_to_the_next_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, "a\nb\nc\n").unwrap();
    for words in [
        "meter -q -l -S -s 2",
        "meter -q -l -S -s 2 -L 1M",
        "meter -q -S -s 4",
        "meter -q -l -S -s 2 -U -",
        "copy -n 4",
        "copy -n 4 --seal",
        "copy -n 4 --hash md5",
    ] {
        for plain in ["0", "1"] {
            let file = File::open(&path).unwrap();
            let mut command = fullbore(words);
            command.env("FULLBORE_PLAIN", plain);
            let output = finish(start(command.stdin(file.try_clone().unwrap())));
            assert_code(&output, 0);
            let mut rest = String::new();
            (&file).read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "c\n", "{words}");
        }
    }
}

/// No verb ends with 0 if a device has not taken every byte.
#[test]
fn a_full_block_device_is_an_error() {
    let line = format!(
        "set -e; truncate -s 1M disk; device=$(losetup -f --show disk) || exit 77; trap 'losetup -d $device' EXIT; set +e
        for verb in 'copy -o' 'meter -q -o' 'meter -q -l -o' 'tee' 'buffer -q -f -o'; do
            for bytes in 1048576 1048577; do
                head -c $bytes /dev/zero | {FULLBORE} $verb $device > /dev/null; echo $verb $bytes $?
            done
        done 2> /dev/null
        for verb in copy 'meter -q' tee 'buffer -q'; do head -c 2M /dev/zero | {FULLBORE} $verb > $device; echo $verb $?; done 2> /dev/null"
    );
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(directory.path());
    let output = output_of(command.stdin(Stdio::null())).unwrap();
    if !output.status.success() {
        return skipped("a full block device: no loop device here");
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong: Vec<&str> = (said.lines())
        .filter(|line| line.ends_with("0") != line.contains(" 1048576 "))
        .collect();
    assert_eq!(said.lines().count(), 14, "{said}");
    assert!(wrong.is_empty(), "{said}");
}

/// Packets of one byte use up the slots of a pipe.
#[test]
fn a_watched_pipe_without_a_free_slot_is_full() {
    let (source, sink) = rustix::pipe::pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    rustix::io::ioctl_fionbio(&sink, true).unwrap();
    let mut packets = 0;
    while rustix::io::write(&sink, b"x").is_ok() {
        packets += 1;
    }
    let mut child = start(
        Command::new("sleep")
            .arg("600")
            .stdin(source)
            .stdout(Stdio::null()),
    );
    let mut watching = start(&mut fullbore(&format!(
        "meter -f -i 0.2 -d {}:0",
        child.id()
    )));
    let mut drawn = [0];
    watching
        .stderr
        .as_mut()
        .unwrap()
        .read_exact(&mut drawn)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let output = finish(watching);
    assert_code(&output, 0);
    let text = stderr(&output);
    assert!(
        text.contains(&format!("{packets} B [")) && text.contains("100%"),
        "{text}"
    );
}

#[test]
fn the_size_of_a_file_in_bytes_is_none_in_lines() {
    let files = Files::new();
    let path = files.0.path().join("lines");
    std::fs::write(&path, "a\nb\nc\n").unwrap();
    assert_eq!(
        numbers(&finish(start(&mut meter("-n -i 60 -l", &[&path])))),
        [3]
    );
}

// Tests of the rate limit.

#[test]
fn the_limit_holds_over_time_from_pipes_and_from_files() {
    let files = Files::new();
    for (limit, size) in [("100K", 60 << 10), ("3M", 2 << 20), ("200M", 60 << 20)] {
        let (path, bytes) = files.file("a", size);
        let per_second = parse(limit);
        let at_least = Duration::from_secs_f64(size as f64 / per_second * 0.95);
        let timed = |run: &dyn Fn() -> Output| {
            let began = Instant::now();
            let output = run();
            (output, began.elapsed())
        };
        for (output, took) in [
            timed(&|| finish(start(&mut meter(&format!("-q -L {limit}"), &[&path])))),
            timed(&|| fed(&mut meter(&format!("-q -L {limit}"), &[]), &bytes)),
        ] {
            assert_eq!(sum(&output.stdout), sum(&bytes), "{limit}");
            assert!(took >= at_least, "{limit}: {took:?}");
        }
    }
}

fn parse(limit: &str) -> f64 {
    let (number, unit) = limit.split_at(limit.len() - 1);
    let unit = if unit == "K" { 1024.0 } else { 1048576.0 };
    number.parse::<f64>().unwrap() * unit
}

#[test]
fn without_a_pipe_nobody_is_blamed() {
    let files = Files::new();
    let (path, _) = files.file("a", 100);
    let to = File::create(files.0.path().join("to")).unwrap();
    let output = finish(start(meter("-f", &[&path]).stdout(to)));
    assert!(!verdict(&output).contains("slow one:"), "{}", said(&output));
}

// Tests with a process that already runs.

/// Starts a shell that reads a file line by line on fd 3. It reads each line but the first when the test
/// asks for it, and the rest when the pipe to the test is closed.
fn led_reader(path: &Path) -> (Child, PipeWriter) {
    let script = "exec 3< \"$1\"; while read -r line <&3; do read -r told; done";
    let (told, tell) = pipe();
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(path)
        .stdin(told)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = start(&mut command);
    wait_for_fd_3(&child, path);
    (child, tell)
}

/// Waits until fd 3 of a process is this file. Before that, it is a file of the dynamic loader.
fn wait_for_fd_3(process: &Child, path: &Path) {
    let fd = format!("/proc/{}/fd/3", process.id());
    let path = path.canonicalize().unwrap();
    wait_for("the file on fd 3", || {
        std::fs::read_link(&fd).ok().filter(|file| *file == path)
    });
}

#[test]
fn a_process_is_watched_to_its_end() {
    let files = Files::new();
    let path = files.0.path().join("lines");
    std::fs::write(&path, "0123456789012345678\n".repeat(30)).unwrap();

    let seen = numbers(&watched_to_its_end(
        &path,
        "-n -i 0.1 -d PID:3",
        ["3\n", "36\n"],
    ));
    assert!(seen.is_sorted() && seen.contains(&36), "{seen:?}");
    assert!(seen.last() > seen.first(), "{seen:?}");

    let words = "-f -i 0.1 -d PID:3";
    let output = watched_to_its_end(&path, words, ["3: /", "36% ETA 0:0"]);
    assert_code(&output, 0);
    let last = stderr(&output).rsplit('\r').next().unwrap();
    assert!(last.starts_with("3: /"), "{}", said(&output));
    assert!(
        last.contains("%") && last.contains("B/s]"),
        "{}",
        said(&output)
    );

    // The meter watches all files of the process, of which there is one.
    let words = "-f -i 0.1 --watch PID";
    let output = watched_to_its_end(&path, words, ["3: /", "36%"]);
    assert_code(&output, 0);
}

/// Returns the output about a reader of these 30 lines, which reads 10 lines after the first once the
/// first of the expected words are printed, and the rest once the second are.
fn watched_to_its_end(path: &Path, words: &str, expected: [&str; 2]) -> Output {
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("said");
    let (mut child, mut tell) = led_reader(path);
    let words = format!("meter {}", words.replace("PID", &child.id().to_string()));
    let watching = start(fullbore(&words).stderr(File::create(&report).unwrap()));
    wait_for_words(&report, expected[0]);
    tell.write_all(&[b'\n'; 10]).unwrap();
    wait_for_words(&report, expected[1]);
    drop(tell);
    let mut output = finish(watching);
    child.wait().unwrap();
    output.stderr = std::fs::read(&report).unwrap();
    output
}

#[test]
fn it_is_over_when_the_fd_is_closed_though_the_process_goes_on() {
    let files = Files::new();
    let (path, _) = files.file("a", 100);
    // It closes the file when the test asks for it.
    let script = "exec 3< \"$1\"; read -r line; exec 3<&-; read -r line";
    let (told, mut tell) = pipe();
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(&path).stdin(told);
    let mut child = start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_for_fd_3(&child, &path);
    let mut watching = start(&mut fullbore(&format!("meter -f -d {}:3", child.id())));
    // The first byte shows that its first line is drawn.
    let mut first = [0];
    watching
        .stderr
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    tell.write_all(b"close it\n").unwrap();
    assert_code(&finish(watching), 0);
    assert!(is_running(Pid::from_child(&child)));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_whose_first_thread_has_ended_is_watched() {
    let Some(mut command) = fullbore_tests::without_first_thread() else {
        return;
    };
    let files = Files::new();
    let (path, _) = files.file("a", 1000);
    let mut file = File::open(&path).unwrap();
    // 30 percent of the file.
    file.seek(SeekFrom::Start(300)).unwrap();
    let mut child = start(
        command
            .stdin(file)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    fullbore_tests::wait_for_end_of_first_thread(child.id());
    let one = (format!("meter -f -n -i 0.1 -d {}:0", child.id()), "30\n");
    let all = (format!("meter -f -i 0.1 -d {}", child.id()), "0: /");
    let watching = [one, all].map(|(words, expected)| {
        let mut watching = start(&mut fullbore(&words));
        let mut first = vec![0; expected.len()];
        let stderr = watching.stderr.as_mut().unwrap();
        stderr.read_exact(&mut first).unwrap();
        assert_eq!(String::from_utf8_lossy(&first), expected, "{words}");
        watching
    });
    child.kill().unwrap();
    child.wait().unwrap();
    for watching in watching {
        assert_code(&finish(watching), 0);
    }
}

#[test]
fn a_watched_pipe_shows_how_full_it_is() {
    let (source, mut sink) = pipe();
    sink.write_all(&[0; 32 << 10]).unwrap();
    let mut child = start(
        Command::new("sleep")
            .arg("600")
            .stdin(source)
            .stdout(Stdio::null()),
    );
    let mut watching = start(&mut fullbore(&format!(
        "meter -f -i 0.2 -d {}:0",
        child.id()
    )));
    let mut drawn = [0];
    watching
        .stderr
        .as_mut()
        .unwrap()
        .read_exact(&mut drawn)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut output = finish(watching);
    output.stderr.insert(0, drawn[0]);
    assert_code(&output, 0);
    let text = stderr(&output);
    assert!(text.starts_with("0: pipe:["), "{text}");
    assert!(text.contains("32 KiB [") && text.contains("50%"), "{text}");
}

#[test]
fn what_cannot_be_watched_is_said_in_one_line() {
    let me = std::process::id();
    let mut gone = start(Command::new("true").stdin(Stdio::null()));
    let zombie = gone.id();
    wait_for("the end", || {
        (!is_running(Pid::from_child(&gone))).then_some(())
    });
    for (target, said) in [
        (
            "999999999".to_owned(),
            "process 999999999: No such process".to_owned(),
        ),
        (
            "999999999:0".to_owned(),
            "process 999999999, fd 0: No such process".to_owned(),
        ),
        (
            zombie.to_string(),
            format!("process {zombie}: No such process"),
        ),
        (
            format!("{me}:99999"),
            format!("process {me}, fd 99999: no such file descriptor"),
        ),
    ] {
        let output = run(&format!("meter -d {target}"));
        assert_code(&output, 1);
        assert_eq!(one_line(stderr(&output)), format!("fullbore meter: {said}"));
    }
    gone.wait().unwrap();
    let mut child = start(Command::new("sleep").arg("60").stdin(Stdio::null()));
    let output = run(&format!("meter -d {}:0", child.id()));
    assert_code(&output, 1);
    assert!(
        one_line(stderr(&output)).ends_with("fd 0: neither a regular file nor a pipe"),
        "{}",
        said(&output)
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

// Tests of how it ends.

#[test]
fn an_interrupt_ends_the_line_before_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let (source, _sink) = pipe();
    let mut child = start(meter("-f -i 0.05", &[]).stdin(source));
    let caught = format!("/proc/{}/status", child.id());
    wait_for("its handler", || {
        let status = std::fs::read_to_string(&caught).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?;
        let mask = u64::from_str_radix(line.trim(), 16).ok()?;
        (mask & 0b10 != 0).then_some(())
    });
    let mut drawn = [0];
    let stderr_end = child.stderr.as_mut().unwrap();
    stderr_end.read_exact(&mut drawn).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = finish(child);
    assert_eq!(output.status.signal(), Some(2), "{}", said(&output));
    assert!(stderr(&output).ends_with('\n'), "{}", said(&output));
    assert_eq!(stderr(&output).lines().count(), 2, "{}", said(&output));
}

#[test]
fn an_ignored_interrupt_stays_ignored() {
    let script =
        "trap '' INT; (sleep 0.3; echo x) | $F meter -f & sleep 0.15; kill -INT $!; wait $!";
    let output = finish(start(&mut sh(script)));
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "x\n");
}

// Tests of what it refuses.

#[test]
fn a_wrong_command_line_is_one_line_and_code_2() {
    for words in [
        "-L x",
        "-s 1X",
        "-i 0",
        "-i -1",
        "-i NaN",
        "-i x",
        "-d 0",
        "-d =",
        "-d 1:",
        "-d 1:2:3",
        "-d 1 file",
        "-d 1 -L 1K",
        "-d 1 -n",
        "-d 1 -s 10",
        "--none",
    ] {
        let output = run(&format!("meter {words}"));
        assert_code(&output, 2);
        one_line(stderr(&output));
        assert!(output.stdout.is_empty(), "{words}");
    }
}

#[test]
fn an_input_that_is_the_output_is_refused() {
    let files = Files::new();
    let (path, bytes) = files.file("a", 1000);
    let out = File::options().append(true).open(&path).unwrap();
    let output = finish(start(meter("", &[&path]).stdout(out)));
    assert_code(&output, 2);
    assert!(one_line(stderr(&output)).ends_with("is both input and output"));
    assert_eq!(sum(&std::fs::read(path).unwrap()), sum(&bytes));
}

#[test]
fn the_help_has_examples() {
    let help = run("meter --help");
    assert_quiet_success(&help);
    assert!(stdout(&help).contains("Examples:\n  tar c src | fullbore meter"));
}

#[test]
fn a_rate_limit_holds_from_file_to_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("in"), vec![1; 4 << 20]).unwrap();
    let stdout = std::fs::File::create(path("out")).unwrap();
    let words = format!("meter -q -L 2M {}", path("in").display());
    let began = std::time::Instant::now();
    let child = start(fullbore(&words).stdout(stdout));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let early = path("out").metadata().unwrap().len() as f64;
    // The limit is 2 MiB per second, plus the bytes that may be sent to catch up, but not
    // everything at once.
    let most = (began.elapsed().as_secs_f64() + 0.5) * 2.0 * f64::from(1 << 20);
    assert!(early < most, "{early} bytes of at most {most}");
    assert_quiet_success(&finish(child));
    assert_eq!(path("out").metadata().unwrap().len(), 4 << 20);
}

#[test]
fn an_input_that_is_the_output_is_refused_before_the_others_are_passed_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a"), "aaaa").unwrap();
    std::fs::write(path("b"), "bbbb").unwrap();
    let to_append = std::fs::File::options()
        .append(true)
        .open(path("b"))
        .unwrap();
    let words = format!("meter -q {} {}", path("a").display(), path("b").display());
    assert_code(&finish(start(fullbore(&words).stdout(to_append))), 2);
    assert_eq!(std::fs::read(path("b")).unwrap(), b"bbbb");
}

#[test]
fn an_interval_longer_than_a_day_is_refused() {
    let output = run("meter -n -i 1e19");
    assert_code(&output, 2);
    one_line(stderr(&output));
}

#[test]
fn an_output_is_left_alone_if_the_input_cannot_be_read() {
    let files = Files::new();
    let (path, bytes) = files.file("kept", 100);
    let into = format!("-q -o {}", path.display());
    let directory = finish(start(&mut meter(&into, &[Path::new("/")])));
    let mut closed = Command::new("sh");
    closed.args(["-c", &format!("{FULLBORE} meter {into} <&-")]);
    closed.stdout(Stdio::piped()).stderr(Stdio::piped());
    for (output, said) in [
        (directory, "Is a directory"),
        (finish(start(&mut closed)), "standard input is closed"),
    ] {
        assert_code(&output, 1);
        let line = one_line(stderr(&output));
        assert!(line.contains(said), "{line}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_file_is_not_appended_to_itself_line_by_line() {
    let files = Files::new();
    let (path, bytes) = files.file("same", 100);
    for options in ["-l -S -s 200", "-l", "-0", ""] {
        let mut command = meter(&format!("-q {options}"), &[&path]);
        let same = File::options().append(true).open(&path).unwrap();
        let output = finish(start(command.stdout(same)));
        assert_code(&output, 2);
        assert!(one_line(stderr(&output)).contains("both input and output"));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

// What scripts ask for.

#[test]
fn progress_is_what_the_next_program_has_taken() {
    let (reader, writer) = pipe();
    let mut child = start(meter("-n -b -i 0.05 -f", &[Path::new("/dev/zero")]).stdout(writer));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut reader = reader;
    // As soon as the pipe is full, nothing was taken, and it stays so.
    for _ in 0..5 {
        assert_eq!(lines.next().unwrap().unwrap(), "0");
    }
    let mut taken = vec![0; 8192];
    reader.read_exact(&mut taken).unwrap();
    let mut seen = lines.map(|line| line.unwrap().parse::<u64>().unwrap());
    let seen = seen.find(|&taken| {
        assert!(taken <= 8192, "{taken}");
        taken == 8192
    });
    assert_eq!(seen, Some(8192));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn numbers_for_scripts_have_the_form_that_is_asked_for() {
    let files = Files::new();
    let (path, _) = files.file("a", 5);
    let said = |options: &[&str]| {
        let mut command = meter("-n -i 60", &[&path]);
        let output = finish(start(command.args(options)));
        assert_code(&output, 0);
        stderr(&output).to_owned()
    };
    assert_eq!(
        said(&["-F", r#"{"bytes":%b,"percent":%{progress-amount-only}}"#]),
        "{\"bytes\":5,\"percent\":100}\n"
    );
    assert_eq!(said(&["-N", "a", "-F", "%N %{eta}"]), "a 0\n");
    assert!(said(&["-r"]).trim().parse::<f64>().unwrap() > 0.0);
    let all = said(&["-t", "-b", "-r"]);
    let all: Vec<&str> = all.split_whitespace().collect();
    assert_eq!((all.len(), all[1]), (3, "5"));
    assert!(all[0].contains('.'), "{all:?}");
}

#[test]
fn the_size_may_be_that_of_a_file() {
    let files = Files::new();
    let (half, bytes) = files.file("half", 1000);
    let (whole, _) = files.file("whole", 2000);
    for (size, percent) in [(&whole, 50), (&half, 100)] {
        let option = format!("-n -i 60 -s @{}", size.display());
        assert_eq!(numbers(&fed(&mut meter(&option, &[]), &bytes)), [percent]);
    }
    for wrong in ["@/nowhere", "@/dev/null"] {
        let output = finish(start(&mut meter(&format!("-s {wrong}"), &[])));
        assert_code(&output, 2);
        assert!(stderr(&output).contains(&wrong[1..]), "{}", stderr(&output));
    }
}

#[test]
fn several_processes_and_names_of_processes_can_be_watched() {
    let files = Files::new();
    let (path, _) = files.file("a", 1000);
    // No other run of these tests has processes of this name.
    let name = format!("fb-{}", std::process::id());
    let readers: Vec<Child> = (0..2)
        .map(|_| {
            // The name of a script is that of its file.
            let script = files.0.path().join(&name);
            std::fs::copy("/bin/cat", &script).unwrap_or(0);
            let mut command = Command::new(&script);
            command.args([&path, Path::new("-")]);
            // No regular file, in which it would be watched too.
            start(
                command
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null()),
            )
        })
        .collect();
    // They wait for stdin, and have the file open no more: each has a line of its own.
    let words = format!("-f -i 0.05 -d ={name}");
    let mut by_name = start(meter(&words, &[]).stdout(Stdio::null()));
    let both: Vec<String> = readers.iter().map(|r| format!("-d {}", r.id())).collect();
    let mut by_pid = start(&mut meter(&format!("-f -i 0.05 {}", both.join(" ")), &[]));
    for watching in [&mut by_name, &mut by_pid] {
        let stderr = BufReader::new(watching.stderr.as_mut().unwrap());
        let mut ids: Vec<String> = readers
            .iter()
            .map(|r| format!("process {}:", r.id()))
            .collect();
        for line in stderr.lines() {
            let line = line.unwrap();
            ids.retain(|id| !line.contains(id.as_str()));
            if ids.is_empty() {
                break;
            }
        }
        assert!(ids.is_empty(), "{ids:?} are not shown");
    }
    for mut reader in readers {
        drop(reader.stdin.take());
        reader.wait().unwrap();
    }
    for mut watching in [by_name, by_pid] {
        let mut rest = String::new();
        let mut stderr = watching.stderr.take().unwrap();
        stderr.read_to_string(&mut rest).unwrap();
        assert!(watching.wait().unwrap().success(), "{rest}");
    }
    let output = finish(start(&mut meter("-d =no-such-name", &[])));
    assert_code(&output, 1);
    assert!(stderr(&output).contains("no process is named 'no-such-name'"));
}

#[test]
fn a_fifo_as_pid_file_leaves_no_process_behind() {
    let files = Files::new();
    let fifo = files.0.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let option = format!("-q -P {}", fifo.display());
    let child = start(meter(&option, &[]).stdin(Stdio::null()));
    let pid = std::fs::read_to_string(&fifo).unwrap();
    assert_eq!(pid.trim(), child.id().to_string());
    assert_code(&finish(child), 0);
    // The helper has the stderr of the meter open: its end shows that the helper has ended too.
    assert!(fifo.exists());
}

#[test]
fn a_file_that_was_truncated_has_no_percentage() {
    let files = Files::new();
    let (path, _) = files.file("a", 100_000);
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    std::io::copy(&mut file, &mut std::io::sink()).unwrap();
    file.set_len(10).unwrap();
    let target = format!("-f -i 0.05 -d {}:{}", std::process::id(), file.as_raw_fd());
    let mut child = start(&mut meter(&target, &[]));
    let mut line = Vec::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_until(b'\r', &mut line).unwrap();
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let line = String::from_utf8_lossy(&line);
    assert!(line.contains("97.7 KiB") && !line.contains('%'), "{line}");
}

#[test]
fn a_meter_that_stores_first_is_asked_about_the_second_stage_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("in");
    let bytes = vec![b'x'; 10_000_000];
    std::fs::write(&input, &bytes).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let mut command = fullbore("meter --quiet --store-and-forward -");
    let mut meter = start(command.arg(&input).env("TMPDIR", temporary.path()));
    let mut output = meter.stdout.take().unwrap();
    // Now all of the input is stored.
    output.read_exact(&mut [0]).unwrap();
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
    let words = format!("meter --numeric --interval 0.1 --query {}", meter.id());
    let mut asking = start(&mut fullbore(&words));
    let mut percent = String::new();
    let mut said = BufReader::new(asking.stderr.take().unwrap());
    said.read_line(&mut percent).unwrap();
    let percent: u64 = percent.trim().parse().expect("a percentage");
    assert!(percent < 50, "{percent}");
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(rest.len() + 1 == bytes.len() && rest.iter().all(|&byte| byte == b'x'));
    assert_code(&finish(meter), 0);
    drop(said);
    let _ = asking.kill();
    let _ = asking.wait();
}

#[test]
fn a_width_that_no_terminal_has_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("in");
    std::fs::write(&input, "some bytes").unwrap();
    let mut command = fullbore("meter --force --format %9999999999999p");
    let output = finish(start(command.arg(&input)));
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "some bytes");
}

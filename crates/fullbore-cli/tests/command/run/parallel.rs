//! `parallel`: the output is that of the command alone, whatever the input, the blocks and the workers are.

use std::fs;
use std::io::{PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use fullbore_observe::verdict::next::on_all_cpus;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::parallel::*;
use crate::common::users::{ForEverybody, nobody_else};
use crate::common::verdicts::has;
use crate::common::*;

#[test]
fn the_output_is_that_of_the_command_alone_or_one_line_says_why_not() {
    random_runs(57, 60);
}

#[test]
fn the_output_is_what_a_worker_has_written_though_it_uses_its_memory_again() {
    let line = format!(
        "echo | {FULLBORE} parallel -- {FULLBORE} write --write-with-vmsplice --verify --bytes-to-pipe 16M | \
         {FULLBORE} read --verify --pause 300us"
    );
    let output = finish(start(fullbore("run").arg(line)));
    assert_code(&output, 0);
}

#[test]
fn nothing_behind_complete_blocks_is_lost_at_the_end() {
    // One read(2) gets a long block, a shorter one, and a part of a third.
    let line = |byte: u8, length| [vec![byte; length], b"\n".to_vec()].concat();
    let input = [line(b'x', 2000), line(b'y', 600), line(b'z', 10)].concat();
    let input = [&input[..], b"end"].concat();
    for options in ["--lines 1", "--lines 2", "--lines 3", "--block 700"] {
        let output = parallel(options, "cat", &input);
        assert_quiet_success(&output);
        assert!(output.stdout == input, "{options}");
    }
}

#[test]
fn no_complete_block_waits_for_more_input() {
    let (source, mut sink) = pipe();
    let mut child = start(fullbore("parallel --lines 1 cat").stdin(source));
    let lines = b"a long line\nb\nc\n";
    sink.write_all(lines).unwrap();
    let mut output = child.stdout.take().unwrap();
    let (send, came) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut got = [0; 16];
        output.read_exact(&mut got).unwrap();
        send.send(got).unwrap();
    });
    assert_eq!(came.recv_timeout(PATIENCE).as_ref(), Ok(lines));
    drop(sink);
    assert_quiet_success(&finish(child));
}

/// Starts `parallel` on the start of a block, and waits until this came out of it.
fn begun(options: &str, line: &str, start_of_block: &[u8], came: &[u8]) -> (Child, PipeWriter) {
    let (source, mut sink) = pipe();
    let mut command = fullbore(&format!("parallel {options}"));
    let mut child = start(command.arg(line).stdin(source));
    sink.write_all(start_of_block).unwrap();
    let mut got = vec![0; came.len()];
    let output = child.stdout.as_mut().unwrap();
    output.read_exact(&mut got).unwrap();
    assert_eq!(got, came);
    (child, sink)
}

#[test]
fn the_start_of_a_block_is_passed_on_before_the_rest_comes() {
    for options in ["", "-j 1 --header 1", "--lines 9", "--csv", "--unordered"] {
        let came = if options.contains("header") {
            "1\n2\n"
        } else {
            "1\n"
        };
        let came = if options == "--unordered" { "" } else { came };
        let (child, mut sink) = begun(
            options,
            "cat",
            &b"1\n2\n3"[..came.len().max(2)],
            came.as_bytes(),
        );
        sink.write_all(b"end\n").unwrap();
        drop(sink);
        let output = finish(child);
        assert_quiet_success(&output);
        assert!(stdout(&output).ends_with("end\n"), "{options}");
    }
    // The processes end before their blocks do.
    for line in ["exec <&-; echo 1", "head -n 1"] {
        let (child, mut sink) = begun("-j 1 --lines 2", line, b"1\n", b"1\n");
        let runner = children(child.id())[0].0.as_raw_nonzero().get() as u32;
        wait_for("the end", || children(runner).is_empty().then_some(()));
        sink.write_all(b"2\n").unwrap();
        drop(sink);
        assert_quiet_success(&finish(child));
    }
}

#[test]
fn no_complete_record_waits_for_the_rest_of_a_page() {
    for len in [4_095, 4_097, 65_555, 300_001] {
        for options in ["", "-j 1", "--header 1", "--lines 100000", "--memory 24K"] {
            let block: Vec<u8> = (0..)
                .flat_map(|n| format!("{n}\n").into_bytes())
                .take(len)
                .collect();
            let end = block.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
            let (child, sink) = begun(options, "cat", &block, &block[..end]);
            drop(sink);
            let output = finish(child);
            assert_quiet_success(&output);
            assert!(output.stdout == block[end..], "{options}, {len} bytes");
        }
    }
    // Also while the process writes all the time.
    let directory = tempfile::tempdir().unwrap();
    let got = directory.path().join("got");
    let line = format!("yes & cat > {}; kill $!", got.display());
    let (source, mut sink) = pipe();
    let mut command = fullbore("parallel -j 1");
    let child = start(
        command
            .arg(line)
            .stdin(source)
            .stdout(fs::File::create("/dev/null").unwrap()),
    );
    sink.write_all(&b"record\n".repeat(1000)).unwrap();
    wait_for("all records", || {
        fs::metadata(&got)
            .is_ok_and(|meta| meta.len() == 7000)
            .then_some(())
    });
    drop(sink);
    assert_quiet_success(&finish(child));
}

#[test]
fn a_process_that_fails_before_its_block_is_read_ends_all() {
    // One leaves a process behind that waits for more.
    for line in [
        "read -r x; echo $x; exit 3",
        "exec 3<&0; { cat; echo end >&2; } <&3 & sleep 0.1; exit 3",
    ] {
        for (options, came) in [("-j 3", "a line\n"), ("-j 3 --unordered", "")] {
            let (child, sink) = begun(options, line, b"a line\n", came.as_bytes());
            let output = finish(child);
            assert_code(&output, 3);
            let expected = "fullbore parallel: block 1 (from byte 0, first line 'a line') failed with exit code 3; \
                            the output ends with what it has written";
            assert_eq!(one_line(stderr(&output)), expected);
            drop(sink);
        }
    }
}

#[test]
fn a_process_that_ends_before_its_block_holds_no_other_output_back() {
    let directory = tempfile::tempdir().unwrap();
    let [go, ended] = ["go", "ended"].map(|name| directory.path().join(name));
    let line = format!(
        "read -r x; if [ $x = b ]; then echo > {}; exit; fi; while [ ! -e {} ]; do sleep 0.02; done; head -c 9M /dev/zero",
        ended.display(),
        go.display()
    );
    let options = "-j 2 --unordered --lines 2 --memory 3M";
    let (child, mut sink) = begun(options, &line, b"a\na\nb\n", b"");
    wait_for("the start of the second", || ended.exists().then_some(()));
    let runner = children(child.id())[0].0.as_raw_nonzero().get() as u32;
    wait_for("its end", || (children(runner).len() == 1).then_some(()));
    fs::write(&go, "").unwrap();
    // By then, the outputs have all memory.
    thread::sleep(std::time::Duration::from_millis(300));
    let rest = thread::spawn(move || sink.write_all(&[&vec![b'y'; 1 << 20][..], b"\n"].concat()));
    let output = finish(child);
    assert_quiet_success(&output);
    assert!(output.stdout == vec![0; 9 << 20]);
    rest.join().unwrap().unwrap();
}

#[test]
fn a_block_that_an_error_of_the_input_cuts_has_no_end() {
    cut(b"1\n", "2 B");
    // A second thread writes its output.
    cut(&b"a line\n".repeat(1 << 19), "3.50 MiB");
}

/// Gives `parallel` a block of these bytes that an error cuts.
fn cut(bytes: &[u8], amount: &str) {
    let (source, near) = std::os::unix::net::UnixStream::pair().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let line = format!("cat; echo end > {}", seen.display());
    let mut far = source.try_clone().unwrap();
    let mut command = fullbore("parallel -j 2 --lines 1000000");
    let mut child = start(command.arg(line).stdin(std::os::fd::OwnedFd::from(source)));
    drop(command);
    let mut came = vec![0; bytes.len()];
    thread::scope(|scope| {
        scope.spawn(|| (&near).write_all(bytes).unwrap());
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut came)
            .unwrap();
    });
    assert!(came == bytes);
    // A socket that is closed with bytes that were not read resets the connection.
    far.write_all(b"x").unwrap();
    drop(near);
    let output = finish(child);
    assert_code(&output, 1);
    let said = one_line(stderr(&output));
    assert!(
        said.contains(&format!(
            "read from stdin (after {amount}): Connection reset"
        )),
        "{said}"
    );
    assert!(!seen.exists());
}

#[test]
fn where_the_sign_of_run_whole_is_removed_no_process_sees_the_end_of_a_cut_block() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let line = format!(
        "(echo a; exit 3) | env -u FULLBORE_WHOLE {FULLBORE} parallel 'cat > /dev/null; echo > {}'",
        seen.display()
    );
    let output = finish(start(fullbore("run --whole").arg(line)));
    assert_code(&output, 3);
    assert!(!seen.exists());
}

#[test]
fn compressed_blocks_are_one_stream() {
    let input = numbered(100_000);
    let output = parallel("-j 3 --block 64K", "gzip -1", &input);
    assert_quiet_success(&output);
    assert!(alone("gzip -d", &output.stdout) == input);
}

/// Returns what each block was, by a worker that writes its length in front.
fn blocks(options: &str, input: &[u8]) -> Vec<Vec<u8>> {
    // The marker is in no input.
    let output = parallel(options, "cat; printf '\\1'", input);
    assert_quiet_success(&output);
    let mut blocks: Vec<Vec<u8>> = output
        .stdout
        .split(|&byte| byte == 1)
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(blocks.pop(), Some(Vec::new()));
    blocks
}

#[test]
fn blocks_end_at_the_end_of_a_record() {
    for (options, input, expected) in [
        ("--lines 2", "a\nb\nc\nd\ne", vec!["a\nb\n", "c\nd\n", "e"]),
        (
            "--block 1 --delimiter ;",
            "a\n;b;;c",
            vec!["a\n;", "b;", ";", "c"],
        ),
        (
            "--block 1 --delimiter --",
            "a----b-c--",
            vec!["a--", "--", "b-c--"],
        ),
        (
            "--block 1 --delimiter \\0",
            "ab\0\n\0",
            vec!["ab\0", "\n\0"],
        ),
        (
            "--lines 1 --csv",
            "1,\"a\nb\"\n2,\"\"\"\n\"\r\n3",
            vec!["1,\"a\nb\"\n", "2,\"\"\"\n\"\r\n", "3"],
        ),
        (
            "--record-size 3 --lines 2",
            "abcdefghij",
            vec!["abcdef", "ghij"],
        ),
        (
            "--record-size 3 --block 4",
            "abcdefgh",
            vec!["abc", "def", "gh"],
        ),
        (
            "--lines 1 --header 1",
            "h\na\nb\n",
            vec!["h\na\n", "h\nb\n"],
        ),
        (
            "--lines 2 --header 2",
            "h\nh\na\nb\nc\n",
            vec!["h\nh\na\nb\n", "h\nh\nc\n"],
        ),
        ("--header 1", "h\n", vec!["h\n"]),
        ("--header 3", "h", vec!["h"]),
        ("--lines 1", "", vec![""]),
        ("--block 1", "abc\n\nd", vec!["abc\n", "\n", "d"]),
    ] {
        let options = format!("--memory 1M {options}");
        let found = blocks(&options, input.as_bytes());
        let expected: Vec<Vec<u8>> = expected
            .iter()
            .map(|block| block.as_bytes().to_vec())
            .collect();
        assert_eq!(found, expected, "{options} on {input:?}");
    }
}

#[test]
fn a_record_may_be_as_long_as_the_memory_and_no_longer() {
    let long = [vec![b'x'; 3_000_000], b"\ny\n".to_vec()].concat();
    let output = parallel("-j 2 --block 64K --memory 4M", "cat", &long);
    assert_quiet_success(&output);
    assert!(output.stdout == long);
    let input = [b"a\n".to_vec(), long].concat();
    let output = parallel("-j 2 --block 64K --memory 1M", "cat", &input);
    assert_code(&output, 1);
    let line = one_line(stderr(&output));
    assert!(
        line.contains("the record at byte 2 of the input is longer than the memory"),
        "{line}"
    );
    assert_eq!(stdout(&output), "a\n");
}

#[test]
fn workers_that_write_more_than_they_read_or_close_their_input_are_right_in_little_memory() {
    let input = numbered(60_000);
    for (line, per_block) in [
        ("cat > /dev/null", ""),
        ("head -n 1 > /dev/null", ""),
        ("exec <&-; echo x", "x\n"),
        ("printf '%70000s' x; cat > /dev/null", ""),
    ] {
        let output = parallel("-j 8 --block 16K --memory 700K", line, &input);
        assert_quiet_success(&output);
        match line.starts_with("printf") {
            true => assert_eq!(output.stdout.len() % 70_000, 0),
            false => assert_eq!(stdout(&output).replace(per_block, ""), ""),
        }
    }
    let doubled = parallel("-j 4 --block 64K --memory 1M", "sed p", &input);
    assert!(doubled.stdout == alone("sed p", &input));
    // In free order, with outputs of which none fits into the memory.
    let line = "cat; printf '%900000s\n' x";
    let options = "-j 4 --block 200K --memory 1M --unordered";
    let output = parallel(options, line, &input);
    assert_quiet_success(&output);
    let long = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| line.len() == 900_000);
    let blocks = input.len().div_ceil(200 << 10);
    assert!((blocks..=blocks + 1).contains(&long.count()));
}

#[test]
fn a_failed_block_ends_the_output_and_gives_its_exit_code() {
    let input = numbered(3_000);
    let line = "awk '{ print } /line 1500$/ { exit 7 }'";
    let output = parallel("-j 3 --lines 100", line, &input);
    assert_code(&output, 7);
    assert!(output.stdout == numbered(1_501), "{}", output.stdout.len());
    let said = one_line(stderr(&output));
    let expected = "fullbore parallel: block 16 (bytes 13890 to 14889, first line 'line 1500') failed with exit code 7; \
                    the output ends with what it has written";
    assert_eq!(said, expected);
    let output = parallel(
        "-j 3 --lines 100",
        "grep -q 'line 150$' && kill -9 $$; true",
        &input,
    );
    assert_code(&output, 137);
    assert!(stderr(&output).contains("was ended by signal 9"));
    let output = parallel("-j 3 --lines 100 --unordered", line, &input);
    assert_code(&output, 7);
}

#[test]
fn failed_blocks_can_be_accepted_or_counted() {
    let input = numbered(1_000);
    let grep = "grep 'line 55[05]$'";
    let output = parallel("-j 3 --lines 100 --accept 1", grep, &input);
    assert_quiet_success(&output);
    assert_eq!(stdout(&output), "line 550\nline 555\n");
    let output = parallel("-j 3 --lines 100 --keep-going", grep, &input);
    assert_code(&output, 1);
    assert_eq!(stdout(&output), "line 550\nline 555\n");
    let said = one_line(stderr(&output));
    assert!(
        said.ends_with("failed with exit code 1; 9 of 10 blocks failed"),
        "{said}"
    );
}

#[test]
fn a_command_that_cannot_be_run_is_an_error_with_the_code_of_a_shell() {
    for (words, code, text) in [
        (&["--", "/no/such"][..], 127, "/no/such: not found"),
        (
            &["--", "/etc/passwd"],
            126,
            "/etc/passwd: Permission denied",
        ),
        (&["exit 5"], 5, "failed with exit code 5"),
        (&["a |"], 2, "sh:"),
        (
            &["--", "a", "|", "b"],
            2,
            "words after '--' are one command",
        ),
        (&[], 2, "no command was given"),
        (
            &["grep", "x"],
            2,
            "give the command as one argument in quotes",
        ),
        (
            &["--block", "1M", "--memory", "2M", "cat"],
            2,
            "no room for three blocks",
        ),
        (
            &["--accept", "early", "cat"],
            2,
            "expected exit codes from 1 to 255",
        ),
        (&["--delimiter", "\\q", "cat"], 2, "invalid delimiter"),
    ] {
        let output = finish(start(fullbore("parallel").args(words)));
        assert_code(&output, code);
        assert!(
            one_line(stderr(&output)).contains(text),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn in_free_order_every_output_is_whole() {
    let input = numbered(20_000);
    let output = parallel(
        "-j 8 --lines 100 --unordered",
        "sleep 0.00$(($$ % 10)); cat; echo end",
        &input,
    );
    assert_quiet_success(&output);
    let blocks: Vec<&str> = stdout(&output).split("end\n").collect();
    assert_eq!(blocks.len(), 201);
    assert!(
        blocks[..200]
            .iter()
            .all(|block| block.lines().count() == 100)
    );
    let mut found: Vec<&str> = stdout(&output)
        .lines()
        .filter(|line| *line != "end")
        .collect();
    let mut expected: Vec<&str> = std::str::from_utf8(&input).unwrap().lines().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn messages_of_workers_are_whole_lines() {
    let input = numbered(200);
    let line = "printf first >&2; sleep 0.00$(($$ % 10)); printf ' second\\nlast' >&2; cat";
    let output = parallel("-j 8 --lines 10", line, &input);
    assert_code(&output, 0);
    assert!(output.stdout == input);
    let mut said: Vec<&str> = stderr(&output).lines().collect();
    said.sort_unstable();
    assert_eq!(said, [["first second"; 20], ["last"; 20]].concat());
    let line = "head -c 300000 /dev/zero | tr '\\0' x >&2; echo >&2; cat";
    let output = parallel("-j 4 --lines 25", line, &input);
    assert_code(&output, 0);
    let lengths: Vec<usize> = stderr(&output).lines().map(str::len).collect();
    assert_eq!(lengths, [300_000; 8]);
}

#[test]
fn a_reader_that_has_enough_ends_all_workers_quietly() {
    let child = start(fullbore("run").arg(format!(
        "yes | {FULLBORE} parallel -j 4 'echo $$; cat; sleep 1000' | head -n 1"
    )));
    let output = finish(child);
    assert_quiet_success(&output);
    let worker: i32 = stdout(&output).trim().parse().unwrap();
    assert_nobody_is_left(&[Pid::from_raw(worker).unwrap()]);
}

/// Returns the running processes below this one: the runner and its workers.
fn below(pid: u32) -> Vec<Pid> {
    let children = children(pid).into_iter().map(|(pid, _)| pid);
    let below = children.flat_map(|pid| {
        let mut all = below(pid.as_raw_nonzero().get() as u32);
        all.push(pid);
        all
    });
    below.collect()
}

#[test]
fn nothing_is_left_running_after_a_signal_to_any_of_the_two_processes() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        for is_runner in [false, true] {
            let (child, feed) = begin("-j 3 --lines 10", "trap '' HUP; sleep 1000", &numbered(100));
            let runner = wait_for("the workers", || {
                let (runner, _) = children(child.id()).into_iter().next()?;
                let workers = children(runner.as_raw_nonzero().get() as u32);
                (workers.len() == 3).then_some(runner)
            });
            let started = below(child.id());
            let victim = if is_runner {
                runner
            } else {
                Pid::from_child(&child)
            };
            kill_process(victim, signal).unwrap();
            let output = finish(child);
            assert!(!output.status.success(), "{}", said(&output));
            assert_nobody_is_left(&started);
            feed.join().unwrap();
        }
    }
}

#[test]
fn a_block_that_a_failure_cut_is_not_run_under_whole() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let stage = format!(
        "{FULLBORE} parallel -j 2 --lines 10 'echo run >> {}; wc -l >> {0}'",
        seen.display()
    );
    let mut command = fullbore("run --whole");
    let output = finish(start(
        command.arg(format!("(seq 35; exit 3) | {stage} | cat")),
    ));
    assert_code(&output, 3);
    let text = fs::read_to_string(&seen).unwrap_or_default();
    assert!(
        text.lines().all(|line| line == "10" || line == "run"),
        "{text}"
    );
    assert!(text.matches("run").count() <= 3, "{text}");
    let mut command = fullbore("run --whole");
    let output = finish(start(command.arg(format!("seq 35 | {stage} | cat"))));
    assert_quiet_success(&output);
    assert!(
        fs::read_to_string(&seen)
            .unwrap()
            .lines()
            .any(|lines| lines == "5")
    );
}

#[test]
fn a_failed_block_is_no_end_under_whole() {
    let directory = tempfile::tempdir().unwrap();
    let line = format!(
        "seq 100 | {FULLBORE} parallel -j 2 --lines 10 'grep -v 50' | sh -c 'cat && echo end > seen'"
    );
    let run = |line: &str| {
        finish(start(
            fullbore("run --whole").arg(line).current_dir(&directory),
        ))
    };
    let output = run(&line.replace("grep -v 50", "grep -v 50; exit 4"));
    assert_code(&output, 4);
    assert!(!directory.path().join("seen").exists());
    assert_quiet_success(&run(&line));
    assert!(directory.path().join("seen").exists());
}

#[test]
fn the_memory_bounds_what_has_been_read_and_not_been_written() {
    // All blocks but the first end at once, and the first keeps them from being written.
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    let input = [b"x".repeat(999), b"\n".to_vec()].concat().repeat(8_000);
    let options = format!("-j 4 --block 100K --memory 1M --json={}", report.display());
    let line = "read -r first; cat; case $first in *) test -e go || sleep 0.2; touch go; esac";
    let (source, mut sink) = pipe();
    let mut command = fullbore(&format!("parallel {options}"));
    let child = start(command.arg(line).stdin(source).current_dir(&directory));
    let output = thread::scope(|scope| {
        scope.spawn(move || drop(sink.write_all(&input)));
        finish(child)
    });
    assert_quiet_success(&output);
    let report: Value = json(&fs::read_to_string(report).unwrap());
    let peak = report["memory_peak_bytes"].as_u64().unwrap();
    assert!(peak > 200_000 && peak <= 1 << 20, "{peak}");
}

#[test]
fn too_few_descriptors_or_processes_only_make_it_slower() {
    let input = numbered(5_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &input).unwrap();
    let line = format!(
        "ulimit -n 40; exec {FULLBORE} parallel -j 32 --lines 50 'sleep 0.01; cat' < {}",
        file.path().display()
    );
    let output = output_of(Command::new("sh").args(["-c", &line])).unwrap();
    assert_quiet_success(&output);
    assert!(output.stdout == input);
    if !rustix::process::geteuid().is_root() {
        return skipped("a limit of processes: another user needs root");
    }
    // Of six processes, two watch and join.
    let fullbore = ForEverybody::new();
    let line = format!(
        "ulimit -u 6; exec {} parallel -j 32 --lines 50 -- cat",
        fullbore.path().display()
    );
    let user = nobody_else(8);
    let mut command = Command::new("bash");
    let input = fs::File::open(file.path()).unwrap();
    let output = output_of(command.args(["-c", &line]).uid(user).gid(user).stdin(input));
    let output = output.unwrap();
    assert_quiet_success(&output);
    assert!(output.stdout == numbered(5_000));
}

#[test]
fn a_report_says_what_each_process_did() {
    let output = parallel("-j 2 --lines 100 --report", "cat", &numbered(1_000));
    assert_code(&output, 0);
    let text = stderr(&output);
    assert!(text.contains("10 blocks of at least"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("slow: "), "{text}");
}

#[test]
fn an_output_that_fails_is_an_error_and_no_worker_is_left() {
    let mut command = fullbore("parallel -j 2 --lines 10 cat");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), numbered(1_000)).unwrap();
    let input = fs::File::open(file.path()).unwrap();
    let output = finish(start(command.stdin(input).stdout(full())));
    assert_code(&output, 1);
    assert!(
        one_line(stderr(&output)).contains("write to stdout"),
        "{}",
        said(&output)
    );
    let input = fs::File::open(Path::new("/proc/self/mem")).unwrap();
    let output = finish(start(fullbore("parallel cat").stdin(input)));
    assert_code(&output, 1);
    assert!(
        one_line(stderr(&output)).contains("read from stdin: Input/output error"),
        "{}",
        said(&output)
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_call_that_fails_loses_nothing_silently() {
    calls_that_fail(&[1, 9]);
}

#[test]
fn no_memory_beyond_its_limit_is_used_by_outputs_and_by_a_huge_record() {
    let lines = numbered(30_000);
    let record = [vec![b'x'; 60_000_000], b"\n".to_vec()].concat();
    for (line, input, bytes) in [
        (
            "cat > /dev/null; yes | head -c 20000000",
            &lines,
            100_000_000,
        ),
        ("cat", &record, 0),
    ] {
        let (child, feed) = begin("-j 4 --block 64K --memory 16M", line, input);
        let runner = wait_for("the runner", || children(child.id()).into_iter().next());
        let status = format!("/proc/{}/status", runner.0.as_raw_nonzero());
        let mut peak = 0;
        let mut look = || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let found = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = found.and_then(|text| text.trim_end_matches("kB").trim().parse().ok());
            peak = peak.max(kib.unwrap_or(0));
        };
        let mut child = child;
        let (mut output, mut read) = (child.stdout.take().unwrap(), 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            look();
            match output.read(&mut buffer).unwrap() {
                0 => break,
                n => read += n,
            }
        }
        let ended = finish(child);
        feed.join().unwrap();
        assert!(read >= bytes, "{read}: {}", said(&ended));
        assert_eq!(ended.status.success(), bytes > 0, "{}", said(&ended));
        // With the code, of which 20 MiB may be in memory.
        assert!(peak < 40 << 10, "{line}: {peak} KiB");
    }
}

#[test]
fn the_progress_is_logged_and_the_report_written_as_in_run() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    let made = Command::new("mkfifo").arg(&report).status().unwrap();
    assert!(made.success());
    // A FIFO, whose reader comes later.
    let options = format!(
        "--lines 100 --log 100 --size 1M --json={}",
        report.display()
    );
    let (child, feed) = begin(&options, "grep -c 1; exit 3", &numbered(1_000));
    let report: Value = json(&fs::read_to_string(&report).unwrap());
    let output = finish(child);
    feed.join().unwrap();
    assert_code(&output, 3);
    let (log, line) = stderr(&output).trim().split_once('\n').unwrap();
    assert!(log.ends_with("s, done") && log.contains("0%"), "{log}");
    assert!(line.contains("block 1 (bytes 0 to 789"), "{line}");
    assert_eq!(report["command"], "grep -c 1; exit 3");
    assert!(report["failed_blocks"].as_u64().unwrap() > 0, "{report}");
    let output = finish(start(&mut fullbore("parallel --size 1M cat")));
    assert_code(&output, 2);
}

#[test]
fn what_a_verdict_says_to_type_prints_what_the_stage_alone_prints() {
    let input = numbered(400_000);
    for stage in [
        "grep -E '(1|7)5$'",
        "LC_ALL=C grep -F 99",
        "sed -E 's/e ([0-9])/e-\\1/'",
        "awk '{ print $2, NF }'",
        "tr a-z A-Z",
        "cut -d ' ' -f 2",
        "rev",
        "iconv -f latin1 -t utf-8",
        "gzip -1",
    ] {
        let program = stage
            .trim_start_matches("LC_ALL=C ")
            .split(' ')
            .next()
            .unwrap();
        if !has(program) {
            continue;
        }
        let spread = on_all_cpus(&format!("cat big | {stage} | wc"), program, 1.0).unwrap();
        let typed = spread.command.unwrap().replacen("fullbore", FULLBORE, 1);
        let end = if program == "gzip" { " | gzip -d" } else { "" };
        let found = alone(&format!("{typed}{end}"), &input);
        assert!(found == alone(&format!("{stage}{end}"), &input), "{typed}");
    }
}

#[test]
fn the_pipe_of_stdin_keeps_its_capacity_if_its_writer_is_not_known() {
    let (source, mut sink) = pipe();
    let before = rustix::pipe::fcntl_getpipe_size(&sink).unwrap();
    let mut command = fullbore("parallel cat");
    let child = start(command.stdin(source).stdout(Stdio::null()));
    let input = b"a line\n".repeat(1 << 20);
    for _ in 0..6 {
        sink.write_all(&input).unwrap();
    }
    // A writer that uses its pages again counts on it.
    assert_eq!(rustix::pipe::fcntl_getpipe_size(&sink).unwrap(), before);
    drop(sink);
    assert_quiet_success(&finish(child));
}

#[test]
fn the_output_of_large_blocks_is_right_on_every_kind_of_stdout_and_for_slow_readers() {
    use rustix::pipe::{PipeFlags, pipe_with};
    let bytes = numbered(1_000_000);
    let file = tempfile::tempdir().unwrap();
    let input = file.path().join("input");
    fs::write(&input, &bytes).unwrap();
    let stream = || {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        (OwnedFd::from(near), OwnedFd::from(far))
    };
    let of_pipe = |flags: PipeFlags| {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | flags).unwrap();
        (reader, writer)
    };
    for options in [
        "-j 1",
        "-j 2",
        "-j 3 --unordered --block 2M",
        "-j 2 --memory 9M --block 2M",
    ] {
        for kind in 0..4 {
            let (reader, writer) = match kind {
                0 => of_pipe(PipeFlags::empty()),
                1 => of_pipe(PipeFlags::DIRECT),
                2 => of_pipe(PipeFlags::empty()),
                _ => stream(),
            };
            if kind == 2 {
                // Another process has made it nonblocking.
                rustix::io::ioctl_fionbio(&writer, true).unwrap();
            }
            let mut command = fullbore(&format!("parallel {options} cat"));
            command
                .stdin(fs::File::open(&input).unwrap())
                .stdout(writer);
            let child = start(&mut command);
            drop(command);
            let (mut got, mut room) = (Vec::new(), vec![0; 1 << 16]);
            loop {
                match rustix::io::read(&reader, &mut room[..]) {
                    Ok(0) => break,
                    Ok(n) => got.extend_from_slice(&room[..n]),
                    Err(errno) => panic!("{errno}"),
                }
                if got.len() % 32 == 7 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            assert_quiet_success(&finish(child));
            if options.contains("unordered") {
                let mut lines: Vec<&[u8]> = got.split_inclusive(|byte| *byte == b'\n').collect();
                let mut wanted: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                lines.sort_unstable();
                wanted.sort_unstable();
                assert!(lines == wanted, "{options}, {kind}: {} bytes", got.len());
            } else {
                assert!(got == bytes, "{options}, {kind}: {} bytes", got.len());
            }
        }
    }
}

#[test]
fn without_memory_it_ends_with_what_it_has_written_or_an_error() {
    let bytes = numbered(1_000_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &bytes).unwrap();
    for kib in (1800..6000).step_by(75) {
        let line = format!("ulimit -d {kib}; exec {FULLBORE} parallel -j 2 cat");
        let input = fs::File::open(file.path()).unwrap();
        let output = output_of(Command::new("sh").args(["-c", &line]).stdin(input)).unwrap();
        assert!(bytes.starts_with(&output.stdout), "{kib} KiB");
        match output.status.success() {
            true => assert!(output.stdout.len() == bytes.len(), "{kib} KiB"),
            false => assert!(!output.stderr.is_empty(), "{kib} KiB"),
        }
    }
}

#[test]
fn no_message_of_stdin_is_cut_and_a_socket_gets_messages_that_it_can_send() {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
    let sockets = || {
        let (domain, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        rustix::net::socketpair(domain, kind, SocketFlags::CLOEXEC, None).unwrap()
    };
    let mut random = fastrand::Rng::with_seed(3);
    let messages: Vec<Vec<u8>> = (0..200)
        .map(|_| {
            (0..random.usize(1..40_000))
                .map(|_| random.u8(..))
                .collect()
        })
        .collect();
    for options in ["", "--block 5000", "--block 100K"] {
        let ((near, source), (sink, far)) = (sockets(), sockets());
        let child = start(
            fullbore(&format!("parallel {options} cat"))
                .stdin(source)
                .stdout(sink),
        );
        let got = thread::scope(|scope| {
            scope.spawn(|| {
                for message in &messages {
                    rustix::net::send(&near, message, SendFlags::NOSIGNAL).unwrap();
                }
                drop(near);
            });
            let (mut got, mut room) = (Vec::new(), vec![0; 1 << 20]);
            while let Ok((n @ 1.., _)) = rustix::net::recv(&far, &mut room[..], RecvFlags::empty())
            {
                got.extend_from_slice(&room[..n]);
            }
            got
        });
        assert_code(&finish(child), 0);
        assert!(got == messages.concat(), "{options}: {} bytes", got.len());
    }
}

#[test]
fn no_packet_of_stdin_is_cut() {
    use rustix::pipe::{PipeFlags, pipe_with};
    let bytes = lines(&mut fastrand::Rng::with_seed(5)).repeat(3);
    let (source, sink) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    let child = start(fullbore("parallel --block 5000 cat").stdin(source));
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            for packet in bytes.chunks(4095) {
                rustix::io::write(&sink, packet).unwrap();
            }
            drop(sink);
        });
        finish(child)
    });
    assert_code(&output, 0);
    assert!(
        output.stdout == bytes,
        "{} of {} bytes",
        output.stdout.len(),
        bytes.len()
    );
}

#[test]
fn no_packet_of_a_worker_is_cut() {
    let bytes = numbered(100_000);
    for options in ["-j 1 --block 2M", "-j 3 --block 300K"] {
        // With this flag, dd writes packets. The last one is shorter, and dd then wants to sync the pipe.
        let line = "dd bs=777 oflag=direct iflag=fullblock status=none 2> /dev/null; true";
        let output = parallel(options, line, &bytes);
        assert_quiet_success(&output);
        assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
    }
}

#[test]
fn no_message_is_lost_where_stderr_is_nonblocking() {
    let (mut read, write) = pipe();
    rustix::io::ioctl_fionbio(&write, true).unwrap();
    // More than the pipe has room for, and what is kept.
    let input = numbered(8_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &input).unwrap();
    let mut command = fullbore("parallel");
    let ends = command.stdin(file.reopen().unwrap()).stderr(write);
    let child = start(ends.arg("cat >&2"));
    drop(command);
    let queued = || rustix::io::ioctl_fionread(&read).unwrap();
    wait_for("a full pipe", || (queued() > 60 << 10).then_some(()));
    let mut said = Vec::new();
    read.read_to_end(&mut said).unwrap();
    assert_code(&finish(child), 0);
    assert!(said == input, "{} of {} bytes", said.len(), input.len());
}

#[test]
fn a_file_that_would_grow_while_it_is_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a\nb\n").unwrap();
    let run = |append| {
        let mut options = fs::File::options();
        let sink = options.append(append).write(true).open(&path).unwrap();
        let mut command = fullbore("parallel -j 1 --lines 1 cat");
        let ends = command.stdin(fs::File::open(&path).unwrap()).stdout(sink);
        finish(start(ends))
    };
    let output = run(true);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("stdin is both input and output"));
    // What is written stays before what is read.
    assert_quiet_success(&run(false));
    assert_eq!(fs::read(&path).unwrap(), b"a\nb\n");
}

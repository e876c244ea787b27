//! Tests of the programs in C: each of them runs, reports wrong options and what the machine refuses,
//! and leaves nothing behind; and `bench --peers` handles any other program in their place.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;

use crate::common::refusing::*;
use crate::common::*;
use fullbore_results::run::{Peer, Run};
use fullbore_results::statistics::Spread;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use seccompiler::SeccompCmpOp;

const PROGRAMS: [&str; 5] = ["stream", "pingpong", "unix_copy", "lookup", "pipe"];

/// include/linux/socket.h.
const AF_INET: u64 = 2;

/// Returns the directory of the programs, which are built at the first call; `None` without a
/// compiler.
fn built() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    for tool in ["cc", "make"] {
        let version = output_of(Command::new(tool).arg("--version"));
        if !version.is_ok_and(|version| version.status.success()) {
            skipped(&format!("the programs in C: no {tool} here"));
            return None;
        }
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(source)
        .arg(format!("BIN={}", directory.display()));
    let output = output_of(&mut make).expect("make runs");
    assert_code(&output, 0);
    assert!(output.stderr.is_empty(), "warnings: {}", said(&output));
    Some(directory)
}

/// Returns the command for a run of so many seconds of one of the programs, with the options in `words`.
fn program(directory: &Path, words: &str, seconds: f64) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(directory.join(words.next().unwrap()));
    command
        .args(["--seconds", &seconds.to_string(), "--warm-up", "0.01"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a program. On a busy machine, a short run may end before any bytes have arrived, or the program may end
/// because its processes did not get a CPU; it is then run again for twice as long.
fn run_program(directory: &Path, words: &str) -> Output {
    run_with(words, |seconds| program(directory, words, seconds))
}

fn run_with(words: &str, program: impl Fn(f64) -> Command) -> Output {
    let mut seconds = 0.02;
    while seconds < 40.0 {
        let output = finish(start(&mut program(seconds)));
        let said = stderr(&output);
        let busy = ["no bytes arrived", "nothing came back", "no end in time"];
        if !busy.iter().any(|words| said.contains(words)) {
            return output;
        }
        seconds *= 2.0;
    }
    panic!("{words}: no figure in {seconds} s");
}

/// Returns every command line that the experiments have programs for, and more.
fn command_lines() -> Vec<String> {
    let transports = [
        "pipe",
        "fifo",
        "unix_stream",
        "socketpair",
        "unix_seqpacket",
        "tcp",
        "shared_memory",
        "message_queue",
    ];
    let alone = [
        "file_reread",
        "mmap_reread",
        "memory_copy",
        "memory_copy_by_hand",
        "memory_read",
        "memory_write",
    ];
    let mut lines: Vec<String> = vec![
        "pingpong wake_up".into(),
        "stream pipe --chunk 1M --pipe-size 1M".into(),
        "stream fifo --pipe-size 4096".into(),
        "stream tcp --chunk 1".into(),
        "pipe --writer write --reader read --chunk 256K --pipe-size 1M".into(),
        "pipe --writer vmsplice --reader splice --chunk 2M --huge-page --busy-loop".into(),
        "pipe --writer vmsplice --reader splice --chunk 256K --same-buffer".into(),
        "pipe --writer vmsplice --reader splice --chunk 256K --dont-touch-pages".into(),
        "pipe --writer vmsplice --reader sum --chunk 256K --words --huge-page".into(),
        "unix_copy normal --object 1M --sndbuf 512K --pipe-size 512K --count 10".into(),
        "unix_copy zero_copy --object 1000001 --sndbuf 512K --pipe-size 64K".into(),
    ];
    for name in transports.into_iter().chain(alone) {
        lines.push(format!("stream {name}"));
    }
    for transport in transports {
        for wait in ["block", "spin", "adaptive"] {
            for message in ["1", "4096"] {
                lines.push(format!(
                    "pingpong {transport} --message {message} --wait {wait}"
                ));
            }
        }
    }
    for mode in ["normal", "zero_copy", "sendfile"] {
        for chain in ["", "--chain"] {
            lines.push(format!(
                "unix_copy {mode} {chain} --object 1M --sndbuf 512K --pipe-size 512K"
            ));
        }
    }
    for what in [
        "base_touched",
        "base_untouched",
        "huge_touched",
        "huge_untouched",
    ] {
        lines.push(format!("lookup {what}"));
    }
    for writer in ["write", "vmsplice"] {
        for reader in ["read", "splice", "sum"] {
            for how in ["", "--huge-page", "--busy-loop", "--words"] {
                lines.push(format!(
                    "pipe --writer {writer} --reader {reader} --chunk 256K {how}"
                ));
            }
        }
    }
    lines
}

#[test]
fn every_program_prints_one_line_of_figures() {
    let Some(directory) = built() else { return };
    let lines = command_lines();
    thread::scope(|scope| {
        for some in lines.chunks(lines.len().div_ceil(4)) {
            scope.spawn(move || some.iter().for_each(|line| prints_figures(directory, line)));
        }
    });
}

fn prints_figures(directory: &Path, line: &str) {
    let output = run_program(directory, line);
    if output.status.code() == Some(3) {
        skipped(&format!("{line}: {}", one_line(stderr(&output))));
        return;
    }
    assert_quiet_success(&output);
    let figures: Vec<f64> = one_line(stdout(&output))
        .split(' ')
        .map(|figure| figure.parse().unwrap())
        .collect();
    let right = figures.iter().all(|f| f.is_finite() && *f > 0.0) && figures.is_sorted();
    assert!(right, "{line}: {figures:?}");
    let expected = if line.starts_with("pingpong") { 3 } else { 1 };
    assert_eq!(figures.len(), expected, "{line}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_line() {
    let Some(directory) = built() else { return };
    for line in [
        "stream",
        "stream teleport",
        "stream pipe pipe",
        "stream pipe --chunk",
        "stream pipe --chunk 0",
        "stream pipe --chunk many",
        "stream pipe --chunk -1",
        "stream pipe --chunk 99999999999999999999",
        "stream pipe --turbo",
        "stream pipe --seconds 0",
        "stream pipe --seconds nan",
        "stream pipe --warm-up -1",
        "stream pipe --cpus 0",
        "stream pipe --cpus 0,1,2",
        "stream pipe --cpus 0,100000",
        "pingpong pipe --message 1",
        "pingpong pipe --wait spin",
        "pingpong pipe --message 1 --wait long",
        "unix_copy normal",
        "unix_copy by_hand --object 1M --sndbuf 1M --pipe-size 1M",
        "lookup",
        "lookup nothing",
        "pipe --writer write --reader read",
        "pipe --writer ink --reader read --chunk 4K",
        "pipe --writer vmsplice --reader read --chunk 256K --pipe-size 1M",
        "pipe --writer vmsplice --reader read --chunk 4K",
        "pipe --writer write --reader read --chunk 8K --same-buffer",
    ] {
        let output = run_program(directory, line);
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        one_line(stderr(&output));
    }
}

#[test]
fn what_the_machine_refuses_is_said_and_is_exit_code_3() {
    let Some(directory) = built() else { return };
    let inet: Conditions = &[(0, SeccompCmpOp::Eq, AF_INET)];
    let unix_copy = "--object 1M --sndbuf 512K --pipe-size 64K";
    for (call, conditions, line) in [
        (call::MQ_OPEN, &[] as Conditions, "stream message_queue"),
        (call::MEMFD_CREATE, &[], "stream shared_memory"),
        (call::SOCKET, inet, "stream tcp"),
        (
            call::SOCKETPAIR,
            &[],
            "pingpong socketpair --message 1 --wait spin",
        ),
        (call::SPLICE, &[], &format!("unix_copy normal {unix_copy}")),
        (
            call::VMSPLICE,
            &[],
            &format!("unix_copy zero_copy {unix_copy}"),
        ),
        (call::VMSPLICE, &[], "lookup base_touched"),
        (
            call::VMSPLICE,
            &[],
            "pipe --writer vmsplice --reader read --chunk 8K",
        ),
        (
            call::MADVISE,
            &[],
            "pipe --writer write --reader read --chunk 8K --huge-page",
        ),
    ] {
        let filter = refusing(&[(call, conditions)], Errno::NOSYS);
        let output = finish(start(under(filter, &mut program(directory, line, 0.02))));
        assert_code(&output, 3);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        one_line(stderr(&output));
    }
}

#[test]
fn nothing_is_left_behind() {
    let Some(directory) = built() else { return };
    let temporary = tempfile::tempdir().unwrap();
    for line in ["stream fifo", "stream file_reread"] {
        let output = run_with(line, |seconds| {
            let mut command = program(directory, line, seconds);
            command.env("TMPDIR", temporary.path());
            command
        });
        assert_quiet_success(&output);
    }
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    // If a program is killed, its processes end too; and if one of them dies, the program ends.
    for kill_program in [true, false] {
        let program = start(&mut program(directory, "stream shared_memory", 600.0));
        let processes = wait_for("two processes", || {
            let processes = children(program.id());
            (processes.len() == 2).then_some(processes)
        });
        let killed = match kill_program {
            true => Pid::from_child(&program),
            false => processes[0].0,
        };
        kill_process(killed, Signal::KILL).unwrap();
        let output = finish(program);
        if !kill_program {
            assert_code(&output, 1);
            assert!(one_line(stderr(&output)).contains("signal 9"));
        }
        for (pid, _) in processes {
            wait_for("its end", || (!is_running(pid)).then_some(()));
        }
    }
}

/// Returns the report on the program that does the same.
#[track_caller]
fn peer<'a>(run: &'a Run, name: &str) -> &'a Peer {
    experiment(run, name).peer.as_ref().expect("a program")
}

/// Returns the result of `bench --json` for experiments with the programs in a directory.
fn beside(directory: &Path, rounds: usize, words: &str) -> (Output, Run) {
    let words = format!("bench --json --rounds {rounds} --seconds 0.01 {words} --peers");
    let output = until_measured(&words, |words| {
        finish(start(fullbore(words).arg(directory)))
    });
    assert_code(&output, 0);
    let run = bench_json(&output);
    (output, run)
}

#[test]
fn every_experiment_that_has_a_program_is_compared_with_it() {
    let Some(directory) = built() else { return };
    let (output, run) = beside(directory, 1, "ladder pipe");
    // They are measured in separate runs, each of which is short.
    let (_, transports) = beside(directory, 1, "transports");
    let others = "lookup_base_touched chain_normal copy_zero_copy wake_up tcp_4k_spin";
    let (_, others) = beside(directory, 2, others);
    let mut compared = 0;
    let all = [&run, &transports, &others].map(|run| &run.experiments);
    for experiment in all.into_iter().flatten() {
        let Some(peer) = &experiment.peer else {
            continue;
        };
        if experiment.skipped.is_some() {
            continue;
        }
        if let Some(failed) = &peer.failed {
            skipped(&format!("{}: {failed}", peer.command));
            continue;
        }
        compared += 1;
        let rounds = |figure: &Option<Spread>| figure.as_ref().unwrap().rounds.len();
        assert_eq!(rounds(&peer.figure), rounds(&experiment.figure));
        assert!(peer.ratio > Some(0.0), "{experiment:#?}");
    }
    assert!(compared > 20, "{compared}");
    let command = |name| peer(&run, name).command.as_str();
    let ladder = "pipe --writer write --reader read --chunk 262144";
    assert_eq!(command("write_read"), ladder);
    assert_eq!(command("pipe"), "stream pipe");
    assert_eq!(experiment(&run, "adaptive").peer, None);
    let table = stderr(&output);
    assert!(
        table.contains("to C") && table.contains("within 5%"),
        "{table}"
    );
}

#[test]
fn a_directory_without_programs_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path(), Path::new("/no/such/directory")] {
        let output = finish(start(fullbore("bench write_read --peers").arg(path)));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        assert!(one_line(stderr(&output)).contains("make -C peers"));
    }
}

/// Makes a directory in which every program is this script.
fn scripts(script: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    for name in PROGRAMS {
        symlink(&path, directory.path().join(name)).unwrap();
    }
    directory
}

#[test]
fn a_program_that_is_no_good_is_named_and_the_experiment_is_measured() {
    for (script, word) in [
        ("echo rubbish", "'rubbish'"),
        ("true", "instead of a line of figures"),
        ("echo 0", "'0'"),
        ("echo nan", "'nan'"),
        ("echo 1.5; echo 2.5", "instead of a line of figures"),
        ("echo 'pipe: not here' >&2; exit 3", "pipe: not here"),
        ("echo 1.5; exit 1", "ended with code 1"),
        ("kill -9 $$", "killed by signal 9"),
    ] {
        let directory = scripts(script);
        let (output, run) = beside(directory.path(), 1, "write_read");
        let experiment = experiment(&run, "write_read");
        assert!(has_figure(experiment), "{experiment:#?}");
        let peer = peer(&run, "write_read");
        assert!(peer.figure.is_none() && peer.ratio.is_none(), "{peer:#?}");
        let failed = peer.failed.as_deref().unwrap();
        assert!(failed.contains(word), "'{word}' in '{failed}'");
        let note = experiment.notes.last().unwrap();
        assert!(note.contains(failed), "{note}");
        let table = stderr(&output);
        assert!(table.contains("its program in C"), "{table}");
    }
}

#[test]
fn a_missing_program_is_named_and_the_others_are_compared() {
    let directory = scripts("echo 1.5");
    fs::remove_file(directory.path().join("pipe")).unwrap();
    let (_, run) = beside(directory.path(), 1, "write_read pipe");
    let missing = peer(&run, "write_read").failed.as_deref().unwrap();
    assert!(missing.contains("pipe"), "{missing}");
    let compared = peer(&run, "pipe");
    assert_eq!(compared.figure.as_ref().unwrap().median, 1.5);
    assert!(compared.ratio.is_some());
}

#[test]
fn a_program_that_hangs_is_killed_with_all_that_it_started() {
    // No other process sleeps for this time.
    let seconds = format!("{}.{:09}", 77_777, std::process::id());
    // The shell waits for a child that also has its stdout.
    let directory = scripts(&format!("sleep {seconds}; echo 1.5"));
    let (_, run) = beside(directory.path(), 1, "write_read");
    let failed = peer(&run, "write_read").failed.as_deref().unwrap();
    assert!(failed.contains("in time"), "{failed}");
    // If a program ends and leaves a child behind, the child is not waited for either.
    let directory = scripts(&format!("sleep {seconds} & echo 1.5"));
    let (_, run) = beside(directory.path(), 1, "write_read");
    assert!(peer(&run, "write_read").ratio.is_some());
    wait_for("the end of what it started", || {
        let sleeping = fs::read_dir("/proc").ok()?.any(|process| {
            let command = process
                .ok()
                .and_then(|p| fs::read(p.path().join("cmdline")).ok());
            command.is_some_and(|command| command == format!("sleep\0{seconds}\0").as_bytes())
        });
        (!sleeping).then_some(())
    });
}

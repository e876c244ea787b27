//! A FIFO that nobody opens at its other end keeps no verb from its time limits and from signals.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::*;

/// A directory with a FIFO `p` and a file `a`.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), "hello\n").unwrap();
    let made = output_of(Command::new("mkfifo").arg(directory.path().join("p")));
    assert!(made.unwrap().status.success());
    directory
}

#[test]
fn the_watchdog_covers_the_opening_of_everything() {
    let dir = directory();
    // Its queue is full after some connections, and then the kernel answers to no more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(listener.as_fd(), 0).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500));
    let _queued: Vec<_> = std::iter::from_fn(|| connect().ok()).take(10).collect();
    let to_nobody = format!("-i a -O {address}");
    for (options, words) in [
        ("-i p -o x", "'p' could not be opened within 0.5 s"),
        ("-i a -o p", "'p' could not be opened within 0.5 s"),
        ("-i a -l p -o x", "the log could not be opened within 0.5 s"),
        (
            "-i a --json=p -o x",
            "the report could not be written within 0.5 s",
        ),
        (&to_nobody, "there was no connection to 127.0.0.1:"),
    ] {
        let mut command = fullbore(&format!("buffer -q -f -W 0.5 {options}"));
        let output = finish(start(command.current_dir(dir.path())));
        assert_code(&output, 1);
        let line = one_line(stderr(&output));
        let expected = format!("fullbore buffer: watchdog: {words}");
        assert!(line.starts_with(&expected), "{options}: {line}");
    }
    let port = network::free_port();
    let output = finish(start(&mut fullbore(&format!("buffer -q -W 0.5 -I {port}"))));
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("nobody has connected"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_fifo_that_is_opened_late_has_no_early_end() {
    let dir = directory();
    let mut command = fullbore("buffer -q -W 300 -i p");
    let child = start(command.current_dir(dir.path()));
    let mut writer = fs::File::options()
        .write(true)
        .open(dir.path().join("p"))
        .unwrap();
    // It is open at both ends, without a byte.
    std::thread::sleep(Duration::from_millis(100));
    writer.write_all(b"hello").unwrap();
    drop(writer);
    let output = finish(child);
    assert_quiet_success(&output);
    assert_eq!(output.stdout, b"hello");
    let child = start(fullbore("buffer -q -W 300 -i a -o p").current_dir(dir.path()));
    let mut text = String::new();
    let mut reader = fs::File::open(dir.path().join("p")).unwrap();
    reader.read_to_string(&mut text).unwrap();
    assert_quiet_success(&finish(child));
    assert_eq!(text, "hello\n");
}

/// Whether a thread of this process waits in open(2) of a FIFO.
fn waits_for_a_fifo(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let waits = |task: fs::DirEntry| fs::read_to_string(task.path().join("wchan")).ok();
    let mut waits = tasks.filter_map(waits);
    waits.any(|at| ["wait_for_partner", "fifo_open"].contains(&at.as_str()))
}

#[test]
fn signals_end_a_verb_that_waits_for_the_other_end_of_a_fifo() {
    let dir = directory();
    if !can_be_seen(&dir) {
        return skipped("signals and FIFOs: /proc does not show where a process waits (wchan)");
    }
    let verbs = [
        "copy p",
        "copy --progress a p",
        "copy a -o p",
        "tee p",
        "meter -q p",
        "meter a -o p",
        "meter a --store-and-forward x -o p",
        "buffer -q -i p",
        "buffer -i a -o p",
        "buffer -q -l p -i a",
        "buffer -W 300 -i p",
        "buffer -i a --atomic -f -o y --json=p",
        "run --json=p true",
        "run --progress --json=p true",
        "run --whole -o y --json=p true",
        "top --once --json=p",
    ];
    for words in verbs {
        for signal in [Signal::INT, Signal::TERM] {
            // On a terminal, some of them note signals in order to finish their line first.
            let line = format!("exec {FULLBORE} {words} < /dev/null > out");
            let mut command = Command::new("script");
            let child = match words.starts_with("top") {
                true => start(
                    fullbore(words)
                        .current_dir(dir.path())
                        .stdout(Stdio::null()),
                ),
                false => start(
                    command
                        .args(["-qefc", &line, "/dev/null"])
                        .current_dir(dir.path())
                        .stdin(Stdio::null())
                        .stdout(Stdio::null()),
                ),
            };
            let pid = wait_for("a process that waits in open(2)", || {
                let inner = children(child.id());
                let inner = inner
                    .into_iter()
                    .map(|(pid, _)| pid.as_raw_nonzero().get() as u32);
                let all = std::iter::once(child.id()).chain(inner);
                all.into_iter().find(|&pid| waits_for_a_fifo(pid))
            });
            let began = Instant::now();
            kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
            finish(child);
            assert!(began.elapsed() < Duration::from_secs(300), "{words}");
            wait_for("it is gone", || (!waits_for_a_fifo(pid)).then_some(()));
        }
    }
}

/// Whether /proc shows that a process waits in open(2) of a FIFO.
fn can_be_seen(dir: &TempDir) -> bool {
    let mut child = start(Command::new("cat").arg("p").current_dir(dir.path()));
    let began = Instant::now();
    let seen = loop {
        if waits_for_a_fifo(child.id()) {
            break true;
        }
        if began.elapsed() > Duration::from_secs(10) {
            break false;
        }
        std::thread::yield_now();
    };
    child.kill().unwrap();
    child.wait().unwrap();
    seen
}

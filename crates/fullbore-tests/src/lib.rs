//! What the tests of several crates share: the count of the checks that a run had to skip, and a process without
//! its first thread.
//!
//! A check that needs what this machine lacks, such as root, strace or huge pages, calls [`skipped`], which prints
//! one line and records it. The test target `skipped` of this package prints all records at the end of
//! `cargo test --workspace`. The records are a file for each run of cargo, which is the parent process of every test.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Prints that a check is not made on this machine, and why, and records it for the end of the run.
pub fn skipped(reason: &str) {
    let line = format!("skipped: {}\n", reason.trim_end().replace('\n', "; "));
    // This is not `eprintln!`, because the test harness only shows that if a test fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
    let this = thread::current();
    let record = format!(
        "{}\t{}",
        this.name().unwrap_or("main"),
        &line["skipped: ".len()..]
    );
    let written = records().and_then(|path| {
        fs::create_dir_all(path.parent()?).ok()?;
        let mut file = File::options().create(true).append(true).open(path).ok()?;
        // One write, so that lines of tests that run side by side stay whole.
        file.write_all(record.as_bytes()).ok()
    });
    if written.is_none() {
        let _ = std::io::stderr().write_all(b"the skipped check could not be recorded\n");
    }
}

/// The names of the tests that skipped a check, and the reasons.
pub fn take_skipped() -> Vec<(String, String)> {
    let Some(path) = records() else {
        return Vec::new();
    };
    let text = fs::read_to_string(&path).unwrap_or_default();
    let _ = fs::remove_file(path);
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs
        .map(|(test, reason)| (test.to_owned(), reason.to_owned()))
        .collect()
}

/// The file with the records of this run of cargo: its name has the PID of cargo and the time at which that
/// process started, because PIDs are used again.
fn records() -> Option<PathBuf> {
    let parent = std::os::unix::process::parent_id();
    let stat = fs::read_to_string(format!("/proc/{parent}/stat")).ok()?;
    // Field 22 of proc_pid_stat(5), counted from after the name in parentheses, which is field 2.
    let started = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .to_owned();
    let program = std::env::current_exe().ok()?;
    // Tests are programs in target/PROFILE/deps.
    let folder = program.parent()?.parent()?.join("skipped-checks");
    Some(folder.join(format!("{parent}-{started}")))
}

/// Returns the command of a program whose first thread ends at once, while another one sleeps for ten minutes; `None` if
/// there is no Python here, which counts as skipped.
pub fn without_first_thread() -> Option<Command> {
    let mut python = Command::new("python3");
    let is_there = python.arg("-c").arg("").stdin(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        skipped("a process without its first thread: python3 is not installed");
        return None;
    }
    let number = if cfg!(target_arch = "x86_64") { 60 } else { 93 };
    let program = format!(
        "import ctypes, threading, time\n\
         threading.Thread(target=time.sleep, args=(600,)).start()\n\
         ctypes.CDLL(None).syscall({number}, 0) # exit(2), not exit_group(2)"
    );
    let mut python = Command::new("python3");
    python.arg("-c").arg(program).stdin(Stdio::null());
    Some(python)
}

/// Waits until the first thread of a process has ended.
pub fn wait_for_end_of_first_thread(process: u32) {
    let began = Instant::now();
    let path = format!("/proc/{process}/task/{process}/stat");
    while !fs::read_to_string(&path).unwrap().contains(") Z ") {
        assert!(began.elapsed() < Duration::from_secs(300), "it goes on");
        thread::sleep(Duration::from_millis(2));
    }
}

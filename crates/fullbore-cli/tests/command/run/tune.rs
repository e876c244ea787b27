//! Tests of `fullbore tune`: it grows pipes of running programs, as far as is allowed and safe, and
//! restores their sizes.

use std::fs::{self, File};
use std::io::{PipeReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::users::{ForEverybody, hold_pipes, nobody_else};
use crate::common::*;
use fullbore_observe::census::Process;
use fullbore_observe::tune::outcome::Outcome;
use fullbore_observe::tune::producers::Sends;
use fullbore_observe::tune::report::{TunedPipe, TuningReport};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Processes that are killed at the end of the test, and a directory for the sizes that tune keeps.
struct Stage {
    children: Vec<Child>,
    place: TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Stage {
    fn new() -> Self {
        Self {
            children: Vec::new(),
            place: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts a process that has only these files open.
    fn start(
        &mut self,
        command: &mut Command,
        stdin: impl Into<Stdio>,
        stdout: impl Into<Stdio>,
    ) -> u32 {
        command.stdin(stdin).stdout(stdout).stderr(Stdio::null());
        self.children.push(start(command));
        self.children.last().unwrap().id()
    }

    /// Returns a pipe without bytes, whose writer is known to be safe.
    fn silence(&mut self) -> PipeReader {
        let (reader, writer) = pipe();
        self.start(Command::new("sleep").arg("600"), Stdio::null(), writer);
        reader
    }

    /// Starts `cat | sleep`.
    fn cat_and_sleep(&mut self) -> (u32, u32) {
        let source = self.silence();
        let (reader, writer) = pipe();
        let cat = self.start(&mut Command::new("cat"), source, writer);
        let sleep = self.start(Command::new("sleep").arg("600"), reader, Stdio::null());
        (cat, sleep)
    }

    /// Makes a copy of the command under an unknown name.
    fn stranger(&self) -> PathBuf {
        let path = self.place.path().join("stranger");
        copy_program(FULLBORE, &path);
        path
    }

    /// Starts `write` by this program into a pipe that is hardly read.
    fn slow_pipeline(&mut self, program: &Path, options: &str) -> u32 {
        let (reader, writer) = pipe();
        let mut write = Command::new(program);
        write.arg("write").args(options.split_whitespace());
        write.args(["--bytes-to-pipe", "1000G"]);
        let writing = self.start(&mut write, Stdio::null(), writer);
        let mut read = Command::new(FULLBORE);
        read.args(["read", "--chunk", "4K", "--pause", "5ms"]);
        self.start(&mut read, reader, Stdio::null());
        writing
    }

    fn tune(&self, words: &str) -> Output {
        self.run(fullbore(&format!("tune {words}")))
    }

    fn run(&self, mut command: Command) -> Output {
        command.env("XDG_RUNTIME_DIR", self.place.path());
        wait_for_starts();
        finish(start(&mut command))
    }

    /// Returns the outcome for the pipe that `writer` writes to.
    fn outcome(&self, words: &str, writer: u32) -> (TunedPipe, Output) {
        let output = self.tune(&format!("{words} --json"));
        let report: TuningReport = json(stdout(&output));
        let is_its = |pipe: &&TunedPipe| pipe.writers.iter().any(|one| one.id.pid == writer);
        let found = report.pipes.iter().find(is_its);
        let found = found.unwrap_or_else(|| panic!("{report:#?}")).clone();
        (found, output)
    }
}

#[test]
fn a_pipe_that_is_only_stderr_is_left_alone() {
    let mut stage = Stage::new();
    let source = stage.silence();
    let (stdout_reader, stdout_writer) = pipe();
    let (stderr_reader, stderr_writer) = pipe();
    let mut cat = Command::new("cat");
    cat.stdin(source)
        .stdout(stdout_writer)
        .stderr(stderr_writer);
    stage.children.push(start(&mut cat));
    drop(cat);
    let cat = stage.children.last().unwrap().id();
    let sleep = stage.start(
        Command::new("sleep").arg("600"),
        stdout_reader,
        Stdio::null(),
    );
    stage.start(
        Command::new("sleep").arg("600"),
        stderr_reader,
        Stdio::null(),
    );
    let output = stage.tune(&format!("{cat} --json --dry-run"));
    let report: TuningReport = json(stdout(&output));
    assert_eq!((report.pipes.len(), report.left_out), (2, 1), "{report:#?}");
    let is_read = |pipe: &TunedPipe| pipe.readers.iter().any(|one| one.id.pid == sleep);
    assert!(report.pipes.iter().any(is_read), "{report:#?}");
}

#[test]
fn a_running_pipeline_gets_room_and_the_default_size_back() {
    let mut stage = Stage::new();
    let (cat, sleep) = stage.cat_and_sleep();
    let (dry, output) = stage.outcome(&format!("{cat} --pipe-size 512K --dry-run"), cat);
    assert_quiet_success(&output);
    assert!(dry.from.is_some(), "{dry:#?}");
    assert_eq!((dry.outcome, dry.to), (Outcome::Grown, Some(512 << 10)));
    let (grown, output) = stage.outcome(&format!("{cat} --pipe-size 512K"), cat);
    assert_quiet_success(&output);
    assert_eq!(grown.from, dry.from, "a dry run changes nothing");
    assert_eq!(grown.to, Some(512 << 10));
    assert_eq!(grown.readers[0].id.pid, sleep);
    // From the other end it is the same pipe, and it never shrinks: a request for a smaller size is
    // not met.
    let (again, output) = stage.outcome(&format!("{sleep} --pipe-size 64K"), cat);
    assert_code(&output, 1);
    assert_eq!((again.outcome, again.to), (Outcome::Roomy, Some(512 << 10)));
    let (more, _) = stage.outcome(&format!("{sleep} --pipe-size 1M"), cat);
    assert_eq!(more.to, Some(1 << 20));
    let (reverted, output) = stage.outcome(&format!("{cat} --revert"), cat);
    assert_quiet_success(&output);
    assert_eq!(reverted.outcome, Outcome::Reverted);
    assert_eq!(
        (reverted.from, reverted.to),
        (Some(1 << 20), Some(64 << 10))
    );
    let (again, output) = stage.outcome(&format!("{cat} --revert"), cat);
    assert_quiet_success(&output);
    assert_eq!(
        (again.outcome, again.from),
        (Outcome::NotLarger, reverted.to)
    );
}

#[test]
fn a_pipe_that_holds_more_than_the_default_size_is_not_reverted_and_loses_nothing() {
    let mut stage = Stage::new();
    let (reader, writer) = pipe();
    let yes = stage.start(&mut Command::new("yes"), Stdio::null(), writer);
    let kept = reader.try_clone().unwrap();
    stage.start(Command::new("sleep").arg("600"), reader, Stdio::null());
    let (grown, _) = stage.outcome(&format!("{yes} --pipe-size 256K"), yes);
    assert_eq!(grown.outcome, Outcome::Grown);
    let full = || {
        let queued = rustix::io::ioctl_fionread(&kept).unwrap();
        (queued > 128 << 10).then_some(queued)
    };
    let queued = wait_for("a full pipe", full);
    let (reverted, output) = stage.outcome(&format!("{yes} --revert"), yes);
    assert_code(&output, 1);
    assert_eq!(reverted.outcome, Outcome::TooFull);
    assert!(rustix::io::ioctl_fionread(&kept).unwrap() >= queued);
}

#[test]
fn a_pipe_that_is_full_for_a_moment_is_reverted_all_the_same() {
    let mut stage = Stage::new();
    let (reader, writer) = pipe();
    let yes = stage.start(&mut Command::new("yes"), Stdio::null(), writer);
    let kept = reader.try_clone().unwrap();
    stage.start(Command::new("sleep").arg("600"), reader, Stdio::null());
    let is_full = || {
        let queued = rustix::io::ioctl_fionread(&kept).unwrap();
        (queued > 128 << 10).then_some(())
    };
    // On a busy machine tune may give up before the test has emptied the pipe.
    wait_for("a pipe that is emptied while tune tries", || {
        signal(yes, Signal::CONT);
        let (_, output) = stage.outcome(&format!("{yes} --pipe-size 256K"), yes);
        assert_quiet_success(&output);
        wait_for("a full pipe", is_full);
        signal(yes, Signal::STOP);
        let mut command = fullbore(&format!("tune {yes} --revert --json"));
        command.env("XDG_RUNTIME_DIR", stage.place.path());
        let began = Instant::now();
        let reverting = start(&mut command);
        // The test reads only after tune has tried. Nothing comes in afterwards.
        std::thread::sleep(Duration::from_millis(300));
        let _ = (&kept).read(&mut vec![0; 1 << 20]).unwrap();
        let took = began.elapsed();
        let output = finish(reverting);
        let report: TuningReport = json(stdout(&output));
        let outcome = report.pipes[0].outcome;
        if outcome == Outcome::Reverted {
            assert_quiet_success(&output);
            return Some(());
        }
        assert_code(&output, 1);
        assert_eq!(outcome, Outcome::TooFull);
        // tune tries for a second.
        assert!(took >= Duration::from_secs(1), "{report:#?}");
        None
    });
}

fn signal(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn the_whole_pipeline_is_found_from_any_of_its_processes_and_from_the_shell() {
    let mut stage = Stage::new();
    let source = stage.silence();
    let (reader, writer) = pipe();
    let (last, cat_writer) = pipe();
    let first = stage.start(&mut Command::new("cat"), source, writer);
    let middle = stage.start(Command::new("tr").args(["a", "b"]), reader, cat_writer);
    let sleep = stage.start(Command::new("sleep").arg("600"), last, Stdio::null());
    for pid in [first, middle, sleep] {
        let output = stage.tune(&format!("--pipeline {pid} --dry-run --json"));
        assert_quiet_success(&output);
        let report: TuningReport = json(stdout(&output));
        let has = |writer: u32, reader: u32| {
            let first = |users: &[Process]| users.first().map(|user| user.id.pid);
            let ends = |pipe: &TunedPipe| (first(&pipe.writers), first(&pipe.readers));
            let mut pipes = report.pipes.iter();
            pipes.any(|pipe| ends(pipe) == (Some(writer), Some(reader)))
        };
        assert!(has(first, middle) && has(middle, sleep), "{report:#?}");
    }
    let source = stage.silence();
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat | tr a b | cat >/dev/null; exit 3"]);
    let shell = stage.start(&mut shell, source, Stdio::null());
    let pipes = wait_for("three stages", || {
        let output = stage.tune(&format!("--pipeline {shell} --dry-run --json"));
        let report: TuningReport = serde_json::from_slice(&output.stdout).ok()?;
        let is_of_tr = |pipe: &&TunedPipe| {
            let mut users = pipe.writers.iter().chain(&pipe.readers);
            users.any(|user| user.name == "tr")
        };
        (report.pipes.iter().filter(is_of_tr).count() == 2).then_some(report.pipes)
    });
    let is_grown = |pipe: &TunedPipe| pipe.outcome == Outcome::Grown;
    assert!(pipes.iter().all(is_grown), "{pipes:#?}");
}

#[test]
fn a_writer_that_counts_on_its_pipe_s_capacity_is_refused_unless_forced() {
    let mut stage = Stage::new();
    let writer = stage.slow_pipeline(Path::new(FULLBORE), "--write-with-vmsplice");
    // The program sets the size of its pipe itself, once it runs.
    let before = wait_for("the size that it counts on", || {
        let (pipe, _) = stage.outcome(&format!("{writer} --dry-run"), writer);
        (pipe.from == Some(128 << 10)).then_some(pipe)
    });
    assert_eq!(before.judged[0].sends, Sends::Pages, "{before:#?}");
    let (refused, output) = stage.outcome(&writer.to_string(), writer);
    assert_code(&output, 1);
    assert_eq!(refused.outcome, Outcome::Refused);
    let said = stderr(&output);
    assert!(
        said.contains("wrong bytes") && said.contains("--force"),
        "{said}"
    );
    let line = stage.tune(&writer.to_string());
    assert!(
        stdout(&line).contains("128 KiB, refused"),
        "{}",
        stdout(&line)
    );
    let (forced, output) = stage.outcome(&format!("{writer} --force"), writer);
    assert_code(&output, 0);
    assert_eq!((forced.outcome, forced.to), (Outcome::Grown, Some(1 << 20)));
    assert!(
        stderr(&output).contains("because of --force"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_program_that_nobody_knows_is_refused_unless_forced() {
    let mut stage = Stage::new();
    let stranger = stage.stranger();
    let writes = stage.slow_pipeline(&stranger, "--buf-size 8K");
    let (refused, output) = stage.outcome(&writes.to_string(), writes);
    assert_code(&output, 1);
    assert_eq!(refused.outcome, Outcome::Refused, "{refused:#?}");
    assert_eq!(refused.judged[0].sends, Sends::Unknown, "{refused:#?}");
    let (forced, output) = stage.outcome(&format!("{writes} --force"), writes);
    assert_code(&output, 0);
    assert_eq!(forced.outcome, Outcome::Grown, "{forced:#?}");
}

#[test]
fn a_limit_that_stops_it_is_named() {
    let max = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap();
    let max: usize = max.trim().parse().unwrap();
    if !is_root() {
        return skipped("limits of other users: this is not root");
    }
    let mut stage = Stage::new();
    let copy = ForEverybody::new();
    let somebody = nobody_else(1);
    let source = stage.silence();
    let (reader, writer) = pipe();
    let mut cat = Command::new("cat");
    let cat = stage.start(cat.uid(somebody).gid(somebody), source, writer);
    let mut sleep = Command::new("sleep");
    stage.start(
        sleep.arg("600").uid(somebody).gid(somebody),
        reader,
        Stdio::null(),
    );
    // A pipe belongs to the user who created it, here root, so another user may see it, but not
    // open it.
    let output = finish(start(
        &mut copy.command(somebody, &format!("tune {cat} --json")),
    ));
    assert_code(&output, 3);
    assert!(
        stdout(&output).contains("Permission denied"),
        "{}",
        said(&output)
    );
    // The user's own pipe can be grown.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "sleep 600 | sleep 600; exit 3"])
        .uid(somebody)
        .gid(somebody);
    let shell = stage.start(&mut shell, Stdio::null(), Stdio::null());
    let two = format!("--pipeline {shell} --pipe-size {}", max * 2);
    wait_for("the pipeline", || {
        let stages = children(shell);
        let are_there = stages
            .iter()
            .filter(|(_, words)| words[0] == "sleep")
            .count()
            == 2;
        are_there.then_some(())
    });
    let output = finish(start(&mut copy.command(somebody, &format!("tune {two}"))));
    assert_code(&output, 3);
    let text = stdout(&output);
    assert!(text.contains("/proc/sys/fs/pipe-max-size is"), "{text}");
    // Without a requested size, growing as far as possible is a success.
    let output = finish(start(
        &mut copy.command(somebody, &format!("tune --pipeline {shell}")),
    ));
    assert_code(&output, 0);
    let soft = fullbore_linux::pipe_user_pages_soft();
    if soft.is_none_or(|pages| !(1..=1 << 16).contains(&pages)) {
        return skipped("a user beyond pipe-user-pages-soft: there is no such limit here");
    }
    let _ = finish(start(
        &mut copy.command(somebody, &format!("tune --pipeline {shell} --revert")),
    ));
    // The dry run reports what the real run does.
    for dry_run in ["--dry-run", ""] {
        let words = format!("tune --pipeline {shell} --pipe-size 1M {dry_run}");
        let mut command = copy.command(somebody, &words);
        // SAFETY: between fork and exec it makes system calls and allocates nothing.
        unsafe { command.pre_exec(hold_pipes) };
        let output = finish(start(&mut command));
        assert_code(&output, 3);
        let text = stdout(&output);
        assert!(
            text.contains("pipe-user-pages-soft allows"),
            "{words}: {text}"
        );
    }
    kill_below(shell);
}

/// Kills the processes that a shell has started.
fn kill_below(shell: u32) {
    for (pid, _) in children(shell) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

#[test]
fn a_fifo_that_is_open_on_one_side_is_not_opened() {
    let mut stage = Stage::new();
    let path = stage.place.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let reader = File::options()
        .read(true)
        .custom_flags(nonblock)
        .open(&path)
        .unwrap();
    let sleep = stage.start(Command::new("sleep").arg("600"), reader, Stdio::null());
    let output = stage.tune(&format!("{sleep} --force"));
    assert_code(&output, 1);
    let text = stdout(&output);
    assert!(
        text.contains("not changed") && text.contains("/fifo"),
        "{text}"
    );
    // With both sides open, the FIFO works like any pipe.
    let writer = File::options().write(true).open(&path).unwrap();
    let source = stage.silence();
    let cat = stage.start(&mut Command::new("cat"), source, writer);
    let (grown, output) = stage.outcome(&sleep.to_string(), cat);
    assert_quiet_success(&output);
    assert_eq!(grown.outcome, Outcome::Grown);
    assert_eq!(grown.path.as_deref(), path.to_str());
}

#[test]
fn a_fifo_whose_writer_goes_while_it_is_judged_is_not_opened() {
    let mut stage = Stage::new();
    let stranger = stage.stranger();
    // Whether the writer goes before tune has judged it, meanwhile or after it is left to chance.
    for round in 0..10 {
        let path = stage.place.path().join(format!("fifo{round}"));
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let mut options = File::options();
        let reader = options.read(true).custom_flags(nonblock).open(&path);
        let writer = File::options().write(true).open(&path).unwrap();
        let mut sleep = Command::new("sleep");
        let sleep = stage.start(sleep.arg("600"), reader.unwrap(), Stdio::null());
        let mut write = Command::new(&stranger);
        write.args(["write", "--bytes-to-pipe", "1000G"]);
        let writing = stage.start(&mut write, Stdio::null(), writer);
        let mut command = fullbore(&format!("tune {sleep} --force --json"));
        command.env("XDG_RUNTIME_DIR", stage.place.path());
        let tuning = start(&mut command);
        std::thread::sleep(Duration::from_millis(100 * (1 + round % 8)));
        let mut writer = stage.children.pop().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        let output = finish(tuning);
        let report: TuningReport = json(stdout(&output));
        let pipe = report.pipes.first().expect("the FIFO");
        match (pipe.outcome, pipe.writers.first()) {
            // It went meanwhile.
            (Outcome::HalfOpen, Some(writer)) => {
                assert_eq!(writer.id.pid, writing);
                return assert_code(&output, 1);
            }
            // It had gone before.
            (Outcome::HalfOpen, None) => assert_code(&output, 1),
            // It went after.
            (Outcome::Grown, Some(_)) => assert_code(&output, 0),
            _ => panic!("{report:#?}"),
        }
    }
}

#[test]
fn who_is_meant_by_a_name_is_said_and_nobody_is_an_error() {
    let mut stage = Stage::new();
    // No other run of these tests has processes of this name.
    let name = format!("two-{}", std::process::id());
    let program = stage.place.path().join(&name);
    fs::write(&program, "#!/bin/sh\nread line\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&program, executable).unwrap();
    let (first, _sink) = pipe();
    let (second, _sink) = pipe();
    let mut pids = Vec::new();
    for source in [first, second] {
        pids.push(stage.start(&mut Command::new(&program), source, Stdio::null()));
    }
    let output = stage.tune(&format!("{name} --dry-run"));
    let said = stderr(&output);
    for pid in pids {
        assert!(
            said.contains("2 processes") && said.contains(&pid.to_string()),
            "{said}"
        );
    }
    let output = stage.tune("nobody-is-called-so");
    assert_code(&output, 1);
    assert!(
        one_line(stderr(&output)).contains("no process named 'nobody-is-called-so' has a pipe")
    );
    let output = stage.tune("999999999");
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("no such process"));
    for wrong in [
        "",
        "1 --pipeline 1",
        "1 --pipe-size 0",
        "1 --pipe-size 3G",
        "1 --revert --pipe-size 1M",
        "1 --revert --force",
    ] {
        let output = stage.tune(wrong);
        assert_code(&output, 2);
        let line = one_line(stderr(&output));
        assert!(line.contains("'fullbore tune --help'"), "{line}");
    }
    if is_root() {
        let copy = ForEverybody::new();
        let output = finish(start(&mut copy.command(nobody_else(1), "tune 1")));
        assert_code(&output, 3);
        assert!(
            stderr(&output).contains("this user may not inspect"),
            "{}",
            crate::common::said(&output)
        );
    } else {
        skipped("a closed process: this is not root");
    }
}

#[test]
fn a_size_below_what_a_pipe_holds_changes_nothing_and_is_said_to() {
    let mut stage = Stage::new();
    let (cat, _) = stage.cat_and_sleep();
    let (before, output) = stage.outcome(&format!("{cat} --pipe-size 4K"), cat);
    assert_code(&output, 1);
    assert_eq!(before.outcome, Outcome::Roomy, "{before:#?}");
    let output = stage.tune(&format!("{cat} --pipe-size 4K"));
    assert_code(&output, 1);
    let text = stdout(&output);
    assert!(
        text.contains("which is more than 4 KiB: tune makes no pipe smaller"),
        "{text}"
    );
    // A size that is already reached exactly is a success.
    let capacity = before.from.unwrap();
    let output = stage.tune(&format!("{cat} --pipe-size {capacity}"));
    assert!(stdout(&output).contains(" already"), "{}", said(&output));
}

#[test]
fn an_output_that_nobody_reads_ends_it_quietly() {
    let mut stage = Stage::new();
    let (cat, _) = stage.cat_and_sleep();
    let mut command = fullbore(&format!("tune {cat}"));
    command.stdout(nobody_reads());
    let output = stage.run(command);
    assert_quiet_success(&output);
}

//! Tests of the census on real processes.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::census::chains::{Flow, PipeKind};
use crate::census::link::fill_of;
use crate::census::{Holder, ProcessId};
use rustix::fs::FileType;

use super::*;

/// A process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn sleep(stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Self {
        Self::start(Command::new("sleep").arg("600").stdin(stdin).stdout(stdout))
    }

    fn start(command: &mut Command) -> Self {
        let child = command.spawn().unwrap();
        // The fds that it was given must not stay open here.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(child)
    }
}

/// Waits until a process has a pipe as this fd, and only `others` other processes have it too, and
/// returns it. A process that another test starts also has the pipe until it becomes another
/// program. A program that is just starting has no command line yet.
fn pipe_of(child: &Running, fd: i32, others: usize) -> (Census, Pipe) {
    let began = Instant::now();
    loop {
        let census = Census::take().unwrap();
        let process = census.process(child.0.id());
        let has_command = |at: usize| !census.processes[at].command.starts_with('[');
        let found = census.pipes.iter().find(|pipe| {
            process.is_some_and(has_command)
                && pipe.holders.len() == 1 + others
                && pipe.holders.iter().any(|holder| {
                    Some(holder.process) == process
                        && (holder.reads == Some(fd) || holder.writes == Some(fd))
                })
        });
        if let Some(found) = found.cloned() {
            return (census, found);
        }
        assert!(began.elapsed() < Duration::from_secs(300), "not seen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_pipeline_is_seen_with_who_writes_and_who_reads() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[0; 5000]).unwrap();
    let mine = writer.as_fd().as_raw_fd();
    let handle = openat(
        CWD,
        format!("/proc/self/fd/{mine}"),
        OFlags::PATH,
        Mode::empty(),
    )
    .unwrap();
    let draining = Running::sleep(reader, Stdio::null());
    // The process also has an O_PATH fd of the pipe, which is not an end of it.
    let feeding = Running::sleep(handle, writer);
    let (census, pipe) = pipe_of(&feeding, 1, 1);
    let pids = |holders: Vec<&Holder>| -> Vec<u32> {
        let id = |holder: &&Holder| census.processes[holder.process].id.pid;
        holders.iter().map(id).collect()
    };
    assert_eq!(pids(pipe.writers().collect()), [feeding.0.id()]);
    assert_eq!(pids(pipe.readers().collect()), [draining.0.id()]);
    assert_eq!(pipe.kind(), PipeKind::Link);
    assert!(!pipe.is_named());
    let process = &census.processes[census.process(feeding.0.id()).unwrap()];
    assert_eq!(
        (process.name.as_str(), process.command.as_str()),
        ("sleep", "sleep 600")
    );
    assert_eq!(process.parent, std::process::id());
    let handle = census.handle(&pipe).unwrap();
    let fill = fill_of(handle.as_fd()).unwrap();
    assert_eq!(fill.queued, 5000);
    assert!(fill.capacity >= 5000);
    let index = census.pipes.iter().position(|one| *one == pipe).unwrap();
    assert!(
        Flow::new(&census)
            .chains()
            .iter()
            .any(|chain| chain.pipes == [index])
    );
}

#[test]
fn a_process_whose_first_thread_has_ended_is_seen_with_its_pipes() {
    let (reader, writer) = std::io::pipe().unwrap();
    let Some(mut command) = fullbore_tests::without_first_thread() else {
        return;
    };
    let inode = rustix::fs::fstat(&reader).unwrap().st_ino;
    let child = Running::start(command.stdout(writer));
    let mut known = KnownProcesses::at_most(1 << 12);
    // It may be among the known processes with its first thread.
    known.take_census().unwrap();
    fullbore_tests::wait_for_end_of_first_thread(child.0.id());
    for mut known in [known, KnownProcesses::default()] {
        for _ in 0..3 {
            let census = known.take_census().unwrap();
            let process = census.process(child.0.id()).expect("it is seen");
            let found = &census.processes[process];
            assert_eq!(Some(found.id), ProcessId::of(child.0.id()));
            assert_eq!(found.parent, std::process::id());
            assert!(found.command.contains("python3"), "{}", found.command);
            let is_ours = |pipe: &&Pipe| pipe.identity.inode == inode;
            let pipe = census.pipes.iter().find(is_ours).unwrap();
            let holder = pipe.writers().find(|holder| holder.process == process);
            assert_eq!(holder.unwrap().writes, Some(1));
            let only = Pipe {
                holders: vec![*holder.unwrap()],
                ..pipe.clone()
            };
            assert!(fill_of(census.handle(&only).unwrap().as_fd()).is_ok());
        }
    }
    drop(reader);
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("f\n\u{1b}]0;x\u{7}\u{2067}");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    // The name of a script's process is the name of the script.
    let script = directory.path().join("a\n\u{1b}[2J\u{202e}b) R 1");
    std::fs::write(&script, "#!/bin/sh\nread line\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = Command::new(&script);
    let both = std::fs::File::options().read(true).write(true).open(&fifo);
    command.arg("\u{1b}[31m\n\u{202e}").stdin(both.unwrap());
    let child = loop {
        match command.spawn() {
            // A child that another test has just started may still have the script open.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            child => break Running(child.unwrap()),
        }
    };
    let (census, pipe) = pipe_of(&child, 0, 0);
    let process = &census.processes[census.process(child.0.id()).unwrap()];
    assert_eq!(process.name, "a??[2J\u{fffd}b) R 1");
    assert_eq!(process.id.pid, child.0.id());
    assert!(
        process.command.ends_with(" ?[31m?\u{fffd}"),
        "{}",
        process.command
    );
    let name = pipe.name.as_deref().unwrap();
    assert!(name.ends_with("/f??]0;x?\u{fffd}"), "{name}");
    assert_eq!(pipe.kind(), PipeKind::Own);
}

#[test]
fn who_has_slept_is_as_before_and_who_has_run_is_looked_at_again() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (stdin, mut orders) = std::io::pipe().unwrap();
    let script = "read a; exec 7>&1; read b; exec 7>&-; read c";
    let shell = Running::start(
        Command::new("sh")
            .args(["-c", script])
            .stdin(stdin)
            .stdout(writer),
    );
    let mut known = KnownProcesses::at_most(1 << 12);
    let fds = |known: &mut KnownProcesses| -> Vec<(i32, bool)> {
        let census = known.take_census().unwrap();
        let Some(process) = census.process(shell.0.id()) else {
            return Vec::new();
        };
        let ends = known.processes[&shell.0.id()].ends.iter();
        let ends: Vec<_> = ends.map(|end| (end.fd as i32, end.writes)).collect();
        // The kept state must be the same as the census.
        for holder in census.pipes.iter().flat_map(|pipe| &pipe.holders) {
            assert!(holder.process != process || ends.iter().any(|end| end.0 == holder.any_fd()));
        }
        ends
    };
    let until = |known: &mut KnownProcesses, expected: &[(i32, bool)]| {
        let began = Instant::now();
        // This is more scans than it takes until everything is read again.
        for _ in 0..3 * CENSUSES_PER_DESCRIPTION {
            while !expected.iter().all(|end| fds(known).contains(end)) {
                assert!(
                    began.elapsed() < Duration::from_secs(300),
                    "{expected:?}: not seen"
                );
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        fds(known)
    };
    until(&mut known, &[(0, false), (1, true)]);
    orders.write_all(b"\n").unwrap();
    until(&mut known, &[(0, false), (1, true), (7, true)]);
    orders.write_all(b"\n").unwrap();
    let began = Instant::now();
    while until(&mut known, &[(0, false), (1, true)]).contains(&(7, true)) {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "7 is still there"
        );
    }
    drop(reader);
}

#[test]
fn pipelines_that_come_and_go_under_a_census_end_as_they_would_without() {
    let done = AtomicBool::new(false);
    let shell = |script: &str| Command::new("sh").args(["-c", script]).output().unwrap();
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let mut filled = 0;
            while !done.load(Ordering::Relaxed) {
                let census = Census::take().unwrap();
                for pipe in census
                    .pipes
                    .iter()
                    .filter(|pipe| pipe.kind() == PipeKind::Link)
                {
                    let handle = census.handle(pipe);
                    let fill = handle.and_then(|handle| fill_of(handle.as_fd()));
                    filled += usize::from(fill.is_ok());
                }
            }
            filled
        });
        for _ in 0..100 {
            // The reader gets all bytes and then the end of the file.
            let counted = shell("head -c 300000 /dev/zero | cat | wc -c");
            assert_eq!(counted.stdout.trim_ascii(), b"300000");
            // A writer is ended by SIGPIPE, and without a delay.
            let mut yes = Command::new("yes");
            let (reader, writer) = std::io::pipe().unwrap();
            let mut writing = yes.stdout(writer).spawn().unwrap();
            yes.stdout(Stdio::null());
            let head = Command::new("head")
                .arg("-n1")
                .stdin(reader)
                .output()
                .unwrap();
            assert_eq!(head.stdout, b"y\n");
            let status = writing.wait().unwrap();
            assert_eq!(status.signal(), Some(13), "{status}");
        }
        done.store(true, Ordering::Relaxed);
        assert!(observer.join().unwrap() > 0);
    });
}

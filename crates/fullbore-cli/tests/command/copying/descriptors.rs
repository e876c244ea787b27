//! Names of open descriptors, such as /dev/stdout and /dev/fd/3: every verb that takes files reads and writes the
//! descriptor itself.

use std::fs::File;
use std::io::{Read, Write, stdin};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Output, Stdio};

use crate::common::*;
use rustix::event::epoll;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, fcntl_lock, mknodat};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use tempfile::TempDir;

/// Runs a line of bash in a directory that has a file `x` and a symbolic link `out` to /dev/stdout; `$F` is fullbore.
fn in_new_place(line: &str) -> (Output, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x"), "data\n").unwrap();
    std::os::unix::fs::symlink("/dev/stdout", directory.path().join("out")).unwrap();
    (finish(start(&mut bash(&directory, line))), directory)
}

fn content(directory: &TempDir, name: &str) -> String {
    std::fs::read_to_string(directory.path().join(name)).unwrap()
}

#[test]
fn an_output_is_written_to_where_it_stands_and_not_truncated() {
    for name in [
        "/dev/stdout",
        "/dev/fd/1",
        "/proc/self/fd/1",
        "/proc/thread-self/fd/1",
        "out",
    ] {
        for verb in [
            "copy x -o",
            "copy --by-reference x -o",
            "copy x --append -o",
            "meter -q x -o",
            "buffer -q -i x -o",
            "buffer -q -f -i x -o",
            "buffer -q -i x --append -o",
        ] {
            let line = format!("{{ echo header; $F {verb} {name}; echo trailer; }} > f");
            let (output, directory) = in_new_place(&line);
            assert_quiet_success(&output);
            assert_eq!(
                content(&directory, "f"),
                "header\ndata\ntrailer\n",
                "{line}"
            );
        }
        let line = format!("{{ echo header; $F tee {name} < x; echo trailer; }} > f");
        let (output, directory) = in_new_place(&line);
        assert_quiet_success(&output);
        assert_eq!(
            content(&directory, "f"),
            "header\ndata\ndata\ntrailer\n",
            "{line}"
        );
    }
    for name in ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"] {
        for by in ["", "-a"] {
            let line = format!(
                "{{ echo old >&2; $F tee {by} {name} < x > /dev/null; echo new >&2; }} 2> log"
            );
            let (output, directory) = in_new_place(&line);
            assert_quiet_success(&output);
            assert_eq!(content(&directory, "log"), "old\ndata\nnew\n", "{line}");
        }
    }
    let line = "{ echo old >&2; $F buffer -l /dev/stderr --pid < x > /dev/null; } 2> log";
    let (output, directory) = in_new_place(line);
    assert_quiet_success(&output);
    let log = content(&directory, "log");
    assert!(
        log.starts_with("old\n") && log.contains(" PID is "),
        "{log}"
    );
}

#[test]
fn an_input_is_read_from_where_it_stands() {
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/dev/fd/5"] {
        for verb in ["copy", "meter -q", "buffer -q -i", "copy --by-reference"] {
            let line =
                format!("printf 'one\\ntwo\\n' > y; {{ read line; $F {verb} {name} 5<&0; }} < y");
            let (output, _directory) = in_new_place(&line);
            assert_quiet_success(&output);
            assert_eq!(stdout(&output), "two\n", "{line}");
        }
    }
}

#[test]
fn a_descriptor_may_be_a_socket() {
    for verb in [
        "copy /dev/stdin",
        "meter -q /dev/stdin",
        "buffer -q -i /dev/stdin",
    ] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"hello\n").unwrap();
        ours.shutdown(Shutdown::Write).unwrap();
        let mut command = fullbore(verb);
        let output = finish(start(command.stdin(OwnedFd::from(theirs))));
        assert_quiet_success(&output);
        assert_eq!(stdout(&output), "hello\n", "{verb}");
    }
    for verb in [
        "tee /dev/stderr",
        "tee /dev/fd/2",
        "copy - -o /dev/stderr",
        "meter -q - -o /dev/stderr",
        "buffer -q -o /dev/stderr",
    ] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut command = fullbore(verb);
        command.stdin(Stdio::piped()).stderr(OwnedFd::from(theirs));
        let mut child = start(&mut command);
        child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
        assert_code(&finish(child), 0);
        // The command has a copy of the peer.
        drop(command);
        let mut got = String::new();
        ours.read_to_string(&mut got).unwrap();
        assert_eq!(got, "hello\n", "{verb}");
    }
}

#[test]
fn a_stdin_that_cannot_be_read_is_one_line_and_code_1() {
    let epoll = || epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let pidfd = || pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (_reader, writer) = pipe();
    for verb in [
        "copy",
        "tee",
        "meter -q",
        "buffer -q",
        "parallel cat",
        "read",
    ] {
        for (stdin, why) in [
            (
                OwnedFd::from(writer.try_clone().unwrap()),
                "Bad file descriptor",
            ),
            (epoll(), "Invalid argument"),
            (pidfd(), "Invalid argument"),
            (listener().into(), "Transport endpoint is not connected"),
        ] {
            let output = finish(start(fullbore(verb).stdin(stdin)));
            assert_code(&output, 1);
            assert_eq!(stdout(&output), "", "{verb}");
            let line = one_line(stderr(&output));
            assert!(
                line.contains("read from stdin") && line.ends_with(why),
                "{line}"
            );
        }
    }
}

#[test]
fn what_cannot_be_used_is_one_line_and_code_1() {
    for (line, said) in [
        (
            "echo > y; $F copy x -o /dev/stdin < y",
            "open '/dev/stdin': the descriptor is not open for writing",
        ),
        (
            "echo > y; $F tee /dev/fd/5 < x 5< y",
            "open '/dev/fd/5': the descriptor is not open for writing",
        ),
        (
            "echo > y; $F buffer -q -i x -o /dev/fd/5 5< y",
            "open '/dev/fd/5': the descriptor is not open",
        ),
        (
            "echo > y; $F meter -q x -o /dev/fd/5 5< y",
            "open '/dev/fd/5': the descriptor is not open",
        ),
        (
            "$F copy /dev/fd/5 5> y",
            "open '/dev/fd/5': the descriptor is not open for reading",
        ),
        (
            "$F copy /dev/fd/9 9>&-",
            "open '/dev/fd/9': Bad file descriptor",
        ),
        (
            "$F tee y /dev/fd/3 < x 3>&-",
            "open '/dev/fd/3': Bad file descriptor",
        ),
        ("$F copy x -o /dev/stdout >&-", "standard output is closed"),
        ("$F copy /dev/stdin <&-", "standard input is closed"),
    ] {
        let (output, _directory) = in_new_place(line);
        assert_code(&output, 1);
        assert!(
            one_line(stderr(&output)).contains(said),
            "{line}: {}",
            stderr(&output)
        );
    }
    // Rust has opened /dev/null in its place.
    let (output, _directory) = in_new_place("$F tee /dev/stderr < x 2>&-");
    assert_code(&output, 1);
    // The digest is no part of the data.
    let (output, _directory) = in_new_place("$F copy x -o /dev/stdout --hash sha256");
    assert_eq!(stdout(&output), "data\n");
    assert!(one_line(stderr(&output)).contains("/dev/stdout"));
}

#[test]
fn no_output_is_truncated_for_a_directory_on_stdin() {
    for verb in ["copy -o f", "meter -q -o f", "buffer -q -f -o f", "tee f"] {
        let (output, directory) = in_new_place(&format!("echo old > f; $F {verb} < ."));
        assert_code(&output, 1);
        assert!(stderr(&output).contains("Is a directory"), "{output:?}");
        assert_eq!(content(&directory, "f"), "old\n", "{verb}");
    }
}

#[test]
fn locks_on_stdin_are_kept_while_later_inputs_are_read() {
    for verb in ["copy", "meter -q"] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("x"), "data\n").unwrap();
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let file = File::options().read(true).write(true).open(path("x"));
        let file = file.unwrap();
        let mut command = fullbore(&format!("{verb} - {}", path("fifo").display()));
        let for_child = file.try_clone().unwrap();
        let others = [file.as_raw_fd(), for_child.as_raw_fd()];
        command.stdin(for_child);
        let lock = move || {
            // If execve(2) closed another descriptor of the file, the lock would be lost.
            for other in others {
                // SAFETY: the child does not use this descriptor.
                unsafe { rustix::io::close(other) };
            }
            let exclusive = FlockOperation::NonBlockingLockExclusive;
            Ok(fcntl_lock(stdin(), exclusive)?)
        };
        // SAFETY: it only makes system calls.
        unsafe { command.pre_exec(lock) };
        let child = start(&mut command);
        // This waits until the FIFO is opened, after stdin has been read.
        let mut fifo = File::options().write(true).open(path("fifo")).unwrap();
        let taken = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
        fifo.write_all(b"more\n").unwrap();
        drop(fifo);
        let output = finish(child);
        assert_code(&output, 0);
        assert_eq!(output.stdout, b"data\nmore\n", "{verb}");
        assert_eq!(taken, Err(Errno::AGAIN), "{verb}");
    }
}

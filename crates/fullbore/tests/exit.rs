//! Dropping, forking, exiting and being killed, with pages still in the pipe.
//!
//! A child that is forked holds every open descriptor of this process for a moment: so no test in
//! this file may depend on a reader's being gone the moment it is dropped.

#![allow(unsafe_code)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::{env, io, thread};

use common::*;
use fullbore::{Pipe, PipeEnd, Producer, ProducerOptions, Way};

fn open(way: Way, sink: OwnedFd) -> Producer<OwnedFd> {
    let options = ProducerOptions::new();
    match way {
        Way::Copy => options.copy(sink).unwrap(),
        Way::Fresh => options.fresh(sink).unwrap(),
        // SAFETY: the readers in this file copy wherever it is asked for.
        Way::Recycle => unsafe { options.recycle(sink) }.unwrap(),
        _ => unreachable!("it is not a Producer's"),
    }
}

const WAYS: [Way; 3] = [Way::Copy, Way::Fresh, Way::Recycle];

#[test]
fn dropping_sends_what_was_gathered() {
    for way in WAYS {
        for sizes in [&[5][..], &[100_000], &[1, 300_000, 7]] {
            let pipe = Pipe::new().unwrap();
            let mut out = open(way, pipe.writer);
            let mut at = 0;
            for &size in sizes {
                let mut bytes = vec![0; size];
                fill(&mut bytes, at);
                out.write_all(&bytes).unwrap();
                at += size as u64;
            }
            drop(out);
            let read = Reader::Quick.drain(pipe.reader, Checker::of_the_stream());
            assert_eq!(read, at, "{way}");
        }
    }
}

#[test]
fn dropping_without_a_reader_is_quiet() {
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let mut out = open(way, pipe.writer);
        out.write_all(b"for nobody").unwrap();
        drop(pipe.reader);
        drop(out);
    }
}

fn dev_full() -> OwnedFd {
    let full = File::options().write(true).open("/dev/full");
    full.unwrap().into()
}

#[test]
fn dropping_what_cannot_be_sent_is_quiet() {
    let mut out = open(Way::Copy, dev_full());
    out.write_all(b"lost").unwrap();
    drop(out);
}

#[test]
fn no_length_of_output_is_lost_silently_when_finished() {
    let chunk = 4096;
    for len in [1, chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk + 1] {
        for piece in [1000, chunk - 1, chunk, len] {
            let options = ProducerOptions::new().chunk(chunk);
            let mut out = options.copy(dev_full()).unwrap();
            let bytes = vec![1; len];
            let answer: io::Result<()> = bytes.chunks(piece).try_for_each(|p| out.write_all(p));
            if answer.is_ok() {
                let error = out.finish().unwrap_err();
                assert_eq!(error.error().kind(), io::ErrorKind::StorageFull, "{error}");
            }
        }
    }
}

#[test]
fn dropping_while_panicking_does_not_panic_again() {
    let panic = catch_unwind(|| {
        let mut out = open(Way::Copy, dev_full());
        out.write_all(b"lost").unwrap();
        panic!("the first one");
    });
    let panic = panic.expect_err("it panics");
    assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "the first one");
}

#[test]
fn after_an_error_that_was_shown_dropping_is_quiet() {
    let mut out = open(Way::Copy, dev_full());
    out.write_all(b"lost").unwrap();
    assert!(out.flush().is_err());
    drop(out);
}

/// Runs `child` in a forked process, and waits for it to end well.
fn fork_and_wait(child: impl FnOnce()) {
    let code = exit_code_of(|| {
        child();
        0
    });
    assert_eq!(code, 0);
}

/// Runs `child` in a forked process, and says the exit code that it returned.
fn exit_code_of(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: glibc's allocator survives a fork, and the child ends by _exit without coming back here.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "{}", io::Error::last_os_error());
    if process == 0 {
        let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: ends the process, and runs nothing of it.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: writes to where it is told.
    let waited = unsafe { libc::waitpid(process, &mut status, 0) };
    assert_eq!(waited, process);
    std::process::ExitStatus::from_raw(status)
        .code()
        .unwrap_or(98)
}

/// As `exit_code_of`, in a process whose id is 1: in a new PID namespace. `None` where there are none to
/// be had.
fn exit_code_as_process_1(child: impl FnOnce() -> i32) -> Option<i32> {
    const NO_NAMESPACE: i32 = 77;
    let code = exit_code_of(|| {
        // SAFETY: what this process forks from here on is in new namespaces, and nothing else.
        let has_namespace = unsafe {
            libc::unshare(libc::CLONE_NEWPID) == 0
                || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) == 0
        };
        if !has_namespace {
            return NO_NAMESPACE;
        }
        exit_code_of(|| {
            assert_eq!(std::process::id(), 1);
            child()
        })
    });
    (code != NO_NAMESPACE).then_some(code)
}

#[test]
fn a_forked_copy_with_the_same_process_id_sends_nothing_twice() {
    let _watch = watch("a_forked_copy_with_the_same_process_id_sends_nothing_twice");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let sink = pipe.writer.try_clone().unwrap();
        let code = exit_code_as_process_1(|| {
            let mut out = open(way, sink);
            out.write_all(b"once").unwrap();
            let mut out = Some(out);
            let code = exit_code_as_process_1(|| {
                drop(out.take());
                0
            });
            // What this process has is still to be sent.
            drop(out);
            code.unwrap_or(97)
        });
        drop(pipe.writer);
        if code.is_none_or(|code| code == 97) {
            println!("skipped: no PID namespaces here");
            return;
        }
        assert_eq!(code, Some(0), "{way}");
        let mut text = String::new();
        File::from(pipe.reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "once", "{way}");
    }
}

#[test]
fn a_producer_that_a_forked_child_makes_is_the_childs() {
    let _watch = watch("a_producer_that_a_forked_child_makes_is_the_childs");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let sink = pipe.writer.try_clone().unwrap();
        let mut parents = open(way, pipe.writer);
        parents.write_all(b"parent ").unwrap();
        fork_and_wait(|| {
            let mut out = open(way, sink.try_clone().unwrap());
            out.write_all(b"child ").unwrap();
            drop(out);
        });
        drop(parents);
        drop(sink);
        let mut text = String::new();
        File::from(pipe.reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "child parent ", "{way}");
    }
}

#[test]
fn a_forked_copy_sends_nothing_twice() {
    let _watch = watch("a_forked_copy_sends_nothing_twice");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let mut out = open(way, pipe.writer);
        // Pages in the pipe, and bytes gathered.
        send(&mut out, 0, 300_000, 100_000).unwrap();
        let mut bytes = [0; 1000];
        fill(&mut bytes, 300_000);
        out.write_all(&bytes).unwrap();
        let mut out = Some(out);
        fork_and_wait(|| drop(out.take()));
        let mut out = out.unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
        out.flush().unwrap();
        send(&mut out, 301_000, 5_000_000, 100_000).unwrap();
        assert_eq!(out.finish().unwrap().bytes, 5_000_000, "{way}");
        assert_eq!(reading.join().unwrap(), 5_000_000, "{way}");
    }
}

#[test]
fn a_forked_child_that_lives_on_does_not_change_what_is_sent() {
    let _watch = watch("a_forked_child_that_lives_on_does_not_change_what_is_sent");
    for way in WAYS {
        let pipe = Pipe::new().unwrap();
        let mut out = open(way, pipe.writer);
        send(&mut out, 0, 500_000, 100_000).unwrap();
        // The child scribbles on its copy of the memory, while the pages are in the pipe.
        let mut out = Some(out);
        fork_and_wait(|| {
            if let Some(mut out) = out.take() {
                if let Ok(bytes) = out.reserve(1000) {
                    bytes.fill(0xEE);
                }
                drop(out);
            }
        });
        let mut out = out.unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
        send(&mut out, 500_000, 5_000_000, 100_000).unwrap();
        out.finish().unwrap();
        assert_eq!(reading.join().unwrap(), 5_000_000, "{way}");
    }
}

const JOB: &str = "FULLBORE_TEST_JOB";

/// Starts `produces_as_a_child` in a process of its own, into `sink`.
fn child(job: &str, sink: OwnedFd) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "produces_as_a_child", "--ignored", "--nocapture"])
        .env(JOB, job)
        .stdin(sink)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A pattern whose length is no multiple of anything.
fn pattern() -> Vec<u8> {
    first(20_003)
}

/// Writes to its stdin: stdout belongs to the harness.
#[test]
#[ignore = "runs in the processes that other tests start"]
fn produces_as_a_child() {
    let Ok(job) = env::var(JOB) else { return };
    let [way, end, bytes] = job.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{job}")
    };
    let sink = || rustix::io::dup(io::stdin()).unwrap();
    let bytes: u64 = bytes.parse().unwrap();
    let exit = || match end {
        "exit" => std::process::exit(0),
        // SAFETY: ends the process.
        "_exit" => unsafe { libc::_exit(0) },
        "abort" => std::process::abort(),
        "kill" => {
            // SAFETY: ends the process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        _ => {}
    };
    if end == "locked" {
        // SAFETY: locks what is mapped from now on, and changes nothing else.
        let locks = unsafe { libc::mlockall(libc::MCL_FUTURE) } == 0;
        if !locks || fullbore::Pages::new(64 * MIB).is_err() {
            std::process::exit(NO_LOCKED_MEMORY);
        }
    }
    let way = match way {
        "copy" => Way::Copy,
        "fresh" => Way::Fresh,
        "recycle" => Way::Recycle,
        _ => {
            let options = ProducerOptions::new();
            let mut out = options.repeat(sink(), &pattern()).unwrap();
            let _ = out.send(bytes);
            exit();
            return;
        }
    };
    let mut out = open(way, sink());
    let _ = send(&mut out, 0, bytes, 70_000);
    exit();
}

/// How a child says that it may not lock memory.
const NO_LOCKED_MEMORY: i32 = 77;

#[test]
fn a_program_that_locks_all_its_memory_sends_the_same_bytes() {
    let _watch = watch("a_program_that_locks_all_its_memory_sends_the_same_bytes");
    for way in ["copy", "fresh", "recycle", "repeat"] {
        let pipe = Pipe::new().unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, checker(way));
        let bytes = 9_000_000;
        let mut child = child(&format!("{way} locked {bytes}"), pipe.writer);
        let status = child.wait().unwrap();
        let read = reading.join().unwrap();
        if status.code() == Some(NO_LOCKED_MEMORY) {
            println!("skipped: locked memory is limited here");
            return;
        }
        assert!(status.success());
        assert_eq!(read, bytes, "{way}");
    }
}

fn checker(way: &str) -> Checker {
    match way {
        "repeat" => Checker::of(&pattern()),
        _ => Checker::of_the_stream(),
    }
}

#[test]
fn what_was_sent_outlives_the_process_whatever_its_end() {
    let _watch = watch("what_was_sent_outlives_the_process_whatever_its_end");
    for way in ["copy", "fresh", "recycle", "repeat"] {
        for end in ["exit", "_exit", "abort", "kill", "drop"] {
            for bytes in [1, 70_000, 500_000] {
                let pipe = Pipe::new().unwrap();
                let room = PipeEnd::of(&pipe.writer).unwrap().unwrap().grow(MIB);
                if room.unwrap().after < MIB {
                    println!("skipped: no roomy pipes here");
                    return;
                }
                let mut child = child(&format!("{way} {end} {bytes}"), pipe.writer);
                child.wait().unwrap();
                // Memory that was freed is used again by now.
                fullbore::Pages::new(8 * MIB).unwrap().fill(0xEE);
                let read = Reader::Quick.drain(pipe.reader, checker(way));
                assert_eq!(read, bytes, "{way} {end}");
            }
        }
    }
}

#[test]
fn what_a_killed_process_has_sent_is_right_as_far_as_it_goes() {
    let _watch = watch("what_a_killed_process_has_sent_is_right_as_far_as_it_goes");
    for way in ["copy", "fresh", "recycle", "repeat"] {
        for before in [1, 3 * MIB + 7] {
            let pipe = Pipe::new().unwrap();
            let mut child = child(&format!("{way} none {}", u64::MAX / 2), pipe.writer);
            let mut source = File::from(pipe.reader);
            let mut bytes = vec![0; before];
            source.read_exact(&mut bytes).unwrap();
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
            let mut checker = checker(way);
            checker.check(&bytes);
            Reader::Quick.drain(source.into(), checker);
        }
    }
}

#[test]
fn a_producer_moves_between_threads() {
    let pipe = Pipe::new().unwrap();
    let mut out = open(Way::Fresh, pipe.writer);
    send(&mut out, 0, 100_000, 50_000).unwrap();
    let out = thread::spawn(move || {
        send(&mut out, 100_000, 200_000, 50_000).unwrap();
        out
    });
    out.join().unwrap().finish().unwrap();
    let read = Reader::Quick.drain(pipe.reader, Checker::of_the_stream());
    assert_eq!(read, 200_000);
}

//! Processes that exit, abort or are killed with pages still in the pipe.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::{env, io};

use crate::common::*;
use fullbore::{Pipe, ProducerOptions, Way};
use fullbore_linux::page_size;

const JOB: &str = "FULLBORE_TEST_JOB";

/// Starts `produces_as_a_child` in a separate process, with `sink` as its output.
fn child(job: &str, sink: OwnedFd) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "exit::produces_as_a_child",
            "--ignored",
            "--nocapture",
        ])
        .env(JOB, job)
        .stdin(sink)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A pattern whose length is not a multiple of any size here.
fn pattern() -> Vec<u8> {
    first(20_003)
}

/// Writes to its stdin, because stdout belongs to the test harness.
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
        // SAFETY: locks later mappings, and changes nothing else.
        let locks = unsafe { libc::mlockall(libc::MCL_FUTURE) } == 0;
        if !locks || fullbore::Pages::new(64 * MIB).is_err() {
            std::process::exit(NO_LOCKED_MEMORY);
        }
    }
    let way = match way {
        "copy" => Way::Copy,
        "socket" => Way::Socket,
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
    let mut out = open(ProducerOptions::new(), way, sink());
    let _ = send(&mut out, 0, bytes, 70_000);
    exit();
}

/// The exit code of a child that may not lock memory.
const NO_LOCKED_MEMORY: i32 = 77;

#[test]
fn a_program_that_locks_all_its_memory_sends_the_same_bytes() {
    let _watch = watch("a_program_that_locks_all_its_memory_sends_the_same_bytes");
    for way in ["copy", "socket", "fresh", "recycle", "repeat"] {
        let pipe = Pipe::new().unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, checker(way));
        let bytes = 9_000_000;
        let mut child = child(&format!("{way} locked {bytes}"), pipe.writer);
        let status = child.wait().unwrap();
        let read = reading.join().unwrap();
        if status.code() == Some(NO_LOCKED_MEMORY) {
            fullbore_tests::skipped("locked memory is limited here");
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
    // A pipe of 1 MiB has 16 slots where base pages have 64 KiB, and a piece of 70,000 bytes takes three of them.
    let most = if page_size() > 16 * 1024 {
        200_000
    } else {
        500_000
    };
    for way in ["copy", "socket", "fresh", "recycle", "repeat"] {
        for end in ["exit", "_exit", "abort", "kill", "drop"] {
            for bytes in [1, 70_000, most] {
                let pipe = Pipe::new().unwrap();
                let room = fullbore_linux::pipe::of(&pipe.writer)
                    .unwrap()
                    .unwrap()
                    .grow(MIB);
                if room.unwrap().after < MIB {
                    fullbore_tests::skipped("no roomy pipes here");
                    return;
                }
                let mut child = child(&format!("{way} {end} {bytes}"), pipe.writer);
                child.wait().unwrap();
                // By now, freed memory is reused.
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
    for way in ["copy", "socket", "fresh", "recycle", "repeat"] {
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

//! Tests of every byte through every mover, and of many processes at once. Each test here is the small form of one
//! in the target `load`, which moves up to hundreds of gigabytes.

use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fullbore_tests::skipped;

use crate::common::users::{ForEverybody, hold_pipes, nobody_else, with_usual_signals};
use crate::common::*;

/// Starts `fullbore write … | fullbore MOVER | fullbore read …`.
fn start_chain(write: &str, mover: &str, read: &str) -> [Child; 3] {
    let ((first_reader, first_writer), (second_reader, second_writer)) = (pipe(), pipe());
    let reading = start(fullbore(&format!("read --json {read}")).stdin(second_reader));
    let moving = start(fullbore(mover).stdin(first_reader).stdout(second_writer));
    let writing = start(fullbore(&format!("write {write}")).stdout(first_writer));
    [writing, moving, reading]
}

/// Waits for the chain, and returns how many bytes the reader got.
fn finish_chain([writing, moving, reading]: [Child; 3]) -> u64 {
    let read = finish(reading);
    assert_quiet_success(&finish(writing));
    assert_quiet_success(&finish(moving));
    assert_code(&read, 0);
    endpoint(stdout(&read)).moved
}

pub fn bytes_go_by_reference_and_none_is_lost(bytes: u64) {
    let moved = finish_chain(start_chain(
        &format!("--way repeat --pipe-size 1M --bytes-to-pipe {bytes}"),
        "copy --by-reference",
        &format!(
            "--read-with-splice --chunk 16M --bytes-to-pipe {}",
            2 * bytes
        ),
    ));
    assert_eq!(moved, bytes);
}

#[test]
fn gigabytes_go_by_reference_and_none_is_lost() {
    bytes_go_by_reference_and_none_is_lost(4 << 30);
}

/// Moves bytes from a producer that uses its pages again, through these movers, to a reader that is
/// sometimes slow and checks every byte.
fn bytes_through(producer: &str, movers: &[&str], moved: u64) {
    let bytes = &format!("--bytes-to-pipe {moved} --verify");
    let (mut source, first) = pipe();
    let writing = start(fullbore(&format!("write {producer} {bytes}")).stdout(first));
    let mut moving = Vec::new();
    for mover in movers {
        let (next, sink) = pipe();
        moving.push(start(fullbore(mover).stdin(source).stdout(sink)));
        source = next;
    }
    let reading = start(fullbore(&format!("read --json --pause 300us {bytes}")).stdin(source));
    let read = finish(reading);
    assert_quiet_success(&finish(writing));
    for child in moving {
        assert_quiet_success(&finish(child));
    }
    assert_code(&read, 0);
    let report = endpoint(stdout(&read));
    assert_eq!(report.moved, moved, "{producer} through {movers:?}");
    assert_eq!(report.verified, Some(true));
}

pub fn what_comes_from_producers_that_use_their_pages_again_is_right(bytes: u64) {
    let producers = [
        "--write-with-vmsplice --huge-page",
        "--way recycle --pipe-size 1M --huge-page",
    ];
    let chains: [&[&str]; 6] = [
        &["copy"],
        &["tee /dev/null"],
        &["meter -q"],
        &["buffer -q -m 8M"],
        &["buffer -q -t -m 1M"],
        &["copy", "tee /dev/null", "meter -q"],
    ];
    for producer in producers {
        for chain in chains {
            bytes_through(producer, chain, bytes);
        }
    }
}

/// The bytes go around the producers' buffers and the pipes many times.
#[test]
fn megabytes_behind_producers_that_use_their_pages_again_are_right() {
    what_comes_from_producers_that_use_their_pages_again_is_right(32 << 20);
}

pub fn bytes_are_copied_and_every_one_is_right(bytes: u64) {
    for mover in ["copy", "tee /dev/null", "buffer -q -m 32M"] {
        let moved = finish_chain(start_chain(
            &format!("--memory 2M --chunk 512K --pipe-size 1M --verify --bytes-to-pipe {bytes}"),
            mover,
            &format!("--verify --bytes-to-pipe {bytes}"),
        ));
        assert_eq!(moved, bytes, "{mover}");
    }
}

#[test]
fn megabytes_are_copied_and_every_byte_is_right() {
    bytes_are_copied_and_every_one_is_right(64 << 20);
}

/// Bytes through a buffer between a writer and a reader that pause at random, each of which makes the
/// buffer empty or full again and again. The bytes are compared by their hashes.
pub fn bytes_through_a_buffer_are_right(bytes: u64, memory: &str) {
    let ((stdin, mut writer), (mut reader, stdout)) = (pipe(), pipe());
    let mut command = fullbore(&format!("buffer -q -m {memory}"));
    let child = start(command.stdin(stdin).stdout(stdout));
    drop(command);
    let pause = |random: &mut fastrand::Rng, what: u64| {
        if random.u64(..what) == 0 {
            std::thread::sleep(Duration::from_micros(random.u64(..20_000)));
        }
    };
    let writes = std::thread::spawn(move || {
        let (mut random, mut hash, mut left) = (fastrand::Rng::new(), DefaultHasher::new(), bytes);
        let mut data: Vec<u8> = (0..1 << 20).map(|_| random.u8(..)).collect();
        while left > 0 {
            let at = random.usize(..data.len() - 8);
            data[at..at + 8].copy_from_slice(&random.u64(..).to_le_bytes());
            let len = random.usize(1..=data.len()).min(left as usize);
            writer.write_all(&data[..len]).unwrap();
            hash.write(&data[..len]);
            left -= len as u64;
            pause(&mut random, 100);
        }
        hash.finish()
    });
    let (mut random, mut hash, mut moved) = (fastrand::Rng::new(), DefaultHasher::new(), 0);
    let mut data = vec![0; 1 << 20];
    loop {
        let len = random.usize(1..=data.len());
        match reader.read(&mut data[..len]).unwrap() {
            0 => break,
            n => {
                hash.write(&data[..n]);
                moved += n as u64;
            }
        }
        pause(&mut random, 200);
    }
    assert_eq!(moved, bytes);
    assert_eq!(hash.finish(), writes.join().unwrap(), "{memory} of memory");
    assert_quiet_success(&finish(child));
}

#[test]
fn megabytes_through_a_buffer_between_sides_that_pause_are_right() {
    for memory in ["256K", "1M", "16M"] {
        bytes_through_a_buffer_are_right(64 << 20, memory);
    }
}

pub fn so_many_at_once_all_get_their_bytes(many: usize) {
    let chains: Vec<[Child; 3]> = (0..many)
        .map(|i| {
            let mover = ["copy", "tee /dev/null", "copy --by-reference"][i % 3];
            start_chain(
                "--way copy --verify --bytes-to-pipe 8M",
                mover,
                "--verify --bytes-to-pipe 8M",
            )
        })
        .collect();
    for chain in chains {
        assert_eq!(finish_chain(chain), 8 << 20);
    }
}

#[test]
fn twelve_at_once_all_get_their_bytes() {
    so_many_at_once_all_get_their_bytes(12);
}

#[test]
fn many_short_inputs_are_copied_one_after_the_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut words = String::from("copy");
    let mut expected = Vec::new();
    for i in 0..500 {
        let path = directory.path().join(i.to_string());
        let content = format!("{i}\n").repeat(i % 7);
        std::fs::write(&path, &content).expect("a file");
        expected.extend_from_slice(content.as_bytes());
        words.push_str(&format!(" {}", path.display()));
    }
    let output = finish(start(fullbore(&words).stdout(Stdio::piped())));
    assert_quiet_success(&output);
    assert!(output.stdout == expected);
}

#[test]
fn through_pipes_of_two_slots_every_byte_arrives() {
    if !is_root() {
        return skipped("a user beyond pipe-user-pages-soft: making one needs root");
    }
    let soft = fullbore_linux::pipe_user_pages_soft();
    if soft.is_none_or(|pages| !(1..=1 << 16).contains(&pages)) {
        return skipped("a user beyond pipe-user-pages-soft: there is no such limit here");
    }
    let (copy, user) = (ForEverybody::new(), nobody_else(3));
    let directory = copy.path().parent().unwrap();
    std::fs::write(directory.join("in"), numbers(400_000)).unwrap();
    let movers = [
        "copy",
        "copy --by-reference",
        "tee /dev/null",
        "meter -q",
        "meter -q --by-reference",
        "buffer -q",
        "run -q 'cat | cat | cat'",
        "run --whole 'cat | cat | cat'",
    ];
    let chain = movers
        .map(|mover| format!("./fullbore {mover}"))
        .join(" | ");
    let mut command = bash(directory, &format!("set -o pipefail; cat in | {chain}"));
    // SAFETY: between fork and exec it makes system calls and allocates nothing.
    unsafe { command.uid(user).gid(user).pre_exec(hold_pipes) };
    let output = finish(start(with_usual_signals(&mut command)));
    assert_code(&output, 0);
    let limit = "pipe-user-pages-soft";
    assert!(stderr(&output).contains(limit), "{}", stderr(&output));
    assert!(output.stdout == numbers(400_000));
}

/// A report, a log or a PID in place of the bytes would be a loss that nobody is told of.
#[test]
fn what_is_said_about_the_bytes_does_not_take_their_place() {
    for line in [
        "buffer -q -f -i in -o out --json=out",
        "buffer -q -f -i in -o ./new --json=./new",
        "buffer -q -i in --json=hard > copy",
        "buffer -q --json=in < in > copy",
        "buffer -q -i in --json=out > out",
        "buffer -q -f -i in -o out -l out",
        "buffer -q -i in -l in > copy",
        "meter -q -P in in > copy",
        "meter -q -P soft in -o out",
        "meter -q -P out in -o out",
        "run -o out --json=out 'cat in'",
        "parallel --json=in cat < in > copy",
        "parallel --json=out cat < in >> out",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("in"), "bytes\n").unwrap();
        std::fs::write(path("out"), "old\n").unwrap();
        std::fs::hard_link(path("in"), path("hard")).unwrap();
        std::os::unix::fs::symlink("in", path("soft")).unwrap();
        let mut command = Command::new("sh");
        let line = format!("{FULLBORE} {line}");
        command.args(["-c", &line]).current_dir(directory.path());
        let output = output_of(command.stdin(Stdio::null())).unwrap();
        assert_code(&output, 2);
        assert!(
            one_line(stderr(&output)).contains("the bytes come from this file, or go to it"),
            "{line}"
        );
        assert_eq!(std::fs::read(path("in")).unwrap(), b"bytes\n", "{line}");
        let kept: &[u8] = if line.ends_with("> out") && !line.contains(">>") {
            b""
        } else {
            b"old\n"
        };
        assert_eq!(std::fs::read(path("out")).unwrap(), kept, "{line}");
        assert!(!path("new").exists(), "{line}");
    }
}

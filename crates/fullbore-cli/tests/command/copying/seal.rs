//! Tests of `copy --seal` and `copy --unseal`: a stream that is not complete never passes for one that is.

use std::fs;
use std::io::{Read, Write};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::*;

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), "hello\n").unwrap();
    fs::write(directory.path().join("empty"), "").unwrap();
    fs::write(directory.path().join("out"), "old\n").unwrap();
    assert_quiet_success(&shell(
        directory.path(),
        "seq 1000000 > big; $FB copy --seal big > sealed",
    ));
    directory
}

#[test]
fn what_was_sealed_comes_out_again() {
    let dir = directory();
    for line in [
        "$FB copy --seal big | $FB copy --unseal | cmp - big",
        "cat big | $FB copy --seal | cat | $FB copy --unseal -o out; cmp big out",
        "$FB copy --seal big -o x; $FB copy --unseal x | cmp - big; cmp x sealed",
        "$FB copy --seal --atomic -o a a; $FB copy --unseal --atomic -o a a; echo hello | cmp - a",
        "$FB copy --seal empty | $FB copy --unseal | cmp - empty",
        "$FB copy --seal a - big < empty | $FB copy --unseal | cmp - <(cat a big)",
        "$FB copy --unseal sealed sealed | cmp - <(cat big big)",
        "$FB copy --seal --bytes 100 big | $FB copy --unseal | cmp - <(head -c 100 big)",
        "$FB copy --seal big | $FB copy --unseal --hash sha256 -o - 2>&1 > /dev/null; $FB copy --unseal --hash sha256 sealed -o out > sum; sha256sum --check --quiet sum",
        "$FB copy --seal --sync big -o x; $FB copy --unseal --sync x -o out; cmp big out",
    ] {
        let output = shell(dir.path(), &format!("set -e -o pipefail; {line}"));
        assert_code(&output, 0);
        assert!(!stderr(&output).contains("fullbore"), "{}", said(&output));
    }
}

#[test]
fn no_message_of_a_socket_is_cut() {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
    let (domain, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let messages = [vec![b'a'; 100_000], vec![b'b'; 150_000], vec![b'c'; 10]];
    for (line, what) in [
        ("$FB copy --seal | $FB copy --unseal", "seal"),
        (
            "FULLBORE_PLAIN=1 $FB copy --seal | $FB copy --unseal",
            "plain",
        ),
        ("ln -s $FB cat; ./cat -s", "cat"),
    ] {
        let (near, source) = socketpair(domain, kind, SocketFlags::CLOEXEC, None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let child = start(bash(&dir, line).stdin(source));
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                for message in &messages {
                    send(&near, message, SendFlags::NOSIGNAL).unwrap();
                }
                drop(near);
            });
            finish(child)
        });
        assert_quiet_success(&output);
        assert!(
            output.stdout == messages.concat(),
            "{what}: {} bytes",
            output.stdout.len()
        );
    }
}

#[test]
fn a_stream_without_its_seal_is_told_and_makes_no_file() {
    let dir = directory();
    for (line, words) in [
        (
            "head -c 3000000 sealed | $FB copy --unseal",
            "stdin: the stream ends after 3000000 bytes, without its seal",
        ),
        (
            "head -c -1 sealed > cut; $FB copy --unseal cut",
            "'cut': the stream ends after ",
        ),
        (
            "$FB copy --unseal empty",
            "'empty': the stream ends after 0 bytes, without its seal",
        ),
        ("$FB copy --unseal a", "'a': the stream is not sealed"),
        (
            "cat sealed a | $FB copy --unseal",
            "stdin: the stream goes on behind its seal",
        ),
        (
            "cat sealed sealed | $FB copy --unseal",
            "stdin: the stream goes on behind its seal",
        ),
        (
            "sed 's/^500000$/500001/' sealed | $FB copy --unseal",
            "stdin: the stream was changed after ",
        ),
        (
            "$FB copy --seal a no 2> /dev/null | $FB copy --unseal",
            "without its seal",
        ),
        (
            "$FB copy --seal . 2> /dev/null | $FB copy --unseal",
            "stdin: the stream ends after 0 bytes",
        ),
    ] {
        for output in ["> x", "--atomic -o out"] {
            let output = shell(dir.path(), &format!("{line} {output}"));
            assert_code(&output, 1);
            let message = one_line(stderr(&output));
            assert!(
                message.starts_with("fullbore copy: ") && message.contains(words),
                "{line}: {message}"
            );
        }
        assert_eq!(
            fs::read(dir.path().join("out")).unwrap(),
            b"old\n",
            "{line}"
        );
    }
}

#[test]
fn a_stream_that_is_cut_off_anywhere_has_passed_on_only_its_beginning() {
    let dir = directory();
    let sealed = fs::read(dir.path().join("sealed")).unwrap();
    let big = fs::read(dir.path().join("big")).unwrap();
    for _ in 0..20 {
        let len = fastrand::usize(..sealed.len());
        fs::write(dir.path().join("x"), &sealed[..len]).unwrap();
        let output = shell(dir.path(), "$FB copy --unseal x");
        assert_code(&output, 1);
        assert!(stderr(&output).contains(&format!("ends after {len} bytes, without its seal")));
        assert!(big.starts_with(&output.stdout));
    }
}

#[test]
fn bytes_are_passed_on_as_soon_as_they_are_there_and_a_killed_sealer_leaves_no_seal() {
    let (source, mut sink) = pipe();
    let (middle, sealed) = pipe();
    let (mut reader, content) = pipe();
    let sealing = start(fullbore("copy --seal").stdin(source).stdout(sealed));
    let unsealing = start(fullbore("copy --unseal").stdin(middle).stdout(content));
    for text in [&b"a"[..], b"hello"] {
        sink.write_all(text).unwrap();
        let mut passed = vec![0; text.len()];
        reader.read_exact(&mut passed).unwrap();
        assert_eq!(passed, text);
    }
    kill_process(Pid::from_child(&sealing), Signal::KILL).unwrap();
    finish(sealing);
    let output = finish(unsealing);
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("without its seal"),
        "{}",
        said(&output)
    );
}

#[test]
fn what_is_not_sealed_is_refused_while_its_writer_goes_on() {
    let (source, mut sink) = pipe();
    let unsealing = start(fullbore("copy --unseal").stdin(source));
    sink.write_all(b"x").unwrap();
    // The pipe stays open.
    let output = finish(unsealing);
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("the stream is not sealed"));
    drop(sink);
}

#[test]
fn a_reader_that_goes_is_no_news_and_a_full_disk_is() {
    let dir = directory();
    for line in ["$FB copy --seal big", "$FB copy --unseal sealed"] {
        let output = shell(
            dir.path(),
            &format!("{line} | head -c 1; exit ${{PIPESTATUS[0]}}"),
        );
        assert_quiet_success(&output);
        let output = shell(dir.path(), &format!("{line} > /dev/full"));
        assert_code(&output, 1);
        assert!(one_line(stderr(&output)).contains("write to stdout: No space left on device"));
    }
}

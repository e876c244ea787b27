//! A stream over a TCP connection whose sender fails never passes for a complete one; and what becomes of a program whose
//! output is a connection that its peer leaves.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::sync::may_trace;
use crate::common::network::receiver;
use crate::common::*;

/// A directory with the old file `out`, which a receiver is to replace.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("out"), "old\n").unwrap();
    fs::write(directory.path().join("big"), numbers(100_000)).unwrap();
    directory
}

const RECEIVES: &str = "--atomic -f -o out";

/// Asserts that the receiver has kept the old file, and says so.
#[track_caller]
fn assert_kept(directory: &TempDir, receiver: std::process::Child, what: &str) {
    let output = finish(receiver);
    assert_eq!(output.status.code(), Some(1), "{what}: {}", said(&output));
    let line = one_line(stderr(&output));
    assert!(line.contains("Connection reset by peer"), "{what}: {line}");
    assert_eq!(
        fs::read(directory.path().join("out")).unwrap(),
        b"old\n",
        "{what}"
    );
}

#[test]
fn a_sender_that_is_ended_by_a_signal_or_fails_resets_its_connection() {
    let dir = directory();
    for signal in [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP] {
        let (receiver, port) = receiver(dir.path(), RECEIVES);
        let (stdin, mut writer) = pipe();
        let mut sender = fullbore(&format!("buffer -q -O 127.0.0.1:{port}"));
        let sender = start(sender.stdin(stdin));
        writer.write_all(numbers(1000)).unwrap();
        // It has connected and has taken everything.
        let reader = Pid::from_child(&sender);
        wait_for("the sender has read", || {
            (rustix::io::ioctl_fionread(&writer) == Ok(0)).then_some(())
        });
        kill_process(reader, signal).unwrap();
        finish(sender);
        assert_kept(&dir, receiver, &format!("{signal:?}"));
    }
    for (what, options, code) in [
        ("an input that cannot be read", "-i /proc/self/mem", 1),
        ("a watchdog", "-W 0.2", 1),
        ("another output, with -e", "-i big -e -o /dev/full", 1),
    ] {
        let (receiver, port) = receiver(dir.path(), RECEIVES);
        let (stdin, _writer) = pipe();
        let mut sender = fullbore(&format!("buffer -q {options} -O 127.0.0.1:{port}"));
        let sender = start(sender.stdin(stdin).current_dir(dir.path()));
        assert_code(&finish(sender), code);
        assert_kept(&dir, receiver, what);
    }
    let (receiver, port) = receiver(dir.path(), RECEIVES);
    // More than a pipe holds: the sender has connected when the first stage fails.
    let mut run = fullbore("run --whole");
    run.arg(format!(
        "(cat big big big; exit 3) | {FULLBORE} buffer -q -O 127.0.0.1:{port}"
    ));
    assert_code(&finish(start(run.current_dir(dir.path()))), 3);
    assert_kept(&dir, receiver, "run --whole");
}

#[test]
fn a_sender_that_succeeds_delivers_every_byte_to_slow_and_to_several_receivers() {
    let dir = directory();
    let listeners: Vec<TcpListener> = ["127.0.0.1:0", "[::1]:0"]
        .into_iter()
        .filter_map(|address| TcpListener::bind(address).ok())
        .collect();
    for listener in &listeners {
        set_socket_recv_buffer_size(listener, 4096).unwrap();
    }
    let ports = listeners.iter().map(|one| one.local_addr().unwrap());
    let outputs: String = ports.map(|port| format!(" -O {port}")).collect();
    let sender =
        start(fullbore(&format!("buffer -q -i big -o copy{outputs}")).current_dir(dir.path()));
    let streams: Vec<TcpStream> = listeners
        .iter()
        .map(|one| one.accept().unwrap().0)
        .collect();
    for mut stream in streams.into_iter().rev() {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut got = vec![0; 4096];
        stream.read_exact(&mut got).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        stream.read_to_end(&mut got).unwrap();
        assert!(got == numbers(100_000));
    }
    assert_quiet_success(&finish(sender));
    assert!(fs::read(dir.path().join("copy")).unwrap() == numbers(100_000));
}

#[test]
fn a_connection_that_cannot_be_made_to_reset_is_not_used() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    // The first one is that after connect(2), the second that before shutdown(2).
    for (call, when) in [("setsockopt", 1), ("setsockopt", 2), ("shutdown", 1)] {
        let (receiver, port) = receiver(dir.path(), RECEIVES);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
        strace.arg(format!("inject={call}:error=ENOBUFS:when={when}"));
        strace.args([FULLBORE, "buffer", "-q", "-i", "big", "-O"]);
        strace.arg(format!("127.0.0.1:{port}"));
        strace.current_dir(dir.path()).stderr(Stdio::piped());
        let output = finish(start(&mut strace));
        assert_code(&output, 1);
        let line = one_line(stderr(&output));
        assert!(line.contains("No buffer space available"), "{line}");
        let output = finish(receiver);
        let out = fs::read(dir.path().join("out")).unwrap();
        match output.status.code() {
            Some(0) => assert!(when == 1 && call == "setsockopt" && out.is_empty()),
            _ => assert_eq!(out, b"old\n", "{call} {when}: {}", said(&output)),
        }
        fs::write(dir.path().join("out"), "old\n").unwrap();
    }
}

/// A connected pair of sockets.
fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

/// Runs a verb whose stdout is a socket until its peer has left: with bytes unread, or when all were read.
fn left_by_its_peer(words: &str, stdout: OwnedFd, mut peer: impl Read, has_unread: bool) -> i32 {
    let (stdin, mut writer) = pipe();
    let child = start(fullbore(words).stdin(stdin).stdout(Stdio::from(stdout)));
    writer.write_all(&[b'x'; 1000]).unwrap();
    let wanted = if has_unread { 10 } else { 1000 };
    peer.read_exact(&mut vec![0; wanted]).unwrap();
    drop(peer);
    // It goes on until it notices.
    while writer.write_all(&[b'x'; 1000]).is_ok() {}
    drop(writer);
    let output = finish(child);
    output
        .status
        .code()
        .unwrap_or_else(|| panic!("{}", said(&output)))
}

#[test]
fn a_peer_that_leaves_is_one_case_whether_it_left_bytes_unread_or_not() {
    for words in [
        "copy",
        "copy --by-reference",
        "tee",
        "meter -q",
        "buffer -q",
        "parallel --record-size 1000 --lines 1 cat",
    ] {
        for has_unread in [true, false] {
            let (ours, theirs) = tcp_pair();
            let code = left_by_its_peer(words, ours.into(), theirs, has_unread);
            assert_eq!(code, 1, "{words}, TCP, unread: {has_unread}");
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let code = left_by_its_peer(words, ours.into(), theirs, has_unread);
            assert_eq!(code, 0, "{words}, Unix, unread: {has_unread}");
        }
    }
}

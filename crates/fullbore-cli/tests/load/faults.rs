//! Calls that fail, at every place: in each process of `run --whole`, and on both sides of a sealed connection. With
//! FULLBORE_TEST_LOAD=quick, it is only the first of each kind.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use fullbore_tests::skipped;

use crate::common::network::{free_port, is_listened_at};
use crate::common::*;

fn has_strace() -> bool {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    let has = traced.is_ok_and(|output| output.status.success());
    if !has {
        skipped("calls that fail: strace is not there or may not trace");
    }
    has
}

#[test]
fn under_load_a_call_that_fails_shows_no_stage_an_end() {
    if !has_strace() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Like most shells, it goes on if a signal has ended cat before it.
    let script = "cat || [ $? -gt 128 ] && echo $1 >> seen";
    fs::write(directory.path().join("cat"), script).unwrap();
    // The first number: those before are of the dynamic linker. Not close(2): it always closes, and strace would not.
    for (call, error, first) in [
        ("recvmsg", "EMFILE", 1),
        ("sendmsg", "ETOOMANYREFS", 1),
        ("socketpair", "EMFILE", 1),
        ("clone", "EAGAIN", 1),
        ("pidfd_open", "EMFILE", 1),
        ("pidfd_send_signal", "ENOSYS", 1),
        ("pidfd_send_signal", "EPERM", 1),
        ("pidfd_open:error=ENOSYS -einject=kill", "EPERM", 1),
        ("poll,ppoll", "EINTR", 1),
        ("wait4,waitid", "EINTR", 1),
        ("prctl", "EINVAL", 1),
        ("pipe2", "EMFILE", 1),
        ("openat", "EMFILE", 4),
        ("fcntl", "EMFILE", 1),
        ("read", "EIO", 3),
        ("write", "EIO", 1),
        ("setsid,getsid", "EPERM", 1),
        ("close_range", "ENOSYS", 1),
        ("signalfd4", "EMFILE", 1),
    ] {
        for number in first..first + under_load(8) {
            let inject = format!("inject={call}:error={error}:when={number}");
            run_with_a_call_that_fails(directory.path(), &inject);
        }
    }
}

/// Runs a pipeline that is right, and one that fails, with a call that fails in each process of `run`.
fn run_with_a_call_that_fails(place: &Path, inject: &str) {
    for (line, is_right) in [
        ("seq 3 | cat | sh cat 2", true),
        (
            "sh -c 'seq 3; exec >&-; sleep 0.01; exit 3' | cat | sh cat 2",
            false,
        ),
    ] {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
        command.args(inject.split(' ')).arg(FULLBORE);
        command.args(["run", "--whole", "--grace", "0.1", line]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = finish(start(command.current_dir(place)));
        let what = format!("{inject}, {line}: {}", said(&output));
        let seen = fs::remove_file(place.join("seen")).is_ok();
        if output.status.success() {
            assert!(is_right && seen && stdout(&output) == "1\n2\n3\n", "{what}");
        } else {
            assert!(is_right || !seen, "{what}");
        }
    }
}

const RECEIVES: &str = "--unseal --atomic -f -o out";

#[test]
fn under_load_a_call_that_fails_puts_nothing_in_place_that_the_sender_does_not_know_of() {
    if !has_strace() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("big"), numbers(400_000)).unwrap();
    for (call, error) in [
        ("socket", "EMFILE"),
        ("bind,listen,accept4", "ENOBUFS"),
        ("connect,getsockopt", "ETIMEDOUT"),
        ("setsockopt", "ENOPROTOOPT"),
        // Not write(2) and read(2): those of an eventfd, which wake threads, do not fail.
        ("sendto,sendmsg", "EIO"),
        ("recvfrom,recvmsg", "EIO"),
        ("splice", "EIO"),
        ("shutdown", "ENOTCONN"),
        ("close", "EIO"),
        ("clone3", "EAGAIN"),
        ("fstat,linkat,renameat,unlinkat", "EIO"),
    ] {
        for number in 1..=under_load(8) {
            for side in [0, 1] {
                let inject = format!("inject={call}:error={error}:when={number}");
                send_with_a_call_that_fails(directory.path(), side, &inject);
            }
        }
    }
}

/// Runs both sides, one of them with a call that fails. What the receiver has not put in place is no success of the sender.
fn send_with_a_call_that_fails(place: &Path, side: usize, inject: &str) {
    fs::write(place.join("out"), "old\n").unwrap();
    let port = free_port();
    let command = |at: usize, words: String| {
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", inject];
        let options: &[&str] = if at == side { &strace } else { &["env"] };
        let mut command = Command::new(options[0]);
        command.args(&options[1..]).arg(FULLBORE);
        command.args(words.split(' ')).current_dir(place);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let receives = format!("buffer -q -I {port} {RECEIVES}");
    let mut receiving = start(&mut command(0, receives));
    let is_up = wait_for("it listens, or has ended", || {
        if receiving.try_wait().unwrap().is_some() {
            return Some(false);
        }
        // env(1) becomes the command, and strace is its parent.
        let below = children(receiving.id());
        let below = below
            .iter()
            .map(|(pid, _)| pid.as_raw_nonzero().get() as u32);
        let mut all = below.chain([receiving.id()]);
        all.any(|pid| is_listened_at(port, pid)).then_some(true)
    });
    let sent = is_up.then(|| {
        let sends = format!("buffer -q --seal -i big -O 127.0.0.1:{port}");
        finish(start(&mut command(1, sends)))
    });
    // It waits for a sender that has not even connected.
    if sent.as_ref().is_some_and(|sent| !sent.status.success()) {
        drop(TcpStream::connect(("127.0.0.1", port)));
    }
    let received = finish(receiving);
    let is_new = fs::read(place.join("out")).unwrap() == fs::read(place.join("big")).unwrap();
    let what = format!(
        "side {side}, {inject}: {} and {}",
        said(&received),
        sent.as_ref().map(said).unwrap_or_default()
    );
    assert!(
        is_new || fs::read(place.join("out")).unwrap() == b"old\n",
        "{what}"
    );
    assert!(is_new || !received.status.success(), "{what}");
    let is_success = sent.is_some_and(|sent| sent.status.success());
    assert!(!is_success || received.status.success(), "{what}");
}

//! `buffer -O --seal` and `buffer -I --unseal`: both sides succeed or both fail, wherever the connection is cut, but for the
//! last answer; and no file is replaced by a part of the content.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::common::network::receiver;
use crate::common::proxy::{Cut, relay};
use crate::common::*;

/// The bytes of a greeting, and of an answer.
const GREETING: usize = 8;
const ANSWER: usize = 41;

const RECEIVES: &str = "--unseal --atomic -f -o out";

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("out"), "old\n").unwrap();
    fs::write(directory.path().join("in"), "a hundred\n".repeat(10)).unwrap();
    fs::write(directory.path().join("big"), numbers(400_000)).unwrap();
    directory
}

fn sender(directory: &TempDir, options: &str) -> Child {
    let mut command = fullbore(&format!("buffer -q --seal {options}"));
    start(command.current_dir(directory.path()).stdin(Stdio::null()))
}

fn read(directory: &TempDir, name: &str) -> Vec<u8> {
    fs::read(directory.path().join(name)).unwrap()
}

#[test]
fn a_sender_succeeds_when_the_content_is_in_place() {
    let dir = directory();
    for (sends, receives) in [
        ("-i big", RECEIVES),
        ("-i in", RECEIVES),
        ("-i /dev/null", RECEIVES),
        ("-i big --sync", "--unseal --sync --atomic -f -o out"),
        (
            "-i big -m 64K -s 4K --md5",
            "--unseal --hash blake3 -m 1M --atomic -f -o out",
        ),
        ("-i big -o copy -f -W 300", "--unseal -W 300 -f -o out"),
    ] {
        let (receiving, port) = receiver(dir.path(), receives);
        let sent = finish(sender(&dir, &format!("{sends} -O localhost:{port}")));
        assert_code(&sent, 0);
        // It is in place when the sender has ended.
        let name = sends.split(' ').nth(1).unwrap().replace("/dev/null", "");
        let expected = if name.is_empty() {
            Vec::new()
        } else {
            read(&dir, &name)
        };
        assert!(read(&dir, "out") == expected, "{sends}");
        assert_code(&finish(receiving), 0);
    }
    // Each of several receivers answers, and what one does not put in place is no success of the other.
    let receivers = [(); 2].map(|()| {
        let own = directory();
        let (receiving, port) = receiver(own.path(), RECEIVES);
        (own, receiving, port)
    });
    let ports = receivers.each_ref().map(|(_, _, port)| *port);
    let options = format!("-i big -O 127.0.0.1:{} -O 127.0.0.1:{}", ports[0], ports[1]);
    assert_quiet_success(&finish(sender(&dir, &options)));
    for (own, receiving, _) in receivers {
        assert_quiet_success(&finish(receiving));
        assert!(read(&own, "out") == read(&dir, "big"));
    }
}

/// Sends the file `in` through a relay that cuts, and asserts that no side is deceived.
#[track_caller]
fn cut_at(dir: &TempDir, cut: Cut) -> (Output, Output) {
    fs::write(dir.path().join("out"), "old\n").unwrap();
    let (receiving, port) = receiver(dir.path(), RECEIVES);
    let (port, relaying) = relay(port, cut);
    let sent = finish(sender(dir, &format!("-i in -O 127.0.0.1:{port}")));
    let received = finish(receiving);
    relaying.join().unwrap();
    let is_whole = read(dir, "out") == read(dir, "in");
    let codes = (sent.status.code().unwrap(), received.status.code().unwrap());
    let what = format!("{cut:?}: {}\n{}", said(&sent), said(&received));
    assert!(is_whole || read(dir, "out") == b"old\n", "{what}");
    assert_eq!(is_whole, codes.1 == 0, "{what}");
    let was_answered = cut.forward == usize::MAX && cut.backward >= GREETING;
    match (codes, was_answered) {
        ((0, 0), _) => {}
        ((1, 1), false) => {}
        // Only the answer was lost.
        ((1, 0), true) => assert!(stderr(&sent).contains("is not known"), "{what}"),
        _ => panic!("{what}"),
    }
    (sent, received)
}

#[test]
fn every_cut_fails_on_both_sides_but_for_the_last_answer() {
    let dir = directory();
    let stream = GREETING + 4 + 100 + 8 + 44;
    let (sent, received) = cut_at(&dir, Cut::NEVER);
    assert_quiet_success(&sent);
    assert_quiet_success(&received);
    let forward = (0..stream).map(|forward| Cut {
        forward,
        ..Cut::NEVER
    });
    let backward = (0..GREETING + ANSWER).map(|backward| Cut {
        backward,
        ..Cut::NEVER
    });
    let cuts: Vec<Cut> = forward.chain(backward).collect();
    thread::scope(|scope| {
        for (number, cuts) in cuts.chunks(cuts.len().div_ceil(4)).enumerate() {
            scope.spawn(move || {
                let dir = directory();
                for (at, cut) in cuts.iter().enumerate() {
                    let resets = (at + number) % 2 == 0;
                    let (sent, _) = cut_at(&dir, Cut { resets, ..*cut });
                    assert_code(&sent, 1);
                }
            });
        }
    });
}

#[test]
fn a_receiver_that_fails_is_a_failure_of_the_sender() {
    let dir = directory();
    for (receives, words) in [
        ("--unseal -o /dev/full", "write to '127.0.0.1:"),
        ("--unseal -o no/such", "write to '127.0.0.1:"),
        (
            "--unseal -o out -o new",
            "the receiver has failed, and has put no file in place",
        ),
        (
            "--unseal --json=/dev/full -f -o out",
            "the receiver has failed",
        ),
        ("--unseal -l /dev/full -v 0 -f -o out", ""),
    ] {
        let (receiving, port) = receiver(dir.path(), receives);
        let sent = finish(sender(&dir, &format!("-i in -O 127.0.0.1:{port}")));
        let received = finish(receiving);
        let codes = (sent.status.code(), received.status.code());
        assert_eq!(
            codes.0,
            codes.1,
            "{receives}: {}\n{}",
            said(&sent),
            said(&received)
        );
        assert!(stderr(&sent).contains(words), "{receives}: {}", said(&sent));
    }
    // It has not waited for its disk.
    let (receiving, port) = receiver(dir.path(), RECEIVES);
    let sent = finish(sender(&dir, &format!("-i in --sync -O 127.0.0.1:{port}")));
    assert_code(&sent, 1);
    assert!(
        stderr(&sent).contains("it needs --sync too"),
        "{}",
        said(&sent)
    );
    assert_code(&finish(receiving), 0);
}

#[test]
fn a_sender_that_fails_puts_nothing_in_place() {
    let dir = directory();
    for (options, words) in [
        (
            "-i /proc/self/mem",
            "the stream ends after 8 bytes, without its seal",
        ),
        ("-W 0.3", "reset"),
        ("-i big -e -o /dev/full", ""),
    ] {
        let (receiving, port) = receiver(dir.path(), RECEIVES);
        let mut command = fullbore(&format!("buffer -q --seal {options} -O 127.0.0.1:{port}"));
        let (stdin, _writer) = pipe();
        let sent = finish(start(command.current_dir(dir.path()).stdin(stdin)));
        assert_code(&sent, 1);
        let received = finish(receiving);
        assert_code(&received, 1);
        let line = one_line(stderr(&received));
        assert!(line.contains(words) || line.contains("reset"), "{line}");
        assert_eq!(read(&dir, "out"), b"old\n");
    }
}

#[test]
fn peers_that_do_not_answer_are_errors_and_no_sender_hangs() {
    let dir = directory();
    type Peer = fn(std::net::TcpStream);
    let peers: [(Peer, &str); 5] = [
        (
            |stream| wait_for_the_end(&stream),
            "did not greet as a receiver with --unseal does within 0.5 s",
        ),
        (drop, "it ended the connection"),
        (
            |mut stream| {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n");
                wait_for_the_end(&stream);
            },
            "it says something else",
        ),
        (
            |mut stream| {
                let _ = stream.write_all(b"\x8Ffbansw\x01");
                wait_for_the_end(&stream);
            },
            "watchdog: ",
        ),
        (
            |mut stream| {
                let _ = stream.write_all(b"\x8Ffbansw\x01");
                let _ = stream.read_to_end(&mut Vec::new());
                let _ = stream.write_all(&[1; ANSWER]);
            },
            "this is no answer about this stream; whether",
        ),
    ];
    for (peer, words) in peers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answering = thread::spawn(move || peer(listener.accept().unwrap().0));
        let sent = finish(sender(&dir, &format!("-i in -W 0.5 -O 127.0.0.1:{port}")));
        answering.join().unwrap();
        assert_code(&sent, 1);
        assert!(
            one_line(stderr(&sent)).contains(words),
            "{words}: {}",
            said(&sent)
        );
    }
    // A receiver that does not unseal, and a sender that does not seal.
    let (receiving, port) = receiver(dir.path(), "--atomic -f -o out");
    let sent = finish(sender(&dir, &format!("-i in -W 0.5 -O 127.0.0.1:{port}")));
    assert_code(&sent, 1);
    assert_code(&finish(receiving), 1);
    let (receiving, port) = receiver(dir.path(), RECEIVES);
    let plain = fullbore(&format!("buffer -q -i in -O 127.0.0.1:{port}"))
        .current_dir(dir.path())
        .spawn();
    let _ = finish(plain.unwrap());
    let received = finish(receiving);
    assert_code(&received, 1);
    assert!(
        stderr(&received).contains("the stream is not sealed"),
        "{}",
        said(&received)
    );
    assert_eq!(read(&dir, "out"), b"old\n");
}

/// Reads nothing until the sender is gone.
fn wait_for_the_end(stream: &std::net::TcpStream) {
    stream.set_nonblocking(false).unwrap();
    wait_for("the sender has ended", || {
        (!matches!(stream.take_error(), Ok(None)))
            .then_some(())
            .or_else(|| stream.peek(&mut [0; 1]).is_err().then_some(()))
    });
    thread::sleep(Duration::from_millis(1));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for words in [
        "buffer --seal",
        "buffer --unseal",
        "buffer --seal -I 80",
        "buffer --unseal -O a:80",
    ] {
        let output = run(words);
        assert_code(&output, 2);
        assert!(
            one_line(stderr(&output)).contains("required"),
            "{}",
            said(&output)
        );
    }
}

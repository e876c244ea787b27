//! Tests of `mbuffer`, which a link to fullbore is, beside the mbuffer of this machine, and of its connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use super::links::{bash, files, links};
use crate::common::network::is_listened_at;
use crate::common::*;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use tempfile::TempDir;

fn has_mbuffer() -> bool {
    let there = output_of(Command::new("mbuffer").arg("-V")).is_ok();
    if !there {
        skipped("mbuffer is not installed");
    }
    there
}

/// Makes what two mbuffers say alike: figures are hashes, and what only one of them says about tapes and outputs is
/// left out.
fn like(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = text.split(['\r', '\n']).filter(|line| {
        let is_empty = line.is_empty() || line.starts_with("in @");
        !is_empty
            && ![
                "No controlling terminal",
                "unable to open all outputs",
                "error during output",
            ]
            .iter()
            .any(|words| line.contains(words))
    });
    let line = |line: &str| match line.contains("summary:") {
        // A figure has at most four digits and a point, right of blanks.
        true => {
            let masked: String = line
                .chars()
                .map(|c| if c.is_ascii_digit() { '#' } else { c })
                .collect();
            let end = masked.find(", ").unwrap_or(masked.len());
            let words: Vec<&str> = masked[..end].split_whitespace().collect();
            words
                .join(" ")
                .replace("##", "#")
                .replace("##", "#")
                .replace("#.#", "#")
                .replace("Mi", "ki")
                .replace("Gi", "ki")
        }
        false => line.to_owned(),
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn mbuffer_ends_as_the_one_of_this_machine() {
    if !has_mbuffer() {
        return;
    }
    let links = links(&["mbuffer"]);
    let lines = r#"
        mbuffer -q < a
        mbuffer -q -s 128k -m 16M < bytes
        mbuffer -q -s128k -b 8 < a
        mbuffer < a
        mbuffer -q -l log < a; sed 's/[0-9. ]*[kMG]i/#/g; s/ [0-9.]*sec/#/' log
        mbuffer -q -Q -l log < a; cat log
        mbuffer -l log < a; sed 's/[0-9. ]*[kMG]i/#/g; s/ [0-9.]*sec/#/' log
        mbuffer -q -i a -o - -o x 2> /dev/null; cat x
        mbuffer -q -o a < c 2> /dev/null; echo $?; cat a
        mbuffer -q -f -o a < c 2> /dev/null; echo $?; cat a
        mbuffer -q -o a -f < c 2> /dev/null; echo $?; cat a
        mbuffer -q --append -o a < c 2> /dev/null; echo $?; cat a
        mbuffer -q -f --truncate -o a < c 2> /dev/null; echo $?; cat a
        mbuffer -q -n 1 -i a
        mbuffer -q -A /bin/false -o x < a; echo $?; cat x
        mbuffer -q --direct < a
        mbuffer -q -0 < a; mbuffer -q -4 < a; mbuffer -q -6 < a
        mbuffer -q --tcpbuffer 64k --tcptimeo 5s < a
        mbuffer -q --hash md5 < a
        mbuffer -q -i nofile 2> /dev/null; echo $?
        mbuffer -q -o nodir/x < a 2> /dev/null; echo $?
        mbuffer -q < a > /dev/full 2> /dev/null; echo $?
        yes | mbuffer -q 2> /dev/null | head -n 1; echo ${PIPESTATUS[1]}
        mbuffer -q --md5 < a
        mbuffer -q -H < bytes > /dev/null
        mbuffer --md5 < a > /dev/null
        mbuffer -q --hash SHA256 < a
        mbuffer -q --hash sha256 -o x < a 2>&1 | grep -v warning; cat x
        mbuffer -z
        mbuffer -s
        mbuffer -s 10
        mbuffer -P 101
        mbuffer -p 100
        mbuffer -P 50 -p 50
        mbuffer -m 95%
        mbuffer -b 4
        mbuffer -q -b 1 -b 5 < a; mbuffer -q -b 5 -b 1 < a; mbuffer -q -b 5x < a; mbuffer -q -b x < a
        mbuffer -q -t -T tmp -m 1M < a; mbuffer -q -T tmp2 -t -m 1M < a; mbuffer -q -T tmp3 -T tmp4 -m 1M < a
        mbuffer -q -W 0 < a; mbuffer -q -W x < a; mbuffer -q -W -1 < a; mbuffer -q -u 0 < a; mbuffer -q -u x < a
        for o in r R s D -tcpbuffer; do mbuffer -q -$o x < a; echo $?; mbuffer -q -$o x < empty; echo $?; done
        for o in '-v x' '-v 9'; do mbuffer -q $o < a 2> /dev/null; echo $?; done; mbuffer -q --tcptimeo x < a
        mbuffer -q --tcptimeo 0 < a
        mbuffer -q -A /bin/false < a
        mbuffer -q -d < a
        mbuffer -q -L < a 2> /dev/null
        mbuffer -q -u 1 -b 10 -s 1k < a
        mbuffer -q -r 10M -R 10M < a
        mbuffer -q -t -m 1M < a
        mbuffer -q -T tmp -m 1M < a; ls tmp 2> /dev/null
        mbuffer -q -c -f -o a < c 2> /dev/null; cat a
        mbuffer -q -e -P 80 < a
        mbuffer -q -W 100 < a
        mbuffer -q -v 0 --no-direct < a
        mbuffer -q -O localhost 2> /dev/null; echo $?
        mbuffer -q -O nohost.invalid:9 < a 2> /dev/null; echo $?
        mbuffer -q --pid < a 2> /dev/null
        MBUFFERRC=own.rc; export MBUFFERRC; echo 'showstatus = no' > own.rc; mbuffer < a
        echo 'showstatus maybe' > .mbuffer.rc; mbuffer -q < a
        printf 'nokey = 3\n\n# no entry\ngarbage\nMemLock: off\ndirectio = 1\n' > .mbuffer.rc; mbuffer -q < a 2>&1 | sed 's/file .*rc,/file F,/'
        printf 'blocksize = x\ntotalmem = 1x\ntcpbufsize = x\n' > .mbuffer.rc; mbuffer -q < a 2>&1 | sed 's/): .*/)/'
        printf 'blocksize = x\nnokey = 3\n' > .mbuffer.rc; mbuffer -q -v 1 < a
        printf 'startread = 100\ntimeout = 0\ntcptimeout = 0\nmaxreadspeed = 0\ntcpbufsize = 0\n' > .mbuffer.rc; mbuffer -q < a
    "#;
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [theirs, ours] = [None, Some(&links)].map(|links| {
            let directory = files();
            let line = format!("export HOME=$PWD; {line}");
            bash(directory.path(), links, &line)
        });
        let all = |output: &Output| (output.stdout.clone(), like(output), output.status.code());
        assert_eq!(
            all(&ours),
            all(&theirs),
            "{line}: {}{}",
            said(&ours),
            said(&theirs)
        );
    }
}

#[test]
fn mbuffer_differs_where_that_is_meant() {
    let links = links(&["mbuffer"]);
    for (line, expected) in [
        // The manual: any kind of failure yields a non-zero exit code. mbuffer ends with 0 if one output was written.
        (
            "mbuffer -q -o x -o nodir/x < a 2> /dev/null; echo $?; cat x",
            "1\nhel\tlo\n",
        ),
        (
            "mbuffer -V 2>&1 | head -n 1 | cut -d ' ' -f 1-3; mbuffer --help | grep -c tcptimeo",
            "mbuffer version (fullbore)\n1\n",
        ),
        (
            "mbuffer --hash list 2>&1 | tr -d '\\t' | tr '\\n' ' '",
            "valid hash functions are: MD5 SHA256 BLAKE3 XXH3 CRC32C ",
        ),
        (
            "mbuffer -q --hash blake3 < a 2>&1 > /dev/null | wc -c",
            "78\n",
        ),
        // The manual: it truncates. mbuffer refuses a file that exists without -f all the same.
        ("mbuffer -q --truncate -o a < c; echo $?; cat a", "0\nc\n"),
        (
            "for o in '-D 1G' '-n 2' '-n 0' '-a 5' --tapeaware; do mbuffer $o < a 2>&1 | cut -d ' ' -f 1-6; done",
            "mbuffer: fatal: -D is not offered:\nmbuffer: fatal: -n is not offered:\nmbuffer: fatal: -n is not offered:\nmbuffer: fatal: -a is not offered:\nmbuffer: fatal: --tapeaware is not offered:\n",
        ),
        (
            "mbuffer -A true -o x < a 2>&1; echo $?",
            "mbuffer: fatal: -A is not offered: tapes of several volumes are not handled; use mbuffer itself\n1\n",
        ),
        // mbuffer stops, or ends with 1.
        (
            "export HOME=$PWD; printf 'numblocks = 3\ntcptimeout = x\nverbose = 77\npause = x\n' > .mbuffer.rc; mbuffer -q < a 2>&1 | cut -d : -f 1-3; echo ${PIPESTATUS[0]}",
            "mbuffer: warning: ignoring invalid key/value pair (numblocks = 3)\nmbuffer: warning: ignoring invalid key/value pair (tcptimeout = x)\nmbuffer: warning: ignoring invalid key/value pair (verbose = 77)\nmbuffer: warning: ignoring invalid key/value pair (pause = x)\nhel\tlo\n0\n",
        ),
        // The line while it runs.
        (
            r#"mkfifo f; mbuffer < f > /dev/null 2> err & exec 3> f; cat a >&3; until grep -aq 'full' err; do sleep 0.05; done; exec 3>&-; wait; tr '\r' '\n' < err | grep -m 1 '^in @' | sed 's/[0-9.]/#/g; s/ *#* *[kMG]/ #k/g; s/ *#%/ #%/'"#,
            "in @ #kiB/s, out @ #kiB/s, #kiB total, buffer #% full\n",
        ),
        ("mbuffer -q -W 1 -I PORT; echo $?", "1\n"),
    ] {
        // Nobody connects to a port that was free a moment ago.
        let port = free_port().to_string();
        let output = bash(files().path(), Some(&links), &line.replace("PORT", &port));
        let text = stdout(&output)
            .replace("##", "#")
            .replace("##", "#")
            .replace("#.#", "#");
        assert_eq!(text, expected, "{line}: {}", said(&output));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn mbuffer(links: &TempDir, words: &str) -> Command {
    called(&links.path().join("mbuffer"), words)
}

fn called(program: &Path, words: &str) -> Command {
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    users::with_usual_signals(&mut command);
    command
}

fn big() -> Vec<u8> {
    let mut bytes = vec![0; 5_000_011];
    fastrand::Rng::with_seed(7).fill(&mut bytes);
    bytes
}

/// Starts an mbuffer that listens, and connects to it. Another program may take the port first: then the mbuffer ends,
/// and another port is tried.
fn listening(
    links: &TempDir,
    words: &str,
    connect: impl Fn(u16) -> Option<TcpStream>,
) -> (Child, u16, TcpStream) {
    loop {
        let port = free_port();
        let mut child = start(&mut mbuffer(
            links,
            &words.replace("PORT", &port.to_string()),
        ));
        let stream = wait_for("a connection, or the end", || match connect(port) {
            Some(stream) => Some(Some(stream)),
            None => child.try_wait().unwrap().map(|_| None),
        });
        match stream {
            Some(stream) => return (child, port, stream),
            None => continue,
        }
    }
}

fn over_v4(port: u16) -> Option<TcpStream> {
    TcpStream::connect(("127.0.0.1", port)).ok()
}

#[test]
fn what_comes_over_a_connection_is_copied() {
    let (links, bytes) = (links(&["mbuffer"]), big());
    for words in [
        "-q -I PORT",
        "-q -4 -I PORT",
        "-q -I 127.0.0.1:PORT",
        "-q -I localhost:PORT -m 1M -s 16k",
        "-q --tcpbuffer 256k --tcptimeo 100s -I PORT",
        "-q -W 300 -I PORT",
    ] {
        let (child, _, mut stream) = listening(&links, words, over_v4);
        stream.write_all(&bytes).unwrap();
        // Only this direction ends: nothing was to come back.
        stream.shutdown(Shutdown::Write).unwrap();
        let output = finish(child);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words}: {}",
            said_err(&output)
        );
        assert!(
            output.stdout == bytes,
            "{words}: {} bytes",
            output.stdout.len()
        );
    }
}

fn said_err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_connection_that_is_reset_is_an_error_and_other_hosts_are_sent_away() {
    let links = links(&["mbuffer"]);
    let (child, _, mut stream) = listening(&links, "-q -I PORT", over_v4);
    stream.write_all(b"some").unwrap();
    // Without time to linger, closing resets the connection.
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    let output = finish(child);
    assert_code(&output, 1);
    let line = one_line(stderr(&output));
    assert!(
        line.starts_with("mbuffer: fatal: read from 'port "),
        "{line}"
    );
    assert!(line.contains("Connection reset by peer"), "{line}");
    // An address that this machine does not have for others.
    let (mut child, _, mut stream) = listening(&links, "-q -I 192.0.2.1:PORT", over_v4);
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it was closed");
    child.kill().unwrap();
    let output = finish(child);
    assert!(
        said_err(&output).contains("warning: rejected a connection from 127.0.0.1\n"),
        "{}",
        said_err(&output)
    );
}

#[test]
fn every_connection_gets_every_byte() {
    let (links, bytes) = (links(&["mbuffer"]), big());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in");
    std::fs::write(&path, &bytes).unwrap();
    let listeners: Vec<TcpListener> = (0..3)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let ports: Vec<u16> = listeners
        .iter()
        .map(|one| one.local_addr().unwrap().port())
        .collect();
    let copy = directory.path().join("copy");
    let words = format!(
        "-q -i {} -O localhost:{} -4 -O 127.0.0.1:{} -o {} --tcpbuffer 64k -O 127.0.0.1:{} --md5",
        path.display(),
        ports[0],
        ports[1],
        copy.display(),
        ports[2]
    );
    let child = start(&mut mbuffer(&links, &words));
    let readers: Vec<_> = (listeners.into_iter())
        .map(|listener| {
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                got
            })
        })
        .collect();
    let output = finish(child);
    assert_code(&output, 0);
    for reader in readers {
        assert!(reader.join().unwrap() == bytes);
    }
    assert!(std::fs::read(&copy).unwrap() == bytes);
    assert!(
        stderr(&output).starts_with("MD5 hash: "),
        "{}",
        said(&output)
    );
}

#[test]
fn every_connection_is_ended_before_one_is_waited_for() {
    let links = links(&["mbuffer"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in");
    // More than the first receiver has room for, and less than the sender has.
    let bytes = &big()[..60_000];
    std::fs::write(&path, bytes).unwrap();
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    set_socket_recv_buffer_size(&listeners[0], 4096).unwrap();
    let ports = listeners
        .each_ref()
        .map(|one| one.local_addr().unwrap().port());
    let words = format!(
        "-q -i {} -O 127.0.0.1:{} -O 127.0.0.1:{}",
        path.display(),
        ports[0],
        ports[1]
    );
    let child = start(&mut mbuffer(&links, &words));
    let streams = listeners.map(|listener| listener.accept().unwrap().0);
    // The first one is read from only when the second one has ended.
    for mut stream in streams.into_iter().rev() {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == bytes);
    }
    assert_code(&finish(child), 0);
}

#[test]
fn a_peer_that_goes_is_an_error_of_that_output() {
    let links = links(&["mbuffer"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in");
    std::fs::write(&path, vec![1; 30_000_000]).unwrap();
    let run = |outputs: &str, read: usize| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_socket_recv_buffer_size(&listener, 4096).unwrap();
        let port = listener.local_addr().unwrap().port();
        let words = format!("-q -i {} -O 127.0.0.1:{port} {outputs}", path.display());
        let child = start(&mut mbuffer(&links, &words));
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut vec![0; read]).unwrap();
        // There are unread bytes, so that closing resets the connection (RFC 2525, 2.17).
        drop((stream, listener));
        finish(child)
    };
    let alone = run("", 1000);
    assert_code(&alone, 1);
    assert!(
        said_err(&alone).contains("write to '127.0.0.1:"),
        "{}",
        said(&alone)
    );
    // All bytes may have been sent, but nobody has got the last ones: the buffer of the receiver is small.
    std::fs::write(&path, vec![1; 200_000]).unwrap();
    let last = run("", 1);
    assert_code(&last, 1);
    assert!(
        said_err(&last).contains("write to '127.0.0.1:"),
        "{}",
        said(&last)
    );
    std::fs::write(&path, vec![1; 30_000_000]).unwrap();
    let copy = directory.path().join("copy");
    let other = run(&format!("-o {}", copy.display()), 1000);
    assert_code(&other, 1);
    assert_eq!(std::fs::metadata(&copy).unwrap().len(), 30_000_000);
}

#[test]
fn a_connection_that_moves_nothing_ends_after_its_time() {
    let links = links(&["mbuffer"]);
    let (child, _, stream) = listening(&links, "-q --tcptimeo 300ms -I PORT", over_v4);
    let output = finish(child);
    assert_code(&output, 1);
    assert!(
        said_err(&output).contains("the connection of the input has moved nothing"),
        "{}",
        said(&output)
    );
    drop(stream);
}

#[test]
fn only_a_connection_that_takes_nothing_itself_fails_after_its_time() {
    let links = links(&["mbuffer"]);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("in"), vec![1; 30_000_000]).unwrap();
    let run = |output: &str, timeout: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let words = format!(
            "-q -m 64M --tcptimeo {timeout} -i {} -O 127.0.0.1:{port} -o {}",
            path("in").display(),
            path(output).display()
        );
        let child = start(&mut mbuffer(&links, &words));
        (child, listener.accept().unwrap().0, port)
    };
    // Nobody reads from the connection. The other output is complete.
    let (child, _stream, port) = run("copy", "300ms");
    let output = finish(child);
    assert_code(&output, 1);
    let text = format!("write to '127.0.0.1:{port}': Connection timed out");
    assert!(said_err(&output).contains(&text), "{}", said(&output));
    assert_eq!(std::fs::metadata(path("copy")).unwrap().len(), 30_000_000);
    // Nobody reads from the pipe for longer than the timeout, and the connection has nothing to do. No thread here waits
    // as long for a CPU.
    let fifo = path("fifo");
    let made = output_of(Command::new("mkfifo").arg(&fifo));
    assert!(made.unwrap().status.success());
    let reading = std::thread::spawn(move || {
        let mut fifo = std::fs::File::open(fifo).unwrap();
        std::thread::sleep(Duration::from_secs(6));
        std::io::copy(&mut fifo, &mut std::io::sink()).unwrap()
    });
    let (child, mut stream, _) = run("fifo", "5s");
    let got = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    assert_code(&finish(child), 0);
    assert_eq!((got, reading.join().unwrap()), (30_000_000, 30_000_000));
}

#[test]
fn both_versions_of_ip_are_offered_and_can_be_chosen() {
    let links = links(&["mbuffer"]);
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return skipped("there is no IPv6 here");
    };
    let port = listener.local_addr().unwrap().port();
    let child = start(mbuffer(&links, &format!("-q -6 -O [::1]:{port}")).stdin(Stdio::null()));
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_code(&finish(child), 0);
    let wrong = finish(start(&mut mbuffer(
        &links,
        &format!("-q -4 -O [::1]:{port}"),
    )));
    assert_code(&wrong, 1);
    assert!(
        said_err(&wrong).contains("no address of this version of IP"),
        "{}",
        said_err(&wrong)
    );
    for words in ["-q -I PORT", "-q -6 -I PORT", "-q -6 -I [::1]:PORT"] {
        let (child, _, stream) =
            listening(&links, words, |port| TcpStream::connect(("::1", port)).ok());
        drop(stream);
        assert_code(&finish(child), 0);
    }
}

/// What scripts and their documentation call, word for word but for figures. Each gets a stream, and passes it on.
/// The sources are repositories on GitHub, as they were in 2026.
#[test]
fn calls_of_scripts_pass_their_stream_on() {
    let links = links(&["pv", "mbuffer", "tee", "cat"]);
    let (directory, bytes) = (files(), big());
    std::fs::write(directory.path().join("stream"), &bytes).unwrap();
    for (who, line) in [
        // jimsalterjrs/sanoid, syncoid, buildsynccmd().
        ("syncoid", "mbuffer  -q -s 128k -m 16M"),
        (
            "syncoid --source-bwlimit=100m",
            "mbuffer -R 100m -q -s 128k -m 16M",
        ),
        (
            "syncoid --target-bwlimit=100m",
            "mbuffer -r 100m -q -s 128k -m 16M",
        ),
        ("syncoid", "pv -p -t -e -r -b -s 5000011"),
        (
            "syncoid",
            "mbuffer  -q -s 128k -m 16M | pv -p -t -e -r -b -s 5000011",
        ),
        // oetiker/znapzend, lib/ZnapZend/ZFS.pm, mbufferParam and sendRecvSnapshots(); doc/znapzendzetup.pod has the
        // sizes, and contrib/synczbe the last one.
        ("znapzend", "mbuffer -q -s 256k -W 600 -m 1G"),
        ("znapzend", "mbuffer -q -s 256k -W 600 -m 128M"),
        (
            "znapzend --mbufferparam='-R 10M'",
            "mbuffer -q -s 256k -W 600 -m 100M -R 10M",
        ),
        ("znapzend's synczbe", "mbuffer -m 128M"),
        // whoschek/bzfs, bzfs_main/replication.py, _mbuffer_cmd() and _pv_cmd(); the options are those of argparse_cli.py.
        ("bzfs", "mbuffer -s 2097152 -q -m 128M"),
        (
            "bzfs --bwlimit=100m, source",
            "mbuffer -s 2097152 -q -m 128M -R 100M",
        ),
        (
            "bzfs --bwlimit=100m, destination",
            "mbuffer -s 2097152 -q -m 128M -r 100M",
        ),
        (
            "bzfs",
            "LC_ALL=C pv --progress --timer --eta --fineta --rate --average-rate --bytes --interval=1 --width=120 --buffer-size=2M --force --name=5MiB --size=5000011 2>> pv.log",
        ),
        (
            "bzfs --bwlimit=100m",
            "LC_ALL=C pv --progress --timer --eta --fineta --rate --average-rate --bytes --interval=1 --width=120 --buffer-size=2M --rate-limit=100m --force --name=5MiB --size=5000011 2>> pv.log",
        ),
        // zrepl/zrepl calls none of them, and its documentation neither, but for
        // internal/rpc/dataconn/microbenchmark/microbenchmark.go.
        ("zrepl's microbenchmark", "pv -r"),
        // Its fork dsh2dsh/zrepl does: docs/configuration/sendrecvoptions.rst, and dist/freebsd/etc/zrepl/zrepl.yml.
        ("zrepl's execpipe", "mbuffer -q -s 128k -m 100M"),
        ("zrepl's execpipe", "mbuffer -q -s 128k -m 1G"),
        // Proxmox' own programs (proxmox/pve-storage, src/PVE/Storage.pm; proxmox/pve-zsync, pve-zsync) and their
        // documentation (proxmox/pve-docs) call cstream instead. ossobv/proxmove moves machines between its clusters:
        // proxmove, copy_direct() of ProxmoxStorageZfs.
        (
            "proxmove --bwlimit=100",
            "mbuffer -q -s 128k -m 1G -R 12800k | mbuffer -q -s 128k -m 1G | pv --force --eta --average-rate --progress -s 5000011",
        ),
        (
            "proxmove",
            "mbuffer -q -s 128k -m 1G  | mbuffer  -s 128k -m 1G",
        ),
        // No source: what is often seen.
        ("scripts of cron", "cat | tee -a log | pv -q"),
        ("scripts of cron", "pv -ptebar | mbuffer -q"),
        ("scripts of cron", "pv -q -L 100M"),
    ] {
        let line = format!("{line} < stream");
        // Behind a pipe, the first program is the one that reads.
        let line = match line.split_once(" | ") {
            Some((first, rest)) => {
                format!("{first} < stream | {}", rest.trim_end_matches(" < stream"))
            }
            None => line,
        };
        let output = bash(directory.path(), Some(&links), &line);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{who}: {line}: {}",
            said_err(&output)
        );
        assert!(
            output.stdout == bytes,
            "{who}: {line}: {} bytes",
            output.stdout.len()
        );
    }
    let log = std::fs::read_to_string(directory.path().join("pv.log")).unwrap();
    // What bzfs looks for in a line of pv.
    let last = log.lines().rfind(|line| line.contains("iB")).unwrap();
    assert!(
        last.contains("4.77MiB 0:00:0") && last.contains("/s]") && last.contains("5MiB:"),
        "{log}"
    );
}

/// As scripts connect two of them.
#[test]
fn two_of_them_are_connected_as_scripts_do_it() {
    let (links, bytes) = (links(&["mbuffer"]), big());
    let directory = files();
    std::fs::write(directory.path().join("stream"), &bytes).unwrap();
    let path = |name: &str| directory.path().join(name);
    for (receiver, sender) in [
        // syncoid --insecure-direct-connection=…,…,60,mbuffer, which sends by socat.
        (
            "-W 60 -I 127.0.0.1:PORT -q -s 128k -m 16M",
            "-q -s 128k -m 16M -O 127.0.0.1:PORT",
        ),
        // znapzend with --mbuffer=/usr/bin/mbuffer:PORT.
        (
            "-q -s 256k -W 600 -m 100M -4 -I PORT",
            "-q -s 256k -W 600 -m 100M -O localhost:PORT",
        ),
        // Issue 86 of zrepl/zrepl.
        (
            "-s 128k -m 1G -4 -I PORT",
            "-s 128k -m 1G -O 127.0.0.1:PORT",
        ),
    ] {
        let link = links.path().join("mbuffer");
        sent_and_received([&link; 2], receiver, sender, &path("stream"), &bytes);
    }
}

#[test]
fn each_end_of_a_connection_may_be_the_mbuffer_of_this_machine() {
    if !has_mbuffer() {
        return;
    }
    let (links, bytes) = (links(&["mbuffer"]), big());
    let directory = files();
    let stream = directory.path().join("stream");
    std::fs::write(&stream, &bytes).unwrap();
    let (theirs, ours) = (Path::new("mbuffer"), links.path().join("mbuffer"));
    for programs in [[theirs, &ours], [&ours, theirs], [theirs, theirs]] {
        for (receiver, sender) in [
            ("-q -I PORT", "-q -O localhost:PORT"),
            ("-q -4 -I 127.0.0.1:PORT", "-q -4 -O 127.0.0.1:PORT"),
            (
                "-q --tcpbuffer 64k --tcptimeo 60s -0 -I PORT",
                "-q --tcpbuffer 64k --tcptimeo 60s -0 -O localhost:PORT",
            ),
        ] {
            sent_and_received(programs, receiver, sender, &stream, &bytes);
        }
    }
}

fn sent_and_received(
    [receiving, sending]: [&Path; 2],
    receiver: &str,
    sender: &str,
    stream: &Path,
    bytes: &[u8],
) {
    // The receiver may find its port taken, and the sender may come before it listens: then both are tried again.
    for _ in 0..1000 {
        let port = free_port();
        let words = |text: &str| text.replace("PORT", &port.to_string());
        let mut receiver = start(&mut called(receiving, &words(receiver)));
        let listens = |child: &mut Child| match child.try_wait().unwrap() {
            Some(_) => Some(false),
            None => is_listened_at(port, child.id()).then_some(true),
        };
        if !wait_for("a port that is listened at", || listens(&mut receiver)) {
            continue;
        }
        let input = std::fs::File::open(stream).unwrap();
        let sent = finish(start(called(sending, &words(sender)).stdin(input)));
        assert_code(&sent, 0);
        let received = finish(receiver);
        assert_eq!(received.status.code(), Some(0), "{}", said_err(&received));
        assert!(received.stdout == bytes);
        return;
    }
    panic!("every port was taken");
}

#[test]
fn only_the_last_block_of_a_given_size_is_short_as_with_mbuffer() {
    let links = links(&["mbuffer"]);
    let ours = links.path().join("mbuffer").display().to_string();
    let has_mbuffer = output_of(Command::new("mbuffer").arg("-V")).is_ok();
    for program in std::iter::once(ours.as_str()).chain(has_mbuffer.then_some("mbuffer")) {
        for (block, expected) in [
            ("16384", vec![16384, 16384, 7232]),
            ("10001", vec![10001, 10001, 10001, 9997]),
            ("20000", vec![20000, 20000]),
        ] {
            // A socket that preserves the borders between writes.
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            let (stdin, mut writer) = pipe();
            let mut command = called(Path::new(program), &format!("-q -s {block} -m 1M"));
            let child = start(command.stdin(stdin).stdout(OwnedFd::from(ours)));
            for _ in 0..4 {
                writer.write_all(&[7; 10_000]).unwrap();
                // Each piece is read by itself.
                wait_for("it was read", || {
                    (rustix::io::ioctl_fionread(&writer) == Ok(0)).then_some(())
                });
            }
            drop(writer);
            let mut room = vec![0; 100_000];
            let written: Vec<usize> = (expected.iter())
                .map(|_| theirs.recv(&mut room).unwrap())
                .collect();
            assert_eq!(written, expected, "{program} -s {block}");
            assert_code(&finish(child), 0);
        }
    }
}

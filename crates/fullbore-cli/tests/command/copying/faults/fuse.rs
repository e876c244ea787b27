//! Tests of sources and sinks on a FUSE file system that misbehaves.

use std::io::Read;
use std::sync::mpsc;
use std::time::Duration;

use fuser::Errno;

use super::server::{Answer, Nature, Served};
use super::*;

/// Every way in which a verb can read a file.
const READERS: &[Job] = &[
    ("copy IN", Nothing, Pipe),
    ("copy IN", Nothing, ToFile),
    ("copy", ToFile, Pipe),
    ("copy IN -o OUT", Nothing, Nothing),
    ("tee OUT", ToFile, Pipe),
    ("meter -q IN", Nothing, Pipe),
    ("meter -q", ToFile, ToFile),
];

/// Every way in which a verb can write to a file: to OUT, or to stdout if there is no OUT.
const WRITERS: &[Job] = &[
    ("copy IN -o OUT", Nothing, Nothing),
    ("copy IN", Nothing, ToFile),
    ("copy -o OUT", Pipe, Nothing),
    ("copy", Pipe, ToFile),
    ("tee OUT", ToFile, Nothing),
    ("tee OUT", Pipe, Nothing),
    ("tee", Pipe, ToFile),
    ("tee -p", Pipe, ToFile),
    ("meter -q IN", Nothing, ToFile),
    ("meter -q", Pipe, ToFile),
];

const LEN: usize = 700_001;

/// Runs each reader on a new file of that nature, and calls `check` with the result. Does nothing if
/// FUSE is not available.
fn each_reader(nature: &Nature, check: impl Fn(&str, Output, Vec<Vec<u8>>)) {
    for &job in READERS {
        for by in guarantees(job.0) {
            let Some(served) = Served::new(nature.clone()) else {
                return;
            };
            let mut files = Files::new(Vec::new());
            files.input = served.path();
            let (output, outputs) = files.run(job, by, |command| command);
            check(&format!("{job:?} {by}"), output, outputs);
        }
    }
}

/// Does the same for each writer, and passes the bytes that arrived at the file.
fn each_writer(nature: &Nature, check: impl Fn(&str, Output, Vec<u8>, &[u8])) {
    for &job in WRITERS {
        for by in guarantees(job.0) {
            let Some(served) = Served::new(nature.clone()) else {
                return;
            };
            let mut files = Files::new(bytes(LEN));
            match job.0.contains("OUT") {
                true => files.out = served.path(),
                false => files.stdout = served.path(),
            }
            let (output, _) = files.run(job, by, |command| command);
            check(
                &format!("{job:?} {by}"),
                output,
                served.written(),
                &files.bytes,
            );
        }
    }
}

/// Asserts exit code 1, and one line with these words.
#[track_caller]
fn assert_failed(what: &str, output: &Output, words: &str) {
    assert_eq!(
        output.status.code(),
        Some(1),
        "{what}: {}",
        said_short(output)
    );
    let line = one_line(stderr(output));
    assert!(line.contains(words), "{what}: {line}");
}

#[test]
fn a_source_that_gives_little_at_a_time_is_read_to_its_end() {
    let content = bytes(LEN);
    let mut nature = Nature::source(&content);
    nature.read = |nth| Answer::AtMost(1 + (nth as usize * 7919) % 9973);
    each_reader(&nature, |what, output, outputs| {
        assert_everything(what, &output, &outputs, &content);
    });
}

#[test]
fn the_size_that_a_source_reports_is_not_believed() {
    let content = bytes(LEN);
    for size in [0, 1, LEN as u64 - 4097, LEN as u64 + 1_000_000] {
        let mut nature = Nature::source(&content);
        nature.size = size;
        each_reader(&nature, |what, output, outputs| {
            let what = format!("{what}, {size} bytes reported");
            assert_everything(&what, &output, &outputs, &content);
        });
    }
}

#[test]
fn a_source_that_fails_in_the_middle_is_said_and_what_came_before_is_right() {
    let content = bytes(LEN);
    for read in [
        (|_| Answer::Fail(Errno::EIO)) as fn(u32) -> Answer,
        |nth| {
            if nth < 2 {
                Answer::AtMost(4096)
            } else {
                Answer::Fail(Errno::EIO)
            }
        },
        |nth| {
            if nth < 5 {
                Answer::AtMost(70_000)
            } else {
                Answer::Fail(Errno::EIO)
            }
        },
        |nth| {
            if nth == 4 {
                Answer::Fail(Errno::EIO)
            } else {
                Answer::AtMost(50_000)
            }
        },
    ] {
        let mut nature = Nature::source(&content);
        nature.read = read;
        each_reader(&nature, |what, output, outputs| {
            assert_failed(what, &output, "Input/output error");
            assert_beginnings(what, &outputs, &content);
        });
    }
}

#[test]
fn a_source_that_says_it_has_ended_and_goes_on_gives_no_wrong_byte() {
    let content = bytes(LEN);
    for read in [
        (|nth| Answer::AtMost(if nth == 1 { 0 } else { 10_000 })) as fn(u32) -> Answer,
        |nth| Answer::AtMost(if nth == 3 { 0 } else { 10_000 }),
    ] {
        let mut nature = Nature::source(&content);
        nature.read = read;
        each_reader(&nature, |what, output, outputs| {
            assert_eq!(
                output.status.code(),
                Some(0),
                "{what}: {}",
                said_short(&output)
            );
            assert_beginnings(what, &outputs, &content);
        });
    }
}

#[test]
fn what_came_before_a_source_stalls_has_arrived() {
    let content = bytes(LEN);
    let mut nature = Nature::source(&content);
    nature.read = |nth| {
        if nth == 1 {
            Answer::AtMost(1000)
        } else {
            Answer::Stall
        }
    };
    for words in ["copy IN", "copy", "tee", "meter -q IN"] {
        for by in guarantees(words) {
            let Some(served) = Served::new(nature.clone()) else {
                return;
            };
            let words = words.replace("IN", served.path().to_str().unwrap());
            let source = File::open(served.path()).unwrap();
            let mut child = start(fullbore(&format!("{words} {by}")).stdin(source));
            let mut out = child.stdout.take().unwrap();
            let (send, received) = mpsc::channel();
            let reading = thread::spawn(move || {
                let mut first = vec![0; 1000];
                send.send(out.read_exact(&mut first).map(|()| first))
                    .unwrap();
                let mut rest = Vec::new();
                out.read_to_end(&mut rest).unwrap();
                rest
            });
            let first = received.recv_timeout(Duration::from_secs(60));
            wait_for(&format!("{words} {by}: the second read"), || {
                served.has_stalled().then_some(())
            });
            served.release();
            let output = finish(child);
            let what = format!("{words} {by}");
            assert_eq!(first.expect(&what).expect(&what), content[..1000], "{what}");
            assert!(reading.join().unwrap().is_empty(), "{what}");
            assert_failed(&what, &output, "Input/output error");
        }
    }
}

#[test]
fn a_sink_that_takes_little_at_a_time_gets_every_byte() {
    let mut nature = Nature::sink();
    nature.write = |nth| Answer::AtMost(1 + (nth as usize * 7919) % 9973);
    each_writer(&nature, |what, output, written, bytes| {
        assert_everything(what, &output, &[written], bytes);
    });
}

#[test]
fn a_sink_that_takes_nothing_is_an_error() {
    for write in [(|_| Answer::AtMost(0)) as fn(u32) -> Answer, |nth| {
        if nth < 4 {
            Answer::AtMost(40_000)
        } else {
            Answer::AtMost(0)
        }
    }] {
        let mut nature = Nature::sink();
        nature.write = write;
        each_writer(&nature, |what, output, written, bytes| {
            assert_failed(what, &output, "write to ");
            assert_beginnings(what, &[written], bytes);
        });
    }
}

#[test]
fn a_sink_that_takes_nothing_once_loses_nothing_in_silence() {
    let mut nature = Nature::sink();
    nature.write = |nth| Answer::AtMost(if nth == 3 { 0 } else { 40_000 });
    each_writer(&nature, |what, output, written, bytes| {
        match output.status.code() {
            Some(0) => assert_everything(what, &output, &[written], bytes),
            _ => {
                assert_failed(what, &output, "write to ");
                assert_beginnings(what, &[written], bytes);
            }
        }
    });
}

#[test]
fn a_file_that_answers_epipe_has_failed_and_no_reader_has_gone() {
    let mut nature = Nature::sink();
    nature.write = |nth| match nth {
        0 | 1 => Answer::AtMost(50_000),
        _ => Answer::Fail(Errno::EPIPE),
    };
    each_writer(&nature, |what, output, written, bytes| {
        assert_failed(what, &output, "Broken pipe");
        assert_beginnings(what, &[written], bytes);
    });
}

#[test]
fn a_sink_that_is_full_is_said_and_holds_the_beginning() {
    for (errno, words) in [
        (Errno::ENOSPC, "No space left on device"),
        (Errno::EDQUOT, "Disk quota exceeded"),
    ] {
        let writes: [fn(u32) -> Answer; 2] = match errno {
            Errno::ENOSPC => [
                |_| Answer::Fail(Errno::ENOSPC),
                |nth| {
                    if nth < 4 {
                        Answer::AtMost(50_000)
                    } else {
                        Answer::Fail(Errno::ENOSPC)
                    }
                },
            ],
            _ => [
                |_| Answer::Fail(Errno::EDQUOT),
                |nth| {
                    if nth < 4 {
                        Answer::AtMost(100_000)
                    } else {
                        Answer::Fail(Errno::EDQUOT)
                    }
                },
            ],
        };
        for write in writes {
            let mut nature = Nature::sink();
            nature.write = write;
            each_writer(&nature, |what, output, written, bytes| {
                assert_failed(what, &output, words);
                assert_beginnings(what, &[written], bytes);
            });
        }
    }
}

#[test]
fn a_sink_that_fails_when_it_is_closed_is_an_error() {
    for (errno, words) in [
        (Errno::EIO, "Input/output error"),
        (Errno::ENOSPC, "No space left on device"),
        (Errno::EDQUOT, "Disk quota exceeded"),
    ] {
        let mut nature = Nature::sink();
        nature.flush = Some(errno);
        each_writer(&nature, |what, output, written, bytes| {
            assert_failed(what, &output, "close ");
            assert_failed(what, &output, words);
            assert!(written == bytes, "{what}");
        });
    }
}

#[test]
fn a_process_with_a_file_whose_server_hangs_can_be_watched() {
    let Some(served) = Served::new(Nature::source(&bytes(LEN))) else {
        return;
    };
    let mut source = File::open(served.path()).unwrap();
    // Both descriptors share the position.
    let held = source.try_clone().unwrap();
    source.read_exact(&mut vec![0; LEN / 2]).unwrap();
    let mut child = start(
        Command::new("sleep")
            .arg("600")
            .stdin(held)
            .stdout(std::process::Stdio::null()),
    );
    served.stall_attributes();
    for target in [format!("{}:0", child.id()), child.id().to_string()] {
        let words = format!("meter -f -i 0.05 --watch {target}");
        let mut watching = start(&mut fullbore(&words));
        let mut drawn = watching.stderr.take().unwrap();
        let (send, received) = mpsc::channel();
        let reading = thread::spawn(move || {
            let mut text = Vec::new();
            let mut byte = [0];
            while drawn.read(&mut byte).is_ok_and(|got| got == 1) {
                text.push(byte[0]);
                if byte[0] == b'%' {
                    break;
                }
            }
            let _ = send.send(String::from_utf8_lossy(&text).into_owned());
        });
        let text = received.recv_timeout(Duration::from_secs(60));
        let has_asked = served.has_stalled();
        // A process that hangs cannot even be killed before its request is answered.
        served.release();
        watching.kill().unwrap();
        watching.wait().unwrap();
        reading.join().unwrap();
        let text = text.expect("it hangs");
        assert!(text.contains(" 49%"), "{target}: {text}");
        assert!(!has_asked, "{target}");
        served.stall_attributes();
    }
    served.release();
    child.kill().unwrap();
    child.wait().unwrap();
}

/// splice(2) into a file holds the lock of the source pipe. Other processes at that pipe would hang with the server.
#[test]
fn a_sink_whose_server_hangs_does_not_hold_the_pipe_of_the_source() {
    for verb in [
        "copy",
        "copy --by-reference",
        "meter -q",
        "tee",
        "buffer -q",
    ] {
        let mut nature = Nature::sink();
        nature.write = |_| Answer::Stall;
        let Some(served) = Served::new(nature) else {
            return;
        };
        let (source, mut writer) = pipe();
        let ours = source.try_clone().unwrap();
        let out = File::options().write(true).open(served.path()).unwrap();
        let mut moving = start(fullbore(verb).stdin(source).stdout(out));
        let writing = thread::spawn(move || writer.write_all(&bytes(LEN)));
        while !served.has_stalled() {
            assert!(moving.try_wait().unwrap().is_none(), "{verb}");
            thread::sleep(Duration::from_millis(1));
        }
        let (send, received) = mpsc::channel();
        let asking = thread::spawn(move || send.send(rustix::io::ioctl_fionread(&ours)));
        let asked = received.recv_timeout(Duration::from_secs(60));
        served.release();
        assert_code(&finish(moving), 1);
        let _ = writing.join().unwrap();
        asking.join().unwrap().unwrap();
        assert!(asked.expect("it hangs").is_ok(), "{verb}");
    }
}

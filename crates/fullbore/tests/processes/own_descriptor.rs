//! Safe code cannot make the kernel write into memory: pages are given only to the descriptor that was checked.
//!
//! vmsplice(2) on the read end of a pipe *takes* bytes out of it, and writes them to the memory that it was given. So
//! each test replaces a write end by a read end, and checks afterwards that the bytes are still in that pipe, and that
//! the reader got the bytes that were sent.

use std::cell::Cell;
use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{Error, Pipe, ProducerOptions, Result, Tee, Transfer, Way};
use rustix::stdio::dup2_stdin;

/// An fd that changes into another one after some calls of `as_fd`.
struct Turncoat<'fd> {
    first: BorrowedFd<'fd>,
    then: BorrowedFd<'fd>,
    asked: Cell<usize>,
    turns_after: usize,
}

impl AsFd for Turncoat<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() > self.turns_after {
            self.then
        } else {
            self.first
        }
    }
}

/// The length of a bait: no more than fits into a pipe of one page.
const BAIT: usize = 4096;

/// A pipe whose bytes must not be touched.
fn bait() -> Pipe {
    let pipe = Pipe::new().unwrap();
    rustix::io::write(&pipe.writer, &[0xEE; BAIT]).unwrap();
    pipe
}

fn is_whole(bait: &Pipe) -> bool {
    queued(&bait.reader) == BAIT
}

const BYTES: u64 = 3 << 20;
const PATTERN: usize = 100_003;

/// How bytes are sent, by name.
const SENDERS: [&str; 7] = [
    "fresh",
    "recycle",
    "written",
    "handed over",
    "repeat",
    "repeat from memory",
    "transfer",
];

/// Sends. It may return an error, because the sink may be another file by then.
fn send_by<Fd: AsFd>(name: &str, sink: Fd) -> Result<()> {
    let options = ProducerOptions::new();
    let options = || options.clone();
    match name {
        "fresh" => {
            let mut out = options().way(Way::Fresh).open(sink)?;
            send(&mut out, 0, BYTES, 200_000)?;
            out.finish().map(drop).map_err(Error::from)
        }
        "recycle" => {
            // The reader copies.
            let mut out = options().way(Way::Recycle).open(sink)?;
            send(&mut out, 0, BYTES, 200_000)?;
            out.finish().map(drop).map_err(Error::from)
        }
        "written" => {
            let mut out = options().open(sink)?;
            io::Write::write_all(&mut out, &first(BYTES as usize)).map_err(inner)?;
            out.finish().map(drop).map_err(Error::from)
        }
        "handed over" => {
            let mut out = options().open(sink)?;
            for at in (0..BYTES).step_by(MIB) {
                let mut pages = fullbore::Pages::new(MIB)?;
                fill(&mut pages, at);
                out.send_pages(pages)?;
            }
            out.finish().map(drop).map_err(Error::from)
        }
        "repeat" => options().repeat(sink, &first(PATTERN))?.send(BYTES),
        "repeat from memory" => options().repeat(sink, &first(5 * MIB))?.send(BYTES),
        "transfer" => {
            let mut source = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut source, &first(BYTES as usize)).unwrap();
            io::Seek::rewind(&mut source).unwrap();
            Ok(Transfer::new(source, sink).run().map(drop)?)
        }
        _ => unreachable!("{name}"),
    }
}

fn checker(name: &str) -> Checker {
    match name {
        "repeat" => Checker::of(&first(PATTERN)),
        "repeat from memory" => Checker::of(&first(5 * MIB)),
        _ => Checker::of_the_stream(),
    }
}

#[test]
fn an_fd_that_changes_its_file_does_not_overwrite_memory() {
    let _watch = watch("an_fd_that_changes_its_mind");
    for name in SENDERS {
        for turns_after in 0..24 {
            let (pipe, bait) = (Pipe::new().unwrap(), bait());
            let checker = checker(name);
            let reading = Reader::Quick.spawn(pipe.reader, checker);
            let sink = Turncoat {
                first: pipe.writer.as_fd(),
                then: bait.reader.as_fd(),
                asked: Cell::new(0),
                turns_after,
            };
            let sent = send_by(name, sink);
            drop(pipe.writer);
            let read = reading.join().unwrap();
            assert!(is_whole(&bait), "{name}, after {turns_after}");
            match sent {
                Ok(()) => assert_eq!(read, BYTES, "{name}, after {turns_after}"),
                Err(_) => assert!(read <= BYTES),
            }
        }
    }
}

const JOB: &str = "FULLBORE_TEST_JOB";

/// Makes `sends_over_its_stdin` send so, with a pipe on its standard input, which it then replaces by the read end of
/// another pipe. Returns how many bytes arrived, all of them right.
fn sent_by_a_child(job: &str) -> u64 {
    let pipe = Pipe::new().unwrap();
    let checker = checker(job);
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "own_descriptor::sends_over_its_stdin",
            "--ignored",
            "--nocapture",
        ])
        .env(JOB, job)
        .stdin(pipe.writer)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let read = Reader::Quick.drain(pipe.reader, checker);
    assert!(child.wait().unwrap().success(), "{job}");
    read
}

/// Returns a pipe that is written to in two halves, the second one after a message.
fn in_two_halves() -> (OwnedFd, mpsc::Sender<()>, thread::JoinHandle<()>) {
    let pipe = Pipe::new().unwrap();
    let (go_on, may_go_on) = mpsc::channel();
    let writing = thread::spawn(move || {
        let mut writer = File::from(pipe.writer);
        let bytes = first(BYTES as usize);
        let (first, second) = bytes.split_at(bytes.len() / 2);
        io::Write::write_all(&mut writer, first).unwrap();
        may_go_on.recv().unwrap();
        io::Write::write_all(&mut writer, second).unwrap();
    });
    (pipe.reader, go_on, writing)
}

#[test]
#[ignore = "runs in the processes that other tests start"]
fn sends_over_its_stdin() {
    let Ok(job) = env::var(JOB) else { return };
    let bait = bait();
    let swap = || dup2_stdin(&bait.reader).unwrap();
    let options = ProducerOptions::new();
    match &job[..] {
        "fresh" => {
            let mut out = options.way(Way::Fresh).open(io::stdin()).unwrap();
            send(&mut out, 0, BYTES / 2, 200_000).unwrap();
            swap();
            send(&mut out, BYTES / 2, BYTES, 200_000).unwrap();
            out.finish().unwrap();
        }
        "recycle" => {
            // The reader copies.
            let mut out = options.way(Way::Recycle).open(io::stdin()).unwrap();
            send(&mut out, 0, BYTES / 2, 200_000).unwrap();
            swap();
            send(&mut out, BYTES / 2, BYTES, 200_000).unwrap();
            out.finish().unwrap();
        }
        "repeat" | "repeat from memory" => {
            let pattern = match &job[..] {
                "repeat" => PATTERN,
                _ => 5 * MIB,
            };
            let mut out = options.repeat(io::stdin(), &first(pattern)).unwrap();
            out.send(BYTES / 2).unwrap();
            swap();
            out.send(BYTES / 2).unwrap();
        }
        "transfer" => {
            let (source, go_on, writing) = in_two_halves();
            let mut transfer = Transfer::new(source, io::stdin());
            let report = transfer.run_with(|progress| {
                if progress.bytes == BYTES / 2 {
                    swap();
                    go_on.send(()).unwrap();
                }
                std::ops::ControlFlow::Continue(())
            });
            assert_eq!(report.unwrap().bytes, BYTES);
            writing.join().unwrap();
        }
        "tee" => {
            // Another sink gets the same pages, and its reader would see them overwritten.
            let other = Pipe::new().unwrap();
            let (source, go_on, writing) = in_two_halves();
            let teeing = thread::spawn(move || {
                let stdin = io::stdin();
                Tee::new(
                    source,
                    [
                        (stdin.as_fd(), Policy::FAIL_ALL),
                        (other.writer.as_fd(), Policy::FAIL_ALL),
                    ],
                )
                .run()
                .unwrap();
            });
            let mut reader = File::from(other.reader);
            let mut bytes = vec![0; BYTES as usize];
            let (first, second) = bytes.split_at_mut(BYTES as usize / 2);
            reader.read_exact(first).unwrap();
            swap();
            go_on.send(()).unwrap();
            reader.read_exact(second).unwrap();
            Checker::of_the_stream().check(&bytes);
            teeing.join().unwrap();
            writing.join().unwrap();
        }
        _ => panic!("{job}"),
    }
    assert!(is_whole(&bait), "{job}");
}

#[test]
fn another_file_behind_a_standard_descriptor_does_not_change_where_pages_go() {
    let _watch = watch("another_file_behind_a_standard_descriptor");
    for job in ["fresh", "recycle", "repeat", "repeat from memory"] {
        assert_eq!(sent_by_a_child(job), BYTES, "{job}");
    }
}

#[test]
fn another_file_behind_the_sink_of_a_transfer_or_tee_gets_no_pages() {
    let _watch = watch("another_file_behind_the_sink");
    for job in ["transfer", "tee"] {
        assert_eq!(sent_by_a_child(job), BYTES, "{job}");
    }
}

/// The reader of a pipe waits as long as its write end is open; and neither object is dropped before the end of this
/// test.
#[test]
fn what_has_ended_keeps_no_write_end_open() {
    let stored = || {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES).unwrap();
        file
    };
    let reading = |reader: OwnedFd| {
        thread::spawn(move || {
            let mut all = Vec::new();
            File::from(reader).read_to_end(&mut all).unwrap() as u64
        })
    };

    let Pipe { reader, writer } = Pipe::new().unwrap();
    let count = reading(reader);
    let source = stored();
    let mut transfer = Transfer::new(&source, &writer);
    assert_eq!(transfer.run().unwrap().bytes, BYTES);
    drop(writer);
    assert_eq!(count.join().unwrap(), BYTES);

    let pipes = [Pipe::new().unwrap(), Pipe::new().unwrap()];
    let source = stored();
    let (readers, writers): (Vec<_>, Vec<_>) = pipes
        .into_iter()
        .map(|pipe| (pipe.reader, pipe.writer))
        .unzip();
    let counts: Vec<_> = readers.into_iter().map(reading).collect();
    let mut tee = Tee::new(
        &source,
        writers.iter().map(|writer| (writer, Policy::FAIL_ALL)),
    );
    assert_eq!(tee.run().unwrap().taken, BYTES);
    drop(writers);
    for count in counts {
        assert_eq!(count.join().unwrap(), BYTES);
    }
}

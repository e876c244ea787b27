//! Tests that each of our endpoints works with the article's program at the other end.
//!
//! The article's programs are replaced by our own code, which does what is known about them. The
//! writer gives two buffers to the pipe in turn until the reader has gone, and never ends by
//! itself. The readers read exactly the number of bytes that they were given, by read(2) or by
//! splice(2) to /dev/null, and then close the pipe.

use std::fs::File;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use crate::common::*;
use fullbore::Pages;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags};

/// How a replacement program waits, as the article's options name it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Waits {
    InTheCall,
    InPoll,
    Never,
}

const ALL_WAITS: [Waits; 3] = [Waits::InTheCall, Waits::InPoll, Waits::Never];

impl Waits {
    fn flags(self) -> SpliceFlags {
        match self {
            Waits::InTheCall => SpliceFlags::empty(),
            Waits::InPoll | Waits::Never => SpliceFlags::NONBLOCK,
        }
    }

    fn wait(self, fd: BorrowedFd<'_>, what: PollFlags) {
        if self == Waits::InPoll {
            poll(&mut [PollFd::from_borrowed_fd(fd, what)], None).unwrap();
        }
    }
}

/// Returns the word at `position` of the stream that --verify expects. The tests have their own
/// function, so that a change of the pattern on both sides at once is noticed.
fn word(position: u64) -> [u8; 8] {
    (position / 8)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .to_le_bytes()
}

fn fill(buffer: &mut [u8], position: u64) {
    for (bytes, at) in buffer.chunks_exact_mut(8).zip((position..).step_by(8)) {
        bytes.copy_from_slice(&word(at));
    }
}

fn is_right(bytes: &[u8], position: u64) -> bool {
    bytes
        .iter()
        .zip(position..)
        .all(|(byte, at)| *byte == word(at)[(at % 8) as usize])
}

/// Runs the article's writer, which ends when the reader has gone, and returns how many bytes it
/// gave.
fn writer(sink: &PipeWriter, buffer: usize, waits: Waits, fresh_words: bool) -> u64 {
    let half = buffer / 2;
    rustix::pipe::fcntl_setpipe_size(sink, half).unwrap();
    let mut buffers = [Pages::new(half).unwrap(), Pages::new(half).unwrap()];
    buffers.iter_mut().for_each(|buffer| buffer.fill(b'X'));
    let mut given = 0u64;
    loop {
        for buffer in &mut buffers {
            if fresh_words {
                fill(buffer, given);
            }
            let mut rest = &buffer[..];
            while !rest.is_empty() {
                // SAFETY: `sink` is the write end of a pipe, and the pages are a mapping of our
                // own, which is written to again only when as much as the pipe holds has gone in
                // behind them; our readers copy or drop what they take.
                let answer = unsafe {
                    rustix::pipe::vmsplice(sink, &[IoSliceRaw::from_slice(rest)], waits.flags())
                };
                match answer {
                    Ok(n) => {
                        rest = &rest[n..];
                        given += n as u64;
                    }
                    Err(Errno::AGAIN) => waits.wait(sink.as_fd(), PollFlags::OUT),
                    Err(Errno::PIPE) => return given,
                    Err(errno) => panic!("vmsplice: {errno}"),
                }
            }
        }
    }
}

/// Runs the article's reader with read(2), which reads exactly `bytes` and then closes. Returns
/// whether the bytes match the pattern.
fn reader(source: PipeReader, bytes: u64, waits: Waits) -> bool {
    let mut buffer = vec![0; 256 << 10];
    let (mut got, mut right) = (0u64, true);
    while got < bytes {
        if waits != Waits::InTheCall {
            // This works as a nonblocking read(2), without O_NONBLOCK on the shared description.
            waits.wait(source.as_fd(), PollFlags::IN);
        }
        let most = buffer.len().min((bytes - got) as usize);
        let n = rustix::io::read(&source, &mut buffer[..most]).unwrap();
        assert!(n > 0, "the writer stopped after {got} bytes");
        right &= is_right(&buffer[..n], got);
        got += n as u64;
    }
    right
}

/// Runs the article's reader with splice(2).
fn splicing_reader(source: PipeReader, bytes: u64, waits: Waits) {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let mut got = 0u64;
    while got < bytes {
        let most = (256 << 10).min(bytes - got) as usize;
        let flags = waits.flags() | SpliceFlags::MOVE;
        match rustix::pipe::splice(&source, None, &null, None, most, flags) {
            Ok(0) => panic!("the writer stopped after {got} bytes"),
            Ok(n) => got += n as u64,
            Err(Errno::AGAIN) => waits.wait(source.as_fd(), PollFlags::IN),
            Err(errno) => panic!("splice: {errno}"),
        }
    }
}

#[test]
fn our_reader_takes_its_bytes_from_the_articles_writer_and_leaves() {
    for waits in ALL_WAITS {
        for options in [
            "",
            "--buf_size 128K --poll",
            "--busy_loop",
            "--read_with_splice",
            "--read_with_splice --busy_loop --gift",
            "--read_with_splice --wait adaptive",
        ] {
            let (source, sink) = pipe();
            let bytes = (20 << 20) + 1;
            let words = format!("read --json --bytes_to_pipe {bytes} {options}");
            let reading = start(fullbore(&words).stdin(source));
            let given = writer(&sink, 256 << 10, waits, false);
            let output = finish(reading);
            assert_quiet_success(&output);
            assert_eq!(endpoint(stdout(&output)).bytes, bytes, "{options}");
            assert!(given >= bytes);
        }
    }
}

#[test]
fn our_reader_gets_every_byte_of_the_articles_double_buffering() {
    for waits in ALL_WAITS {
        for options in ["", "--wait spin", "--read-with-splice", "--chunk 4097"] {
            let (source, sink) = pipe();
            let bytes = 4 << 20;
            let words = format!("read --json --verify --bytes_to_pipe {bytes} {options}");
            let reading = start(fullbore(&words).stdin(source));
            writer(&sink, 128 << 10, waits, true);
            let output = finish(reading);
            assert_quiet_success(&output);
            let report = endpoint(stdout(&output));
            assert_eq!(report.verified, Some(true), "{options}");
            assert_eq!(report.bytes, bytes, "{options}");
        }
    }
}

#[test]
fn our_reader_ends_when_the_articles_writer_is_stopped() {
    // The article's own reader would never end.
    for options in ["", "--poll", "--busy_loop", "--read_with_splice"] {
        let (source, sink) = pipe();
        let reading = start(fullbore(&format!("read --json {options}")).stdin(source));
        rustix::io::write(&sink, &[0; 50_000]).unwrap();
        drop(sink);
        let output = finish(reading);
        assert_quiet_success(&output);
        assert_eq!(endpoint(stdout(&output)).bytes, 50_000, "{options}");
    }
}

const OUR_WRITERS: [&str; 7] = [
    "",
    "--poll",
    "--busy_loop",
    "--write_with_vmsplice",
    "--write_with_vmsplice --same_buffer --busy_loop",
    "--write_with_vmsplice --gift --poll",
    "--memory 1M --chunk 128K --pipe-size 512K",
];

#[test]
fn our_writer_ends_when_the_articles_reader_has_had_enough() {
    for options in OUR_WRITERS {
        for waits in ALL_WAITS {
            let (source, sink) = pipe();
            // Without a limit, the writer would send 10 GiB.
            let writing = start(fullbore(&format!("write --verify {options}")).stdout(sink));
            assert!(reader(source, 2 << 20, waits), "{options}: wrong bytes");
            assert_quiet_success(&finish(writing));
        }
    }
}

#[test]
fn our_writer_feeds_the_articles_splicing_reader() {
    for options in OUR_WRITERS {
        for waits in ALL_WAITS {
            let (source, sink) = pipe();
            let writing = start(fullbore(&format!("write {options}")).stdout(sink));
            splicing_reader(source, (20 << 20) + 1, waits);
            assert_quiet_success(&finish(writing));
        }
    }
}

#[test]
fn our_writer_gives_the_articles_reader_as_much_as_it_waits_for() {
    for options in OUR_WRITERS {
        let (source, sink) = pipe();
        let words = format!("write --verify --bytes_to_pipe 3000001 {options}");
        let writing = start(fullbore(&words).stdout(sink));
        let right = thread::spawn(move || reader(source, 3_000_001, Waits::InTheCall));
        assert_quiet_success(&finish(writing));
        assert!(right.join().unwrap(), "{options}: wrong bytes");
    }
}

//! `Consumer`: every kind of source, every wait, signals, discarding, and idleness.

use std::fs::{self, File};
use std::io::{BufRead, ErrorKind, Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::common::*;
use fullbore::{Consumer, ConsumerOptions, Error, Pipe, Wait, Way};
use proptest::prelude::*;
use proptest::sample::select;
use rustix::fs::{Advice, CWD, FileType, Mode};
use rustix::time::{ClockId, clock_gettime};

/// Writes bytes of the stream in pieces of random lengths, and closes the pipe.
fn write_to(sink: OwnedFd, bytes: u64, seed: u64) {
    thread::spawn(move || {
        let mut random = Random::new(seed);
        let mut sink = File::from(sink);
        let mut at = 0;
        let mut buf = vec![0; 100_000];
        while at < bytes {
            let n = (random.up_to(buf.len()) as u64).min(bytes - at) as usize;
            fill(&mut buf[..n], at);
            if sink.write_all(&buf[..n]).is_err() {
                return;
            }
            at += n as u64;
            if random.up_to(16) == 1 {
                thread::sleep(Duration::from_micros(200));
            }
        }
    });
}

/// Returns sources with this many bytes of the stream, by name.
fn sources(bytes: u64) -> Vec<(&'static str, OwnedFd)> {
    let mut all: Vec<(&'static str, OwnedFd)> = Vec::new();
    let pipe = Pipe::new().unwrap();
    write_to(pipe.writer, bytes, 1);
    all.push(("pipe", pipe.reader));

    let pipe = Pipe::new().unwrap();
    set_nonblocking(&pipe.reader);
    write_to(pipe.writer, bytes, 2);
    all.push(("pipe with O_NONBLOCK by another program", pipe.reader));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let writer = {
        let path = path.clone();
        thread::spawn(move || File::options().write(true).open(path).unwrap())
    };
    let reader = File::open(&path).unwrap();
    write_to(writer.join().unwrap().into(), bytes, 3);
    all.push(("FIFO", reader.into()));

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&first(bytes as usize)).unwrap();
    file.rewind().unwrap();
    all.push(("file", file.into()));

    let (reader, writer) = UnixStream::pair().unwrap();
    write_to(writer.into(), bytes, 4);
    all.push(("Unix socket", reader.into()));

    let (reader, writer) = UnixStream::pair().unwrap();
    reader.set_nonblocking(true).unwrap();
    write_to(writer.into(), bytes, 5);
    all.push(("Unix socket with O_NONBLOCK", reader.into()));

    match TcpListener::bind("127.0.0.1:0") {
        Ok(listener) => {
            let writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            write_to(writer.into(), bytes, 6);
            all.push(("TCP socket", listener.accept().unwrap().0.into()));
        }
        Err(error) => fullbore_tests::skipped(&format!("no loopback: {error}")),
    }
    all
}

#[test]
fn every_kind_of_source_gives_the_same_bytes() {
    let _watch = watch("every_kind_of_source_gives_the_same_bytes");
    for wait in ALL_WAITS {
        for (name, source) in sources(1_500_000) {
            let read = Reader::Consumer(wait).drain(source, Checker::of_the_stream());
            assert_eq!(read, 1_500_000, "{name}, {wait:?}");
        }
    }
}

#[test]
fn discarding_and_reading_alternate_on_every_kind_of_source() {
    let _watch = watch("discarding_and_reading_alternate_on_every_kind_of_source");
    for wait in ALL_WAITS {
        for (name, source) in sources(1_500_000) {
            let options = ConsumerOptions::new().wait(wait).buffer(50_000);
            let mut consumer = options.open(source).unwrap();
            let mut checker = Checker::of_the_stream();
            let mut buf = vec![0; 1000];
            for skip in [0, 1, 10, 49_990, 60_000, 300_000] {
                consumer.read_exact(&mut buf).unwrap();
                checker.check(&buf);
                assert_eq!(consumer.discard(skip).unwrap(), skip, "{name}");
                checker.at += skip;
            }
            let left = 1_500_000 - checker.at;
            assert_eq!(consumer.discard(u64::MAX).unwrap(), left, "{name}");
            assert_eq!(consumer.report().bytes, 1_500_000, "{name}");
            assert_eq!(consumer.discard(1).unwrap(), 0, "{name}");
            assert!(consumer.fill_buf().unwrap().is_empty(), "{name}");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Read(usize),
    Consume(usize),
    Discard(u64),
    Line,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..5000_usize).prop_map(Step::Read),
        (0..300_000_usize).prop_map(Step::Read),
        (0..100_000_usize).prop_map(Step::Consume),
        prop_oneof![0..100_u64, 0..500_000_u64].prop_map(Step::Discard),
        Just(Step::Line),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_mix_of_reading_and_discarding_keeps_its_place(
        steps in prop::collection::vec(step(), 1..40),
        wait in select(&ALL_WAITS[..]),
        buffer in select(vec![1, 7, 4096, 4097, 65_536, 1_000_000]),
        bytes in 0..3_000_000_u64,
        seed in any::<u64>(),
    ) {
        let _watch = watch("any_mix_of_reading_and_discarding_keeps_its_place");
        // A buffer of one byte needs a call for each.
        let bytes = bytes.min(buffer as u64 * 5000);
        let pipe = Pipe::new().unwrap();
        write_to(pipe.writer, bytes, seed);
        let options = ConsumerOptions::new().wait(wait).buffer(buffer);
        let mut consumer = options.open(pipe.reader).unwrap();
        let mut checker = Checker::of_the_stream();
        for step in &steps {
            match *step {
                Step::Read(n) => {
                    let mut buf = vec![0; n];
                    let n = consumer.read(&mut buf).unwrap();
                    checker.check(&buf[..n]);
                }
                Step::Consume(n) => {
                    let bytes = consumer.fill_buf().unwrap();
                    let n = n.min(bytes.len());
                    checker.check(&bytes[..n]);
                    consumer.consume(n);
                }
                Step::Discard(n) => {
                    let dropped = consumer.discard(n).unwrap();
                    checker.at += dropped;
                    prop_assert!(dropped == n || checker.at == bytes);
                }
                Step::Line => {
                    let mut line = Vec::new();
                    consumer.read_until(b'\n', &mut line).unwrap();
                    checker.check(&line);
                }
            }
        }
        let mut rest = Vec::new();
        let read = consumer.read_to_end(&mut rest).unwrap();
        prop_assert_eq!(read, rest.len());
        checker.check(&rest);
        prop_assert_eq!(checker.at, bytes);
        prop_assert_eq!(consumer.report().bytes, bytes);
    }
}

#[test]
fn files_that_say_they_are_empty_are_read() {
    for path in ["/proc/self/status", "/proc/self/maps", "/proc/version"] {
        let mut text = String::new();
        let mut consumer = Consumer::new(File::open(path).unwrap()).unwrap();
        consumer.read_to_string(&mut text).unwrap();
        assert!(!text.is_empty(), "{path}");
    }
    let mut consumer = Consumer::new(File::open("/proc/self/status").unwrap()).unwrap();
    let some = consumer.discard(10).unwrap();
    assert_eq!(some, 10);
    assert!(consumer.lines().count() > 10);
}

#[test]
fn devices_without_end_and_without_content() {
    for wait in ALL_WAITS {
        let options = ConsumerOptions::new().wait(wait);
        let mut zero = options
            .clone()
            .open(File::open("/dev/zero").unwrap())
            .unwrap();
        assert_eq!(zero.discard(5_000_000).unwrap(), 5_000_000);
        let mut some = vec![1; 3 * MIB];
        zero.read_exact(&mut some).unwrap();
        assert!(some.iter().all(|&byte| byte == 0));

        let mut null = options.open(File::open("/dev/null").unwrap()).unwrap();
        assert!(null.fill_buf().unwrap().is_empty());
        assert_eq!(null.discard(1).unwrap(), 0);
    }
}

#[test]
fn a_terminal_gives_the_same_bytes() {
    let _watch = watch("a_terminal_gives_the_same_bytes");
    for wait in ALL_WAITS {
        let Some((master, slave)) = raw_pty() else {
            fullbore_tests::skipped("no pseudo-terminal here");
            return;
        };
        let len = 100_000;
        // Kept open: a terminal whose other side is closed is an error, and not an end.
        let other = master.try_clone().unwrap();
        write_to(other, len as u64, 9);
        let mut consumer = ConsumerOptions::new().wait(wait).open(slave).unwrap();
        let mut bytes = vec![0; len];
        consumer.read_exact(&mut bytes).unwrap();
        Checker::of_the_stream().check(&bytes);
        drop(master);
    }
}

#[test]
fn repeated_signals_have_no_effect() {
    let _watch = watch("repeated_signals_have_no_effect");
    for wait in ALL_WAITS {
        for (name, source) in sources(1_000_000) {
            let reading = thread::spawn(move || {
                let _storm = Storm::over_this_thread();
                let mut consumer = ConsumerOptions::new().wait(wait).open(source).unwrap();
                let dropped = consumer.discard(500_000).unwrap();
                let mut checker = Checker::of_the_stream();
                checker.at = dropped;
                let mut rest = Vec::new();
                consumer.read_to_end(&mut rest).unwrap();
                checker.check(&rest);
                checker.at
            });
            assert_eq!(reading.join().unwrap(), 1_000_000, "{name}, {wait:?}");
        }
    }
}

#[test]
fn nonblocking_never_waits_and_loses_nothing() {
    let _watch = watch("nonblocking_never_waits_and_loses_nothing");
    for (name, source) in sources(1_000_000) {
        let mut consumer = ConsumerOptions::new()
            .nonblocking(true)
            .open(source)
            .unwrap();
        let mut checker = Checker::of_the_stream();
        loop {
            match consumer.fill_buf() {
                Ok([]) => break,
                Ok(bytes) => {
                    checker.check(bytes);
                    let n = bytes.len();
                    consumer.consume(n);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{name}");
                    thread::sleep(Duration::from_micros(50));
                }
            }
            match consumer.discard(1000) {
                Ok(dropped) => checker.at += dropped,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{name}");
                    // Bytes that were discarded before the error are lost, and counted.
                    checker.at = consumer.report().bytes;
                }
            }
        }
        assert_eq!(checker.at, 1_000_000, "{name}");
    }
}

#[test]
fn nonblocking_reads_a_file_that_is_not_in_memory() {
    let _watch = watch("nonblocking_reads_a_file_that_is_not_in_memory");
    // Beside the test programs, because /tmp may be in memory.
    let dir = std::env::current_exe().unwrap();
    let mut file = tempfile::tempfile_in(dir.parent().unwrap()).unwrap();
    file.write_all(&first(MIB)).unwrap();
    file.sync_all().unwrap();
    file.rewind().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let mut consumer = ConsumerOptions::new().nonblocking(true).open(file).unwrap();
    // poll(2) always reports a file as ready, so waiting for it in a loop would never end.
    let mut bytes = vec![0; MIB];
    consumer.read_exact(&mut bytes).unwrap();
    Checker::of_the_stream().check(&bytes);
}

#[test]
fn the_capacity_of_the_pipe_and_its_flags_stay_as_they_were() {
    let pipe = Pipe::new().unwrap();
    let state = || {
        let end = fullbore_linux::pipe::of(&pipe.reader).unwrap().unwrap();
        let flags = rustix::fs::fcntl_getfl(&pipe.reader).unwrap();
        (end.capacity().unwrap(), flags)
    };
    let before = state();
    rustix::io::write(&pipe.writer, &[1; 20_000]).unwrap();
    for wait in ALL_WAITS {
        let options = ConsumerOptions::new().wait(wait);
        let mut consumer = options.buffer(1000).open(&pipe.reader).unwrap();
        consumer.read_exact(&mut [0; 10]).unwrap();
        consumer.discard(2000).unwrap();
        assert_eq!(state(), before);
    }
}

#[test]
fn an_unreadable_source_and_no_buffer_are_errors() {
    let directory = File::open("/").unwrap();
    let error = Consumer::new(directory).unwrap().fill_buf().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsADirectory, "{error}");
    let null = File::open("/dev/null").unwrap();
    assert!(matches!(
        ConsumerOptions::new().buffer(0).open(null),
        Err(Error::Invalid(_))
    ));
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Returns the CPU time that a thread uses to read everything that `write` writes.
fn cost_of_reading(wait: Wait, write: impl FnOnce(File)) -> Duration {
    let pipe = Pipe::new().unwrap();
    let reading = thread::spawn(move || {
        let mut consumer = ConsumerOptions::new().wait(wait).open(pipe.reader).unwrap();
        let began = cpu_time();
        while !consumer.fill_buf().unwrap().is_empty() {
            consumer.consume(1);
        }
        cpu_time() - began
    });
    write(File::from(pipe.writer));
    reading.join().unwrap()
}

#[test]
fn waiting_for_nothing_uses_no_cpu() {
    for wait in [Wait::Block, Wait::Poll, Wait::Adaptive] {
        // Polling in a loop would have used most of the half second, or a third of it beside two other threads.
        assert_cheap(&format!("{wait:?}"), Duration::from_millis(100), || {
            cost_of_reading(wait, |_writer| thread::sleep(Duration::from_millis(500)))
        });
    }
}

#[test]
fn waiting_for_a_slow_writer_uses_next_to_no_cpu() {
    assert_cheap("of a second", Duration::from_millis(200), || {
        cost_of_reading(Wait::Adaptive, |mut writer| {
            for _ in 0..100 {
                thread::sleep(Duration::from_millis(10));
                writer.write_all(b".").unwrap();
            }
        })
    });
}

#[test]
fn waiting_for_room_uses_next_to_no_cpu() {
    assert_cheap("of half a second", Duration::from_millis(100), || {
        let pipe = Pipe::new().unwrap();
        let writing = thread::spawn(move || {
            let options = fullbore::ProducerOptions::new().wait(Wait::Adaptive);
            let mut out = options.way(Way::Fresh).open(pipe.writer).unwrap();
            send(&mut out, 0, 1 << 20, 256 * 1024).unwrap();
            let began = cpu_time();
            send(&mut out, 1 << 20, (1 << 20) + 256 * 1024, 256 * 1024).unwrap();
            cpu_time() - began
        });
        thread::sleep(Duration::from_millis(500));
        Reader::Quick.drain(pipe.reader, Checker::of_the_stream());
        writing.join().unwrap()
    });
}

#[test]
fn text_is_read_as_text() {
    let text = "käse\nbröd\n\nend without newline";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let consumer = Consumer::new(File::open(file.path()).unwrap()).unwrap();
    let lines: Vec<String> = consumer.lines().map(Result::unwrap).collect();
    assert_eq!(lines, ["käse", "bröd", "", "end without newline"]);
}

#[test]
fn reading_no_bytes_waits_for_none() {
    let _watch = watch("reading_no_bytes_waits_for_none");
    let pipe = Pipe::new().unwrap();
    let mut source = Consumer::new(&pipe.reader).unwrap();
    assert_eq!(source.read(&mut []).unwrap(), 0);
}

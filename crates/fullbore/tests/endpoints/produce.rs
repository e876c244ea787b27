//! `Producer`: the same bytes come out for every way, chunk, wait, usage, sink and reader.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::*;
use fullbore::{Error, Pipe, Producer, ProducerOptions, TransferSide, Wait, Way};
use proptest::prelude::*;
use proptest::sample::select;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// One step of a program that prints.
#[derive(Debug, Clone)]
enum Step {
    /// `reserve` and `commit`, in thousandths of a chunk and of the reserved bytes.
    Lend(usize, usize),
    /// `io::Write::write_all` of this many bytes.
    Write(usize),
    /// `io::Write::flush`.
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lend = (0..=1000_usize, prop_oneof![Just(1000), 0..=1000_usize]);
    let step = prop_oneof![
        4 => lend.prop_map(|(of, used)| Step::Lend(of, used)),
        3 => (0..200_usize).prop_map(Step::Write),
        2 => (0..300_000_usize).prop_map(Step::Write),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..80)
}

/// Performs the steps, but sends at most a certain number of bytes; returns how many.
fn take<Fd: AsFd>(out: &mut Producer<Fd>, steps: &[Step]) -> u64 {
    let chunk = out.chunk();
    // Chunks of a few bytes need a system call each.
    let most = (chunk as u64 * 3000).min(6 << 20);
    let mut at = 0;
    for step in steps {
        if at >= most {
            break;
        }
        match *step {
            Step::Lend(of, used) => {
                let n = 1 + of * (chunk - 1) / 1000;
                let bytes = out.reserve(n).unwrap();
                assert_eq!(bytes.len(), n);
                fill(bytes, at);
                let n = n * used / 1000;
                out.commit(n).unwrap();
                at += n as u64;
            }
            Step::Write(n) => {
                let mut bytes = vec![0; n.min((most - at) as usize)];
                fill(&mut bytes, at);
                out.write_all(&bytes).unwrap();
                at += bytes.len() as u64;
            }
            Step::Flush => {
                out.flush().unwrap();
                assert_eq!(out.report().bytes, at, "a flush sends what is there");
            }
        }
    }
    at
}

fn way_and_reader() -> impl Strategy<Value = (Way, Reader)> {
    let copying = select(&Reader::COPYING[..]);
    let any = prop_oneof![select(&Reader::COPYING[..]), select(&Reader::HOLDING[..])];
    prop_oneof![
        (Just(Way::Copy), any.clone()),
        (Just(Way::Fresh), any.clone()),
        (Just(Way::Socket), any),
        (Just(Way::Recycle), copying),
    ]
}

fn options() -> impl Strategy<Value = ProducerOptions> {
    let page = fullbore_linux::page_size();
    let chunks = vec![
        1,
        7,
        page - 1,
        page,
        page + 1,
        32 * 1024,
        64 * 1024,
        100_003,
        512 * 1024,
        3 * MIB,
    ];
    let pipes = vec![None, Some(0), Some(page), Some(256 * 1024)];
    (
        select(chunks),
        select(&ALL_WAITS[..]),
        select(pipes),
        any::<bool>(),
        prop::option::of(0..100_000_usize),
    )
        .prop_map(move |(chunk, wait, pipe, huge, ring)| {
            let mut options = ProducerOptions::new()
                .chunk(chunk)
                .wait(wait)
                .huge_pages(huge);
            if let Some(size) = pipe {
                options = options.pipe_size(size);
            }
            if let Some(more) = ring {
                options = options.memory(2 * chunk.next_multiple_of(page) + more);
            }
            options
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_mix_of_way_options_usage_and_reader_gives_the_same_bytes(
        options in options(),
        (way, reader) in way_and_reader(),
        steps in steps(),
        finish in any::<bool>(),
        nonblocking in any::<bool>(),
    ) {
        let _watch = watch("any_mix_of_way_options_usage_and_reader_gives_the_same_bytes");
        let pipe = Pipe::new().unwrap();
        if nonblocking {
            // As another program that shares the description might.
            set_nonblocking(&pipe.writer);
        }
        let reading = reader.spawn(pipe.reader, Checker::of_the_stream());
        let mut out = open(options, way, pipe.writer);
        // Less than 32 KiB at a time do not go through a socket.
        let way = match way {
            Way::Socket if out.chunk() < 32 * 1024 || !has_socket_way() => Way::Copy,
            way => way,
        };
        let sent = take(&mut out, &steps);
        if finish {
            let produced = out.finish().unwrap();
            prop_assert_eq!(produced.bytes, sent);
            prop_assert_eq!(produced.way, way);
        } else {
            drop(out);
        }
        prop_assert_eq!(reading.join().unwrap(), sent);
    }
}

/// Returns both ends of a FIFO, open.
fn fifo() -> (OwnedFd, OwnedFd) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let opened = {
        let path = path.clone();
        thread::spawn(move || File::open(path).unwrap())
    };
    let writer = File::options().write(true).open(&path).unwrap();
    (opened.join().unwrap().into(), writer.into())
}

/// Returns pairs of a source and a sink, by name.
fn connections() -> Vec<(&'static str, OwnedFd, OwnedFd)> {
    let mut all = Vec::new();
    let (reader, writer) = fifo();
    all.push(("FIFO", reader, writer));
    let (reader, writer) = UnixStream::pair().unwrap();
    all.push(("Unix socket", reader.into(), writer.into()));
    match TcpListener::bind("127.0.0.1:0") {
        Ok(listener) => {
            let writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            all.push((
                "TCP socket",
                listener.accept().unwrap().0.into(),
                writer.into(),
            ));
        }
        Err(error) => fullbore_tests::skipped(&format!("no loopback: {error}")),
    }
    let pipe = Pipe::new().unwrap();
    set_nonblocking(&pipe.writer);
    all.push((
        "pipe with O_NONBLOCK by another program",
        pipe.reader,
        pipe.writer,
    ));
    let (reader, writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    all.push(("Unix socket with O_NONBLOCK", reader.into(), writer.into()));
    all
}

#[test]
fn every_kind_of_sink_gets_the_same_bytes() {
    let _watch = watch("every_kind_of_sink_gets_the_same_bytes");
    let len = 3 * MIB as u64 + 1234;
    for wait in ALL_WAITS {
        for copy in [true, false] {
            for (name, reader, writer) in connections() {
                let reading = Reader::Quick.spawn(reader, Checker::of_the_stream());
                let options = ProducerOptions::new().wait(wait).chunk(100_000);
                let mut out = if copy {
                    options.way(Way::Copy).open(writer).unwrap()
                } else {
                    options.open(writer).unwrap()
                };
                send(&mut out, 0, MIB as u64, 100_000).unwrap();
                let mut rest = vec![0; len as usize - MIB];
                fill(&mut rest, MIB as u64);
                out.write_all(&rest).unwrap();
                assert_eq!(out.finish().unwrap().bytes, len, "{name}, {wait:?}");
                assert_eq!(reading.join().unwrap(), len, "{name}, {wait:?}");
            }
        }
    }
}

#[test]
fn a_terminal_gets_the_same_bytes() {
    let _watch = watch("a_terminal_gets_the_same_bytes");
    for wait in ALL_WAITS {
        let Some((master, slave)) = raw_pty() else {
            fullbore_tests::skipped("no pseudo-terminal here");
            return;
        };
        let len = 200_000;
        let reading = thread::spawn(move || {
            let mut bytes = vec![0; len];
            File::from(master).read_exact(&mut bytes).unwrap();
            Checker::of_the_stream().check(&bytes);
        });
        let mut out = ProducerOptions::new().wait(wait).open(&slave).unwrap();
        assert_eq!(out.report().way, Way::Copy);
        send(&mut out, 0, len as u64, 30_000).unwrap();
        assert_eq!(out.finish().unwrap().bytes, len as u64);
        reading.join().unwrap();
    }
}

#[test]
fn a_file_gets_the_same_bytes_and_o_append_appends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let len = 2 * MIB as u64 + 77;
    for wait in ALL_WAITS {
        std::fs::write(&path, b"before").unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        let mut out = ProducerOptions::new().wait(wait).open(&file).unwrap();
        assert_eq!(out.report().way, Way::Copy);
        send(&mut out, 0, len, 123_456).unwrap();
        out.finish().unwrap();
        let got = std::fs::read(&path).unwrap();
        assert_eq!(&got[..6], b"before");
        let mut checker = Checker::of_the_stream();
        checker.check(&got[6..]);
        assert_eq!(checker.at, len);

        // Through the position of a plain file that is shared with others.
        let mut file = File::create(&path).unwrap();
        file.write_all(b"12").unwrap();
        let mut out = ProducerOptions::new().wait(wait).open(&file).unwrap();
        out.write_all(b"34").unwrap();
        out.finish().unwrap();
        file.write_all(b"56").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"123456");
    }
}

#[test]
fn dev_null_takes_everything_and_dev_full_nothing() {
    for wait in ALL_WAITS {
        let null = File::options().write(true).open("/dev/null").unwrap();
        let mut out = ProducerOptions::new().wait(wait).open(null).unwrap();
        send(&mut out, 0, 1 << 20, 100_000).unwrap();
        assert_eq!(out.finish().unwrap().bytes, 1 << 20);

        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut out = ProducerOptions::new().wait(wait).open(&full).unwrap();
        match send(&mut out, 0, 1 << 20, 100_000).unwrap_err() {
            Error::Moving {
                side: TransferSide::Sink,
                operation: "write",
                errno,
                moved: 0,
            } => assert_eq!(errno.kind(), ErrorKind::StorageFull),
            error => panic!("{error}"),
        }
        // Through io::Write, the error is returned by finish at the latest.
        let mut out = ProducerOptions::new().wait(wait).open(&full).unwrap();
        out.write_all(b"little").unwrap();
        assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::StorageFull);
        let mut out = ProducerOptions::new().wait(wait).open(&full).unwrap();
        out.write_all(b"little").unwrap();
        let error = out.finish().unwrap_err();
        assert_eq!(error.error.kind(), ErrorKind::StorageFull, "{error}");
    }
}

#[test]
fn a_closed_reader_ends_the_producer_without_a_signal() {
    for way in [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle] {
        for wait in ALL_WAITS {
            let pipe = Pipe::new().unwrap();
            let mut out = open(ProducerOptions::new().wait(wait), way, pipe.writer);
            send(&mut out, 0, 300_000, 100_000).unwrap();
            drop(pipe.reader);
            match send(&mut out, 300_000, 900_000, 100_000).unwrap_err() {
                Error::Moving {
                    side: TransferSide::Sink,
                    errno,
                    moved: 300_000,
                    ..
                } => assert_eq!(errno.kind(), ErrorKind::BrokenPipe, "{way} {wait:?}"),
                error => panic!("{way} {wait:?}: {error}"),
            }
        }
    }
}

#[test]
fn a_long_write_is_not_gathered_although_a_socket_takes_less_at_once() {
    let _watch = watch("a_long_write_is_not_gathered_although_a_socket_takes_less_at_once");
    let pipe = Pipe::new().unwrap();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        File::from(pipe.reader).read_to_end(&mut bytes).unwrap();
        Checker::of_the_stream().check(&bytes);
        bytes.len()
    });
    let mut out = open(ProducerOptions::new(), Way::Socket, pipe.writer);
    let mut bytes = vec![0; 4 * out.chunk()];
    fill(&mut bytes, 0);
    out.write_all(&bytes).unwrap();
    // Less than one run of a socket, which is not worth a call.
    assert!(out.unsent() < 32 * 1024, "{}", out.unsent());
    out.finish().unwrap();
    assert_eq!(reading.join().unwrap(), bytes.len());
}

#[test]
fn a_reader_that_dies_in_the_middle_wakes_a_producer_that_waits() {
    let _watch = watch("a_reader_that_dies_in_the_middle_wakes_a_producer_that_waits");
    for way in [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle] {
        for wait in ALL_WAITS {
            let pipe = Pipe::new().unwrap();
            let reading = thread::spawn(move || {
                let mut file = File::from(pipe.reader);
                let mut bytes = vec![0; 700_000];
                file.read_exact(&mut bytes).unwrap();
                Checker::of_the_stream().check(&bytes);
                thread::sleep(Duration::from_millis(20));
            });
            let mut out = open(ProducerOptions::new().wait(wait), way, pipe.writer);
            let error = send(&mut out, 0, 64 << 20, 200_000).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{way} {wait:?}");
            reading.join().unwrap();
        }
    }
}

#[test]
fn fresh_stays_right_behind_readers_that_hold_pages_over_many_laps_of_its_memory() {
    let _watch = watch("fresh_stays_right_behind_readers_that_hold_pages");
    for reader in Reader::HOLDING {
        // Chunks that divide a huge page, that do not, and that need more than one.
        for chunk in [256 * 1024, 300_000, 33_000, 2 * MIB + 5000] {
            for huge in [true, false] {
                let pipe = Pipe::new().unwrap();
                let reading = reader.spawn(pipe.reader, Checker::of_the_stream());
                let options = ProducerOptions::new().chunk(chunk).huge_pages(huge);
                let mut out = open(options, Way::Fresh, pipe.writer);
                send(&mut out, 0, 24 << 20, chunk).unwrap();
                assert_eq!(out.finish().unwrap().way, Way::Fresh);
                assert_eq!(reading.join().unwrap(), 24 << 20, "{reader:?} {chunk}");
            }
        }
    }
}

#[test]
fn recycling_stays_right_while_the_reader_resizes_the_pipe_over_many_mebibytes() {
    let _watch = watch("recycling_stays_right_while_the_reader_resizes_the_pipe");
    let page = fullbore_linux::page_size();
    for (chunk, ring) in [
        (64 * 1024, Some(128 * 1024)),
        (64 * 1024, None),
        (page, Some(2 * page)),
    ] {
        let pipe = Pipe::new().unwrap();
        let reading = Reader::Resizing.spawn(pipe.reader, Checker::of_the_stream());
        let mut options = ProducerOptions::new().chunk(chunk);
        if let Some(ring) = ring {
            options = options.memory(ring);
        }
        let len = if chunk == page { 8 << 20 } else { 96 << 20 };
        let mut out = open(options, Way::Recycle, pipe.writer);
        send(&mut out, 0, len, chunk).unwrap();
        assert_eq!(out.finish().unwrap().way, Way::Recycle);
        assert_eq!(reading.join().unwrap(), len);
    }
}

#[test]
fn finishing_recycle_returns_when_the_last_byte_was_taken() {
    let _watch = watch("finishing_recycle_returns_when_the_last_byte_was_taken");
    for wait in ALL_WAITS {
        let pipe = Pipe::new().unwrap();
        let sink = pipe.writer.try_clone().unwrap();
        let mut out = open(ProducerOptions::new().wait(wait), Way::Recycle, pipe.writer);
        send(&mut out, 0, 400_000, 100_000).unwrap();
        let began = Instant::now();
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            let mut bytes = vec![0; 400_000];
            let mut file = File::from(pipe.reader);
            file.read_exact(&mut bytes).unwrap();
            Checker::of_the_stream().check(&bytes);
            file
        });
        assert_eq!(out.finish().unwrap().bytes, 400_000);
        assert_eq!(queued(&sink), 0);
        assert!(began.elapsed() >= Duration::from_millis(50));
        reading.join().unwrap();
    }
}

#[test]
fn a_reader_that_takes_all_and_goes_lets_recycle_finish() {
    let _watch = watch("a_reader_that_takes_all_and_goes_lets_recycle_finish");
    for round in 0..20 {
        let pipe = Pipe::new().unwrap();
        let mut out = open(ProducerOptions::new(), Way::Recycle, pipe.writer);
        send(&mut out, 0, 400_000, 100_000).unwrap();
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            let mut bytes = vec![0; 400_000];
            File::from(pipe.reader).read_exact(&mut bytes).unwrap();
        });
        let produced = out.finish();
        reading.join().unwrap();
        assert_eq!(produced.unwrap().bytes, 400_000, "round {round}");
    }
}

#[test]
fn finishing_recycle_without_a_reader_is_a_broken_pipe() {
    for wait in ALL_WAITS {
        let pipe = Pipe::new().unwrap();
        let mut out = open(ProducerOptions::new().wait(wait), Way::Recycle, pipe.writer);
        send(&mut out, 0, 400_000, 100_000).unwrap();
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            drop(pipe.reader);
        });
        let error = out.finish().unwrap_err();
        assert_eq!(
            error.error.kind(),
            ErrorKind::BrokenPipe,
            "{wait:?}: {error}"
        );
        reading.join().unwrap();
    }
}

#[test]
fn pages_in_a_pipe_outlive_the_producer() {
    for way in [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle] {
        let pipe = Pipe::new().unwrap();
        let mut out = open(ProducerOptions::new(), way, pipe.writer);
        send(&mut out, 0, 500_000, 100_000).unwrap();
        drop(out);
        // The next owner of the memory writes to it.
        let mut others: Vec<_> = (0..4)
            .map(|_| fullbore::Pages::new(2 * MIB).unwrap())
            .collect();
        for pages in &mut others {
            pages.fill(0xEE);
        }
        let read = Reader::Quick.drain(pipe.reader, Checker::of_the_stream());
        assert_eq!(read, 500_000, "{way}");
    }
}

#[test]
fn bytes_after_a_recovered_error_are_not_lost_silently() {
    // The reader of a FIFO closes it, and another opens it.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let reader = || rustix::fs::open(&path, flags, Mode::empty()).unwrap();
    let first_reader = reader();
    let writer = File::options().write(true).open(&path).unwrap();
    let mut out = Producer::new(writer).unwrap();
    out.write_all(b"one ").unwrap();
    drop(first_reader);
    let error = out.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    let second_reader = reader();
    out.flush().unwrap();
    out.write_all(b"two").unwrap();
    drop(out);
    let mut text = String::new();
    File::from(second_reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "one two");
}

#[test]
fn repeated_signals_have_no_effect() {
    let _watch = watch("repeated_signals_have_no_effect");
    for way in [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle] {
        for wait in ALL_WAITS {
            let pipe = Pipe::new().unwrap();
            let reading = thread::spawn(move || {
                let _storm = Storm::over_this_thread();
                Reader::Consumer(wait).drain(pipe.reader, Checker::of_the_stream())
            });
            let producing = thread::spawn(move || {
                let _storm = Storm::over_this_thread();
                let options = ProducerOptions::new().wait(wait).pipe_size(0);
                let mut out = open(options, way, pipe.writer);
                send(&mut out, 0, 8 << 20, 50_000).unwrap();
                out.finish().unwrap();
            });
            producing.join().unwrap();
            assert_eq!(reading.join().unwrap(), 8 << 20, "{way} {wait:?}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let pipe = Pipe::new().unwrap();
    let null = File::options().write(true).open("/dev/null").unwrap();
    let options = ProducerOptions::new();
    assert!(matches!(
        options.clone().way(Way::Fresh).open(&null),
        Err(Error::NotAPipe)
    ));
    assert!(matches!(
        options.clone().chunk(0).way(Way::Copy).open(&null),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        options.clone().chunk(0).way(Way::Fresh).open(&pipe.writer),
        Err(Error::Invalid(_))
    ));
    // SAFETY: nothing is sent.
    let ring = options
        .clone()
        .chunk(8192)
        .memory(8192)
        .way(Way::Recycle)
        .open(&pipe.writer);
    assert!(matches!(ring, Err(Error::Invalid(_))));
    // The wrong end, on which vmsplice(2) would write into the memory.
    let error = options
        .clone()
        .way(Way::Fresh)
        .open(&pipe.reader)
        .unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
    let mut out = options
        .chunk(1000)
        .way(Way::Fresh)
        .open(&pipe.writer)
        .unwrap();
    assert!(matches!(out.reserve(1001), Err(Error::Invalid(_))));
    out.reserve(10).unwrap();
    assert!(matches!(out.commit(11), Err(Error::Invalid(_))));
    assert!(matches!(out.commit(1001), Err(Error::Invalid(_))));
}

#[test]
fn a_chunk_larger_than_the_address_space_is_an_error_and_no_panic() {
    let pipe = Pipe::new().unwrap();
    let options = ProducerOptions::new().chunk(usize::MAX);
    let send_one = |out: fullbore::Result<Producer<&OwnedFd>>| {
        out.and_then(|mut out| {
            out.reserve(MIB)?;
            out.commit(1)
        })
    };
    assert!(send_one(options.clone().way(Way::Copy).open(&pipe.writer)).is_err());
    assert!(send_one(options.clone().way(Way::Fresh).open(&pipe.writer)).is_err());
    // There is no reader.
    assert!(send_one(options.way(Way::Recycle).open(&pipe.writer)).is_err());
}

#[test]
fn what_is_written_between_reserve_and_commit_is_not_lost() {
    let pipe = Pipe::new().unwrap();
    let mut out = Producer::new(pipe.writer).unwrap();
    out.reserve(10).unwrap().fill(b'l');
    out.write_all(&[b'w'; 100]).unwrap();
    // The loan ended when its memory was used for other bytes.
    assert!(out.commit(10).is_err());
    assert!(out.commit(0).is_ok());
    assert_eq!(out.finish().unwrap().bytes, 100);
    let mut got = Vec::new();
    File::from(pipe.reader).read_to_end(&mut got).unwrap();
    assert_eq!(got, [b'w'; 100]);
}

#[test]
fn the_pipe_grows_as_asked_and_never_shrinks() {
    let capacity = |pipe: &Pipe| {
        fullbore_linux::pipe::of(&pipe.writer)
            .unwrap()
            .unwrap()
            .capacity()
            .unwrap()
    };
    let pipe = Pipe::new().unwrap();
    let before = capacity(&pipe);
    let _out = ProducerOptions::new()
        .pipe_size(0)
        .open(&pipe.writer)
        .unwrap();
    assert_eq!(capacity(&pipe), before);
    let _out = ProducerOptions::new().open(&pipe.writer).unwrap();
    let grown = capacity(&pipe);
    assert!(grown >= before);
    let _out = ProducerOptions::new()
        .pipe_size(4096)
        .open(&pipe.writer)
        .unwrap();
    assert_eq!(capacity(&pipe), grown);
}

#[test]
fn the_pipe_is_grown_for_a_long_output_whatever_the_usage() {
    type Usage = fn(&mut Producer<OwnedFd>);
    let usages: [(&str, Usage); 3] = [
        ("lend", |out| send(out, 0, 4 << 20, 100_000).unwrap()),
        ("large writes", |out| {
            out.write_all(&first(4 * MIB)).unwrap()
        }),
        ("small writes", |out| {
            for piece in first(4 * MIB).chunks(5000) {
                out.write_all(piece).unwrap();
            }
        }),
    ];
    let (_, growth) = fullbore_linux::pipe::with_capacity(MIB).unwrap();
    for way in [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle] {
        for (name, usage) in usages {
            let pipe = Pipe::new().unwrap();
            let sink = pipe.writer.try_clone().unwrap();
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
            let mut out = open(ProducerOptions::new(), way, pipe.writer);
            usage(&mut out);
            let capacity = fullbore_linux::pipe::of(&sink)
                .unwrap()
                .unwrap()
                .capacity()
                .unwrap();
            out.finish().unwrap();
            drop(sink);
            assert_eq!(reading.join().unwrap(), 4 << 20);
            assert_eq!(capacity, growth.after, "{way}, {name}");
        }
    }
}

#[test]
fn a_short_output_needs_one_call_and_no_more_memory_than_it_fills() {
    let pipe = Pipe::new().unwrap();
    let mut out = Producer::new(pipe.writer).unwrap();
    for line in 0..100 {
        writeln!(out, "{line}").unwrap();
    }
    assert_eq!(out.report().calls, 0);
    assert_eq!(out.finish().unwrap().calls, 1);
}

#[test]
fn with_wait_block_nothing_is_sent_until_there_is_a_chunk_or_a_flush() {
    let pipe = Pipe::new().unwrap();
    let options = ProducerOptions::new().wait(Wait::Block);
    let mut out = options.open(&pipe.writer).unwrap();
    out.write_all(b"gathered").unwrap();
    assert_eq!(queued(&pipe.reader), 0);
    out.flush().unwrap();
    assert_eq!(queued(&pipe.reader), 8);
}

#[test]
fn flushing_often_does_not_end_in_tiny_copies() {
    for way in [Way::Fresh, Way::Recycle] {
        for piece in [1000, 60_000, 100_000, 520_000] {
            let pipe = Pipe::new().unwrap();
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
            let mut out = open(ProducerOptions::new().chunk(520_000), way, pipe.writer);
            let mut bytes = vec![0; piece];
            for turn in 0..500 {
                fill(&mut bytes, turn * piece as u64);
                out.write_all(&bytes).unwrap();
                out.flush().unwrap();
            }
            // A full pipe accepts a chunk in several calls, but not in hundreds.
            let calls = out.finish().unwrap().calls;
            assert!(calls < 500 * 6, "{way}, {piece}: {calls} calls");
            assert_eq!(reading.join().unwrap(), 500 * piece as u64);
        }
    }
}

//! `Repeat`: patterns of any length, exact to the byte, with slots of any kind.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use crate::common::calls::refusing;
use crate::common::*;
use fullbore::{Error, Pipe, ProducerOptions, Repeat, TransferSide, Wait, Way};
use proptest::prelude::*;
use proptest::sample::select;
use rustix::io::Errno;

/// Lengths around the sizes of pages, runs and blocks, and some that divide none of them.
const LENGTHS: [usize; 16] = [
    1,
    2,
    3,
    7,
    320,
    4095,
    4096,
    4097,
    20_000,
    32_767,
    32_768,
    32_769,
    100_003,
    1_048_576,
    3 * MIB,
    5 * MIB + 1,
];

fn repeat(pattern: &[u8], sink: OwnedFd) -> Repeat<OwnedFd> {
    ProducerOptions::new().repeat(sink, pattern).unwrap()
}

/// Sends `total` bytes, in these pieces and then the rest, and checks the output.
fn exact(options: ProducerOptions, pattern: &[u8], reader: Reader, pieces: &[u64], total: u64) {
    let pipe = Pipe::new().unwrap();
    let reading = reader.spawn(pipe.reader, Checker::of(pattern));
    let mut repeat = options.repeat(pipe.writer, pattern).unwrap();
    let mut left = total;
    for &piece in pieces {
        let piece = piece.min(left);
        repeat.send(piece).unwrap();
        left -= piece;
        assert_eq!(repeat.report().bytes, total - left);
    }
    repeat.send(left).unwrap();
    assert_eq!(repeat.report().way, Way::Repeat);
    assert_eq!(repeat.report().bytes, total);
    drop(repeat);
    assert_eq!(reading.join().unwrap(), total, "{reader:?}");
}

#[test]
fn every_length_of_pattern_is_exact_at_every_limit() {
    let _watch = watch("every_length_of_pattern_is_exact_at_every_limit");
    for len in LENGTHS {
        let pattern = first(len);
        let len = len as u64;
        let large = (10 << 20) / len * len;
        for total in [
            0,
            1,
            len - 1,
            len,
            len + 1,
            3 * len,
            32 * 1024 - 1,
            32 * 1024 + 1,
            large,
            large + 1,
        ] {
            exact(
                ProducerOptions::new(),
                &pattern,
                Reader::Quick,
                &[],
                total.min(24 << 20),
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_mix_of_pattern_pieces_wait_and_reader_gives_the_same_bytes(
        len in prop_oneof![select(&LENGTHS[..]), 1..100_000_usize],
        pieces in prop::collection::vec(
            prop_oneof![0..10_u64, 0..100_000_u64, 0..4_000_000_u64], 0..12),
        total in prop_oneof![0..100_000_u64, 0..16_000_000_u64],
        wait in select(&ALL_WAITS[..]),
        reader in prop_oneof![select(&Reader::COPYING[..]), select(&Reader::HOLDING[..])],
        pipe_size in select(vec![None, Some(0), Some(4096), Some(256 * 1024)]),
    ) {
        let _watch = watch("any_mix_of_pattern_pieces_wait_and_reader_gives_the_same_bytes");
        let mut options = ProducerOptions::new().wait(wait);
        if let Some(size) = pipe_size {
            options = options.pipe_size(size);
        }
        exact(options, &first(len), reader, &pieces, total);
    }
}

/// Runs `job` while these calls are refused, and checks the output of its pipe.
fn exact_without(calls: &[libc::c_long], errno: Errno, way: Way) {
    for len in [1, 4, 4097, 20_000, 5 * MIB] {
        for wait in [Wait::Block, Wait::Adaptive] {
            let pattern = first(len);
            let total = (6 << 20) + 123;
            let pipe = Pipe::new().unwrap();
            let (sink, pattern) = (pipe.writer, &pattern);
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of(pattern));
            let produced = refusing(calls, errno, move || {
                let options = ProducerOptions::new().wait(wait);
                let mut repeat = options.repeat(sink, pattern).unwrap();
                for piece in [1, 5000, 1 << 20] {
                    repeat.send(piece).unwrap();
                }
                repeat.send(total - 1 - 5000 - (1 << 20)).unwrap();
                repeat.report()
            });
            let read = reading.join().unwrap();
            let Some(produced) = produced else { return };
            assert_eq!(produced.bytes, total);
            assert_eq!(produced.way, way, "{len} {wait:?}");
            assert_eq!(read, total);
        }
    }
}

#[test]
fn without_sockets_repeat_uses_ordinary_slots() {
    for errno in [Errno::ACCESS, Errno::PERM, Errno::NOSYS] {
        exact_without(&[libc::SYS_socketpair], errno, Way::Repeat);
    }
}

#[test]
fn without_tee_or_splice_repeat_uses_ordinary_slots() {
    for errno in [Errno::PERM, Errno::NOSYS, Errno::INVAL] {
        exact_without(&[libc::SYS_tee], errno, Way::Repeat);
        exact_without(&[libc::SYS_splice], errno, Way::Repeat);
    }
}

#[test]
fn without_calls_by_reference_repeat_copies() {
    for errno in [Errno::PERM, Errno::NOSYS, Errno::ACCESS] {
        let calls = [libc::SYS_tee, libc::SYS_splice, libc::SYS_vmsplice];
        exact_without(&calls, errno, Way::Copy);
    }
}

#[test]
fn without_a_private_pipe_repeat_uses_ordinary_slots() {
    exact_without(&[libc::SYS_pipe2], Errno::MFILE, Way::Repeat);
}

#[test]
fn into_anything_but_a_pipe_repeat_copies() {
    for len in [1, 4, 4097, 5 * MIB] {
        let pattern = first(len);
        let total = (6 << 20) + 1;
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = file.as_file().try_clone().unwrap();
        let mut out = repeat(&pattern, sink.into());
        out.send(777).unwrap();
        out.send(total - 777).unwrap();
        let produced = out.report();
        drop(out);
        assert_eq!((produced.bytes, produced.way), (total, Way::Copy));
        let mut checker = Checker::of(&pattern);
        checker.check(&std::fs::read(file.path()).unwrap());
        assert_eq!(checker.at, total);

        for wait in ALL_WAITS {
            let (reader, writer) = UnixStream::pair().unwrap();
            let reading = Reader::Quick.spawn(reader.into(), Checker::of(&pattern));
            let options = ProducerOptions::new().wait(wait);
            let mut out = options.repeat(writer, &pattern).unwrap();
            out.send(total).unwrap();
            assert_eq!(out.report().way, Way::Copy);
            drop(out);
            assert_eq!(reading.join().unwrap(), total);
        }
    }
}

#[test]
fn an_endless_run_ends_when_the_reader_has_had_enough() {
    let _watch = watch("an_endless_run_ends_when_the_reader_has_had_enough");
    for len in [2, 20_000, 5 * MIB] {
        for wait in ALL_WAITS {
            let pattern = first(len);
            let pipe = Pipe::new().unwrap();
            let mut checker = Checker::of(&pattern);
            let reading = thread::spawn(move || {
                let mut bytes = vec![0; 3 * MIB + 5];
                File::from(pipe.reader).read_exact(&mut bytes).unwrap();
                checker.check(&bytes);
            });
            let options = ProducerOptions::new().wait(wait);
            let mut out = options.repeat(pipe.writer, &pattern).unwrap();
            match out.send(u64::MAX).unwrap_err() {
                Error::Moving {
                    side: TransferSide::Sink,
                    errno,
                    moved,
                    ..
                } => {
                    assert_eq!(errno.kind(), ErrorKind::BrokenPipe);
                    assert!(moved > 3 << 20);
                }
                error => panic!("{error}"),
            }
            reading.join().unwrap();
        }
    }
}

#[test]
fn pages_in_a_pipe_outlive_the_repeat() {
    for len in [2, 20_000, 5 * MIB] {
        let pattern = first(len);
        let pipe = Pipe::new().unwrap();
        fullbore_linux::pipe::of(&pipe.writer)
            .unwrap()
            .unwrap()
            .grow(MIB)
            .unwrap();
        let mut out = repeat(&pattern, pipe.writer);
        out.send(200_000).unwrap();
        drop(out);
        let mut other = fullbore::Pages::new(8 * MIB).unwrap();
        other.fill(0xEE);
        let read = Reader::Quick.drain(pipe.reader, Checker::of(&pattern));
        assert_eq!(read, 200_000);
    }
}

#[test]
fn other_bytes_may_come_between() {
    // Another writer uses the same pipe: the pattern continues where it stopped.
    let pipe = Pipe::new().unwrap();
    let mut out = ProducerOptions::new().repeat(&pipe.writer, b"abc").unwrap();
    out.send(4).unwrap();
    rustix::io::write(&pipe.writer, b"--").unwrap();
    out.send(4).unwrap();
    drop(out);
    drop(pipe.writer);
    let mut text = String::new();
    File::from(pipe.reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "abca--bcab");
}

#[test]
fn a_pipe_with_o_nonblock_by_another_program_is_waited_for() {
    let _watch = watch("a_pipe_with_o_nonblock_by_another_program_is_waited_for");
    for len in [2, 20_000, 5 * MIB] {
        for wait in ALL_WAITS {
            let pattern = first(len);
            let pipe = Pipe::new().unwrap();
            set_nonblocking(&pipe.writer);
            let reading = Reader::Bursty.spawn(pipe.reader, Checker::of(&pattern));
            let options = ProducerOptions::new().wait(wait);
            let mut out = options.repeat(pipe.writer, &pattern).unwrap();
            out.send(3 << 20).unwrap();
            drop(out);
            assert_eq!(reading.join().unwrap(), 3 << 20);
        }
    }
}

#[test]
fn an_empty_pattern_and_the_wrong_end_are_refused() {
    let pipe = Pipe::new().unwrap();
    let options = ProducerOptions::new();
    assert!(matches!(
        options.clone().repeat(&pipe.writer, b""),
        Err(Error::Invalid(_))
    ));
    // On a read end, vmsplice would write the contents of the pipe into the memory.
    rustix::io::write(&pipe.writer, b"what the pipe holds").unwrap();
    for options in [options.clone(), options.pipe_size(0)] {
        for pattern in [&b"y\n"[..], &first(5 * MIB)] {
            let answer = options
                .clone()
                .repeat(pipe.reader.as_fd(), pattern)
                .and_then(|mut out| out.send(1));
            assert!(answer.is_err());
            assert_eq!(queued(&pipe.reader), 19);
        }
    }
}

#[test]
fn two_repeaters_share_a_pipe() {
    let pipe = Pipe::new().unwrap();
    let other = pipe.writer.try_clone().unwrap();
    let repeaters = [pipe.writer, other].map(|writer| {
        thread::spawn(move || {
            let mut repeat = ProducerOptions::new().repeat(writer, b"same\n").unwrap();
            repeat.send(1 << 30).unwrap();
            repeat.report().bytes
        })
    });
    let mut reader = fullbore::Consumer::new(pipe.reader).unwrap();
    assert_eq!(reader.discard(u64::MAX).unwrap(), 2 << 30);
    for repeater in repeaters {
        assert_eq!(repeater.join().unwrap(), 1 << 30);
    }
}

#[test]
fn sending_nothing_is_no_error() {
    let pipe = Pipe::new().unwrap();
    let mut repeat = ProducerOptions::new().repeat(&pipe.writer, b"abc").unwrap();
    assert_eq!(repeat.send_some(0).unwrap(), 0);
    repeat.send(1).unwrap();
    assert_eq!(repeat.send_some(0).unwrap(), 0);
}

//! Transfers of which several share an open file description, and so its position: as processes do that a shell starts in
//! the background, `(a & b) > file`, or `xargs -P`.

use std::io::{Read, Seek, Write};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fullbore::{EndReason, Guarantee, TransferOptions};

use crate::common::*;

const WRITERS: usize = 4;
const GUARANTEES: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

/// Numbers, so that it is known of every four bytes of the file which of them they are.
fn numbers(from: u32, count: u32) -> Vec<u8> {
    (from..from + count).flat_map(u32::to_ne_bytes).collect()
}

/// Asserts that each of the numbers is there once.
#[track_caller]
fn assert_each_once(bytes: &[u8], count: u32, what: &str) {
    assert_eq!(bytes.len(), 4 * count as usize, "{what}");
    let mut found = vec![false; count as usize];
    for word in bytes.chunks_exact(4) {
        let number = u32::from_ne_bytes(word.try_into().unwrap()) as usize;
        assert!(
            !std::mem::replace(&mut found[number], true),
            "{what}: {number}"
        );
    }
}

#[test]
fn transfers_into_one_open_file_lose_nothing() {
    let each = 1_000_000;
    for guarantee in GUARANTEES {
        for from_pipe in [true, false] {
            let what = format!("{guarantee:?}, from a pipe: {from_pipe}");
            let mut out = tempfile::tempfile().unwrap();
            let (options, all) = (
                TransferOptions::new().guarantee(guarantee).chunk(16 * 1024),
                Barrier::new(WRITERS),
            );
            thread::scope(|scope| {
                let (options, all) = (&options, &all);
                for i in 0..WRITERS as u32 {
                    let sink = out.try_clone().unwrap();
                    let bytes = numbers(i * each, each);
                    let source = if from_pipe {
                        let (source, mut writer) = std::io::pipe().unwrap();
                        scope.spawn(move || writer.write_all(&bytes).unwrap());
                        source.into()
                    } else {
                        std::os::fd::OwnedFd::from(targets::stored(&bytes))
                    };
                    scope.spawn(move || {
                        let mut transfer = options.clone().open(source, sink);
                        all.wait();
                        assert_eq!(transfer.run().unwrap().bytes, u64::from(each) * 4);
                    });
                }
            });
            let mut got = Vec::new();
            assert_eq!(
                out.stream_position().unwrap(),
                u64::from(each) * 4 * WRITERS as u64
            );
            out.rewind().unwrap();
            out.read_to_end(&mut got).unwrap();
            assert_each_once(&got, each * WRITERS as u32, &what);
        }
    }
}

#[test]
fn transfers_out_of_one_open_file_take_every_byte_once() {
    let count = 4_000_000;
    let bytes = numbers(0, count);
    for guarantee in GUARANTEES {
        for into in ["file", "pipe", "socket"] {
            let mut source = targets::stored(&bytes);
            let readers: Vec<_> = (0..WRITERS)
                .map(|_| {
                    let source = source.try_clone().unwrap();
                    let options = TransferOptions::new().guarantee(guarantee);
                    thread::spawn(move || {
                        let mut got = Vec::new();
                        match into {
                            "file" => {
                                let mut sink = tempfile::tempfile().unwrap();
                                options
                                    .open(source, sink.try_clone().unwrap())
                                    .run()
                                    .unwrap();
                                sink.rewind().unwrap();
                                sink.read_to_end(&mut got).unwrap();
                            }
                            "pipe" => {
                                let (mut reader, sink) = std::io::pipe().unwrap();
                                let moving = thread::spawn(move || {
                                    options.open(source, sink).run().unwrap()
                                });
                                reader.read_to_end(&mut got).unwrap();
                                moving.join().unwrap();
                            }
                            _ => {
                                let (mut reader, sink) =
                                    std::os::unix::net::UnixStream::pair().unwrap();
                                let moving = thread::spawn(move || {
                                    options.open(source, sink).run().unwrap()
                                });
                                reader.read_to_end(&mut got).unwrap();
                                moving.join().unwrap();
                            }
                        }
                        got
                    })
                })
                .collect();
            let got: Vec<u8> = readers
                .into_iter()
                .flat_map(|reader| reader.join().unwrap())
                .collect();
            assert_each_once(&got, count, &format!("{guarantee:?} into a {into}"));
            // Two that look for its end at the same time may both claim what is behind it.
            assert!(source.stream_position().unwrap() >= bytes.len() as u64);
        }
    }
}

#[test]
fn a_transfer_that_is_stopped_leaves_both_positions_behind_the_bytes_that_were_moved() {
    let bytes = first(3 * MIB);
    for guarantee in GUARANTEES {
        let (mut source, mut sink) = (targets::stored(&bytes), tempfile::tempfile().unwrap());
        let ends = (source.try_clone().unwrap(), sink.try_clone().unwrap());
        let mut transfer = TransferOptions::new()
            .guarantee(guarantee)
            .chunk(MIB)
            .open(ends.0, ends.1);
        let report = transfer
            .run_with(|_| std::ops::ControlFlow::Break(()))
            .unwrap();
        assert_eq!(report.ended, EndReason::Cancelled);
        assert_eq!(source.stream_position().unwrap(), report.taken);
        assert_eq!(sink.stream_position().unwrap(), report.bytes);
        assert_eq!(transfer.run().unwrap().bytes, bytes.len() as u64);
        assert_eq!(source.stream_position().unwrap(), bytes.len() as u64);
        assert_eq!(sink.stream_position().unwrap(), bytes.len() as u64);

        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut sink = tempfile::tempfile().unwrap();
        writer.write_all(&bytes[..1000]).unwrap();
        let until = Instant::now() + Duration::from_millis(50);
        let options = TransferOptions::new().guarantee(guarantee).deadline(until);
        let report = options
            .open(reader, sink.try_clone().unwrap())
            .run()
            .unwrap();
        assert_eq!((report.bytes, report.ended), (1000, EndReason::TimedOut));
        assert_eq!(sink.stream_position().unwrap(), 1000);
    }
}

//! What a result means: urgent data in a socket, packets in a pipe, and calls that must not sleep.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::common::ends::{content, same_bytes, tcp_pair};
use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{Buffer, EndReason, Guarantee, Pipe, Producer, Tee, TransferOptions};

#[test]
fn urgent_data_of_a_client_stops_no_transfer() {
    let _watch = watch("urgent_data_of_a_client_stops_no_transfer");
    let bytes = &content()[..3 * MIB];
    // The last byte may be urgent, too. (A second urgent byte would make the first one a part of the stream.)
    for at in [MIB, bytes.len()] {
        for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
            for nonblocking in [false, true] {
                let (mut theirs, ours) = tcp_pair();
                ours.set_nonblocking(nonblocking).unwrap();
                let sink = Pipe::new().unwrap();
                let reading = thread::spawn(move || {
                    let mut got = Vec::new();
                    File::from(sink.reader).read_to_end(&mut got).unwrap();
                    got
                });
                thread::spawn(move || {
                    theirs.write_all(&bytes[..at]).unwrap();
                    send(&theirs, b"!", SendFlags::OOB).unwrap();
                    theirs.write_all(&bytes[at..]).unwrap();
                });
                let report = TransferOptions::new()
                    .guarantee(guarantee)
                    .open(ours, sink.writer)
                    .run();
                let what = format!("{guarantee:?}, {nonblocking}, {at}");
                assert_eq!(report.unwrap().ended, EndReason::AtEnd, "{what}");
                same_bytes(&reading.join().unwrap(), bytes, &what);
            }
        }
    }
}

#[test]
fn a_deadline_ends_a_transfer_at_the_mark_of_urgent_data() {
    let _watch = watch("a_deadline_ends_a_transfer_at_the_mark_of_urgent_data");
    let (mut theirs, ours) = tcp_pair();
    ours.set_nonblocking(true).unwrap();
    let sink = Pipe::new().unwrap();
    theirs.write_all(&content()[..200_000]).unwrap();
    send(&theirs, b"!", SendFlags::OOB).unwrap();
    theirs.write_all(b"behind").unwrap();
    let mut transfer = TransferOptions::new()
        .guarantee(Guarantee::Reference)
        .deadline(Instant::now() + Duration::from_millis(200))
        .open(ours, &sink.writer);
    let report = transfer.run().unwrap();
    assert_eq!(report.ended, EndReason::TimedOut);
    assert_eq!(report.bytes, 200_006);
    // It slept meanwhile.
    assert!(report.calls < 1000, "{report:?}");
}

/// Returns a pipe in packet mode, and a thread that reads from it with room for many packets, as many programs do.
fn packet_pipe() -> (OwnedFd, thread::JoinHandle<Vec<u8>>) {
    let (reader, writer) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    let reading = thread::spawn(move || {
        let (mut got, mut room) = (Vec::new(), vec![0; 65536]);
        loop {
            match rustix::io::read(&reader, &mut room).unwrap() {
                0 => return got,
                n => got.extend_from_slice(&room[..n]),
            }
            if got.len() % 7 == 0 {
                thread::sleep(Duration::from_micros(300));
            }
        }
    });
    (writer, reading)
}

/// Writes to a pipe in pieces of many sizes, and returns the end to read them from.
fn in_pieces(bytes: &'static [u8]) -> OwnedFd {
    let pipe = Pipe::new().unwrap();
    thread::spawn(move || {
        let (mut writer, mut rest) = (File::from(pipe.writer), bytes);
        for len in [100, 3000, 5000, 30_000, 70_000, 1].into_iter().cycle() {
            let (piece, others) = rest.split_at(rest.len().min(len));
            if writer.write_all(piece).is_err() || others.is_empty() {
                return;
            }
            rest = others;
            thread::sleep(Duration::from_micros(100));
        }
    });
    pipe.reader
}

#[test]
fn a_pipe_in_packet_mode_gets_nothing_but_packets() {
    let _watch = watch("a_pipe_in_packet_mode_gets_nothing_but_packets");
    let bytes = &content()[..MIB];
    let by_transfer = |guarantee| {
        move |writer: OwnedFd| {
            let mut transfer = TransferOptions::new()
                .guarantee(guarantee)
                .open(in_pieces(bytes), writer);
            transfer.run().unwrap();
        }
    };
    let tee = |writer: OwnedFd| {
        let mut tee = Tee::new(in_pieces(bytes), [(writer.as_fd(), Policy::FAIL_ALL)]);
        tee.run().unwrap();
    };
    let buffer = |writer: OwnedFd| {
        let mut buffer = Buffer::new(in_pieces(bytes), [(writer.as_fd(), Policy::FAIL_ALL)]);
        buffer.run().unwrap();
    };
    let producer = |writer: OwnedFd| {
        let mut out = Producer::new(writer).unwrap();
        for (i, piece) in bytes.chunks(70_001).enumerate() {
            out.write_all(piece).unwrap();
            if i % 3 == 0 {
                out.flush().unwrap();
            }
        }
        out.finish().unwrap();
    };
    let ways: [(&str, &dyn Fn(OwnedFd)); 5] = [
        ("snapshot", &by_transfer(Guarantee::Snapshot)),
        ("reference", &by_transfer(Guarantee::Reference)),
        ("tee", &tee),
        ("buffer", &buffer),
        ("producer", &producer),
    ];
    for _ in 0..4 {
        for (name, way) in ways {
            let (writer, reading) = packet_pipe();
            way(writer);
            same_bytes(&reading.join().unwrap(), bytes, name);
        }
    }
}

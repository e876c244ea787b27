//! Urgent data of a TCP client, and packets in pipes.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fullbore_tokio::{Guarantee, Options};
use rustix::net::SendFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::common::ends::{To, content, same_bytes, tcp_pair};
use crate::common::watch;
use crate::kinds::*;

const BOTH: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

/// Sends one byte of urgent data.
fn send_urgent(socket: &TcpStream) {
    assert_eq!(rustix::net::send(socket, b"!", SendFlags::OOB), Ok(1));
}

#[test]
fn urgent_data_does_not_stop_a_transfer() {
    let _watch = watch("urgent data");
    for guarantee in BOTH {
        for is_inline in [false, true] {
            let (ours, mut client) = tcp_pair();
            rustix::net::sockopt::set_socket_oobinline(&ours, is_inline).unwrap();
            let sink = To::Unix.open().unwrap();
            let to = sink.fd.try_clone().unwrap();
            let expected = [
                &content()[..20_000],
                &b"!"[..usize::from(is_inline)],
                b"hello",
                &content()[..50_000],
            ];
            runtime().block_on(async {
                let options = Options::new().guarantee(guarantee);
                let mut transfer = options.copy(tcp(ours.into()), unix(to));
                let counters = transfer.counters();
                let arrived = async |bytes: usize| {
                    while counters.bytes() < bytes as u64 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                let sending = async {
                    client.write_all(expected[0]).unwrap();
                    // The source is spliced from now on.
                    arrived(expected[0].len()).await;
                    send_urgent(&client);
                    client.write_all(expected[2]).unwrap();
                    arrived(expected[..3].concat().len()).await;
                    client.write_all(expected[3]).unwrap();
                    drop(client);
                };
                let (report, ()) = tokio::join!(transfer.run(), sending);
                let report = report.unwrap();
                assert_eq!(counters.bytes(), report.bytes);
                assert_eq!(counters.taken(), report.taken);
                assert_eq!(counters.spliced(), report.spliced);
            });
            let what = format!("{guarantee:?}, inline {is_inline}");
            sink.close_and_compare(&expected.concat(), &what);
        }
    }
}

/// Reads everything by reads that have room for 4,000 bytes only.
fn read_in_small_rooms(reader: OwnedFd) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        let mut room = [0; 4000];
        match rustix::io::read(&reader, &mut room).unwrap() {
            0 => return got,
            n => got.extend_from_slice(&room[..n]),
        }
    }
}

#[test]
fn packets_arrive_whole() {
    let _watch = watch("packets");
    for guarantee in BOTH {
        for (source_has, sink_has) in [(true, false), (false, true), (true, true)] {
            let flags = |packets| match packets {
                true => PipeFlags::CLOEXEC | PipeFlags::DIRECT,
                false => PipeFlags::CLOEXEC,
            };
            let (from, mut writer) = pipe_with(flags(source_has))
                .map(|(r, w)| (r, std::fs::File::from(w)))
                .unwrap();
            let (reader, to) = pipe_with(flags(sink_has)).unwrap();
            let what = format!("{guarantee:?}, packets from {source_has} to {sink_has}");
            let sent = &content()[..2_000_000];
            let writing = std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(7);
                let mut left = sent;
                while !left.is_empty() {
                    // Packets that fit into the rooms of the reader, or a stream with pauses.
                    let len = match source_has {
                        true => random.usize(1..=4000),
                        false => random.usize(100..70_000),
                    };
                    let (now, rest) = left.split_at(len.min(left.len()));
                    writer.write_all(now).unwrap();
                    left = rest;
                    if !source_has && random.bool() {
                        std::thread::sleep(Duration::from_micros(random.u64(..1500)));
                    }
                }
            });
            // In small rooms, what is written is no longer than a room.
            let reading = std::thread::spawn(move || match sink_has {
                true => {
                    let mut got = Vec::new();
                    let mut room = vec![0; 65_536];
                    loop {
                        match rustix::io::read(&reader, &mut room).unwrap() {
                            0 => return got,
                            n => got.extend_from_slice(&room[..n]),
                        }
                    }
                }
                false => read_in_small_rooms(reader),
            });
            let report = runtime().block_on(async {
                let options = Options::new().guarantee(guarantee);
                let (source, sink) = (receiver(from), sender(to));
                options.copy(source, sink).run().await.unwrap()
            });
            writing.join().unwrap();
            same_bytes(&reading.join().unwrap(), sent, &what);
            assert_eq!(report.bytes, sent.len() as u64, "{what}");
        }
    }
}

#[test]
fn packets_arrive_whole_at_a_rate_of_less_than_one_at_a_time() {
    let _watch = watch("packets at a rate");
    let (from, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT).unwrap();
    let (reader, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let sent = &content()[..20_000];
    for packet in sent.chunks(4000) {
        rustix::io::write(&writer, packet).unwrap();
    }
    drop(writer);
    let report = runtime().block_on(async {
        let options = Options::new().rate(std::num::NonZero::new(40_000).unwrap());
        let (source, sink) = (receiver(from), sender(to));
        options.copy(source, sink).run().await.unwrap()
    });
    same_bytes(&read_in_small_rooms(reader), sent, "packets at a rate");
    assert_eq!(report.bytes, sent.len() as u64);
}

#[test]
fn a_stream_between_pipes_is_still_spliced() {
    let _watch = watch("pipe to pipe");
    let (source, sink) = (
        crate::common::ends::From::Pipe.open(2_000_000).unwrap(),
        To::Pipe.open().unwrap(),
    );
    let (from, to) = (source.fd.try_clone().unwrap(), sink.fd.try_clone().unwrap());
    let resized = fullbore::PipeEnd::new(source.fd.as_fd())
        .unwrap()
        .resize(1 << 20)
        .is_ok();
    let report = runtime().block_on(async {
        let options = Options::new().guarantee(Guarantee::Reference);
        options
            .copy(receiver(from), sender(to))
            .run()
            .await
            .unwrap()
    });
    assert!(report.spliced > 0 || !resized, "{report:?}");
    sink.close_and_compare(source.expected, "pipe to pipe");
    source.close();
}

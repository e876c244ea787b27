//! Sources that preserve message boundaries: a read(2) into too little memory loses a part of a message.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{
    BufferOptions, Consumer, ConsumerOptions, EndReason, Guarantee, Pipe, PipeEnd, Producer, Tee,
    TeeOptions, Transfer, TransferOptions,
};
use fullbore_linux::{page_size, pipe};
use fullbore_tests::skipped;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};
use rustix::pipe::{PipeFlags, pipe_with};

/// A source, the length of its messages, and their number.
type Messages = (OwnedFd, usize, usize);

fn sockets() -> (OwnedFd, OwnedFd) {
    let (domain, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socketpair(domain, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// Returns a socket with messages of this length, and then the end.
fn socket(len: usize, number: usize) -> Messages {
    let (from, to) = sockets();
    // The largest buffer that any user may have.
    sockopt::set_socket_send_buffer_size(&from, 1 << 20).unwrap();
    thread::spawn(move || {
        let mut bytes = vec![0; len];
        for message in 0..number {
            fill(&mut bytes, (message * len) as u64);
            if rustix::net::send(&from, &bytes, SendFlags::NOSIGNAL).is_err() {
                return;
            }
        }
    });
    (to, len, number)
}

/// Returns a pipe with packets.
fn packets(len: usize, number: usize) -> Messages {
    let (to, from) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    thread::spawn(move || {
        let mut bytes = vec![0; len];
        for message in 0..number {
            fill(&mut bytes, (message * len) as u64);
            assert_eq!(rustix::io::write(&from, &bytes), Ok(len));
        }
    });
    (to, len, number)
}

fn sources() -> Vec<Messages> {
    vec![
        socket(1316, 5000),
        socket(40_000, 60),
        socket(150_000, 30),
        packets(1316, 5000),
        packets(4095, 2000),
    ]
}

/// Checks that every byte of all messages arrives through the pipe that `moving` moves them into.
#[track_caller]
fn assert_whole(
    (source, len, number): Messages,
    moving: impl FnOnce(&OwnedFd, &OwnedFd) + Send + 'static,
) {
    let sink = Pipe::new().unwrap();
    let moving = thread::spawn(move || moving(&source, &sink.writer));
    let (mut arrived, mut source) = (Vec::new(), File::from(sink.reader));
    let mut buffer = vec![0; 64 << 10];
    while let n @ 1.. = source.read(&mut buffer).unwrap() {
        arrived.extend_from_slice(&buffer[..n]);
    }
    moving.join().unwrap();
    assert_eq!(arrived.len(), len * number, "messages of {len} bytes");
    Checker::of_the_stream().check(&arrived);
}

#[test]
fn packets_are_plain_bytes_in_the_next_pipe() {
    let (source, from) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    let (len, number) = (page_size() - 1, 100);
    let sink = pipe::with_capacity(MIB).unwrap().0;
    // It is skipped below where the limits do not allow that.
    let _ = PipeEnd::new(from.as_fd()).unwrap().grow(MIB);
    let has_room = |fd: &OwnedFd| PipeEnd::new(fd.as_fd()).unwrap().capacity().unwrap() >= MIB;
    if !has_room(&from) || !has_room(&sink.writer) {
        return skipped("pipes cannot be enlarged here");
    }
    let mut bytes = vec![0; len];
    for message in 0..number {
        fill(&mut bytes, (message * len) as u64);
        rustix::io::write(&from, &bytes).unwrap();
    }
    drop(from);
    let mut transfer = TransferOptions::new()
        .guarantee(Guarantee::Reference)
        .open(&source, &sink.writer);
    transfer.run().unwrap();
    drop(sink.writer);
    let (mut arrived, mut source) = (Vec::new(), File::from(sink.reader));
    // The end of a packet is not where a read(2) ends.
    let mut buffer = vec![0; 1000];
    while let n @ 1.. = source.read(&mut buffer).unwrap() {
        arrived.extend_from_slice(&buffer[..n]);
    }
    assert_eq!(arrived.len(), len * number);
    Checker::of_the_stream().check(&arrived);
}

#[test]
fn no_message_is_cut() {
    let _watch = watch("no_message_is_cut");
    let both = [Guarantee::Snapshot, Guarantee::Reference];
    let chunks = |guarantee| [1000, 4096, MIB].map(|chunk| (guarantee, chunk));
    for (guarantee, chunk) in both.into_iter().flat_map(chunks) {
        for messages in sources() {
            assert_whole(messages, move |source, sink| {
                let options = TransferOptions::new().guarantee(guarantee).chunk(chunk);
                options.open(source, sink).run().unwrap();
            });
        }
    }
    for chunk in [1000, 4096, MIB] {
        for messages in sources() {
            assert_whole(messages, move |source, sink| {
                let mut tee = TeeOptions::new()
                    .chunk(chunk)
                    .open(source, [(sink.as_fd(), Policy::FAIL_ALL)]);
                tee.run().unwrap();
            });
        }
    }
}

#[test]
fn a_packet_is_whole_after_a_limit_that_was_shorter() {
    let _watch = watch("a_packet_is_whole_after_a_limit_that_was_shorter");
    // The bytes of the stream, in packets of 10 and of 1000 bytes, and then the end.
    let packets = || {
        let (source, from) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
        let bytes = first(1010);
        for packet in [&bytes[..10], &bytes[10..]] {
            assert_eq!(rustix::io::write(&from, packet), Ok(packet.len()));
        }
        source
    };
    let arrived = |sink: Pipe| {
        drop(sink.writer);
        Reader::Quick.drain(sink.reader, Checker::of_the_stream())
    };
    let (source, sink) = (packets(), Pipe::new().unwrap());
    let mut transfer = TransferOptions::new().limit(10).open(&source, &sink.writer);
    assert_eq!(transfer.run().unwrap().ended, EndReason::AtLimit);
    transfer.set_limit(MIB as u64);
    assert_eq!(transfer.run().unwrap().bytes, 1010);
    assert_eq!(arrived(sink), 1010);
    let (source, sink) = (packets(), Pipe::new().unwrap());
    let mut tee = Tee::new(&source, [(&sink.writer, Policy::FAIL_ALL)]);
    tee.set_limit(10);
    assert_eq!(tee.run().unwrap().ended, EndReason::AtLimit);
    tee.set_limit(MIB as u64);
    assert_eq!(tee.run().unwrap().taken, 1010);
    assert_eq!(arrived(sink), 1010);
}

/// Returns a socket of this type to which the messages "a", "" and "b" were sent, and its peer.
fn with_an_empty_message(kind: SocketType) -> (OwnedFd, OwnedFd) {
    let domain = AddressFamily::UNIX;
    let (from, to) = rustix::net::socketpair(domain, kind, SocketFlags::CLOEXEC, None).unwrap();
    for message in [&b"a"[..], b"", b"b"] {
        rustix::net::send(&from, message, SendFlags::NOSIGNAL).unwrap();
    }
    (from, to)
}

#[test]
fn an_empty_datagram_is_not_the_end() {
    let _watch = watch("an_empty_datagram_is_not_the_end");
    let udp = || {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        for message in [&b"a"[..], b"", b"b"] {
            from.send_to(message, to.local_addr().unwrap()).unwrap();
        }
        (OwnedFd::from(from), OwnedFd::from(to))
    };
    let sources = || [with_an_empty_message(SocketType::DGRAM), udp()];
    for (_from, source) in sources() {
        let sink = Pipe::new().unwrap();
        let report = TransferOptions::new()
            .limit(2)
            .open(&source, &sink.writer)
            .run()
            .unwrap();
        assert_eq!((report.bytes, report.ended), (2, EndReason::AtLimit));
    }
    for (_from, source) in sources() {
        let sink = Pipe::new().unwrap();
        let mut tee = Tee::new(&source, [(&sink.writer, Policy::FAIL_ALL)]);
        tee.set_limit(2);
        let report = tee.run().unwrap();
        assert_eq!((report.taken, report.ended), (2, EndReason::AtLimit));
    }
    for (_from, source) in sources() {
        let options = ConsumerOptions::new().nonblocking(true);
        let (mut consumer, mut got) = (options.open(source).unwrap(), Vec::new());
        // A UDP datagram may arrive after send(2) has returned, and before an earlier one.
        while got.len() < 2 {
            let error = consumer.read_to_end(&mut got).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
        got.sort_unstable();
        assert_eq!(got, b"ab");
    }
}

#[test]
fn a_connection_that_keeps_messages_ends_when_it_is_closed() {
    let _watch = watch("a_connection_that_keeps_messages_ends_when_it_is_closed");
    let source = || with_an_empty_message(SocketType::SEQPACKET).1;
    let sinks: [Pipe; 3] = [(); 3].map(|()| Pipe::new().unwrap());
    Transfer::new(source(), &sinks[0].writer).run().unwrap();
    let policy = Policy::FAIL_ALL;
    let tee = Tee::new(source(), [(&sinks[1].writer, policy)]).run();
    assert_eq!(tee.unwrap().taken, 2);
    let options = BufferOptions::new().memory(128 << 10);
    let mut buffer = options.open(source(), [(&sinks[2].writer, policy)]);
    buffer.run().unwrap();
    for sink in sinks {
        drop(sink.writer);
        let mut got = String::new();
        File::from(sink.reader).read_to_string(&mut got).unwrap();
        assert_eq!(got, "ab");
    }
    let mut got = String::new();
    let mut consumer = Consumer::new(source()).unwrap();
    consumer.read_to_string(&mut got).unwrap();
    assert_eq!(got, "ab");
}

#[test]
fn a_datagram_socket_that_was_shut_down_ends_once_it_is_empty() {
    let _watch = watch("a_datagram_socket_that_was_shut_down_ends_once_it_is_empty");
    let (_from, source) = with_an_empty_message(SocketType::DGRAM);
    rustix::net::shutdown(&source, Shutdown::Read).unwrap();
    let sink = Pipe::new().unwrap();
    let report = Transfer::new(&source, &sink.writer).run().unwrap();
    assert_eq!((report.bytes, report.ended), (2, EndReason::AtEnd));
}

#[test]
fn no_message_is_cut_by_a_buffer_of_any_size() {
    let _watch = watch("no_message_is_cut_by_a_buffer_of_any_size");
    for memory in [128 << 10, MIB, 16 * MIB] {
        for messages in sources() {
            assert_whole(messages, move |source, sink| {
                let mut buffer = BufferOptions::new()
                    .memory(memory)
                    .open(source, [(sink, Policy::FAIL_ALL)]);
                let report = buffer.run().unwrap();
                assert_eq!(report.level.taken, report.sinks[0].bytes);
            });
        }
    }
}

#[test]
fn no_message_is_cut_by_a_consumer() {
    let _watch = watch("no_message_is_cut_by_a_consumer");
    for buffer in [4096, 100_000, MIB] {
        for messages in sources() {
            assert_whole(messages, move |source, sink| {
                let options = ConsumerOptions::new().buffer(buffer);
                let mut consumer = options.open(source).unwrap();
                let mut sink = File::from(sink.try_clone().unwrap());
                std::io::copy(&mut consumer, &mut sink).unwrap();
            });
        }
    }
}

#[test]
fn a_message_that_is_too_long_is_an_error() {
    let _watch = watch("a_message_that_is_too_long_is_an_error");
    // Not every user may send such a message.
    let (from, source) = sockets();
    if sockopt::set_socket_send_buffer_size_force(&from, 2 << 20).is_err() {
        fullbore_tests::skipped("messages of 600000 bytes, which only root may send");
        return;
    }
    let bytes = vec![1; 600_000];
    let sink = Pipe::new().unwrap();
    for _ in 0..4 {
        rustix::net::send(&from, &bytes, SendFlags::NOSIGNAL).unwrap();
    }
    let policy = Policy::FAIL_ALL;
    let transferred = Transfer::new(&source, &sink.writer).run();
    let teed = Tee::new(&source, [(&sink.writer, policy)]).run();
    let options = BufferOptions::new().memory(128 << 10);
    let buffered = options.open(&source, [(&sink.writer, policy)]).run();
    let consumed = Consumer::new(&source).unwrap().read(&mut [0; 100]);
    let errors = [
        transferred.unwrap_err().error.raw_os_error(),
        teed.unwrap_err().error.raw_os_error(),
        buffered.unwrap_err().error.raw_os_error(),
        consumed.unwrap_err().raw_os_error(),
    ];
    assert_eq!(errors, [Some(libc::EMSGSIZE); 4]);
}

/// Receives the messages of a socket until its end, and returns their bytes.
fn received(socket: OwnedFd) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut got, mut room) = (Vec::new(), vec![0; MIB]);
        while let Ok((n @ 1.., _)) = rustix::net::recv(&socket, &mut room[..], RecvFlags::empty()) {
            got.extend_from_slice(&room[..n]);
        }
        got
    })
}

#[test]
fn a_stream_into_a_socket_that_keeps_messages_is_cut_into_those_that_it_sends() {
    let _watch = watch("a stream into messages");
    let (bytes, policy) = (first(3 * MIB), Policy::FAIL_ALL);
    let from_pipe = || {
        let (source, mut writer) = std::io::pipe().unwrap();
        let bytes = bytes.clone();
        thread::spawn(move || writer.write_all(&bytes).unwrap());
        OwnedFd::from(source)
    };
    let from_file = || OwnedFd::from(targets::stored(&bytes));
    for small in [true, false] {
        let sources: [&dyn Fn() -> OwnedFd; 2] = [&from_pipe, &from_file];
        for source in sources {
            for verb in ["transfer", "tee", "buffer", "producer"] {
                let (sink, reader) = sockets();
                if small {
                    sockopt::set_socket_send_buffer_size(&sink, 10_000).unwrap();
                }
                let got = received(reader);
                match verb {
                    "transfer" => drop(Transfer::new(source(), &sink).run().unwrap()),
                    "tee" => drop(Tee::new(source(), [(&sink, policy)]).run().unwrap()),
                    "buffer" => {
                        let mut buffer = BufferOptions::new().open(source(), [(&sink, policy)]);
                        drop(buffer.run().unwrap());
                    }
                    _ => {
                        let mut producer = Producer::new(&sink).unwrap();
                        producer.write_all(&bytes).unwrap();
                        producer.flush().unwrap();
                    }
                }
                drop(sink);
                assert!(got.join().unwrap() == bytes, "{verb}, small: {small}");
            }
        }
    }
}

#[test]
fn a_message_that_the_sink_cannot_send_is_an_error_and_is_not_cut() {
    let _watch = watch("a message that the sink cannot send");
    for verb in ["transfer", "tee"] {
        let ((source, _, _), (sink, _reader)) = (socket(40_000, 1), sockets());
        sockopt::set_socket_send_buffer_size(&sink, 10_000).unwrap();
        let error = match verb {
            "transfer" => Transfer::new(&source, &sink).run().unwrap_err().error,
            _ => {
                let failed = Tee::new(&source, [(&sink, Policy::FAIL_ALL)]).run();
                failed.unwrap_err().error
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{verb}");
    }
}

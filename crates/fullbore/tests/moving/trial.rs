//! A long stream into a pipe is tried as fresh pages and through a socket: every byte is right whichever is
//! used, and the faster one moves the rest.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use crate::common::calls::judging;
use crate::common::*;
use fullbore::{Pipe, Producer, ProducerOptions, Transfer, Tried, Way};

use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};

/// Bytes of a stream that is long enough for several turns, and goes on after them.
const BYTES: u64 = 224 << 20;

/// Sends [`BYTES`] of the stream, and returns what was tried.
type Make = fn(OwnedFd) -> Option<Tried>;

fn reserved(sink: OwnedFd) -> Option<Tried> {
    let mut out = Producer::new(sink).unwrap();
    send(&mut out, 0, BYTES, 300_000).unwrap();
    let tried = out.tried();
    assert_eq!(out.finish().unwrap().bytes, BYTES);
    tried
}

fn written(sink: OwnedFd) -> Option<Tried> {
    let mut out = Producer::new(sink).unwrap();
    let mut bytes = vec![0; 700_000];
    let mut random = Random::new(5);
    let mut at = 0;
    while at < BYTES {
        let n = (BYTES - at).min(random.up_to(bytes.len()) as u64) as usize;
        fill(&mut bytes[..n], at);
        out.write_all(&bytes[..n]).unwrap();
        at += n as u64;
        if n % 7 == 0 {
            out.flush().unwrap();
        }
    }
    let tried = out.tried();
    assert_eq!(out.finish().unwrap().bytes, BYTES);
    tried
}

fn moved(sink: OwnedFd) -> Option<Tried> {
    let mut file = File::from(memfd_create("long", MemfdFlags::CLOEXEC).unwrap());
    let mut bytes = vec![0; 1 << 20];
    for at in (0..BYTES).step_by(bytes.len()) {
        fill(&mut bytes, at);
        file.write_all(&bytes).unwrap();
    }
    seek(&file, SeekFrom::Start(0)).unwrap();
    // The ways alternate in the middle of a huge page then.
    let mut transfer = Transfer::new(file, sink).chunk(300_000);
    let report = transfer.run().unwrap();
    assert_eq!(report.bytes, BYTES, "{report:?}");
    transfer.tried()
}

const ALL: [(&str, Make); 3] = [("reserve", reserved), ("write", written), ("move", moved)];

/// Returns whether this machine has both ways.
fn has_two_ways() -> bool {
    let way = |make: fn(ProducerOptions, OwnedFd) -> Producer<OwnedFd>| {
        let pipe = Pipe::new().unwrap();
        let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
        let mut out = make(ProducerOptions::new(), pipe.writer);
        send(&mut out, 0, 1 << 20, 300_000).unwrap();
        let way = out.finish().unwrap().way;
        reading.join().unwrap();
        way
    };
    way(|options, sink| options.open(sink).unwrap()) == Way::Fresh
        && way(|options, sink| options.socket(sink).unwrap()) == Way::Socket
}

#[test]
fn a_long_stream_is_tried_in_both_ways_and_every_byte_is_right() {
    let _watch = watch("a_long_stream_is_tried_in_both_ways");
    for (name, make) in ALL {
        for reader in [Reader::Quick, Reader::Splicing] {
            let pipe = Pipe::new().unwrap();
            let reading = reader.spawn(pipe.reader, Checker::of_the_stream());
            let tried = make(pipe.writer);
            assert_eq!(reading.join().unwrap(), BYTES, "{name}, {reader:?}");
            assert_eq!(tried.is_some(), has_two_ways(), "{name}, {reader:?}");
        }
    }
}

#[test]
fn where_giving_pages_is_slow_a_long_stream_goes_on_through_a_socket() {
    let _watch = watch("where_giving_pages_is_slow");
    if !has_two_ways() {
        return;
    }
    for (name, make) in ALL {
        // On a busy machine, a turn through the socket may happen to be slow too.
        let is_tried_out = (0..20).any(|_| {
            let pipe = Pipe::new().unwrap();
            let reading = Reader::Quick.spawn(pipe.reader, Checker::of_the_stream());
            let slowly = |_| {
                thread::sleep(Duration::from_millis(3));
                None
            };
            let tried = judging(&[libc::SYS_vmsplice], slowly, || make(pipe.writer));
            let read = reading.join().unwrap();
            let Some(tried) = tried else {
                // Calls cannot be slowed down here.
                return true;
            };
            assert_eq!(read, BYTES, "{name}");
            tried.unwrap().by_socket
        });
        assert!(is_tried_out, "{name}");
    }
}

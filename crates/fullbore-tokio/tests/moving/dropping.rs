//! Futures that are dropped at random times, and transfers that continue or are taken apart afterwards.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use fullbore_tokio::{Ended, Guarantee, Options};
use tokio::task::yield_now;

use crate::common::ends::{content, same_bytes, tcp_pair};
use crate::common::watch;
use crate::kinds::*;

const TRIES: u64 = 10_000;

/// A peer that sends and reads random numbers of bytes without waiting.
struct Peer {
    socket: StdUnixStream,
    sent: usize,
    got: Vec<u8>,
}

impl Peer {
    fn new(fd: impl Into<OwnedFd>) -> Self {
        // For reading and writing, any type of socket works.
        let socket = StdUnixStream::from(fd.into());
        socket.set_nonblocking(true).unwrap();
        Self {
            socket,
            sent: 0,
            got: Vec::new(),
        }
    }

    fn send(&mut self, most: usize, of: &[u8]) {
        let to = (self.sent + most).min(of.len());
        if let Ok(n) = self.socket.write(&of[self.sent..to]) {
            self.sent += n;
        }
    }

    fn take(&mut self, most: usize) {
        let begun = self.got.len();
        self.got.resize(begun + most, 0);
        let n = self.socket.read(&mut self.got[begun..]).unwrap_or(0);
        self.got.truncate(begun + n);
    }

    /// Reads everything until the end.
    fn take_all(mut self) -> Vec<u8> {
        self.socket.set_nonblocking(false).unwrap();
        self.socket.read_to_end(&mut self.got).unwrap();
        self.got
    }
}

/// Returns a connection: our end, and the peer.
fn connection(over_tcp: bool) -> (OwnedFd, Peer) {
    match over_tcp {
        true => {
            let (ours, theirs) = tcp_pair();
            (ours.into(), Peer::new(theirs))
        }
        false => {
            let (ours, theirs) = StdUnixStream::pair().unwrap();
            (ours.into(), Peer::new(theirs))
        }
    }
}

fn amount(random: &mut fastrand::Rng) -> usize {
    match random.u8(..3) {
        0 => random.usize(1..100),
        1 => random.usize(1..10_000),
        _ => random.usize(1..200_000),
    }
}

/// Runs the transfer for some turns of the other tasks, and drops the future.
macro_rules! run_for_a_while {
    ($transfer:expr, $random:expr) => {{
        let turns = $random.u32(..6);
        let some_turns = async {
            for _ in 0..turns {
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            ended = $transfer.run() => panic!("no side has ended: {ended:?}"),
            () = some_turns => {}
        }
    }};
}

#[test]
fn bytes_in_flight_of_a_dropped_future_stay_in_the_transfer() {
    let _watch = watch("dropped futures");
    let runtime = runtime();
    for seed in 0..TRIES {
        let mut random = fastrand::Rng::with_seed(seed);
        let over_tcp = seed % 16 == 0;
        let (from, mut sender_peer) = connection(over_tcp);
        let (to, mut reader_peer) = connection(over_tcp);
        let left_in = from.try_clone().unwrap();
        let mut guarantee = Guarantee::Snapshot;
        if random.bool() {
            guarantee = Guarantee::Reference;
        }
        let (report, under_way) = runtime.block_on(async {
            let options = Options::new().guarantee(guarantee);
            let source = registered(from);
            let mut transfer = options.copy(source, registered(to));
            for _ in 0..random.u8(1..6) {
                sender_peer.send(amount(&mut random), content());
                run_for_a_while!(transfer, random);
                reader_peer.take(amount(&mut random));
            }
            let report = transfer.report();
            let (_, sink, under_way) = transfer.into_parts().unwrap();
            drop(sink);
            (report, under_way)
        });
        let sent = sender_peer.sent;
        drop(sender_peer);
        let arrived = reader_peer.take_all();
        let left = Peer::new(left_in).take_all();
        assert_eq!(report.bytes, arrived.len() as u64, "seed {seed}");
        assert_eq!(
            report.taken,
            (arrived.len() + under_way.len()) as u64,
            "seed {seed}"
        );
        let all = [arrived, under_way, left].concat();
        same_bytes(&all, &content()[..sent], &format!("seed {seed}"));
    }
}

#[test]
fn both_directions_go_on_after_futures_were_dropped() {
    let _watch = watch("dropped futures of both directions");
    let runtime = runtime();
    for seed in 0..TRIES / 10 {
        let mut random = fastrand::Rng::with_seed(seed);
        let ((a, mut near), (b, mut far)) = (connection(false), connection(false));
        let there = &content()[..random.usize(1..400_000)];
        let back = &content()[1_000_000..][..random.usize(1..400_000)];
        let mut guarantee = Guarantee::Snapshot;
        if random.bool() {
            guarantee = Guarantee::Reference;
        }
        let both = runtime.block_on(async {
            let options = Options::new().guarantee(guarantee);
            let mut transfer = options.copy_bidirectional(unix(a), unix(b));
            while near.sent < there.len() || far.sent < back.len() {
                near.send(amount(&mut random), there);
                far.send(amount(&mut random), back);
                run_for_a_while!(transfer, random);
                near.take(amount(&mut random));
                far.take(amount(&mut random));
            }
            near.socket.shutdown(std::net::Shutdown::Write).unwrap();
            far.socket.shutdown(std::net::Shutdown::Write).unwrap();
            let near = tokio::task::spawn_blocking(|| near.take_all());
            let far = tokio::task::spawn_blocking(|| far.take_all());
            let both = transfer.run().await.unwrap();
            let (_, _, under_way) = transfer.into_parts().unwrap();
            assert!(under_way.a_to_b.is_empty() && under_way.b_to_a.is_empty());
            same_bytes(&near.await.unwrap(), back, &format!("seed {seed}, back"));
            same_bytes(&far.await.unwrap(), there, &format!("seed {seed}, there"));
            both
        });
        assert_eq!(both.a_to_b.bytes, there.len() as u64, "seed {seed}");
        assert_eq!(both.b_to_a.bytes, back.len() as u64, "seed {seed}");
    }
}

#[test]
fn a_future_that_is_dropped_after_a_failure_still_delivers_what_has_come_and_then_fails() {
    let _watch = watch("a future dropped after a failure");
    let ((a, mut near), (b, mut far)) = (connection(false), connection(false));
    // From now on, nothing can be sent to `a`.
    near.socket.shutdown(std::net::Shutdown::Read).unwrap();
    runtime().block_on(async {
        let mut transfer = Options::new().copy_bidirectional(unix(a), unix(b));
        let moment = Duration::from_millis(10);
        let mut both = transfer.report();
        // In small amounts, so that the last of them fits into the sink when all others were read.
        while both.a_to_b.taken == both.a_to_b.bytes {
            near.send(10_000, content());
            let ran = tokio::time::timeout(moment, transfer.run()).await;
            assert!(ran.is_err(), "{ran:?}");
            both = transfer.report();
        }
        far.send(4, content());
        while both.b_to_a.ended != Ended::Failed {
            let ran = tokio::time::timeout(moment, transfer.run()).await;
            assert!(ran.is_err(), "{ran:?}");
            both = transfer.report();
        }
        while far.got.len() < both.a_to_b.bytes as usize {
            far.take(100_000);
        }
        // tokio is notified of the room, so that the next run first reads the source, which has no more bytes.
        tokio::time::sleep(moment).await;
        let failure = transfer.run().await.unwrap_err();
        assert_eq!(failure.error.raw_os_error(), Some(libc::EPIPE));
        assert_eq!(failure.report.b_to_a.ended, Ended::Failed);
        assert_eq!(failure.report.a_to_b.bytes, near.sent as u64);
    });
    same_bytes(&far.take_all(), &content()[..near.sent], "what had come");
}

#[test]
fn a_future_that_is_dropped_during_a_read_of_a_file_loses_nothing() {
    let _watch = watch("dropped futures of files");
    let runtime = runtime();
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes = &content()[..random.usize(1..900_000)];
        let source = crate::common::ends::From::File.open(bytes.len()).unwrap();
        let (to, mut peer) = connection(false);
        let guarantee = match random.bool() {
            true => Guarantee::Reference,
            false => Guarantee::Snapshot,
        };
        let (report, under_way, mut rest) = runtime.block_on(async {
            let options = Options::new().guarantee(guarantee);
            let file = file(source.fd.try_clone().unwrap());
            let mut transfer = options.copy(file, unix(to));
            for _ in 0..random.u8(1..5) {
                let turns = random.u32(..4);
                let some_turns = async {
                    for _ in 0..turns {
                        yield_now().await;
                    }
                };
                tokio::select! {
                    biased;
                    ended = transfer.run() => drop(ended.unwrap()),
                    () = some_turns => {}
                }
                peer.take(amount(&mut random));
            }
            let report = transfer.report();
            let (file, sink, under_way) = transfer.into_parts().unwrap();
            drop(sink);
            (report, under_way, file)
        });
        let arrived = peer.take_all();
        assert_eq!(report.bytes, arrived.len() as u64, "seed {seed}");
        assert_eq!(
            report.taken,
            (arrived.len() + under_way.len()) as u64,
            "seed {seed}"
        );
        let mut left = Vec::new();
        rest.read_to_end(&mut left).unwrap();
        let all = [arrived, under_way, left].concat();
        same_bytes(&all, bytes, &format!("seed {seed}"));
    }
}

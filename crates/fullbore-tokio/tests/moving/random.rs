//! Random transfers with everything at once: urgent bytes, messages in error queues, half closes and dropped futures.
//! Every byte that was sent is at the other side, in flight, or in the source, in order.
//!
//! `FULLBORE_TEST_TRANSFERS=10000` makes that many transfers; the default is 1000.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fullbore_tokio::{Guarantee, Options};
use rustix::net::SendFlags;
use tokio::task::yield_now;

use crate::common::ends::{content, same_bytes, tcp_pair};
use crate::common::watch;
use crate::kinds::*;

/// Whether the kernel puts a message into the error queue of this socket for what it sends.
fn set_timestamps(socket: &impl AsFd, on: bool) {
    /// `SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_ACK |
    /// SOF_TIMESTAMPING_OPT_TSONLY`: without the sent bytes, which would fill the receive buffer.
    const SENT: libc::c_int = 1 << 1 | 1 << 4 | 1 << 9 | 1 << 11;
    let value = if on { SENT } else { 0 };
    // SAFETY: the option is an int. Where it is refused, there are no messages.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        );
    }
}

/// A peer of one of the two connections, which sends a part of the content and reads.
struct Peer {
    socket: TcpStream,
    from: usize,
    sent: usize,
    to_send: usize,
    got: Vec<u8>,
    has_ended: bool,
    is_tcp: bool,
    has_sent_urgent: bool,
}

impl Peer {
    fn new(socket: TcpStream, from: usize, to_send: usize, is_tcp: bool) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self {
            socket,
            from,
            sent: 0,
            to_send,
            got: Vec::new(),
            has_ended: false,
            is_tcp,
            has_sent_urgent: false,
        }
    }

    /// Sends some bytes, an urgent one between them, and its end after the last.
    fn send(&mut self, random: &mut fastrand::Rng) {
        if self.sent < self.to_send {
            // It is not part of the stream, unless a second one follows before it was passed.
            if self.is_tcp && !self.has_sent_urgent && random.u8(..4) == 0 {
                let sent = rustix::net::send(&self.socket, b"!", SendFlags::OOB);
                self.has_sent_urgent = sent.is_ok();
            }
            let most = (self.to_send - self.sent).min(amount(random));
            let at = self.from + self.sent;
            match self.socket.write(&content()[at..at + most]) {
                Ok(n) => self.sent += n,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        if self.sent == self.to_send && !self.has_ended {
            self.has_ended = true;
            self.socket.shutdown(Shutdown::Write).unwrap();
        }
    }

    fn read(&mut self, random: &mut fastrand::Rng) {
        let mut room = vec![0; amount(random)];
        match self.socket.read(&mut room) {
            Ok(n) => self.got.extend_from_slice(&room[..n]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }
}

fn amount(random: &mut fastrand::Rng) -> usize {
    let most = [10, 5_000, 60_000, 300_000][random.usize(..4)];
    random.usize(1..=most)
}

async fn transfer(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    // Over TCP, no more than fits into the buffers at first: once one has overflowed, the kernel does not always open
    // the window again, whatever reads the socket (seen on Linux 6.18 with read(2) alone).
    let is_tcp = random.u8(..3) > 0;
    let most = if is_tcp { 50_000 } else { 1_000_000 };
    let pair = || match is_tcp {
        true => tcp_pair(),
        false => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (OwnedFd::from(ours).into(), OwnedFd::from(theirs).into())
        }
    };
    let ((a, near), (b, far)) = (pair(), pair());
    let mut stamped = match is_tcp && random.bool() {
        true => vec![a.try_clone().unwrap(), b.try_clone().unwrap()],
        false => Vec::new(),
    };
    for socket in &stamped {
        set_timestamps(socket, true);
    }
    let len = |random: &mut fastrand::Rng| [0, 1_000, most / 3, most][random.usize(..4)];
    let mut near = Peer::new(near, 0, len(&mut random), is_tcp);
    let mut far = Peer::new(far, 2_000_000, len(&mut random), is_tcp);
    let guarantee = match random.u8(..3) {
        0 => Guarantee::Snapshot,
        _ => Guarantee::Reference,
    };
    let options = Options::new().guarantee(guarantee);
    let mut both = options.copy_bidirectional(registered(a.into()), registered(b.into()));
    let mut report = None;
    while report.is_none() {
        let turns = random.u32(..20);
        let peers = async {
            for _ in 0..turns {
                near.send(&mut random);
                far.send(&mut random);
                near.read(&mut random);
                far.read(&mut random);
                yield_now().await;
            }
        };
        // Messages that nobody reads take room from the bytes to receive: the first ones are enough.
        if both.report().a_to_b.bytes + both.report().b_to_a.bytes > 0 {
            for socket in stamped.drain(..) {
                set_timestamps(&socket, false);
            }
        }
        // The future is dropped when the peers have had their turns.
        tokio::select! {
            biased;
            ended = both.run() => report = Some(ended.unwrap()),
            () = peers => {}
        }
    }
    let (_, _, under_way) = both.into_parts().unwrap();
    assert!(under_way.a_to_b.is_empty() && under_way.b_to_a.is_empty());
    for peer in [&mut near, &mut far] {
        peer.socket.set_nonblocking(false).unwrap();
        peer.socket.read_to_end(&mut peer.got).unwrap();
    }
    let report = report.unwrap();
    assert_eq!(report.a_to_b.bytes, near.sent as u64, "seed {seed}");
    assert_eq!(report.b_to_a.bytes, far.sent as u64, "seed {seed}");
    for (from, to) in [(&near, &far), (&far, &near)] {
        assert_eq!(from.sent, from.to_send, "seed {seed}");
        let sent = &content()[from.from..from.from + from.sent];
        same_bytes(&to.got, sent, &format!("seed {seed}"));
    }
}

#[test]
fn random_transfers_deliver_what_was_sent() {
    let _watch = watch("random transfers");
    let tries = std::env::var("FULLBORE_TEST_TRANSFERS").map_or(1000, |n| n.parse().unwrap());
    let runtime = runtime();
    for seed in 0..tries {
        runtime.block_on(transfer(seed));
    }
}

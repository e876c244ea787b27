//! Both directions of a connection, some of whose system calls fail: each byte is known to be in one place, a peer sees
//! an end only after all bytes, and what failed for lack of memory goes on.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use fullbore_tokio::{Both, Duplex, Ended, Failure, Guarantee, Options, UnderWay};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use crate::case::{Failing, Faults, LEN, named};
use crate::common::calls::judging_by_arguments;
use crate::common::ends::{content, same_bytes, tcp_pair};
use crate::common::watch;
use crate::kinds::*;

const READ: &[libc::c_long] = &[libc::SYS_read];
const WRITE: &[libc::c_long] = &[libc::SYS_write, libc::SYS_sendto];
const SPLICE: &[libc::c_long] = &[libc::SYS_splice];

/// The bytes that the peer of one side sends.
fn sent_by(side: usize) -> &'static [u8] {
    &content()[side * 4099..][..LEN]
}

/// One side of a connection: the socket that a transfer has, and the peer's threads.
struct Connection {
    near: OwnedFd,
    sending: JoinHandle<()>,
    receiving: JoinHandle<Vec<u8>>,
    /// Whether the transfer has been taken apart, and may be seen to end.
    is_over: Arc<AtomicBool>,
}

fn connection(is_tcp: bool, side: usize) -> Connection {
    let (near, peer): (OwnedFd, UnixStream) = if is_tcp {
        let (near, peer) = tcp_pair();
        // The calls of a stream that are used here are the same for both families.
        (near.into(), OwnedFd::from(peer).into())
    } else {
        let (near, peer) = UnixStream::pair().unwrap();
        (near.into(), peer)
    };
    let mut writer = peer.try_clone().unwrap();
    let sending = thread::spawn(move || {
        // It fails when the near side is dropped.
        let _ = writer.write_all(sent_by(side));
        let _ = writer.shutdown(Shutdown::Write);
    });
    let is_over = Arc::<AtomicBool>::default();
    let over = is_over.clone();
    let receiving = thread::spawn(move || {
        let mut bytes = Vec::with_capacity(LEN);
        // A socket that is dropped with bytes to read is reset.
        let ended = (&peer).read_to_end(&mut bytes);
        let is_whole = ended.is_ok() && bytes.len() == LEN;
        assert!(is_whole || over.load(Ordering::SeqCst), "an end too early");
        bytes
    });
    Connection {
        near,
        sending,
        receiving,
        is_over,
    }
}

type Ran = (Vec<Failure<Both>>, Both, bool, UnderWay);

/// Runs a transfer until it succeeds, or fails although no call has.
async fn ran<D: Duplex>(faults: &Faults, guarantee: Guarantee, a: D, b: D) -> Ran {
    let mut transfer = Options::new().guarantee(guarantee).copy_bidirectional(a, b);
    let (failures, succeeded) = faults.rerun(async || transfer.run().await).await;
    let report = transfer.report();
    let under_way = transfer.into_parts().unwrap().2;
    (failures, report, succeeded.is_some(), under_way)
}

/// Runs both directions with such failures and checks where every byte is. Returns whether it succeeded in the end;
/// `None` where calls cannot be made to fail.
fn check(
    is_tcp: bool,
    guarantee: Guarantee,
    calls: &'static [libc::c_long],
    failing: Failing,
    errno: Errno,
) -> Option<bool> {
    let what = format!("tcp {is_tcp}, {guarantee:?}, {calls:?}, {failing:?}, {errno:?}");
    let sides = [0, 1].map(|side| connection(is_tcp, side));
    let faults = Faults::default();
    let mut made = 0;
    let verdict = |arguments: [u64; 6]| {
        // The runtime wakes itself by an eventfd, and what is read from /proc is kept for all other tests.
        let name = named(arguments[0]);
        let is_ours = !name.contains("eventfd") && !name.starts_with("/proc/");
        if !is_ours || !faults.armed.load(Ordering::SeqCst) {
            return None;
        }
        made += 1;
        let fails = failing.is_due(made);
        if fails {
            faults.failed.fetch_add(1, Ordering::SeqCst);
        }
        fails.then_some(errno)
    };
    let [a, b] = [0, 1].map(|side| sides[side].near.try_clone().unwrap());
    let job = || {
        runtime().block_on(async {
            match is_tcp {
                true => ran(&faults, guarantee, tcp(a), tcp(b)).await,
                false => ran(&faults, guarantee, unix(a), unix(b)).await,
            }
        })
    };
    let (failures, both, succeeded, under_way) = judging_by_arguments(calls, verdict, job)?;
    for failure in &failures {
        let kind = Some(errno.raw_os_error());
        assert_eq!(failure.error.raw_os_error(), kind, "{what}: {failure:?}");
    }
    let mut lefts = Vec::new();
    for side in &sides {
        fcntl_setfl(&side.near, OFlags::empty()).unwrap();
        let mut left = Vec::new();
        let mut near = File::from(side.near.try_clone().unwrap());
        near.read_to_end(&mut left).unwrap();
        lefts.push(left);
        side.is_over.store(true, Ordering::SeqCst);
    }
    let mut arrived = Vec::new();
    for side in sides {
        drop(side.near);
        side.sending.join().unwrap();
        arrived.push(side.receiving.join().unwrap());
    }
    let directions = [
        (0, 1, &both.a_to_b, &under_way.a_to_b),
        (1, 0, &both.b_to_a, &under_way.b_to_a),
    ];
    for (from, to, report, under_way) in directions {
        assert_eq!(report.bytes, arrived[to].len() as u64, "{what}");
        let not_arrived = report.taken - report.bytes;
        assert_eq!(not_arrived, under_way.len() as u64, "{what}");
        let all = [&arrived[to][..], under_way, &lefts[from]].concat();
        same_bytes(&all, sent_by(from), &what);
        if succeeded {
            assert_eq!(report.ended, Ended::AtEnd, "{what}");
            assert_eq!(report.bytes, LEN as u64, "{what}");
        }
    }
    Some(succeeded)
}

/// Runs all combinations of sockets, guarantees and calls; `false` where calls cannot be made to fail.
fn all(failing: Failing, errno: Errno, mut each: impl FnMut(bool)) -> bool {
    for is_tcp in [false, true] {
        for calls in [READ, WRITE, SPLICE] {
            let by_snapshot = (calls != SPLICE).then_some(Guarantee::Snapshot);
            for guarantee in by_snapshot.into_iter().chain([Guarantee::Reference]) {
                match check(is_tcp, guarantee, calls, failing, errno) {
                    Some(succeeded) => each(succeeded),
                    None => return false,
                }
            }
        }
    }
    true
}

#[test]
fn whichever_call_fails_every_byte_of_both_directions_is_in_one_place() {
    let _watch = watch("failing calls in both directions");
    for nth in 1..=6 {
        if !all(Failing::Nth(nth), Errno::IO, |_| {}) {
            return;
        }
    }
}

#[test]
fn both_directions_go_on_after_a_lack_of_memory() {
    let _watch = watch("lack of memory in both directions");
    for failing in [Failing::Nth(1), Failing::Nth(2), Failing::Every(2)] {
        all(failing, Errno::NOMEM, |succeeded| assert!(succeeded));
    }
}

#[test]
fn both_directions_make_interrupted_calls_again() {
    let _watch = watch("interrupted calls in both directions");
    all(Failing::Every(2), Errno::INTR, |succeeded| {
        assert!(succeeded)
    });
}

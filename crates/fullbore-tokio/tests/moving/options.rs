//! Limit, deadline, idle timeout and rate.

use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fullbore_tokio::{Ended, Guarantee, Options, Sink, Source, TransferSide};

use crate::common::calls::judging;
use crate::common::ends::{From, To, content};
use crate::common::watch;
use crate::kinds::*;

#[test]
fn a_limit_takes_no_byte_more_from_the_source() {
    let _watch = watch("limit");
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        for limit in [0, 1, 65_536, 1_000_003] {
            let source = From::Unix.open(1_200_000).unwrap();
            let sink = To::Unix.open().unwrap();
            let options = Options::new().guarantee(guarantee).limit(limit);
            let (from, to) = (source.fd.try_clone().unwrap(), sink.fd.try_clone().unwrap());
            let report = runtime()
                .block_on(async { options.copy(unix(from), unix(to)).run().await })
                .unwrap();
            assert_eq!((report.bytes, report.taken), (limit, limit));
            assert_eq!(report.ended, Ended::AtLimit);
            let (expected, rest) = source.expected.split_at(limit as usize);
            sink.close_and_compare(expected, "limit");
            let mut left = vec![0; rest.len()];
            StdUnixStream::from(source.fd.try_clone().unwrap())
                .set_nonblocking(false)
                .unwrap();
            std::fs::File::from(source.fd.try_clone().unwrap())
                .read_exact(&mut left)
                .unwrap();
            assert!(left == rest, "limit {limit}");
            source.close();
        }
    }
}

#[test]
fn a_deadline_and_an_idle_timeout_end_a_wait_and_another_run_goes_on() {
    let _watch = watch("timeouts");
    let (near, mut peer) = StdUnixStream::pair().unwrap();
    let (to, mut reader) = StdUnixStream::pair().unwrap();
    let pause = Duration::from_millis(30);
    runtime().block_on(async {
        let (mut near, mut to) = (unix(near.into()), unix(to.into()));
        let began = Instant::now();
        let mut waits = Options::new()
            .deadline(began + pause)
            .copy(&mut near, &mut to);
        let report = waits.run().await.unwrap();
        assert_eq!(report.ended, Ended::TimedOut);
        assert_eq!(report.slow(), Some(TransferSide::Source));
        assert!(began.elapsed() >= pause);
        drop(waits);
        let began = Instant::now();
        let mut waits = Options::new()
            .idle_timeout(pause)
            .copy_bidirectional(near, to);
        let both = waits.run().await.unwrap();
        assert_eq!(
            (both.a_to_b.ended, both.b_to_a.ended),
            (Ended::Idle, Ended::Idle)
        );
        assert!(began.elapsed() >= pause);
        peer.write_all(b"late").unwrap();
        let both = waits.run().await.unwrap();
        assert_eq!((both.a_to_b.bytes, both.a_to_b.ended), (4, Ended::Idle));
    });
    let mut got = [0; 4];
    reader.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"late");
}

#[test]
fn a_deadline_leaves_the_runtime_to_others_while_a_thread_reads_a_file() {
    let _watch = watch("a deadline during a read");
    let source = From::File.open(1000).unwrap();
    let sink = To::Unix.open().unwrap();
    let (from, to) = (source.fd.try_clone().unwrap(), sink.fd.try_clone().unwrap());
    let (release, released) = mpsc::channel::<()>();
    let pause = Duration::from_millis(50);
    // Each read blocks until the task that polls the transfer releases it.
    let wait = |_| released.recv().err().and(None);
    let ran = judging(&[libc::SYS_read], wait, move || {
        runtime().block_on(async {
            let options = Options::new().deadline(Instant::now() + pause);
            let mut transfer = options.copy(file(from), unix(to));
            let mut run = Box::pin(transfer.run());
            // After this timeout, the deadline has been noticed, and the read still waits.
            let ran = tokio::time::timeout(pause * 2, &mut run).await;
            assert!(ran.is_err(), "{ran:?}");
            drop(release);
            let report = run.await.unwrap();
            (report, transfer.into_parts().unwrap().2)
        })
    });
    let Some((report, under_way)) = ran else {
        return;
    };
    assert_eq!(report.ended, Ended::TimedOut);
    assert_eq!((report.bytes, report.taken), (0, 1000));
    assert!(under_way == source.expected);
    sink.close_and_compare(&[], "nothing");
    source.close();
}

#[test]
fn bytes_that_arrive_put_off_the_idle_timeout() {
    let _watch = watch("idle timeout");
    let (near, mut peer) = StdUnixStream::pair().unwrap();
    let sink = To::Unix.open().unwrap();
    let to = sink.fd.try_clone().unwrap();
    let pause = Duration::from_secs(2);
    let sending = thread::spawn(move || {
        let began = Instant::now();
        while began.elapsed() < pause + pause / 2 {
            peer.write_all(b"x").unwrap();
            thread::sleep(pause / 100);
        }
    });
    let report = runtime().block_on(async {
        let options = Options::new().idle_timeout(pause);
        options
            .copy(unix(near.into()), unix(to))
            .run()
            .await
            .unwrap()
    });
    sending.join().unwrap();
    // On a machine that stalled for two seconds, it was idle.
    if report.ended == Ended::AtEnd {
        assert!(report.elapsed >= pause + pause / 2);
    }
    sink.close_and_compare(&vec![b'x'; report.bytes as usize], "idle");
}

#[test]
fn no_more_bytes_come_than_the_rate_allows() {
    let _watch = watch("rate");
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        let source = From::File.open(500_000).unwrap();
        let sink = To::Unix.open().unwrap();
        let (from, to) = (source.fd.try_clone().unwrap(), sink.fd.try_clone().unwrap());
        let rate = NonZero::new(1_000_000).unwrap();
        let began = Instant::now();
        let report = runtime().block_on(async {
            let options = Options::new().guarantee(guarantee).rate(rate);
            options.copy(file(from), unix(to)).run().await.unwrap()
        });
        // Unused rate accumulates, and the last bytes are not waited for.
        assert!(began.elapsed() >= Duration::from_millis(350), "{report:?}");
        assert_eq!(report.bytes, 500_000);
        sink.close_and_compare(&content()[..500_000], "rate");
        source.close();
    }
}

/// Moves bytes between two ends, of which these are other descriptors, after `O_NONBLOCK` was cleared.
async fn moved_after_clearing<S: Source, W: Sink>(
    mut transfer: fullbore_tokio::Transfer<S, W>,
    shared: [&std::os::fd::OwnedFd; 2],
    mut peer: StdUnixStream,
) {
    for fd in shared {
        rustix::fs::fcntl_setfl(fd, rustix::fs::OFlags::empty()).unwrap();
    }
    // The next piece is sent only if the transfer does not block the thread while it has none.
    let peers = async {
        for piece in content()[..140_000].chunks(20_000) {
            peer.write_all(piece).unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(peer);
    };
    let (ran, ()) = tokio::join!(transfer.run(), peers);
    assert_eq!(ran.unwrap().bytes, 140_000);
}

/// Another process that shares the description may clear `O_NONBLOCK`. A call that waited would stop the whole runtime.
#[test]
fn a_transfer_whose_descriptors_wait_meanwhile_stops_no_other_task() {
    let _watch = watch("o_nonblock is cleared");
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        for is_tcp in [false, true] {
            let (ours, theirs) = match is_tcp {
                false => {
                    let (ours, theirs) = StdUnixStream::pair().unwrap();
                    (ours.into(), std::os::fd::OwnedFd::from(theirs))
                }
                true => {
                    let (ours, theirs) = crate::common::ends::tcp_pair();
                    (ours.into(), theirs.into())
                }
            };
            let sink = if is_tcp { To::Tcp } else { To::Unix }.open().unwrap();
            let fds: (std::os::fd::OwnedFd, _) = (ours, sink.fd.try_clone().unwrap());
            let shared = (fds.0.try_clone().unwrap(), fds.1.try_clone().unwrap());
            runtime().block_on(async {
                let options = Options::new().guarantee(guarantee);
                let (shared, peer) = ([&shared.0, &shared.1], theirs.into());
                match is_tcp {
                    true => {
                        let transfer = options.copy(tcp(fds.0), tcp(fds.1));
                        moved_after_clearing(transfer, shared, peer).await;
                    }
                    false => {
                        let transfer = options.copy(unix(fds.0), unix(fds.1));
                        moved_after_clearing(transfer, shared, peer).await;
                    }
                }
            });
            drop(shared);
            sink.close_and_compare(&content()[..140_000], "o_nonblock is cleared");
        }
    }
}

//! What a child of fork(2) may do with its copies, and that it can do no harm to its parent.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use fullbore_tokio::{Consumer, Error, Guarantee, Options, Pool, Producer, Report};
use tokio::io::{AsyncBufRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::common::watch;
use crate::kinds::*;

/// Runs `child` in a forked process, and checks that it succeeds, while `parent` runs here.
fn beside_a_child(child: impl FnOnce(), parent: impl FnOnce()) {
    // SAFETY: glibc's allocator survives a fork, and the child ends by _exit without returning here.
    let process = unsafe { libc::fork() };
    assert!(process >= 0);
    if process == 0 {
        let code = i32::from(catch_unwind(AssertUnwindSafe(child)).is_err());
        // SAFETY: ends the process without running its destructors.
        unsafe { libc::_exit(code) };
    }
    parent();
    let mut status = 0;
    // SAFETY: writes only to `status`.
    assert_eq!(unsafe { libc::waitpid(process, &mut status, 0) }, process);
    assert_eq!(status, 0, "the child has failed");
}

/// Moves a file of this byte by reference, and returns what arrived.
fn moved(pool: Option<&Pool>, byte: u8) -> (Vec<u8>, Report) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![byte; 200_000]).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let (near, mut far) = StdUnixStream::pair().unwrap();
    let reading = std::thread::spawn(move || {
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        got
    });
    let report = runtime().block_on(async {
        let mut options = Options::new().guarantee(Guarantee::Reference);
        if let Some(pool) = pool {
            options = options.pool(pool);
        }
        options.copy(file, unix(near.into())).run().await.unwrap()
    });
    (reading.join().unwrap(), report)
}

#[test]
fn parent_and_child_never_share_the_pipes_of_a_pool() {
    let _watch = watch("a pool in a child");
    let own = Pool::options().pipe_size(65_536).kept(4).create();
    for pool in [None, Some(&own)] {
        // The pool keeps a pipe from now on.
        assert!(moved(pool, b'W').1.spliced > 0);
        let transfers = |byte: u8| {
            move || {
                for _ in 0..50 {
                    let (got, report) = moved(pool, byte);
                    assert!(got == [byte; 200_000], "{} bytes, {report}", got.len());
                }
            }
        };
        beside_a_child(transfers(b'C'), transfers(b'P'));
    }
    assert!(own.pipe_bytes() <= 65_536 * 4);
}

/// Returns a socket of this side, and its peer.
fn pair() -> (OwnedFd, StdUnixStream) {
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    (ours.into(), theirs)
}

#[test]
fn a_child_cannot_run_a_transfer_of_its_parent() {
    let _watch = watch("a transfer in a child");
    let runtime = runtime();
    let ((from, mut sender_peer), (to, mut reader_peer)) = (pair(), pair());
    let sent = &crate::common::ends::content()[..1_000_000];
    let _entered = runtime.enter();
    let options = Options::new().guarantee(Guarantee::Reference);
    let mut transfer = Some(options.copy(unix(from), unix(to)));
    let counters = transfer.as_ref().unwrap().counters();
    let writing = std::thread::spawn(move || sender_peer.write_all(sent).unwrap());
    // Until the sink is full, and bytes are in a private pipe or in a buffer.
    runtime.block_on(async {
        let mut run = Box::pin(transfer.as_mut().unwrap().run());
        loop {
            let before = counters.taken();
            let pause = std::time::Duration::from_millis(50);
            let ended = tokio::time::timeout(pause, &mut run).await;
            assert!(ended.is_err());
            if counters.taken() > counters.bytes() && counters.taken() == before {
                break;
            }
        }
    });
    let mut parents = transfer.take();
    let mut childs = parents.take();
    // Both processes have it, each its own copy.
    let mut kept = None;
    beside_a_child(
        || {
            let mut transfer = childs.take().unwrap();
            let polled = std::pin::pin!(transfer.run())
                .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            let std::task::Poll::Ready(Err(failure)) = polled else {
                panic!("{polled:?}");
            };
            assert!(matches!(failure.error, Error::Invalid(_)), "{failure}");
            assert!(failure.report.taken > failure.report.bytes);
            // Dropping the sockets would take them from the parent's epoll(7).
            std::mem::forget(transfer);
        },
        || (),
    );
    std::mem::swap(&mut kept, &mut childs);
    let mut transfer = kept.unwrap();
    let reading = std::thread::spawn(move || {
        let mut got = Vec::new();
        reader_peer.read_to_end(&mut got).unwrap();
        got
    });
    let report = runtime.block_on(transfer.run()).unwrap();
    drop(transfer);
    writing.join().unwrap();
    assert_eq!(report.bytes, sent.len() as u64);
    assert!(reading.join().unwrap() == sent);
}

#[test]
fn a_child_cannot_use_the_ends_in_memory_of_its_parent() {
    let _watch = watch("memory ends in a child");
    let runtime = runtime();
    let _entered = runtime.enter();
    let pipe = fullbore::Pipe::new().unwrap();
    let mut out = Some(Producer::new(sender(pipe.writer)).unwrap());
    let mut input = Some(Consumer::new(receiver(pipe.reader)).unwrap());
    runtime.block_on(async { out.as_mut().unwrap().write_all(b"once").await.unwrap() });
    beside_a_child(
        || {
            let (mut out, mut input) = (out.take().unwrap(), input.take().unwrap());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let flushed = std::pin::Pin::new(&mut out).poll_flush(&mut context);
            assert!(matches!(flushed, Poll::Ready(Err(_))), "{flushed:?}");
            let filled = std::pin::Pin::new(&mut input).poll_fill_buf(&mut context);
            assert!(matches!(filled, Poll::Ready(Err(_))), "{filled:?}");
            std::mem::forget((out, input));
        },
        || (),
    );
    let got = runtime.block_on(async {
        out.as_mut().unwrap().flush().await.unwrap();
        drop(out.take());
        let mut got = Vec::new();
        input.take().unwrap().read_to_end(&mut got).await.unwrap();
        got
    });
    assert_eq!(got, b"once");
}

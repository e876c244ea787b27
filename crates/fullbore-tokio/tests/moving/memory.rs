//! Bytes from memory into pipes and sockets, and back.

use fullbore_tests::skipped;
use fullbore_tokio::{Consumer, Producer, Sink, Source};
use rustix::param::page_size;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::common::ends::{content, same_bytes, tcp_pair};
use crate::common::watch;
use crate::kinds::*;

/// Sends and reads the content in pieces of random sizes.
async fn sent_and_read<W: Sink + Unpin, S: Source + Unpin>(sink: W, source: S, seed: u64) {
    let all = &content()[..1_500_000];
    let sending = async {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut out = Producer::new(sink).unwrap();
        let mut left = all;
        while !left.is_empty() {
            let most = [10, 5000, 300_000][random.usize(..3)];
            let (now, rest) = left.split_at(random.usize(1..=most).min(left.len()));
            out.write_all(now).await.unwrap();
            left = rest;
            if random.u8(..16) == 0 {
                out.flush().await.unwrap();
            }
        }
        out.shutdown().await.unwrap();
        let (sink, unsent) = out.into_parts();
        assert!(unsent.is_empty());
        drop(sink);
    };
    let reading = async {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut input = Consumer::new(source).unwrap();
        let mut got = Vec::new();
        loop {
            let begun = got.len();
            if random.bool() {
                let bytes = input.fill_buf().await.unwrap();
                let n = bytes.len().min(random.usize(1..100_000));
                got.extend_from_slice(&bytes[..n]);
                input.consume(n);
            } else {
                let mut room = vec![0; [1, 5000, 300_000][random.usize(..3)]];
                let n = input.read(&mut room).await.unwrap();
                got.extend_from_slice(&room[..n]);
            }
            if got.len() == begun {
                break;
            }
        }
        got
    };
    let ((), got) = tokio::join!(sending, reading);
    same_bytes(&got, all, &format!("seed {seed}"));
}

#[test]
fn what_is_written_into_one_end_is_read_from_the_other() {
    let _watch = watch("memory");
    runtime().block_on(async {
        for seed in 0..10 {
            let pipe = fullbore::Pipe::new().unwrap();
            sent_and_read(sender(pipe.writer), receiver(pipe.reader), seed).await;
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            sent_and_read(unix(ours.into()), unix(theirs.into()), seed).await;
            let (ours, theirs) = tcp_pair();
            sent_and_read(tcp(ours.into()), registered(theirs.into()), seed).await;
        }
    });
}

#[test]
fn what_a_dropped_write_has_not_accepted_is_not_sent() {
    let _watch = watch("a dropped write");
    runtime().block_on(async {
        let pipe = fullbore::Pipe::new().unwrap();
        let mut out = Producer::new(sender(pipe.writer)).unwrap();
        let mut accepted = 0;
        // Until the pipe is full.
        while let Some(n) = tokio::select! {
            biased;
            n = out.write(&content()[accepted..accepted + 50_000]) => Some(n.unwrap()),
            () = tokio::task::yield_now() => None,
        } {
            accepted += n;
        }
        let mut input = Consumer::new(receiver(pipe.reader)).unwrap();
        let reading = async {
            let mut got = Vec::new();
            input.read_to_end(&mut got).await.unwrap();
            got
        };
        let finishing = async {
            out.flush().await.unwrap();
            drop(out);
        };
        let (got, ()) = tokio::join!(reading, finishing);
        same_bytes(&got, &content()[..accepted], "accepted");
    });
}

/// Runs `work`, whose end is always ready, and returns whether other tasks of the runtime got a turn meanwhile.
async fn lets_others_run(work: impl Future<Output = ()>) -> bool {
    let mut turns = 0;
    let others = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = work => {}
        () = others => {}
    }
    turns > 0
}

#[test]
fn an_end_that_is_always_ready_leaves_turns_to_other_tasks() {
    const CALLS: usize = 250;
    let _watch = watch("always ready");
    runtime().block_on(async {
        let pipe = fullbore::Pipe::new().unwrap();
        let mut out = Producer::new(sender(pipe.writer)).unwrap();
        out.write_all(b"x").await.unwrap();
        out.flush().await.unwrap();
        let sending = async {
            for _ in 0..CALLS {
                out.write_all(b"x").await.unwrap();
                out.flush().await.unwrap();
            }
        };
        assert!(lets_others_run(sending).await, "Producer");

        // Each read gets one packet.
        let (from, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT).unwrap();
        let wanted = (CALLS + 1).next_power_of_two() * page_size();
        if fcntl_setpipe_size(&writer, wanted).is_err() {
            return skipped("a pipe with room for many packets was refused");
        }
        for _ in 0..=CALLS {
            rustix::io::write(&writer, b"x").unwrap();
        }
        let mut input = Consumer::new(receiver(from)).unwrap();
        let mut byte = [0];
        input.read_exact(&mut byte).await.unwrap();
        let reading = async {
            for _ in 0..CALLS {
                input.read_exact(&mut byte).await.unwrap();
            }
        };
        assert!(lets_others_run(reading).await, "Consumer");
    });
}

#[test]
fn a_regular_file_is_refused_because_its_calls_wait() {
    let error =
        runtime().block_on(async { Producer::new(tempfile::tempfile().unwrap()).unwrap_err() });
    assert!(error.to_string().contains("tokio::fs"), "{error}");
}

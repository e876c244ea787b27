//! What is counted while a slow reader is waited for: all bytes that have arrived. A call that slept with a part of its
//! bytes in the pipe would show no progress for as long as it sleeps.

use std::fs::File;
use std::io::{ErrorKind, Seek};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::MIB;
use crate::common::ends::{fifo, tcp_pair};
use fullbore::{
    Buffer, Guarantee, Pipe, TransferFailure, TransferOptions, TransferReport, tee::Policy,
};

/// Bytes that the reader takes at a time.
const PIECE: usize = 4096;

/// The bytes that may have arrived uncounted in a socket, which tells only roughly for how many it has room.
const ROUGHLY: u64 = MIB as u64;

/// Reads piece by piece, and waits after each until all bytes that have arrived, but for `uncounted`, are counted: in
/// the beginning, and after `fast` bytes, when the sender knows its reader. `under_way` tells how many bytes have
/// arrived and cannot be read yet.
fn read_slowly(
    reader: impl AsFd,
    (counted, uncounted): (&AtomicU64, u64),
    fast: usize,
    under_way: impl Fn() -> u64,
) {
    let mut piece = vec![0; MIB];
    let mut read = 0;
    let mut take = |most: usize| {
        let n = rustix::io::read(&reader, &mut piece[..most]).unwrap() as u64;
        assert_ne!(n, 0);
        read += n;
        read
    };
    for _ in 0..2 {
        for _ in 0..64 {
            let read = take(PIECE);
            let began = Instant::now();
            loop {
                let queued = rustix::io::ioctl_fionread(&reader).unwrap();
                let arrived = read + queued + under_way();
                let counted = counted.load(Ordering::SeqCst);
                let is_full = uncounted > 0 || arrived > read + PIECE as u64;
                if is_full && counted <= arrived && arrived - counted <= uncounted {
                    break;
                }
                let waited = began.elapsed();
                assert!(waited.as_secs() < 30, "{counted} of {arrived} after {read}");
                thread::sleep(Duration::from_micros(200));
            }
        }
        let until = take(PIECE) + fast as u64;
        while take(MIB) < until {}
    }
}

/// Runs a transfer of zeros into `sink` while `read` reads, which gets the counter.
fn while_counted<Sink: AsFd + Send>(
    sink: Sink,
    options: TransferOptions,
    source: File,
    read: impl FnOnce(&AtomicU64) + Send,
) -> Result<TransferReport, TransferFailure> {
    let counted = AtomicU64::new(0);
    let mut transfer = options.open(source, sink);
    thread::scope(|scope| {
        scope.spawn(|| read(&counted));
        transfer.run_with(|progress| {
            counted.store(progress.bytes, Ordering::SeqCst);
            ControlFlow::Continue(())
        })
    })
}

fn zeros() -> File {
    File::open("/dev/zero").unwrap()
}

/// A file that is long enough for the test.
fn long_file() -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.set_len(200 * MIB as u64).unwrap();
    file.rewind().unwrap();
    file
}

fn assert_closed(outcome: Result<TransferReport, TransferFailure>) {
    let error = std::io::Error::from(outcome.unwrap_err().error).kind();
    assert!(
        matches!(error, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
        "{error:?}"
    );
}

#[test]
fn every_byte_in_a_pipe_is_counted_whatever_its_size_and_the_way() {
    for (pipe_size, plain) in [(0, false), (MIB, false), (0, true), (MIB, true)] {
        let Pipe { reader, writer } = Pipe::new().unwrap();
        assert_closed(while_counted(
            writer,
            TransferOptions::new().pipe_size(pipe_size).plain(plain),
            zeros(),
            |counted| read_slowly(reader, (counted, 0), 40 * MIB, || 0),
        ));
    }
}

#[test]
fn every_byte_in_a_fifo_is_counted() {
    let (reader, writer) = fifo();
    assert_closed(while_counted(
        writer,
        TransferOptions::new(),
        zeros(),
        |counted| read_slowly(reader, (counted, 0), 40 * MIB, || 0),
    ));
}

#[test]
fn what_is_not_counted_in_a_socket_is_no_more_than_a_pipe_holds() {
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        let (reader, writer) = UnixStream::pair().unwrap();
        assert_closed(while_counted(
            writer,
            TransferOptions::new().guarantee(guarantee),
            long_file(),
            |counted| read_slowly(reader, (counted, ROUGHLY), MIB, || 0),
        ));
        let (reader, writer) = tcp_pair();
        let sender = writer.try_clone().unwrap();
        assert_closed(while_counted(
            writer,
            TransferOptions::new().guarantee(guarantee),
            long_file(),
            |counted| {
                let unacknowledged = || fullbore_linux::unacknowledged(sender.as_fd()).unwrap_or(0);
                read_slowly(reader, (counted, ROUGHLY), MIB, || unacknowledged() as u64);
                let _ = sender.shutdown(std::net::Shutdown::Both);
            },
        ));
    }
}

#[test]
fn every_byte_that_a_buffer_has_written_is_counted() {
    let Pipe { reader, writer } = Pipe::new().unwrap();
    let counted = AtomicU64::new(0);
    let mut buffer = Buffer::new(zeros(), [(writer, Policy::FAIL_ALL)]);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| read_slowly(reader, (&counted, 0), 40 * MIB, || 0));
        buffer.run_with(Duration::from_millis(1), |level| {
            counted.store(level.taken - level.held, Ordering::SeqCst);
        })
    });
    assert!(outcome.is_err());
}

//! What happens to bytes after they were moved. A *snapshot* stays right when its pages are written to again, at the
//! source or behind the sink. A *reference* does not, which shows that these tests can fail.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::ends::{content, memfd, same_bytes, tcp_pair};
use crate::common::*;
use fullbore::{
    EndReason, Guarantee, Pages, Pipe, PipeEnd, Producer, ProducerOptions, Transfer,
    TransferOptions, TransferReport, Way,
};
use fullbore_linux::vmsplice_shares;
use rustix::pipe::{IoSliceRaw, SpliceFlags};

/// The length of a stream from pipe to pipe: many laps of all reused memory.
const BYTES: u64 = 256 << 20;

/// The length for tests that change or check single pages.
const FEWER: u64 = 64 << 20;

/// Gives the pages of two buffers to a pipe that holds one of them, and reuses a buffer once the other fills the pipe,
/// which is right only for a reader that copies.
fn double_buffer(sink: OwnedFd, bytes: u64) {
    let half = 64 * 1024;
    let pipe = PipeEnd::new(sink.as_fd()).unwrap();
    assert_eq!(pipe.resize(half).unwrap(), half);
    let mut memory = Pages::new(2 * half).unwrap();
    let mut at = 0;
    while at < bytes {
        for buffer in memory.chunks_mut(half) {
            fill(buffer, at);
            let mut left: &[u8] = buffer;
            while !left.is_empty() {
                let slice = IoSliceRaw::from_slice(left);
                // SAFETY: the pipe keeps the pages as long as a reader can see them; the test intends that they change
                // under a reader.
                let n = unsafe { rustix::pipe::vmsplice(&sink, &[slice], SpliceFlags::empty()) };
                left = &left[n.unwrap()..];
            }
            at += half as u64;
        }
    }
    // The last two buffers may be unmapped: the pages of a mapping are never reused while a pipe refers to them.
}

/// Sends the stream from pages that are reused as soon as the pipe no longer refers to them.
fn recycle(sink: OwnedFd, bytes: u64) {
    // The readers of the pipe must copy, which is tested here.
    let mut out: Producer<OwnedFd> = ProducerOptions::new()
        .chunk(64 * 1024)
        .way(Way::Recycle)
        .open(sink)
        .unwrap();
    send(&mut out, 0, bytes, 64 * 1024).unwrap();
    out.finish().unwrap();
}

type Make = fn(OwnedFd, u64);
const PRODUCERS: [(&str, Make); 2] = [("two buffers", double_buffer), ("recycle", recycle)];

/// Moves the bytes of `source` into a new pipe, and returns its read end.
fn moved_on(source: OwnedFd, guarantee: Guarantee) -> (OwnedFd, JoinHandle<TransferReport>) {
    let pipe = Pipe::new().unwrap();
    let moving = thread::spawn(move || {
        let capacity = || {
            fullbore_linux::pipe::of(&source)
                .unwrap()
                .map(|pipe| pipe.capacity().unwrap())
        };
        let before = capacity();
        let report = TransferOptions::new()
            .guarantee(guarantee)
            .open(&source, pipe.writer)
            .run()
            .unwrap();
        let after = capacity();
        // The pipe between two transfers is the output of the first, which grows it. A producer asks for less than a new
        // pipe has where base pages have 64 KiB.
        assert!(before <= after || fullbore_linux::page_size() > 16 * 1024);
        report
    });
    (pipe.reader, moving)
}

/// Reads only when the pipe has been full for a while, and so sees later changes of the bytes.
struct Slow {
    pauses: u32,
}

impl Slow {
    fn drain(mut self, source: OwnedFd, mut each: impl FnMut(&[u8])) -> u64 {
        let mut buf = vec![0; 2 * MIB];
        let mut total = 0;
        loop {
            if self.pauses > 0 {
                self.pauses -= 1;
                thread::sleep(Duration::from_millis(2));
            }
            match rustix::io::read(&source, &mut buf[..]).unwrap() {
                0 => return total,
                n => {
                    each(&buf[..n]);
                    total += n as u64;
                }
            }
        }
    }
}

#[test]
fn a_producer_that_reuses_its_pages_is_right_behind_a_snapshot() {
    let _watch = watch("a_producer_that_reuses_its_pages_is_right_behind_a_snapshot");
    for (what, produce) in PRODUCERS {
        for transfers in [1, 3] {
            let first = Pipe::new().unwrap();
            let producing = thread::spawn(move || produce(first.writer, BYTES));
            let mut source = first.reader;
            let mut moving = Vec::new();
            for _ in 0..transfers {
                let (reader, thread) = moved_on(source, Guarantee::Snapshot);
                source = reader;
                moving.push(thread);
            }
            let mut checker = Checker::of_the_stream();
            let total = Slow { pauses: 50 }.drain(source, |bytes| checker.check(bytes));
            assert_eq!(total, BYTES, "{what}, {transfers} transfers");
            for thread in moving {
                let report = thread.join().unwrap();
                assert_eq!((report.bytes, report.ended), (BYTES, EndReason::AtEnd));
            }
            producing.join().unwrap();
        }
    }
}

#[test]
fn the_same_by_reference_is_wrong_where_the_reader_is_slow() {
    let _watch = watch("the_same_by_reference_is_wrong_where_the_reader_is_slow");
    let first = Pipe::new().unwrap();
    let producing = thread::spawn(move || double_buffer(first.writer, FEWER));
    let (source, moving) = moved_on(first.reader, Guarantee::Reference);
    let mut expected = vec![0; 2 * MIB];
    let (mut at, mut wrong) = (0, 0_u64);
    Slow { pauses: u32::MAX }.drain(source, |bytes| {
        fill(&mut expected[..bytes.len()], at);
        wrong += u64::from(bytes != &expected[..bytes.len()]);
        at += bytes.len() as u64;
    });
    assert!(
        wrong > 0,
        "this test could not tell a snapshot from a reference"
    );
    moving.join().unwrap();
    producing.join().unwrap();
}

/// Fits into a pipe that is not read, with room left.
const FITS: usize = MIB / 2;

/// Returns how many bytes of a file that was overwritten after it had been moved came out as the old ones, and as the
/// new ones.
fn overwritten(mut file: File, guarantee: Guarantee) -> (usize, usize) {
    let old = &content()[..FITS];
    let new = vec![0xFF; FITS];
    file.write_all(old).unwrap();
    file.rewind().unwrap();
    let pipe = Pipe::new().unwrap();
    let report = TransferOptions::new()
        .guarantee(guarantee)
        .open(&file, &pipe.writer)
        .run()
        .unwrap();
    assert_eq!(report.bytes, FITS as u64);
    file.write_all_at(&new, 0).unwrap();
    drop(pipe.writer);
    let mut bytes = Vec::new();
    File::from(pipe.reader).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), FITS);
    let count = |as_in: &[u8]| bytes.iter().zip(as_in).filter(|(a, b)| a == b).count();
    (count(old), count(&new))
}

#[test]
fn a_file_that_is_overwritten_later_does_not_change_a_snapshot() {
    for _ in 0..20 {
        for file in [tempfile::tempfile().unwrap(), memfd()] {
            let (old, _) = overwritten(file, Guarantee::Snapshot);
            assert_eq!(old, FITS);
        }
    }
}

#[test]
fn a_file_that_is_overwritten_later_shows_through_a_reference() {
    for file in [tempfile::tempfile().unwrap(), memfd()] {
        let (_, new) = overwritten(file, Guarantee::Reference);
        assert_eq!(new, FITS);
    }
}

/// Sends the stream by reference into a socket, and reuses the pages as soon as the kernel reports that the peer has
/// got the bytes.
fn reuse_over_socket(socket: &OwnedFd, bytes: u64) {
    let len = 64 * 1024;
    let pipe = Pipe::new().unwrap();
    let mut memory = Pages::new(len).unwrap();
    let mut at = 0;
    while at < bytes {
        fill(&mut memory, at);
        let slice = IoSliceRaw::from_slice(&memory);
        // SAFETY: a private mapping; the test intends that it changes under a reader.
        let n = unsafe { rustix::pipe::vmsplice(&pipe.writer, &[slice], SpliceFlags::empty()) };
        let mut left = n.unwrap();
        assert_eq!(left, len, "a new pipe holds as much");
        while left > 0 {
            let flags = SpliceFlags::empty();
            left -= rustix::pipe::splice(&pipe.reader, None, socket, None, left, flags).unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while unsent(socket.as_fd()) > 0 {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
        at += len as u64;
    }
}

/// Returns SIOCOUTQ: bytes that the peer has not read (unix(7)), or not acknowledged (tcp(7)).
fn unsent(socket: BorrowedFd<'_>) -> i32 {
    use std::os::fd::AsRawFd;
    let mut bytes: i32 = 0;
    // SAFETY: writes one int.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    assert_eq!(answer, 0);
    bytes
}

/// Returns whether every byte was right after it had been queued in the pipe behind the transfer for a while.
fn through_a_socket((socket, peer): (OwnedFd, OwnedFd), guarantee: Guarantee, bytes: u64) -> bool {
    let pipe = Pipe::new().unwrap();
    let sending = thread::spawn(move || reuse_over_socket(&peer, bytes));
    let moving = thread::spawn(move || {
        TransferOptions::new()
            .guarantee(guarantee)
            .open(socket, pipe.writer)
            .run()
            .unwrap()
    });
    let mut expected = vec![0; 2 * MIB];
    let (mut at, mut right) = (0, true);
    let total = Slow { pauses: 40 }.drain(pipe.reader, |bytes| {
        fill(&mut expected[..bytes.len()], at);
        right &= bytes == &expected[..bytes.len()];
        at += bytes.len() as u64;
    });
    assert_eq!(total, bytes);
    assert_eq!(moving.join().unwrap().bytes, bytes);
    sending.join().unwrap();
    right
}

fn unix_pair() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ours.into(), theirs.into())
}

#[test]
fn pages_that_come_through_a_socket_are_right_behind_a_snapshot() {
    let _watch = watch("pages_that_come_through_a_socket_are_right_behind_a_snapshot");
    assert!(through_a_socket(unix_pair(), Guarantee::Snapshot, FEWER));
}

#[test]
fn pages_that_come_through_a_socket_are_wrong_by_reference() {
    let _watch = watch("pages_that_come_through_a_socket_are_wrong_by_reference");
    let right = through_a_socket(unix_pair(), Guarantee::Reference, FEWER);
    // Kernels before 6.5 copy bytes that are spliced into a socket.
    if right {
        fullbore_tests::skipped("this kernel carries no pages through Unix sockets");
    }
}

#[test]
fn pages_that_a_reader_holds_from_a_snapshot_do_not_change() {
    let _watch = watch("pages_that_a_reader_holds_from_a_snapshot_do_not_change");
    for reader in Reader::HOLDING {
        for (_, produce) in PRODUCERS {
            let first = Pipe::new().unwrap();
            let producing = thread::spawn(move || produce(first.writer, FEWER));
            let (source, moving) = moved_on(first.reader, Guarantee::Snapshot);
            let read = reader.drain(source, Checker::of_the_stream());
            assert_eq!(read, FEWER, "{reader:?}");
            assert_eq!(moving.join().unwrap().bytes, FEWER);
            producing.join().unwrap();
        }
        // The memory that the transfer reads into is reused, too.
        let (ours, theirs) = tcp_pair();
        let sending = thread::spawn(move || {
            let mut bytes = vec![0; MIB];
            let mut theirs = theirs;
            for at in (0..FEWER).step_by(MIB) {
                fill(&mut bytes, at);
                theirs.write_all(&bytes).unwrap();
            }
        });
        let pipe = Pipe::new().unwrap();
        let moving = thread::spawn(move || Transfer::new(ours, pipe.writer).run().unwrap());
        assert_eq!(reader.drain(pipe.reader, Checker::of_the_stream()), FEWER);
        assert_eq!(moving.join().unwrap().bytes, FEWER);
        sending.join().unwrap();
    }
}

#[test]
fn what_a_receiver_keeps_of_a_snapshot_that_went_into_a_unix_socket_stays() {
    let _watch = watch("what_a_receiver_keeps_of_a_snapshot_that_went_into_a_unix_socket_stays");
    for reader in Reader::HOLDING {
        for (what, produce) in PRODUCERS {
            let first = Pipe::new().unwrap();
            let producing = thread::spawn(move || produce(first.writer, FEWER));
            let (ours, theirs) = unix_pair();
            let moving = thread::spawn(move || Transfer::new(first.reader, ours).run().unwrap());
            // The receiver passes references on, and then keeps them.
            let (source, receiving) = moved_on(theirs, Guarantee::Reference);
            let read = reader.drain(source, Checker::of_the_stream());
            assert_eq!(read, FEWER, "{reader:?}");
            let report = moving.join().unwrap();
            assert_eq!(report.bytes, FEWER);
            if gives_fresh_pages() && vmsplice_shares().is_ok_and(|shares| shares) {
                let fresh: u64 = report
                    .ways
                    .iter()
                    .filter(|(way, _)| *way == Way::Fresh)
                    .map(|(_, n)| n)
                    .sum();
                // At least one try of giving them.
                assert!(fresh > MIB as u64, "{what}: {report:?}");
            }
            assert_eq!(receiving.join().unwrap().bytes, FEWER);
            producing.join().unwrap();
        }
    }
}

#[test]
fn what_a_socket_holds_of_a_snapshot_stays_when_the_transfer_is_gone() {
    for len in [100_000, 140_000] {
        for bytes in [&content()[..len], &content()[MIB..MIB + len]] {
            let mut source = memfd();
            source.write_all(bytes).unwrap();
            source.rewind().unwrap();
            let (ours, theirs) = unix_pair();
            let report = Transfer::new(&source, ours).run().unwrap();
            assert_eq!(report.bytes, len as u64);
            source.write_all_at(&vec![0xFF; len], 0).unwrap();
            let mut memory = Pages::new(4 * MIB).unwrap();
            memory.fill(0xEE);
            let mut left = Vec::new();
            File::from(theirs).read_to_end(&mut left).unwrap();
            same_bytes(&left, bytes, "left in the socket");
        }
    }
}

#[test]
fn what_a_pipe_holds_of_a_snapshot_stays_when_the_transfer_is_gone() {
    for len in [40_000, 100_000, MIB] {
        let source = {
            let mut file = memfd();
            file.write_all(&content()[..len]).unwrap();
            file.rewind().unwrap();
            file
        };
        let (pipe, _) = fullbore_linux::pipe::with_capacity(MIB).unwrap();
        Transfer::new(&source, pipe.writer).run().unwrap();
        // Whatever memory the next ones use.
        for _ in 0..4 {
            let (other, _) = fullbore_linux::pipe::with_capacity(MIB).unwrap();
            let zeros = File::open("/dev/zero").unwrap();
            TransferOptions::new()
                .limit(MIB as u64)
                .open(zeros, other.writer)
                .run()
                .unwrap();
        }
        let mut bytes = Vec::new();
        File::from(pipe.reader).read_to_end(&mut bytes).unwrap();
        same_bytes(&bytes, &content()[..len], "left in the pipe");
    }
}

/// Pages that a splice(2) takes out of a pipe are free to their writer, which may use them again before they are copied.
#[test]
fn a_fifo_that_is_read_with_a_deadline_keeps_its_pages_until_they_are_copied() {
    let (reader, mut writer) = ends::fifo();
    let bytes = first(20_000);
    std::io::Write::write_all(&mut writer, &bytes).unwrap();
    drop(writer);
    let sink = Pipe::new().unwrap();
    let mut spliced = 0;
    let count = |_| {
        spliced += 1;
        None
    };
    let far = std::time::Instant::now() + std::time::Duration::from_secs(3600);
    let report = calls::judging(&[libc::SYS_splice], count, || {
        let mut transfer = TransferOptions::new()
            .deadline(far)
            .open(&reader, &sink.writer);
        transfer.run().unwrap()
    });
    let Some(report) = report else { return };
    assert_eq!((report.bytes, spliced), (20_000, 0));
}

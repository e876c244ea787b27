//! `Buffer`: every sink that does not fail gets every byte, at once or when a gate opens, and the source is read while
//! sinks are slow.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::targets::{self, SinkKind, SourceKind, Target};
use crate::common::*;
use fullbore::buffer::{BufferFailure, BufferReport, Gate};
use fullbore::tee::Policy;
use fullbore::{Buffer, BufferOptions, EndReason, Error, Pipe, TransferSide};

/// Memory in base pages, in huge pages, and less than is moved.
const MEMORY: [usize; 3] = [128 << 10, MIB, 16 * MIB];

/// The timeout of a test.
const LONG: Duration = Duration::from_secs(300);

/// Runs a buffer of `memory` bytes from such a source to such sinks, each of which must get every byte or be
/// `/dev/full`.
#[track_caller]
fn assert_all_get_all(source: SourceKind, sinks: &[SinkKind], len: usize, memory: usize) {
    let what = format!("{len} bytes, {source:?} to {sinks:?}, {memory} bytes of memory");
    let (fd, bytes) = source.open(len);
    let targets: Vec<Target> = sinks.iter().map(|&kind| Target::new(kind)).collect();
    let mut buffer = BufferOptions::new().memory(memory).open(
        &fd,
        targets.iter().map(|target| (target.as_fd(), Policy::DROP)),
    );
    let report = buffer.run().unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let level = report.level;
    assert!(level.most <= level.capacity && level.capacity <= memory as u64);
    assert_eq!(report.ended, EndReason::AtEnd);
    if sinks.iter().any(|&kind| kind != SinkKind::Full) {
        assert_eq!(level.taken, bytes.len() as u64, "{what}");
    }
    for (target, said) in targets.into_iter().zip(&report.sinks) {
        let kind = target.kind;
        if kind == SinkKind::Full && !bytes.is_empty() {
            let error = said.error.as_ref().expect("it is full");
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{what}");
            continue;
        }
        assert!(said.error.is_none(), "{what}: {kind:?}: {:?}", said.error);
        assert_eq!(said.bytes, bytes.len() as u64, "{what}: {kind:?}");
        if let Some(arrived) = target.arrived(bytes.len()) {
            assert_eq!(arrived.len(), bytes.len(), "{what}: {kind:?}");
            assert!(arrived == bytes, "{what}: {kind:?}: wrong bytes");
        }
    }
}

#[test]
fn a_sink_of_any_kind_gets_every_byte_of_any_source() {
    let _watch = watch("a_sink_of_any_kind_gets_every_byte_of_any_source");
    for source in [SourceKind::Pipe, SourceKind::File, SourceKind::Unix] {
        for sink in SinkKind::ALL {
            for len in [0, 1, 70_001, 2 * MIB + 4097] {
                for memory in MEMORY {
                    assert_all_get_all(source, &[sink], len, memory);
                }
            }
        }
    }
}

#[test]
fn all_sinks_get_exact_bytes_at_the_same_time() {
    let _watch = watch("all_sinks_get_exact_bytes_at_the_same_time");
    use SinkKind::{File, Full, Pipe, Unix};
    for memory in MEMORY {
        let sinks = [Pipe, File, Pipe, Full, Unix];
        assert_all_get_all(SourceKind::Pipe, &sinks, 5 * MIB + 3, memory);
    }
}

/// Writes `len` bytes of the stream in pieces of random lengths, on a separate thread.
fn writer(sink: OwnedFd, len: usize, seed: u64) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let (mut sink, mut random, mut at) = (File::from(sink), Random::new(seed), 0);
        while at < len {
            let piece = random.up_to(200_000).min(len - at);
            let mut bytes = vec![0; piece];
            fill(&mut bytes, at as u64);
            sink.write_all(&bytes).unwrap();
            at += piece;
            if random.up_to(8) == 1 {
                thread::sleep(Duration::from_micros(300));
            }
        }
    })
}

#[test]
fn readers_that_hold_pages_get_the_bytes_as_they_were() {
    let _watch = watch("readers_that_hold_pages_get_the_bytes_as_they_were");
    let readers = Reader::HOLDING.into_iter().chain(Reader::COPYING);
    for (seed, reader) in readers.enumerate() {
        for memory in [256 << 10, 8 * MIB] {
            let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
            let len = 40 * MIB + 12_345;
            let writes = writer(source.writer, len, seed as u64);
            let reads = reader.spawn(sink.reader, Checker::of_the_stream());
            let mut buffer = BufferOptions::new()
                .memory(memory)
                .open(source.reader, [(sink.writer, Policy::FAIL_ALL)]);
            let ran = buffer.run();
            drop(buffer);
            assert_eq!(ran.unwrap().level.taken, len as u64);
            writes.join().unwrap();
            assert_eq!(reads.join().unwrap(), len as u64, "{reader:?}");
        }
    }
}

#[test]
fn all_waits_move_every_byte() {
    let _watch = watch("all_waits_move_every_byte");
    for wait in ALL_WAITS {
        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let writes = writer(source.writer, 9 * MIB, 3);
        let reads = Reader::Bursty.spawn(sink.reader, Checker::of_the_stream());
        let mut buffer = BufferOptions::new()
            .memory(8 * MIB)
            .wait(wait)
            .open(source.reader, [(sink.writer, Policy::DROP)]);
        buffer.run().unwrap();
        drop(buffer);
        writes.join().unwrap();
        assert_eq!(reads.join().unwrap(), 9 * MIB as u64, "{wait:?}");
    }
}

#[test]
fn a_byte_is_passed_on_at_once() {
    let _watch = watch("a_byte_is_passed_on_at_once");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let runs = thread::spawn(move || {
        let mut buffer = Buffer::new(source.reader, [(sink.writer, Policy::DROP)]);
        buffer.run().unwrap()
    });
    let (mut there, mut here) = (File::from(source.writer), File::from(sink.reader));
    for byte in 0..100 {
        // Each byte is written only after the one before has arrived.
        there.write_all(&[byte]).unwrap();
        let mut arrived = [0];
        here.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived, [byte]);
    }
    drop(there);
    assert_eq!(runs.join().unwrap().level.taken, 100);
}

#[test]
fn the_source_goes_on_while_the_sink_takes_nothing_until_the_memory_is_full() {
    let _watch = watch("the_source_goes_on_while_the_sink_takes_nothing");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let (full, is_full) = channel();
    let runs = thread::spawn(move || {
        let mut buffer = BufferOptions::new()
            .memory(16 * MIB)
            .open(source.reader, [(sink.writer, Policy::DROP)]);
        let ran = buffer.run_with(Duration::from_millis(1), |level| {
            if level.waits_for_room {
                let _ = full.send(level.taken);
            }
        });
        ran.unwrap()
    });
    let writes = writer(source.writer, 40 * MIB, 1);
    let taken = is_full.recv_timeout(LONG).expect("it fills");
    // The sink holds less than a huge page, so none is free. Of the first page, only the bytes since the memory was
    // last empty count.
    assert!(
        (16 * MIB as u64..18 * MIB as u64).contains(&taken),
        "{taken}"
    );
    let reads = Reader::Quick.spawn(sink.reader, Checker::of_the_stream());
    writes.join().unwrap();
    assert_eq!(reads.join().unwrap(), 40 * MIB as u64);
    let level = runs.join().unwrap().level;
    assert!(level.most > level.capacity - 2 * MIB as u64);
    assert!(level.full.times >= 1 && level.full.time > Duration::ZERO);
}

#[test]
fn a_slow_sink_holds_others_back_only_once_the_memory_is_full() {
    let _watch = watch("a_slow_sink_holds_others_back_only_once_the_memory_is_full");
    let (source, slow, quick) = (
        Pipe::new().unwrap(),
        Pipe::new().unwrap(),
        Pipe::new().unwrap(),
    );
    let runs = thread::spawn(move || {
        let mut buffer = BufferOptions::new().memory(16 * MIB).open(
            source.reader,
            [(slow.writer, Policy::DROP), (quick.writer, Policy::DROP)],
        );
        buffer.run().unwrap()
    });
    let writes = writer(source.writer, 20 * MIB, 1);
    let mut here = File::from(quick.reader);
    let mut checker = Checker::of_the_stream();
    let mut bytes = vec![0; 15 * MIB];
    here.read_exact(&mut bytes).unwrap();
    checker.check(&bytes);
    let slow = Reader::Quick.spawn(slow.reader, Checker::of_the_stream());
    here.read_to_end(&mut bytes).unwrap();
    checker.check(&bytes[15 * MIB..]);
    assert_eq!(slow.join().unwrap(), 20 * MIB as u64);
    assert_eq!(bytes.len(), 20 * MIB);
    writes.join().unwrap();
    runs.join().unwrap();
}

/// A gate that lets a sink begin once so many bytes are held.
#[derive(Debug)]
struct NotBefore(u64);

impl Gate for NotBefore {
    fn may_write(&self, held: u64, _: u64) -> bool {
        held >= self.0
    }
}

/// A gate that never opens, and counts the writes.
#[derive(Debug, Default, Clone)]
struct Closed(Arc<AtomicU64>);

impl Gate for Closed {
    fn may_read(&self, held: u64, capacity: u64) -> bool {
        assert!(held <= capacity);
        false
    }

    fn may_write(&self, held: u64, capacity: u64) -> bool {
        assert!(held > 0 && held <= capacity);
        false
    }

    fn pause_after_write(&self) -> Duration {
        self.0.fetch_add(1, Ordering::Relaxed);
        Duration::from_micros(1)
    }
}

#[test]
fn a_gate_that_never_opens_delays_every_byte_and_loses_none() {
    let _watch = watch("a_gate_that_never_opens_delays_every_byte_and_loses_none");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let writes = writer(source.writer, 20 * MIB, 7);
    let reads = Reader::Quick.spawn(sink.reader, Checker::of_the_stream());
    let gate = Closed::default();
    let report = BufferOptions::new()
        .memory(MIB)
        .gate(gate.clone())
        .open(source.reader, [(sink.writer, Policy::FAIL_ALL)])
        .run()
        .unwrap();
    writes.join().unwrap();
    assert_eq!(reads.join().unwrap(), 20 * MIB as u64);
    // Nothing was written before reading had to wait.
    assert!(report.level.full.times >= 1, "{report}");
    assert_eq!(report.level.most, report.level.capacity);
    assert!(gate.0.load(Ordering::Relaxed) >= 20);
}

/// A gate that is open once, and tells each later time that it is asked.
#[derive(Debug)]
struct OpenOnce(AtomicBool, Sender<bool>);

impl Gate for OpenOnce {
    fn may_write(&self, _: u64, _: u64) -> bool {
        let is_first = !self.0.swap(true, Ordering::Relaxed);
        is_first || self.1.send(true).is_err()
    }
}

#[test]
fn a_wait_for_the_last_bytes_counts() {
    let _watch = watch("a_wait_for_the_last_bytes_counts");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let (tell, told) = channel();
    let gate = OpenOnce(AtomicBool::new(false), tell.clone());
    let runs = thread::spawn(move || {
        let buffer = BufferOptions::new().gate(gate);
        let sinks = [(sink.writer, Policy::FAIL_ALL)];
        buffer.open(source.reader, sinks).run().unwrap()
    });
    let reads = thread::spawn(move || {
        let bytes = BufReader::new(File::from(sink.reader)).bytes();
        // After the last one, nobody asks.
        let tells = bytes.inspect(|byte| tell.send(byte.is_err()).unwrap_or_default());
        tells.count()
    });
    let mut there = File::from(source.writer);
    let mut written = 0;
    // Until the sink has waited for a byte: then the gate keeps it back until the end.
    let has_waited = || told.recv().unwrap();
    loop {
        there.write_all(b"x").unwrap();
        written += 1;
        if has_waited() {
            break;
        }
    }
    drop(there);
    let report = runs.join().unwrap();
    assert_eq!(report.level.empty.times, 1, "{report}");
    assert_eq!(reads.join().unwrap(), written);
}

#[test]
fn a_sink_waits_for_the_gate() {
    let _watch = watch("a_sink_waits_for_the_gate");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let watched = sink.reader.try_clone().unwrap();
    let runs = thread::spawn(move || {
        let mut buffer = BufferOptions::new()
            .memory(1 << 20)
            .gate(NotBefore(MIB as u64 / 2))
            .open(source.reader, [(sink.writer, Policy::DROP)]);
        buffer.run().unwrap()
    });
    let queued = || {
        fullbore_linux::pipe::of(&watched)
            .unwrap()
            .unwrap()
            .queued()
            .unwrap()
    };
    let mut there = File::from(source.writer);
    let mut bytes = vec![0; MIB];
    fill(&mut bytes, 0);
    there.write_all(&bytes[..MIB / 2 - 1]).unwrap();
    let empty = || {
        let there = fullbore_linux::pipe::of(&there).unwrap().unwrap();
        there.queued().unwrap() == 0
    };
    until(empty);
    assert_eq!(queued(), 0);
    there.write_all(&bytes[MIB / 2 - 1..MIB / 2]).unwrap();
    until(|| queued() > 0);
    // The end of the source ends all waiting.
    let reads = Reader::Quick.spawn(sink.reader, Checker::of_the_stream());
    there.write_all(&bytes[MIB / 2..MIB / 2 + 10]).unwrap();
    drop(there);
    assert_eq!(reads.join().unwrap(), MIB as u64 / 2 + 10);
    runs.join().unwrap();
}

#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "it never came");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_sink_that_is_dropped_leaves_the_others_complete() {
    let _watch = watch("a_sink_that_is_dropped_leaves_the_others_complete");
    let (source, dies, lives) = (
        Pipe::new().unwrap(),
        Pipe::new().unwrap(),
        Pipe::new().unwrap(),
    );
    let writes = writer(source.writer, 20 * MIB, 5);
    let reads = Reader::Quick.spawn(lives.reader, Checker::of_the_stream());
    let mut dying = File::from(dies.reader);
    let dies_later = thread::spawn(move || dying.read_exact(&mut vec![0; MIB]).unwrap());
    let mut buffer = BufferOptions::new().memory(4 * MIB).open(
        source.reader,
        [
            (dies.writer, Policy::DROP),
            (lives.writer, Policy::FAIL_ALL),
        ],
    );
    let mut left = Vec::new();
    let report = buffer
        .run_with(Duration::from_millis(1), |level| {
            left.push(level.sinks_left)
        })
        .unwrap();
    drop(buffer);
    assert!(
        left.is_sorted_by(|before, after| before >= after),
        "{left:?}"
    );
    assert!(left.iter().all(|&left| left <= 2), "{left:?}");
    assert_eq!(report.level.sinks_left, 0);
    writes.join().unwrap();
    dies_later.join().unwrap();
    assert_eq!(reads.join().unwrap(), 20 * MIB as u64);
    let error = report.sinks[0].error.as_ref().expect("its reader has gone");
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert!(report.sinks[1].error.is_none());
}

#[test]
fn it_ends_when_its_sinks_are_gone_although_the_source_is_silent() {
    let _watch = watch("it_ends_when_its_sinks_are_gone_although_the_source_is_silent");
    for policy in [Policy::FAIL_ALL, Policy::DROP, Policy::IGNORE_CLOSED] {
        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        drop(sink.reader);
        rustix::io::write(&source.writer, b"one").unwrap();
        let mut buffer = Buffer::new(&source.reader, [(&sink.writer, policy)]);
        match buffer.run() {
            Ok(report) => {
                let sink = &report.sinks[0];
                assert!(policy != Policy::FAIL_ALL && sink.error.is_some());
                assert_eq!(sink.ignored, policy == Policy::IGNORE_CLOSED);
            }
            Err(failure) => {
                assert_eq!((policy, failure.sink), (Policy::FAIL_ALL, Some(0)));
                assert_eq!(failure.error.kind(), ErrorKind::BrokenPipe);
                assert_eq!(failure.report.ended, EndReason::Failed);
            }
        }
    }
}

#[test]
fn what_was_read_before_the_source_failed_arrives() {
    let _watch = watch("what_was_read_before_the_source_failed_arrives");
    // A socket that is reset after some bytes.
    let (source, peer) = targets::tcp();
    rustix::io::write(&peer, &first(100_000)).unwrap();
    let sink = Pipe::new().unwrap();
    let reads = Reader::Quick.spawn(sink.reader, Checker::of_the_stream());
    let runs = thread::spawn(move || {
        let sinks = [(&sink.writer, Policy::FAIL_ALL)];
        BufferOptions::new()
            .gate(NotBefore(u64::MAX))
            .open(&source, sinks)
            .run()
    });
    until(|| {
        let left = rustix::net::sockopt::socket_error(&peer);
        left.is_ok() && rustix::io::ioctl_fionread(&peer).is_ok() && unsent(&peer) == 0
    });
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    let failure = runs.join().unwrap().expect_err("the source was reset");
    assert_eq!(failure.sink, None);
    assert!(matches!(
        failure.error,
        Error::Moving {
            side: TransferSide::Source,
            ..
        }
    ));
    // A reset discards bytes that the receiver has not read yet.
    let arrived = reads.join().unwrap();
    assert_eq!(arrived, failure.report.level.taken);
    assert_eq!(arrived, failure.report.sinks[0].bytes);
}

/// Returns the number of bytes that the peer of a socket has not acknowledged.
fn unsent(socket: &impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the ioctl writes an int.
    let answer = unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&socket.as_fd()),
            libc::TIOCOUTQ,
            &raw mut bytes,
        )
    };
    assert_eq!(answer, 0);
    bytes as usize
}

/// Returns the options of a buffer of 1 MiB whose bytes are in this file.
fn in_file(file: File) -> BufferOptions {
    file.set_len(MIB as u64).unwrap();
    BufferOptions::new().memory(MIB).mapped_by(move |memory| {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let start = memory.as_mut_ptr().cast();
        // SAFETY: it replaces memory that is passed in for this purpose, and that only system calls access.
        unsafe { mmap(start, memory.len(), protection, flags, &file, 0) }.unwrap();
        Ok(())
    })
}

#[test]
fn a_file_holds_the_bytes_instead_of_memory() {
    let _watch = watch("a_file_holds_the_bytes_instead_of_memory");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let file = tempfile::tempfile().unwrap();
    let size = file.try_clone().unwrap();
    let writes = writer(source.writer, 20 * MIB, 9);
    let reads = Reader::Splicing.spawn(sink.reader, Checker::of_the_stream());
    let mut buffer = in_file(file).open(source.reader, [(sink.writer, Policy::FAIL_ALL)]);
    let report = buffer.run().unwrap();
    drop(buffer);
    writes.join().unwrap();
    assert_eq!(reads.join().unwrap(), 20 * MIB as u64);
    assert_eq!(size.metadata().unwrap().len(), report.level.capacity);
}

/// Starts a buffer in a file between two pipes; returns their other ends, the file, and the thread that runs it.
fn start_in_file() -> (File, File, File, JoinHandle<Result<(), Option<i32>>>) {
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let file = tempfile::tempfile().unwrap();
    let same = file.try_clone().unwrap();
    let runs = thread::spawn(move || {
        let mut buffer = in_file(file).open(source.reader, [(sink.writer, Policy::FAIL_ALL)]);
        let run = buffer.run();
        drop(buffer);
        run.map(drop)
            .map_err(|failure| failure.error.raw_os_error())
    });
    (source.writer.into(), sink.reader.into(), same, runs)
}

#[test]
fn a_file_that_is_shortened_meanwhile_is_an_error_and_no_signal() {
    let _watch = watch("a_file_that_is_shortened_meanwhile_is_an_error_and_no_signal");
    let (mut writer, _reader, file, runs) = start_in_file();
    until(|| file.metadata().unwrap().len() == MIB as u64);
    file.set_len(0).unwrap();
    writer.write_all(b"bytes").unwrap();
    assert_eq!(runs.join().unwrap(), Err(Some(libc::EFAULT)));
}

#[test]
fn a_file_that_is_shortened_before_a_part_of_it_is_full_is_an_error_and_no_signal() {
    let _watch = watch("a_file_that_is_shortened_before_a_part_of_it_is_full");
    let (mut writer, mut reader, file, runs) = start_in_file();
    // The rest of the slot has less room than a packet of the pipe may need.
    let part = MIB / 16;
    writer.write_all(&first(part - 1000)).unwrap();
    reader.read_exact(&mut vec![0; part - 1000]).unwrap();
    file.set_len(0).unwrap();
    writer.write_all(b"bytes").unwrap();
    assert_eq!(runs.join().unwrap(), Err(Some(libc::EFAULT)));
}

#[test]
fn rates_are_kept_over_time() {
    let _watch = watch("rates_are_kept_over_time");
    for read in [true, false] {
        let (source, bytes) = SourceKind::File.open(MIB);
        let target = Target::new(SinkKind::Pipe);
        let options = match read {
            true => BufferOptions::new().read_rate(4 * MIB as u64),
            false => BufferOptions::new().write_rate(4 * MIB as u64),
        };
        let began = Instant::now();
        let mut buffer = options.open(&source, [(target.as_fd(), Policy::DROP)]);
        buffer.run().unwrap();
        // The last piece is not waited for, and some time may be made up for.
        assert!(began.elapsed() > Duration::from_millis(150));
        assert!(target.arrived(MIB).unwrap() == bytes);
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_the_first_byte() {
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    rustix::io::write(&source.writer, b"one").unwrap();
    let new = BufferOptions::new;
    let options = [
        new().memory(0),
        new().memory(4096),
        new().chunk(0),
        new().read_rate(0),
        new().write_rate(0),
    ];
    for options in options {
        let what = format!("{options:?}");
        let mut buffer = options.open(&source.reader, [(&sink.writer, Policy::DROP)]);
        let failure = buffer.run().unwrap_err();
        assert!(matches!(failure.error, Error::Invalid(_)), "{what}");
        assert_eq!(failure.report.level.taken, 0);
    }
    let failure = new()
        .open(&source.reader, [(&source.writer, Policy::DROP)])
        .run()
        .expect_err("the sink is the source");
    assert!(matches!(failure.error, Error::Invalid(_)));
    let queued = fullbore_linux::pipe::of(&source.reader)
        .unwrap()
        .unwrap()
        .queued();
    assert_eq!(queued.unwrap(), 3);
}

#[test]
fn it_stops_when_it_is_cancelled_although_the_source_is_silent() {
    let _watch = watch("it_stops_when_it_is_cancelled_although_the_source_is_silent");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    rustix::io::write(&source.writer, b"1").unwrap();
    let cancel = fullbore::Cancel::new().unwrap();
    let sinks = [(&sink.writer, Policy::FAIL_ALL)];
    let mut buffer = BufferOptions::new()
        .cancel(&cancel)
        .open(&source.reader, sinks);
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            rustix::io::read(&sink.reader, &mut [0; 1]).unwrap();
            cancel.cancel();
        });
        buffer.run().unwrap()
    });
    assert_eq!(report.ended, EndReason::Cancelled);
    assert_eq!((report.level.taken, report.sinks[0].bytes), (1, 1));
}

#[test]
fn it_stops_when_it_is_cancelled_although_a_sink_takes_nothing() {
    let _watch = watch("it_stops_when_it_is_cancelled_although_a_sink_takes_nothing");
    for nonblocking in [false, true] {
        let (source, sink, other) = (
            Pipe::new().unwrap(),
            Pipe::new().unwrap(),
            Pipe::new().unwrap(),
        );
        for end in [&sink.writer, &other.writer] {
            rustix::io::ioctl_fionbio(end, nonblocking).unwrap();
        }
        let cancel = fullbore::Cancel::new().unwrap();
        let canceller = cancel.clone();
        let runs = thread::spawn(move || {
            let mut buffer = BufferOptions::new().memory(4 * MIB).cancel(&cancel).open(
                source.reader,
                [(sink.writer, Policy::DROP), (other.writer, Policy::DROP)],
            );
            // Full: both writing threads wait for room, and so does the reading thread.
            let ran = buffer.run_with(Duration::from_millis(1), |level| {
                if level.taken >= level.capacity {
                    canceller.cancel();
                }
            });
            ran.unwrap()
        });
        let mut bytes = vec![0; 40 * MIB];
        fill(&mut bytes, 0);
        let written = File::from(source.writer).write_all(&bytes);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let report = runs.join().unwrap();
        assert_eq!(report.ended, EndReason::Cancelled);
        for (report, end) in report.sinks.iter().zip([sink.reader, other.reader]) {
            assert!(report.error.is_none(), "{report:?}");
            let mut arrived = Vec::new();
            File::from(end).read_to_end(&mut arrived).unwrap();
            assert_eq!(arrived.len() as u64, report.bytes);
            Checker::of_the_stream().check(&arrived);
        }
    }
}

#[test]
fn it_stops_at_its_deadline_and_not_before() {
    let _watch = watch("it_stops_at_its_deadline_and_not_before");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let at = Instant::now() + Duration::from_millis(30);
    let sinks = [(&sink.writer, Policy::FAIL_ALL)];
    let mut buffer = BufferOptions::new()
        .deadline(at)
        .open(&source.reader, sinks);
    let report = buffer.run().unwrap();
    assert!(Instant::now() >= at);
    assert_eq!((report.ended, report.level.taken), (EndReason::TimedOut, 0));
}

#[test]
fn a_panic_of_the_callback_comes_out() {
    let _watch = watch("a_panic_of_the_callback_comes_out");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let mut buffer = Buffer::new(source.reader, [(sink.writer, Policy::FAIL_ALL)]);
    let run = || buffer.run_with(Duration::from_millis(1), |_| panic!("of the callback"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    assert_eq!(
        panicked.unwrap_err().downcast_ref(),
        Some(&"of the callback")
    );
    drop(source.writer);
}

/// Reads the stream in pieces of random lengths, with pauses, on a separate thread. Returns the number of bytes.
fn reader_with_pauses(source: OwnedFd, seed: u64) -> JoinHandle<u64> {
    thread::spawn(move || {
        let (mut source, mut random) = (File::from(source), Random::new(seed));
        let mut checker = Checker::of_the_stream();
        let (mut bytes, mut came) = (vec![0; MIB], 0);
        loop {
            // From time to time it reads a lot at once, to catch up.
            let at_once = match random.up_to(4) {
                1 => 4 * MIB,
                _ => random.up_to(100_000),
            };
            let mut taken = 0;
            while taken < at_once {
                let n = source.read(&mut bytes).unwrap();
                if n == 0 {
                    return came;
                }
                checker.check(&bytes[..n]);
                (taken, came) = (taken + n, came + n as u64);
            }
            thread::sleep(Duration::from_micros(random.up_to(6000) as u64));
        }
    })
}

#[test]
fn both_sides_pause_in_turn_and_every_byte_arrives_in_order() {
    let _watch = watch("both_sides_pause_in_turn_and_every_byte_arrives_in_order");
    for (seed, memory) in (0..).zip([128 << 10, MIB, 4 * MIB, 16 * MIB].repeat(3)) {
        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let len = 12 * MIB + 4321;
        let mut there = File::from(source.writer);
        let writes = thread::spawn(move || {
            let (mut random, mut at) = (Random::new(100 + seed), 0);
            while at < len {
                let burst = match random.up_to(4) {
                    1 => 3 * MIB,
                    _ => random.up_to(100_000),
                };
                let mut bytes = vec![0; burst.min(len - at)];
                fill(&mut bytes, at as u64);
                there.write_all(&bytes).unwrap();
                at += bytes.len();
                thread::sleep(Duration::from_micros(random.up_to(6000) as u64));
            }
        });
        let reads = reader_with_pauses(sink.reader, seed);
        let mut buffer = BufferOptions::new()
            .memory(memory)
            .open(source.reader, [(sink.writer, Policy::FAIL_ALL)]);
        let report = buffer.run().unwrap();
        drop(buffer);
        writes.join().unwrap();
        assert_eq!(reads.join().unwrap(), len as u64, "{memory}");
        assert_eq!(report.level.taken, len as u64);
        assert_eq!(report.sinks[0].bytes, len as u64);
        assert!(report.level.most <= report.level.capacity);
    }
}

#[test]
fn the_source_goes_on_when_the_sink_stops_in_the_middle() {
    let _watch = watch("the_source_goes_on_when_the_sink_stops_in_the_middle");
    for memory in [MIB, 16 * MIB] {
        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let (full, is_full) = channel();
        let runs = thread::spawn(move || {
            let mut buffer = BufferOptions::new()
                .memory(memory)
                .open(source.reader, [(sink.writer, Policy::DROP)]);
            let ran = buffer.run_with(Duration::from_millis(1), |level| {
                if level.waits_for_room {
                    let _ = full.send(());
                }
            });
            ran.unwrap()
        });
        let writes = writer(source.writer, 60 * MIB, 4);
        let mut here = File::from(sink.reader);
        let mut checker = Checker::of_the_stream();
        let mut bytes = vec![0; 5 * MIB];
        for _ in 0..3 {
            here.read_exact(&mut bytes).unwrap();
            checker.check(&bytes);
            // Earlier reports of a full memory do not count.
            while is_full.try_recv().is_ok() {}
            is_full.recv_timeout(LONG).expect("it fills");
        }
        bytes.clear();
        here.read_to_end(&mut bytes).unwrap();
        checker.check(&bytes);
        writes.join().unwrap();
        let report = runs.join().unwrap();
        assert_eq!(bytes.len(), 45 * MIB);
        assert!(report.level.full.times > 0);
    }
}

#[test]
fn the_source_goes_on_while_a_reader_holds_the_lock_of_the_output() {
    let _watch = watch("the_source_goes_on_while_a_reader_holds_the_lock_of_the_output");
    for before in [0, 2 * MIB] {
        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let (there, here) = std::os::unix::net::UnixStream::pair().unwrap();
        let runs = thread::spawn(move || {
            let mut buffer = BufferOptions::new()
                .memory(32 * MIB)
                .open(source.reader, [(sink.writer, Policy::FAIL_ALL)]);
            buffer.run().unwrap()
        });
        // splice(2) holds the lock of the pipe while it waits for the socket.
        let splices = thread::spawn(move || {
            let flags = rustix::pipe::SpliceFlags::empty();
            let splice =
                || rustix::pipe::splice(&sink.reader, None, &there, None, MIB, flags).unwrap();
            while splice() > 0 {}
        });
        let (mut checker, mut here, mut bytes) = (Checker::of_the_stream(), here, vec![0; before]);
        let (written, is_written) = channel();
        let writes = thread::spawn(move || {
            let mut bytes = vec![0; before + 16 * MIB];
            fill(&mut bytes, 0);
            File::from(source.writer).write_all(&bytes).unwrap();
            written.send(()).unwrap();
        });
        here.read_exact(&mut bytes).unwrap();
        checker.check(&bytes);
        // No process reads from the socket meanwhile.
        is_written.recv_timeout(LONG).expect("the source is read");
        bytes.clear();
        here.read_to_end(&mut bytes).unwrap();
        checker.check(&bytes);
        assert_eq!(bytes.len(), 16 * MIB);
        writes.join().unwrap();
        splices.join().unwrap();
        assert_eq!(runs.join().unwrap().level.taken, (before + 16 * MIB) as u64);
    }
}

/// Starts a buffer whose output is full and whose source is silent, and returns the end of the source, that of the
/// output, and the thread. `also` sets what ends it.
fn start_a_full_one(
    policy: Policy,
    also: impl FnOnce(BufferOptions) -> BufferOptions + Send + 'static,
) -> (File, File, JoinHandle<Result<BufferReport, BufferFailure>>) {
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let runs = thread::spawn(move || {
        // The output is not grown.
        let options = also(BufferOptions::new().memory(4 * MIB).pipe_size(1));
        options.open(source.reader, [(sink.writer, policy)]).run()
    });
    let (mut there, here) = (File::from(source.writer), File::from(sink.reader));
    // More than the output holds. The buffer may end before that.
    let capacity = rustix::pipe::fcntl_getpipe_size(&here).unwrap();
    let _ = there.write_all(&first(2 * capacity));
    let pipe = fullbore_linux::pipe::of(&here).unwrap().unwrap();
    until(|| pipe.queued().unwrap() > 0 || runs.is_finished());
    (there, here, runs)
}

#[test]
fn it_ends_when_the_reader_goes_while_it_sends() {
    let _watch = watch("it_ends_when_the_reader_goes_while_it_sends");
    let mut random = Random::new(6);
    for policy in [Policy::FAIL_ALL, Policy::DROP, Policy::IGNORE_CLOSED].repeat(5) {
        let (_there, here, runs) = start_a_full_one(policy, |buffer| buffer);
        thread::sleep(Duration::from_micros(random.up_to(5000) as u64));
        drop(here);
        match runs.join().unwrap() {
            Ok(report) => {
                assert!(policy != Policy::FAIL_ALL && report.sinks[0].error.is_some());
                assert_eq!(report.ended, EndReason::AtEnd);
            }
            Err(failure) => {
                assert_eq!((policy, failure.sink), (Policy::FAIL_ALL, Some(0)));
                assert_eq!(failure.error.kind(), ErrorKind::BrokenPipe);
            }
        }
    }
}

#[test]
fn it_stops_while_it_sends_and_says_how_much_it_has_sent() {
    let _watch = watch("it_stops_while_it_sends_and_says_how_much_it_has_sent");
    let mut random = Random::new(7);
    for is_cancelled in [true, false].repeat(8) {
        let pause = Duration::from_micros(random.up_to(5000) as u64);
        let cancel = fullbore::Cancel::new().unwrap();
        let canceller = cancel.clone();
        let (_there, mut here, runs) =
            start_a_full_one(Policy::FAIL_ALL, move |options| match is_cancelled {
                true => options.cancel(&cancel),
                false => options.deadline(Instant::now() + Duration::from_millis(20) + pause),
            });
        if is_cancelled {
            thread::sleep(pause);
            canceller.cancel();
        }
        let report = runs.join().unwrap().unwrap();
        let expected = match is_cancelled {
            true => EndReason::Cancelled,
            false => EndReason::TimedOut,
        };
        assert_eq!(report.ended, expected);
        let mut arrived = Vec::new();
        here.read_to_end(&mut arrived).unwrap();
        assert_eq!(arrived.len() as u64, report.sinks[0].bytes);
        Checker::of_the_stream().check(&arrived);
    }
}

#[test]
fn a_source_that_fails_after_its_bytes_were_passed_on_is_reported() {
    let _watch = watch("a_source_that_fails_after_its_bytes_were_passed_on_is_reported");
    let (source, peer) = targets::tcp();
    let sink = Pipe::new().unwrap();
    let runs = thread::spawn(move || {
        let mut buffer = Buffer::new(&source, [(&sink.writer, Policy::FAIL_ALL)]);
        buffer.run()
    });
    let mut here = File::from(sink.reader);
    let mut checker = Checker::of_the_stream();
    let bytes = first(200_000);
    for piece in bytes.chunks(20_000) {
        let mut left = piece;
        while !left.is_empty() {
            left = &left[rustix::io::write(&peer, left).unwrap()..];
        }
        let mut arrived = vec![0; piece.len()];
        here.read_exact(&mut arrived).unwrap();
        checker.check(&arrived);
    }
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    let failure = runs.join().unwrap().expect_err("the source was reset");
    assert_eq!(failure.sink, None);
    let Error::Moving { side, .. } = failure.error else {
        panic!("{:?}", failure.error);
    };
    assert_eq!(side, TransferSide::Source);
    assert_eq!(failure.report.level.taken, 200_000);
    assert_eq!(failure.report.sinks[0].bytes, 200_000);
    assert_eq!(here.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_buffer_without_sinks_is_refused() {
    let source = Pipe::new().unwrap();
    let mut buffer: Buffer<_, &OwnedFd> = Buffer::new(&source.reader, []);
    let failure = buffer.run().unwrap_err();
    assert!(matches!(failure.error, Error::Invalid(_)), "{failure}");
}

#[test]
fn a_buffer_that_ends_early_gives_back_what_its_sinks_lack() {
    let _watch = watch("a_buffer_that_ends_early_gives_back_what_its_sinks_lack");
    // In slots of base pages and of huge pages, so that the bytes are in several of them.
    for memory in [MIB, 16 * MIB] {
        let source = targets::stored(&first(memory / 2));
        let (full, roomy) = (Pipe::new().unwrap(), tempfile::tempfile().unwrap());
        let sinks = [
            (full.writer.as_fd(), Policy::DROP),
            (roomy.as_fd(), Policy::DROP),
        ];
        let cancel = fullbore::Cancel::new().unwrap();
        let options = BufferOptions::new()
            .memory(memory)
            .pipe_size(0)
            .cancel(&cancel);
        let mut buffer = options.open(&source, sinks);
        let ran = buffer.run_with(Duration::from_millis(1), |level| {
            if level.has_ended {
                cancel.cancel();
            }
        });
        let report = ran.unwrap();
        assert_eq!(
            (report.ended, report.taken),
            (EndReason::Cancelled, memory as u64 / 2)
        );
        let (_, sinks) = buffer.into_parts().unwrap();
        for (sink, (_, lacks)) in report.sinks.iter().zip(&sinks) {
            assert!(
                *lacks == first(memory / 2)[sink.bytes as usize..],
                "{memory}"
            );
        }
        assert!(!sinks[0].1.is_empty());
    }
}

#[test]
fn a_buffer_takes_no_more_than_its_limit_and_runs_once() {
    let _watch = watch("a_buffer_takes_no_more_than_its_limit_and_runs_once");
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    rustix::io::write(&source.writer, &first(5000)).unwrap();
    let options = BufferOptions::new().memory(MIB).limit(3000);
    let mut buffer = options.open(&source.reader, [(&sink.writer, Policy::DROP)]);
    let report = buffer.run().unwrap();
    assert_eq!((report.ended, report.taken), (EndReason::AtLimit, 3000));
    assert_eq!(report.sinks[0].bytes, 3000);
    let again = buffer.run().unwrap_err();
    assert!(matches!(again.error, Error::Invalid(_)), "{again}");
    let left = fullbore_linux::pipe::of(&source.reader).unwrap().unwrap();
    assert_eq!(left.queued().unwrap(), 2000);
}

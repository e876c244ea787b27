//! Memory is bounded, whatever the reader does, and a call that would block allocates none.
//!
//! The measurements concern the whole process, so these tests take turns, and are alone in this program.

#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::ends::{From, To};
use common::*;
use fullbore::tee::Policy;
use fullbore::{
    ConsumerOptions, EndReason, Error, Guarantee, Pipe, ProducerOptions, TeeOptions,
    TransferOptions, TransferSide, Way,
};
use rustix::pipe::SpliceFlags;

static TURN: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    // A failed test leaves nothing behind that affects the next one.
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The allocator of std, which counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends allocates nothing that is counted.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: all calls are passed on to the allocator of std; counting them allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes a call, and returns what it returns and how many allocations it has made.
fn counted<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATIONS.get();
    let returned = call();
    (returned, ALLOCATIONS.get() - before)
}

/// Returns the resident anonymous memory of this process in bytes: `RssAnon` (proc_pid_status(5)).
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
    let kib = line.split_ascii_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() * 1024
}

/// Samples [`resident`] continuously, and keeps the maximum.
struct Gauge {
    before: usize,
    most: Arc<AtomicUsize>,
    done: Arc<AtomicBool>,
    looking: JoinHandle<()>,
}

impl Gauge {
    fn start() -> Self {
        // Memory that the tests themselves need once.
        first(1);
        let (most, done) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let before = resident();
        let looking = {
            let (most, done) = (most.clone(), done.clone());
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    most.fetch_max(resident(), Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                }
            })
        };
        Self {
            before,
            most,
            done,
            looking,
        }
    }

    /// Returns the maximum growth of the memory in bytes.
    fn growth(self) -> usize {
        self.done.store(true, Ordering::Relaxed);
        self.looking.join().unwrap();
        self.most
            .load(Ordering::Relaxed)
            .saturating_sub(self.before)
    }
}

/// A few huge pages, and the buffers of the tests.
const A_FEW_HUGE_PAGES: usize = 16 * MIB;

/// Splices everything to `/dev/null`, and returns the number of bytes.
fn splice_away(source: &OwnedFd) -> u64 {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let mut bytes = 0;
    loop {
        let flags = SpliceFlags::empty();
        match rustix::pipe::splice(source, None, &null, None, 1 << 24, flags).unwrap() {
            0 => return bytes,
            n => bytes += n as u64,
        }
    }
}

#[test]
fn fresh_holds_no_more_than_a_few_huge_pages_while_the_reader_stalls() {
    let _turn = my_turn();
    for huge in [true, false] {
        let gauge = Gauge::start();
        let pipe = Pipe::new().unwrap();
        let producing = thread::spawn(move || {
            let options = ProducerOptions::new().huge_pages(huge);
            let mut out = options.way(Way::Fresh).open(pipe.writer).unwrap();
            send(&mut out, 0, 64 << 20, 256 * 1024).unwrap();
            out.finish().unwrap();
        });
        // Stop-and-go: full, stalled, partly read, stalled.
        let mut checker = Checker::of_the_stream();
        let mut buf = vec![0; 3 * MIB];
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(60));
            let mut got = 0;
            while got < buf.len() {
                let n = rustix::io::read(&pipe.reader, &mut buf[..]).unwrap();
                checker.check(&buf[..n]);
                got += n;
            }
        }
        assert_eq!(Reader::Quick.drain(pipe.reader, checker), 64 << 20);
        producing.join().unwrap();
        let growth = gauge.growth();
        println!("grew by {} KiB", growth / 1024);
        assert!(growth < A_FEW_HUGE_PAGES, "grew by {} KiB", growth / 1024);
    }
}

#[test]
fn fresh_holds_no_more_than_a_few_huge_pages_over_a_long_stream() {
    let _turn = my_turn();
    for chunk in [64 * 1024, 256 * 1024, 1_000_000] {
        let gauge = Gauge::start();
        let pipe = Pipe::new().unwrap();
        let reading = thread::spawn(move || splice_away(&pipe.reader));
        let options = ProducerOptions::new().chunk(chunk);
        let mut out = options.way(Way::Fresh).open(pipe.writer).unwrap();
        send(&mut out, 0, 1 << 30, chunk).unwrap();
        out.finish().unwrap();
        assert_eq!(reading.join().unwrap(), 1 << 30);
        let growth = gauge.growth();
        println!("grew by {} KiB", growth / 1024);
        assert!(growth < A_FEW_HUGE_PAGES, "grew by {} KiB", growth / 1024);
    }
}

#[test]
fn recycle_uses_its_ring_and_no_more() {
    let _turn = my_turn();
    let gauge = Gauge::start();
    let pipe = Pipe::new().unwrap();
    let reading = Reader::Bursty.spawn(pipe.reader, Checker::of_the_stream());
    // The reader copies.
    let mut out = ProducerOptions::new()
        .memory(4 * MIB)
        .way(Way::Recycle)
        .open(pipe.writer)
        .unwrap();
    send(&mut out, 0, 256 << 20, 256 * 1024).unwrap();
    out.finish().unwrap();
    assert_eq!(reading.join().unwrap(), 256 << 20);
    let growth = gauge.growth();
    assert!(growth < A_FEW_HUGE_PAGES, "grew by {} KiB", growth / 1024);
}

#[test]
fn repeat_needs_no_memory_for_length() {
    let _turn = my_turn();
    let gauge = Gauge::start();
    let pipe = Pipe::new().unwrap();
    let reading = thread::spawn(move || splice_away(&pipe.reader));
    let out = ProducerOptions::new().repeat(pipe.writer, b"again\n");
    let mut out = out.unwrap();
    out.send(8 << 30).unwrap();
    assert_eq!(out.report().bytes, 8 << 30);
    drop(out);
    assert_eq!(reading.join().unwrap(), 8 << 30);
    let growth = gauge.growth();
    assert!(growth < A_FEW_HUGE_PAGES, "grew by {} KiB", growth / 1024);
}

#[test]
fn making_and_dropping_many_leaves_no_memory_and_no_descriptors_behind() {
    let _turn = my_turn();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let use_all = || {
        let pipe = Pipe::new().unwrap();
        let mut out = ProducerOptions::new()
            .way(Way::Fresh)
            .open(&pipe.writer)
            .unwrap();
        send(&mut out, 0, 100_000, 50_000).unwrap();
        drop(out);
        let mut out = ProducerOptions::new().repeat(&pipe.writer, b"y\n").unwrap();
        out.send(100_000).unwrap();
        drop(out);
        let mut consumer = fullbore::Consumer::new(&pipe.reader).unwrap();
        assert_eq!(consumer.discard(200_000).unwrap(), 200_000);
    };
    use_all();
    let (fds, before) = (descriptors(), resident());
    for _ in 0..100 {
        use_all();
    }
    assert_eq!(descriptors(), fds);
    let growth = resident().saturating_sub(before);
    assert!(growth < 2 * MIB, "grew by {} KiB", growth / 1024);
}

#[test]
fn short_transfers_leave_no_fd_and_no_memory_behind() {
    let _watch = watch("short_transfers_leave_no_fd_and_no_memory_behind");
    let _turn = my_turn();
    let source = From::File.open(100_000).unwrap();
    let run = || {
        for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
            for to in [To::Null, To::Memfd, To::Pipe, To::Unix] {
                let sink = to.open().unwrap();
                let report = TransferOptions::new()
                    .guarantee(guarantee)
                    .source_offset(0)
                    .open(&source.fd, &sink.fd)
                    .run()
                    .unwrap();
                assert_eq!(report.bytes, 100_000);
                sink.close_and_compare(source.expected, "again and again");
            }
        }
    };
    let fds = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().count()
    };
    for _ in 0..20 {
        run();
    }
    let (fds_before, maps_before) = (fds(), mapped());
    for _ in 0..200 {
        run();
    }
    assert_eq!(fds(), fds_before);
    // The allocator may map an arena or two.
    let more = mapped().saturating_sub(maps_before);
    assert!(more < 20, "{more} mappings more");
}

/// Asserts that a call would block, and that neither it nor its error as one of std has allocated anything.
#[track_caller]
fn assert_blocks_without_allocating<T>(what: &str, call: impl FnOnce() -> Result<T, Error>) {
    let call = || call().map(drop).map_err(io::Error::from);
    let (returned, allocations) = counted(call);
    assert_eq!(
        returned.unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "{what}"
    );
    assert_eq!(allocations, 0, "{what}");
}

#[test]
fn a_producer_and_a_consumer_that_would_block_allocate_nothing() {
    let _turn = my_turn();
    let bytes = first(2 * MIB);
    for way in [Way::Copy, Way::Socket, Way::Fresh, Way::Recycle] {
        let pipe = Pipe::new().unwrap();
        let mut out = open(ProducerOptions::new().nonblocking(true), way, pipe.writer);
        while out.write(&bytes).is_ok() {}
        let what = format!("{way}");
        assert_blocks_without_allocating(&what, || out.write(&bytes).map_err(inner));
        if out.unsent() == 0 {
            fill(out.reserve(1000).unwrap(), 0);
            assert!(out.commit(1000).is_err());
        }
        assert_blocks_without_allocating(&what, || out.flush().map_err(inner));
        assert_blocks_without_allocating(&what, || out.reserve(1).map(|_| ()));
    }
    let pipe = Pipe::new().unwrap();
    let mut repeat = ProducerOptions::new()
        .nonblocking(true)
        .repeat(&pipe.writer, b"again\n")
        .unwrap();
    while repeat.send_some(u64::MAX).is_ok() {}
    assert_blocks_without_allocating("repeat", || repeat.send_some(u64::MAX));
    let pipe = Pipe::new().unwrap();
    let options = ConsumerOptions::new().nonblocking(true);
    let mut consumer = options.open(&pipe.reader).unwrap();
    // Once it has got its memory, and `/dev/null`.
    rustix::io::write(&pipe.writer, &bytes[..9000]).unwrap();
    consumer.read_exact(&mut [0; 1]).unwrap();
    consumer.discard(8999).unwrap();
    let mut memory = vec![0; MIB];
    assert_blocks_without_allocating("fill_buf", || {
        consumer.fill_buf().map(<[u8]>::len).map_err(inner)
    });
    assert_blocks_without_allocating("read", || consumer.read(&mut memory).map_err(inner));
    assert_blocks_without_allocating("discard", || consumer.discard(1000));
}

#[test]
fn a_transfer_and_a_tee_that_would_block_allocate_only_their_report() {
    let _turn = my_turn();
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let mut transfer = TransferOptions::new()
        .nonblocking(true)
        .open(&source.reader, &sink.writer);
    let mut tee = TeeOptions::new()
        .nonblocking(true)
        .open(&source.reader, [(&sink.writer, Policy::FAIL_ALL)]);
    let by_source = EndReason::WouldBlock(TransferSide::Source);
    // What they need is made at the first run.
    assert_eq!(transfer.run().unwrap().ended, by_source);
    assert_eq!(tee.run().unwrap().ended, by_source);
    let (report, allocations) = counted(|| transfer.run());
    assert_eq!((report.unwrap().ended, allocations), (by_source, 0));
    let (report, allocations) = counted(|| tee.run());
    // The sinks, and the reports on them.
    assert_eq!((report.unwrap().ended, allocations), (by_source, 2));
    // The ways that were used, and how many bytes went in each.
    rustix::io::write(&source.writer, b"something").unwrap();
    assert_eq!(transfer.run().unwrap().bytes, 9);
    let (report, allocations) = counted(|| transfer.run());
    assert_eq!((report.unwrap().ended, allocations), (by_source, 1));
}

//! Memory that a producer and a consumer share: which ends connect, and where each byte goes when one of them ends.
//!
//! The stream consists of numbers of eight bytes, each of which is its own position. The two ends of a pipe connect
//! only if no other process holds the pipe, and a process that another test starts does so for a moment. So producers
//! here send until their consumer has connected.

#![allow(unsafe_code)]

#[path = "../../fullbore/tests/common/mod.rs"]
mod common;

use std::env;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use fullbore::{Cancel, ConsumerOptions, Error, Pipe, ProducerOptions, Stopped, Wait};
use fullbore_linux::{Errno, Waiter};
use fullbore_ring::{Consumer, Producer};
use rustix::process::{Resource, Rlimit, setrlimit};

/// How long a producer waits for its consumer to connect.
const LONG: Duration = Duration::from_secs(300);

const NUMBER: usize = size_of::<u64>();

/// Writes the stream from position `at` on.
fn numbers(bytes: &mut [u8], at: u64) {
    assert!(at % NUMBER as u64 == 0 && bytes.len() % NUMBER == 0);
    for (i, number) in (at / NUMBER as u64..).zip(bytes.chunks_exact_mut(NUMBER)) {
        number.copy_from_slice(&i.to_le_bytes());
    }
}

/// Reads the stream, and panics at the first byte that is wrong.
struct Numbers {
    at: u64,
    begun: Vec<u8>,
}

impl Numbers {
    fn from(at: u64) -> Self {
        assert!(at % NUMBER as u64 == 0);
        let begun = Vec::new();
        Self { at, begun }
    }

    fn check(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        let whole = self.begun.len() / NUMBER * NUMBER;
        for number in self.begun[..whole].chunks_exact(NUMBER) {
            let number = u64::from_le_bytes(number.try_into().unwrap());
            assert_eq!(number * NUMBER as u64, self.at, "at byte {}", self.at);
            self.at += NUMBER as u64;
        }
        self.begun.drain(..whole);
    }

    /// Checks everything up to the end, and returns the length of the whole stream in bytes.
    fn rest_of(mut self, mut source: impl Read) -> u64 {
        let mut buffer = vec![0; MIB];
        loop {
            match source.read(&mut buffer).unwrap() {
                0 => break,
                n => self.check(&buffer[..n]),
            }
        }
        assert!(self.begun.is_empty(), "ends within a number");
        self.at
    }
}

fn producer(sink: OwnedFd, wait: Wait) -> Producer<OwnedFd> {
    let inner = ProducerOptions::new().wait(wait).open(sink).unwrap();
    Producer::new(inner, Waiter::new(wait))
}

fn consumer(source: OwnedFd, wait: Wait, in_place: bool) -> Consumer<OwnedFd> {
    let inner = ConsumerOptions::new().wait(wait).open(source).unwrap();
    sharing(inner, wait, in_place)
}

/// Creates a consumer whose buffer, and that of its inner consumer, have this size.
fn consumer_with_buffer(
    bytes: usize,
    source: OwnedFd,
    wait: Wait,
    in_place: bool,
) -> Consumer<OwnedFd> {
    let options = ConsumerOptions::new().wait(wait).buffer(bytes);
    sharing(options.open(source).unwrap(), wait, in_place).buffer_size(bytes)
}

fn sharing(inner: fullbore::Consumer<OwnedFd>, wait: Wait, in_place: bool) -> Consumer<OwnedFd> {
    let consumer = Consumer::new(inner, Waiter::new(wait));
    match in_place {
        // SAFETY: the producers here are those of this library.
        true => unsafe { consumer.in_place() },
        false => consumer,
    }
}

/// Sends at least `least` bytes, and, if it `meets`, until its consumer has connected; returns how many.
fn send_in_pieces(
    out: &mut Producer<OwnedFd>,
    least: u64,
    meets: bool,
    random: &mut Random,
) -> u64 {
    let at = out.sent() + out.unsent();
    send_in_pieces_from(at, out, least, meets, random)
}

/// As [`send_in_pieces`], from this byte of the stream on: others may have written some of those before it.
fn send_in_pieces_from(
    mut at: u64,
    out: &mut Producer<OwnedFd>,
    least: u64,
    meets: bool,
    random: &mut Random,
) -> u64 {
    let began = Instant::now();
    while at < least || meets && !out.is_sharing() {
        assert!(began.elapsed() < LONG, "has met nobody");
        let most = [2, 100, 10_000, out.chunk() / NUMBER][random.zero_to(3)];
        let n = (random.zero_to(most - 1) + 1) * NUMBER;
        match random.zero_to(4) {
            0 => {
                let mut bytes = vec![0; n];
                numbers(&mut bytes, at);
                out.write_all(&bytes).unwrap();
            }
            1 => {
                out.flush().unwrap();
                continue;
            }
            2 => {
                let mut bytes = vec![0; n];
                numbers(&mut bytes, at);
                let mut rest = &bytes[..];
                let fill = |piece: &mut [u8]| {
                    let (now, later) = rest.split_at(piece.len());
                    piece.copy_from_slice(now);
                    rest = later;
                };
                out.fill(n, fill).unwrap();
                assert!(rest.is_empty());
            }
            _ => {
                numbers(out.reserve(n).unwrap(), at);
                out.commit(n).unwrap();
            }
        }
        at += n as u64;
        if meets && !out.is_sharing() {
            // They connect while the pipe is empty, which a reader that is slower than the writer never achieves. A
            // consumer that has connected and exited has left bytes in the pipe that no process reads.
            out.flush().unwrap();
            while queued(out.inner().get_ref()) > 0 && has_reader(out.inner().get_ref()) {
                assert!(began.elapsed() < LONG, "nobody reads");
                thread::sleep(Duration::from_micros(100));
            }
        }
    }
    at
}

/// Returns what was read; nothing, after a line about it, if the stream was cut off.
fn or_cut<T: Default>(read: io::Result<T>) -> T {
    match read {
        Err(error) if error.raw_os_error() == Some(libc::ECONNRESET) => {
            println!("cut off");
            T::default()
        }
        read => read.unwrap(),
    }
}

/// Reads the stream to the end, in all ways; returns its length, and whether memory was shared.
fn read_in_pieces(mut source: Consumer<OwnedFd>, random: &mut Random) -> (u64, bool) {
    let mut checker = Numbers::from(0);
    let mut shared = false;
    let mut buffer = vec![0; 3 * MIB];
    loop {
        shared |= source.is_sharing();
        let n = match random.zero_to(9) {
            0 => {
                let most = [1, 1000, buffer.len()][random.zero_to(2)];
                let n = or_cut(source.read(&mut buffer[..most]));
                checker.check(&buffer[..n]);
                n
            }
            1 if checker.begun.is_empty() => {
                let numbers = random.zero_to(300) + 1;
                let discarded = source.discard((numbers * NUMBER) as u64);
                let n = or_cut(discarded.map_err(io::Error::from));
                checker.at += n;
                n as usize
            }
            _ => {
                let bytes = or_cut(source.fill_buf());
                let n = match random.zero_to(2) {
                    0 => random.zero_to(bytes.len()),
                    _ => bytes.len(),
                };
                checker.check(&bytes[..n]);
                let ended = bytes.is_empty();
                source.consume(n);
                usize::from(!ended)
            }
        };
        if n == 0 {
            assert!(checker.begun.is_empty());
            return (checker.at, shared);
        }
    }
}

#[test]
fn two_ends_that_allow_it_meet_and_every_byte_arrives_in_order() {
    let _watch = watch("two_ends_that_allow_it_meet_and_every_byte_arrives_in_order");
    for (seed, wait) in (1..).zip(ALL_WAITS) {
        for in_place in [false, true] {
            let pipe = Pipe::new().unwrap();
            let sending = thread::spawn(move || {
                let mut random = Random::new(seed);
                let mut out = producer(pipe.writer, wait);
                if in_place {
                    out = out.only_writer();
                }
                let met = send_in_pieces(&mut out, 1, true, &mut random);
                let sent = send_in_pieces(&mut out, met + 40_000_000, false, &mut random);
                let produced = out.finish().unwrap();
                assert_eq!((produced.bytes, produced.shared), (sent, true));
                sent
            });
            let source = consumer(pipe.reader, wait, in_place);
            let (read, shared) = read_in_pieces(source, &mut Random::new(seed + 100));
            assert!(shared, "{wait:?}");
            assert_eq!(read, sending.join().unwrap(), "{wait:?} {in_place}");
        }
    }
}

#[test]
fn a_long_stream_tries_both_kinds_of_stores_and_every_byte_arrives() {
    let _watch = watch("a_long_stream_tries_both_kinds_of_stores_and_every_byte_arrives");
    /// Enough for a turn of each: 32 MiB before, 8 MiB of ordinary stores, and 12 MiB of non-temporal ones.
    const LEN: u64 = 64 << 20;
    let pipe = Pipe::new().unwrap();
    let sending = thread::spawn(move || {
        let mut random = Random::new(7);
        let mut out = producer(pipe.writer, Wait::Block);
        let met = send_in_pieces(&mut out, 1, true, &mut random);
        let mut at = met;
        let mut bytes = vec![0; 50_000 * NUMBER];
        while at < met + LEN {
            let n = (5_000 + random.zero_to(45_000)) * NUMBER;
            numbers(&mut bytes[..n], at);
            let mut rest = &bytes[..n];
            if random.zero_to(1) == 0 {
                out.write_all(rest).unwrap();
            } else {
                let fill = |piece: &mut [u8]| {
                    let (now, later) = rest.split_at(piece.len());
                    assert!(now.len() % 4096 == 0 || later.is_empty());
                    piece.copy_from_slice(now);
                    rest = later;
                };
                out.fill(n, fill).unwrap();
                assert!(rest.is_empty());
            }
            at += n as u64;
        }
        let produced = out.finish().unwrap();
        assert_eq!((produced.bytes, produced.shared), (at, true));
        at
    });
    let total = Numbers::from(0).rest_of(consumer(pipe.reader, Wait::Block, true));
    assert_eq!(total, sending.join().unwrap());
}

#[test]
fn an_end_that_does_not_allow_it_reads_or_writes_the_pipe() {
    let _watch = watch("an_end_that_does_not_allow_it_reads_or_writes_the_pipe");
    for (producer_allows, consumer_allows) in [(true, false), (false, true), (false, false)] {
        let pipe = Pipe::new().unwrap();
        let sending = thread::spawn(move || {
            let mut out = match producer_allows {
                true => producer(pipe.writer, Wait::Block),
                false => fullbore::Producer::new(pipe.writer).unwrap().into(),
            };
            let sent = send_in_pieces(&mut out, 20_000_000, false, &mut Random::new(3));
            assert!(!out.finish().unwrap().shared);
            sent
        });
        let source = match consumer_allows {
            true => consumer(pipe.reader, Wait::Block, false),
            false => fullbore::Consumer::new(pipe.reader).unwrap().into(),
        };
        let (read, shared) = read_in_pieces(source, &mut Random::new(4));
        assert!(!shared);
        assert_eq!(read, sending.join().unwrap());
    }
}

#[test]
fn the_ends_of_files_sockets_and_fifos_share_nothing() {
    let (reader, writer) = ends::fifo();
    let sending = thread::spawn(move || {
        let mut out = producer(writer.into(), Wait::Block);
        let sent = send_in_pieces(&mut out, 10_000_000, false, &mut Random::new(3));
        assert!(!out.finish().unwrap().shared);
        sent
    });
    let source = consumer(reader.into(), Wait::Block, false);
    let (read, shared) = read_in_pieces(source, &mut Random::new(4));
    assert!(!shared);
    assert_eq!(read, sending.join().unwrap());
    let mut text = String::new();
    let file: OwnedFd = File::open("/proc/self/comm").unwrap().into();
    let mut source = consumer(file, Wait::Block, false);
    source.read_to_string(&mut text).unwrap();
    assert!(!text.is_empty());
}

#[test]
fn what_others_write_into_the_pipe_keeps_its_place() {
    let _watch = watch("what_others_write_into_the_pipe_keeps_its_place");
    for seed in 1..20 {
        let wait = ALL_WAITS[seed as usize % 4];
        let pipe = Pipe::new().unwrap();
        let sending = thread::spawn(move || {
            let mut random = Random::new(seed);
            let mut other = File::from(pipe.writer.try_clone().unwrap());
            let mut out = producer(pipe.writer, wait);
            let mut at = send_in_pieces(&mut out, 1, true, &mut random);
            for _ in 0..10 {
                // Everything written before is in the output, so a direct write comes next.
                out.flush().unwrap();
                let mut bytes = vec![0; (random.zero_to(200) + 1) * NUMBER];
                numbers(&mut bytes, at);
                other.write_all(&bytes).unwrap();
                let mut more = vec![0; (random.zero_to(20_000) + 1) * NUMBER];
                at += bytes.len() as u64;
                numbers(&mut more, at);
                out.write_all(&more).unwrap();
                at += more.len() as u64;
            }
            out.finish().unwrap();
            at
        });
        let source = consumer(pipe.reader, wait, seed % 2 == 0);
        let (read, _) = read_in_pieces(source, &mut Random::new(seed + 100));
        assert_eq!(read, sending.join().unwrap(), "{wait:?}");
    }
}

/// How a producer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finish,
    Drop,
    Panic,
    IntoInner,
    IntoParts,
    /// Leaves the bytes in the ring to the consumer.
    DropWithDeadline,
}

/// How a consumer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// It reads everything.
    AtEnd,
    /// The caller uses the returned bytes, and then reads the pipe.
    IntoInner,
    /// It is dropped, and then the pipe is read.
    Drop,
    /// It is dropped while another reader already reads the pipe.
    DropLate,
}

/// Waits for up to this many microseconds, or not at all.
fn pause(random: &mut Random, most: usize) {
    match random.zero_to(1) {
        0 => {}
        _ => thread::sleep(Duration::from_micros(random.zero_to(most) as u64)),
    }
}

/// Writes the numbers from `at` on directly; returns the position after them.
fn write_directly(sink: &mut File, at: u64, numbers_most: usize, random: &mut Random) -> u64 {
    let mut bytes = vec![0; (random.zero_to(numbers_most) + 1) * NUMBER];
    numbers(&mut bytes, at);
    sink.write_all(&bytes).unwrap();
    at + bytes.len() as u64
}

/// Sends a stream, and ends the producer in this way; returns the length of the stream. With `others`, it also writes
/// bytes directly into the pipe, after a flush.
fn send_and_end(sink: OwnedFd, end: End, others: bool, random: &mut Random) -> u64 {
    let mut direct = File::from(sink.try_clone().unwrap());
    let mut out = producer(sink, Wait::Block);
    let mut at = 0;
    for _ in 0..random.zero_to(12) {
        let more = [0, 1, 50_000, 2_000_000][random.zero_to(3)];
        at = send_in_pieces_from(at, &mut out, at + more, false, random);
        if others && random.zero_to(2) == 0 {
            out.flush().unwrap();
            at = write_directly(&mut direct, at, 200, random);
        }
        pause(random, 300);
    }
    let mut last = vec![0; random.zero_to(3) * NUMBER];
    numbers(&mut last, at);
    out.write_all(&last).unwrap();
    at += last.len() as u64;
    match end {
        End::Finish => drop(out.finish().unwrap()),
        End::Drop => drop(out),
        End::Panic => {
            let panics = AssertUnwindSafe(move || {
                let _out = out;
                // Without the panic hook, which would print.
                resume_unwind(Box::new(()));
            });
            catch_unwind(panics).unwrap_err();
        }
        End::IntoInner => drop(out.into_inner().unwrap()),
        End::IntoParts => {
            let (sink, unsent) = out.into_parts();
            File::from(sink).write_all(&unsent).unwrap();
        }
        End::DropWithDeadline => {
            out.set_deadline(Some(Instant::now() + LONG));
            return at;
        }
    }
    pause(random, 1000);
    write_directly(&mut direct, at, 200, random)
}

/// Reads at least `least` bytes, unless the stream ends before; returns whether it has ended.
fn read_some(source: &mut Consumer<OwnedFd>, checker: &mut Numbers, least: u64) -> bool {
    while checker.at < least {
        let bytes = source.fill_buf().unwrap();
        let n = bytes.len();
        checker.check(bytes);
        source.consume(n);
        if n == 0 {
            return true;
        }
    }
    false
}

/// Sends one stream whose two ends are dropped at random times, and checks every byte of it.
fn change_hands(seed: u64) {
    use {End::*, Leave::AtEnd};
    let random = &mut Random::new(seed * 7919);
    let leave = [AtEnd, Leave::IntoInner, Leave::Drop, Leave::DropLate][random.zero_to(3)];
    let ends = [Finish, Drop, Panic, IntoInner, IntoParts, DropWithDeadline];
    // Only a consumer that stays gets the bytes that a producer with a deadline leaves, and keeps the order of other
    // writers.
    let stays = leave == AtEnd;
    let end = ends[random.zero_to(ends.len() - if stays { 1 } else { 2 })];
    let others = stays && random.zero_to(1) == 0;
    let pipe = Pipe::new().unwrap();
    let mut theirs = Random::new(seed * 104_729);
    let sending = thread::spawn(move || send_and_end(pipe.writer, end, others, &mut theirs));
    let mut source = consumer(
        pipe.reader.try_clone().unwrap(),
        Wait::Block,
        random.zero_to(1) == 0,
    );
    let mut checker = Numbers::from(0);
    let least = match leave {
        AtEnd => u64::MAX,
        _ => [0, 100, 100_000, 3_000_000][random.zero_to(3)],
    };
    let what = format!("seed {seed}, {end:?}, {leave:?}, others {others}");
    let mut ended = false;
    while checker.at < least && !ended {
        pause(random, 300);
        let next = checker.at + (random.zero_to(100_000) as u64) + 1;
        ended = read_some(&mut source, &mut checker, next.min(least));
    }
    // A number that was split between the consumer and the pipe is checked where it ends.
    let total = match leave {
        AtEnd => checker.at,
        Leave::IntoInner => {
            let (fd, unread) = source.into_parts();
            checker.check(&unread);
            checker.rest_of(File::from(fd))
        }
        Leave::Drop => {
            drop(source);
            checker.rest_of(File::from(pipe.reader))
        }
        Leave::DropLate => {
            let late = thread::spawn(move || checker.rest_of(File::from(pipe.reader)));
            pause(random, 3000);
            drop(source);
            late.join().unwrap_or_else(|_| panic!("{what}"))
        }
    };
    assert_eq!(total, sending.join().unwrap(), "{what}");
}

#[test]
fn no_byte_is_lost_doubled_or_reordered_when_the_ends_change() {
    let streams = match env::var_os("FULLBORE_TEST_LOAD") {
        None => 100,
        Some(load) if load == "quick" => 2_000,
        Some(_) => 20_000,
    };
    for seed in 1..=streams {
        let _watch = watch("no_byte_is_lost_doubled_or_reordered_when_the_ends_change");
        change_hands(seed);
    }
}

#[test]
fn finishing_does_not_wait_for_the_consumer_and_leaves_the_bytes_in_the_pipe() {
    let _watch = watch("finishing_does_not_wait_for_the_consumer_and_leaves_the_bytes_in_the_pipe");
    for in_place in [false, true] {
        let pipe = Pipe::new().unwrap();
        let mut out = producer(pipe.writer, Wait::Block);
        let mut source = consumer(pipe.reader.try_clone().unwrap(), Wait::Block, in_place);
        let at = meet_in_turns(&mut out, &mut source);
        // No process reads now. The pipe has room for these bytes.
        let n = 4000 * NUMBER;
        numbers(out.reserve(n).unwrap(), at);
        out.commit(n).unwrap();
        assert!(out.is_sharing());
        let queued_before = queued(&pipe.reader);
        out.finish().unwrap();
        assert_eq!((queued_before, queued(&pipe.reader)), (0, n));
        drop(source);
        let total = Numbers::from(at).rest_of(File::from(pipe.reader));
        assert_eq!(total, at + n as u64);
    }
}

/// Sends and reads a little in turns until the two have connected, and returns how many bytes that took.
fn meet_in_turns(out: &mut Producer<OwnedFd>, source: &mut Consumer<OwnedFd>) -> u64 {
    let began = Instant::now();
    let mut checker = Numbers::from(0);
    // The consumer connects at its first read.
    let n = NUMBER;
    while !out.is_sharing() || !source.is_sharing() {
        assert!(began.elapsed() < LONG, "have not met");
        numbers(out.reserve(n).unwrap(), checker.at);
        out.commit(n).unwrap();
        let bytes = source.fill_buf().unwrap();
        checker.check(bytes);
        let n = bytes.len();
        source.consume(n);
    }
    checker.at
}

/// A producer that flushes each message cannot make an offer while a message is in the pipe.
#[test]
fn ends_that_flush_and_read_each_message_in_turns_meet() {
    let _watch = watch("ends_that_flush_and_read_each_message_in_turns_meet");
    let pipe = Pipe::new().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader, Wait::Block, false);
    let began = Instant::now();
    while !out.is_sharing() || !source.is_sharing() {
        assert!(began.elapsed() < LONG, "have not met");
        out.write_all(b"message").unwrap();
        out.flush().unwrap();
        let mut message = [0; 7];
        source.read_exact(&mut message).unwrap();
        assert_eq!(&message, b"message");
    }
}

#[test]
fn a_consumer_that_is_dropped_leaves_the_rest_to_the_next_reader() {
    let _watch = watch("a_consumer_that_is_dropped_leaves_the_rest_to_the_next_reader");
    for in_place in [false, true] {
        for consumed in [0, NUMBER, 500 * NUMBER] {
            let pipe = Pipe::new().unwrap();
            let mut out = producer(pipe.writer, Wait::Block);
            let mut source = consumer(pipe.reader.try_clone().unwrap(), Wait::Block, in_place);
            let at = meet_in_turns(&mut out, &mut source);
            let n = 1000 * NUMBER;
            numbers(out.reserve(n).unwrap(), at);
            out.commit(n).unwrap();
            let mut next = at;
            if consumed > 0 {
                let available = source.fill_buf().unwrap();
                assert_eq!(available.len(), n);
                source.consume(consumed);
                // Bytes that were copied out are lost with the buffer, like bytes that were read from a pipe.
                next += if in_place { consumed } else { n } as u64;
            }
            drop(source);
            let reading =
                thread::spawn(move || Numbers::from(next).rest_of(File::from(pipe.reader)));
            let mut random = Random::new(9);
            let total = send_in_pieces(&mut out, at + 5_000_000, false, &mut random);
            assert!(!out.is_sharing());
            out.finish().unwrap();
            assert_eq!(reading.join().unwrap(), total);
        }
    }
}

#[test]
fn a_consumer_that_has_consumed_all_that_was_shared_can_be_taken_apart() {
    let _watch = watch("a_consumer_that_has_consumed_all_that_was_shared_can_be_taken_apart");
    let pipe = Pipe::new().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader, Wait::Block, true);
    let at = meet_in_turns(&mut out, &mut source);
    // More bytes than fit into the consumer's buffer.
    let n = 60_000 * NUMBER;
    numbers(out.reserve(n).unwrap(), at);
    out.commit(n).unwrap();
    let mut left = n;
    while left > 0 {
        let lent = source.fill_buf().unwrap().len();
        source.consume(lent);
        left -= lent;
        assert!(source.buffer().is_empty());
    }
    assert!(source.into_parts().1.is_empty());
    drop(out);
}

#[test]
fn a_consumer_that_is_taken_apart_returns_all_that_was_shared() {
    let _watch = watch("a_consumer_that_is_taken_apart_returns_all_that_was_shared");
    for in_place in [false, true] {
        let pipe = Pipe::new().unwrap();
        let mut out = producer(pipe.writer, Wait::Block);
        let mut source = consumer(pipe.reader, Wait::Block, in_place);
        let at = meet_in_turns(&mut out, &mut source);
        let n = 60_000 * NUMBER;
        numbers(out.reserve(n).unwrap(), at);
        out.commit(n).unwrap();
        source.fill_buf().unwrap();
        source.consume(NUMBER);
        let (rest, begun) = source.into_parts();
        let mut checker = Numbers::from(at + NUMBER as u64);
        checker.check(&begun);
        assert_eq!(checker.at, at + n as u64);
        let mut bytes = [0; 2 * NUMBER];
        numbers(&mut bytes, checker.at);
        out.write_all(&bytes).unwrap();
        out.finish().unwrap();
        assert_eq!(
            checker.rest_of(File::from(rest)),
            at + (n + 2 * NUMBER) as u64
        );
    }
}

#[test]
fn a_producer_without_readers_gets_the_error_of_a_pipe() {
    let _watch = watch("a_producer_without_readers_gets_the_error_of_a_pipe");
    let pipe = Pipe::new().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader, Wait::Block, false);
    meet_in_turns(&mut out, &mut source);
    drop(source);
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < LONG);
        out.reserve(NUMBER).unwrap().fill(0);
        if let Err(error) = out.commit(NUMBER) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
}

#[test]
fn a_deadline_ends_the_wait_of_either_side() {
    let _watch = watch("a_deadline_ends_the_wait_of_either_side");
    let pipe = Pipe::new().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader, Wait::Block, false);
    let at = meet_in_turns(&mut out, &mut source);
    source.set_deadline(Some(Instant::now() + Duration::from_millis(5)));
    let error = source.fill_buf().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    source.set_deadline(None);
    out.set_deadline(Some(Instant::now() + Duration::from_millis(5)));
    let mut sent = at;
    let error = loop {
        match out.reserve(100 * NUMBER) {
            Ok(bytes) => numbers(bytes, sent),
            Err(error) => break error,
        }
        match out.commit(100 * NUMBER) {
            Ok(()) => sent += 100 * NUMBER as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    // Bytes that were sent are not lost, although nothing may be sent any more.
    drop(out);
    let mut checker = Numbers::from(at);
    let mut rest = Vec::new();
    source.read_to_end(&mut rest).unwrap();
    checker.check(&rest);
    assert!(checker.at >= sent, "{} {sent}", checker.at);
}

#[test]
fn a_producer_with_a_deadline_is_dropped_at_once_and_loses_nothing() {
    let _watch = watch("a_producer_with_a_deadline_is_dropped_at_once_and_loses_nothing");
    let hour = Duration::from_secs(3600);
    // The first deadline may pass while the producer is dropped.
    for (left, gathered) in [(Duration::from_millis(5), 0), (hour, 10)] {
        let pipe = Pipe::new().unwrap();
        let mut out = producer(pipe.writer, Wait::Block);
        let mut source = consumer(pipe.reader, Wait::Block, false);
        let at = meet_in_turns(&mut out, &mut source);
        // More than fits into the pipe.
        let (n, mut sent) = (10_000 * NUMBER, at);
        while sent < at + 3 * MIB as u64 {
            numbers(out.reserve(n).unwrap(), sent);
            out.commit(n).unwrap();
            sent += n as u64;
        }
        let mut bytes = vec![0; gathered * NUMBER];
        numbers(&mut bytes, sent);
        out.write_all(&bytes).unwrap();
        out.set_deadline(Some(Instant::now() + left));
        drop(out);
        let total = Numbers::from(at).rest_of(source);
        assert_eq!(total, sent + bytes.len() as u64);
    }
}

/// What becomes of a producer that a `Cancel` or its deadline has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterStop {
    Drop,
    /// It is stopped once more.
    Finish,
    /// The caller writes the bytes that it returns into the pipe.
    IntoParts,
    /// It continues with another deadline.
    Continue,
}

#[test]
fn what_a_producer_that_is_stopped_has_sent_arrives_and_nothing_else() {
    use AfterStop::{Continue, Drop, Finish, IntoParts};
    for seed in 0..20 {
        let _watch = watch("what_a_producer_that_is_stopped_has_sent_arrives_and_nothing_else");
        for after in [Drop, Finish, IntoParts] {
            stop_while_sharing(true, after, seed);
        }
        for after in [Drop, Finish, IntoParts, Continue] {
            stop_while_sharing(false, after, seed);
        }
    }
}

/// Stops a producer that shares memory by a `Cancel` or by a deadline, while its consumer reads or does not.
fn stop_while_sharing(by_cancel: bool, after: AfterStop, seed: u64) {
    let what = format!("cancel {by_cancel}, {after:?}, seed {seed}");
    let mut random = Random::new(seed * 7919);
    let (pipe, cancel) = (Pipe::new().unwrap(), Cancel::new().unwrap());
    let (mut options, mut waiter) = (ProducerOptions::new(), Waiter::new(Wait::Block));
    if by_cancel {
        options = options.cancel(&cancel);
        waiter.cancel = Some(cancel.clone());
    }
    let mut out = Producer::new(options.open(pipe.writer).unwrap(), waiter);
    let mut source = consumer(pipe.reader, Wait::Block, random.zero_to(1) == 0);
    let mut at = meet_in_turns(&mut out, &mut source);
    let begun = at;
    let mut read = Some(move || Numbers::from(begun).rest_of(source));
    // A consumer that does not read lets the producer wait for room in the ring.
    let reading = (random.zero_to(1) == 0).then(|| thread::spawn(read.take().unwrap()));
    let moment = Duration::from_micros(random.zero_to(3000) as u64);
    let stopping = thread::spawn(move || {
        if by_cancel {
            thread::sleep(moment);
            cancel.cancel();
        }
    });
    if !by_cancel {
        out.set_deadline(Some(Instant::now() + moment));
    }
    let error = loop {
        let n = random.up_to(out.chunk() / NUMBER) * NUMBER;
        match out.reserve(n) {
            Ok(bytes) => numbers(bytes, at),
            Err(error) => break error,
        }
        // What a commit has accepted is in the producer, also if it could not be sent.
        at += n as u64;
        if let Err(error) = out.commit(n) {
            break error;
        }
    };
    stopping.join().unwrap();
    let expected = match by_cancel {
        true => Stopped::Cancelled,
        false => Stopped::TimedOut,
    };
    let sent = out.sent();
    assert!(
        matches!(error, Error::Stopped { by, moved, .. } if by == expected && moved == sent),
        "{what}: {error:?} after {sent}"
    );
    assert_eq!(sent + out.unsent(), at, "{what}");
    let reading = reading.unwrap_or_else(|| thread::spawn(read.take().unwrap()));
    let total = match after {
        AfterStop::Drop => {
            drop(out);
            sent
        }
        AfterStop::Finish => {
            let unfinished = out.finish().unwrap_err();
            let error = unfinished.error;
            assert!(
                matches!(error, Error::Stopped { moved, .. } if moved == sent),
                "{error:?}"
            );
            drop(unfinished.producer);
            sent
        }
        AfterStop::IntoParts => {
            let (sink, unsent) = out.into_parts();
            File::from(sink).write_all(&unsent).unwrap();
            at
        }
        AfterStop::Continue => {
            out.set_deadline(None);
            let at = send_in_pieces(&mut out, at + 1_000_000, false, &mut random);
            out.finish().unwrap();
            at
        }
    };
    assert_eq!(reading.join().unwrap(), total, "{what}");
}

#[test]
fn what_a_producer_with_a_deadline_leaves_to_a_consumer_that_goes_meanwhile_is_in_the_pipe() {
    let streams = match env::var_os("FULLBORE_TEST_LOAD") {
        None => 300,
        Some(load) if load == "quick" => 2_000,
        Some(_) => 20_000,
    };
    for seed in 1..=streams {
        let _watch = watch("what_a_producer_with_a_deadline_leaves_to_a_consumer_that_goes");
        let random = &mut Random::new(seed * 7919);
        let pipe = Pipe::new().unwrap();
        let mut out = producer(pipe.writer, Wait::Block);
        let mut source = consumer(pipe.reader.try_clone().unwrap(), Wait::Block, true);
        let at = meet_in_turns(&mut out, &mut source);
        // No more than fits into the pipe.
        let n = (random.zero_to(4000) + 1) * NUMBER;
        numbers(out.reserve(n).unwrap(), at);
        out.commit(n).unwrap();
        let mut next = at;
        if random.zero_to(1) == 0 {
            source.fill_buf().unwrap();
            let consumed = random.zero_to(n / NUMBER) * NUMBER;
            source.consume(consumed);
            next += consumed as u64;
        }
        out.set_deadline(Some(Instant::now() + LONG));
        let (first, second) = (random.zero_to(30), random.zero_to(30));
        let leaving = thread::spawn(move || {
            thread::sleep(Duration::from_micros(first as u64));
            drop(out);
        });
        thread::sleep(Duration::from_micros(second as u64));
        drop(source);
        leaving.join().unwrap();
        let total = Numbers::from(next).rest_of(File::from(pipe.reader));
        assert_eq!(total, at + n as u64, "seed {seed}");
    }
}

#[test]
fn a_producer_with_a_deadline_whose_consumer_has_gone_leaves_the_bytes_in_the_pipe() {
    let _watch = watch("a_producer_with_a_deadline_whose_consumer_has_gone");
    let pipe = Pipe::new().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader.try_clone().unwrap(), Wait::Block, false);
    let at = meet_in_turns(&mut out, &mut source);
    let n = 1000 * NUMBER;
    numbers(out.reserve(n).unwrap(), at);
    out.commit(n).unwrap();
    drop(source);
    out.set_deadline(Some(Instant::now() + Duration::from_secs(3600)));
    drop(out);
    let total = Numbers::from(at).rest_of(File::from(pipe.reader));
    assert_eq!(total, at + n as u64);
}

/// More than the pipe has room for was flushed into the ring, and the next reader comes after the deadline.
#[test]
fn what_a_producer_has_flushed_arrives_whatever_its_deadline_once_its_consumer_has_gone() {
    for (seed, gathered, by_cancel) in [(1, 0, false), (2, 10, false), (3, 0, true), (4, 10, true)]
    {
        let _watch = watch("what_a_producer_has_flushed_arrives_whatever_its_deadline");
        let random = &mut Random::new(seed * 7919);
        let (pipe, cancel) = (Pipe::new().unwrap(), Cancel::new().unwrap());
        let (mut options, mut waiter) = (ProducerOptions::new(), Waiter::new(Wait::Block));
        if by_cancel {
            options = options.cancel(&cancel);
            waiter.cancel = Some(cancel.clone());
        }
        let mut out = Producer::new(options.open(pipe.writer).unwrap(), waiter);
        let mut source = consumer(pipe.reader.try_clone().unwrap(), Wait::Block, false);
        let at = meet_in_turns(&mut out, &mut source);
        let mut sent = at;
        while sent < at + 3 * MIB as u64 {
            let n = random.up_to(out.chunk() / NUMBER) * NUMBER;
            numbers(out.reserve(n).unwrap(), sent);
            out.commit(n).unwrap();
            sent += n as u64;
        }
        out.flush().unwrap();
        let mut bytes = vec![0; gathered * NUMBER];
        numbers(&mut bytes, sent);
        out.write_all(&bytes).unwrap();
        drop(source);
        match by_cancel {
            true => cancel.cancel(),
            false => out.set_deadline(Some(Instant::now() + Duration::from_millis(2))),
        }
        let dropping = thread::spawn(move || drop(out));
        thread::sleep(Duration::from_millis(random.zero_to(20) as u64));
        let total = Numbers::from(at).rest_of(File::from(pipe.reader));
        let all = sent..=sent + bytes.len() as u64;
        assert!(all.contains(&total), "seed {seed}: {total} of {sent}");
        dropping.join().unwrap();
    }
}

/// Sends one stream to consumers that come and go, flushes it, and drops the producer with a deadline of 2 ms. Returns
/// how many bytes of the stream did not arrive, at its end: those before them are checked.
fn come_and_go(seed: u64) -> u64 {
    let random = &mut Random::new(seed * 7919);
    let pipe = Pipe::new().unwrap();
    let mut theirs = Random::new(seed * 104_729);
    let sending = thread::spawn(move || {
        let random = &mut theirs;
        let mut out = producer(pipe.writer, Wait::Block);
        let mut at = 0;
        for _ in 0..=random.zero_to(12) {
            let more = [0, 1, 50_000, 2_000_000][random.zero_to(3)];
            at = send_in_pieces_from(at, &mut out, at + more, false, random);
            pause(random, 300);
        }
        out.flush().unwrap();
        out.set_deadline(Some(Instant::now() + Duration::from_millis(2)));
        drop(out);
        at
    });
    let (mut checker, mut leaves) = (Numbers::from(0), false);
    let mut fd = pipe.reader;
    for _ in 0..random.zero_to(6) {
        let in_place = random.zero_to(1) == 0;
        let mut source = consumer(fd.try_clone().unwrap(), Wait::Block, in_place);
        let least = checker.at + [0, 100, 100_000, 3_000_000][random.zero_to(3)];
        read_some(&mut source, &mut checker, least);
        pause(random, 3000);
        // It gives back what it has claimed, or leaves what it has not claimed to the producer.
        match random.zero_to(1) {
            0 => {
                let (same, unread) = source.into_parts();
                checker.check(&unread);
                fd = same;
            }
            _ => {
                let unread = source.buffer().to_vec();
                checker.check(&unread);
                source.consume(unread.len());
                leaves |= source.is_sharing();
                drop(source);
            }
        }
        pause(random, 300);
    }
    let total = match random.zero_to(1) {
        0 => checker.rest_of(File::from(fd)),
        _ => checker.rest_of(consumer(fd, Wait::Block, false)),
    };
    let missing = sending.join().unwrap() - total;
    // A ring that its producer has left to a consumer goes into the pipe only as far as there is room.
    assert!(missing == 0 || leaves, "seed {seed}: {missing}");
    missing
}

/// Skips no byte whatever happens, so that what is missing is the end.
#[test]
fn no_byte_is_skipped_while_consumers_come_and_go_and_a_deadline_passes() {
    let streams = match env::var_os("FULLBORE_TEST_LOAD") {
        None => 100,
        Some(load) if load == "quick" => 2_000,
        Some(_) => 20_000,
    };
    let mut short = Vec::new();
    for seed in 1..=streams {
        let _watch = watch("no_byte_is_skipped_while_consumers_come_and_go");
        match come_and_go(seed) {
            0 => {}
            missing => short.push((seed, missing)),
        }
    }
    println!(
        "{} of {streams} streams ended early: {short:?}",
        short.len()
    );
}

#[test]
fn what_neither_a_dead_producer_nor_its_consumer_took_is_left_in_the_pipe() {
    let _watch = watch("what_neither_a_dead_producer_nor_its_consumer_took_is_left_in_the_pipe");
    for in_place in [false, true] {
        for (numbers_left, other) in [(1000, false), (1000, true), (60_000, false)] {
            // A test that examines its peer briefly opens every descriptor in /proc, and keeps alive the process whose
            // descriptor it has open; if its thread is not scheduled, for longer than a consumer waits. On a busy
            // machine, this happens in fewer than 1 of 10 tries.
            let is_left = (0..100).any(|_| is_left_in_the_pipe(in_place, numbers_left, other));
            assert!(is_left, "{in_place} {numbers_left}");
        }
    }
}

/// Ends a producer as if it had been killed, and then its consumer, and returns whether the bytes that they had not
/// read are in the pipe. If so, they must be right. With `other` bytes in the pipe, nothing has to follow them.
fn is_left_in_the_pipe(in_place: bool, numbers_left: usize, other: bool) -> bool {
    let pipe = Pipe::new().unwrap();
    let (next_reader, other_writer) = (
        pipe.reader.try_clone().unwrap(),
        pipe.writer.try_clone().unwrap(),
    );
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer_with_buffer(1000 * NUMBER, pipe.reader, Wait::Block, in_place);
    let at = meet_in_turns(&mut out, &mut source);
    let n = (numbers_left + 500) * NUMBER;
    numbers(out.reserve(n).unwrap(), at);
    out.commit(n).unwrap();
    assert!(out.is_sharing());
    let capacity = fullbore_linux::pipe::of(&next_reader).unwrap().unwrap();
    let capacity = capacity.resize(64 * 1024).unwrap();
    if in_place {
        source.fill_buf().unwrap();
        source.consume(500 * NUMBER);
    } else {
        source.read_exact(&mut [0; 500 * NUMBER]).unwrap();
    }
    // Bytes that were copied out are lost with the buffer, like bytes that were read from a pipe.
    let from = match in_place {
        true => at + (500 * NUMBER) as u64,
        false => source.taken(),
    };
    let forking = forking();
    // Ends as if it had been killed: the ring is neither closed nor drained.
    out.set_deadline(Some(Instant::now()));
    drop(out);
    if other {
        File::from(other_writer.try_clone().unwrap())
            .write_all(b"other")
            .unwrap();
    }
    drop(other_writer);
    drop(source);
    drop(forking);
    let mut rest = Vec::new();
    File::from(next_reader).read_to_end(&mut rest).unwrap();
    if other {
        assert_eq!(
            rest, b"other",
            "nothing comes after what should come before"
        );
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let mut checker = Numbers::from(from);
    let whole = rest.len() / NUMBER * NUMBER;
    checker.check(&rest[..whole]);
    let left = at + n as u64 - from;
    assert_eq!(rest.len() as u64, left.min(capacity as u64));
    true
}

#[test]
fn a_second_reader_ends_the_sharing() {
    let _watch = watch("a_second_reader_ends_the_sharing");
    let pipe = Pipe::new().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader.try_clone().unwrap(), Wait::Block, false);
    let at = meet_in_turns(&mut out, &mut source);
    let mut second = consumer(pipe.reader, Wait::Block, false);
    let began = Instant::now();
    let reading = thread::spawn(move || second.read(&mut [0; NUMBER]).unwrap());
    let mut sent = at;
    while out.is_sharing() {
        assert!(began.elapsed() < LONG);
        let mut bytes = [0; NUMBER];
        numbers(&mut bytes, sent);
        out.write_all(&bytes).unwrap();
        out.flush().unwrap();
        sent += NUMBER as u64;
    }
    assert_eq!(reading.join().unwrap(), NUMBER);
    drop(source);
}

/// Held while a process is forked, or while no process may be forked: until a child executes its program or exits, it
/// has a copy of every descriptor, and so of the producer's end of a connection.
fn forking() -> MutexGuard<'static, ()> {
    static FORKING: Mutex<()> = Mutex::new(());
    FORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The arguments of this program with which it only calls `plays_a_part`.
const PLAYS_A_PART: [&str; 4] = ["--exact", "plays_a_part", "--ignored", "--nocapture"];

/// Returns a command that runs `plays_a_part` in a separate process.
fn part_of(part: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(PLAYS_A_PART).env("FULLBORE_TEST_PART", part);
    command
}

/// Starts `plays_a_part` again, with the stdin of this process.
fn start_again(part: &str) -> Child {
    let end = rustix::io::dup(io::stdin()).unwrap();
    let _forking = forking();
    part_of(part).stdin(end).spawn().unwrap()
}

/// Starts `plays_a_part` in a separate process, with one end of a pipe as its stdin.
fn start(part: &str, end: OwnedFd) -> Child {
    spawn(&mut part_of(part), end)
}

fn spawn(command: &mut Command, end: OwnedFd) -> Child {
    let _forking = forking();
    command.stdin(end).stdout(Stdio::piped()).spawn().unwrap()
}

/// As [`start`], in a new PID namespace, outside of which no process has a PID there; `None` if there can be none.
fn start_in_pid_namespace(part: &str, end: OwnedFd) -> Option<Child> {
    // The first process that the shell forks is the first of the namespace. The shell itself keeps no end of the pipe.
    const FORK: &str = r#"exec 3<&0 < /dev/null; "$0" "$@" <&3 3<&- & exec 3<&-; wait $!"#;
    let unshare = || {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            // The same user inside: two users would not meet in any case.
            command.args(["--user", "--map-current-user"]);
        }
        command.arg("--pid").args(["sh", "-c"]);
        command
    };
    let is_allowed = {
        let _forking = forking();
        unshare().arg("true &").output()
    };
    if !is_allowed.is_ok_and(|ran| ran.status.success()) {
        fullbore_tests::skipped("no PID namespace can be made here");
        return None;
    }
    let mut command = unshare();
    command.arg(FORK).arg(env::current_exe().unwrap());
    command.args(PLAYS_A_PART).env("FULLBORE_TEST_PART", part);
    Some(spawn(&mut command, end))
}

/// Waits for a process that plays a part, and returns the rest of the line in which it has printed this word.
fn said_after(word: &str, child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let rest = (said.lines()).find_map(|line| Some(line.split_once(word)?.1.to_owned()));
    rest.unwrap_or_else(|| panic!("{}: {said}", output.status))
}

/// Limits the address space of this process to what it has, and less than any ring takes: its memory is mapped twice.
fn leave_no_room_for_a_ring() {
    const ROOM: u64 = 6 << 20;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let limit = Rlimit {
        current: Some(pages * fullbore_linux::page_size() as u64 + ROOM),
        maximum: None,
    };
    setrlimit(Resource::As, limit).unwrap();
}

fn kill_myself() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("a killed process does not go on");
}

/// The length of every stream here is a multiple of this many bytes.
const ROUND: u64 = 8 << 20;

#[test]
#[ignore = "runs in the processes that other tests start"]
#[expect(
    clippy::zombie_processes,
    reason = "the process that starts another one here is killed"
)]
fn plays_a_part() {
    let Ok(part) = env::var("FULLBORE_TEST_PART") else {
        return;
    };
    let words: Vec<&str> = part.split(' ').collect();
    let end = rustix::io::dup(io::stdin()).unwrap();
    match words[..] {
        ["produce", ending] => {
            let mut out = producer(end, Wait::Adaptive);
            let mut random = Random::new(5);
            let met = send_in_pieces(&mut out, 1, true, &mut random);
            // A whole number of rounds, the last of it in one piece.
            let total = (met + 4 * ROUND).next_multiple_of(ROUND);
            let mut at = met;
            while at < total {
                let n = (total - at).min(out.chunk() as u64) as usize;
                numbers(out.reserve(n).unwrap(), at);
                out.commit(n).unwrap();
                at += n as u64;
            }
            match ending {
                "finish" => drop(out.finish().unwrap()),
                "drop" => drop(out),
                "exit" => std::process::exit(0),
                "exec" => panic!("{}", Command::new("true").exec()),
                "kill" => kill_myself(),
                _ => panic!("{ending}"),
            }
        }
        ["produce-to-anybody"] => {
            let (sent, shared) = send_to_anybody(end, ENOUGH);
            println!("sent {sent} {shared}");
        }
        ["produce-without-room"] => {
            let mut out = producer(end, Wait::Block);
            leave_no_room_for_a_ring();
            let (n, mut sent) = (4_000 * NUMBER, 0);
            while sent < ENOUGH {
                numbers(out.reserve(n).unwrap(), sent);
                out.commit(n).unwrap();
                sent += n as u64;
            }
            println!("sent {sent} {}", out.finish().unwrap().shared);
        }
        ["consume-without-room"] => {
            let mut source = consumer(end, Wait::Block, false);
            leave_no_room_for_a_ring();
            let total = Numbers::from(0).rest_of(&mut source);
            println!("right {total} {}", source.is_sharing());
        }
        ["produce-messages", number, seed] => {
            let mut random = Random::new(seed.parse().unwrap());
            let wait = ALL_WAITS[random.zero_to(3)];
            let mut out = producer(end, wait);
            let mut at = send_in_pieces(&mut out, 1, true, &mut random);
            let mut message = [0; 25 * NUMBER];
            for _ in 0..number.parse::<u64>().unwrap() {
                let message = &mut message[..(random.zero_to(24) + 1) * NUMBER];
                numbers(message, at);
                out.write_all(message).unwrap();
                at += message.len() as u64;
                if random.zero_to(999) == 0 {
                    out.flush().unwrap();
                }
            }
            out.finish().unwrap();
            println!("sent {at}");
        }
        ["produce-until-sigpipe"] => {
            // SAFETY: sets the default disposition, which a program in C starts with.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            let mut out = producer(end, Wait::Block);
            send_in_pieces(&mut out, u64::MAX, true, &mut Random::new(8));
        }
        ["consume-messages", positions, seed] => {
            let mut random = Random::new(seed.parse::<u64>().unwrap() + 1);
            let wait = ALL_WAITS[random.zero_to(3)];
            let mut source = consumer_with_buffer(BUFFER, end, wait, false);
            let positions = File::options().write(true).open(positions).unwrap();
            let mut checker = Numbers::from(0);
            let mut successor = None;
            loop {
                if successor.is_none() && source.is_sharing() {
                    successor = Some(start_again(&format!("succeed {}", std::process::id())));
                }
                let bytes = or_cut(source.fill_buf());
                if bytes.is_empty() {
                    break;
                }
                let n = match random.zero_to(3) {
                    0 => random.zero_to(bytes.len()),
                    _ => bytes.len(),
                };
                checker.check(&bytes[..n]);
                source.consume(n);
                if successor.is_some() {
                    let at = checker.at + checker.begun.len() as u64;
                    positions.write_all_at(&at.to_le_bytes(), 0).unwrap();
                }
            }
            println!("read {}", checker.at);
            // The successor reads after this process has exited.
        }
        ["succeed", parent] => {
            // The parent may have exited before the first check.
            let parent: u32 = parent.parse().unwrap();
            while std::os::unix::process::parent_id() == parent {
                thread::sleep(Duration::from_millis(1));
            }
            let mut source = File::from(end);
            let mut first = [0; NUMBER];
            match source.read_exact(&mut first) {
                Ok(()) => {
                    let from = u64::from_le_bytes(first) * NUMBER as u64;
                    let checker = Numbers::from(from + NUMBER as u64);
                    println!("rest {from} {}", checker.rest_of(source));
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
            }
        }
        ["consume", ending] => {
            let mut source = consumer(end, Wait::Adaptive, ending == "drop");
            if ending == "all" {
                let (total, shared) = read_in_pieces(source, &mut Random::new(6));
                println!("right {total} {shared}");
                return;
            }
            let mut checker = Numbers::from(0);
            while !source.is_sharing() || checker.at < ROUND {
                let bytes = source.fill_buf().unwrap();
                assert!(!bytes.is_empty(), "have not met");
                let n = bytes.len();
                checker.check(bytes);
                source.consume(n);
            }
            match ending {
                "drop" => {
                    // Only a part of the lent bytes is consumed.
                    let bytes = source.fill_buf().unwrap();
                    let n = bytes.len().min(3 * NUMBER);
                    checker.check(&bytes[..n]);
                    source.consume(n);
                    drop(source);
                    let total = checker.rest_of(File::from(rustix::io::dup(io::stdin()).unwrap()));
                    println!("right {total} true");
                }
                "kill" => {
                    let _lent = source.fill_buf().unwrap();
                    start_again(&format!("rest {}", source.taken()));
                    kill_myself();
                }
                "exec" => {
                    let _lent = source.fill_buf().unwrap();
                    let error = part_of(&format!("rest {}", source.taken())).exec();
                    panic!("{error}");
                }
                _ => panic!("{ending}"),
            }
        }
        ["rest", from] => {
            let from = from.parse().unwrap();
            let total = Numbers::from(from).rest_of(File::from(end));
            println!("right {total} true");
        }
        _ => panic!("{part}"),
    }
}

/// The bytes of a stream that is long enough for its ends to meet, if they can.
const ENOUGH: u64 = 20_000_000;

/// Sends a stream to whatever reads it; returns its length, and whether memory was shared at the end.
fn send_to_anybody(sink: OwnedFd, len: u64) -> (u64, bool) {
    let mut out = producer(sink, Wait::Block);
    let sent = send_in_pieces(&mut out, len, false, &mut Random::new(3));
    (sent, out.finish().unwrap().shared)
}

fn read_from_anybody(source: OwnedFd) -> (u64, bool) {
    read_in_pieces(consumer(source, Wait::Block, false), &mut Random::new(4))
}

/// Checks that all bytes of a process that produces arrive, and that none of them goes through shared memory.
fn arrives_through_the_pipe_from(producing: Child, source: OwnedFd) {
    let (read, shared) = read_from_anybody(source);
    assert_eq!(said_after("sent ", producing), format!("{read} false"));
    assert!(!shared && read >= ENOUGH);
}

/// Checks that all bytes arrive at a process that consumes, and that it has no shared memory.
fn arrives_through_the_pipe_at(consuming: Child, sink: OwnedFd) {
    let (sent, _) = send_to_anybody(sink, ENOUGH);
    assert_eq!(said_after("right ", consuming), format!("{sent} false"));
}

#[test]
fn a_process_in_another_pid_namespace_uses_the_pipe_and_every_byte_arrives() {
    let _watch = watch("a_process_in_another_pid_namespace_uses_the_pipe");
    // In it, a process outside has the PID 0 (SO_PEERCRED).
    let pipe = Pipe::new().unwrap();
    let Some(inside) = start_in_pid_namespace("produce-to-anybody", pipe.writer) else {
        return;
    };
    arrives_through_the_pipe_from(inside, pipe.reader);
    let pipe = Pipe::new().unwrap();
    let inside = start_in_pid_namespace("consume all", pipe.reader).unwrap();
    arrives_through_the_pipe_at(inside, pipe.writer);
}

#[test]
fn a_process_without_addresses_for_a_ring_uses_the_pipe_and_every_byte_arrives() {
    let _watch = watch("a_process_without_addresses_for_a_ring_uses_the_pipe");
    let pipe = Pipe::new().unwrap();
    let producing = start("produce-without-room", pipe.writer);
    arrives_through_the_pipe_from(producing, pipe.reader);
    let pipe = Pipe::new().unwrap();
    let consuming = start("consume-without-room", pipe.reader);
    arrives_through_the_pipe_at(consuming, pipe.writer);
}

/// A system call, of which only those with this value of the argument of this index may be meant.
type Call = (libc::c_long, Option<(u8, libc::c_int)>);

/// Runs `job` where this call is refused; `None` where no filter can be installed.
fn refusing<T: Send>(
    (call, argument): Call,
    errno: Errno,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    match argument {
        None => calls::refusing(&[call], errno, job),
        Some((index, value)) => calls::refusing_some(call, (index, &[value as u32]), errno, job),
    }
}

#[test]
fn where_a_call_for_a_ring_is_refused_every_byte_arrives_through_the_pipe() {
    let _watch = watch("where_a_call_for_a_ring_is_refused_every_byte_arrives_through_the_pipe");
    /// Only a ring is mapped in this way.
    const MAP: Call = (
        libc::SYS_mmap,
        Some((3, libc::MAP_SHARED | libc::MAP_FIXED)),
    );
    const DONT_FORK: Call = (libc::SYS_madvise, Some((2, libc::MADV_DONTFORK)));
    const OF_PRODUCER: [Call; 11] = [
        (libc::SYS_socket, None),
        (libc::SYS_bind, None),
        (libc::SYS_listen, None),
        (libc::SYS_accept4, None),
        (libc::SYS_getsockopt, None),
        (libc::SYS_memfd_create, None),
        (libc::SYS_ftruncate, None),
        (libc::SYS_fcntl, Some((1, libc::F_ADD_SEALS))),
        (libc::SYS_sendmsg, None),
        MAP,
        DONT_FORK,
    ];
    const OF_CONSUMER: [Call; 8] = [
        (libc::SYS_socket, None),
        (libc::SYS_connect, None),
        (libc::SYS_getsockopt, None),
        (libc::SYS_recvmsg, None),
        (libc::SYS_fcntl, Some((1, libc::F_GET_SEALS))),
        (libc::SYS_fstatfs, None),
        MAP,
        DONT_FORK,
    ];
    const LEN: u64 = 6_000_000;
    for errno in [Errno::PERM, Errno::NOSYS, Errno::NOMEM] {
        for call in OF_PRODUCER {
            let pipe = Pipe::new().unwrap();
            let reading = thread::spawn(move || read_from_anybody(pipe.reader));
            let Some((sent, shared)) = refusing(call, errno, || send_to_anybody(pipe.writer, LEN))
            else {
                return;
            };
            assert_eq!(reading.join().unwrap(), (sent, false), "{call:?} {errno}");
            assert!(!shared, "{call:?} {errno}");
        }
        for call in OF_CONSUMER {
            let pipe = Pipe::new().unwrap();
            let sending = thread::spawn(move || send_to_anybody(pipe.writer, LEN));
            let Some(read) = refusing(call, errno, || read_from_anybody(pipe.reader)) else {
                return;
            };
            let (sent, _) = sending.join().unwrap();
            assert_eq!(read, (sent, false), "{call:?} {errno}");
        }
    }
}

#[test]
fn two_ends_meet_on_a_kernel_without_memfds_that_cannot_be_executed() {
    let _watch = watch("two_ends_meet_on_a_kernel_without_memfds_that_cannot_be_executed");
    // Before Linux 6.3, an unknown flag of memfd_create(2).
    const FLAGS: u32 = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL;
    let pipe = Pipe::new().unwrap();
    let reading = thread::spawn(move || read_from_anybody(pipe.reader));
    let unknown = (1, &[FLAGS][..]);
    let sent = calls::refusing_some(libc::SYS_memfd_create, unknown, Errno::INVAL, || {
        let mut out = producer(pipe.writer, Wait::Block);
        let met = send_in_pieces(&mut out, 1, true, &mut Random::new(3));
        out.finish().unwrap();
        met
    });
    if let Some(sent) = sent {
        assert_eq!(reading.join().unwrap().0, sent);
    }
}

/// Runs both in separate processes, and returns the number of bytes that arrived.
fn run_both(producing: &str, consuming: &str, disturb: impl FnOnce(&Child, &Child)) -> u64 {
    let was_cut = ["exit", "kill", "exec"].contains(&producing) && consuming == "all";
    let pipe = Pipe::new().unwrap();
    let mut to = start(&format!("consume {consuming}"), pipe.reader);
    let mut from = start(&format!("produce {producing}"), pipe.writer);
    disturb(&from, &to);
    let mut said = String::new();
    to.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    to.wait().unwrap();
    from.wait().unwrap();
    let line = said.lines().find_map(|line| line.split_once("right "));
    let Some((_, line)) = line else {
        panic!("{producing}, {consuming}: {said}")
    };
    let (total, shared) = line.split_once(' ').unwrap();
    assert!(shared.starts_with("true"), "{line}");
    assert_eq!(said.contains("cut off"), was_cut, "{producing}: {said}");
    total.parse().unwrap()
}

#[test]
fn every_byte_arrives_whatever_ends_the_producer() {
    let _watch = watch("every_byte_arrives_whatever_ends_the_producer");
    for producing in ["finish", "drop", "exit", "kill", "exec"] {
        let total = run_both(producing, "all", |_, _| {});
        assert!(total > 0 && total % ROUND == 0, "{producing}: {total}");
    }
}

#[test]
fn the_next_reader_gets_the_rest_whatever_ends_the_consumer() {
    let _watch = watch("the_next_reader_gets_the_rest_whatever_ends_the_consumer");
    for consuming in ["drop", "kill", "exec"] {
        for producing in ["finish", "drop"] {
            let total = run_both(producing, consuming, |_, _| {});
            assert!(total > 0 && total % ROUND == 0, "{consuming}: {total}");
        }
    }
}

#[test]
fn a_producer_whose_consumer_ends_is_ended_by_sigpipe() {
    let _watch = watch("a_producer_whose_consumer_ends_is_ended_by_sigpipe");
    let pipe = Pipe::new().unwrap();
    let mut from = start("produce-until-sigpipe", pipe.writer);
    let mut source = consumer(pipe.reader, Wait::Block, false);
    let mut checker = Numbers::from(0);
    while !source.is_sharing() {
        let bytes = source.fill_buf().unwrap();
        assert!(!bytes.is_empty(), "have not met");
        checker.check(bytes);
        let n = bytes.len();
        source.consume(n);
    }
    drop(source);
    assert_eq!(from.wait().unwrap().signal(), Some(libc::SIGPIPE));
}

/// The buffer of a consumer that may be killed, and so the most bytes that are lost with it.
const BUFFER: usize = 64 * 1024;

/// Which process is killed while messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Nobody,
    Producer,
    Consumer,
}

#[test]
fn every_byte_of_many_messages_arrives_whoever_is_stopped_or_killed_and_whenever() {
    let _watch = watch("every_byte_of_many_messages_arrives_whoever_is_stopped_or_killed");
    let (rounds, messages) = match env::var_os("FULLBORE_TEST_LOAD") {
        None => (6, 60_000),
        Some(load) if load == "quick" => (15, 300_000),
        Some(_) => (60, 1_000_000),
    };
    for seed in 1..=rounds {
        let mut random = Random::new(seed * 7919);
        let killed = [Killed::Nobody, Killed::Producer, Killed::Consumer][seed as usize % 3];
        let said = send_messages(messages, killed, &mut random, seed);
        let word = |name: &str| -> Option<Vec<u64>> {
            let (_, rest) = said.lines().find_map(|line| line.split_once(name))?;
            let numbers = rest.split(' ').map(|number| number.parse().unwrap());
            Some(numbers.collect())
        };
        let what = format!("seed {seed}, {killed:?}: {said}");
        let (sent, read, rest) = (word("sent "), word("read "), word("rest "));
        let position = word("position ").expect("is always there")[0];
        match (killed, sent, read, rest) {
            (Killed::Consumer, Some(sent), None, Some(rest)) => {
                let lost = rest[0].checked_sub(position).expect(&what);
                assert!(lost <= BUFFER as u64, "lost {lost}, {what}");
                assert_eq!(rest[1], sent[0], "{what}");
            }
            // The consumer had read everything, or the rest was lost with it.
            (Killed::Consumer, Some(sent), None, None) => {
                assert!(sent[0] - position <= BUFFER as u64, "{what}");
            }
            (_, Some(sent), Some(read), None) => assert_eq!(sent, read, "{what}"),
            (Killed::Producer, None, Some(_), None) => {}
            _ => panic!("{what}"),
        }
    }
}

/// Sends messages between two processes, which are stopped from time to time, and one of which is killed once the two
/// have connected; returns their output.
fn send_messages(messages: u64, killed: Killed, random: &mut Random, seed: u64) -> String {
    let positions = tempfile::NamedTempFile::new().unwrap();
    let position = || {
        let bytes = std::fs::read(positions.path()).unwrap();
        bytes
            .try_into()
            .map_or(0, |bytes: [u8; 8]| u64::from_le_bytes(bytes))
    };
    let pipe = Pipe::new().unwrap();
    let path = positions.path().display();
    let mut to = start(&format!("consume-messages {path} {seed}"), pipe.reader);
    let mut from = start(&format!("produce-messages {messages} {seed}"), pipe.writer);
    let signal = |child: &Child, signal: i32| {
        // SAFETY: these are children of this process, which have not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
    };
    let began = Instant::now();
    while position() == 0 && to.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < LONG, "have not met");
        thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..random.zero_to(40) {
        let stopped = [&from, &to][random.zero_to(1)];
        signal(stopped, libc::SIGSTOP);
        thread::sleep(Duration::from_micros(random.zero_to(2000) as u64));
        signal(stopped, libc::SIGCONT);
        thread::sleep(Duration::from_micros(random.zero_to(3000) as u64));
    }
    let stops_before = random.zero_to(1) == 0;
    if let Some(victim) = match killed {
        Killed::Nobody => None,
        Killed::Producer => Some(&from),
        Killed::Consumer => Some(&to),
    } {
        if stops_before {
            signal(victim, libc::SIGSTOP);
            thread::sleep(Duration::from_micros(random.zero_to(5000) as u64));
        }
        signal(victim, libc::SIGKILL);
    }
    let mut said = String::new();
    for child in [&mut from, &mut to] {
        let out = child.stdout.as_mut().unwrap();
        out.read_to_string(&mut said).unwrap();
        said.push('\n');
        let status = child.wait().unwrap();
        let expected = status.success() || status.signal() == Some(libc::SIGKILL);
        assert!(expected, "{status}: {said}");
    }
    format!("{said}position {}\n", position())
}

#[test]
fn either_side_may_be_stopped_for_a_while() {
    let _watch = watch("either_side_may_be_stopped_for_a_while");
    let total = run_both("finish", "all", |from, to| {
        let mut random = Random::new(11);
        for _ in 0..30 {
            let process = [from, to][random.zero_to(1)].id() as i32;
            // SAFETY: these are children of this process, which have not been waited for.
            unsafe {
                libc::kill(process, libc::SIGSTOP);
                thread::sleep(Duration::from_micros(random.zero_to(3000) as u64));
                libc::kill(process, libc::SIGCONT);
            }
        }
    });
    assert!(total > 0 && total % ROUND == 0, "{total}");
}

/// Starts a process that also holds this end of a pipe until its stdin is closed.
fn holding(end: &OwnedFd) -> Child {
    let _forking = forking();
    Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(end.try_clone().unwrap())
        .spawn()
        .unwrap()
}

#[test]
fn a_third_process_with_an_end_of_the_pipe_keeps_the_two_apart() {
    let _watch = watch("a_third_process_with_an_end_of_the_pipe_keeps_the_two_apart");
    let pipe = Pipe::new().unwrap();
    let mut third = holding(&pipe.reader);
    keeps_the_two_apart(pipe);
    drop(third.stdin.take());
    third.wait().unwrap();
}

#[test]
fn a_third_process_without_its_first_thread_keeps_the_two_apart() {
    let _watch = watch("a_third_process_without_its_first_thread_keeps_the_two_apart");
    let pipe = Pipe::new().unwrap();
    let Some(mut command) = fullbore_tests::without_first_thread() else {
        return;
    };
    let mut third = {
        let _forking = forking();
        let stderr = pipe.reader.try_clone().unwrap();
        command
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap()
    };
    drop(command);
    fullbore_tests::wait_for_end_of_first_thread(third.id());
    keeps_the_two_apart(pipe);
    third.kill().unwrap();
    third.wait().unwrap();
}

/// Checks that the two ends of a pipe share no memory.
fn keeps_the_two_apart(pipe: Pipe) {
    let sending = thread::spawn(move || {
        let mut out = producer(pipe.writer, Wait::Block);
        let sent = send_in_pieces(&mut out, 30_000_000, false, &mut Random::new(3));
        assert!(!out.finish().unwrap().shared);
        sent
    });
    let source = consumer(pipe.reader, Wait::Block, false);
    let (read, shared) = read_in_pieces(source, &mut Random::new(4));
    assert!(!shared);
    assert_eq!(read, sending.join().unwrap());
}

#[test]
fn the_two_meet_once_a_third_process_no_longer_has_an_end_of_the_pipe() {
    let _watch = watch("the_two_meet_once_a_third_process_no_longer_has_an_end_of_the_pipe");
    let pipe = Pipe::new().unwrap();
    let mut third = holding(&pipe.reader);
    let sending = thread::spawn(move || {
        let mut out = producer(pipe.writer, Wait::Block);
        let mut random = Random::new(5);
        let met = send_in_pieces(&mut out, 1, true, &mut random);
        let sent = send_in_pieces(&mut out, met + 40_000_000, false, &mut random);
        assert!(out.finish().unwrap().shared);
        sent
    });
    let ending = thread::spawn(move || {
        // Meanwhile the two try to connect many times.
        thread::sleep(Duration::from_millis(300));
        drop(third.stdin.take());
        third.wait().unwrap();
    });
    let source = consumer(pipe.reader, Wait::Block, false);
    let (read, shared) = read_in_pieces(source, &mut Random::new(6));
    assert!(shared);
    assert_eq!(read, sending.join().unwrap());
    ending.join().unwrap();
}

#[test]
fn a_forked_child_can_neither_send_nor_read_nor_disturb() {
    let _watch = watch("a_forked_child_can_neither_send_nor_read_nor_disturb");
    look_up_once();
    let pipe = Pipe::new().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader, Wait::Block, true);
    let at = meet_in_turns(&mut out, &mut source);
    let n = 1000 * NUMBER;
    numbers(out.reserve(n).unwrap(), at);
    out.commit(n).unwrap();
    let (mut out, mut source) = (Some(out), Some(source));
    let forking = forking();
    // SAFETY: the child allocates little, and ends by _exit without returning here.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let mut theirs = (out.take().unwrap(), source.take().unwrap());
        let refused =
            theirs.0.reserve(out_of_window(&theirs.0)).is_err() && theirs.1.fill_buf().is_err();
        drop(theirs);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: writes only to `status`.
    assert_eq!(unsafe { libc::waitpid(process, &mut status, 0) }, process);
    drop(forking);
    assert_eq!(status, 0);
    let (mut out, source) = (out.unwrap(), source.unwrap());
    assert!(out.is_sharing());
    let mut bytes = [0; NUMBER];
    numbers(&mut bytes, at + n as u64);
    out.write_all(&bytes).unwrap();
    out.finish().unwrap();
    let total = Numbers::from(at).rest_of(source);
    assert_eq!(total, at + (n + NUMBER) as u64);
}

/// Returns a length beyond the rest of the window, so that the producer has to check the ring.
fn out_of_window<Fd: AsFd>(out: &Producer<Fd>) -> usize {
    out.chunk()
}

#[test]
fn the_pipe_stays_empty_while_memory_is_shared() {
    let _watch = watch("the_pipe_stays_empty_while_memory_is_shared");
    let pipe = Pipe::new().unwrap();
    let look = pipe.reader.try_clone().unwrap();
    let mut out = producer(pipe.writer, Wait::Block);
    let mut source = consumer(pipe.reader, Wait::Block, false);
    let at = meet_in_turns(&mut out, &mut source);
    let n = 20_000 * NUMBER;
    numbers(out.reserve(n).unwrap(), at);
    out.commit(n).unwrap();
    assert_eq!(
        fullbore_linux::pipe::of(&look)
            .unwrap()
            .unwrap()
            .queued()
            .unwrap(),
        0
    );
    let mut bytes = vec![0; n];
    source.read_exact(&mut bytes).unwrap();
    Numbers::from(at).check(&bytes);
}

#[test]
fn what_was_half_made_when_a_fill_panicked_is_never_sent() {
    let pipe = Pipe::new().unwrap();
    let inner = fullbore::Producer::new(&pipe.writer).unwrap();
    let mut out = Producer::new(inner, Waiter::new(Wait::Block));
    let filled = catch_unwind(AssertUnwindSafe(|| out.fill(100, |_| panic!("half made"))));
    assert!(filled.is_err());
    assert!(matches!(out.commit(100), Err(fullbore::Error::Invalid(_))));
    assert_eq!((out.sent(), out.unsent()), (0, 0));
    out.fill(0, |_| panic!("there is nothing to make")).unwrap();
    let too_much = out.chunk() + 1;
    let filled = out.fill(too_much, |_| panic!("nothing was lent"));
    assert!(matches!(filled, Err(fullbore::Error::Invalid(_))));
    out.fill(3, |piece| piece.copy_from_slice(b"abc")).unwrap();
    drop(out);
    assert_eq!(queued(&pipe.reader), 3);
}

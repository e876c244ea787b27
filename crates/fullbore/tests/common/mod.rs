//! Code that the tests of the library share: bytes that depend on their position, readers of many kinds, and threads
//! whose system calls fail.
//!
//! Miri has no vmsplice, tee or splice, and the sanitizers need a nightly compiler; so these tests check memory safety
//! by examining every byte that comes out. valgrind can run those without a seccomp filter, if rustix makes its calls
//! through libc (otherwise it gets the page size in a way that valgrind does not see):
//!
//! ```sh
//! RUSTFLAGS=--cfg=rustix_use_libc cargo test -p fullbore --target-dir /tmp/vg --no-run
//! valgrind --error-exitcode=9 /tmp/vg/debug/deps/endpoints-… fresh_stays
//! ```

#![allow(
    dead_code,
    reason = "each test program uses its own part of what is here"
)]

pub mod calls;
pub mod ends;
pub mod targets;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fullbore::{ConsumerOptions, Error, Pipe, Producer, ProducerOptions, Wait, Way};
use fullbore_linux as linux;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::SpliceFlags;

pub const ALL_WAITS: [Wait; 4] = [Wait::Block, Wait::Poll, Wait::Spin, Wait::Adaptive];

pub const MIB: usize = 1 << 20;

/// Fills the caches that the library fills once per process, and creates the data that the tests create once.
///
/// Call it before a system call is made to fail, because a wrong result would be cached for all other tests of the
/// program, and before a fork, because a child would wait forever for a cache that another thread of its parent was
/// filling.
pub fn look_up_once() {
    linux::page_size();
    linux::cache_size();
    linux::huge_page_size();
    linux::has_huge_pages();
    linux::memory_limit();
    // If the call is refused, this fails and caches nothing.
    let _ = linux::vmsplice_shares();
    stream();
}

/// The period of the stream in bytes: a prime, so that no displacement by whole pages, chunks or pipes goes unnoticed.
const PERIOD: usize = 1_048_583;

/// Two periods of the stream.
fn stream() -> &'static [u8] {
    static STREAM: OnceLock<Vec<u8>> = OnceLock::new();
    STREAM.get_or_init(|| {
        let mut random = Random::new(7);
        let mut once: Vec<u8> = (0..PERIOD.div_ceil(8))
            .flat_map(|_| random.next().to_le_bytes())
            .collect();
        once.truncate(PERIOD);
        once.repeat(2)
    })
}

/// Returns the first `len` bytes of the stream.
pub fn first(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, 0);
    bytes
}

/// Fills `bytes` with the stream from position `at` on.
pub fn fill(bytes: &mut [u8], at: u64) {
    let stream = stream();
    let mut start = (at % PERIOD as u64) as usize;
    for piece in bytes.chunks_mut(PERIOD) {
        piece.copy_from_slice(&stream[start..start + piece.len()]);
        start = (start + piece.len()) % PERIOD;
    }
}

/// Compares bytes with the expected ones.
#[derive(Clone)]
pub struct Checker {
    /// The repeated period, long enough, plus one more period.
    expected: Vec<u8>,
    period: usize,
    pub at: u64,
}

impl Checker {
    /// Expects the stream that [`fill`] produces.
    pub fn of_the_stream() -> Self {
        Self {
            expected: stream().to_vec(),
            period: PERIOD,
            at: 0,
        }
    }

    /// Expects a repeated pattern.
    pub fn of(pattern: &[u8]) -> Self {
        let often = (64 * 1024_usize).div_ceil(pattern.len());
        Self {
            expected: pattern.repeat(2 * often),
            period: often * pattern.len(),
            at: 0,
        }
    }

    #[track_caller]
    pub fn check(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.period) {
            let start = (self.at % self.period as u64) as usize;
            let expected = &self.expected[start..start + piece.len()];
            if piece != expected {
                let wrong = piece.iter().zip(expected).position(|(a, b)| a != b);
                panic!("wrong byte at {}", self.at + wrong.unwrap() as u64);
            }
            self.at += piece.len() as u64;
        }
    }
}

/// Pseudorandom numbers, the same in every run (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 1 to `most`.
    pub fn up_to(&mut self, most: usize) -> usize {
        1 + (self.next() % most as u64) as usize
    }

    /// A number from 0 to `most`.
    pub fn zero_to(&mut self, most: usize) -> usize {
        self.up_to(most + 1) - 1
    }
}

/// How a reader takes bytes out of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// read(2) without pauses.
    Quick,
    /// read(2) of random lengths, with pauses.
    Bursty,
    /// A [`fullbore::Consumer`].
    Consumer(Wait),
    /// read(2), while it changes the capacity of the pipe from time to time.
    Resizing,
    /// splice(2) into pipes that are not read for a while.
    Splicing,
    /// tee(2) into such pipes.
    Teeing,
}

impl Reader {
    /// Readers that copy bytes out of the pipe.
    pub const COPYING: [Reader; 5] = [
        Reader::Quick,
        Reader::Bursty,
        Reader::Resizing,
        Reader::Consumer(Wait::Block),
        Reader::Consumer(Wait::Adaptive),
    ];

    /// Readers that keep references to pages.
    pub const HOLDING: [Reader; 2] = [Reader::Splicing, Reader::Teeing];

    /// Reads to the end, checks every byte, and returns their number.
    pub fn drain(self, source: OwnedFd, mut checker: Checker) -> u64 {
        match self {
            Reader::Quick => {
                let mut buf = vec![0; 128 * 1024];
                read_with(&source, &mut checker, |_| (), |_| 128 * 1024, &mut buf);
            }
            Reader::Bursty => {
                let mut buf = vec![0; 128 * 1024];
                let mut random = Random::new(11);
                let pause = |reads: u64| {
                    if reads % 16 == 0 {
                        thread::sleep(Duration::from_micros(300));
                    }
                };
                let size = |_| random.up_to(128 * 1024);
                read_with(&source, &mut checker, pause, size, &mut buf);
            }
            Reader::Resizing => {
                let mut buf = vec![0; 128 * 1024];
                let mut random = Random::new(13);
                let end = fullbore_linux::pipe::of(&source).unwrap().unwrap();
                let resize = |reads: u64| {
                    if reads % 3 == 0 {
                        let size = 4096 << (reads / 3 * 5 % 9);
                        // The size may be too small for the queued bytes, or above the user's limit.
                        let _ = end.resize(size);
                    }
                };
                let size = |_| random.up_to(128 * 1024);
                read_with(&source, &mut checker, resize, size, &mut buf);
            }
            Reader::Consumer(wait) => {
                let options = ConsumerOptions::new().wait(wait);
                let mut consumer = options.open(&source).unwrap();
                loop {
                    let bytes = consumer.fill_buf().unwrap();
                    if bytes.is_empty() {
                        break;
                    }
                    checker.check(bytes);
                    let n = bytes.len();
                    consumer.consume(n);
                }
                assert_eq!(consumer.report().bytes, checker.at);
            }
            Reader::Splicing => splice_and_hold(&source, &mut checker),
            Reader::Teeing => tee_and_hold(&source, &mut checker),
        }
        checker.at
    }

    /// As [`drain`](Self::drain), on a separate thread.
    pub fn spawn(self, source: OwnedFd, checker: Checker) -> JoinHandle<u64> {
        thread::spawn(move || self.drain(source, checker))
    }
}

fn read_with(
    source: &OwnedFd,
    checker: &mut Checker,
    mut between: impl FnMut(u64),
    mut size: impl FnMut(u64) -> usize,
    buf: &mut [u8],
) {
    for reads in 0.. {
        between(reads);
        match rustix::io::read(source, &mut buf[..size(reads)]).unwrap() {
            0 => return,
            n => checker.check(&buf[..n]),
        }
    }
}

/// A pipe is read only after this many others were filled: together they hold more than the memory of *fresh*.
const HELD: usize = 80;

fn splice_and_hold(source: &OwnedFd, checker: &mut Checker) {
    let mut held = VecDeque::new();
    loop {
        let pipe = Pipe::new().unwrap();
        let n = rustix::pipe::splice(source, None, &pipe.writer, None, MIB, SpliceFlags::empty())
            .unwrap();
        if n > 0 {
            held.push_back(pipe.reader);
        }
        while held.len() > HELD || (n == 0 && !held.is_empty()) {
            let pipe = held.pop_front().unwrap();
            Reader::Quick.drain_into(&pipe, checker);
        }
        if n == 0 {
            return;
        }
    }
}

fn tee_and_hold(source: &OwnedFd, checker: &mut Checker) {
    let mut held = VecDeque::new();
    let mut later = checker.clone();
    loop {
        let pipe = Pipe::new().unwrap();
        let n = rustix::pipe::tee(source, &pipe.writer, MIB, SpliceFlags::empty()).unwrap();
        let mut bytes = vec![0; n];
        let mut file = File::from(source.try_clone().unwrap());
        file.read_exact(&mut bytes).unwrap();
        checker.check(&bytes);
        if n > 0 {
            held.push_back(pipe.reader);
        }
        while held.len() > HELD || (n == 0 && !held.is_empty()) {
            let pipe = held.pop_front().unwrap();
            Reader::Quick.drain_into(&pipe, &mut later);
        }
        if n == 0 {
            assert_eq!(later.at, checker.at);
            return;
        }
    }
}

impl Reader {
    fn drain_into(self, source: &OwnedFd, checker: &mut Checker) {
        let mut buf = vec![0; 64 * 1024];
        read_with(source, checker, |_| (), |_| 64 * 1024, &mut buf);
    }
}

/// Returns whether a transfer gives fresh pages unless asked for another way: the machine has huge pages, and one is not
/// larger than what a pipe should hold.
pub fn gives_fresh_pages() -> bool {
    linux::has_huge_pages() && linux::Geometry::here().huge_that_suits().is_some()
}

/// Returns whether bytes go through a private socket unless asked for another way: its runs of 32 KiB are longer than a
/// base page.
pub fn has_socket_way() -> bool {
    linux::page_size() < 32 * 1024
}

/// Opens a producer of this way. For [`Way::Recycle`] the reader of `sink` has to copy.
pub fn open(options: ProducerOptions, way: Way, sink: OwnedFd) -> Producer<OwnedFd> {
    match way {
        Way::Copy => options.way(Way::Copy).open(sink).unwrap(),
        Way::Socket => options.way(Way::Socket).open(sink).unwrap(),
        Way::Fresh => options.way(Way::Fresh).open(sink).unwrap(),
        // Only tests with readers that copy use it.
        Way::Recycle => options.way(Way::Recycle).open(sink).unwrap(),
        _ => unreachable!("a Producer has no such way"),
    }
}

/// Sends bytes `at..to` of the stream in chunks of `len`.
pub fn send<Fd: AsFd>(
    out: &mut Producer<Fd>,
    mut at: u64,
    to: u64,
    len: usize,
) -> Result<(), Error> {
    while at < to {
        let n = (to - at).min(len as u64) as usize;
        fill(out.reserve(n)?, at);
        out.commit(n)?;
        at += n as u64;
    }
    Ok(())
}

/// Returns the library's error that an error of std wraps, or the kernel's.
pub fn inner(error: std::io::Error) -> Error {
    error
        .downcast::<Error>()
        .unwrap_or_else(|errno| Error::System {
            operation: "",
            errno,
        })
}

/// Returns the number of queued bytes.
pub fn queued(fd: &impl AsFd) -> usize {
    fullbore_linux::pipe::of(fd)
        .unwrap()
        .unwrap()
        .queued()
        .unwrap()
}

/// Returns whether the pipe of this write end has a reader.
pub fn has_reader(sink: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(sink, PollFlags::empty())];
    rustix::event::poll(&mut polled, Some(&Timespec::default())).unwrap();
    !polled[0].revents().contains(PollFlags::ERR)
}

/// Sets O_NONBLOCK, as another program that shares the description might.
pub fn set_nonblocking(fd: &impl AsFd) {
    let flags = rustix::fs::fcntl_getfl(fd).unwrap();
    rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
}

/// Returns both sides of a new pseudoterminal in raw mode: (master, slave).
pub fn raw_pty() -> Option<(OwnedFd, OwnedFd)> {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: openpty writes two descriptors to the given addresses, and accepts null for the rest.
    let answer = unsafe {
        libc::openpty(
            &mut master,
            &mut slave,
            std::ptr::null_mut(),
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    if answer != 0 {
        return None;
    }
    // SAFETY: both were just opened, for this process alone.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let mut terminal = rustix::termios::tcgetattr(&slave).unwrap();
    terminal.make_raw();
    rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &terminal).unwrap();
    Some((master, slave))
}

/// Ends the process if a test takes so long that it must be hanging.
pub struct Watch {
    _alive: Sender<()>,
}

/// Asserts that at least one run uses less CPU time than this; time during which a virtual machine is paused may count
/// as CPU time of its thread.
#[track_caller]
pub fn assert_cheap(what: &str, most: Duration, mut cpu_time: impl FnMut() -> Duration) {
    let used: Vec<Duration> = (0..5)
        .map_while(|_| Some(cpu_time()).filter(|used| *used >= most))
        .collect();
    assert!(used.len() < 5, "{what}: {used:?}");
}

/// Ends the process after ten minutes, unless the returned value is dropped before.
pub fn watch(name: &'static str) -> Watch {
    let (alive, dropped) = mpsc::channel();
    thread::spawn(move || {
        if dropped.recv_timeout(Duration::from_secs(600)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            std::process::abort();
        }
    });
    Watch { _alive: alive }
}

/// Sends a signal to a thread every 50 µs, until it is dropped.
pub struct Storm {
    _alive: Sender<()>,
}

impl Storm {
    /// Targets the calling thread.
    pub fn over_this_thread() -> Self {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: an all-zero sigaction is a valid one, without SA_RESTART.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, so it may run at any point of any thread.
        let answer = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
        assert_eq!(answer, 0);
        let (alive, dropped) = mpsc::channel();
        // SAFETY: no preconditions.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        thread::spawn(move || {
            while dropped.recv_timeout(Duration::from_micros(50)) == Err(RecvTimeoutError::Timeout)
            {
                // SAFETY: tgkill takes numbers; a thread that has exited is an error.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
            }
        });
        Self { _alive: alive }
    }
}

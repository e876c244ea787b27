//! The process at both ends of a proxy: its clients, and the server. Each connection has a thread on either side.

use std::io::{Read, Write, stdin, stdout};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fullbore_linux::Aligned;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::net::listen;
use serde::{Deserialize, Serialize};

use crate::catalogue::latency::percentiles::{Percentiles, Times};
use crate::task::{self, Task, Timing};

/// Bytes of one write of a stream, and of the server's reads.
const PIECE: usize = 256 * 1024;

/// Bytes after which the content of a stream repeats: a prime, so that a byte at a wrong place is seen.
const PERIOD: usize = 251;

/// The stack of a thread.
const STACK: usize = 128 * 1024;

/// The task: it prints the address of the server, and reads the PID and the address of the proxy.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoadTask {
    /// The path of the server's Unix socket; without one, it is a TCP socket of the loopback interface.
    pub path: Option<String>,
    /// How many connections send as much as they can.
    pub streams: usize,
    /// How many connections send messages, and the bytes of one.
    pub messages: (usize, usize),
    pub timing: Timing,
}

/// What came through the proxy.
#[derive(Debug, Serialize, Deserialize)]
pub struct Carried {
    pub bytes: u64,
    pub seconds: f64,
    /// CPU seconds of the proxy.
    pub cpu: f64,
    /// CPU seconds of the process at both ends of it.
    pub cpu_of_ends: f64,
    pub times: Percentiles,
}

/// A connection of either transport.
trait Connection: Read + Write + Send {}
impl<T: Read + Write + Send> Connection for T {}
type Boxed = Box<dyn Connection>;

/// What all threads share.
#[derive(Default)]
struct Shared {
    is_measured: AtomicBool,
    is_over: AtomicBool,
    bytes: AtomicU64,
    /// How long the messages took.
    times: Mutex<Times>,
    wrong: Mutex<Option<String>>,
}

impl Shared {
    fn note(&self, outcome: Result<()>) {
        // At the end, connections are closed while bytes are under way.
        let is_over = || self.is_over.load(Ordering::Acquire);
        if let Some(error) = outcome.err().filter(|_| !is_over()) {
            locked(&self.wrong).get_or_insert(format!("{error:#}"));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(shared: &'static Shared, job: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().stack_size(STACK);
    let started = thread.spawn(move || shared.note(job()));
    started.map(drop).context("start a thread")
}

impl Task for LoadTask {
    const NAME: &'static str = "load";

    fn play(self) -> Result<()> {
        // The threads run until the process ends.
        let shared: &Shared = Box::leak(Box::default());
        let server = self.serve(shared)?;
        writeln!(stdout(), "{server}").context("print the address")?;
        let mut line = String::new();
        let read = stdin().read_line(&mut line);
        read.context("read the proxy's address")?;
        let words = line.trim().split_once(' ');
        let (pid, address) = words.context("a PID and an address")?;
        let pid = Pid::from_raw(pid.parse()?);
        let clock = clock_getcpuclockid(pid).context("the proxy's clock")?;
        for _ in 0..self.streams {
            let connection = self.connect(address)?;
            start(shared, move || stream(connection, shared))?;
        }
        for number in 0..self.messages.0 {
            let connection = self.connect(address)?;
            let len = self.messages.1;
            start(shared, move || converse(connection, len, number, shared))?;
        }
        thread::sleep(Duration::from_secs_f64(self.timing.warm_up_seconds));
        let cpu = |clock| {
            clock_gettime(clock)
                .map(Duration::from)
                .context("a clock of CPU time")
        };
        let own = ClockId::CLOCK_PROCESS_CPUTIME_ID;
        let (began, before) = (Instant::now(), shared.bytes.load(Ordering::Relaxed));
        let (used, used_here) = (cpu(clock)?, cpu(own)?);
        shared.is_measured.store(true, Ordering::Release);
        thread::sleep(Duration::from_secs_f64(self.timing.seconds));
        let bytes = shared.bytes.load(Ordering::Relaxed) - before;
        let seconds = began.elapsed().as_secs_f64();
        let (cpu, cpu_of_ends) = (cpu(clock)? - used, cpu(own)? - used_here);
        shared.is_over.store(true, Ordering::Release);
        if let Some(wrong) = locked(&shared.wrong).take() {
            bail!("{wrong}");
        }
        let times = locked(&shared.times).percentiles();
        task::say(&Carried {
            bytes,
            seconds,
            cpu: cpu.as_secs_f64(),
            cpu_of_ends: cpu_of_ends.as_secs_f64(),
            times,
        })?;
        // The threads wait for bytes that no longer come.
        std::process::exit(0)
    }
}

/// Connections that a listener keeps until they are accepted. The 128 of the standard library are too few for all that a
/// load opens at once: the kernel drops the others, and their clients try again after 1, 3, 7 seconds.
pub const BACKLOG: i32 = 4096;

impl LoadTask {
    /// Starts the server, and returns its address.
    fn serve(&self, shared: &'static Shared) -> Result<String> {
        let (address, mut accept): (_, Box<dyn FnMut() -> Result<Boxed> + Send>) = match &self.path
        {
            Some(path) => {
                let listener = UnixListener::bind(path).context("bind")?;
                listen(&listener, BACKLOG).context("listen")?;
                let accept = move || Ok(Box::new(listener.accept()?.0) as Boxed);
                (path.clone(), Box::new(accept))
            }
            None => {
                let listener = TcpListener::bind("127.0.0.1:0").context("bind")?;
                listen(&listener, BACKLOG).context("listen")?;
                let address = listener.local_addr()?.to_string();
                let accept = move || {
                    let (connection, _) = listener.accept()?;
                    connection.set_nodelay(true)?;
                    Ok(Box::new(connection) as Boxed)
                };
                (address, Box::new(accept))
            }
        };
        thread::spawn(move || {
            loop {
                let serve = |connection| start(shared, move || reply(connection, shared));
                let started = accept().and_then(serve);
                if started.is_err() {
                    return shared.note(started);
                }
            }
        });
        Ok(address)
    }

    fn connect(&self, address: &str) -> Result<Boxed> {
        let connection: Boxed = match self.path {
            Some(_) => Box::new(UnixStream::connect(address).context("connect")?),
            None => {
                let connection = TcpStream::connect(address).context("connect")?;
                connection.set_nodelay(true)?;
                Box::new(connection)
            }
        };
        Ok(connection)
    }
}

/// The bytes of a stream, from its start.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % PERIOD) as u8).collect()
}

/// Begins a connection: the server replies with the same byte, so that all are connected before bytes flow.
fn greet(connection: &mut Boxed, len: usize) -> Result<()> {
    connection.write_all(&(len as u64).to_le_bytes())?;
    connection.read_exact(&mut [0])?;
    Ok(())
}

fn stream(mut connection: Boxed, shared: &Shared) -> Result<()> {
    greet(&mut connection, 0)?;
    // A whole number of periods.
    let piece = content(PIECE / PERIOD * PERIOD);
    while !shared.is_over.load(Ordering::Relaxed) {
        connection.write_all(&piece).context("a stream")?;
    }
    Ok(())
}

/// Sends messages, and waits for each to come back.
fn converse(mut connection: Boxed, len: usize, number: usize, shared: &Shared) -> Result<()> {
    greet(&mut connection, len)?;
    let (mut sent, mut got) = (content(len), vec![0; len]);
    for turn in number.. {
        if shared.is_over.load(Ordering::Relaxed) {
            break;
        }
        sent[0] = turn as u8;
        let began = Instant::now();
        connection.write_all(&sent).context("a message")?;
        connection.read_exact(&mut got).context("an answer")?;
        let took = began.elapsed();
        if got != sent {
            bail!("an answer with wrong bytes");
        }
        shared.bytes.fetch_add(2 * len as u64, Ordering::Relaxed);
        if shared.is_measured.load(Ordering::Acquire) {
            locked(&shared.times).add(took.as_nanos() as u64);
        }
    }
    Ok(())
}

/// The server's side: it counts a stream, and sends messages back.
fn reply(mut connection: Boxed, shared: &Shared) -> Result<()> {
    let mut len = [0; 8];
    connection.read_exact(&mut len).context("a greeting")?;
    connection.write_all(&[0])?;
    let len = u64::from_le_bytes(len) as usize;
    if len > 0 {
        let mut message = vec![0; len];
        loop {
            connection.read_exact(&mut message).context("a question")?;
            connection.write_all(&message)?;
        }
    }
    let (expected, mut piece) = (content(PIECE + PERIOD), Aligned::new(PIECE));
    let mut at = 0;
    loop {
        let n = connection.read(&mut piece)?;
        // All bytes would cost more than to move them.
        let (first, last) = (n.min(64), n.saturating_sub(64));
        let expected = &expected[at..][..n];
        if piece[..first] != expected[..first] || piece[last..n] != expected[last..] {
            bail!("a stream with wrong bytes");
        }
        if n == 0 {
            bail!("the end of a stream");
        }
        at = (at + n) % PERIOD;
        shared.bytes.fetch_add(n as u64, Ordering::Relaxed);
    }
}

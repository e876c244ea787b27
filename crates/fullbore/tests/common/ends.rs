//! Sources and sinks of every kind, each with a peer that writes the bytes to be moved, or reads those that arrive.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fullbore::Pipe;
use rustix::fs::{CWD, FileType, MemfdFlags, Mode, OFlags};

use super::{MIB, first, raw_pty};

/// The most bytes of one transfer in these tests.
pub const MOST: usize = 8 * MIB;

/// The first bytes of the stream.
pub fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| first(MOST))
}

/// The contents of `/dev/zero`.
static ZEROS: [u8; MOST] = [0; MOST];

/// The kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Pipe,
    Fifo,
    File,
    Memfd,
    /// A file of procfs, whose st_size is 0.
    Proc,
    Unix,
    Tcp,
    Terminal,
    Zero,
    Block,
}

/// The kind of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    Pipe,
    Fifo,
    File,
    Append,
    Memfd,
    Unix,
    Tcp,
    Terminal,
    Null,
    /// /dev/zero, which accepts everything, and is not /dev/null.
    Zero,
    Block,
}

pub const SOURCES: [From; 10] = [
    From::Pipe,
    From::Fifo,
    From::File,
    From::Memfd,
    From::Proc,
    From::Unix,
    From::Tcp,
    From::Terminal,
    From::Zero,
    From::Block,
];

pub const SINKS: [To; 11] = [
    To::Pipe,
    To::Fifo,
    To::File,
    To::Append,
    To::Memfd,
    To::Unix,
    To::Tcp,
    To::Terminal,
    To::Null,
    To::Zero,
    To::Block,
];

/// An open source.
pub struct Source {
    pub fd: OwnedFd,
    /// The bytes that it delivers.
    pub expected: &'static [u8],
    /// Whether it never ends, so that a limit is needed.
    pub endless: bool,
    feeder: Option<JoinHandle<()>>,
    /// Kept open until everything was read.
    peer: Option<OwnedFd>,
    device: Option<Device>,
}

impl Source {
    fn of(fd: impl Into<OwnedFd>, expected: &'static [u8]) -> Self {
        Self {
            fd: fd.into(),
            expected,
            endless: false,
            feeder: None,
            peer: None,
            device: None,
        }
    }

    fn fed(mut self, mut peer: impl Write + Send + 'static) -> Self {
        let bytes = self.expected;
        // The reader may stop before the end.
        self.feeder = Some(thread::spawn(move || drop(peer.write_all(bytes))));
        self
    }

    fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    /// Waits until everything is queued, which must fit.
    pub fn wait_for_feeder(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.join().unwrap();
        }
    }

    /// Waits until the peer has finished, except that of a terminal, which may wait for room forever.
    pub fn close(self) {
        let is_terminal = self.peer.is_some();
        drop((self.fd, self.peer, self.device));
        if let Some(feeder) = self.feeder
            && !is_terminal
        {
            feeder.join().unwrap();
        }
    }
}

impl From {
    /// Opens a source of `len` bytes; `None` if this machine has none of this kind.
    pub fn open(self, len: usize) -> Option<Source> {
        let bytes = &content()[..len];
        Some(match self {
            From::Pipe => {
                let pipe = Pipe::new().unwrap();
                Source::of(pipe.reader, bytes).fed(File::from(pipe.writer))
            }
            From::Fifo => {
                let (reader, writer) = fifo();
                Source::of(reader, bytes).fed(writer)
            }
            From::File => {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(bytes).unwrap();
                file.rewind().unwrap();
                Source::of(file, bytes)
            }
            From::Memfd => {
                let mut file = memfd();
                file.write_all(bytes).unwrap();
                file.rewind().unwrap();
                Source::of(file, bytes)
            }
            From::Proc => {
                let symbols = proc_file();
                let len = len.min(symbols.len());
                let file = File::open(PROC_FILE).unwrap();
                Source::of(file, &symbols[..len]).endless()
            }
            From::Unix => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                Source::of(ours, bytes).fed(theirs)
            }
            From::Tcp => {
                let (ours, theirs) = tcp_pair();
                Source::of(ours, bytes).fed(theirs)
            }
            From::Terminal => {
                // Closing the master would discard unread bytes.
                let (master, slave) = raw_pty()?;
                let mut source = Source::of(slave, bytes).endless();
                source.peer = Some(master.try_clone().unwrap());
                source.fed(File::from(master))
            }
            From::Zero => {
                let file = File::open("/dev/zero").unwrap();
                Source::of(file, &ZEROS[..len]).endless()
            }
            From::Block => {
                let device = Device::take()?;
                device.0.write_all_at(bytes, 0).unwrap();
                let mut source = Source::of(device.0.try_clone().unwrap(), bytes).endless();
                source.device = Some(device);
                source
            }
        })
    }
}

/// An open sink.
pub struct Sink {
    pub fd: OwnedFd,
    arrived: Arrived,
}

/// How to collect the bytes that arrived.
enum Arrived {
    /// A thread reads it.
    Read(JoinHandle<Vec<u8>>),
    /// In the file, from this offset on.
    Lies(File, u64),
    /// On a device, which has no end of file.
    LiesOnDevice(Device),
    /// A thread reads them and passes them on: bytes in flight when the slave is closed may be lost.
    OnTerminal(Receiver<Vec<u8>>),
    Nowhere,
}

impl Sink {
    fn read(fd: impl Into<OwnedFd>, peer: impl Read + Send + 'static) -> Self {
        Self {
            fd: fd.into(),
            arrived: Arrived::Read(thread::spawn(move || read_all(peer))),
        }
    }

    fn lies(file: File, from: u64) -> Self {
        Self {
            fd: file.try_clone().unwrap().into(),
            arrived: Arrived::Lies(file, from),
        }
    }

    /// Closes the sink, and compares the bytes that arrived.
    #[track_caller]
    pub fn close_and_compare(self, expected: &[u8], what: &str) {
        let is_terminal = matches!(self.arrived, Arrived::OnTerminal(_));
        let terminal = is_terminal.then_some(self.fd);
        let arrived = match self.arrived {
            Arrived::Read(reading) => reading.join().unwrap(),
            Arrived::Lies(mut file, from) => {
                let end = from + expected.len() as u64;
                assert_eq!(file.stream_position().unwrap(), end, "position: {what}");
                file.seek(SeekFrom::Start(from)).unwrap();
                read_all(file)
            }
            Arrived::LiesOnDevice(mut device) => {
                let end = expected.len() as u64;
                let position = device.0.stream_position().unwrap();
                assert_eq!(position, end, "position: {what}");
                let mut bytes = vec![0; expected.len()];
                device.0.read_exact_at(&mut bytes, 0).unwrap();
                bytes
            }
            Arrived::OnTerminal(receive) => {
                let mut bytes = Vec::new();
                while bytes.len() < expected.len() {
                    let more = receive.recv_timeout(Duration::from_secs(300));
                    bytes.extend(more.unwrap_or_else(|e| panic!("{e}: {what}")));
                }
                drop(terminal);
                bytes.extend(receive.iter().flatten());
                bytes
            }
            Arrived::Nowhere => return,
        };
        same_bytes(&arrived, expected, what);
    }
}

impl To {
    /// Opens a sink; `None` if this machine has none of this kind.
    pub fn open(self) -> Option<Sink> {
        Some(match self {
            To::Pipe => {
                let pipe = Pipe::new().unwrap();
                Sink::read(pipe.writer, File::from(pipe.reader))
            }
            To::Fifo => {
                let (reader, writer) = fifo();
                Sink::read(writer, reader)
            }
            To::File => Sink::lies(tempfile::tempfile().unwrap(), 0),
            To::Append => {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(b"before").unwrap();
                rustix::fs::fcntl_setfl(&file, OFlags::APPEND).unwrap();
                Sink::lies(file, 6)
            }
            To::Memfd => Sink::lies(memfd(), 0),
            To::Unix => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                Sink::read(ours, theirs)
            }
            To::Tcp => {
                let (ours, theirs) = tcp_pair();
                Sink::read(ours, theirs)
            }
            To::Terminal => {
                let (master, slave) = raw_pty()?;
                let (send, receive) = mpsc::channel();
                thread::spawn(move || read_to(File::from(master), &send));
                Sink {
                    fd: slave,
                    arrived: Arrived::OnTerminal(receive),
                }
            }
            To::Null | To::Zero => {
                let path = if self == To::Null {
                    "/dev/null"
                } else {
                    "/dev/zero"
                };
                Sink {
                    fd: File::options().write(true).open(path).unwrap().into(),
                    arrived: Arrived::Nowhere,
                }
            }
            To::Block => {
                let device = Device::take()?;
                Sink {
                    fd: device.0.try_clone().unwrap().into(),
                    arrived: Arrived::LiesOnDevice(device),
                }
            }
        })
    }
}

fn read_all(mut peer: impl Read) -> Vec<u8> {
    // Allocated at once: growing and copying megabytes repeatedly takes longer than moving them.
    let mut bytes = Vec::with_capacity(MOST);
    peer.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads from the master of a terminal until its slave is closed, which is reported as EIO.
fn read_to(mut master: File, send: &Sender<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(n) = master.read(&mut bytes)
        && n > 0
    {
        let _ = send.send(bytes[..n].to_vec());
    }
}

/// Compares without printing megabytes.
#[track_caller]
pub fn same_bytes(got: &[u8], expected: &[u8], what: &str) {
    assert_eq!(got.len(), expected.len(), "length: {what}");
    if got != expected {
        let wrong = got.iter().zip(expected).position(|(a, b)| a != b);
        panic!("wrong byte at {}: {what}", wrong.unwrap());
    }
}

/// Returns both ends of a FIFO: (reader, writer).
pub fn fifo() -> (File, File) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let writer = File::options().write(true).open(&path).unwrap();
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    (File::from(reader), writer)
}

/// Returns both ends of a connection over the loopback interface.
pub fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

/// Returns a file in memory (tmpfs).
pub fn memfd() -> File {
    File::from(rustix::fs::memfd_create("fullbore", MemfdFlags::CLOEXEC).unwrap())
}

/// A file whose st_size is 0, which is larger than a megabyte on common kernels, and whose contents do not change.
pub const PROC_FILE: &str = "/proc/kallsyms";

/// Returns the contents of [`PROC_FILE`].
pub fn proc_file() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| std::fs::read(PROC_FILE).unwrap_or_default())
}

/// A loop device of [`MOST`] bytes, at its start, which no other test uses now.
struct Device(File);

/// Idle devices. Attaching one takes longer than using it.
static DEVICES: Mutex<Vec<File>> = Mutex::new(Vec::new());

impl Device {
    fn take() -> Option<Self> {
        static SKIPPED: OnceLock<()> = OnceLock::new();
        let used = DEVICES.lock().unwrap().pop();
        let device = used.or_else(attach_loop_device);
        if device.is_none() {
            SKIPPED.get_or_init(|| fullbore_tests::skipped("no loop device can be attached here"));
        }
        device.map(Self)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut device = self.0.try_clone().unwrap();
        device.rewind().unwrap();
        DEVICES.lock().unwrap().push(device);
    }
}

/// Attaches a loop device, which is detached when its last fd is closed.
fn attach_loop_device() -> Option<File> {
    const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
    const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
    const LO_FLAGS_AUTOCLEAR: u32 = 4;
    /// `struct loop_config` (linux/loop.h), as far as it is not zero.
    #[repr(C)]
    struct Config {
        fd: u32,
        block_size: u32,
        before_flags: [u8; 52],
        flags: u32,
        rest: [u8; 240],
    }
    let control = File::options()
        .read(true)
        .write(true)
        .open("/dev/loop-control")
        .ok()?;
    let backing = memfd();
    backing.set_len(MOST as u64).unwrap();
    // Another process may take the free device first.
    for _ in 0..20 {
        // SAFETY: takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return None;
        }
        let device = File::options()
            .read(true)
            .write(true)
            .open(format!("/dev/loop{number}"))
            .ok()?;
        let config = Config {
            fd: backing.as_raw_fd() as u32,
            block_size: 0,
            before_flags: [0; 52],
            flags: LO_FLAGS_AUTOCLEAR,
            rest: [0; 240],
        };
        // SAFETY: the kernel reads one `struct loop_config`, of this size.
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) } == 0 {
            return Some(device);
        }
    }
    None
}

/// Waits between two runs of a transfer that never waits.
pub fn sleep_until_ready(fd: BorrowedFd<'_>, events: rustix::event::PollFlags) {
    let mut fds = [rustix::event::PollFd::new(&fd, events)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None)).unwrap();
}

//! Sources and sinks of every kind, and the bytes that arrived at them.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullbore::Pipe;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::ends::{MOST, PROC_FILE, content, proc_file};
use super::raw_pty;

/// A kind of file to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SinkKind {
    Pipe,
    Fifo,
    File,
    Append,
    Unix,
    Tcp,
    Pty,
    Null,
    Full,
}

impl SinkKind {
    pub const ALL: [Self; 9] = [
        Self::Pipe,
        Self::Fifo,
        Self::File,
        Self::Append,
        Self::Unix,
        Self::Tcp,
        Self::Pty,
        Self::Null,
        Self::Full,
    ];
}

/// The contents of an appended file before the first byte.
const BEFORE: &[u8] = b"before";

/// A sink, with a peer that reads it.
pub struct Target {
    pub kind: SinkKind,
    fd: OwnedFd,
    behind: Behind,
}

enum Behind {
    /// A thread that reads, and the number of bytes that it has read.
    Reader(JoinHandle<Vec<u8>>, Arc<AtomicUsize>),
    File(File, usize),
    Nobody,
}

impl AsFd for Target {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Target {
    pub fn new(kind: SinkKind) -> Self {
        let (fd, behind) = match kind {
            SinkKind::Pipe => {
                let pipe = Pipe::new().unwrap();
                (pipe.writer, reader(pipe.reader.into()))
            }
            SinkKind::Fifo => {
                let (read, write) = fifo();
                (write, reader(read))
            }
            SinkKind::File | SinkKind::Append => {
                let named = tempfile::NamedTempFile::new().unwrap();
                let append = kind == SinkKind::Append;
                named
                    .as_file()
                    .write_all(if append { BEFORE } else { b"" })
                    .unwrap();
                let file = File::options()
                    .append(append)
                    .write(true)
                    .open(named.path())
                    .unwrap();
                let skip = if append { BEFORE.len() } else { 0 };
                (file.into(), Behind::File(named.into_file(), skip))
            }
            SinkKind::Unix => {
                let (read, write) = UnixStream::pair().unwrap();
                (write.into(), reader(OwnedFd::from(read).into()))
            }
            SinkKind::Tcp => {
                let (read, write) = tcp();
                (write.into(), reader(OwnedFd::from(read).into()))
            }
            SinkKind::Pty => {
                let Some((master, slave)) = raw_pty() else {
                    fullbore_tests::skipped("no pseudo-terminal here");
                    return Self::new(SinkKind::Pipe);
                };
                (slave, reader(master.into()))
            }
            SinkKind::Null => (open_to_write("/dev/null"), Behind::Nobody),
            SinkKind::Full => (open_to_write("/dev/full"), Behind::Nobody),
        };
        Self { kind, fd, behind }
    }

    /// Returns all bytes that arrived, once no writer is left, or `None` if that cannot be known. Bytes in flight in a
    /// terminal may be lost when it is closed, so it stays open until `sent` bytes were read.
    pub fn arrived(self, sent: usize) -> Option<Vec<u8>> {
        if let (SinkKind::Pty, Behind::Reader(_, read)) = (self.kind, &self.behind) {
            let began = Instant::now();
            while read.load(Ordering::Acquire) < sent && began.elapsed() < Duration::from_secs(300)
            {
                thread::sleep(Duration::from_millis(1));
            }
        }
        drop(self.fd);
        match self.behind {
            Behind::Reader(reader, _) => Some(reader.join().unwrap()),
            Behind::File(mut file, skip) => {
                let mut bytes = Vec::with_capacity(MOST);
                file.seek(SeekFrom::Start(0)).unwrap();
                file.read_to_end(&mut bytes).unwrap();
                Some(bytes.split_off(skip))
            }
            Behind::Nobody => None,
        }
    }
}

fn reader(mut file: File) -> Behind {
    let read = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&read);
    let reader = thread::spawn(move || {
        let mut bytes = Vec::with_capacity(MOST);
        let mut buffer = vec![0; 64 * 1024];
        // The master of a pseudoterminal returns EIO when the slave is closed.
        loop {
            match file.read(&mut buffer) {
                Ok(n @ 1..) => bytes.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break bytes,
            }
            count.store(bytes.len(), Ordering::Release);
        }
    });
    Behind::Reader(reader, read)
}

fn open_to_write(path: &str) -> OwnedFd {
    File::options().write(true).open(path).unwrap().into()
}

/// Returns both ends of a FIFO whose name has been removed.
pub fn fifo() -> (File, OwnedFd) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Opened for both, so that neither open(2) waits for the other.
    let both = File::options().read(true).write(true).open(&path).unwrap();
    let read = File::open(&path).unwrap();
    let write = File::options().write(true).open(&path).unwrap();
    drop(both);
    (read, write.into())
}

/// Returns both ends of a TCP connection.
pub fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let write = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, write)
}

/// A kind of file to read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceKind {
    Pipe,
    File,
    Unix,
    Tcp,
    /// A file whose st_size is 0, and whose contents are generated on read. They are not those of the stream.
    Proc,
}

impl SourceKind {
    pub const ALL: [Self; 5] = [Self::Pipe, Self::File, Self::Unix, Self::Tcp, Self::Proc];

    /// Opens a source of `len` bytes, or, for a file of /proc, at least as many, and returns it with its contents.
    pub fn open(self, len: usize) -> (OwnedFd, &'static [u8]) {
        let bytes = &content()[..len];
        let fd = match self {
            SourceKind::Pipe => {
                let pipe = Pipe::new().unwrap();
                send(pipe.writer.into(), bytes);
                pipe.reader
            }
            SourceKind::Unix => {
                let (read, write) = UnixStream::pair().unwrap();
                send(OwnedFd::from(write).into(), bytes);
                read.into()
            }
            SourceKind::Tcp => {
                let (read, write) = tcp();
                send(OwnedFd::from(write).into(), bytes);
                read.into()
            }
            SourceKind::File => stored(bytes).into(),
            SourceKind::Proc => {
                let file = File::open(PROC_FILE).unwrap();
                let symbols = proc_file();
                return (file.into(), &symbols[..len.min(symbols.len())]);
            }
        };
        (fd, bytes)
    }
}

/// Returns a file with these bytes, at its start.
pub fn stored(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn send(mut file: File, bytes: &'static [u8]) {
    // The reader may stop before the end.
    thread::spawn(move || file.write_all(bytes));
}

//! Creates each transport between two processes: it makes the two ends, which the processes find on
//! stdin and stdout. Any name that is needed for this is removed again.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use fullbore::{Pipe, PipeEnd};
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::link::Link;
use super::{queue, ring};
use crate::endpoint::WaitName;

/// A transport that carries bytes from one process to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Pipe,
    Fifo,
    UnixStream,
    SocketPair,
    SeqPacket,
    Tcp,
    SharedMemory,
    MessageQueue,
}

/// The wanted properties of a transport.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes of one call, or of one message.
    pub message: usize,
    /// How both ends wait.
    pub wait: WaitName,
    /// The capacity of a pipe in bytes; `None` keeps the default.
    pub pipe_size: Option<usize>,
    /// Whether bytes are also sent in the other direction.
    pub both_ways: bool,
}

/// A transport that has been created.
pub struct Ends {
    a: [OwnedFd; 2],
    b: [OwnedFd; 2],
    links: [Link; 2],
    message: usize,
}

/// One end of a transport.
pub struct End {
    input: OwnedFd,
    output: OwnedFd,
    /// How the process uses the two fds.
    pub link: Link,
    /// Bytes of one call: less than was requested if the transport has a lower limit.
    pub message: usize,
}

impl End {
    /// Makes the end a process's stdin and stdout.
    pub fn give(self, command: &mut Command) {
        command
            .stdin(Stdio::from(self.input))
            .stdout(Stdio::from(self.output));
    }
}

impl Ends {
    /// Splits the transport into an end for each process: the first sends and the second receives,
    /// and both do both if bytes are sent in both directions.
    pub fn apart(self) -> [End; 2] {
        let end = |[input, output]: [OwnedFd; 2], link| End {
            input,
            output,
            link,
            message: self.message,
        };
        let [a, b] = self.links;
        [end(self.a, a), end(self.b, b)]
    }

    fn of_socket(a: OwnedFd, b: OwnedFd, shape: &Shape) -> Result<Self> {
        let a = [a.try_clone()?, a];
        let b = [b.try_clone()?, b];
        Self::of_fds(a, b, shape)
    }

    fn of_fds(a: [OwnedFd; 2], b: [OwnedFd; 2], shape: &Shape) -> Result<Self> {
        if shape.wait != WaitName::Block {
            // These file descriptions are not shared with other processes, so the flag affects no
            // other process.
            for fd in a.iter().chain(&b) {
                fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
            }
        }
        Ok(Self {
            a,
            b,
            links: [Link::Fds; 2],
            message: shape.message,
        })
    }

    /// Creates the ends from two one-way pipes, or from one of them.
    fn of_pipes(mut make: impl FnMut() -> Result<Pipe>, shape: &Shape) -> Result<Self> {
        let mut pipe = || {
            let pipe = make()?;
            if let Some(size) = shape.pipe_size {
                PipeEnd::new(pipe.writer.as_fd())?.resize(size)?;
            }
            Ok::<_, anyhow::Error>(pipe)
        };
        let there = pipe()?;
        let back = match shape.both_ways {
            true => pipe()?,
            false => nothing()?,
        };
        Self::of_fds(
            [back.reader, there.writer],
            [there.reader, back.writer],
            shape,
        )
    }
}

/// Returns a placeholder for the direction in which nothing is sent.
fn nothing() -> Result<Pipe> {
    let open = || Ok::<_, anyhow::Error>(OwnedFd::from(File::open("/dev/null")?));
    Ok(Pipe {
        reader: open()?,
        writer: open()?,
    })
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 8] = [
        Transport::Pipe,
        Transport::Fifo,
        Transport::UnixStream,
        Transport::SocketPair,
        Transport::SeqPacket,
        Transport::Tcp,
        Transport::SharedMemory,
        Transport::MessageQueue,
    ];

    /// Returns its name in experiments.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Pipe => "pipe",
            Transport::Fifo => "fifo",
            Transport::UnixStream => "unix_stream",
            Transport::SocketPair => "socketpair",
            Transport::SeqPacket => "unix_seqpacket",
            Transport::Tcp => "tcp",
            Transport::SharedMemory => "shared_memory",
            Transport::MessageQueue => "message_queue",
        }
    }

    /// Returns its description for reports.
    pub fn title(self) -> &'static str {
        match self {
            Transport::Pipe => "two pipes",
            Transport::Fifo => "two FIFOs",
            Transport::UnixStream => "a Unix stream socket",
            Transport::SocketPair => "a socketpair",
            Transport::SeqPacket => "a Unix seqpacket socket",
            Transport::Tcp => "a TCP connection on the loopback",
            Transport::SharedMemory => "shared memory",
            Transport::MessageQueue => "two POSIX message queues",
        }
    }

    /// Returns whether it is a pipe, whose capacity can be set.
    pub fn is_a_pipe(self) -> bool {
        matches!(self, Transport::Pipe | Transport::Fifo)
    }

    /// Creates the transport, passes the beginning of a message through it within this process, as
    /// much as one message may have, and returns what arrived.
    ///
    /// # Errors
    /// Fails as [`lay`](Self::lay) and the transport's calls do.
    pub fn pass(self, message: &[u8]) -> Result<Vec<u8>> {
        let wait = WaitName::Block;
        let [sender, receiver] = self
            .lay(&Shape {
                message: message.len(),
                wait,
                pipe_size: None,
                both_ways: false,
            })?
            .apart();
        let mut came = vec![0; sender.message];
        let (input, output) = (sender.input.as_fd(), sender.output.as_fd());
        let mut sending = sender.link.open(wait, input, output)?;
        sending.send_all(&message[..came.len()]).context("send")?;
        let (input, output) = (receiver.input.as_fd(), receiver.output.as_fd());
        let mut receiving = receiver.link.open(wait, input, output)?;
        receiving.receive_all(&mut came).context("receive")?;
        Ok(came)
    }

    /// Creates the transport.
    ///
    /// # Errors
    /// Fails if this machine does not have it, or does not allow this user to use it.
    pub fn lay(self, shape: &Shape) -> Result<Ends> {
        match self {
            Transport::Pipe => Ends::of_pipes(|| Ok(Pipe::new()?), shape),
            Transport::Fifo => Ends::of_pipes(fifo, shape),
            Transport::UnixStream => {
                let (a, b) = connected_by_name().context("a Unix stream socket")?;
                Ends::of_socket(a.into(), b.into(), shape)
            }
            Transport::SocketPair => {
                let (a, b) = UnixStream::pair().context("socketpair")?;
                Ends::of_socket(a.into(), b.into(), shape)
            }
            Transport::SeqPacket => {
                let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
                let (a, b) = socketpair(family, kind, SocketFlags::CLOEXEC, None)
                    .context("socketpair of SOCK_SEQPACKET")?;
                Ends::of_socket(a, b, shape)
            }
            Transport::Tcp => {
                let (a, b) = loopback().context("TCP over the loopback")?;
                Ends::of_socket(a.into(), b.into(), shape)
            }
            Transport::SharedMemory => {
                let memory = ring::make().context("shared memory")?;
                let fds =
                    || -> Result<_> { Ok([memory.try_clone()?, File::open("/dev/null")?.into()]) };
                Ok(Ends {
                    a: fds()?,
                    b: fds()?,
                    links: [Link::Ring { sends: 0 }, Link::Ring { sends: 1 }],
                    message: shape.message,
                })
            }
            Transport::MessageQueue => {
                let message = shape.message.min(queue::longest_message());
                let queue = || queue::make(message, shape.wait == WaitName::Block);
                let there = queue().context("a POSIX message queue")?;
                let back = match shape.both_ways {
                    true => queue().context("a POSIX message queue")?,
                    false => File::open("/dev/null")?.into(),
                };
                Ok(Ends {
                    a: [back.try_clone()?, there.try_clone()?],
                    b: [there, back],
                    links: [Link::Queue; 2],
                    message,
                })
            }
        }
    }
}

/// Creates a FIFO, and removes its name.
fn fifo() -> Result<Pipe> {
    let directory = tempfile::tempdir().context("a directory for a FIFO")?;
    let path = directory.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).context("mkfifo")?;
    // Without O_NONBLOCK, opening the read end waits for a writer, and opening the write end for a
    // reader.
    let reader = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(&path)
        .context("open a FIFO")?;
    let writer = File::options()
        .write(true)
        .open(&path)
        .context("open a FIFO")?;
    fcntl_setfl(&reader, fcntl_getfl(&reader)? - OFlags::NONBLOCK)?;
    fs::remove_file(&path).context("remove a FIFO")?;
    Ok(Pipe {
        reader: reader.into(),
        writer: writer.into(),
    })
}

/// Returns a Unix stream socket and its peer, connected by an abstract name, which is not a file
/// name and disappears with the listener (unix(7)).
fn connected_by_name() -> Result<(UnixStream, UnixStream)> {
    let name = format!("fullbore-{}-{:016x}", std::process::id(), fastrand::u64(..));
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address).context("bind")?;
    let a = UnixStream::connect_addr(&address).context("connect")?;
    let (b, _) = listener.accept().context("accept")?;
    Ok((a, b))
}

/// Returns the two ends of a TCP connection on the loopback.
///
/// # Errors
/// Fails if this machine does not have TCP.
pub fn loopback() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("bind")?;
    let a = TcpStream::connect(listener.local_addr()?).context("connect")?;
    let (b, from) = listener.accept().context("accept")?;
    anyhow::ensure!(
        from == a.local_addr()?,
        "another process connected to the socket"
    );
    for socket in [&a, &b] {
        // Without this option, a message may wait for the next one (tcp(7), TCP_NODELAY).
        socket.set_nodelay(true).context("TCP_NODELAY")?;
    }
    Ok((a, b))
}

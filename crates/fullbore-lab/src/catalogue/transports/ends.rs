//! The two ends of a transport, which two processes find on stdin and stdout. Nothing here keeps a name
//! in the file system once both ends exist.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Context, Result};
use fullbore::Pipe;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};

use super::link::Link;
use crate::endpoint::{WaitName, prepare};
use crate::process::Process;
use crate::program::Program;
use crate::task::Task;

/// The properties that a transport is to have.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes of one call, or of one message.
    pub message: usize,
    /// How both ends wait.
    pub wait: WaitName,
    /// The capacity of a pipe in bytes; `None` for the default.
    pub pipe_size: Option<usize>,
}

/// Both ends of a transport, one for each process. A stream goes from the first one to the second.
pub type Ends = [End; 2];

/// One end of a transport.
pub struct End {
    /// What the process reads from.
    pub input: OwnedFd,
    /// What the process writes to.
    pub output: OwnedFd,
    /// How the process uses the two.
    pub link: Link,
    /// Bytes of one call: less than requested if the transport carries no more.
    pub message: usize,
}

impl End {
    /// Starts a process with this end as its stdin and stdout.
    pub fn start<T: Task>(self, program: &Program, task: &T, cpu: usize) -> Result<Process> {
        program.start(task, Some(cpu), self.input, self.output)
    }

    /// Returns an end that reads and writes these fds, and does not block in the call if it is to wait otherwise.
    ///
    /// # Errors
    /// Fails as fcntl(2) does.
    pub fn of_fds(input: OwnedFd, output: OwnedFd, shape: &Shape) -> Result<Self> {
        if shape.wait != WaitName::Block {
            // No other process shares these descriptions, so the flag affects nobody else.
            for fd in [&input, &output] {
                fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
            }
        }
        Ok(Self {
            input,
            output,
            link: Link::Fds,
            message: shape.message,
        })
    }
}

/// Returns the ends of a socket and its peer.
///
/// # Errors
/// If no more file descriptors can be opened.
pub fn of_socket(a: OwnedFd, b: OwnedFd, shape: &Shape) -> Result<Ends> {
    let end = |fd: OwnedFd| End::of_fds(fd.try_clone()?, fd, shape);
    Ok([end(a)?, end(b)?])
}

/// Returns the ends of two pipes, one for each direction.
///
/// # Errors
/// Those of `make`, and of setting the capacity.
pub fn of_pipes(mut make: impl FnMut() -> Result<Pipe>, shape: &Shape) -> Result<Ends> {
    let mut pipe = || prepare::sized(make()?, shape.pipe_size);
    let (there, back) = (pipe()?, pipe()?);
    let near = End::of_fds(back.reader, there.writer, shape)?;
    Ok([near, End::of_fds(there.reader, back.writer, shape)?])
}

/// Makes a FIFO, opens both ends, and removes its name.
///
/// # Errors
/// Those of the calls.
pub fn fifo() -> Result<Pipe> {
    let directory = tempfile::tempdir().context("a directory for a FIFO")?;
    let path = directory.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).context("mkfifo")?;
    let open = |options: &mut OpenOptions| options.open(&path).context("open a FIFO");
    // Opening one end waits for the other one, unless both are open already (fifo(7)).
    let _both = open(File::options().read(true).write(true))?;
    let reader = open(File::options().read(true))?;
    let writer = open(File::options().write(true))?;
    fs::remove_file(&path).context("remove a FIFO")?;
    Ok(Pipe {
        reader: reader.into(),
        writer: writer.into(),
    })
}

/// Returns a Unix stream socket and its peer, connected through an abstract name, which disappears with
/// the listener (unix(7)).
///
/// # Errors
/// Those of the calls.
pub fn connected_by_name() -> Result<(UnixStream, UnixStream)> {
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
/// Those of the calls.
pub fn loopback() -> Result<(OwnedFd, OwnedFd)> {
    connected_by_tcp().context("TCP over the loopback")
}

fn connected_by_tcp() -> Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("bind")?;
    let a = TcpStream::connect(listener.local_addr()?).context("connect")?;
    let (b, from) = listener.accept().context("accept")?;
    let is_ours = from == a.local_addr()?;
    anyhow::ensure!(is_ours, "another process connected to the socket");
    for socket in [&a, &b] {
        // A message must not wait for the next one (tcp(7), TCP_NODELAY).
        socket.set_nodelay(true).context("TCP_NODELAY")?;
    }
    Ok((a.into(), b.into()))
}

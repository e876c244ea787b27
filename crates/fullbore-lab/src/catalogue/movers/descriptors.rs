//! Creates the pipes, sockets and files of one job, and starts the mover on them.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fullbore::Pipe;
use procfs::net::{TcpNetEntry, TcpState};
use rustix::io::{FdFlags, fcntl_setfd};

use super::table::{End, Job, Mover};
use crate::measurement::Stop;
use crate::memory::memory_file;
use crate::process::{self, Process};
use crate::program::Program;

/// The descriptors of one job, until they are passed to its processes.
pub struct Descriptors {
    /// The writer's stdout; `None` if the source is a file.
    pub writer: Option<OwnedFd>,
    /// The mover's stdin.
    pub source: OwnedFd,
    /// The mover's stdout.
    pub sink: OwnedFd,
    /// The reader's stdin; `None` if the sink is a file.
    pub reader: Option<OwnedFd>,
    /// Further sinks of the mover, and what is read from them.
    pub branches: Vec<OwnedFd>,
    pub branch_readers: Vec<OwnedFd>,
    /// The file to which the bytes are written, if the sink is a file.
    pub file: Option<File>,
}

impl Descriptors {
    /// Opens pipes of the job's capacity, sockets with the default buffers, and an empty file.
    pub fn open(job: &Job, source_file: impl FnOnce() -> Result<File>) -> Result<Self> {
        let stream = |end: End| -> Result<Option<Pipe>> {
            Ok(match end {
                End::File => None,
                End::Pipe => Some(job.pipe()?),
                End::Socket => {
                    let (near, far) = UnixStream::pair().context("socketpair")?;
                    let (writer, reader) = (near.into(), far.into());
                    Some(Pipe { reader, writer })
                }
            })
        };
        let (writer, source) = match stream(job.source)? {
            Some(stream) => (Some(stream.writer), stream.reader),
            None => (None, source_file()?.into()),
        };
        let (sink, reader, file) = match stream(job.sink)? {
            Some(stream) => (stream.writer, Some(stream.reader), None),
            None => {
                let file = memory_file()?;
                (file.try_clone()?.into(), None, Some(file))
            }
        };
        let (mut branches, mut branch_readers) = (Vec::new(), Vec::new());
        for _ in 0..job.branches {
            let pipe = job.pipe()?;
            branches.push(pipe.writer);
            branch_readers.push(pipe.reader);
        }
        Ok(Self {
            writer,
            source,
            sink,
            reader,
            branches,
            branch_readers,
            file,
        })
    }
}

/// The processes of a mover.
pub struct Moving {
    /// The one that writes to the sink.
    pub last: Process,
    /// The one that sends to it over a connection, if there is one. It is killed with this value.
    pub sender: Option<Process>,
}

/// How long a receiver may take until it listens.
const PATIENCE: Duration = process::GRACE;

/// Starts the mover on its source and its sinks; returns `None` if it is not on PATH.
///
/// It runs on any CPU, unlike the writer and the reader: if there is a third CPU, the mover has it
/// to itself, and if there are two, the scheduler decides which process it shares one with. This is
/// the same for all movers, and movers with several threads are not restricted.
pub fn start_mover(
    program: &Program,
    mover: &Mover,
    source: OwnedFd,
    sink: OwnedFd,
    branches: &[OwnedFd],
) -> Result<Option<Moving>> {
    if mover.receiver.is_some() {
        return start_connected(program, mover, source, sink);
    }
    let names: Vec<String> = branches
        .iter()
        .map(|branch| format!("/dev/fd/{}", branch.as_raw_fd()))
        .collect();
    let Some(mut command) = mover.command(program, &names) else {
        return Ok(None);
    };
    command.stdin(source).stdout(sink).stderr(Stdio::piped());
    // The mover opens these fds by name, so it has to inherit them. No other process is started
    // meanwhile.
    for branch in branches {
        fcntl_setfd(branch, FdFlags::empty())?;
    }
    let started = Process::start(command);
    for branch in branches {
        fcntl_setfd(branch, FdFlags::CLOEXEC)?;
    }
    let last = started?;
    Ok(Some(Moving { last, sender: None }))
}

/// Starts two processes, of which one sends to the other over TCP. Another program may take the port before the
/// receiver does: then another port is tried.
fn start_connected(
    program: &Program,
    mover: &Mover,
    source: OwnedFd,
    sink: OwnedFd,
) -> Result<Option<Moving>> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let free = TcpListener::bind("127.0.0.1:0").context("a port")?;
        let port = free.local_addr().context("a port")?.port();
        drop(free);
        let Some([mut receiver, mut sender]) = mover.connected(program, port) else {
            return Ok(None);
        };
        let sink = sink.try_clone().context("dup of the sink")?;
        receiver.stdin(Stdio::null()).stdout(sink);
        receiver.stderr(Stdio::piped());
        let mut last = Process::start(receiver)?;
        while !last.ends_within(Duration::from_millis(2))? && began.elapsed() < PATIENCE {
            if is_listened_at(port)? {
                sender.stdin(source).stdout(Stdio::null());
                sender.stderr(Stdio::null());
                return Ok(Some(Moving {
                    last,
                    sender: Some(Process::start(sender)?),
                }));
            }
        }
    }
    let text = format!("{} does not listen", mover.program());
    Err(Stop::Failed(text).into())
}

/// Returns whether somebody listens at this port. A connection, to try it, would be taken for that of the sender.
fn is_listened_at(port: u16) -> Result<bool> {
    let sockets = procfs::net::tcp().context("read /proc/net/tcp")?;
    let listens = |socket: &TcpNetEntry| {
        socket.state == TcpState::Listen && socket.local_address.port() == port
    };
    Ok(sockets.iter().any(listens))
}

//! Creates the pipes, sockets and files of one job, and starts the mover on them.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use anyhow::{Context, Result};
use fullbore::Pipe;
use rustix::io::{FdFlags, fcntl_setfd};

use super::files::memory_file;
use super::table::{End, Job, Mover};
use crate::process::Process;
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
    /// Further sinks of the mover.
    pub branches: Vec<Pipe>,
    /// The file to which the bytes are written, if the sink is a file.
    pub file: Option<File>,
}

impl Descriptors {
    /// Opens pipes of the job's capacity, sockets with the default buffers, and an empty file.
    pub fn open(job: &Job, source_file: impl FnOnce() -> Result<File>) -> Result<Self> {
        let (writer, source) = match job.source {
            End::File => (None, source_file()?.into()),
            End::Pipe => {
                let pipe = job.pipe()?;
                (Some(pipe.writer), pipe.reader)
            }
            End::Socket => {
                let (near, far) = UnixStream::pair().context("socketpair")?;
                (Some(near.into()), far.into())
            }
        };
        let (sink, reader, file) = match job.sink {
            End::File => {
                let file = memory_file()?;
                (file.try_clone()?.into(), None, Some(file))
            }
            End::Pipe => {
                let pipe = job.pipe()?;
                (pipe.writer, Some(pipe.reader), None)
            }
            End::Socket => {
                let (near, far) = UnixStream::pair().context("socketpair")?;
                (near.into(), Some(far.into()), None)
            }
        };
        let branches = (0..job.branches)
            .map(|_| job.pipe())
            .collect::<Result<_>>()?;
        Ok(Self {
            writer,
            source,
            sink,
            reader,
            branches,
            file,
        })
    }
}

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
) -> Result<Option<Process>> {
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
    started.map(Some)
}

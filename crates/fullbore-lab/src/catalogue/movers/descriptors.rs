//! The pipes, sockets and files of one job, and the mover that is started on them.

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

/// The descriptors of one job, until its processes have been given them.
pub struct Descriptors {
    /// The writer's stdout; none where the source is a file.
    pub writer: Option<OwnedFd>,
    /// The mover's stdin.
    pub source: OwnedFd,
    /// The mover's stdout.
    pub sink: OwnedFd,
    /// The reader's stdin; none where the sink is a file.
    pub reader: Option<OwnedFd>,
    /// Further sinks of the mover.
    pub branches: Vec<Pipe>,
    /// The file that the bytes go to, if they go to one.
    pub file: Option<File>,
}

impl Descriptors {
    /// Pipes of the default capacity, sockets with the default buffers, and an empty file.
    pub fn open(job: &Job, source_file: impl FnOnce() -> Result<File>) -> Result<Self> {
        let (writer, source) = match job.source {
            End::File => (None, source_file()?.into()),
            End::Pipe => {
                let pipe = Pipe::new()?;
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
                let pipe = Pipe::new()?;
                (pipe.writer, Some(pipe.reader), None)
            }
            End::Socket => {
                let (near, far) = UnixStream::pair().context("socketpair")?;
                (near.into(), Some(far.into()), None)
            }
        };
        let branches = (0..job.branches)
            .map(|_| Pipe::new())
            .collect::<Result<_, _>>()?;
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

/// Starts the mover on its source and its sinks; `None` where it is not on PATH.
///
/// It runs on any CPU, unlike the writer and the reader: where there is a third one, it has that to
/// itself, and where there are two, the scheduler decides whom it shares one with. That is so for
/// all movers, and those with several threads are not held back.
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
    // What it is to open by name, it has to inherit first. Nothing else is started meanwhile.
    for branch in branches {
        fcntl_setfd(branch, FdFlags::empty())?;
    }
    let started = Process::start(command);
    for branch in branches {
        fcntl_setfd(branch, FdFlags::CLOEXEC)?;
    }
    started.map(Some)
}

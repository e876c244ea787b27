//! Creates the pipes, sockets and files of one job, and starts the mover on them.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use anyhow::{Context, Result};
use fullbore::Pipe;
use rustix::io::{FdFlags, fcntl_setfd};

use super::table::{End, Job, Mover};
use crate::memory::memory_file;
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
    /// The stdin of the reader, unless the sink is a file, and those of the readers of the branches.
    pub readers: Vec<OwnedFd>,
    /// Further sinks of the mover.
    pub branches: Vec<OwnedFd>,
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
        let (mut branches, mut readers) = (Vec::new(), Vec::new());
        let (sink, file) = match stream(job.sink)? {
            Some(stream) => {
                readers.push(stream.reader);
                (stream.writer, None)
            }
            None => {
                let file = memory_file()?;
                (file.try_clone()?.into(), Some(file))
            }
        };
        for _ in 0..job.branches {
            let pipe = job.pipe()?;
            branches.push(pipe.writer);
            readers.push(pipe.reader);
        }
        Ok(Self {
            writer,
            source,
            sink,
            readers,
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
    branches: Vec<OwnedFd>,
) -> Result<Option<Process>> {
    let name = |branch: &OwnedFd| format!("/dev/fd/{}", branch.as_raw_fd());
    let names: Vec<String> = branches.iter().map(name).collect();
    let Some(mut command) = mover.command(program, &names) else {
        return Ok(None);
    };
    command.stdin(source).stdout(sink).stderr(Stdio::piped());
    // The mover opens these fds by name, so it has to inherit them. No other process is started
    // meanwhile.
    for branch in &branches {
        fcntl_setfd(branch, FdFlags::empty())?;
    }
    Process::start(command).map(Some)
}

//! The pipes, sockets and files of one job, and the processes that are put on them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use anyhow::{Context, Result};
use fullbore::Pipe;
use procfs::Current;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::table::{End, Job, Mover};
use crate::endpoint::words;
use crate::process::Process;
use crate::program::Program;

/// A file that lives in memory, has no name, and goes with its last fd: so there is none to clean
/// up, whatever becomes of this process.
pub fn memory_file() -> Result<File> {
    let fd = memfd_create("fullbore-bench", MemfdFlags::CLOEXEC).context("memfd_create")?;
    Ok(File::from(fd))
}

/// The same file once more, with an offset of its own.
pub fn reopened(file: &File) -> Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::open(&path).with_context(|| format!("open '{path}'"))
}

/// The file that jobs with a file for a source read: made when the first of them runs, and kept,
/// so that all of them find it in the page cache.
#[derive(Debug, Default)]
pub struct SourceFile(Option<File>);

impl SourceFile {
    /// Long beside the time that a process takes to start, and beside any cache.
    const LEN: u64 = 1 << 30;

    /// The file, with an offset of its own at 0.
    pub fn open(&mut self) -> Result<File> {
        if self.0.is_none() {
            self.0 = Some(Self::make().context("write a file in memory")?);
        }
        let file = self.0.as_ref().context("made just now")?;
        reopened(file)
    }

    /// A stretch of the pattern again and again: nobody looks at it here.
    fn make() -> Result<File> {
        let mut block = vec![0; 1 << 20];
        words::fill(&mut block, 0);
        let mut file = memory_file()?;
        for _ in 0..Self::len() / block.len() as u64 {
            file.write_all(&block)?;
        }
        Ok(file)
    }

    /// Bytes of it, and of a file that is written: less where memory is short.
    pub fn len() -> u64 {
        let available = procfs::Meminfo::current()
            .ok()
            .and_then(|memory| memory.mem_available);
        match available {
            // There are two of them, and everybody else wants memory too.
            Some(available) if available < 6 * Self::LEN => Self::LEN / 4,
            _ => Self::LEN,
        }
    }
}

/// A file in memory that holds the pattern of `words` from its beginning.
pub fn pattern_file(len: u64) -> Result<File> {
    let mut file = memory_file()?;
    write_pattern(&mut file, 0, len).context("write a file in memory")?;
    Ok(file)
}

/// Writes `len` bytes of the pattern from `position` on, at the file's offset.
pub fn write_pattern(file: &mut File, position: u64, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(buffer.len() as u64) as usize;
        words::fill(&mut buffer[..n], position + done);
        file.write_all(&buffer[..n])?;
        done += n as u64;
    }
    Ok(())
}

/// What lies between the processes of one job, until they have been given it.
pub struct Course {
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

impl Course {
    /// Pipes of the default capacity, sockets with the default buffers, and an empty file.
    pub fn lay(job: &Job, source_file: impl FnOnce() -> Result<File>) -> Result<Self> {
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

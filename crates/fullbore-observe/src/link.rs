//! A pipe between two stages, and how full it is.
//!
//! To ask, the pipe is opened for writing, for the microseconds that it takes. As one more writer it
//! can only put off the end of the file for so long, and nobody's outcome changes; as one more *reader*
//! it would keep a writer, whose last reader goes just then, from its SIGPIPE. The pipe is never asked
//! by poll(2): that would make every later write(2) wake its readers (`poll_usage` in `pipe_poll`,
//! fs/pipe.c). Nor is this process stopped meanwhile by its terminal, as it would keep the end open for as
//! long as it is stopped.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use fullbore::pipe::PipeIdentity;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::census::{Census, Pipe};

/// A pipe between two stages.
#[derive(Debug)]
pub struct Link {
    /// The stage that writes into it.
    pub writer: usize,
    /// The stage that reads from it.
    pub reader: usize,
    /// The pipe by `O_PATH`: neither a reader nor a writer.
    pub handle: OwnedFd,
    /// Bytes it holds.
    pub capacity: usize,
    /// Bytes it was to hold: more than it does where a limit binds.
    pub wanted: usize,
    /// For a FIFO: a write end that must still be open when the FIFO is opened here. Otherwise this would end
    /// the open(2) of a process that waits for a writer.
    pub write_end: Option<WriteEnd>,
}

/// A write end of a pipe, as a process has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteEnd {
    /// The process.
    pub pid: u32,
    /// The fd.
    pub fd: i32,
    /// Which pipe.
    pub pipe: PipeIdentity,
}

impl WriteEnd {
    /// One of a FIFO; `None` for other pipes, and where no process is seen that has one.
    pub fn of(census: &Census, pipe: &Pipe) -> Option<Self> {
        let holder = pipe.writers().next().filter(|_| pipe.is_named())?;
        Some(Self {
            pid: census.processes[holder.process].id.pid,
            fd: holder.writes?,
            pipe: pipe.identity,
        })
    }

    /// Whether it is open still.
    pub fn is_open(&self) -> bool {
        let path = format!("/proc/{}/fd/{}", self.pid, self.fd);
        let is_same = rustix::fs::stat(&path)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.pipe.device, self.pipe.inode));
        // The mode of the link is that of the fd (`tid_fd_update_inode`, fs/proc/fd.c).
        let writes = rustix::fs::lstat(&path)
            .is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).contains(Mode::WUSR));
        is_same && writes
    }
}

/// How full a pipe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Bytes in it.
    pub queued: usize,
    /// Bytes it holds.
    pub capacity: usize,
}

impl Link {
    /// Its number on pipefs: what /proc/PID/fd calls it by. None where fstat(2) fails, which it does not.
    pub fn inode(&self) -> Option<u64> {
        rustix::fs::fstat(&self.handle).ok().map(|stat| stat.st_ino)
    }

    /// How full it is now; none where that cannot be asked.
    pub fn fill(&self) -> Option<Fill> {
        if !self.write_end.as_ref().is_none_or(WriteEnd::is_open) {
            return None;
        }
        Fill::of(self.handle.as_fd()).ok()
    }
}

/// The folder with this process's open files, which is found only once.
fn own_fds() -> Result<BorrowedFd<'static>, Errno> {
    static FDS: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    FDS.get_or_init(|| rustix::fs::open("/proc/self/fd", flags, Mode::empty()))
        .as_ref()
        .map(AsFd::as_fd)
        .map_err(|errno| *errno)
}

impl Fill {
    /// Of the pipe that `handle` is a name for (`O_PATH`). Not for a FIFO, unless both its sides are open
    /// already: opening it would complete the open(2) of another process.
    ///
    /// # Errors
    /// `EACCES` where this user may not write to it; `ENXIO` for a FIFO without a reader.
    pub fn of(handle: BorrowedFd<'_>) -> Result<Self, Errno> {
        let _unstopped = Unstopped::new();
        let end = open_for_writing(handle)?;
        Ok(Self {
            queued: rustix::io::ioctl_fionread(&end)? as usize,
            capacity: rustix::pipe::fcntl_getpipe_size(&end)?,
        })
    }

    /// Nothing is in it.
    pub fn is_empty(self) -> bool {
        self.queued == 0
    }

    /// A large write(2) does not fit: it is as good as full.
    pub fn is_full(self) -> bool {
        self.queued >= self.capacity / 8 * 7
    }

    /// From 0 to 1. Bytes in large pages can be more than a pipe's capacity says.
    pub fn share(self) -> f64 {
        (self.queued as f64 / self.capacity.max(1) as f64).min(1.0)
    }
}

/// As long as it is there, no signal of the terminal stops this thread: it waits for the end of it. SIGSTOP
/// does not.
struct Unstopped {
    before: Option<SigSet>,
}

impl Unstopped {
    fn new() -> Self {
        let stops = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU]);
        Self {
            before: stops.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok(),
        }
    }
}

impl Drop for Unstopped {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = before.thread_set_mask();
        }
    }
}

/// The end to write to, of the pipe that `handle` is a name for.
pub(crate) fn open_for_writing(handle: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // The handle itself can be neither written to nor asked (O_PATH in open(2)).
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let name = handle.as_raw_fd().to_string();
    rustix::fs::openat(own_fds()?, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use fullbore::Pipe;

    use super::*;

    fn handle(end: impl AsFd) -> OwnedFd {
        let path = format!("/proc/self/fd/{}", end.as_fd().as_raw_fd());
        rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn what_is_in_a_pipe_is_told_by_either_end() {
        let pipe = Pipe::new().unwrap();
        rustix::io::write(&pipe.writer, &[0; 5000]).unwrap();
        for end in [&pipe.reader, &pipe.writer] {
            let fill = Fill::of(handle(end).as_fd()).unwrap();
            assert_eq!(fill.queued, 5000);
            assert!(fill.capacity >= 5000 && !fill.is_empty() && fill.share() > 0.0);
        }
    }

    #[test]
    fn a_stop_waits_until_nothing_is_open() {
        let held = || SigSet::thread_get_mask().unwrap().contains(Signal::SIGTSTP);
        let unstopped = Unstopped::new();
        assert!(held());
        drop(unstopped);
        assert!(!held());
    }

    #[test]
    fn looking_keeps_nobody_from_the_end_nor_from_a_broken_pipe() {
        for round in 0..300 {
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            let link = Link {
                writer: 0,
                reader: 1,
                handle: handle(&writer),
                capacity: 65536,
                wanted: 65536,
                write_end: None,
            };
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        link.fill().unwrap();
                    }
                });
                if round % 2 == 0 {
                    writer.write_all(b"the end").unwrap();
                    drop(writer);
                    let mut all = Vec::new();
                    reader.read_to_end(&mut all).unwrap();
                    assert_eq!(all, b"the end");
                } else {
                    drop(reader);
                    let error = writer.write_all(&[0; 100_000]).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                }
                done.store(true, Ordering::Relaxed);
            });
        }
    }
}

//! A pipe between two stages, and how full it is.
//!
//! To find out how full it is ([`Fill`]), the pipe is opened for writing for some microseconds. An additional writer
//! can only delay the end of file for that time, which changes no result; an additional *reader* would
//! keep a writer from getting SIGPIPE if its last reader closes the pipe at that moment. The pipe is never
//! polled with poll(2), because that would make every later write(2) wake its readers (`poll_usage` in
//! `pipe_poll`, fs/pipe.c). While the pipe is open, the terminal cannot stop this process, because a
//! stopped process would keep the write end open.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use fullbore_linux::PipeIdentity;
use fullbore_process::proc_directory;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::fs::{Mode, OFlags};
use rustix::io::{self, Errno};

use crate::census::chains::PipeKind;
use crate::census::fill::Fill;
use crate::census::{Census, Holder, Pipe};

/// A pipe between two stages.
#[derive(Debug)]
pub struct Link {
    /// The stage that writes into it.
    pub writer: usize,
    /// The stage that reads from it.
    pub reader: usize,
    /// The pipe, opened with `O_PATH`, which makes this process neither a reader nor a writer.
    pub handle: OwnedFd,
    /// Its capacity in bytes.
    pub capacity: usize,
    /// The capacity that was asked for, in bytes: more than `capacity` if a limit prevented it.
    pub wanted: usize,
    /// For a FIFO, a write end that must still be open when the FIFO is opened here. Otherwise opening it
    /// would complete the open(2) of a process that waits for a writer.
    pub write_end: Option<WriteEnd>,
}

/// A write end of a pipe, as a process has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteEnd {
    /// The process.
    pub pid: u32,
    /// The fd.
    pub fd: i32,
    /// The identity of the pipe.
    pub pipe: PipeIdentity,
}

impl WriteEnd {
    /// Returns a write end of a FIFO; `None` for other pipes, and if no process with a write end is
    /// seen.
    pub fn of(census: &Census, pipe: &Pipe) -> Option<Self> {
        let holder = pipe.writers().next().filter(|_| pipe.is_named())?;
        Self::by(holder, census, pipe)
    }

    /// Returns the write end that a process has open, if it has one.
    fn by(holder: &Holder, census: &Census, pipe: &Pipe) -> Option<Self> {
        Some(Self {
            pid: census.processes[holder.process].id.pid,
            fd: holder.writes?,
            pipe: pipe.identity,
        })
    }

    /// Returns whether it is still open.
    pub fn is_open(&self) -> bool {
        let path = proc_directory(self.pid).join(format!("fd/{}", self.fd));
        let is_same = rustix::fs::stat(&path)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.pipe.device, self.pipe.inode));
        // The mode of the link is the mode of the fd (`tid_fd_update_inode`, fs/proc/fd.c).
        let writes = rustix::fs::lstat(&path)
            .is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).contains(Mode::WUSR));
        is_same && writes
    }
}

impl Census {
    /// Returns an `O_PATH` fd of a pipe, if it may be opened. A FIFO that is open on one side only must not be
    /// opened on the other, so one of its writers must still have it open at this moment.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub fn openable(&self, pipe: &Pipe) -> Result<Option<OwnedFd>, Errno> {
        let handle = self.handle(pipe)?;
        let writes = |holder| WriteEnd::by(holder, self, pipe).is_some_and(|end| end.is_open());
        let is_open = || pipe.kind() != PipeKind::OneSided && pipe.holders.iter().any(writes);
        Ok((!pipe.is_named() || is_open()).then_some(handle))
    }

    /// Returns how full a pipe is, if it may be opened.
    ///
    /// # Errors
    /// As [`handle`](Self::handle), and `ENXIO` if no process reads it.
    pub fn fill(&self, pipe: &Pipe) -> Result<Option<Fill>, Errno> {
        let handle = self.openable(pipe)?;
        handle.map(|handle| fill_of(handle.as_fd())).transpose()
    }
}

impl Link {
    /// Returns the link after the stage `writer`, whose pipe this process has open as `fd`. Its capacity is known, and
    /// what was asked for.
    ///
    /// # Errors
    /// Fails if /proc is not mounted.
    pub fn open(fd: RawFd, writer: usize, capacity: usize, wanted: usize) -> io::Result<Self> {
        // `O_PATH` makes this process neither a reader nor a writer of the pipe, so that no process waits for this one
        // or because of it.
        let path = format!("/proc/self/fd/{fd}");
        let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self {
            writer,
            reader: writer + 1,
            handle,
            capacity,
            wanted,
            write_end: None,
        })
    }

    /// Returns its inode number on pipefs, which is its name in /proc/PID/fd; `None` if fstat(2) fails,
    /// which should not happen.
    pub fn inode(&self) -> Option<u64> {
        rustix::fs::fstat(&self.handle).ok().map(|stat| stat.st_ino)
    }

    /// Returns how full it is now; `None` if that cannot be read.
    pub fn fill(&self) -> Option<Fill> {
        if !self.write_end.as_ref().is_none_or(WriteEnd::is_open) {
            return None;
        }
        fill_of(self.handle.as_fd()).ok()
    }
}

/// Returns the directory with this process's open files, which is opened only once.
fn own_fds() -> Result<BorrowedFd<'static>, Errno> {
    static FDS: OnceLock<OwnedFd> = OnceLock::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if FDS.get().is_none() {
        // Another time there may be fewer open files.
        let opened = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        let _ = FDS.set(opened);
    }
    FDS.get().map(AsFd::as_fd).ok_or(Errno::BADF)
}

/// Reads how full the pipe is that `handle` refers to (`O_PATH`). Do not use this for a FIFO unless both its sides are
/// open already: opening it would complete the open(2) of another process.
///
/// # Errors
/// `EACCES` if this user may not write to it; `ENXIO` for a FIFO without a reader.
pub fn fill_of(handle: BorrowedFd<'_>) -> Result<Fill, Errno> {
    let _unstopped = Unstopped::new();
    Fill::at(open_for_writing(handle)?)
}

/// Blocks the stop signals of the terminal for this thread as long as it exists. They stay pending until
/// then. SIGSTOP cannot be blocked.
struct Unstopped(Option<SigSet>);

impl Unstopped {
    fn new() -> Self {
        let stops = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU]);
        Self(stops.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok())
    }
}

impl Drop for Unstopped {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = before.thread_set_mask();
        }
    }
}

/// Opens the write end of the pipe that `handle` refers to.
pub(crate) fn open_for_writing(handle: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // The handle itself supports neither write(2) nor ioctl(2) (O_PATH in open(2)).
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let name = handle.as_raw_fd().to_string();
    rustix::fs::openat(own_fds()?, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use fullbore_linux::Pipe;

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
            let fill = fill_of(handle(end).as_fd()).unwrap();
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
            let link = Link::open(writer.as_raw_fd(), 0, 65536, 65536).unwrap();
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

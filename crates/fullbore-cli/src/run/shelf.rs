//! Write ends of pipes that stay open although no process has them in its table of open files.
//!
//! Each is in a message that nobody has received yet (unix(7), SCM_RIGHTS). All processes of `run` have the
//! socket, so the ends stay open until none of them is left, or until the runner takes them back. No tool
//! that lists the holders of a pipe finds another writer. A message at a time is looked at, so one spare
//! descriptor is enough, and a descriptor that could not be had loses nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::processes::ending::{self, Stopped};
use anyhow::{Context, Result, bail};
use fullbore_host::machine::access_mode;
use fullbore_linux::is_closed;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// How many pipes a pipeline may have. To find one, others are put behind it.
pub const MOST: usize = 253;

/// The number of the first pipe that is not between two stages.
const INNER: u32 = 1 << 16;

/// The number of the pipe that is the stdin of the first stage.
pub const STDIN: u32 = INNER - 1;

/// How many descriptors the runner needs at most at a time: both ends of a pipe, the next one's, and one to look at a
/// process.
const SPARE: usize = 4;

/// Where a person finds the limit that was reached.
const LIMIT: &str = "('ulimit -n' shows the limit of open files)";

/// The space that one descriptor needs in a message.
const SPACE: usize = rustix::cmsg_space!(ScmRights(1));

/// The two ends of a socket with one message for each pipe.
pub struct Shelf {
    into: OwnedFd,
    from: OwnedFd,
    /// The pipes that are not between two stages and have been put here or never are, by device and inode.
    inner: RefCell<BTreeSet<(u64, u64)>>,
}

impl Shelf {
    /// Makes an empty shelf.
    ///
    /// # Errors
    /// Fails if there are too many open files.
    pub fn new() -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (into, from) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .context("socketpair")?;
        let inner = RefCell::default();
        Ok(Self { into, from, inner })
    }

    /// Returns the descriptors of the shelf itself.
    pub fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.into.as_fd(), self.from.as_fd()]
    }

    /// Checks that so many pipes can be kept open, with what the runner needs beside them.
    ///
    /// # Errors
    /// Fails if they cannot.
    pub fn reserve(&self, pipes: usize) -> Result<()> {
        let spare = (0..SPARE).map(|_| rustix::io::fcntl_dupfd_cloexec(&self.from, 0));
        let spare: Result<Vec<OwnedFd>, Errno> = spare.collect();
        drop(spare.with_context(|| format!("--whole needs {SPARE} more open files {LIMIT}"))?);
        let (end, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let kept = (0..pipes).try_for_each(|pipe| self.put(pipe as u32, end.as_fd()));
        (0..pipes).try_for_each(|pipe| self.release(pipe))?;
        kept.map_err(|error| match error.downcast_ref() {
            Some(&Errno::TOOMANYREFS) => {
                error.context(format!("{pipes} pipes are too many {LIMIT}"))
            }
            _ => error,
        })
    }

    /// Puts the write end of the pipe after a stage on the shelf.
    ///
    /// # Errors
    /// Fails if the kernel refuses: ETOOMANYREFS beyond the limit of open files.
    pub fn put(&self, number: u32, end: BorrowedFd<'_>) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let ends = [end];
        assert!(rights.push(SendAncillaryMessage::ScmRights(&ends)), "SPACE");
        let number = number.to_ne_bytes();
        let bytes = [IoSlice::new(&number)];
        let sent = retry_on_intr(|| sendmsg(&self.into, &bytes, &mut rights, SendFlags::NOSIGNAL));
        sent.map(drop)
            .context("keep the write end of a pipe open by sendmsg(2)")
    }

    /// Returns the number of the first message, or `None` if there is none. A holder that never can look at the messages
    /// would never end, so this is called once before there is one.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn front(&self) -> Result<Option<u32>> {
        self.receive(RecvFlags::PEEK, &mut RecvAncillaryBuffer::default())
    }

    /// Returns the first message with a duplicate of its descriptor.
    ///
    /// # Errors
    /// Fails if there are too many open files. The message is still there then.
    pub fn first(&self) -> Result<Option<(u32, OwnedFd)>> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let Some(number) = self.receive(RecvFlags::PEEK, &mut control)? else {
            return Ok(None);
        };
        let fds = |message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        };
        match control.drain().filter_map(fds).flatten().next() {
            Some(end) => Ok(Some((number, end))),
            None => bail!("look at the write end of a pipe: {}", Errno::MFILE),
        }
    }

    /// Takes the first message off, with its descriptor. That needs no descriptor.
    pub fn drop_front(&self) -> Result<()> {
        let mut none = RecvAncillaryBuffer::default();
        self.receive(RecvFlags::empty(), &mut none).map(drop)
    }

    fn receive(
        &self,
        flags: RecvFlags,
        control: &mut RecvAncillaryBuffer<'_>,
    ) -> Result<Option<u32>> {
        let mut number = [0; 4];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = retry_on_intr(|| {
            let mut bytes = [IoSliceMut::new(&mut number)];
            recvmsg(self.from.as_fd(), &mut bytes, control, flags).map(drop)
        });
        match received {
            Err(Errno::AGAIN) => Ok(None),
            received => {
                received.context("look at the write ends of the pipes by recvmsg(2)")?;
                Ok(Some(u32::from_ne_bytes(number)))
            }
        }
    }

    /// Makes the message of a stage the first one, by putting those before it behind the others. Returns whether there
    /// is one.
    fn bring_to_front(&self, stage: usize) -> Result<bool> {
        let began = self.front()?;
        let mut front = began;
        while front.is_some_and(|front| front != stage as u32) {
            if let Some((number, end)) = self.first()? {
                self.put(number, end.as_fd())?;
                self.drop_front()?;
            }
            front = self.front()?;
            if front == began {
                return Ok(false);
            }
        }
        Ok(front.is_some())
    }

    /// Returns a duplicate of the write end of the pipe after a stage, if it is on the shelf.
    pub fn end_of(&self, stage: usize) -> Result<Option<OwnedFd>> {
        match self.bring_to_front(stage)? {
            true => Ok(self.first()?.map(|(_, end)| end)),
            false => Ok(None),
        }
    }

    /// Takes the write end of the pipe after a stage off the shelf.
    pub fn release(&self, stage: usize) -> Result<()> {
        match self.bring_to_front(stage)? {
            true => self.drop_front(),
            false => Ok(()),
        }
    }

    /// Takes what still has a reader off the shelf, as far as there may be open files, and drops the rest. The ends of
    /// pipes that are not between two stages are only of interest if a process of the pipeline `may_be_left`: others may
    /// read from them too.
    pub fn take_what_is_read(&self, may_be_left: bool) -> Vec<(u32, OwnedFd)> {
        let mut taken = Vec::new();
        while let Ok(Some((number, end))) = self.first() {
            if self.drop_front().is_err() {
                break;
            }
            if is_wanted(number, &end, may_be_left) {
                taken.push((number, end));
            }
        }
        taken
    }

    /// Returns whether there is a message.
    pub fn is_empty(&self) -> bool {
        matches!(self.front(), Ok(None))
    }

    /// Returns whether one of the pipes still has a reader, as far as that can be seen.
    pub fn is_read(&self) -> bool {
        let mut first = None;
        while let Ok(Some((number, end))) = self.first() {
            if is_read(&end) {
                return true;
            }
            if first.replace(first.unwrap_or(number)) == Some(number) {
                return false;
            }
            if self.put(number, end.as_fd()).is_err() || self.drop_front().is_err() {
                return true;
            }
        }
        !self.is_empty()
    }

    /// Calls `tell` with what is to be done when all processes are stopped, if they are to be: their pipes are held.
    pub fn with_all_stopped<T>(&self, are_stopped: bool, tell: impl FnOnce(Stopped<'_>) -> T) -> T {
        let hold_inner = |processes: &[u32]| self.hold_inner(processes);
        let stopped: &dyn Fn(&[u32]) = &hold_inner;
        tell(are_stopped.then_some(stopped))
    }

    /// Never holds the pipes that this process has now: what was inherited leads to other processes, which have to see
    /// its end.
    pub fn spare_own_pipes(&self) {
        let own = pipes_of("self").into_iter().flatten();
        self.inner.borrow_mut().extend(own.map(|pipe| pipe.id));
    }

    /// Puts a write end of each pipe from these processes to others of the pipeline on the shelf, such as that of `>(…)`
    /// or a FIFO. They are stopped, so they do not close it meanwhile.
    fn hold_inner(&self, processes: &[u32]) {
        let mut all = BTreeMap::new();
        self.spare_own_pipes();
        let mut is_all_seen = true;
        for pid in ending::living() {
            let Some(pipes) = pipes_of(&pid.to_string()) else {
                is_all_seen = false;
                continue;
            };
            for pipe in pipes {
                let ends: &mut (bool, Option<PathBuf>) = all.entry(pipe.id).or_default();
                match pipe.is_writer {
                    true if processes.contains(&pid) => ends.1 = Some(pipe.path),
                    true => {}
                    false => ends.0 = true,
                }
            }
        }
        let mut inner = self.inner.borrow_mut();
        for (id, (is_read, writer)) in all {
            // The reader can be a process into which this user may not look.
            let Some(path) = writer.filter(|_| is_read || !is_all_seen) else {
                continue;
            };
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let number = INNER + inner.len() as u32;
            if inner.insert(id)
                && let_open(&path, flags).is_some_and(|end| self.put(number, end.as_fd()).is_err())
            {
                inner.remove(&id);
            }
        }
    }
}

fn let_open(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// Returns whether the pipe of this write end has a reader. poll(2) reports POLLERR for a write end without readers.
pub fn is_read(end: &OwnedFd) -> bool {
    is_closed(end.as_fd()) != Ok(true)
}

/// Returns whether [`Shelf::take_what_is_read`] would take an end.
pub fn is_wanted(number: u32, end: &OwnedFd, may_be_left: bool) -> bool {
    (may_be_left || number < INNER) && is_read(end)
}

/// An end of a pipe that a process has open.
pub struct OpenEnd {
    /// Device and inode of the pipe.
    pub id: (u64, u64),
    pub is_writer: bool,
    path: PathBuf,
}

/// Returns the ends of pipes that a process has open; `None` if this user may not look at them.
pub fn pipes_of(process: &str) -> Option<Vec<OpenEnd>> {
    let fds = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let end = |name: std::ffi::OsString| {
        let path = Path::new("/proc").join(process).join("fd").join(&name);
        let stat = rustix::fs::stat(&path).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::Fifo).then_some(())?;
        let info = Path::new("/proc").join(process).join("fdinfo").join(&name);
        let info = fs::read_to_string(info).ok()?;
        Some(OpenEnd {
            id: (stat.st_dev, stat.st_ino),
            is_writer: access_mode(&info)? != OFlags::RDONLY,
            path,
        })
    };
    let ends = fds.flatten().map(|entry| entry.file_name());
    Some(ends.filter_map(end).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_on_the_shelf_stays_open_until_it_is_taken_off() {
        let shelf = Shelf::new().unwrap();
        shelf.reserve(MOST).unwrap();
        let (one_reader, one) = rustix::pipe::pipe().unwrap();
        let (two_reader, two) = rustix::pipe::pipe().unwrap();
        shelf.put(1, one.as_fd()).unwrap();
        shelf.put(2, two.as_fd()).unwrap();
        drop((one, two));
        assert!(shelf.end_of(3).unwrap().is_none());
        assert!(is_read(&shelf.end_of(2).unwrap().unwrap()));
        shelf.release(1).unwrap();
        // The first pipe has lost its last writer, and the second has not.
        let mut text = String::new();
        File::from(one_reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
        assert!(shelf.is_read());
        let again = shelf.end_of(2).unwrap().unwrap();
        File::from(again).write_all(b"x").unwrap();
        shelf.release(2).unwrap();
        File::from(two_reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert!(shelf.is_empty() && !shelf.is_read());
    }
}

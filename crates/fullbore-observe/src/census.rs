//! Every pipe and FIFO whose ends this user may see, and the processes that hold them. `walk.rs` takes it.
//!
//! A pipe is known by device and inode, a process by its number and when it started: both numbers are used
//! again.

use std::os::fd::OwnedFd;

use fullbore::pipe::PipeIdentity;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use serde::Serialize;

/// A process, for as long as the machine is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ProcessId {
    /// Its number, which will be another's.
    pub pid: u32,
    /// When it started, in clock ticks since boot (proc_pid_stat(5), `starttime`).
    pub start: u64,
}

/// A process that holds an end of a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Which process it is.
    pub id: ProcessId,
    /// The number of its parent.
    pub parent: u32,
    /// Its user, as the owner of its directory in /proc tells: root for one that may not be dumped.
    pub uid: u32,
    /// Its name, 15 bytes at most; safe to show.
    pub name: String,
    /// Its words, with spaces between; safe to show.
    pub command: String,
}

/// A process with a pipe open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Index into [`Census::processes`].
    pub process: usize,
    /// The lowest fd that reads from it.
    pub reads: Option<i32>,
    /// The lowest fd that writes to it.
    pub writes: Option<i32>,
}

/// A pipe or FIFO that is open somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipe {
    /// The device and inode number that tell it from all other pipes.
    pub identity: PipeIdentity,
    /// The user who made it, and to whose limit its memory counts.
    pub owner: u32,
    /// The path of a FIFO; safe to show. `None` for a pipe, which has no name.
    pub name: Option<String>,
    /// The processes that have it open.
    pub holders: Vec<Holder>,
}

/// What was not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// Processes of other users, whose fds are closed to this one.
    pub of_others: usize,
    /// Processes of this user that are closed all the same: they may not be dumped.
    pub of_this_user: usize,
    /// Processes with more fds than are looked at.
    pub too_many_fds: usize,
    /// Whether /proc lists no processes of other users (proc(5), `hidepid`).
    pub others_hidden: bool,
}

/// What there was at one look.
#[derive(Debug, Clone, Default)]
pub struct Census {
    /// When it began, in clock ticks since boot, as in [`ProcessId::start`].
    pub began: u64,
    /// Processes that hold an end of a pipe.
    pub processes: Vec<Process>,
    /// In the order of their identities.
    pub pipes: Vec<Pipe>,
    /// What could not be looked at.
    pub unseen: Unseen,
}

impl Process {
    /// Whether it has this name, as the kernel has it, or as the file name of its program.
    pub fn has_name(&self, name: &str) -> bool {
        let program = self.command.split(' ').next().unwrap_or_default();
        self.name == name || program.rsplit('/').next() == Some(name)
    }
}

impl Holder {
    /// An fd of it.
    pub fn any_fd(&self) -> i32 {
        self.writes.or(self.reads).unwrap_or(-1)
    }

    /// Whether it only reads from the pipe.
    pub fn only_reads(&self) -> bool {
        self.writes.is_none()
    }

    /// Whether it only writes to the pipe.
    pub fn only_writes(&self) -> bool {
        self.reads.is_none()
    }

    /// Whether it does both.
    pub fn has_both(&self) -> bool {
        self.reads.is_some() && self.writes.is_some()
    }
}

impl Pipe {
    /// Whether it is a FIFO, which others can open at any time.
    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the holders that only write to it, or if there are none, those that do both.
    pub fn writers(&self) -> impl Iterator<Item = &Holder> {
        let anyone = self.holders.iter().any(Holder::only_writes);
        self.holders
            .iter()
            .filter(move |holder| holder.writes.is_some() && (!anyone || holder.only_writes()))
    }

    /// Returns the holders that only read from it, or if there are none, those that do both.
    pub fn readers(&self) -> impl Iterator<Item = &Holder> {
        let anyone = self.holders.iter().any(Holder::only_reads);
        self.holders
            .iter()
            .filter(move |holder| holder.reads.is_some() && (!anyone || holder.only_reads()))
    }
}

impl Census {
    /// The process with that number.
    pub fn process(&self, pid: u32) -> Option<usize> {
        self.processes
            .iter()
            .position(|process| process.id.pid == pid)
    }

    /// Opens a pipe without being an end of it (`O_PATH`, open(2)), through a process that has it open. What an
    /// fd leads to may be another thing by now, which must not be opened: a device may mind.
    ///
    /// # Errors
    /// `ENOENT` where it has gone, or the kernel's word.
    pub fn handle(&self, pipe: &Pipe) -> Result<OwnedFd, Errno> {
        let mut last = Errno::NOENT;
        for holder in &pipe.holders {
            let pid = self.processes[holder.process].id.pid;
            let path = format!("/proc/{pid}/fd/{}", holder.any_fd());
            match openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
                Ok(handle) => {
                    let stat = fstat(&handle)?;
                    if (stat.st_dev, stat.st_ino) == (pipe.identity.device, pipe.identity.inode) {
                        return Ok(handle);
                    }
                }
                Err(errno) => last = errno,
            }
        }
        Err(last)
    }

    /// The pipes that a process has open, by their indices.
    pub fn pipes_of(&self, process: usize) -> impl Iterator<Item = usize> {
        self.pipes
            .iter()
            .enumerate()
            .filter(move |(_, pipe)| pipe.holders.iter().any(|holder| holder.process == process))
            .map(|(index, _)| index)
    }
}

impl Pipe {
    /// Adds an fd of a process.
    pub(super) fn hold(&mut self, process: usize, fd: i32, reads: bool, writes: bool) {
        // Fds of one process come one after the other.
        let holder = match self.holders.last_mut() {
            Some(holder) if holder.process == process => holder,
            _ => {
                self.holders.push(Holder {
                    process,
                    reads: None,
                    writes: None,
                });
                self.holders.last_mut().expect("it was just added")
            }
        };
        let lower = |known: Option<i32>| Some(known.map_or(fd, |known| known.min(fd)));
        if reads {
            holder.reads = lower(holder.reads);
        }
        if writes {
            holder.writes = lower(holder.writes);
        }
    }
}

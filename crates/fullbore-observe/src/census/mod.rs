//! The census: every pipe and FIFO whose ends this user may see, and the processes that have them open.
//! `walk/` takes it.
//!
//! A pipe is identified by device and inode, and a process by its id and its start time, because ids are
//! reused.

pub mod chains;
pub(crate) mod descendants;
pub mod fill;
pub mod link;
pub(crate) mod proc_files;
pub mod scope;
pub(crate) mod walk;

use std::os::fd::OwnedFd;

use fullbore_linux::PipeIdentity;
use fullbore_process::proc_directory;
use procfs::FromRead;
use procfs::process::Stat;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Identifies a process until the next boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its process id, which another process may get later.
    pub pid: u32,
    /// When it started, in clock ticks since boot (proc_pid_stat(5), `starttime`).
    pub start: u64,
}

impl ProcessId {
    /// Returns the identity of the process that has this id now, also of a zombie; `None` if there is none.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
        Some(Self {
            pid,
            start: stat.starttime,
        })
    }
}

/// A process that has an end of a pipe open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The identity of the process.
    #[serde(flatten)]
    pub id: ProcessId,
    /// The process id of its parent. It is not in the JSON.
    #[serde(skip)]
    pub parent: u32,
    /// Its user, which is the owner of its directory in /proc: root for a process that may not be
    /// dumped.
    pub uid: u32,
    /// Its name, 15 bytes at most; safe to show.
    pub name: String,
    /// Its arguments, separated by spaces and shortened to 200 characters; safe to show.
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

/// A pipe or FIFO that a process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipe {
    /// The device and inode number that identify it.
    pub identity: PipeIdentity,
    /// The user who created it, and against whose limit its memory counts.
    pub owner: u32,
    /// The path of a FIFO; safe to show. `None` for a pipe, which has no name.
    pub name: Option<String>,
    /// The processes that have it open.
    pub holders: Vec<Holder>,
}

/// The processes that could not be examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Processes of other users, whose fds this user may not read.
    pub of_others: usize,
    /// Processes of this user whose fds it may not read either, because they may not be dumped.
    pub of_this_user: usize,
    /// Processes with more fds than are examined.
    pub too_many_fds: usize,
    /// Whether /proc lists no processes of other users (proc(5), `hidepid`).
    pub others_hidden: bool,
}

/// All pipes and processes at the time of one scan.
#[derive(Debug, Clone, Default)]
pub struct Census {
    /// When the scan began, in clock ticks since boot, as in [`ProcessId::start`].
    pub began: u64,
    /// Processes that have an end of a pipe open.
    pub processes: Vec<Process>,
    /// The pipes, in the order of their identities.
    pub pipes: Vec<Pipe>,
    /// The processes that could not be examined.
    pub unseen: Unseen,
}

impl Process {
    /// Returns whether this is its name in the kernel, or the file name of its program.
    pub fn has_name(&self, name: &str) -> bool {
        let program = self.command.split(' ').next().unwrap_or_default();
        self.name == name || program.rsplit('/').next() == Some(name)
    }
}

impl Holder {
    /// Returns one of its fds of the pipe.
    pub fn any_fd(&self) -> i32 {
        self.writes.or(self.reads).unwrap_or(-1)
    }

    /// Returns whether it only reads from the pipe.
    pub fn only_reads(&self) -> bool {
        self.writes.is_none()
    }

    /// Returns whether it only writes to the pipe.
    pub fn only_writes(&self) -> bool {
        self.reads.is_none()
    }

    /// Returns whether it has both ends open.
    pub fn has_both(&self) -> bool {
        self.reads.is_some() && self.writes.is_some()
    }
}

impl Pipe {
    /// Returns whether it is a FIFO, which other processes can open at any time.
    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the holders that only write to it, or, if there are none, the ones with both ends.
    pub fn writers(&self) -> impl Iterator<Item = &Holder> {
        let anyone = self.holders.iter().any(Holder::only_writes);
        self.holders
            .iter()
            .filter(move |holder| holder.writes.is_some() && (!anyone || holder.only_writes()))
    }

    /// Returns the holders that only read from it, or, if there are none, the ones with both ends.
    pub fn readers(&self) -> impl Iterator<Item = &Holder> {
        let anyone = self.holders.iter().any(Holder::only_reads);
        self.holders
            .iter()
            .filter(move |holder| holder.reads.is_some() && (!anyone || holder.only_reads()))
    }

    /// Adds an fd of a process.
    pub(crate) fn hold(&mut self, process: usize, fd: i32, reads: bool, writes: bool) {
        // All fds of one process are added in sequence.
        if self
            .holders
            .last()
            .is_none_or(|last| last.process != process)
        {
            self.holders.push(Holder {
                process,
                reads: None,
                writes: None,
            });
        }
        let holder = self.holders.last_mut().expect("it was added");
        let lower = |known: Option<i32>| Some(known.map_or(fd, |known| known.min(fd)));
        if reads {
            holder.reads = lower(holder.reads);
        }
        if writes {
            holder.writes = lower(holder.writes);
        }
    }
}

impl Census {
    /// Returns the index of the process with that id.
    pub fn process(&self, pid: u32) -> Option<usize> {
        self.processes
            .iter()
            .position(|process| process.id.pid == pid)
    }

    /// Opens a pipe without becoming a reader or writer of it (`O_PATH`, open(2)), through a process that has
    /// it open. The fd may refer to another file by now, which must not be opened: opening a device may have
    /// side effects.
    ///
    /// # Errors
    /// `ENOENT` if the pipe has gone, or the kernel's error.
    pub fn handle(&self, pipe: &Pipe) -> Result<OwnedFd, Errno> {
        let mut last = Errno::NOENT;
        for holder in &pipe.holders {
            let pid = self.processes[holder.process].id.pid;
            let path = proc_directory(pid).join(format!("fd/{}", holder.any_fd()));
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

    /// Returns the indices of the pipes that a process has open.
    pub fn pipes_of(&self, process: usize) -> impl Iterator<Item = usize> {
        let holds = move |holder: &Holder| holder.process == process;
        (0..self.pipes.len()).filter(move |&pipe| self.pipes[pipe].holders.iter().any(holds))
    }
}

//! Takes a [`Census`].
//!
//! One scan reads /proc/PID/fd of all processes. statx(2) returns what an fd refers to without opening it.
//! The mode of the link itself shows whether the fd reads or writes (`tid_fd_update_inode`, fs/proc/fd.c);
//! an fd with O_PATH does neither. An open directory of a process always belongs to that process: once the
//! process has gone, nothing is found below that directory any more. If only the first thread of a process has
//! ended, its fds are in the directory of another thread (`fullbore_process::live_thread`).
//!
//! Threads that do not share their process's fds (unshare(2), `CLONE_FILES`) are not examined
//! separately.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fullbore_linux::PipeIdentity;
use fullbore_process::live_thread;
use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom, openat, readlinkat};
use rustix::io::Errno;

use fullbore_host::text::clean;

use crate::census::proc_files::{
    Schedule, describe, effective_uid, has_no_fds, has_one_thread, hides_others, mode_of, number,
    open, own_number, pipe_at, schedule, ticks_since_boot,
};
use crate::census::{Census, Pipe, Process};

/// The most fds of one process that are examined; a process with more is only counted. Each fd costs
/// about two microseconds.
const MOST_FDS: usize = 8192;

/// Processes whose directories are kept open from one scan to the next, which makes the next scan three times
/// cheaper. An open directory never shows another process. If a process has one thread, which has not run
/// since the last scan, its fds are not read again: only a process that shares them (clone(2), `CLONE_FILES`)
/// could have changed them, so they are still read again from time to time.
#[derive(Debug, Default)]
pub struct KnownProcesses {
    processes: HashMap<u32, Kept>,
    /// The most files that may be kept open.
    most: usize,
    censuses: u32,
    /// The only pipe that is looked for, if it is one.
    only: Option<PipeIdentity>,
    /// How many fds may still be looked at, if there is a limit.
    looks_left: Option<usize>,
}

/// What is kept about a process.
#[derive(Debug)]
struct Kept {
    /// Its fds.
    fds: OwnedFd,
    /// Its /proc/PID/schedstat, because a process that has not run has neither opened nor closed a
    /// file.
    schedule: Option<OwnedFd>,
    /// The contents of that file before its fds were last read, if the process has only one thread.
    slept_at: Option<Schedule>,
    /// Its description, once it was seen with a pipe.
    process: Option<Process>,
    /// The number of the scan at which everything is read again.
    due: u32,
    /// Its fds of pipes, sorted by number.
    ends: Vec<End>,
    /// Whether it had no fd at all.
    is_empty: bool,
    /// The number of the scan that last found it.
    seen: u32,
}

/// An fd of a pipe.
#[derive(Debug, Clone)]
struct End {
    fd: u32,
    identity: PipeIdentity,
    owner: u32,
    /// The path of a FIFO.
    fifo: Option<String>,
    reads: bool,
    writes: bool,
}

/// The fds that take as long as the rest of a process.
const LOOKS_OF_A_PROCESS: usize = 10;

/// Files that are kept open for a process.
const FILES: usize = 2;

/// Scans after which the description of a process is read again, because it can become another
/// program.
const CENSUSES_PER_DESCRIPTION: u32 = 8;

impl Census {
    /// Scans all processes but this one.
    ///
    /// # Errors
    /// If there is no /proc.
    pub fn take() -> Result<Self, Errno> {
        KnownProcesses::default().take_census()
    }

    /// Scans all processes but this one for those that have this pipe open, and leaves out all others, which takes a
    /// third of the time. At most so many fds are looked at, where a process counts as ten.
    ///
    /// # Errors
    /// If there is no /proc; `E2BIG` if there are more fds.
    pub fn of(pipe: PipeIdentity, most_looks: Option<usize>) -> Result<Self, Errno> {
        let mut known = KnownProcesses {
            only: Some(pipe),
            looks_left: most_looks,
            ..KnownProcesses::default()
        };
        known.take_census()
    }
}

impl KnownProcesses {
    /// Creates a census taker that keeps at most this many files open.
    pub fn at_most(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Scans all processes but this one.
    ///
    /// # Errors
    /// If there is no /proc.
    pub fn take_census(&mut self) -> Result<Census, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(CWD, c"/proc", flags, Mode::empty())?;
        self.censuses += 1;
        let census = census_of(proc.as_fd(), own_number(), self)?;
        let censuses = self.censuses;
        self.processes.retain(|_, kept| kept.seen == censuses);
        Ok(census)
    }

    /// Returns the number of files that are open.
    pub fn files(&self) -> usize {
        self.processes.len() * FILES
    }
}

/// The state of a scan.
struct Walk<'a> {
    known: &'a mut KnownProcesses,
    census: Census,
    by_identity: HashMap<PipeIdentity, usize>,
    uid: u32,
    /// The device number of pipefs, once a pipe without a name was found.
    pipefs: Option<u64>,
}

/// The buffer that names in directories are read into.
type Names = [MaybeUninit<u8>; 8192];

fn census_of(proc: BorrowedFd<'_>, but: u32, known: &mut KnownProcesses) -> Result<Census, Errno> {
    let mut walk = Walk {
        known,
        census: Census {
            began: ticks_since_boot(),
            ..Census::default()
        },
        by_identity: HashMap::new(),
        uid: rustix::process::geteuid().as_raw(),
        pipefs: None,
    };
    let mut buffer: Names = [MaybeUninit::uninit(); 8192];
    let mut of_fds: Names = [MaybeUninit::uninit(); 8192];
    let mut processes = RawDir::new(proc, &mut buffer);
    while let Some(entry) = processes.next() {
        let entry = entry?;
        if let Some(pid) = number(entry.file_name().to_bytes()).filter(|&pid| pid != but) {
            walk.process(proc, pid, &mut of_fds)?;
        }
    }
    let mut census = walk.census;
    census.unseen.others_hidden = hides_others(proc);
    census.pipes.sort_unstable_by_key(|pipe| pipe.identity);
    Ok(census)
}

impl Walk<'_> {
    /// Counts what is looked at.
    ///
    /// # Errors
    /// If that is too much.
    fn look(&mut self, looks: usize) -> Result<(), Errno> {
        if let Some(left) = &mut self.known.looks_left {
            *left = left.checked_sub(looks).ok_or(Errno::TOOBIG)?;
        }
        Ok(())
    }

    /// Adds the pipes of one process, which may end at any moment.
    ///
    /// # Errors
    /// If this process may open no more files, because the census would be incomplete; as [`look`](Self::look).
    fn process(&mut self, proc: BorrowedFd<'_>, pid: u32, buffer: &mut Names) -> Result<(), Errno> {
        self.look(LOOKS_OF_A_PROCESS)?;
        if let Some(mut kept) = self.known.processes.remove(&pid) {
            let is_known = self.ends(pid, &mut kept, buffer).is_ok();
            if is_known && kept.another_thread(pid).is_none() {
                kept.seen = self.known.censuses;
                self.known.processes.insert(pid, kept);
                return Ok(());
            }
        }
        self.new_process(proc, pid, pid, buffer)
    }

    /// Adds the pipes of a process that is not known, from the directory of one of its threads.
    fn new_process(
        &mut self,
        proc: BorrowedFd<'_>,
        pid: u32,
        thread: u32,
        buffer: &mut Names,
    ) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fds = match openat(proc, format!("{thread}/fd"), flags, Mode::empty()) {
            Ok(fds) => fds,
            Err(Errno::ACCESS | Errno::PERM) => {
                return match live_thread(pid).filter(|&other| thread == pid && other != pid) {
                    Some(other) => self.new_process(proc, pid, other, buffer),
                    None => self.closed(proc, pid),
                };
            }
            Err(errno) => return unless_short_of_files(errno),
        };
        let may_be_kept = self.known.files() + FILES <= self.known.most;
        let mut kept = Kept {
            schedule: may_be_kept
                .then(|| open(fds.as_fd(), c"../schedstat").ok())
                .flatten(),
            fds,
            slept_at: None,
            process: None,
            due: 0,
            ends: Vec::new(),
            is_empty: true,
            seen: self.known.censuses,
        };
        if let Err(errno) = self.ends(pid, &mut kept, buffer) {
            return unless_short_of_files(errno);
        }
        match kept.another_thread(pid).filter(|_| thread == pid) {
            Some(other) => return self.new_process(proc, pid, other, buffer),
            None if may_be_kept => drop(self.known.processes.insert(pid, kept)),
            None => {}
        }
        Ok(())
    }

    /// Determines which of these fds are of pipes, and adds them.
    fn ends(&mut self, pid: u32, kept: &mut Kept, buffer: &mut Names) -> Result<(), Errno> {
        let schedule = kept.schedule.as_ref().and_then(schedule);
        let is_due = self.known.censuses >= kept.due;
        if is_due || schedule.is_none() || schedule != kept.slept_at {
            kept.slept_at = schedule.filter(|_| has_one_thread(kept.fds.as_fd()));
            self.walk(kept, is_due, buffer)?;
        }
        if kept.ends.iter().all(End::is_none) {
            if is_due {
                kept.due = self.known.censuses + CENSUSES_PER_DESCRIPTION;
            }
            return Ok(());
        }
        if is_due || kept.process.is_none() {
            // A new process is often about to become another program.
            let until = match kept.process {
                None => 1,
                Some(_) => CENSUSES_PER_DESCRIPTION,
            };
            kept.process = Some(describe(kept.fds.as_fd(), pid)?);
            kept.due = self.known.censuses + until;
        }
        let process = kept.process.clone().ok_or(Errno::NOENT)?;
        self.census.processes.push(process);
        let process = self.census.processes.len() - 1;
        for end in kept.ends.iter().filter(|end| !end.is_none()) {
            let pipe = match self.by_identity.entry(end.identity) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    self.census.pipes.push(Pipe {
                        identity: end.identity,
                        owner: end.owner,
                        name: end.fifo.clone(),
                        holders: Vec::with_capacity(2),
                    });
                    *new.insert(self.census.pipes.len() - 1)
                }
            };
            self.census.pipes[pipe].hold(process, end.fd as i32, end.reads, end.writes);
        }
        Ok(())
    }

    /// Finds the fds of a process that are of pipes.
    fn walk(&mut self, kept: &mut Kept, is_due: bool, buffer: &mut Names) -> Result<(), Errno> {
        let mut looked_at = 0;
        kept.is_empty = true;
        let mut before = std::mem::take(&mut kept.ends).into_iter().peekable();
        rustix::fs::seek(&kept.fds, SeekFrom::Start(0))?;
        let fds = kept.fds.as_fd();
        let mut entries = RawDir::new(fds, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            let Some(fd) = number(name.to_bytes()) else {
                continue;
            };
            looked_at += 1;
            self.look(1)?;
            kept.is_empty = false;
            if looked_at > MOST_FDS {
                self.census.unseen.too_many_fds += 1;
                // The process has to be counted at each scan.
                kept.slept_at = None;
                break;
            }
            let only =
                |(pipe, _): &(PipeIdentity, _)| self.known.only.is_none_or(|one| one == *pipe);
            let Some((identity, owner)) = pipe_at(fds, name).filter(only) else {
                continue;
            };
            // Both lists are sorted by number.
            while before.next_if(|end| end.fd < fd).is_some() {}
            let known = before.next_if(|end| (end.fd, end.identity) == (fd, identity));
            // The fd of a FIFO may have been closed, and opened again for the other side.
            if let Some(end) = known.filter(|end| !is_due && end.fifo.is_none()) {
                kept.ends.push(end);
                continue;
            }
            if let Some((reads, writes)) = mode_of(fds, name) {
                kept.ends.push(End {
                    fd,
                    identity,
                    owner,
                    fifo: self.name_of(identity, fds, name),
                    reads,
                    writes,
                });
            }
        }
        Ok(())
    }

    /// Returns the path of a FIFO; `None` for a pipe, whose link is `pipe:[inode]` (`pipefs_dname`,
    /// fs/pipe.c) and whose file system contains only pipes.
    fn name_of(
        &mut self,
        identity: PipeIdentity,
        fds: BorrowedFd<'_>,
        fd: &CStr,
    ) -> Option<String> {
        if self.pipefs == Some(identity.device) {
            return None;
        }
        let target = readlinkat(fds, fd, Vec::new()).ok()?;
        let target = target.to_string_lossy();
        if target.starts_with("pipe:[") {
            self.pipefs = Some(identity.device);
        }
        target.starts_with('/').then(|| clean(&target))
    }

    /// Counts a process whose fds may not be read, unless it has none: a kernel thread, or a zombie.
    fn closed(&mut self, proc: BorrowedFd<'_>, pid: u32) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = match openat(proc, pid.to_string(), flags, Mode::empty()) {
            Ok(process) => process,
            Err(errno) => return unless_short_of_files(errno),
        };
        let process = process.as_fd();
        let unseen = &mut self.census.unseen;
        match has_no_fds(process) {
            Ok(true) => {}
            // The directory of a process of this user that may not be dumped is owned by root.
            Ok(false) if effective_uid(process) == Some(self.uid) => unseen.of_this_user += 1,
            Ok(false) | Err(Errno::ACCESS | Errno::PERM) => unseen.of_others += 1,
            Err(errno) => return unless_short_of_files(errno),
        }
        Ok(())
    }
}

impl Kept {
    /// Returns a thread that has the fds, if this one has none because it has ended alone.
    fn another_thread(&self, pid: u32) -> Option<u32> {
        if !self.is_empty || has_one_thread(self.fds.as_fd()) {
            return None;
        }
        live_thread(pid).filter(|&thread| thread != pid)
    }
}

impl End {
    /// Returns whether the fd was opened with O_PATH, so that it refers to a pipe but is not an end
    /// of it.
    fn is_none(&self) -> bool {
        !self.reads && !self.writes
    }
}

/// Ignores an error of opening a file, because the process may have gone, unless this process may have no
/// more open files, or has looked at too many.
fn unless_short_of_files(errno: Errno) -> Result<(), Errno> {
    match errno {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::TOOBIG => Err(errno),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

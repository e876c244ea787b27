//! Every pipe and FIFO whose ends this user may see, and who holds them.
//!
//! One look walks /proc/PID/fd of all processes. What an fd leads to, statx(2) tells without opening it;
//! whether it reads or writes, the mode of the link itself (`tid_fd_update_inode`, fs/proc/fd.c), which an
//! fd of O_PATH has neither of. A pipe is known by device and inode, a process by its number and when it
//! started: both numbers are used again. A process whose directory is open stays the same one: once it has
//! gone, nothing below that directory is found any more.
//!
//! Threads that do not share their process's fds (unshare(2), `CLONE_FILES`) are not looked at apart.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fullbore::pipe::PipeIdentity;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, StatxFlags, fstat, makedev, openat,
    readlinkat, statat, statx,
};
use rustix::io::Errno;
use serde::Serialize;

use fullbore_host::refusal::Unsupported;
use fullbore_host::text::clean;

/// Fds of one process that are looked at; those beyond are counted, and not looked at. Each costs about
/// two microseconds.
const MOST_FDS: usize = 8192;

/// Bytes of a command line that are read.
const MOST_OF_COMMAND: usize = 4096;

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
    /// The user who made it, whom it is accounted to.
    pub owner: u32,
    /// The path of a FIFO; safe to show. `None` for a pipe, which has no name.
    pub name: Option<String>,
    /// Who has it open, by process.
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
    /// Whether it is called so, by the name that the kernel has for it or by its program.
    pub fn is_called(&self, name: &str) -> bool {
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

    /// Those that feed it: who only writes, or where nobody does, who does both.
    pub fn writers(&self) -> impl Iterator<Item = &Holder> {
        let anyone = self.holders.iter().any(Holder::only_writes);
        self.holders
            .iter()
            .filter(move |holder| holder.writes.is_some() && (!anyone || holder.only_writes()))
    }

    /// Those that drain it: who only reads, or where nobody does, who does both.
    pub fn readers(&self) -> impl Iterator<Item = &Holder> {
        let anyone = self.holders.iter().any(Holder::only_reads);
        self.holders
            .iter()
            .filter(move |holder| holder.reads.is_some() && (!anyone || holder.only_reads()))
    }
}

impl Census {
    /// Looks at all processes but this one.
    ///
    /// # Errors
    /// Where there is no /proc.
    pub fn look() -> Result<Self, Errno> {
        KnownProcesses::default().look()
    }

    /// The process with that number.
    pub fn process(&self, pid: u32) -> Option<usize> {
        self.processes
            .iter()
            .position(|process| process.id.pid == pid)
    }

    /// A name for a pipe that is no end of it (`O_PATH`, open(2)), by way of whoever has it open. What an
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

/// Processes whose directories are kept open from one look to the next, which makes the next one three times
/// cheaper. While it is open, none of another process is found under it. Of a process with one thread that has
/// not run since, not even the fds are looked at: another could have changed them only by sharing them
/// (clone(2), `CLONE_FILES`), and they are looked at now and then all the same.
#[derive(Debug, Default)]
pub struct KnownProcesses {
    processes: HashMap<u32, Kept>,
    /// How many files may be kept open.
    most: usize,
    looks: u32,
}

/// What is kept of a process.
#[derive(Debug)]
struct Kept {
    /// Its fds.
    fds: OwnedFd,
    /// Its /proc/PID/schedstat: who has not run has opened and closed nothing.
    schedule: Option<OwnedFd>,
    /// What that said before its fds were last walked, if they were its only thread's.
    slept_at: Option<Schedule>,
    /// What it is, once it was seen with a pipe.
    process: Option<Process>,
    /// The look at which everything is to be found out again.
    due: u32,
    /// Its fds of pipes, by number.
    ends: Vec<End>,
    /// The look at which it was last there.
    seen: u32,
}

/// What a file of /proc says of a thread's time on CPUs.
type Schedule = ([u8; 64], usize);

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

/// Files that are kept open for a process.
const FILES: usize = 2;

/// Whether what is at /proc is proc(5).
pub fn needs_proc() -> Result<(), Unsupported> {
    let found = rustix::fs::statfs("/proc");
    if found.is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC) {
        return Ok(());
    }
    Err(Unsupported(
        "/proc is not mounted here, and nothing can be seen without it: mount -t proc proc /proc"
            .into(),
    ))
}

/// This process's number, as /proc tells it: that of the PID namespace which /proc was mounted in.
fn own_number() -> u32 {
    let link = readlinkat(CWD, c"/proc/self", Vec::new());
    let number = link.ok().and_then(|link| number(link.to_bytes()));
    number.unwrap_or_else(std::process::id)
}

/// Looks after which it is found out again what a process is: it can become another program.
const LOOKS_PER_DESCRIPTION: u32 = 8;

impl KnownProcesses {
    /// Keeps so many files open at most.
    pub fn at_most(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Looks at all processes but this one.
    ///
    /// # Errors
    /// Where there is no /proc.
    pub fn look(&mut self) -> Result<Census, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(CWD, c"/proc", flags, Mode::empty())?;
        self.looks += 1;
        let census = look_at(proc.as_fd(), own_number(), self)?;
        let looks = self.looks;
        self.processes.retain(|_, kept| kept.seen == looks);
        Ok(census)
    }

    /// Files that are open.
    pub fn files(&self) -> usize {
        self.processes.len() * FILES
    }
}

/// The time since boot in the unit of proc_pid_stat(5), time in which the machine was suspended included.
fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = procfs::ticks_per_second();
    now.tv_sec as u64 * ticks + now.tv_nsec as u64 * ticks / 1_000_000_000
}

/// What is gathered while processes are walked.
struct Walk<'a> {
    known: &'a mut KnownProcesses,
    census: Census,
    by_identity: HashMap<PipeIdentity, usize>,
    uid: u32,
    /// The file system of pipes without a name, once one was met.
    pipefs: Option<u64>,
}

/// Where names of directories are read to.
type Names = [MaybeUninit<u8>; 8192];

fn look_at(proc: BorrowedFd<'_>, but: u32, known: &mut KnownProcesses) -> Result<Census, Errno> {
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
    /// Adds the pipes of one process, which may vanish at any moment.
    ///
    /// # Errors
    /// Where this process may open no more files, and would see less than there is.
    fn process(&mut self, proc: BorrowedFd<'_>, pid: u32, buffer: &mut Names) -> Result<(), Errno> {
        if let Some(mut kept) = self.known.processes.remove(&pid)
            && self.ends(pid, &mut kept, buffer).is_ok()
        {
            kept.seen = self.known.looks;
            self.known.processes.insert(pid, kept);
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fds = match openat(proc, format!("{pid}/fd"), flags, Mode::empty()) {
            Ok(fds) => fds,
            Err(Errno::ACCESS | Errno::PERM) => return self.closed(proc, pid),
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
            seen: self.known.looks,
        };
        match self.ends(pid, &mut kept, buffer) {
            Ok(()) if may_be_kept => {
                self.known.processes.insert(pid, kept);
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(errno) => unless_short_of_files(errno),
        }
    }

    /// Finds out which of these fds are of pipes, and adds them.
    fn ends(&mut self, pid: u32, kept: &mut Kept, buffer: &mut Names) -> Result<(), Errno> {
        let schedule = kept.schedule.as_ref().and_then(schedule);
        let is_due = self.known.looks >= kept.due;
        if is_due || schedule.is_none() || schedule != kept.slept_at {
            kept.slept_at = schedule.filter(|_| has_one_thread(kept.fds.as_fd()));
            self.walk(kept, is_due, buffer)?;
        }
        if kept.ends.iter().all(End::is_none) {
            if is_due {
                kept.due = self.known.looks + LOOKS_PER_DESCRIPTION;
            }
            return Ok(());
        }
        if is_due || kept.process.is_none() {
            // A new one is often about to become another program.
            let until = match kept.process {
                None => 1,
                Some(_) => LOOKS_PER_DESCRIPTION,
            };
            kept.process = Some(describe(kept.fds.as_fd(), pid)?);
            kept.due = self.known.looks + until;
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

    /// Finds its fds of pipes.
    fn walk(&mut self, kept: &mut Kept, is_due: bool, buffer: &mut Names) -> Result<(), Errno> {
        let mut looked_at = 0;
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
            if looked_at > MOST_FDS {
                self.census.unseen.too_many_fds += 1;
                // It is counted at each look.
                kept.slept_at = None;
                break;
            }
            let Some((identity, owner)) = pipe_at(fds, name) else {
                continue;
            };
            // Both come by number.
            while before.next_if(|end| end.fd < fd).is_some() {}
            let known = before.next_if(|end| (end.fd, end.identity) == (fd, identity));
            // A FIFO can have been opened again for the other side.
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

    /// The path of a FIFO; `None` for a pipe, which shows as `pipe:[inode]` (`pipefs_dname`, fs/pipe.c) and
    /// lies on a file system where there is nothing else.
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

    /// Counts a process that may not be looked into, unless it is the kernel's own.
    fn closed(&mut self, proc: BorrowedFd<'_>, pid: u32) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = match openat(proc, pid.to_string(), flags, Mode::empty()) {
            Ok(process) => process,
            Err(errno) => return unless_short_of_files(errno),
        };
        let process = process.as_fd();
        let mut buffer = [0; 1024];
        let unseen = &mut self.census.unseen;
        match read_file(process, c"stat", &mut buffer).map(Stat::parse) {
            Ok(Some(stat)) if stat.is_of_kernel => {}
            // The owner of its directory is root for one of this user's that may not be dumped.
            Ok(_) if effective_uid(process) == Some(self.uid) => unseen.of_this_user += 1,
            Ok(_) | Err(Errno::ACCESS | Errno::PERM) => unseen.of_others += 1,
            Err(errno) => return unless_short_of_files(errno),
        }
        Ok(())
    }
}

impl End {
    /// Of O_PATH: a name for a pipe, and no end of it.
    fn is_none(&self) -> bool {
        !self.reads && !self.writes
    }
}

/// That something cannot be opened is no error where it is because a process has gone; it is where this one
/// may have no more files.
fn unless_short_of_files(errno: Errno) -> Result<(), Errno> {
    match errno {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Err(errno),
        _ => Ok(()),
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

/// Which pipe an fd leads to, and whose it is; `None` where it is none. A file server is not asked, which
/// may never answer.
fn pipe_at(fds: BorrowedFd<'_>, fd: &CStr) -> Option<(PipeIdentity, u32)> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::UID;
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let stat = statx(fds, fd, flags, wanted).ok()?;
    let is_pipe = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Fifo;
    is_pipe.then(|| {
        let identity = PipeIdentity {
            device: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
        };
        (identity, stat.stx_uid)
    })
}

/// What is said of a thread's time on CPUs, if it is there still (`proc_pid_schedstat`, fs/proc/base.c).
fn schedule(file: &OwnedFd) -> Option<Schedule> {
    let mut said = [0; 64];
    let length = rustix::io::pread(file, &mut said, 0).ok()?;
    Some((said, length))
}

/// Whether the process that these are the fds of has no other thread: each is a link more of the directory
/// (`proc_task_getattr`, fs/proc/base.c), besides the usual two.
fn has_one_thread(fds: BorrowedFd<'_>) -> bool {
    statat(fds, c"../task", AtFlags::empty()).is_ok_and(|stat| stat.st_nlink == 3)
}

/// Whether an fd reads, and whether it writes.
fn mode_of(fds: BorrowedFd<'_>, fd: &CStr) -> Option<(bool, bool)> {
    let mode = Mode::from_raw_mode(statat(fds, fd, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode);
    Some((mode.contains(Mode::RUSR), mode.contains(Mode::WUSR)))
}

/// Reads what the process is that these are the fds of.
fn describe(fds: BorrowedFd<'_>, pid: u32) -> Result<Process, Errno> {
    let mut buffer = [0; 1024];
    let stat = Stat::parse(read_file(fds, c"../stat", &mut buffer)?).ok_or(Errno::NOENT)?;
    let name = clean(&String::from_utf8_lossy(&stat.name));
    let command = words(fds).unwrap_or_else(|| format!("[{name}]"));
    Ok(Process {
        id: ProcessId {
            pid,
            start: stat.start,
        },
        parent: stat.parent,
        uid: statat(fds, c"..", AtFlags::empty())?.st_uid,
        name,
        command,
    })
}

/// Its command line; `None` for one that has none: a zombie, or the kernel's.
fn words(fds: BorrowedFd<'_>) -> Option<String> {
    let mut buffer = [0; MOST_OF_COMMAND];
    let read = read_file(fds, c"../cmdline", &mut buffer).ok()?;
    let words: Vec<_> = read
        .strip_suffix(&[0])
        .unwrap_or(read)
        .split(|&byte| byte == 0)
        .map(String::from_utf8_lossy)
        .collect();
    let text = clean(&words.join(" "));
    (!text.trim().is_empty()).then_some(text)
}

/// What matters of /proc/PID/stat (proc_pid_stat(5)).
struct Stat {
    name: Vec<u8>,
    parent: u32,
    start: u64,
    is_of_kernel: bool,
}

impl Stat {
    /// A name may hold spaces and brackets; what follows the last bracket is numbers.
    fn parse(text: &[u8]) -> Option<Self> {
        /// `include/linux/sched.h`
        const PF_KTHREAD: u64 = 0x0020_0000;
        let opens = text.iter().position(|&byte| byte == b'(')?;
        let closes = text.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(text.get(closes + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            name: text.get(opens + 1..closes)?.to_vec(),
            parent: fields.get(1)?.parse().ok()?,
            is_of_kernel: fields.get(6)?.parse::<u64>().ok()? & PF_KTHREAD != 0,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Whose a process is, also where its directory is root's.
fn effective_uid(process: BorrowedFd<'_>) -> Option<u32> {
    let mut buffer = [0; 1024];
    let read = read_file(process, c"status", &mut buffer).ok()?;
    let text = String::from_utf8_lossy(read);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether /proc shows this user no process of others, the first of all among them.
fn hides_others(proc: BorrowedFd<'_>) -> bool {
    statat(proc, c"1", AtFlags::empty()).err() == Some(Errno::NOENT)
}

fn read_file<'a>(
    process: BorrowedFd<'_>,
    name: &CStr,
    buffer: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    let read = rustix::io::read(open(process, name)?, &mut *buffer)?;
    Ok(&buffer[..read])
}

fn open(process: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    openat(process, name, flags, Mode::empty())
}

fn number(name: &[u8]) -> Option<u32> {
    name.first().filter(|byte| byte.is_ascii_digit())?;
    std::str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::super::chains::{Flow, PipeKind};
    use super::super::link::Fill;
    use super::*;

    /// A process that is ended with the test.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Running {
        fn sleep(stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Self {
            Self::start(Command::new("sleep").arg("60").stdin(stdin).stdout(stdout))
        }

        fn start(command: &mut Command) -> Self {
            let child = command.spawn().unwrap();
            // What it was given is not to stay open here.
            command.stdin(Stdio::null()).stdout(Stdio::null());
            Self(child)
        }
    }

    /// The pipe that a process has as this fd, once it has it, and nobody else but `others` has it: what
    /// another test starts has it too until it becomes another program.
    fn pipe_of(child: &Running, fd: i32, others: usize) -> (Census, Pipe) {
        let began = Instant::now();
        loop {
            let census = Census::look().unwrap();
            let process = census.process(child.0.id());
            let found = census.pipes.iter().find(|pipe| {
                pipe.holders.len() == 1 + others
                    && pipe.holders.iter().any(|holder| {
                        Some(holder.process) == process
                            && (holder.reads == Some(fd) || holder.writes == Some(fd))
                    })
            });
            if let Some(found) = found.cloned() {
                return (census, found);
            }
            assert!(began.elapsed() < Duration::from_secs(60), "not seen");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_pipeline_is_seen_with_who_writes_and_who_reads() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[0; 5000]).unwrap();
        let mine = writer.as_fd().as_raw_fd();
        let handle = openat(
            CWD,
            format!("/proc/self/fd/{mine}"),
            OFlags::PATH,
            Mode::empty(),
        )
        .unwrap();
        let draining = Running::sleep(reader, Stdio::null());
        // With a name for the pipe, which is no end of it.
        let feeding = Running::sleep(handle, writer);
        let (census, pipe) = pipe_of(&feeding, 1, 1);
        let pids = |holders: Vec<&Holder>| -> Vec<u32> {
            let id = |holder: &&Holder| census.processes[holder.process].id.pid;
            holders.iter().map(id).collect()
        };
        assert_eq!(pids(pipe.writers().collect()), [feeding.0.id()]);
        assert_eq!(pids(pipe.readers().collect()), [draining.0.id()]);
        assert_eq!(pipe.kind(), PipeKind::Link);
        assert!(!pipe.is_named());
        let process = &census.processes[census.process(feeding.0.id()).unwrap()];
        assert_eq!(
            (process.name.as_str(), process.command.as_str()),
            ("sleep", "sleep 60")
        );
        assert_eq!(process.parent, std::process::id());
        let handle = census.handle(&pipe).unwrap();
        let fill = Fill::of(handle.as_fd()).unwrap();
        assert_eq!(fill.queued, 5000);
        assert!(fill.capacity >= 5000);
        let index = census.pipes.iter().position(|one| *one == pipe).unwrap();
        assert!(
            Flow::new(&census)
                .chains()
                .iter()
                .any(|chain| chain.pipes == [index])
        );
    }

    #[test]
    fn names_that_a_terminal_would_obey_are_shown_harmless() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("f\n\u{1b}]0;x\u{7}\u{2067}");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        // A script's process is called as the script is.
        let script = directory.path().join("a\n\u{1b}[2J\u{202e}b) R 1");
        std::fs::write(&script, "#!/bin/sh\nread line\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = Command::new(&script);
        let both = std::fs::File::options().read(true).write(true).open(&fifo);
        command.arg("\u{1b}[31m\n\u{202e}").stdin(both.unwrap());
        let child = loop {
            match command.spawn() {
                // A child that another test has just started still has the script open.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                child => break Running(child.unwrap()),
            }
        };
        let (census, pipe) = pipe_of(&child, 0, 0);
        let process = &census.processes[census.process(child.0.id()).unwrap()];
        assert_eq!(process.name, "a??[2J\u{fffd}b) R 1");
        assert_eq!(process.id.pid, child.0.id());
        assert!(
            process.command.ends_with(" ?[31m?\u{fffd}"),
            "{}",
            process.command
        );
        let name = pipe.name.as_deref().unwrap();
        assert!(name.ends_with("/f??]0;x?\u{fffd}"), "{name}");
        assert_eq!(pipe.kind(), PipeKind::Own);
    }

    #[test]
    fn who_has_slept_is_as_before_and_who_has_run_is_looked_at_again() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (stdin, mut orders) = std::io::pipe().unwrap();
        let script = "read a; exec 7>&1; read b; exec 7>&-; read c";
        let shell = Running::start(
            Command::new("sh")
                .args(["-c", script])
                .stdin(stdin)
                .stdout(writer),
        );
        let mut known = KnownProcesses::at_most(1 << 12);
        let fds = |known: &mut KnownProcesses| -> Vec<(i32, bool)> {
            let census = known.look().unwrap();
            let Some(process) = census.process(shell.0.id()) else {
                return Vec::new();
            };
            let ends = known.processes[&shell.0.id()].ends.iter();
            let ends: Vec<_> = ends.map(|end| (end.fd as i32, end.writes)).collect();
            // What is kept is what the census has.
            for holder in census.pipes.iter().flat_map(|pipe| &pipe.holders) {
                assert!(
                    holder.process != process || ends.iter().any(|end| end.0 == holder.any_fd())
                );
            }
            ends
        };
        let until = |known: &mut KnownProcesses, expected: &[(i32, bool)]| {
            let began = Instant::now();
            // Longer than it takes until everything is found out again.
            for _ in 0..3 * LOOKS_PER_DESCRIPTION {
                while !expected.iter().all(|end| fds(known).contains(end)) {
                    assert!(
                        began.elapsed() < Duration::from_secs(60),
                        "{expected:?}: not seen"
                    );
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            fds(known)
        };
        until(&mut known, &[(0, false), (1, true)]);
        orders.write_all(b"\n").unwrap();
        until(&mut known, &[(0, false), (1, true), (7, true)]);
        orders.write_all(b"\n").unwrap();
        let began = Instant::now();
        while until(&mut known, &[(0, false), (1, true)]).contains(&(7, true)) {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "7 is still there"
            );
        }
        drop(reader);
    }

    #[test]
    fn pipelines_that_come_and_go_under_looks_end_as_they_would_without() {
        let done = AtomicBool::new(false);
        let shell = |script: &str| Command::new("sh").args(["-c", script]).output().unwrap();
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut filled = 0;
                while !done.load(Ordering::Relaxed) {
                    let census = Census::look().unwrap();
                    for pipe in census
                        .pipes
                        .iter()
                        .filter(|pipe| pipe.kind() == PipeKind::Link)
                    {
                        let handle = census.handle(pipe);
                        let fill = handle.and_then(|handle| Fill::of(handle.as_fd()));
                        filled += usize::from(fill.is_ok());
                    }
                }
                filled
            });
            for _ in 0..100 {
                // The end of the file comes, and all that was before it.
                let counted = shell("head -c 300000 /dev/zero | cat | wc -c");
                assert_eq!(counted.stdout.trim_ascii(), b"300000");
                // A writer dies of SIGPIPE, and is not told too late to.
                let mut yes = Command::new("yes");
                let (reader, writer) = std::io::pipe().unwrap();
                let mut writing = yes.stdout(writer).spawn().unwrap();
                yes.stdout(Stdio::null());
                let head = Command::new("head")
                    .arg("-n1")
                    .stdin(reader)
                    .output()
                    .unwrap();
                assert_eq!(head.stdout, b"y\n");
                let status = writing.wait().unwrap();
                assert_eq!(status.signal(), Some(13), "{status}");
            }
            done.store(true, Ordering::Relaxed);
            assert!(looking.join().unwrap() > 0);
        });
    }
}

//! What single files below /proc say: about a process, and about one of its fds.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use fullbore::pipe::PipeIdentity;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, makedev, openat, readlinkat, statat, statx,
};
use rustix::io::Errno;

use fullbore_host::refusal::Unsupported;
use fullbore_host::text::clean;

use super::census::{Process, ProcessId};

/// Bytes of a command line that are read.
const MOST_OF_COMMAND: usize = 4096;

/// What a file of /proc says of a thread's time on CPUs.
pub type Schedule = ([u8; 64], usize);

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
pub fn own_number() -> u32 {
    let link = readlinkat(CWD, c"/proc/self", Vec::new());
    let number = link.ok().and_then(|link| number(link.to_bytes()));
    number.unwrap_or_else(std::process::id)
}

/// The time since boot in the unit of proc_pid_stat(5), time in which the machine was suspended included.
pub fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = procfs::ticks_per_second();
    now.tv_sec as u64 * ticks + now.tv_nsec as u64 * ticks / 1_000_000_000
}

/// Which pipe an fd leads to, and whose it is; `None` where it is none. A file server is not asked, which
/// may never answer.
pub fn pipe_at(fds: BorrowedFd<'_>, fd: &CStr) -> Option<(PipeIdentity, u32)> {
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
pub fn schedule(file: &OwnedFd) -> Option<Schedule> {
    let mut said = [0; 64];
    let length = rustix::io::pread(file, &mut said, 0).ok()?;
    Some((said, length))
}

/// Whether the process that these are the fds of has no other thread: each is a link more of the directory
/// (`proc_task_getattr`, fs/proc/base.c), besides the usual two.
pub fn has_one_thread(fds: BorrowedFd<'_>) -> bool {
    statat(fds, c"../task", AtFlags::empty()).is_ok_and(|stat| stat.st_nlink == 3)
}

/// Whether an fd reads, and whether it writes.
pub fn mode_of(fds: BorrowedFd<'_>, fd: &CStr) -> Option<(bool, bool)> {
    let mode = Mode::from_raw_mode(statat(fds, fd, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode);
    Some((mode.contains(Mode::RUSR), mode.contains(Mode::WUSR)))
}

/// Reads what the process is that these are the fds of.
pub fn describe(fds: BorrowedFd<'_>, pid: u32) -> Result<Process, Errno> {
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
pub fn words(fds: BorrowedFd<'_>) -> Option<String> {
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
pub struct Stat {
    name: Vec<u8>,
    parent: u32,
    start: u64,
    pub is_of_kernel: bool,
}

impl Stat {
    /// Reads it. A name may hold spaces and brackets; what follows the last bracket is numbers.
    pub fn parse(text: &[u8]) -> Option<Self> {
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
pub fn effective_uid(process: BorrowedFd<'_>) -> Option<u32> {
    let mut buffer = [0; 1024];
    let read = read_file(process, c"status", &mut buffer).ok()?;
    let text = String::from_utf8_lossy(read);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether /proc shows this user no process of others, the first of all among them.
pub fn hides_others(proc: BorrowedFd<'_>) -> bool {
    statat(proc, c"1", AtFlags::empty()).err() == Some(Errno::NOENT)
}

pub fn read_file<'a>(
    process: BorrowedFd<'_>,
    name: &CStr,
    buffer: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    let read = rustix::io::read(open(process, name)?, &mut *buffer)?;
    Ok(&buffer[..read])
}

pub fn open(process: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    openat(process, name, flags, Mode::empty())
}

pub fn number(name: &[u8]) -> Option<u32> {
    name.first().filter(|byte| byte.is_ascii_digit())?;
    std::str::from_utf8(name).ok()?.parse().ok()
}

//! Reads single files below /proc: about a process, and about one of its fds.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};

use fullbore_linux::PipeIdentity;
use procfs::FromRead;
use procfs::process::{Stat, StatFlags};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, makedev, openat, readlinkat, statat, statx,
};
use rustix::io::Errno;

use fullbore_host::machine::field;
use fullbore_host::proc::{self, Need};
use fullbore_host::refusal::Unsupported;
use fullbore_host::text::{clean, one_line};

use crate::census::{Process, ProcessId};

/// The most columns of a command line that are shown.
pub(crate) const MOST_OF_COMMAND: usize = 200;

/// The contents of the /proc file about a thread's time on CPUs.
pub type Schedule = ([u8; 64], usize);

/// Checks that proc(5) is mounted at /proc.
pub fn needs_proc() -> Result<(), Unsupported> {
    proc::check(Need::Mounted, "nothing can be seen without it")
}

/// Returns the id of this process in the PID namespace that /proc was mounted in.
pub fn own_number() -> u32 {
    let link = readlinkat(CWD, c"/proc/self", Vec::new());
    let number = link.ok().and_then(|link| number(link.to_bytes()));
    number.unwrap_or_else(std::process::id)
}

/// Returns the time since boot in the unit of proc_pid_stat(5), including the time in which the machine
/// was suspended.
pub fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = procfs::ticks_per_second();
    now.tv_sec as u64 * ticks + now.tv_nsec as u64 * ticks / 1_000_000_000
}

/// Returns the pipe that an fd refers to, and its owner; `None` if it is not a pipe. This never contacts
/// a file server, which might not answer.
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

/// Returns the /proc file about a thread's time on CPUs, if the thread still exists
/// (`proc_pid_schedstat`, fs/proc/base.c).
pub fn schedule(file: &OwnedFd) -> Option<Schedule> {
    let mut said = [0; 64];
    let length = rustix::io::pread(file, &mut said, 0).ok()?;
    Some((said, length))
}

/// Returns whether the process with these fds has only one thread. The link count of the directory of
/// threads is two plus the number of threads (`proc_task_getattr`, fs/proc/base.c).
pub fn has_one_thread(fds: BorrowedFd<'_>) -> bool {
    statat(fds, c"../task", AtFlags::empty()).is_ok_and(|stat| stat.st_nlink == 3)
}

/// Returns whether an fd can be read from, and whether it can be written to.
pub fn mode_of(fds: BorrowedFd<'_>, fd: &CStr) -> Option<(bool, bool)> {
    let mode = Mode::from_raw_mode(statat(fds, fd, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode);
    Some((mode.contains(Mode::RUSR), mode.contains(Mode::WUSR)))
}

/// Reads the description of the process with these fds.
pub fn describe(fds: BorrowedFd<'_>, pid: u32) -> Result<Process, Errno> {
    let mut buffer = [0; 1024];
    // These are the fds of another thread than the first one, if that has ended.
    let first = CString::new(format!("../task/{pid}/stat")).map_err(|_| Errno::INVAL)?;
    let stat = Stat::from_read(read_file(fds, &first, &mut buffer)?).map_err(|_| Errno::NOENT)?;
    let name = clean(&stat.comm);
    let command = words(fds).unwrap_or_else(|| format!("[{name}]"));
    Ok(Process {
        id: ProcessId {
            pid,
            start: stat.starttime,
        },
        parent: stat.ppid.max(0) as u32,
        uid: statat(fds, c"..", AtFlags::empty())?.st_uid,
        name,
        command,
    })
}

/// Returns its command line; `None` for a process without one: a zombie, or a kernel thread.
pub fn words(fds: BorrowedFd<'_>) -> Option<String> {
    let mut buffer = [0; 4096];
    let read = read_file(fds, c"../cmdline", &mut buffer).ok()?;
    let words: Vec<_> = read
        .strip_suffix(&[0])
        .unwrap_or(read)
        .split(|&byte| byte == 0)
        .map(String::from_utf8_lossy)
        .collect();
    let text = one_line(&clean(&words.join(" ")), MOST_OF_COMMAND);
    (!text.trim().is_empty()).then_some(text)
}

/// Returns whether a process can have no fds: it is a kernel thread, or all its threads have ended.
pub fn has_no_fds(process: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut buffer = [0; 1024];
    let stat = Stat::from_read(read_file(process, c"stat", &mut buffer)?);
    Ok(stat.is_ok_and(|stat| {
        let is_zombie = stat.state == 'Z' && stat.num_threads == 1;
        is_zombie || StatFlags::from_bits_retain(stat.flags).contains(StatFlags::PF_KTHREAD)
    }))
}

/// Returns the effective user of a process, even if root owns its directory.
pub fn effective_uid(process: BorrowedFd<'_>) -> Option<u32> {
    let mut buffer = [0; 1024];
    let read = read_file(process, c"status", &mut buffer).ok()?;
    let text = String::from_utf8_lossy(read);
    field(&text, "Uid")?.split_whitespace().nth(1)?.parse().ok()
}

/// Returns whether /proc hides the processes of other users, among them process 1.
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

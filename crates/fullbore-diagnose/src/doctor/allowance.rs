//! Estimates how much of a user's allowance for pipes is in use: the pages of all pipes that the user made,
//! which the kernel counts and does not report (`account_pipe_buffers`, fs/pipe.c).
//!
//! The sum is therefore computed in user space, over the fds of all processes that are visible. A pipe
//! belongs to the user who made it, who is the owner of its inode. Its capacity is only available to
//! processes that have it open, and fdinfo does not contain it: so each pipe is opened, without blocking,
//! until its capacity has been read. It is opened for writing and never for reading: another reader could keep
//! a writer from learning that its last reader has gone, while another writer only delays the end of file for
//! some microseconds.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fullbore_linux::{live_thread, page_size};
use fullbore_observe::census::link::Fill;
use fullbore_results::doctor::Allowance;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, makedev};

/// The time after which the scan ends, even if it is incomplete.
const PATIENCE: Duration = Duration::from_secs(2);

/// The major and the minor number of a device, and an inode on it.
type Id = (u32, u32, u64);

/// The capacities in bytes; `None` for a pipe that could not be opened.
type Capacities = BTreeMap<Id, Option<u64>>;

/// Scans all processes under /proc.
pub fn read() -> Allowance {
    read_at(Path::new("/proc"), rustix::process::geteuid().as_raw())
}

fn read_at(proc: &Path, uid: u32) -> Allowance {
    let mut found = Allowance {
        uid,
        ..Allowance::default()
    };
    let began = Instant::now();
    // A pipe is usually open in several processes.
    let mut capacities = Capacities::new();
    for process in fs::read_dir(proc).into_iter().flatten().flatten() {
        let name = process.file_name();
        let Some(thread) = name
            .to_str()
            .and_then(|name| live_thread(name.parse().ok()?))
        else {
            continue;
        };
        if began.elapsed() > PATIENCE {
            found.cut_short = true;
            break;
        }
        let Ok(fds) = fs::read_dir(proc.join(format!("{thread}/fd"))) else {
            let is_ours = process.metadata().is_ok_and(|process| process.uid() == uid);
            found.processes_closed += usize::from(is_ours);
            continue;
        };
        found.processes_seen += 1;
        for fd in fds.flatten() {
            look_at_fd(&fd.path(), uid, &mut capacities);
        }
    }
    found.pipes = capacities.len();
    found.bytes = capacities.values().flatten().sum();
    found.pages = found.bytes / page_size() as u64;
    found.pipes_closed = capacities.values().filter(|seen| seen.is_none()).count();
    found
}

/// Formats the report for the terminal.
pub fn lines(allowance: &Allowance) -> Vec<String> {
    let Allowance {
        uid, pipes, pages, ..
    } = allowance;
    let of = match allowance.soft_limit {
        Some(0) => " (no limit)".into(),
        Some(limit) => format!(" of {limit} ({:.0}%)", *pages as f64 * 100.0 / limit as f64),
        None => String::new(),
    };
    let size = fullbore_host::size::format(allowance.bytes);
    let exempt = match allowance.exempt {
        true => "; the limit does not apply to this process",
        false => "",
    };
    let mut lines = vec![format!(
        "user {uid} has {pipes} pipes with a total capacity of {size}: {pages} \
         pages{of}{exempt}"
    )];
    let unseen: Vec<String> = [
        (
            allowance.processes_closed,
            "processes of this user may not be inspected",
        ),
        (
            allowance.pipes_closed,
            "pipes could not be opened and are not counted",
        ),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .chain(
        allowance
            .cut_short
            .then(|| "the scan was stopped after its time limit".into()),
    )
    .chain([
        "pipes of other PID namespaces, and those that are being passed over \
     sockets"
            .into(),
    ])
    .collect();
    lines.push(format!("not seen: {}", unseen.join("; ")));
    lines
}

/// Adds the capacity of this fd, if it is a pipe of the user that was not seen before.
fn look_at_fd(fd: &Path, uid: u32, capacities: &mut Capacities) {
    // This call follows the link, without opening its target, and without asking a file server that may never
    // answer.
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::UID;
    let Ok(stat) = rustix::fs::statx(CWD, fd, AtFlags::STATX_DONT_SYNC, wanted) else {
        return;
    };
    let is_pipe = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Fifo;
    let id = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
    if !is_pipe || stat.stx_uid != uid || capacities.get(&id).is_some_and(Option::is_some) {
        return;
    }
    let capacity = may_be_opened(fd).then(|| capacity_of(fd, id)).flatten();
    capacities.insert(id, capacity);
}

/// Returns the capacity of the pipe that this fd referred to. The fd may refer to another file by now, which
/// must not be opened: opening a device may have side effects.
fn capacity_of(fd: &Path, (major, minor, inode): Id) -> Option<u64> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(CWD, fd, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&handle).ok()?;
    if (stat.st_dev, stat.st_ino) != (makedev(major, minor), inode) {
        return None;
    }
    Some(Fill::of(handle.as_fd()).ok()?.capacity as u64)
}

/// Whether the pipe behind this fd can be opened for writing without an effect on other processes. A FIFO can
/// only while this fd is a write end: otherwise a process that waits for a writer in open(2) would get one.
fn may_be_opened(fd: &Path) -> bool {
    let has_a_name = fs::read_link(fd).is_ok_and(|target| {
        let target = target.to_string_lossy();
        target.starts_with('/') && !target.starts_with("/proc/")
    });
    !has_a_name || is_write_end(fd).unwrap_or(false)
}

/// Whether the fd is open for writing (proc_pid_fdinfo(5), `flags`, in octal).
fn is_write_end(fd: &Path) -> Option<bool> {
    let info = fd.parent()?.parent()?.join("fdinfo").join(fd.file_name()?);
    let info = fs::read_to_string(info).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    let mode = OFlags::from_bits_retain(flags) & OFlags::RWMODE;
    Some(mode == OFlags::WRONLY || mode == OFlags::RDWR)
}

#[cfg(test)]
mod tests {
    use fullbore_linux::{Pipe, PipeEnd};
    use rustix::fs::{major, minor};

    use super::*;

    #[test]
    fn a_pipe_counts_once_however_often_it_is_open() {
        let uid = rustix::process::geteuid().as_raw();
        // This directory imitates a /proc of one process, with links to fds of this process.
        let proc = tempfile::tempdir().unwrap();
        let fds = proc.path().join("1/fd");
        fs::create_dir_all(&fds).unwrap();
        let link = |number: usize, fd: &dyn std::os::fd::AsRawFd| {
            let target = format!("/proc/self/fd/{}", fd.as_raw_fd());
            std::os::unix::fs::symlink(target, fds.join(number.to_string())).unwrap();
        };
        let pipe = Pipe::new().unwrap();
        let capacity = fullbore_linux::pipe::of(&pipe.reader)
            .unwrap()
            .unwrap()
            .capacity()
            .unwrap() as u64;
        link(0, &pipe.reader);
        link(1, &pipe.writer);
        link(2, &fs::File::open("/dev/null").unwrap());
        fs::write(proc.path().join("version"), "no process").unwrap();
        let found = read_at(proc.path(), uid);
        assert_eq!((found.pipes, found.bytes), (1, capacity));
        assert_eq!(found.pages, capacity / page_size() as u64);
        assert_eq!(found.processes_seen, 1);
        // For another user, the pipe does not count.
        assert_eq!(read_at(proc.path(), uid + 1).pipes, 0);
    }

    #[test]
    fn looking_at_a_pipe_leaves_its_ends_as_they_were() {
        let pipe = Pipe::new().unwrap();
        rustix::io::write(&pipe.writer, b"hello").unwrap();
        read();
        drop(pipe.writer);
        let mut came = [0; 16];
        assert_eq!(rustix::io::read(&pipe.reader, &mut came), Ok(5));
        assert_eq!(rustix::io::read(&pipe.reader, &mut came), Ok(0));
    }

    #[test]
    fn a_pipe_that_has_taken_the_place_of_another_is_not_opened() {
        use std::os::fd::AsRawFd;
        let (pipe, other) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let path = |pipe: &Pipe| format!("/proc/self/fd/{}", pipe.reader.as_raw_fd());
        let stat = rustix::fs::fstat(&pipe.reader).unwrap();
        let id = (major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
        let capacity = PipeEnd::new(pipe.reader.as_fd()).unwrap().capacity();
        let found = capacity_of(Path::new(&path(&pipe)), id);
        assert_eq!(found, Some(capacity.unwrap() as u64));
        assert_eq!(capacity_of(Path::new(&path(&other)), id), None);
        assert_eq!(capacity_of(Path::new("/dev/null"), id), None);
    }

    #[test]
    fn a_fifo_is_opened_only_through_an_fd_that_is_open_for_writing() {
        use std::os::fd::AsRawFd;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let both = fs::File::options().read(true).write(true).open(&path);
        let both = both.unwrap();
        let reader = fs::File::open(&path).unwrap();
        let pipe = Pipe::new().unwrap();
        let may_be = |fd: &dyn AsRawFd| {
            may_be_opened(Path::new(&format!("/proc/self/fd/{}", fd.as_raw_fd())))
        };
        assert!(may_be(&both) && !may_be(&reader));
        assert!(may_be(&pipe.reader) && may_be(&pipe.writer));
    }

    #[test]
    fn what_is_used_is_said_beside_what_is_allowed() {
        let some = Allowance {
            uid: 1000,
            pipes: 3,
            bytes: 3 << 16,
            pages: 48,
            soft_limit: Some(16384),
            ..Allowance::default()
        };
        let lines = lines(&some);
        assert_eq!(
            lines[0],
            "user 1000 has 3 pipes with a total capacity of 192 KiB: 48 pages of 16384 (0%)"
        );
        assert!(lines[1].starts_with("not seen: pipes of other PID namespaces"));
    }
}

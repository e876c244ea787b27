//! Tries what one process can read about another, and where it can run.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use anyhow::Result;
use fullbore::Pipe;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::attempt::{BYTES, Given, Stop, Target, at, io_at, pattern, read_back};

/// A pipe that holds a pattern for another process to read.
pub(super) struct Held(Pipe);

impl Held {
    pub fn new() -> Result<Self> {
        let pipe = Pipe::new()?;
        // A user with too many pipes gets pipes with one slot (pipe(7)).
        let room = fullbore_linux::pipe::of(&pipe.writer)?.map_or(Ok(0), |end| end.capacity())?;
        rustix::io::write(&pipe.writer, &pattern(held_bytes(room)))?;
        Ok(Self(pipe))
    }

    pub fn target(&self) -> Target {
        Target {
            pid: std::process::id(),
            fd: self.0.reader.as_raw_fd(),
        }
    }
}

fn held_bytes(capacity: usize) -> usize {
    BYTES.min(capacity)
}

/// Reads the pattern from the fd that was obtained from the other process.
fn check(taken: &OwnedFd) -> Result<String, Stop> {
    let end =
        fullbore_linux::pipe::of(taken)?.ok_or_else(|| Stop::Wrong("it is not a pipe".into()))?;
    let (queued, capacity) = (end.queued()?, end.capacity()?);
    let sent = pattern(held_bytes(capacity));
    if queued != sent.len() {
        let expected = sent.len();
        return Err(Stop::Wrong(format!(
            "{queued} bytes are in it, not {expected}"
        )));
    }
    read_back(taken, &sent)?;
    Ok(format!("{queued} bytes in a pipe of another process"))
}

fn target(given: &Given) -> Result<Target, Stop> {
    given
        .target
        .ok_or_else(|| Stop::NotTried("there is no process to inspect".into()))
}

pub(super) fn own_fds(given: &Given) -> Result<String, Stop> {
    let Target { pid, fd } = target(given)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let taken = rustix::fs::open(format!("/proc/{pid}/fd/{fd}"), flags, Mode::empty())
        .map_err(at("open /proc/PID/fd/N"))?;
    check(&taken)
}

pub(super) fn pidfd(given: &Given) -> Result<String, Stop> {
    let Target { pid, fd } = target(given)?;
    let pid = Pid::from_raw(pid as i32).ok_or_else(|| Stop::NotTried("no pid".into()))?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(at("pidfd_open"))?;
    let taken = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).map_err(at("pidfd_getfd"))?;
    check(&taken)
}

/// Lists the fds of a process of another user, if there is such a process.
pub(super) fn others_fds(_: &Given) -> Result<String, Stop> {
    let me = rustix::process::geteuid().as_raw();
    let mut refused = None;
    for entry in fs::read_dir("/proc")
        .map_err(io_at("read /proc"))?
        .flatten()
    {
        let is_process = entry.file_name().to_string_lossy().parse::<u32>().is_ok();
        let is_anothers = entry.metadata().is_ok_and(|process| process.uid() != me);
        if !is_process || !is_anothers {
            continue;
        }
        match fs::read_dir(entry.path().join("fd")) {
            Ok(fds) => {
                let user = entry.metadata().map_or(0, |process| process.uid());
                let fds = fds.count();
                return Ok(format!("{fds} fds of a process of user {user}"));
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error()) => {
                // The process has ended in the meantime.
            }
            Err(error) => refused = Some(io_at("open /proc/PID/fd")(error)),
        }
    }
    Err(refused.unwrap_or_else(|| Stop::NotTried("no process of another user is visible".into())))
}

pub(super) fn pinning(_: &Given) -> Result<String, Stop> {
    let allowed = sched_getaffinity(None).map_err(at("sched_getaffinity"))?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect();
    let ends = [cpus.first(), cpus.last()];
    for &cpu in ends.into_iter().flatten() {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).map_err(at("sched_setaffinity"))?;
        let runs_on = sched_getcpu();
        if runs_on != cpu {
            return Err(Stop::seen(
                "sched_setaffinity",
                format!("pinned to CPU {cpu}, but running on CPU {runs_on}"),
            ));
        }
    }
    let cpus = fullbore_host::machine::format_cpu_list(&cpus);
    Ok(format!("ran on the first and the last of CPUs {cpus}"))
}

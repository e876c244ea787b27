//! How the writers of a pipe send their bytes: what is known about the program, and if nothing is known,
//! what it is seen to do.
//!
//! The kernel shows which call a thread is in, and on which fd (proc_pid_syscall(5)). A writer whose pipe
//! is full waits in that call. If it is found in several different write(2) calls for that pipe, and never
//! in vmsplice(2), it sends by writing. If it is found in vmsplice(2) once, it gives pages of its own. A
//! writer that never waits for its pipe is not seen in either call, and nothing is concluded.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_linux::PipeIdentity;
use fullbore_linux::{live_thread, proc_directory};
use nix::libc;
use procfs::process::Process;
use rustix::fs::{CWD, Mode, OFlags, openat, stat};
use rustix::io::Errno;

use super::producers::{self, Sends};
use crate::census::descendants::descendants;
use crate::census::{Census, Holder, Pipe};
use crate::sampling::process::THREADS;
use crate::sampling::process_files::call;

/// How long an unknown program is sampled, and the interval.
const TIME: Duration = Duration::from_millis(400);
const INTERVAL: Duration = Duration::from_millis(4);

/// The number of different write(2) calls that it has to be found in.
const ENOUGH: usize = 2;

/// A writer and how it sends.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    /// Index into [`Census::processes`].
    pub process: usize,
    /// How it sends.
    pub sends: Sends,
}

/// The writers of one pipe, the least safe first; empty if no writer is seen.
pub type Writers = Vec<Writer>;

/// Determines how the writers of these pipes send; the pipes are given as indices into
/// [`Census::pipes`].
pub fn gather(census: &Census, pipes: &[usize]) -> BTreeMap<usize, Writers> {
    let mut all: BTreeMap<usize, Writers> = BTreeMap::new();
    let mut unknown = Vec::new();
    for &index in pipes {
        let pipe = &census.pipes[index];
        let writers = pipe.holders.iter().filter(|holder| holder.writes.is_some());
        let judged = writers.map(|holder| {
            let process = holder.process;
            let pid = census.processes[process].id.pid;
            let sends = known(pid).unwrap_or_else(|| {
                unknown.push(ObservedWriter::new(pid, index, pipe, census));
                Sends::Unknown("it is unknown")
            });
            Writer { process, sends }
        });
        all.insert(index, judged.collect());
    }
    observe(&mut unknown);
    for observed in unknown {
        let sends = observed.conclude();
        let writers = all.get_mut(&observed.index).into_iter().flatten();
        for writer in writers.filter(|one| census.processes[one.process].id.pid == observed.pid) {
            writer.sends = sends;
        }
    }
    for writers in all.values_mut() {
        for writer in writers.iter_mut() {
            if matches!(writer.sends, Sends::Safely(_))
                && has_strangers_below(census.processes[writer.process].id.pid)
            {
                writer.sends = Sends::Unknown("it started a process of another user");
            }
        }
        writers.sort_by_key(|writer| match writer.sends {
            Sends::Pages(_) => 0,
            Sends::Unknown(_) => 1,
            Sends::Safely(_) => 2,
        });
    }
    all
}

fn known(pid: u32) -> Option<Sends> {
    let process = Process::new(live_thread(pid)? as i32).ok()?;
    let executable = process.exe().ok()?;
    let words = process.cmdline().unwrap_or_default();
    producers::known(executable.to_str()?, &words)
}

/// Returns whether a descendant, which may have inherited the pipe, cannot be examined by this
/// user.
fn has_strangers_below(pid: u32) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    descendants(pid).into_iter().any(|pid| {
        let opened = openat(CWD, proc_directory(pid).join("fd"), flags, Mode::empty());
        matches!(opened, Err(Errno::ACCESS | Errno::PERM))
    })
}

/// One writer of one pipe that is being sampled.
struct ObservedWriter {
    pid: u32,
    /// The pipe.
    index: usize,
    identity: PipeIdentity,
    readers: Vec<u32>,
    /// The write(2) calls for this pipe that it was found in: the thread, and how many bytes that thread
    /// had written to any file by then. A call that a signal interrupted and that was restarted has not
    /// written any bytes.
    writing: BTreeSet<(i32, u64)>,
    hands_over: bool,
    passes_on: bool,
    is_closed: bool,
    /// Bytes that its readers had read, and that it had written, at the first and at the last
    /// sample.
    read: Option<(u64, u64)>,
    written: Option<(u64, u64)>,
}

fn observe(all: &mut [ObservedWriter]) {
    if all.is_empty() {
        return;
    }
    let began = Instant::now();
    while began.elapsed() < TIME && !all.iter().all(ObservedWriter::is_settled) {
        for one in &mut *all {
            one.once();
        }
        thread::sleep(INTERVAL);
    }
    for one in all {
        one.count();
    }
}

impl ObservedWriter {
    fn new(pid: u32, index: usize, pipe: &Pipe, census: &Census) -> Self {
        let readers = pipe.readers();
        let pid_of = |holder: &Holder| census.processes[holder.process].id.pid;
        let mut observed = Self {
            pid,
            index,
            identity: pipe.identity,
            readers: readers.map(pid_of).collect(),
            writing: BTreeSet::new(),
            hands_over: false,
            passes_on: false,
            is_closed: false,
            read: None,
            written: None,
        };
        observed.count();
        observed
    }

    /// Returns whether more samples cannot change the result.
    fn is_settled(&self) -> bool {
        self.hands_over || self.is_closed
    }

    fn once(&mut self) {
        let Ok(process) = Process::new(self.pid as i32) else {
            return;
        };
        for task in process
            .tasks()
            .into_iter()
            .flatten()
            .flatten()
            .take(THREADS)
        {
            let path = format!("/proc/{}/task/{}/syscall", self.pid, task.tid);
            // Only the bytes of this thread count, because the bytes of other threads say nothing
            // about its call.
            let written = || task.io().ok().map(|io| io.wchar);
            let before = written();
            match std::fs::read_to_string(path) {
                Ok(line) => {
                    // Bytes are counted at the end of a call (`vfs_write`, fs/read_write.c). If no call
                    // has ended in the meantime, the count belongs to the call that was seen.
                    let written = before.filter(|&before| written() == Some(before));
                    self.note(&line, written.map(|written| (task.tid, written)));
                }
                Err(error) => {
                    self.is_closed |= error.kind() == std::io::ErrorKind::PermissionDenied;
                }
            }
        }
    }

    /// Records the call that a thread is in; `which` identifies the call.
    fn note(&mut self, line: &str, which: Option<(i32, u64)>) {
        let (number, arguments) = call(line);
        let on = |at: usize| {
            let fd = arguments.get(at).map(|&fd| fd as i32);
            fd.is_some_and(|fd| self.is_of_this_pipe(fd))
        };
        match number as libc::c_long {
            libc::SYS_write | libc::SYS_writev | libc::SYS_pwritev2 if on(0) => {
                self.writing.extend(which);
            }
            libc::SYS_vmsplice if on(0) => self.hands_over = true,
            libc::SYS_splice if on(2) => self.passes_on = true,
            libc::SYS_tee if on(1) => self.passes_on = true,
            libc::SYS_sendfile if on(0) => self.passes_on = true,
            _ => {}
        }
    }

    fn is_of_this_pipe(&self, fd: i32) -> bool {
        stat(proc_directory(self.pid).join(format!("fd/{fd}"))).is_ok_and(|stat| {
            (stat.st_dev, stat.st_ino) == (self.identity.device, self.identity.inode)
        })
    }

    /// Records how much was read and written so far.
    fn count(&mut self) {
        let io = |pid: u32| Process::new(live_thread(pid)? as i32).ok()?.io().ok();
        let read: Option<u64> = self.readers.iter().map(|&pid| Some(io(pid)?.rchar)).sum();
        let since = |before: Option<(u64, u64)>, now: Option<u64>| {
            now.map(|now| (before.map_or(now, |(first, _)| first), now))
        };
        self.read = since(self.read, read);
        self.written = since(self.written, io(self.pid).map(|io| io.wchar));
    }

    fn conclude(&self) -> Sends {
        /// The bytes that may have been in the pipe before.
        const SLACK: u64 = 2 << 20;
        let grown =
            |count: Option<(u64, u64)>| count.map(|(first, last)| last.saturating_sub(first));
        let came_otherwise = match (grown(self.read), grown(self.written)) {
            (Some(read), Some(written)) => read > written + SLACK,
            _ => false,
        };
        if self.hands_over {
            Sends::Pages("it uses vmsplice(2), which passes its own pages")
        } else if self.passes_on {
            Sends::Unknown("it uses splice(2) or tee(2), with pages of unknown origin")
        } else if came_otherwise {
            Sends::Unknown("its readers received more than it wrote with write(2)")
        } else if self.writing.len() >= ENOUGH {
            Sends::Safely("it was observed only in write(2)")
        } else if !self.writing.is_empty() {
            Sends::Unknown("it is not in the table, and was observed in only one call of write(2)")
        } else if self.is_closed {
            Sends::Unknown("it is not in the table, and this user may not observe it")
        } else {
            Sends::Unknown("it is not in the table, and was not observed in write(2)")
        }
    }
}

//! How the writers of a pipe send their bytes, by what is known about their programs.

use fullbore_process::{live_thread, proc_directory};
use procfs::process::Process;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::producers::{self, Sends};
use super::report::JudgedWriter;
use crate::census::descendants::descendants;
use crate::census::{Census, Holder, Pipe, Process as Seen};

/// Determines how the writers of a pipe send, the least safe first; empty if no writer is seen.
pub fn gather(census: &Census, pipe: &Pipe) -> Vec<JudgedWriter> {
    let judged = |writer: &Holder| judged(&census.processes[writer.process]);
    let all = (pipe.holders.iter()).filter(|holder| holder.writes.is_some());
    let mut writers: Vec<JudgedWriter> = all.map(judged).collect();
    writers.sort_by_key(|writer| writer.sends);
    writers
}

fn judged(process: &Seen) -> JudgedWriter {
    let pid = process.id.pid;
    let (sends, because) = match known(pid) {
        None => (Sends::Unknown, "it is not in the table"),
        Some((Sends::Safely, _)) if has_strangers_below(pid) => {
            (Sends::Unknown, "it started a process of another user")
        }
        Some(known) => known,
    };
    JudgedWriter {
        pid,
        name: process.name.clone(),
        sends,
        because: because.to_owned(),
    }
}

fn known(pid: u32) -> Option<(Sends, &'static str)> {
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

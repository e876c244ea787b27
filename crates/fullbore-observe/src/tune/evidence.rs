//! How the writers of a pipe send their bytes, by what is known about their programs.

use std::collections::BTreeMap;

use fullbore_linux::{live_thread, proc_directory};
use procfs::process::Process;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::producers::{self, Known, Sends};
use crate::census::Census;
use crate::census::descendants::descendants;

/// A writer and how it sends.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    /// Index into [`Census::processes`].
    pub process: usize,
    /// How it sends.
    pub sends: Sends,
    /// How this is known.
    pub because: &'static str,
}

/// The writers of one pipe, the least safe first; empty if no writer is seen.
pub type Writers = Vec<Writer>;

/// Determines how the writers of these pipes send; the pipes are given as indices into
/// [`Census::pipes`].
pub fn gather(census: &Census, pipes: &[usize]) -> BTreeMap<usize, Writers> {
    let of_pipe = |&index: &usize| {
        let holders = census.pipes[index].holders.iter();
        let writers = holders.filter(|holder| holder.writes.is_some());
        let mut writers: Writers = writers
            .map(|holder| judged(census, holder.process))
            .collect();
        writers.sort_by_key(|writer| writer.sends);
        (index, writers)
    };
    pipes.iter().map(of_pipe).collect()
}

fn judged(census: &Census, process: usize) -> Writer {
    let pid = census.processes[process].id.pid;
    let (sends, because) = match known(pid) {
        None => (Sends::Unknown, "it is not in the table"),
        Some((Sends::Safely, _)) if has_strangers_below(pid) => {
            (Sends::Unknown, "it started a process of another user")
        }
        Some(known) => known,
    };
    Writer {
        process,
        sends,
        because,
    }
}

fn known(pid: u32) -> Option<Known> {
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

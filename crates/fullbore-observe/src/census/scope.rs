//! Which pipes are to be shown.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;

use fullbore_host::refusal::Unsupported;
use fullbore_process::live_thread;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::census::chains::{Chain, Flow, PipeKind};
use crate::census::descendants::descendants;
use crate::census::{Census, Holder, Pipe, ProcessId};
use crate::error::Error;

/// Whose pipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// The pipes of all processes that can be seen.
    Everybody,
    /// The pipes of one process.
    One(u32),
    /// The pipes of a process and of all its descendants.
    Tree(u32),
    /// The pipes of processes with this name, and FIFOs with this name.
    Named(String),
}

/// Which pipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Whose pipes.
    pub whose: Whose,
    /// Whether to include pipes of which every process has both ends open.
    pub all: bool,
}

/// The pipes in a scope.
#[derive(Debug)]
pub(crate) struct ScopedPipes {
    /// Pipes between two processes that can be seen. All pipes of a pipeline are included, even if only
    /// one of them was asked for.
    pub chains: Vec<Chain>,
    /// Other pipes, as indices into [`Census::pipes`].
    pub others: Vec<usize>,
    /// The numbers of pipes that were left out, by reason.
    pub left_out: LeftOut,
}

/// Pipes that were seen, but are not shown in full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Pipes that one process keeps to itself (`--all` shows them).
    pub own: usize,
    /// Pipes of processes that were not asked for.
    pub of_others: usize,
    /// Pipes that are shown without the processes that wait for them, because watching them would
    /// need too many open files.
    pub not_watched: usize,
}

/// Returns the process that has this id now, if it has not ended.
fn process(pid: u32) -> Option<ProcessId> {
    ProcessId::of(pid).filter(|_| live_thread(pid).is_some())
}

/// Returns whether /proc hides the process that has this id, because it belongs to another user (proc(5),
/// `hidepid`).
pub fn is_hidden(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // kill(2) finds every process, and refuses to signal those of other users.
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
        && fs::metadata("/proc/1").is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns the error for a process that is not in /proc.
pub(crate) fn not_found(pid: u32) -> Error {
    if is_hidden(pid) {
        return Unsupported(format!(
            "process {pid}: this user may not inspect it (/proc is mounted with hidepid); run as its owner or \
             as root"
        ))
        .into();
    }
    Error::NotFound(format!("process {pid}: no such process"))
}

/// Returns whether this process still exists, and its id has not been reused.
pub(crate) fn exists(id: ProcessId) -> bool {
    process(id.pid) == Some(id)
}

impl Scope {
    /// Returns the process that the scope names, if it names one.
    ///
    /// # Errors
    /// If there is no such process, or it is hidden.
    pub(crate) fn root(&self) -> Result<Option<ProcessId>, Error> {
        match self.whose {
            Whose::One(pid) | Whose::Tree(pid) => {
                process(pid).map(Some).ok_or_else(|| not_found(pid))
            }
            Whose::Everybody | Whose::Named(_) => Ok(None),
        }
    }

    /// Finds the pipes in the scope.
    pub(crate) fn find(&self, census: &Census, flow: &Flow) -> ScopedPipes {
        let asked_for = match self.whose {
            Whose::One(pid) => BTreeSet::from([pid]),
            Whose::Tree(pid) => BTreeSet::from_iter(descendants(pid).into_iter().chain([pid])),
            Whose::Everybody | Whose::Named(_) => BTreeSet::new(),
        };
        let is_its = |holder: &Holder| {
            let process = &census.processes[holder.process];
            match &self.whose {
                Whose::Everybody => true,
                Whose::One(_) | Whose::Tree(_) => asked_for.contains(&process.id.pid),
                Whose::Named(name) => process.has_name(name),
            }
        };
        let is_meant = |pipe: &Pipe| pipe.holders.iter().any(is_its) || self.names(pipe);
        let mut found = ScopedPipes {
            chains: flow.chains(),
            others: Vec::new(),
            left_out: LeftOut::default(),
        };
        found.chains.retain(|chain| {
            let is_shown = chain
                .pipes
                .iter()
                .any(|&pipe| is_meant(&census.pipes[pipe]));
            if !is_shown {
                found.left_out.of_others += chain.pipes.len();
            }
            is_shown
        });
        for (index, pipe) in census.pipes.iter().enumerate() {
            match pipe.kind() {
                PipeKind::Link => {}
                _ if !is_meant(pipe) => found.left_out.of_others += 1,
                PipeKind::Own if !self.all => found.left_out.own += 1,
                PipeKind::Private => found.chains.push(Chain {
                    pipes: vec![index],
                    is_circle: false,
                }),
                PipeKind::Own | PipeKind::OneSided => found.others.push(index),
            }
        }
        found
    }

    fn names(&self, pipe: &Pipe) -> bool {
        match (&self.whose, &pipe.name) {
            (Whose::Named(name), Some(path)) => {
                path == name || path.rsplit('/').next() == Some(name)
            }
            _ => false,
        }
    }
}

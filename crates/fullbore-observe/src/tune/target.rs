//! The target of `tune`: a process by its id, all processes with a name, or a whole pipeline.

use std::collections::BTreeSet;
use std::path::Path;

use fullbore_linux::PipeIdentity;
use fullbore_process::proc_directory;

use crate::census::chains::{Flow, PipeKind};
use crate::census::descendants::descendants;
use crate::census::scope::not_found;
use crate::census::{Census, Holder, Unseen};
use crate::error::Error;
use fullbore_host::refusal::Unsupported;
use fullbore_host::text::clean;

/// The pipes to tune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The pipes of one process.
    Process(u32),
    /// The pipes of all processes with this name.
    Name(String),
    /// The pipes of the pipeline that a process is in.
    Pipeline(u32),
    /// The pipes that only descendants of this process have open.
    Started(u32),
    /// This pipe.
    Pipe(PipeIdentity),
}

/// The pipes of a target.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TargetPipes {
    /// Indices into [`Census::pipes`].
    pub pipes: Vec<usize>,
    /// Pipes that do not connect two processes or are only stderr, and are left as they are.
    pub left_out: usize,
    /// The processes with the given name, if there are several.
    pub several: Vec<u32>,
}

impl TargetPipes {
    fn only(pipes: Vec<usize>) -> Self {
        Self {
            pipes,
            ..Self::default()
        }
    }
}

impl Target {
    /// Finds the pipes of the target.
    ///
    /// # Errors
    /// If there is no such process, or it has no pipe, or this user may not examine it.
    pub fn find(&self, census: &Census) -> Result<TargetPipes, Error> {
        match self {
            Self::Process(pid) => {
                let process = census.process(*pid).ok_or_else(|| not_seen(*pid))?;
                Ok(pipes_of(census, &[process]))
            }
            Self::Name(name) => of_name(name, census),
            Self::Pipeline(pid) => of_pipeline(*pid, census),
            Self::Started(pid) => Ok(started(*pid, census)),
            Self::Pipe(identity) => {
                let mut all = census.pipes.iter();
                let pipe = all.position(|pipe| pipe.identity == *identity);
                let pipe = pipe.ok_or_else(|| Error::NotFound("it has ended".into()))?;
                Ok(TargetPipes::only(vec![pipe]))
            }
        }
    }
}

fn of_name(name: &str, census: &Census) -> Result<TargetPipes, Error> {
    let has_name = |process: &usize| census.processes[*process].has_name(name);
    let all = 0..census.processes.len();
    let all: Vec<usize> = all.filter(has_name).collect();
    if all.is_empty() {
        return Err(Error::NotFound(format!(
            "no process named '{}' has a pipe{}",
            clean(name),
            of_those_seen(&census.unseen)
        )));
    }
    let mut found = pipes_of(census, &all);
    if all.len() > 1 {
        let pids = all.iter().map(|&process| census.processes[process].id.pid);
        found.several = pids.collect();
        found.several.sort_unstable();
    }
    Ok(found)
}

fn of_pipeline(pid: u32, census: &Census) -> Result<TargetPipes, Error> {
    let flow = Flow::new(census);
    let links = |process: usize| {
        let mut pipes = pipes_of(census, &[process]).pipes;
        pipes.retain(|&pipe| census.pipes[pipe].kind() == PipeKind::Link);
        pipes
    };
    let mut start = census.process(pid).map_or_else(Vec::new, links);
    if start.is_empty() {
        // It is a shell or `fullbore run`, whose pipeline consists of the processes that it has
        // started.
        let started = descendants(pid);
        let among = started.iter().filter_map(|&pid| census.process(pid));
        start = among.flat_map(links).collect();
    }
    if start.is_empty() {
        if census.process(pid).is_none() && !can_be_seen(pid) {
            return Err(not_seen(pid));
        }
        return Err(Error::NotFound(format!(
            "process {pid} is not part of a pipeline"
        )));
    }
    let pipes = flow.pipeline(start).into_iter();
    Ok(TargetPipes::only(pipes.collect()))
}

/// Returns the pipes between the descendants of a process, which are held only by them.
fn started(pid: u32, census: &Census) -> TargetPipes {
    let started = descendants(pid);
    let is_theirs = |holder: &Holder| started.contains(&census.processes[holder.process].id.pid);
    let is_between = |pipe: &usize| {
        let pipe = &census.pipes[*pipe];
        pipe.kind() == PipeKind::Link
            && pipe.holders.iter().all(is_theirs)
            && !pipe.writers().all(Holder::is_only_stderr)
    };
    let all = 0..census.pipes.len();
    TargetPipes::only(all.filter(is_between).collect())
}

/// Returns the pipes of these processes that lead from one process to another, or may do so, without those that are
/// only the stderr of these processes.
fn pipes_of(census: &Census, processes: &[usize]) -> TargetPipes {
    let all: BTreeSet<usize> = processes
        .iter()
        .flat_map(|&process| census.pipes_of(process))
        .collect();
    let count = all.len();
    let pipes: Vec<usize> = all
        .into_iter()
        .filter(|&pipe| {
            let pipe = &census.pipes[pipe];
            let mut own = (pipe.holders.iter()).filter(|one| processes.contains(&one.process));
            pipe.kind() != PipeKind::Own && !own.all(Holder::is_only_stderr)
        })
        .collect();
    TargetPipes {
        left_out: count - pipes.len(),
        pipes,
        several: Vec::new(),
    }
}

fn can_be_seen(pid: u32) -> bool {
    std::fs::read_dir(proc_directory(pid).join("fd")).is_ok()
}

/// Returns why a process is not in the census.
fn not_seen(pid: u32) -> Error {
    if !Path::new(&format!("/proc/{pid}")).exists() {
        not_found(pid)
    } else if can_be_seen(pid) {
        Error::NotFound(format!("process {pid} has no pipe"))
    } else {
        Unsupported(format!(
            "process {pid}: this user may not inspect its file descriptors; run as its owner or \
             as root"
        ))
        .into()
    }
}

fn of_those_seen(unseen: &Unseen) -> String {
    match unseen.of_others + unseen.of_this_user {
        0 if unseen.others_hidden => "; processes of other users are hidden from this one".into(),
        0 => String::new(),
        1 => "; 1 process may not be inspected by this user".into(),
        closed => format!("; {closed} processes may not be inspected by this user"),
    }
}

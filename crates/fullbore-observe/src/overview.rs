//! What is known of every pipe at one look: what the screen draws, `--once` prints, `--json` writes and
//! `--prometheus` serves. Times are in seconds, amounts in bytes, shares from 0 to 1; all names are safe to
//! show. What is not known is `None`, never a guess.

use std::os::fd::AsFd;

use fullbore::pipe::PipeIdentity;
use rustix::io::Errno;
use serde::Serialize;

use super::census::{Census, Holder, Pipe, Process, ProcessId, Unseen};
use super::chains::{self, PipeKind};
use super::history::Histories;
use super::link::{Fill, WriteEnd};
use super::numbers::{Bytes, Certainty, Shares};
use super::verdict::Verdict;
use fullbore_host::text::{error_text, one_line};

/// Characters of a command line that are kept: some are pages long.
const MOST_OF_COMMAND: usize = 200;

/// No counter exists.
const UNKNOWN: Bytes = Bytes {
    bytes: None,
    bytes_are: Certainty::Unknown,
};

/// What there was at a look.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overview {
    /// When it was taken, in seconds since 1970.
    pub taken_at: f64,
    /// Seconds since the first look.
    pub seconds: f64,
    /// The number of the look, from 1.
    pub look: u64,
    /// Seconds that the look took.
    pub took_seconds: f64,
    /// Pipelines, as straight as they go. Every pipe is in one at most: one that a process keeps to itself,
    /// or of which one side is not seen, is in none.
    pub chains: Vec<ChainState>,
    /// Pipes: those of a chain one after the other, in the direction of the bytes.
    pub pipes: Vec<PipeState>,
    /// Pipes that were seen, and are not here.
    pub left_out: LeftOut,
    /// What was not seen.
    pub unseen: Unseen,
}

/// A pipeline, or a part of one that does not part or meet others.
#[derive(Debug, Clone, Serialize)]
pub struct ChainState {
    /// Those between the pipes: one more than there are pipes.
    pub stages: Vec<StageState>,
    /// Indices into [`Overview::pipes`], in the direction of the bytes.
    pub pipes: Vec<usize>,
    /// Whether its last stage feeds its first.
    pub is_circle: bool,
    /// Which stage is slow, of the last seconds; `None` where nothing of it is watched.
    pub verdict: Option<Verdict>,
}

/// A stage of a chain.
#[derive(Debug, Clone, Serialize)]
pub struct StageState {
    /// The process that names the stage comes first. Empty if no process has both pipes open any more.
    pub processes: Vec<ProcessInfo>,
    /// What it did with the last seconds.
    pub time: Option<Shares>,
    /// How many CPUs it kept busy in them.
    pub cpus: Option<f64>,
    /// The share of them in which the others waited for it.
    pub blame: Option<f64>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessInfo {
    /// Which process it is.
    #[serde(flatten)]
    pub id: ProcessId,
    /// The number of its user.
    pub uid: u32,
    /// Its name, 15 bytes at most.
    pub name: String,
    /// Its words, as many as fit into 200 characters.
    pub command: String,
}

/// A pipe.
#[derive(Debug, Clone, Serialize)]
pub struct PipeState {
    /// The device number of its inode, which with `inode` identifies the pipe while it exists.
    pub device: u64,
    /// The number of its inode.
    pub inode: u64,
    /// The path of a FIFO.
    pub path: Option<String>,
    /// The user who made it.
    pub owner: u32,
    /// Between which processes it is.
    pub kind: PipeKind,
    /// Index into [`Overview::chains`].
    pub chain: Option<usize>,
    /// The processes that feed it, the one to name it by first.
    pub writers: Vec<ProcessInfo>,
    /// The processes that drain it.
    pub readers: Vec<ProcessInfo>,
    /// Bytes it holds; where they may not be asked for, `closed` says why.
    pub capacity: Option<usize>,
    /// Bytes in it.
    pub queued: Option<usize>,
    /// Why it could not be asked.
    pub closed: Option<String>,
    /// How full it was at the last looks, the oldest first.
    pub fills: Vec<f64>,
    /// The share of the last seconds in which it was empty.
    pub empty: Option<f64>,
    /// That in which it was full, or its writer waited for room in it.
    pub full: Option<f64>,
    /// Bytes that went through it since it was first seen, and how well that is known.
    #[serde(flatten)]
    pub bytes: Bytes,
    /// Of them, those of the last seconds, by second.
    pub bytes_per_second: Option<f64>,
    /// How well that is known: `Unknown` where a side keeps several pipes, or moves pages.
    pub rate_is: Certainty,
    /// Which sides wait for it at this moment.
    pub blocked: Vec<Blocked>,
    /// The share of the last seconds in which its writer waited for room in it.
    pub writer_waits: Option<f64>,
    /// That in which its reader waited for bytes.
    pub reader_waits: Option<f64>,
    /// The side that the other one waits for, by the chain's verdict.
    pub slow: Slow,
    /// When it was first seen, in seconds since 1970.
    pub first_seen: f64,
    /// When it was last seen, in seconds since 1970.
    pub last_seen: f64,
}

/// A side that waits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Blocked {
    /// The side.
    pub side: Side,
    /// Seconds that it has been in one and the same wait, at least: since the first look that found it
    /// waiting, without having run.
    pub seconds: f64,
}

/// A side of a pipe, and all that is beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The processes that write to the pipe.
    Writer,
    /// The processes that read from it.
    Reader,
}

/// Which side is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Slow {
    /// Its writer, or a stage before that.
    Writer,
    /// Its reader, or a stage after that.
    Reader,
    /// Both are about as slow as each other, or by turns.
    Both,
    /// None of them: there are too few CPUs.
    Cpus,
    /// Not observed, not for long enough, or no stage stands out.
    Unknown,
}

/// Pipes that were seen, and are not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Each a process's own (`--all` shows them).
    pub own: usize,
    /// Of other processes than were asked for.
    pub of_others: usize,
    /// Shown without what waits for them: watching them would take too many files.
    pub not_watched: usize,
}

impl PipeState {
    /// Which pipe it is.
    pub fn identity(&self) -> PipeIdentity {
        PipeIdentity {
            device: self.device,
            inode: self.inode,
        }
    }

    /// What a census knows of a pipe.
    fn of(census: &Census, index: usize, chain: Option<usize>) -> Self {
        let pipe = &census.pipes[index];
        let name = |holder: &Holder| ProcessInfo::of(&census.processes[holder.process]);
        Self {
            device: pipe.identity.device,
            inode: pipe.identity.inode,
            path: pipe.name.clone(),
            owner: pipe.owner,
            kind: pipe.kind(),
            chain,
            writers: pipe.writers().map(name).collect(),
            readers: pipe.readers().map(name).collect(),
            capacity: None,
            queued: None,
            closed: None,
            fills: Vec::new(),
            empty: None,
            full: None,
            bytes: UNKNOWN,
            bytes_per_second: None,
            rate_is: Certainty::Unknown,
            blocked: Vec::new(),
            writer_waits: None,
            reader_waits: None,
            slow: Slow::Unknown,
            first_seen: 0.0,
            last_seen: 0.0,
        }
    }

    /// Puts its history in, and that of this look there. Where nobody has asked yet how full it is, that is
    /// done.
    pub(crate) fn remember(&mut self, census: &Census, histories: &mut Histories, now: f64) {
        let pipes = &census.pipes;
        if self.capacity.is_none()
            && let Ok(at) = pipes.binary_search_by_key(&self.identity(), |pipe| pipe.identity)
        {
            let history = histories.of(self.identity(), self.path.as_deref(), now);
            match history.capacity.filter(|_| self.kind == PipeKind::OneSided) {
                // Each time it is asked wakes those who are there (`pipe_release`, fs/pipe.c).
                Some(capacity) => self.capacity = Some(capacity),
                None => match ask(census, &pipes[at]) {
                    Ok(fill) => {
                        self.fill(Some(fill));
                        history.capacity = Some(fill.capacity);
                    }
                    Err(why) => self.closed = Some(why),
                },
            }
        }
        let history = histories.of(self.identity(), self.path.as_deref(), now);
        let share = self.queued.zip(self.capacity);
        history.note(share.map(|(queued, capacity)| Fill { queued, capacity }.share()));
        self.fills = history.fills.iter().copied().collect();
        self.bytes = history.add(self.bytes);
        self.first_seen = history.first_seen;
        self.last_seen = history.last_seen;
    }

    /// How full it is, where that could be asked.
    pub(crate) fn fill(&mut self, fill: Option<Fill>) {
        self.capacity = fill.map(|fill| fill.capacity);
        self.queued = fill.map(|fill| fill.queued);
    }
}

/// How full a pipe is, or why that is not known.
fn ask(census: &Census, pipe: &Pipe) -> Result<Fill, String> {
    if pipe.is_named() && pipe.kind() == PipeKind::OneSided {
        return Err(
            "only one side is open; opening it here would complete the open(2) of another \
         process"
                .to_owned(),
        );
    }
    // The census is of a moment ago.
    if pipe.is_named() && !WriteEnd::of(census, pipe).is_some_and(|end| end.is_open()) {
        return Err("no known process has it open for writing".to_owned());
    }
    let handle = census.handle(pipe);
    let fill = handle.and_then(|handle| Fill::of(handle.as_fd()));
    fill.map_err(|errno| match errno {
        Errno::NOENT => "gone".to_owned(),
        // A FIFO, whose reader has gone just now.
        Errno::NXIO => "no process reads it".to_owned(),
        errno => error_text(&errno.into()),
    })
}

impl Overview {
    /// Adds a chain and its pipes, as the census knows them.
    pub(crate) fn add_chain(
        &mut self,
        census: &Census,
        chain: &chains::Chain,
        stages: &[Vec<usize>],
    ) {
        let number = self.chains.len();
        let first = self.pipes.len();
        for &pipe in &chain.pipes {
            self.add_pipe(census, pipe, Some(number));
        }
        let stage = |processes: &Vec<usize>| StageState {
            processes: (processes.iter())
                .map(|&process| ProcessInfo::of(&census.processes[process]))
                .collect(),
            time: None,
            cpus: None,
            blame: None,
        };
        self.chains.push(ChainState {
            stages: stages.iter().map(stage).collect(),
            pipes: (first..self.pipes.len()).collect(),
            is_circle: chain.is_circle,
            verdict: None,
        });
    }

    /// Adds a pipe, as the census knows it.
    pub(crate) fn add_pipe(&mut self, census: &Census, pipe: usize, chain: Option<usize>) {
        self.pipes.push(PipeState::of(census, pipe, chain));
    }
}

impl ProcessInfo {
    fn of(process: &Process) -> Self {
        Self {
            id: process.id,
            uid: process.uid,
            name: process.name.clone(),
            command: one_line(&process.command, MOST_OF_COMMAND),
        }
    }
}

//! The state of every pipe at one scan: what the screen shows, `--once` prints, `--json` writes and
//! `--prometheus` serves. Times are in seconds, amounts in bytes, shares from 0 to 1; all names are safe to
//! show. What is not known is `None`, never a guess.

use fullbore_linux::PipeIdentity;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::census::chains::{self, PipeKind};
use crate::census::fill::Fill;
use crate::census::scope::LeftOut;
use crate::census::{Census, Holder, Pipe, Process, Unseen};
use crate::monitor::history::Histories;
use crate::verdict::Verdict;
use crate::verdict::numbers::{Bytes, Certainty, Shares};
use fullbore_host::text::error_text;

/// The state of all pipelines and pipes at one scan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Overview {
    /// When it was taken, in seconds since 1970.
    pub taken_at: f64,
    /// Seconds since the first scan.
    pub seconds: f64,
    /// The number of the scan, from 1.
    #[serde(rename = "look")]
    pub scan: u64,
    /// Seconds that the scan took.
    pub took_seconds: f64,
    /// Pipelines without branches. Every pipe is in at most one of them. A pipe that a process keeps to
    /// itself, or of which one side is not seen, is in none.
    pub chains: Vec<ChainState>,
    /// The pipes. Those of one chain are in sequence, in the direction of the bytes.
    pub pipes: Vec<PipeState>,
    /// Pipes that were seen, but are not in this overview.
    pub left_out: LeftOut,
    /// The processes that could not be examined.
    pub unseen: Unseen,
}

/// A pipeline, or a part of one that has no branches.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ChainState {
    /// The stages between and around the pipes: one more than there are pipes.
    pub stages: Vec<StageState>,
    /// Indices into [`Overview::pipes`], in the direction of the bytes.
    pub pipes: Vec<usize>,
    /// Whether its last stage writes to its first.
    pub is_circle: bool,
    /// Which stage was slow in the last seconds; `None` if the pipeline is not watched.
    pub verdict: Option<Verdict>,
    /// How far it is in the file that its first stage reads; `None` if that is not known.
    pub progress: Option<ChainProgress>,
}

/// How far a pipeline is in its input file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChainProgress {
    /// The bytes of the input that have come to the end of the pipeline.
    pub passed: u64,
    /// The bytes of the input.
    pub total: u64,
    /// The average since the pipeline was first seen; `None` at the first scan.
    pub bytes_per_second: Option<f64>,
    /// Seconds until its end, at the rate of the last half minute or so; `None` if nothing moves.
    pub seconds_left: Option<f64>,
}

/// A stage of a chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StageState {
    /// The process that names the stage comes first. Empty if no process has both pipes open any more.
    pub processes: Vec<Process>,
    /// What it did in the last seconds.
    pub time: Option<Shares>,
    /// How many CPUs it kept busy in the last seconds.
    pub cpus: Option<f64>,
    /// The share of the last seconds in which the others waited for it.
    pub blame: Option<f64>,
}

/// A pipe.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PipeState {
    /// The device number of its inode, which with `inode` identifies the pipe while it exists.
    pub device: u64,
    /// The number of its inode.
    pub inode: u64,
    /// The path of a FIFO.
    pub path: Option<String>,
    /// The user who created it.
    pub owner: u32,
    /// What it is used for.
    pub kind: PipeKind,
    /// Index into [`Overview::chains`].
    pub chain: Option<usize>,
    /// The processes that write to it. The one that names the stage comes first.
    pub writers: Vec<Process>,
    /// The processes that read from it.
    pub readers: Vec<Process>,
    /// Its capacity in bytes; if it cannot be read, `closed` says why.
    pub capacity: Option<usize>,
    /// Bytes that are queued in it.
    pub queued: Option<usize>,
    /// How full it is, from 0 to 1: 1 if its slots are used up, however few bytes they hold.
    pub filled: Option<f64>,
    /// Why its capacity and its queued bytes could not be read.
    pub closed: Option<String>,
    /// How full it was at the last scans, the oldest first.
    pub fills: Vec<f64>,
    /// The share of the last seconds in which it was empty.
    pub empty: Option<f64>,
    /// The share of the last seconds in which it was full, or its writer waited for room in it.
    pub full: Option<f64>,
    /// Bytes that went through it since it was first seen, and how well that is known.
    #[serde(flatten)]
    pub bytes: Bytes,
    /// Bytes per second in the last seconds.
    pub bytes_per_second: Option<f64>,
    /// How well that is known: `Unknown` if a side has several pipes open, or moves pages.
    pub rate_is: Certainty,
    /// The sides that wait for it at this moment.
    pub blocked: Vec<Blocked>,
    /// The share of the last seconds in which its writer waited for room in it.
    pub writer_waits: Option<f64>,
    /// The share of the last seconds in which its reader waited for bytes.
    pub reader_waits: Option<f64>,
    /// The slow side, by the chain's verdict.
    pub slow: Slow,
    /// When it was first seen, in seconds since 1970.
    pub first_seen: f64,
}

/// A side that waits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Blocked {
    /// The side.
    pub side: Side,
    /// Seconds that it has been in the same wait, at least: since the first sample that found it
    /// waiting, without having run in between.
    pub seconds: f64,
}

/// A side of a pipe, with all stages beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The processes that write to the pipe.
    Writer,
    /// The processes that read from it.
    Reader,
}

/// Which side is slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slow {
    /// Its writer, or a stage before its writer.
    Writer,
    /// Its reader, or a stage after its reader.
    Reader,
    /// Both are about equally slow, or are slow by turns.
    Both,
    /// Neither of them: there are too few CPUs.
    Cpus,
    /// The pipeline was not observed, or not for long enough, or no stage is clearly the slow one.
    #[default]
    Unknown,
}

impl PipeState {
    /// Returns the identity of the pipe.
    pub fn identity(&self) -> PipeIdentity {
        PipeIdentity {
            device: self.device,
            inode: self.inode,
        }
    }

    /// Adds the history to the state, and records this scan in the history. Reads how full the pipe is, if
    /// that is not known yet.
    pub(crate) fn remember(&mut self, census: &Census, histories: &mut Histories, now: f64) {
        let pipes = &census.pipes;
        let history = histories.of(self.identity(), now);
        if self.capacity.is_none() {
            if let Ok(at) = pipes.binary_search_by_key(&self.identity(), |pipe| pipe.identity) {
                match history.capacity.filter(|_| self.kind == PipeKind::OneSided) {
                    // The capacity is not read again, because each read wakes the processes that wait
                    // for the pipe (`pipe_release`, fs/pipe.c).
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
        }
        history.note(self.filled);
        self.fills = history.fills.iter().copied().collect();
        self.bytes = history.add(self.bytes);
        self.first_seen = history.first_seen;
    }

    /// Sets how full it is, if that could be read.
    pub(crate) fn fill(&mut self, fill: Option<Fill>) {
        self.capacity = fill.map(|fill| fill.capacity);
        self.queued = fill.map(|fill| fill.queued);
        self.filled = fill.map(Fill::share);
    }
}

/// Returns how full a pipe is, or why that is not known.
fn ask(census: &Census, pipe: &Pipe) -> Result<Fill, String> {
    match census.fill(pipe) {
        Ok(Some(fill)) => Ok(fill),
        Ok(None) => Err(
            "only one side is open; opening it here would complete the open(2) of another process"
                .to_owned(),
        ),
        Err(Errno::NOENT) => Err("gone".to_owned()),
        // It is a FIFO whose reader has just gone.
        Err(Errno::NXIO) => Err("no process reads it".to_owned()),
        Err(errno) => Err(error_text(&errno.into())),
    }
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
                .map(|&process| census.processes[process].clone())
                .collect(),
            ..StageState::default()
        };
        self.chains.push(ChainState {
            stages: stages.iter().map(stage).collect(),
            pipes: (first..self.pipes.len()).collect(),
            is_circle: chain.is_circle,
            ..ChainState::default()
        });
    }

    /// Adds a pipe, as the census knows it.
    pub(crate) fn add_pipe(&mut self, census: &Census, pipe: usize, chain: Option<usize>) {
        let pipe = &census.pipes[pipe];
        let name = |holder: &Holder| census.processes[holder.process].clone();
        self.pipes.push(PipeState {
            device: pipe.identity.device,
            inode: pipe.identity.inode,
            path: pipe.name.clone(),
            owner: pipe.owner,
            kind: pipe.kind(),
            chain,
            writers: pipe.writers().map(name).collect(),
            readers: pipe.readers().map(name).collect(),
            ..PipeState::default()
        });
    }
}

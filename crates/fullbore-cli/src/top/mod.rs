//! `fullbore top`: every pipe and FIFO whose ends this user may see, live.
//!
//! Two kinds of looks. A *look* takes a census of all processes, finds the pipelines, and makes a
//! [`Picture`]. A *glance* in between only asks what those do who are known already, and how full their
//! pipes are, from files that are open: it is cheap, and a verdict takes many. No end of a pipe is open
//! longer than it takes to ask for one number.

mod cells;
mod history;
mod lines;
pub mod metrics;
mod order;
mod picture;
mod scope;
pub mod screen;
mod table;

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fullbore::pipe::PipeIdentity;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use picture::Picture;
pub use scope::{Scope, Whose};

use crate::pipeline::census::{Known, ProcessId, has_proc};
use crate::pipeline::chains::Flow;
use crate::pipeline::cpus::{Reading, of_this_thread};
use fullbore_host::refusal::Unsupported;
use history::Histories;
use lines::{Line, Loads};

/// Files that are left for everything else.
const SPARE_FILES: usize = 256;

/// The least time between two glances.
const LEAST: Duration = Duration::from_millis(50);

/// CPU time that glances may take, as a part of all time.
const SHARE: u32 = 200;

/// And at first, so that there is a verdict soon: for so many glances.
const SHARE_AT_FIRST: u32 = 20;
const FIRST: u64 = 20;

/// Looking once, the most that is waited for enough glances.
const PATIENCE: Duration = Duration::from_secs(3);

/// Not having looked for so long, this process was stopped: nobody knows what they did meanwhile.
const STOPPED: Duration = Duration::from_secs(2);

/// Who looks, and what he remembers.
#[derive(Debug)]
pub struct Top {
    scope: Scope,
    began: Instant,
    looks: u64,
    /// Pipelines that are watched, by their pipes.
    lines: HashMap<Vec<PipeIdentity>, Line>,
    histories: Histories,
    known: Known,
    /// Files that may be open.
    most_files: usize,
    last_glance: Instant,
    /// Glances since all was forgotten.
    glances: u64,
    /// How long the last look took.
    last_took: Duration,
    /// The process that all of it is about.
    root: Option<ProcessId>,
    /// Whether it goes on with nothing to show once that has ended.
    stays: bool,
    /// CPU time that a glance takes.
    cost: Duration,
    /// Whether all this process does is to look, for a moment, and it may take what time it needs.
    is_hasty: bool,
}

impl Top {
    /// Sees nothing yet.
    ///
    /// # Errors
    /// Where there is no /proc, or the scope is about what is not there.
    pub fn new(scope: Scope) -> Result<Self> {
        needs_proc()?;
        let root = scope.root()?;
        let now = Instant::now();
        let files = all_files_allowed().saturating_sub(SPARE_FILES);
        Ok(Self {
            scope,
            began: now,
            looks: 0,
            lines: HashMap::new(),
            histories: Histories::default(),
            known: Known::at_most(files / 4),
            most_files: files,
            last_glance: now,
            glances: 0,
            last_took: Duration::ZERO,
            root,
            stays: false,
            cost: Duration::ZERO,
            is_hasty: false,
        })
    }

    /// What is found out in a moment: two looks with glances in between, so that there are rates, and
    /// verdicts.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn once(&mut self, time: Duration) -> Result<Picture> {
        self.is_hasty = true;
        self.look()?;
        self.looks = 0;
        let began = Instant::now();
        while began.elapsed() < time || (self.glances < FIRST && began.elapsed() < PATIENCE) {
            std::thread::sleep(self.next_glance());
            self.glance();
        }
        self.look()
    }

    /// What is found out in so long goes before the first look that counts.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn warm_up(&mut self, time: Duration) -> Result<()> {
        self.look()?;
        self.looks = 0;
        self.glance_until(Instant::now() + time);
        Ok(())
    }

    /// What pipes hold has changed.
    pub fn ask_again(&mut self) {
        for line in self.lines.values_mut() {
            line.watch.ask_again();
        }
    }

    /// How long until the next glance.
    pub fn next_glance(&self) -> Duration {
        match self.is_hasty {
            true => (LEAST / 4).max(self.cost * 2),
            false if self.glances < FIRST => LEAST.max(self.cost * SHARE_AT_FIRST),
            false => LEAST.max(self.cost * SHARE),
        }
    }

    /// When the process that it is about has ended, it goes on with nothing to show.
    pub fn stay(&mut self) {
        self.stays = true;
    }

    /// Lets go of everybody, as nobody looks for a while: a name of a FIFO keeps its file system busy.
    pub fn forget(&mut self) {
        self.lines.clear();
        self.known = Known::at_most(self.most_files / 4);
        self.glances = 0;
    }

    /// Looks at those who are known: what they do, and how full their pipes are.
    pub fn glance(&mut self) {
        let began = of_this_thread();
        let now = Instant::now();
        let since = now - self.last_glance;
        self.last_glance = now;
        self.glances += 1;
        let planned = self.next_glance();
        let was_stopped = since > STOPPED.max(planned * 4) + self.last_took;
        for line in self.lines.values_mut() {
            if was_stopped {
                line.watch.paused();
            }
            // Not for more than a few times what was planned, if this process was kept from looking.
            line.watch.glance(since.min(planned));
        }
        self.cost = (self.cost + of_this_thread().saturating_sub(began)) / 2;
    }

    /// Glances until then.
    pub fn glance_until(&mut self, then: Instant) {
        loop {
            let left = then.saturating_duration_since(Instant::now());
            let next = self.next_glance();
            // A glance right before a look says nothing more.
            if left <= next + LEAST / 2 {
                std::thread::sleep(left);
                return;
            }
            std::thread::sleep(next);
            self.glance();
        }
    }

    /// Looks at everybody.
    ///
    /// # Errors
    /// Where there is no /proc, or the process that it is about has ended.
    pub fn look(&mut self) -> Result<Picture> {
        let began = Instant::now();
        let now = seconds_since_1970();
        let root = self.root.filter(|&root| scope::is_there(root));
        if let (Some(ended), None, false) = (self.root, root, self.stays) {
            bail!("process {} has ended", ended.pid);
        }
        let mut census = self.known.look().context("look at /proc")?;
        if self.root != root {
            // Its number is nobody's, or another's.
            census.pipes.clear();
        }
        let flow = Flow::new(&census);
        let found = self.scope.find(&census, &flow);
        self.looks += 1;
        let mut picture = Picture {
            taken_at: now,
            seconds: (began - self.began).as_secs_f64(),
            look: self.looks,
            unseen: census.unseen,
            left_out: found.left_out,
            ..Picture::default()
        };
        let loads = Loads::of(&census);
        let mut before = std::mem::take(&mut self.lines);
        let mut files = self.known.files();
        let chains: Vec<_> = (found.chains.into_iter())
            .map(|chain| {
                let pipes = chain.pipes.iter();
                let key: Vec<_> = pipes.map(|&pipe| census.pipes[pipe].identity).collect();
                let stages = flow.stages(&chain);
                let known = before.remove(&key);
                files += known.as_ref().map_or(0, |line| line.watch.files());
                (chain, key, stages, known)
            })
            .collect();
        // Those who are not there any more are closed before others are opened.
        drop(before);
        for (chain, key, stages, known) in chains {
            let is_new = known.is_none();
            let line = match known {
                Some(line) => Some(line),
                None if files + lines::files(&stages) <= self.most_files => {
                    let line = Line::new(&census, &chain, &stages);
                    files += line.as_ref().map_or(0, |_| lines::files(&stages));
                    line
                }
                None => {
                    picture.left_out.not_watched += chain.pipes.len();
                    None
                }
            };
            let line = line.map(|mut line| {
                line.belong(&census, &chain, &stages, &loads);
                line
            });
            if is_new {
                for &pipe in &key {
                    self.histories.begin(pipe);
                }
            }
            picture.add_chain(&census, &chain, &stages);
            if let Some(line) = line {
                self.lines.insert(key, line);
            }
        }
        for pipe in found.others {
            picture.add_pipe(&census, pipe, None);
        }
        self.glance();
        let cpus = Reading::now();
        for line in self.lines.values_mut() {
            line.watch.take_stock(cpus.as_ref());
        }
        for chain in 0..picture.chains.len() {
            let pipes = picture.chains[chain].pipes.iter();
            let key: Vec<_> = pipes.map(|&pipe| picture.pipes[pipe].identity()).collect();
            if let Some(line) = self.lines.get(&key) {
                line.describe(chain, &mut picture);
            }
        }
        for row in &mut picture.pipes {
            row.remember(&census, &mut self.histories, now);
        }
        self.histories.forget(now);
        self.last_took = began.elapsed();
        picture.took_seconds = self.last_took.as_secs_f64();
        Ok(picture)
    }
}

/// How many files this process may have open, once it has all that it may have.
fn all_files_allowed() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Nothing here uses select(2), for which more than 1024 are too many.
    let limit = match setrlimit(Resource::Nofile, all) {
        Ok(()) => all,
        Err(_) => limit,
    };
    limit.current.map_or(1 << 20, |files| files as usize)
}

/// Without /proc, nothing can be seen.
///
/// # Errors
/// Where there is none.
pub fn needs_proc() -> Result<()> {
    match has_proc() {
        true => Ok(()),
        false => Err(Unsupported(
            "/proc is not mounted here, and nothing can be seen without it: mount -t proc proc /proc".into(),
        )
        .into()),
    }
}

fn seconds_since_1970() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

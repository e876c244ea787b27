//! Every pipe and FIFO whose ends this user may see, observed periodically.
//!
//! A *scan* ([`Monitor::scan`]) takes a census of all processes, finds the pipelines, and makes an
//! [`Overview`]. A *sample* between two scans only reads what the known processes do and how full their
//! pipes are, from files that are kept open. A sample is cheap, and a verdict needs many of them. An end of
//! a pipe is open only for as long as it takes to read one number.

mod history;
mod open_files;
pub mod overview;
mod watched_chain;

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullbore_linux::PipeIdentity;

use crate::census::chains::{Chain, Flow};
use crate::census::proc_files::needs_proc;
use crate::census::scope::{self, Scope};
use crate::census::walk::KnownProcesses;
use crate::census::{Census, ProcessId};
use crate::error::Error;
use crate::monitor::history::Histories;
pub use crate::monitor::open_files::allow_all_files;
use crate::monitor::open_files::{Files, files_allowed};
use crate::monitor::overview::Overview;
use crate::monitor::watched_chain::{WatchedChain, files_for, loads};
use crate::sampling::cpus::{Reading, of_this_thread};
use crate::sampling::pipeline::Readings;

/// File descriptors that are left for everything else.
const SPARE_FILES: usize = 256;

/// The least time between two samples.
const LEAST: Duration = Duration::from_millis(50);

/// Samples may use one part in this many of all time as CPU time.
const SHARE: u32 = 200;

/// The same for the first samples, so that there is a verdict soon, and the number of these
/// samples.
const SHARE_AT_FIRST: u32 = 20;
const FIRST: u64 = 20;

/// The longest time that a single run waits for enough samples.
const PATIENCE: Duration = Duration::from_secs(3);

/// If there was no sample for this long, this process was stopped, and what the others did in that time is
/// unknown.
const STOPPED: Duration = Duration::from_secs(2);

/// Observes pipelines periodically, and keeps what later verdicts need.
#[derive(Debug)]
pub struct Monitor {
    scope: Scope,
    began: Instant,
    scans: u64,
    /// Pipelines that are watched, by their pipes.
    watched: HashMap<Vec<PipeIdentity>, WatchedChain>,
    histories: Histories,
    /// The counters of processes that were watched until the last scan and are not watched any more.
    readings: Readings,
    known: KnownProcesses,
    /// The most files that may be open.
    most_files: usize,
    last_sample: Instant,
    /// Samples since everything was forgotten.
    samples: u64,
    /// How long the last scan took.
    last_took: Duration,
    /// The process that the scope names, if it names one.
    root: Option<ProcessId>,
    /// Whether it continues with an empty overview once that process has ended.
    stays: bool,
    /// The CPU time of one sample.
    cost: Duration,
    /// Whether this process only observes for a moment, and samples may use as much CPU time as
    /// they need.
    is_hasty: bool,
}

impl Monitor {
    /// Creates a monitor that has not scanned anything yet.
    ///
    /// # Errors
    /// If there is no /proc, or the scope names a process that does not exist.
    pub fn new(scope: Scope) -> Result<Self, Error> {
        needs_proc()?;
        let root = scope.root()?;
        let now = Instant::now();
        let files = files_allowed().saturating_sub(SPARE_FILES);
        Ok(Self {
            scope,
            began: now,
            scans: 0,
            watched: HashMap::new(),
            histories: Histories::default(),
            readings: Readings::default(),
            known: KnownProcesses::at_most(files / 4),
            most_files: files,
            last_sample: now,
            samples: 0,
            last_took: Duration::ZERO,
            root,
            stays: false,
            cost: Duration::ZERO,
            is_hasty: false,
        })
    }

    /// Makes two scans with samples in between, so that there are rates and verdicts, and returns the
    /// overview.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn once(&mut self, time: Duration) -> Result<Overview, Error> {
        self.is_hasty = true;
        self.scan()?;
        self.scans = 0;
        let began = Instant::now();
        while began.elapsed() < time || (self.samples < FIRST && began.elapsed() < PATIENCE) {
            std::thread::sleep(self.next_sample());
            self.sample();
        }
        self.scan()
    }

    /// Observes for this time before the first scan that is reported.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn warm_up(&mut self, time: Duration) -> Result<(), Error> {
        self.scan()?;
        self.scans = 0;
        self.sample_until(Instant::now() + time);
        Ok(())
    }

    /// Reads the capacities of all pipes again, because they may have changed.
    pub fn requery_capacities(&mut self) {
        for watched in self.watched.values_mut() {
            watched.watch.pipeline.asked.fill(None);
        }
    }

    /// Returns how long to wait until the next sample.
    pub fn next_sample(&self) -> Duration {
        match self.is_hasty {
            true => (LEAST / 4).max(self.cost * 2),
            false if self.samples < FIRST => LEAST.max(self.cost * SHARE_AT_FIRST),
            false => LEAST.max(self.cost * SHARE),
        }
    }

    /// Makes it continue with an empty overview when the process that the scope names has ended.
    pub fn outlive_process(&mut self) {
        self.stays = true;
    }

    /// Closes all files and forgets all processes, but not how many bytes they had moved by the last scan.
    /// Call this before a longer time without scans, because a descriptor of a FIFO, even with `O_PATH`, keeps
    /// its file system busy.
    pub fn forget(&mut self) {
        for (_, watched) in self.watched.drain() {
            self.readings.extend(watched.watch.pipeline.readings());
        }
        self.known = KnownProcesses::at_most(self.most_files / 4);
        self.samples = 0;
    }

    /// Samples what the known processes do, and how full their pipes are.
    pub fn sample(&mut self) {
        let began = of_this_thread();
        let now = Instant::now();
        let since = now - self.last_sample;
        self.last_sample = now;
        self.samples += 1;
        let planned = self.next_sample();
        let was_stopped = since > STOPPED.max(planned * 4) + self.last_took;
        for watched in self.watched.values_mut() {
            if was_stopped {
                watched.watch.paused();
            }
            // If this process was delayed, the sample still counts for no more than a few planned
            // intervals.
            watched.watch.sample_processes(since.min(planned));
        }
        self.cost = (self.cost + of_this_thread().saturating_sub(began)) / 2;
    }

    /// Takes samples until this time.
    pub fn sample_until(&mut self, then: Instant) {
        loop {
            let left = then.saturating_duration_since(Instant::now());
            let next = self.next_sample();
            // A sample right before a scan adds nothing.
            if left <= next + LEAST / 2 {
                std::thread::sleep(left);
                return;
            }
            std::thread::sleep(next);
            self.sample();
        }
    }

    /// Scans all processes, and returns what is known about their pipes.
    ///
    /// # Errors
    /// If there is no /proc, or the process that the scope names has ended.
    pub fn scan(&mut self) -> Result<Overview, Error> {
        let began = Instant::now();
        let now = seconds_since_1970();
        let root = self.root.filter(|&root| scope::exists(root));
        if let (Some(ended), None, false) = (self.root, root, self.stays) {
            return Err(Error::NotFound(format!("process {} has ended", ended.pid)));
        }
        let mut census = (self.known.take_census()).map_err(Error::system("look at /proc"))?;
        if self.root != root {
            // Its id is unused, or another process has it.
            census.pipes.clear();
        }
        let flow = Flow::new(&census);
        let found = self.scope.find(&census, &flow);
        self.scans += 1;
        let mut overview = Overview {
            taken_at: now,
            seconds: (began - self.began).as_secs_f64(),
            scan: self.scans,
            unseen: census.unseen,
            left_out: found.left_out,
            ..Overview::default()
        };
        self.watch_chains(&census, &flow, found.chains, &mut overview);
        for pipe in found.others {
            overview.add_pipe(&census, pipe, None);
        }
        self.sample();
        let cpus = Reading::now();
        for watched in self.watched.values_mut() {
            watched.watch.read_counters(cpus.as_ref());
        }
        self.describe(&census, now, &mut overview);
        self.histories.forget(now);
        self.last_took = began.elapsed();
        overview.took_seconds = self.last_took.as_secs_f64();
        Ok(overview)
    }

    /// Watches these pipelines and no others, as far as the limit on open files allows, and adds them to
    /// the overview.
    fn watch_chains(
        &mut self,
        census: &Census,
        flow: &Flow<'_>,
        found: Vec<Chain>,
        overview: &mut Overview,
    ) {
        let loads = loads(census);
        let mut before = std::mem::take(&mut self.watched);
        let mut files = Files {
            open: self.known.files(),
            most: self.most_files,
        };
        let kept_open = |watched: &Option<WatchedChain>| {
            let watched = watched.as_ref();
            watched.map_or(0, |watched| watched.watch.pipeline.files())
        };
        let chains: Vec<_> = (found.into_iter())
            .map(|chain| {
                let pipes = chain.pipes.iter();
                let key: Vec<_> = pipes.map(|&pipe| census.pipes[pipe].identity).collect();
                let stages = flow.stages(&chain);
                let known = before.remove(&key);
                files.open += kept_open(&known);
                (chain, key, stages, known)
            })
            .collect();
        // Files of pipelines that have ended are closed before others are opened.
        for watched in before.into_values() {
            self.readings.extend(watched.watch.pipeline.readings());
        }
        for (chain, key, stages, known) in chains {
            let is_new = known.is_none();
            let had = kept_open(&known);
            let has_room = !is_new || files.have_room(files_for(&stages));
            let mut watched = match known {
                None if has_room => WatchedChain::new(census, &chain, &stages),
                known => known,
            };
            if let Some(watched) = &mut watched {
                watched.set_members(census, &chain, &stages, &loads);
                if is_new {
                    watched.watch.pipeline.count_from(&self.readings);
                }
            }
            let has_room = files.replace(had, kept_open(&watched)) && has_room;
            if is_new {
                key.iter().for_each(|&pipe| self.histories.begin(pipe));
            }
            overview.add_chain(census, &chain, &stages);
            if !has_room {
                overview.left_out.not_watched += chain.pipes.len();
            } else if let Some(watched) = watched {
                self.watched.insert(key, watched);
            }
        }
        self.readings.clear();
    }

    /// Adds to the overview what watching has found, and the history of each pipe.
    fn describe(&mut self, census: &Census, now: f64, overview: &mut Overview) {
        for chain in 0..overview.chains.len() {
            let pipes = overview.chains[chain].pipes.iter();
            let key: Vec<_> = pipes.map(|&pipe| overview.pipes[pipe].identity()).collect();
            if let Some(watched) = self.watched.get_mut(&key) {
                watched.describe(chain, overview);
            }
        }
        for row in &mut overview.pipes {
            row.remember(census, &mut self.histories, now);
        }
    }
}

fn seconds_since_1970() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests;

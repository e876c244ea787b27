//! Places a pipeline while it runs: reads the counters of its stages at the ends of windows, lets the placer
//! decide, and gives the stages their CPUs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::CpuSet;

use super::super::census::ProcessId;
use super::super::cpus::Reading;
use super::super::watch::{Counters, Watch};
use super::layout::Layout;
use super::placement::Placement;
use super::placer::{Placer, Step};
use super::report::Placed;
use super::threads::Threads;
use super::trial::Goal;
use super::window::{StageUse, Window};

/// Windows shorter than this tell too little about idle CPUs, which the kernel counts in ticks.
const IDLE_KNOWN: f64 = 0.04;

/// When a placement that was given is given again, to programs that were just being started.
const AGAIN: Duration = Duration::from_millis(20);

/// A pipeline that is placed.
#[derive(Debug)]
pub struct Placing {
    /// Decides what is tried; `None` if the placement was given.
    placer: Option<Placer>,
    processes: Vec<Vec<ProcessId>>,
    grows: bool,
    /// Reads the counters; `None` before they are needed for the first time.
    watch: Option<Watch>,
    threads: Threads,
    began: Instant,
    due: Option<Instant>,
    /// The counters at the beginning of the window; `None` while the stages move to their CPUs.
    from: Option<Counted>,
    step: Step,
    cpus: Vec<usize>,
}

/// A pipeline that is to be placed.
#[derive(Debug)]
pub struct Pipeline {
    /// The processes of each stage.
    pub processes: Vec<Vec<ProcessId>>,
    /// The CPUs that each stage may use.
    pub before: Vec<CpuSet>,
    /// When it began.
    pub began: Instant,
    /// Whether this process has started the pipeline, is a subreaper, and has no other descendants. Then the CPU
    /// time and the bytes of all that the processes start count too, and whoever loses its parent is found.
    pub is_own: bool,
}

/// All counters at one time.
#[derive(Debug)]
struct Counted {
    at: Instant,
    stages: Vec<Counters>,
    cpus: Option<Reading>,
}

impl Placing {
    /// Tries placements on a pipeline.
    pub fn try_placements(pipeline: Pipeline, layout: Layout, goal: Goal) -> Self {
        let cpus = layout.cpus().to_vec();
        let placer = Placer::new(pipeline.before.len(), layout, goal);
        let step = placer.first();
        Self {
            cpus,
            due: after(Instant::now(), step.seconds),
            ..Self::new(pipeline, Some(placer), step)
        }
    }

    /// Gives a pipeline that has just been started this placement.
    ///
    /// # Errors
    /// Fails if the CPUs of a process may not be changed.
    pub fn give(pipeline: Pipeline, placement: Placement) -> Result<Self, Errno> {
        let step = Step {
            placement,
            settle: 0.0,
            seconds: f64::INFINITY,
        };
        let mut placing = Self::new(pipeline, None, step);
        let stages = placing.counters();
        placing.place(&stages)?;
        placing.due = Some(Instant::now() + AGAIN);
        Ok(placing)
    }

    fn new(pipeline: Pipeline, placer: Option<Placer>, step: Step) -> Self {
        Self {
            placer,
            processes: pipeline.processes,
            grows: pipeline.is_own,
            watch: None,
            threads: match pipeline.is_own {
                true => Threads::new(pipeline.before).with_all_descendants(),
                false => Threads::new(pipeline.before),
            },
            began: pipeline.began,
            due: None,
            from: None,
            step,
            cpus: Vec::new(),
        }
    }

    /// Returns when the next [step](Self::step) is due; `None` if none is.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Ends a window, and changes the placement if that was decided.
    pub fn step(&mut self) {
        let needs_cpus = self.step.seconds >= IDLE_KNOWN && self.placer.is_some();
        let now = Counted {
            at: Instant::now(),
            stages: self.counters(),
            cpus: needs_cpus.then(Reading::now).flatten(),
        };
        let Some(placer) = &mut self.placer else {
            self.due = None;
            let _ = self.place(&now.stages);
            return;
        };
        let Some(from) = self.from.take() else {
            self.due = after(now.at, self.step.seconds);
            self.from = Some(now);
            return;
        };
        let step = placer.next(now.since(&from, self.began, &self.cpus));
        self.begin(step, now);
    }

    /// Drops the window, because the pipeline was stopped in it.
    pub fn paused(&mut self) {
        // Before the first window there is nothing to drop.
        if self.watch.is_none() {
            return;
        }
        let now = Counted {
            at: Instant::now(),
            stages: self.counters(),
            cpus: None,
        };
        if let Some(placer) = &mut self.placer {
            let step = placer.skip();
            self.begin(step, now);
        }
    }

    /// Ends a trial that is under way: the stages get the best placement that was found so far, which is
    /// returned.
    pub fn decide(&mut self) -> Placed {
        self.paused();
        self.due = None;
        self.report()
    }

    /// Gives all processes their CPUs back. Nothing is placed any more.
    pub fn end(&mut self) {
        self.due = None;
        let _ = self.threads.give_back();
    }

    /// Leaves the processes where they are when this is dropped.
    pub fn leave(mut self) {
        self.threads.forget();
    }

    /// Returns what was done so far.
    pub fn report(&self) -> Placed {
        match &self.placer {
            None => Placed::given(self.step.placement.clone()),
            Some(placer) => placer.report(),
        }
    }

    /// Returns whether all that was to be tried has been tried.
    pub fn is_resting(&self) -> bool {
        self.placer.as_ref().is_none_or(Placer::is_resting)
    }

    fn counters(&mut self) -> Vec<Counters> {
        let watch =
            (self.watch).get_or_insert_with(|| Watch::of_processes(&self.processes, self.grows));
        watch.counters()
    }

    fn begin(&mut self, step: Step, now: Counted) {
        let is_changed = step.placement != self.step.placement;
        self.step = step;
        if !is_changed {
            self.due = after(now.at, self.step.seconds);
            self.from = Some(now);
            return;
        }
        if self.place(&now.stages).is_err() {
            if let Some(placer) = &mut self.placer {
                self.step = placer.refused();
                let _ = self.threads.give_back();
            }
        }
        self.from = None;
        self.due =
            after(Instant::now(), self.step.settle).filter(|_| self.step.seconds.is_finite());
    }

    fn place(&mut self, stages: &[Counters]) -> Result<(), Errno> {
        let processes: Vec<BTreeSet<u32>> = (stages.iter())
            .map(|stage| stage.pids.iter().copied().collect())
            .collect();
        self.threads.place(&self.step.placement, &processes)
    }
}

impl Counted {
    /// Returns what happened since an earlier time.
    fn since(&self, from: &Self, began: Instant, cpus: &[usize]) -> Window {
        let stages = self.stages.iter().zip(&from.stages);
        let stages = stages.map(|(now, then)| StageUse {
            cpu: now.cpu.saturating_sub(then.cpu).as_secs_f64(),
            queued: now.queued.saturating_sub(then.queued).as_secs_f64(),
            turns: now.turns.saturating_sub(then.turns) as f64,
            exists: now.exists,
        });
        let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?) as f64);
        // The two sides of a pipe differ by what is queued in it, and one of them may move pages that nobody
        // counts.
        let pipes = (1..self.stages.len()).map(|reader| {
            let [now, then] = [self, from].map(|counted| &counted.stages);
            let written = grown(now[reader - 1].written, then[reader - 1].written);
            let read = grown(now[reader].read, then[reader].read);
            match (written, read) {
                (Some(written), Some(read)) if written > 0.0 && read > 0.0 => {
                    Some((written + read) / 2.0)
                }
                (Some(written), Some(read)) => Some(written.max(read)),
                (one, other) => one.or(other),
            }
        });
        let idle = self.cpus.as_ref().zip(from.cpus.as_ref());
        Window {
            seconds: (self.at - from.at).as_secs_f64(),
            age: self.at.saturating_duration_since(began).as_secs_f64(),
            pipes: pipes.collect(),
            stages: stages.collect(),
            idle: idle.map_or_else(Vec::new, |(now, then)| now.idle_since(then, cpus)),
        }
    }
}

fn after(time: Instant, seconds: f64) -> Option<Instant> {
    time.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

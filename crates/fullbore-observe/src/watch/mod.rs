//! Samples a pipeline from its start to its end. Each sample represents the time since the last
//! one.
//!
//! The kernel's counters are exact, so samples only divide up what they count. The kernel counts how
//! long a stage ran; for the rest of the time it slept, and samples show what it waited for. Each
//! sample reads little (what threads do, how full pipes are). Counters, which only grow (times,
//! bytes, the processes of a stage), are read less often, and when a stage has ended.

mod movement;
pub mod progress;

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::census::fill::Fill;
use crate::census::link::Link;
use crate::sampling::cpus::{Cpus, Reading, of_this_thread};
use crate::sampling::facts::{StageFacts, StartedStage};
use crate::sampling::pipeline::SampledPipeline;
use crate::sampling::sums::{StageSums, Sums};
use crate::verdict::Findings;
use crate::verdict::numbers::{Bytes, Numbers};

/// The least and the most time between two samples. Samples are frequent at first, for pipelines
/// that run only for a short time.
const OFTEN: Duration = Duration::from_millis(2);
const SELDOM: Duration = Duration::from_millis(20);

/// The time between two samples is the time so far divided by this.
const PATIENCE: u32 = 25;

/// Samples may use one part in this many of the pipeline's time as CPU time; and CPU time that they
/// may use in any case, so that short pipelines are sampled too.
const SHARE: u32 = 100;
const FREE: Duration = Duration::from_millis(2);

/// Samples between two readings of the counters.
const SAMPLES_PER_ACCOUNT: u64 = 8;

/// The length of the recent past, and of the steps in which it is kept.
const RECENT: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(250);

/// The length of the recent past for pipelines that other programs have started. These are sampled less
/// often, so it is longer, and is extended until it has enough samples for a verdict.
const RECENT_OF_OTHERS: Duration = Duration::from_secs(5);
const ENOUGH_SAMPLES: u64 = 20;

/// A pipeline that is watched.
#[derive(Debug)]
pub struct Watch {
    pub(crate) pipeline: SampledPipeline,
    past: VecDeque<(Instant, Sums)>,
    cpus: Cpus,
    last_offer: Instant,
    began: Instant,
    interval: Duration,
    /// The length of the recent past, and the least number of samples in it.
    recent: (Duration, u64),
    seen: Seen,
}

/// How far everything was when it was last asked whether it has moved.
#[derive(Debug, Default)]
struct Seen {
    fills: Vec<Option<Fill>>,
    stages: Vec<StageSums>,
    /// The bytes that each stage had read and written when something last moved.
    beside: Vec<u64>,
}

impl Watch {
    /// Watches a pipeline whose processes have just been started.
    pub fn new(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let now = Instant::now();
        let mut watch = Self::of(SampledPipeline::new(stages, links, now, false), (RECENT, 0));
        for stage in &mut watch.pipeline.stages {
            stage.join(stage.facts.started.pid, false);
        }
        watch.sample_cpus(watch.began);
        watch
    }

    /// Sets when the first of its processes was started; their CPU time counts from then on.
    pub fn started_at(mut self, began: Instant) -> Self {
        self.began = began;
        for stage in &mut self.pipeline.stages {
            stage.since = began;
        }
        self
    }

    /// Watches a pipeline that another program has started. The caller sets the processes of its
    /// stages, and decides when to [take a sample](Self::sample_processes).
    pub(crate) fn of_others(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let pipeline = SampledPipeline::new(stages, links, Instant::now(), true);
        Self::of(pipeline, (RECENT_OF_OTHERS, ENOUGH_SAMPLES))
    }

    fn of(pipeline: SampledPipeline, recent: (Duration, u64)) -> Self {
        let began = pipeline.last_sample;
        Self {
            pipeline,
            past: VecDeque::new(),
            cpus: Cpus::default(),
            last_offer: began,
            began,
            interval: OFTEN,
            recent,
            seen: Seen::default(),
        }
    }

    /// Takes one sample of everything.
    pub fn sample(&mut self) {
        let costs = of_this_thread();
        let now = Instant::now();
        let is_due = self.pipeline.sums.samples % SAMPLES_PER_ACCOUNT == SAMPLES_PER_ACCOUNT - 1;
        if self.pipeline.sums.samples < SAMPLES_PER_ACCOUNT {
            // The two ends of a pipe meet soon or never.
            self.pipeline.look_for_rings();
        }
        self.pipeline.sample(now, self.interval);
        if is_due {
            self.pipeline.account(now);
            self.pipeline.note_unread();
            if now - self.last_offer >= STEP {
                self.sample_cpus(now);
            }
            self.remember(now);
        }
        self.pipeline.sums.sampling += of_this_thread().saturating_sub(costs);
        self.interval = self.choose_interval();
    }

    /// Takes a sample of what all processes do, about `interval` after the last one.
    pub(crate) fn sample_processes(&mut self, interval: Duration) {
        self.interval = interval;
        self.pipeline.sample(Instant::now(), self.interval);
    }

    /// Reads the counters; the caller has read the idle times of the CPUs.
    pub(crate) fn read_counters(&mut self, cpus: Option<&Reading>) {
        let now = Instant::now();
        let turns = |sums: &Sums| sums.stages.iter().map(|stage| stage.turns).sum::<u64>();
        let before = turns(&self.pipeline.sums);
        self.pipeline.account(now);
        // A stage that did not run blocked nobody and was blocked by nobody.
        if turns(&self.pipeline.sums) > before {
            self.add_offer(cpus);
        }
        self.remember(now);
    }

    /// Returns how long to wait until the next sample.
    pub fn next_sample(&self) -> Duration {
        self.interval
    }

    fn choose_interval(&self) -> Duration {
        let elapsed = self.pipeline.last_sample - self.began;
        let planned = (elapsed / PATIENCE).clamp(OFTEN, SELDOM);
        // The interval is random, so that a periodic process is not always sampled at the same
        // phase.
        let planned = planned.mul_f64(0.75 + fastrand::f64() / 2.0);
        let affordable = self.pipeline.sums.sampling.saturating_sub(FREE) * SHARE;
        planned.max(affordable.saturating_sub(elapsed))
    }

    /// Records that the first process of a stage has ended and is still a zombie, which is the last
    /// chance to read its files in /proc.
    pub fn ended(&mut self, number: usize) {
        let now = Instant::now();
        if now - self.last_offer >= STEP / 5 {
            self.sample_cpus(now);
        }
        self.pipeline.count_shared();
        if let Some(stage) = self.pipeline.stages.get_mut(number) {
            stage.account(now, &mut self.pipeline.sums.stages[number]);
            stage.listen();
            stage.sample(now, Duration::ZERO);
        }
    }

    /// Sets the exit status of a stage that has been waited for.
    pub fn status(&mut self, number: usize, status: ExitStatus) {
        if let Some(stage) = self.pipeline.stages.get_mut(number) {
            stage.facts.status = Some(status);
        }
    }

    /// Sets what was accepted of a stage that has failed: its exit code, or why else it counts as a success.
    pub fn accepted(&mut self, number: usize, what: String) {
        if let Some(stage) = self.pipeline.stages.get_mut(number) {
            stage.facts.accepted = Some(what);
        }
    }

    /// Excludes the time in which the whole pipeline was stopped. It is called when the pipeline
    /// continues.
    pub fn paused(&mut self) {
        let now = Instant::now();
        let pause = now - self.pipeline.last_sample;
        self.began += pause;
        self.pipeline.last_sample = now;
        for stage in &mut self.pipeline.stages {
            stage.since = (stage.since + pause).min(now);
        }
        self.past.clear();
    }

    /// Returns the bytes that have gone through a pipe so far.
    pub fn bytes(&self, link: usize) -> Bytes {
        let link = &self.pipeline.links[link];
        let SampledPipeline { stages, sums, .. } = &self.pipeline;
        let side = |stage: usize| (&stages[stage].facts, &sums.stages[stage]);
        Bytes::between(side(link.writer), side(link.reader))
    }

    /// Returns the findings so far.
    pub fn findings(&self) -> Findings {
        self.summed(&self.pipeline.sums, self.seconds())
    }

    /// Returns the findings about the recent past.
    pub fn recent(&self) -> Findings {
        let Some((then, sums)) = self.past.front() else {
            return self.findings();
        };
        let seconds = (self.pipeline.last_sample - *then).as_secs_f64();
        self.summed(&self.pipeline.sums.since(sums), seconds)
    }

    fn summed(&self, sums: &Sums, seconds: f64) -> Findings {
        let stages = self.pipeline.stages.iter();
        let facts: Vec<&StageFacts> = stages.map(|stage| &stage.facts).collect();
        Numbers::of(&facts, &self.pipeline.links, sums, seconds).into()
    }

    fn seconds(&self) -> f64 {
        let accounts = self.pipeline.stages.iter().map(|stage| stage.since);
        let until = accounts.fold(self.pipeline.last_sample, Instant::max);
        (until - self.began).as_secs_f64()
    }

    fn sample_cpus(&mut self, now: Instant) {
        self.last_offer = now;
        self.add_offer(Reading::now().as_ref());
    }

    fn add_offer(&mut self, cpus: Option<&Reading>) {
        let pids = self.pipeline.pids();
        if let Some(offer) = cpus.and_then(|cpus| self.cpus.until(cpus, pids)) {
            self.pipeline.sums.offer.time += offer.time;
            self.pipeline.sums.offer.passed += offer.passed;
            self.pipeline.sums.offer.idle += offer.idle;
        }
    }

    fn remember(&mut self, now: Instant) {
        if self.past.back().is_none_or(|(then, _)| now - *then >= STEP) {
            self.past.push_back((now, self.pipeline.sums.clone()));
        }
        let (recent, samples) = self.recent;
        while self.past.get(1).is_some_and(|(then, sums)| {
            now - *then >= recent && self.pipeline.sums.samples - sums.samples >= samples
        }) {
            self.past.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;

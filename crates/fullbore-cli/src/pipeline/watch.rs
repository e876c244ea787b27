//! Looks at a pipeline from its start to its end, each look standing for the time since the last.
//!
//! The one idea: what the kernel counts is exact, so samples only tell it apart. How long a stage ran
//! is counted; while it did not, it slept, and what for is what samples tell. What is looked at each
//! time is little (what threads do, how full pipes are); what only ever grows (times, bytes, the
//! processes of a stage) is looked at seldom, and when a stage has ended.

use std::collections::{BTreeSet, VecDeque};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Stage;
use super::below::below;
use super::cpus::Cpus;
use super::findings::Findings;
use super::link::{Fill, Link};
use super::moment::{Cause, Heard, Moment, Side, Ways};
use super::process::{Used, Watched};
use super::sums::Sums;

/// Between two looks at least, and at most: often at first, for pipelines that are short.
const OFTEN: Duration = Duration::from_millis(2);
const SELDOM: Duration = Duration::from_millis(20);

/// What the time so far is divided by to get there.
const PATIENCE: u32 = 25;

/// CPU time that looking may take, of the time that the pipeline takes; and what it may take besides,
/// so that short ones are looked at too.
const SHARE: u32 = 100;
const FREE: Duration = Duration::from_millis(2);

/// Looks between two times that what only grows is looked at.
const LOOKS_PER_ACCOUNT: u64 = 8;

/// Processes of a stage that are looked at.
const PROCESSES: usize = 32;

/// How far back the recent past goes, and in which steps.
const RECENT: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(250);

/// A pipeline that is watched.
#[derive(Debug)]
pub struct Watch {
    crews: Vec<Crew>,
    links: Vec<Link>,
    sums: Sums,
    past: VecDeque<(Instant, Sums)>,
    cpus: Cpus,
    last_offer: Instant,
    began: Instant,
    last_look: Instant,
    interval: Duration,
}

/// A stage, and the processes that belong to it.
#[derive(Debug)]
pub struct Crew {
    /// The stage.
    pub stage: Stage,
    members: Vec<Member>,
    input: Option<Side>,
    output: Option<Side>,
    moment: Moment,
    /// How it was seen to use its pipes.
    pub ways: Ways,
    /// How it ended.
    pub status: Option<ExitStatus>,
    /// Since when its times are not yet among the sums.
    since: Instant,
    /// Time since then in which looks found it active, and in all that looks stand for.
    seen_active: Duration,
    /// What those have used up who have ended without being waited for by one of the others.
    gone: Used,
}

#[derive(Debug)]
struct Member {
    process: Watched,
    /// Whether its parent is one of the others, and will have its times when it has ended.
    has_parent: bool,
}

impl Watch {
    /// Of a pipeline whose processes have just been started.
    pub fn new(stages: Vec<Stage>, links: Vec<Link>) -> Self {
        let now = Instant::now();
        let side = |link: &Link| {
            let inode = link.inode()?;
            Some(Side { inode, fill: None })
        };
        let crews: Vec<Crew> = stages
            .into_iter()
            .enumerate()
            .map(|(number, stage)| Crew {
                stage,
                members: Vec::new(),
                input: (links.iter().find(|link| link.reader == number)).and_then(side),
                output: (links.iter().find(|link| link.writer == number)).and_then(side),
                moment: Moment::Active,
                ways: Ways::default(),
                status: None,
                since: now,
                seen_active: Duration::ZERO,
                gone: Used::NOTHING,
            })
            .collect();
        let mut watch = Self {
            sums: Sums::new(crews.len(), links.len()),
            crews,
            links,
            past: VecDeque::new(),
            cpus: Cpus::default(),
            last_offer: now,
            began: now,
            last_look: now,
            interval: OFTEN,
        };
        for crew in &mut watch.crews {
            crew.join(crew.stage.pid, false);
        }
        watch.look_at_cpus(now);
        watch
    }

    /// One look at everything.
    pub fn look(&mut self) {
        let costs = cpu_time();
        let now = Instant::now();
        // Had this process been kept from looking, one look would stand for too much.
        let time = (now - self.last_look).min(self.interval * 4);
        self.last_look = now;
        let is_due = self.sums.looks % LOOKS_PER_ACCOUNT == LOOKS_PER_ACCOUNT - 1;
        self.look_at_pipes();
        for crew in &mut self.crews {
            crew.look(time);
        }
        self.note(time);
        if is_due {
            self.account(now);
            if now - self.last_offer >= STEP {
                self.look_at_cpus(now);
            }
            self.remember(now);
        }
        self.sums.looking += cpu_time().saturating_sub(costs);
        self.interval = self.choose_interval();
    }

    /// How long until the next one.
    pub fn next_look(&self) -> Duration {
        self.interval
    }

    fn choose_interval(&self) -> Duration {
        let elapsed = self.last_look - self.began;
        let planned = (elapsed / PATIENCE).clamp(OFTEN, SELDOM);
        // What comes again and again is not always to be found in the same place.
        let planned = planned.mul_f64(0.75 + fastrand::f64() / 2.0);
        let affordable = self.sums.looking.saturating_sub(FREE) * SHARE;
        planned.max(affordable.saturating_sub(elapsed))
    }

    /// The first process of a stage has ended and is still a zombie: the last that /proc says about it.
    pub fn ended(&mut self, stage: usize) {
        let now = Instant::now();
        if now - self.last_offer >= STEP / 5 {
            self.look_at_cpus(now);
        }
        if let Some(crew) = self.crews.get_mut(stage) {
            crew.account(now, &mut self.sums.stages[stage]);
            crew.look(Duration::ZERO);
        }
    }

    /// It has been waited for.
    pub fn status(&mut self, stage: usize, status: ExitStatus) {
        if let Some(crew) = self.crews.get_mut(stage) {
            crew.status = Some(status);
        }
    }

    /// The whole pipeline was stopped, and goes on now: that time does not count.
    pub fn paused(&mut self) {
        let now = Instant::now();
        let pause = now - self.last_look;
        self.began += pause;
        self.last_look = now;
        for crew in &mut self.crews {
            crew.since = (crew.since + pause).min(now);
        }
        self.past.clear();
    }

    /// What has been found out so far.
    pub fn findings(&self) -> Findings {
        Findings::of(&self.crews, &self.links, &self.sums, self.seconds())
    }

    /// What was found out lately.
    pub fn recent(&self) -> Findings {
        let Some((then, sums)) = self.past.front() else {
            return self.findings();
        };
        let seconds = (self.last_look - *then).as_secs_f64();
        Findings::of(&self.crews, &self.links, &self.sums.since(sums), seconds)
    }

    fn seconds(&self) -> f64 {
        let until = self.crews.iter().map(|crew| crew.since).max();
        (until.unwrap_or(self.last_look).max(self.last_look) - self.began).as_secs_f64()
    }

    fn look_at_pipes(&mut self) {
        for link in &self.links {
            let fill = link.fill();
            if let Some(side) = &mut self.crews[link.writer].output {
                side.fill = fill;
            }
            if let Some(side) = &mut self.crews[link.reader].input {
                side.fill = fill;
            }
        }
    }

    fn note(&mut self, time: Duration) {
        let moments: Vec<Moment> = self.crews.iter().map(|crew| crew.moment).collect();
        let fills: Vec<Option<Fill>> = (self.crews.iter())
            .map(|crew| crew.output.and_then(|side| side.fill))
            .collect();
        self.sums.note(&moments, &fills, time);
        for (link, sums) in self.links.iter().zip(&mut self.sums.pipes) {
            let (writer, reader) = (moments[link.writer], moments[link.reader]);
            if let Some(fill) = fills[link.writer]
                && writer != Moment::Ended
                && reader != Moment::Ended
            {
                let waits = matches!(writer, Moment::Output | Moment::Both);
                sums.note(fill, waits, time);
            }
        }
    }

    fn account(&mut self, now: Instant) {
        for (crew, sums) in self.crews.iter_mut().zip(&mut self.sums.stages) {
            crew.account(now, sums);
        }
    }

    fn look_at_cpus(&mut self, now: Instant) {
        self.last_offer = now;
        let members = self.crews.iter().flat_map(|crew| &crew.members);
        if let Some(offer) = self.cpus.since(members.map(|member| member.process.pid)) {
            self.sums.offer.time += offer.time;
            self.sums.offer.idle += offer.idle;
        }
    }

    fn remember(&mut self, now: Instant) {
        if self.past.back().is_none_or(|(then, _)| now - *then >= STEP) {
            self.past.push_back((now, self.sums.clone()));
        }
        while self.past.len() > 1 && now - self.past[1].0 >= RECENT {
            self.past.pop_front();
        }
    }
}

impl Crew {
    /// Looks at what it does.
    fn look(&mut self, time: Duration) {
        self.moment = self.now();
        if self.moment == Moment::Elsewhere(Cause::Child) {
            // By a process that was not there when it was last looked for.
            self.find_members();
            self.moment = self.now();
        }
        if self.moment == Moment::Active {
            self.seen_active += time;
        }
    }

    fn now(&mut self) -> Moment {
        let mut heard = Heard::new(self.input, self.output, &mut self.ways);
        for member in &mut self.members {
            member.process.look(|doing| heard.note(doing));
        }
        heard.moment()
    }

    /// Adds what has been used up since the last time, and tells that time apart.
    fn account(&mut self, now: Instant, sums: &mut super::sums::StageSums) {
        let was_there = self.moment != Moment::Ended;
        self.find_members();
        let time = now.saturating_duration_since(self.since);
        self.since = now;
        let seen_active = std::mem::take(&mut self.seen_active);
        let used = self.used();
        let cpu = used.cpu.saturating_sub(sums.cpu);
        sums.cpu += cpu;
        sums.read = used.read.max(sums.read);
        sums.written = used.written.max(sums.written);
        let activities = (self.members.iter_mut()).filter_map(|member| member.process.activity());
        let (mut known, mut queues, mut busiest) = (false, Duration::ZERO, Duration::ZERO);
        for activity in activities {
            known = true;
            queues += activity.queued;
            busiest = busiest.max(activity.busiest);
            sums.turns += activity.turns;
        }
        sums.queues += queues;
        if !was_there {
            return;
        }
        sums.time += time;
        // All that its threads ran and queued, had never two of them done so at once; and the least, had
        // they always done so together with the busiest.
        let most = if known { cpu + queues } else { time };
        let active = seen_active.max(busiest).min(most).min(time);
        let running = cpu.as_secs_f64() / (cpu + queues).as_secs_f64().max(1e-9);
        let ran = active.mul_f64(running.min(1.0));
        sums.ran += ran;
        sums.queued += active - ran;
    }

    /// What all of them have used up.
    fn used(&self) -> Used {
        let mut all = self.gone;
        for member in &self.members {
            all.add(member.process.used());
        }
        all
    }

    /// Looks for processes that belong to it, and drops those that are no longer there.
    fn find_members(&mut self) {
        let gone = &mut self.gone;
        self.members.retain_mut(|member| {
            let there = member.process.refresh();
            if !there && !member.has_parent {
                gone.add(member.process.used());
            }
            there
        });
        let mut children: BTreeSet<u32> = (self.members.iter())
            .flat_map(|member| member.process.children())
            .collect();
        for member in &mut self.members {
            member.has_parent = children.remove(&member.process.pid);
        }
        // Those that are new, and those below them.
        let family = children
            .iter()
            .flat_map(|&pid| below(pid))
            .collect::<Vec<_>>();
        children.extend(family);
        for pid in children {
            self.join(pid, true);
        }
    }

    fn join(&mut self, pid: u32, has_parent: bool) {
        if self.members.len() < PROCESSES
            && let Some(process) = Watched::new(pid)
        {
            self.members.push(Member {
                process,
                has_parent,
            });
        }
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

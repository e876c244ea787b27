//! One stage of a pipeline that is watched: which processes belong to it, what they do at a moment, and the
//! resources that they have used.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use fullbore_host::machine::Topology;

use crate::census::ProcessId;
use crate::census::descendants::descendants;
use crate::census::scope::exists;
use crate::sampling::attribution::{Attribution, Children, Part};
use crate::sampling::facts::{StageFacts, StartedStage};
use crate::sampling::moment::{AdjacentPipe, Cause, Heard, Moment};
use crate::sampling::process::Watched;
use crate::sampling::resources::Used;
use crate::sampling::sums::StageSums;
use crate::sampling::waiting::{Doing, Object, On};

/// The most processes of a stage that are sampled.
pub const PROCESSES: usize = 32;

/// The number of CPUs.
static CPUS: LazyLock<u32> = LazyLock::new(|| Topology::read().online().len().max(1) as u32);

/// What a process had used when its counters were last read.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    used: Used,
    /// Its parent, if that was in the same stage.
    parent: Option<u32>,
}

/// A stage, and the processes that belong to it.
#[derive(Debug)]
pub struct WatchedStage {
    pub facts: StageFacts,
    pub members: Vec<Member>,
    pub input: Option<AdjacentPipe>,
    pub output: Option<AdjacentPipe>,
    /// Bytes that it has read and written in memory that it shares with its neighbours.
    pub shared: (u64, u64),
    pub moment: Moment,
    /// How certain it is, at that moment, that its figures are of the process that the others wait
    /// for.
    pub attribution: Attribution,
    /// Whether its threads wait for several things at that moment, not all of which need matter.
    pub is_mixed: bool,
    /// Whether it has more processes than are sampled, so that the one that works may be hidden.
    pub has_hidden_processes: bool,
    /// The time up to which its times have been added to the sums.
    pub since: Instant,
    /// When it was found to have ended.
    pub ended_at: Option<Instant>,
    /// The time since then in which samples found it active.
    pub seen_active: Duration,
    /// The resources of processes that have ended and had no parent in the stage to wait for them.
    pub gone: Used,
    /// The resources that its processes had used before they were watched.
    pub before: Used,
    /// The time since which it has been found waiting, without having run in between.
    pub waits_since: Option<Instant>,
}

#[derive(Debug)]
pub struct Member {
    pub process: Watched,
    /// Whether its parent is also in the stage, and gets its times when it has ended.
    pub has_parent: bool,
    /// Whether it has children, and all of them are also in the stage.
    pub is_parent: bool,
    /// Whether it has started a child since the last census.
    pub has_new_child: bool,
    /// Its children at the last census, if the caller names the processes of the stage.
    pub counted_children: BTreeSet<u32>,
    /// What its threads did at the last sample.
    pub doings: Vec<Doing>,
}

impl WatchedStage {
    /// Creates a stage between these pipes, to which no process belongs yet.
    pub fn new(
        started: StartedStage,
        input: Option<AdjacentPipe>,
        output: Option<AdjacentPipe>,
        since: Instant,
    ) -> Self {
        Self {
            facts: StageFacts {
                started,
                ..StageFacts::default()
            },
            members: Vec::new(),
            input,
            output,
            shared: (0, 0),
            moment: Moment::Active,
            attribution: Attribution::Clear,
            is_mixed: false,
            has_hidden_processes: false,
            since,
            ended_at: None,
            seen_active: Duration::ZERO,
            gone: Used::NOTHING,
            before: Used::NOTHING,
            waits_since: None,
        }
    }

    /// Determines what it does, from the last sample of its threads.
    pub fn sample(&mut self, now: Instant, time: Duration) {
        self.moment = self.now();
        if self.moment == Moment::Elsewhere(Cause::Child) && !self.facts.told {
            // It waits for a process that did not exist when its processes were last searched for.
            self.find_members();
            self.listen();
            self.moment = self.now();
        }
        if self.moment == Moment::Active {
            self.seen_active += time;
        }
        self.ended_at = match self.moment {
            Moment::Ended => self.ended_at.or(Some(now)),
            _ => None,
        };
        self.waits_since = match self.moment {
            Moment::Input | Moment::Output | Moment::Both => self.waits_since.or(Some(now)),
            _ => None,
        };
    }

    fn now(&mut self) -> Moment {
        let mut heard = Heard::new([self.input, self.output], self.facts.ways);
        for &doing in self.members.iter().flat_map(|member| &member.doings) {
            heard.note(doing);
        }
        let parts = self.members.iter().map(|member| {
            let part = member.doings.iter().map(|&doing| Part::of(doing)).max();
            (part.unwrap_or(Part::Ended), member.children())
        });
        let mut members = self.members.iter();
        // What the others wait for may be something that is not sampled.
        let is_hidden = members.any(|member| member.process.has_hidden_threads);
        self.attribution = match is_hidden || self.has_hidden_processes {
            true => Attribution::Unclear,
            false => Attribution::at_a_moment(parts),
        };
        self.facts.ways = heard.ways;
        self.is_mixed = heard.is_mixed();
        heard.moment()
    }

    /// Samples what the threads of its processes do. Once one thread runs, so does the stage, and one
    /// thread of each other process is enough.
    pub fn listen(&mut self) {
        let mut runs = false;
        let told = self.facts.told;
        for member in &mut self.members {
            member.has_new_child = told && member.has_started_a_child();
            let doings = &mut member.doings;
            doings.clear();
            member.process.sample(|doing| {
                doings.push(doing);
                runs |= doing == Doing::Runs;
                !runs
            });
        }
    }

    /// Returns whether a thread of it sleeps in read(2), or a similar call, on its input.
    pub fn sleeps_in_read(&self) -> bool {
        let Some(input) = self.input else {
            return false;
        };
        let reads = Doing::Waits(On::Read(Object::Pipe(input.inode)));
        (self.members.iter()).any(|member| member.doings.contains(&reads))
    }

    /// Adds the resources that have been used since the last call to the sums, and divides that
    /// time into running and waiting.
    pub fn account(&mut self, now: Instant, sums: &mut StageSums) {
        self.find_members();
        let until = self.ended_at.unwrap_or(now);
        let time = until.saturating_duration_since(self.since);
        self.since = now;
        let seen_active = std::mem::take(&mut self.seen_active);
        let used = self.used();
        let (turns, before) = (sums.turns, sums.cpu);
        let mut cpu = used.cpu.saturating_sub(sums.cpu);
        if self.facts.told {
            // A child that was waited for brings the CPU time of its whole life. What all CPUs together cannot
            // have given it since the last time was used before.
            let members = self.members.iter_mut();
            let own: Duration = members.map(|member| member.process.own_growth()).sum();
            let earlier = cpu.saturating_sub(own + time * *CPUS);
            self.before.cpu += earlier;
            cpu -= earlier;
        }
        sums.cpu += cpu;
        let (read, written) = self.shared;
        sums.read = used.read.map(|of_calls| of_calls + read).max(sums.read);
        let of_calls = used.written;
        sums.written = of_calls.map(|bytes| bytes + written).max(sums.written);
        let activities = (self.members.iter_mut()).filter_map(|member| member.process.activity());
        let (mut known, mut queues, mut busiest) = (false, Duration::ZERO, Duration::ZERO);
        for activity in activities {
            known = true;
            queues += activity.queued;
            busiest = busiest.max(activity.busiest);
            sums.turns += activity.turns;
        }
        if (sums.turns, sums.cpu) != (turns, before) {
            // It has run since then, so this is another wait.
            self.waits_since = self.waits_since.map(|_| now);
        }
        sums.time += time;
        // The time in which a thread ran or was queued is at most the sum over all threads, which it is
        // if no two did so at once. It is at least the time of the busiest thread, which it is if the
        // others did so only together with it.
        let most = if known { cpu + queues } else { time };
        let active = seen_active.max(busiest).min(most).min(time);
        let running = cpu.as_secs_f64() / (cpu + queues).as_secs_f64().max(1e-9);
        let ran = active.mul_f64(running.min(1.0));
        sums.ran += ran;
        sums.queued += active - ran;
    }

    /// Returns the resources that all of its processes have used.
    fn used(&self) -> Used {
        let mut all = self.gone;
        for member in &self.members {
            all.add(member.process.used);
        }
        all.less(self.before)
    }

    /// Sets the processes of the stage, each with whether its parent is one of them, by a census that
    /// began at this time.
    pub fn set_members(&mut self, processes: &[(ProcessId, bool)], census_began: u64) {
        self.facts.told = true;
        let id = |member: &Member| member.process.id;
        let gone = &mut self.gone;
        self.members.retain(|member| {
            let stays = processes.iter().any(|(process, _)| *process == id(member));
            // The times of a child that was waited for are included in the times of its parent.
            let is_waited_for = member.has_parent && member.process.has_ended();
            if !stays && !is_waited_for {
                gone.add(member.process.used.as_far_as_known());
            }
            stays
        });
        self.has_hidden_processes = false;
        for &(process, has_parent) in processes {
            if let Some(member) = self.members.iter_mut().find(|member| id(member) == process) {
                member.has_parent = has_parent;
                continue;
            }
            let room = self.members.len() < PROCESSES;
            self.has_hidden_processes |= !room;
            let found = room.then(|| Watched::new(process.pid)).flatten();
            // Another process may have its id by now.
            if let Some(mut found) = found.filter(|found| found.id == process) {
                self.before.add(found.used.as_far_as_known());
                found.own_growth();
                found.activity();
                self.members.push(Member::new(found, has_parent));
            }
        }
        self.count_children(census_began);
    }

    /// Returns what its processes had used when their counters were last read.
    pub fn counted(&self) -> impl Iterator<Item = (ProcessId, Counted)> {
        self.members.iter().map(|member| {
            let process = &member.process;
            let counted = Counted {
                used: process.used,
                parent: member.has_parent.then_some(process.parent),
            };
            (process.id, counted)
        })
    }

    /// Counts the bytes of processes that were watched before from these readings on. Their CPU time counts
    /// from now on, because it is compared with the time that passes.
    pub fn count_from(&mut self, readings: &HashMap<ProcessId, Counted>) {
        let bytes_of = |used: Used| Used {
            cpu: Duration::ZERO,
            ..used.as_far_as_known()
        };
        for member in &self.members {
            if let Some(then) = readings.get(&member.process.id) {
                let since = bytes_of(member.process.used).less(bytes_of(then.used));
                self.before = self.before.less(since);
            }
        }
        let pids = self.pids();
        for (&id, then) in readings {
            // It was waited for meanwhile, and its parent has all of its bytes now.
            if then.parent.is_some_and(|parent| pids.contains(&parent)) && !exists(id) {
                self.before.add(bytes_of(then.used));
            }
        }
    }

    /// Determines which processes are children of which. A process may also have children outside of the
    /// stage.
    fn count_children(&mut self, census_began: u64) {
        let pids = self.pids();
        for member in &mut self.members {
            // The times of a child do not count for a parent that is not sampled.
            member.has_parent &= pids.contains(&member.process.parent);
            let mut children = BTreeSet::from_iter(member.process.children());
            // A child that the census did not find has no end of the pipe open, unless it was started too
            // late to be found.
            let is_older = |pid| ProcessId::of(pid).is_some_and(|id| id.start < census_began);
            let known = &member.counted_children;
            children.retain(|pid| pids.contains(pid) || known.contains(pid) || is_older(*pid));
            member.counted_children = children;
        }
        self.find_parents();
    }

    fn find_parents(&mut self) {
        let pids = self.pids();
        let members = self.members.iter();
        let parents: BTreeSet<u32> = members.map(|member| member.process.parent).collect();
        for member in &mut self.members {
            let is_complete = member.counted_children.is_subset(&pids);
            member.is_parent = is_complete && parents.contains(&member.process.id.pid);
        }
    }

    fn pids(&self) -> BTreeSet<u32> {
        let members = self.members.iter();
        members.map(|member| member.process.id.pid).collect()
    }

    /// Searches for processes that belong to it, and removes those that no longer exist.
    fn find_members(&mut self) {
        let gone = &mut self.gone;
        let told = self.facts.told;
        self.members.retain_mut(|member| {
            // There may be thousands of named processes, most of them asleep.
            let there = (told && member.process.has_slept()) || member.process.refresh();
            if !there && !member.has_parent {
                gone.add(member.process.used.as_far_as_known());
            }
            there
        });
        if self.facts.told {
            return;
        }
        let mut children: BTreeSet<u32> = (self.members.iter())
            .flat_map(|member| descendants(member.process.id.pid))
            .collect();
        for member in &mut self.members {
            member.has_parent = children.remove(&member.process.id.pid);
        }
        self.has_hidden_processes = false;
        for pid in children {
            self.join(pid, true);
        }
        self.find_parents();
    }

    pub fn join(&mut self, pid: u32, has_parent: bool) {
        if self.members.len() == PROCESSES {
            self.has_hidden_processes = true;
        } else if let Some(process) = Watched::new(pid) {
            self.members.push(Member::new(process, has_parent));
        }
    }
}

impl Member {
    fn new(process: Watched, has_parent: bool) -> Self {
        Self {
            process,
            has_parent,
            is_parent: false,
            has_new_child: false,
            counted_children: BTreeSet::new(),
            doings: Vec::new(),
        }
    }

    fn children(&self) -> Children {
        match (self.has_new_child, self.is_parent) {
            (true, _) => Children::StartedSince,
            (false, true) => Children::InStage,
            (false, false) => Children::Elsewhere,
        }
    }

    /// Returns whether it has a child that it did not have at the last census.
    fn has_started_a_child(&self) -> bool {
        let mut children = self.process.children().into_iter();
        children.any(|child| !self.counted_children.contains(&child))
    }
}

//! One stage of a pipeline that is watched: which processes belong to it, what they do at a moment, and what
//! they have used up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::attribution::{Attribution, Children, Part};
use super::census::ProcessId;
use super::descendants::{descendants, kernel_lists_children};
use super::moment::{AdjacentPipe, Cause, Heard, Moment, Ways};
use super::numbers::{Mixes, StageFacts, StartedStage};
use super::process::{Used, Watched, started};
use super::sums::StageSums;
use super::waiting::{Doing, Object, On};

/// Processes of a stage that are looked at.
pub const PROCESSES: usize = 32;

/// A stage, and the processes that belong to it.
#[derive(Debug)]
pub struct WatchedStage {
    pub facts: StageFacts,
    pub members: Vec<Member>,
    pub input: Option<AdjacentPipe>,
    pub output: Option<AdjacentPipe>,
    pub moment: Moment,
    /// Whose figures it has at that moment.
    pub attribution: Attribution,
    /// Since when its times are not yet among the sums.
    pub since: Instant,
    /// Time since then in which looks found it active, and in all that looks stand for.
    pub seen_active: Duration,
    /// What those processes have used up that have ended and had no parent in the stage to wait for them.
    pub gone: Used,
    /// What its processes had used up before they were watched.
    pub before: Used,
    /// Since when it has been found waiting, without having run in between.
    pub waits_since: Option<Instant>,
}

#[derive(Debug)]
pub struct Member {
    pub process: Watched,
    /// Whether its parent is one of the others, and will have its times when it has ended.
    pub has_parent: bool,
    /// Whether it has children, all of which are among the others.
    pub is_parent: bool,
    /// Whether it has started one since the last census.
    pub has_new_child: bool,
    /// Its children at the last census, where the stage's processes are told.
    pub counted_children: BTreeSet<u32>,
    /// What its threads did when it was last looked at.
    pub doings: Vec<Doing>,
}

impl WatchedStage {
    /// A stage between these pipes, to which no process belongs yet.
    pub fn new(
        started: StartedStage,
        input: Option<AdjacentPipe>,
        output: Option<AdjacentPipe>,
        since: Instant,
    ) -> Self {
        Self {
            facts: StageFacts {
                started,
                ways: Ways::default(),
                status: None,
                mixes: Mixes::default(),
                told: false,
            },
            members: Vec::new(),
            input,
            output,
            moment: Moment::Active,
            attribution: Attribution::Clear,
            since,
            seen_active: Duration::ZERO,
            gone: Used::NOTHING,
            before: Used::NOTHING,
            waits_since: None,
        }
    }

    /// Looks at what it does.
    pub fn look(&mut self, now: Instant, time: Duration) {
        self.moment = self.now();
        if self.moment == Moment::Elsewhere(Cause::Child) && !self.facts.told {
            // By a process that was not there when it was last looked for.
            self.find_members();
            self.listen();
            self.moment = self.now();
        }
        if self.moment == Moment::Active {
            self.seen_active += time;
        }
        self.waits_since = match self.moment {
            Moment::Input | Moment::Output | Moment::Both => self.waits_since.or(Some(now)),
            _ => None,
        };
    }

    fn now(&mut self) -> Moment {
        let mut heard = Heard::new(self.input, self.output, &mut self.facts.ways);
        for &doing in self.members.iter().flat_map(|member| &member.doings) {
            heard.note(doing);
        }
        let parts = self.members.iter().map(|member| {
            let part = member.doings.iter().map(|&doing| Part::of(doing)).max();
            (part.unwrap_or(Part::Ended), member.children())
        });
        self.attribution = Attribution::at_a_moment(parts);
        heard.moment()
    }

    /// Finds out what the threads of its processes do. Once one runs, so does the stage: then one thread of
    /// each of the others is enough.
    pub fn listen(&mut self) {
        let mut runs = false;
        let told = self.facts.told;
        for member in &mut self.members {
            member.has_new_child = told && member.has_started_a_child();
            let doings = &mut member.doings;
            doings.clear();
            member.process.look(|doing| {
                doings.push(doing);
                runs |= doing == Doing::Runs;
                !runs
            });
        }
    }

    /// Whether something of it sleeps in read(2), or the like, from its input.
    pub fn sleeps_in_read(&self) -> bool {
        let Some(input) = self.input else {
            return false;
        };
        let reads = Doing::Waits(On::Read(Object::Pipe(input.inode)));
        (self.members.iter()).any(|member| member.doings.contains(&reads))
    }

    /// Adds what has been used up since the last time, and tells that time apart.
    pub fn account(&mut self, now: Instant, sums: &mut StageSums) {
        let was_there = self.moment != Moment::Ended;
        self.find_members();
        let time = now.saturating_duration_since(self.since);
        self.since = now;
        let seen_active = std::mem::take(&mut self.seen_active);
        let used = self.used();
        let (turns, before) = (sums.turns, sums.cpu);
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
        if (sums.turns, sums.cpu) != (turns, before) {
            // It has run since: that is another wait.
            self.waits_since = self.waits_since.map(|_| now);
        }
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
        all.less(self.before)
    }

    /// These processes are it from now on, each with whether its parent is one of them, by a census that
    /// began at this time.
    pub fn set_members(&mut self, processes: &[(ProcessId, bool)], census_began: u64) {
        self.facts.told = true;
        let id = |member: &Member| ProcessId {
            pid: member.process.pid,
            start: member.process.start,
        };
        let gone = &mut self.gone;
        self.members.retain(|member| {
            let stays = processes.iter().any(|(process, _)| *process == id(member));
            // The times of a child that was waited for are counted in its parent.
            let is_waited_for = member.has_parent && member.process.has_ended();
            if !stays && !is_waited_for {
                gone.add(member.process.used().as_far_as_known());
            }
            stays
        });
        for &(process, has_parent) in processes {
            if let Some(member) = self.members.iter_mut().find(|member| id(member) == process) {
                member.has_parent = has_parent;
                continue;
            }
            let room = self.members.len() < PROCESSES;
            let found = room.then(|| Watched::new(process.pid)).flatten();
            // Another may have its number by now.
            if let Some(mut found) = found.filter(|found| found.start == process.start) {
                self.before.add(found.used().as_far_as_known());
                found.activity();
                self.members.push(Member {
                    process: found,
                    has_parent,
                    is_parent: false,
                    has_new_child: false,
                    counted_children: BTreeSet::new(),
                    doings: Vec::new(),
                });
            }
        }
        self.count_children(census_began);
    }

    /// Finds out which processes have started which. A process may also have children outside of the stage.
    fn count_children(&mut self, census_began: u64) {
        let pids = self.pids();
        for member in &mut self.members {
            let mut children = BTreeSet::from_iter(member.process.children());
            // One that the census did not find has no end of the pipe, unless it was started too late for it.
            children.retain(|child| {
                pids.contains(child)
                    || member.counted_children.contains(child)
                    || started(*child).is_some_and(|start| start < census_began)
            });
            member.counted_children = children;
        }
        self.find_parents();
    }

    fn find_parents(&mut self) {
        let pids = self.pids();
        let parents: BTreeSet<u32> = (self.members.iter())
            .map(|member| member.process.parent)
            .collect();
        for member in &mut self.members {
            member.is_parent =
                parents.contains(&member.process.pid) && member.counted_children.is_subset(&pids);
        }
    }

    fn pids(&self) -> BTreeSet<u32> {
        (self.members.iter())
            .map(|member| member.process.pid)
            .collect()
    }

    /// Looks for processes that belong to it, and drops those that are no longer there.
    fn find_members(&mut self) {
        let gone = &mut self.gone;
        let told = self.facts.told;
        self.members.retain_mut(|member| {
            // Of others there may be thousands, most of them asleep.
            let there = (told && member.process.has_slept()) || member.process.refresh();
            if !there && !member.has_parent {
                gone.add(member.process.used().as_far_as_known());
            }
            there
        });
        if self.facts.told {
            return;
        }
        let mut children: BTreeSet<u32> = (self.members.iter())
            .flat_map(|member| match kernel_lists_children() {
                true => member.process.children(),
                false => Vec::from_iter(descendants(member.process.pid)),
            })
            .collect();
        for member in &mut self.members {
            member.has_parent = children.remove(&member.process.pid);
        }
        // Those that are new, and those below them.
        let family = children
            .iter()
            .flat_map(|&pid| descendants(pid))
            .collect::<Vec<_>>();
        children.extend(family);
        for pid in children {
            self.join(pid, true);
        }
        self.find_parents();
    }

    pub fn join(&mut self, pid: u32, has_parent: bool) {
        if self.members.len() < PROCESSES
            && let Some(process) = Watched::new(pid)
        {
            self.members.push(Member {
                process,
                has_parent,
                is_parent: false,
                has_new_child: false,
                counted_children: BTreeSet::new(),
                doings: Vec::new(),
            });
        }
    }
}

impl Member {
    fn children(&self) -> Children {
        match (self.has_new_child, self.is_parent) {
            (true, _) => Children::StartedSince,
            (false, true) => Children::InStage,
            (false, false) => Children::Elsewhere,
        }
    }

    /// Whether it has a child that it did not have at the last census.
    fn has_started_a_child(&self) -> bool {
        let children = self.process.children();
        children
            .iter()
            .any(|child| !self.counted_children.contains(child))
    }
}

//! Looks at a pipeline from its start to its end, each look standing for the time since the last.
//!
//! The one idea: what the kernel counts is exact, so samples only tell it apart. How long a stage ran
//! is counted; while it did not, it slept, and what for is what samples tell. What is looked at each
//! time is little (what threads do, how full pipes are); what only ever grows (times, bytes, the
//! processes of a stage) is looked at seldom, and when a stage has ended.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::census::ProcessId;
use super::cpus::{Cpus, Reading, of_this_thread};
use super::findings::Findings;
use super::link::{Fill, Link, WriteEnd};
use super::moment::{AdjacentPipe, Moment};
use super::numbers::{Bytes, Mixes, Numbers, StageFacts, StartedStage};
use super::stage::WatchedStage;
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

/// For so long, the capacity of a pipe is taken for what it was when it was last asked for.
const CAPACITY_LASTS: Duration = Duration::from_secs(5);

/// How far back the recent past goes, and in which steps.
const RECENT: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(250);

/// Of pipelines that others have started, which are looked at more seldom, it goes back further: for so
/// long, and until there are looks enough for a verdict.
const RECENT_OF_OTHERS: Duration = Duration::from_secs(5);
const ENOUGH_LOOKS: u64 = 20;

/// A pipeline that is watched.
#[derive(Debug)]
pub struct Watch {
    stages: Vec<WatchedStage>,
    links: Vec<Link>,
    /// What each pipe holds, and when it was last opened to ask.
    asked: Vec<Option<(usize, Instant)>>,
    sums: Sums,
    past: VecDeque<(Instant, Sums)>,
    cpus: Cpus,
    last_offer: Instant,
    began: Instant,
    last_look: Instant,
    interval: Duration,
    /// Whether others have started it.
    is_of_others: bool,
}

impl Watch {
    /// Of a pipeline whose processes have just been started.
    pub fn new(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let mut watch = Self::of(stages, links);
        for stage in &mut watch.stages {
            stage.join(stage.facts.started.pid, false);
        }
        watch.look_at_cpus(watch.began);
        watch
    }

    /// The same, with `began` for when the first of its processes was started: their CPU time counts from
    /// there.
    pub fn started_at(mut self, began: Instant) -> Self {
        self.began = began;
        for stage in &mut self.stages {
            stage.since = began;
        }
        self
    }

    /// Of a pipeline that others have started. The caller says which processes [are](Self::set_members) its
    /// stages, and when to [take a sample](Self::sample).
    pub(crate) fn of_others(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let mut watch = Self::of(stages, links);
        watch.is_of_others = true;
        watch
    }

    fn of(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let now = Instant::now();
        let side = |link: &Link| {
            let inode = link.inode()?;
            Some(AdjacentPipe { inode, fill: None })
        };
        let stages: Vec<WatchedStage> = stages
            .into_iter()
            .enumerate()
            .map(|(number, started)| {
                let input = (links.iter().find(|link| link.reader == number)).and_then(side);
                let output = (links.iter().find(|link| link.writer == number)).and_then(side);
                WatchedStage::new(started, input, output, now)
            })
            .collect();
        Self {
            sums: Sums::new(stages.len(), links.len()),
            asked: vec![None; links.len()],
            stages,
            links,
            past: VecDeque::new(),
            cpus: Cpus::default(),
            last_offer: now,
            began: now,
            last_look: now,
            interval: OFTEN,
            is_of_others: false,
        }
    }

    /// One look at everything.
    pub fn look(&mut self) {
        let costs = of_this_thread();
        let now = Instant::now();
        let is_due = self.sums.looks % LOOKS_PER_ACCOUNT == LOOKS_PER_ACCOUNT - 1;
        self.look_at_moment(now);
        if is_due {
            self.account(now);
            if now - self.last_offer >= STEP {
                self.look_at_cpus(now);
            }
            self.remember(now);
        }
        self.sums.looking += of_this_thread().saturating_sub(costs);
        self.interval = self.choose_interval();
    }

    /// Takes a sample of what all processes do, when about as much time as `interval` has passed since the last.
    pub(crate) fn sample(&mut self, interval: Duration) {
        self.interval = interval;
        self.look_at_moment(Instant::now());
    }

    /// One look at what only grows, for which the idle times of CPUs have been read.
    pub(crate) fn read_counters(&mut self, cpus: Option<&Reading>) {
        let now = Instant::now();
        let before: u64 = self.sums.stages.iter().map(|stage| stage.turns).sum();
        self.account(now);
        // A stage that did not run blocked nobody and was blocked by nobody.
        let turns: u64 = self.sums.stages.iter().map(|stage| stage.turns).sum();
        if turns > before {
            let members = self.stages.iter().flat_map(|stage| &stage.members);
            let pids = members.map(|member| member.process.pid);
            if let Some(offer) = cpus.and_then(|cpus| self.cpus.until(cpus, pids)) {
                self.sums.offer.time += offer.time;
                self.sums.offer.idle += offer.idle;
            }
        }
        self.remember(now);
    }

    /// These processes are a stage from now on, each with whether its parent is one of them. They were found
    /// by a census that began at this time, in clock ticks since boot.
    pub(crate) fn set_members(
        &mut self,
        stage: usize,
        to: StartedStage,
        processes: &[(ProcessId, bool)],
        mixes: Mixes,
        census_began: u64,
    ) {
        let stage = &mut self.stages[stage];
        stage.facts.started = to;
        stage.facts.mixes = mixes;
        stage.set_members(processes, census_began);
    }

    /// This write end has to be open still when a FIFO is looked at.
    pub(crate) fn set_write_end(&mut self, link: usize, write_end: Option<WriteEnd>) {
        self.links[link].write_end = write_end;
    }

    /// How full a pipe was at the last look.
    pub(crate) fn fill(&self, link: usize) -> Option<Fill> {
        self.stages[self.links[link].writer].output?.fill
    }

    /// What a stage did at the last look.
    pub(crate) fn moment(&self, stage: usize) -> Moment {
        self.stages[stage].moment
    }

    /// How long a stage has been in the same wait, at least.
    pub(crate) fn waiting_time(&self, stage: usize) -> Duration {
        let since = self.stages[stage].waits_since.unwrap_or(self.last_look);
        self.last_look.saturating_duration_since(since)
    }

    /// Bytes that have gone through a pipe so far.
    pub(crate) fn bytes(&self, link: usize) -> Bytes {
        let link = &self.links[link];
        let side = |stage: usize| (&self.stages[stage].facts, &self.sums.stages[stage]);
        Bytes::between(side(link.writer), side(link.reader))
    }

    /// Files that it keeps open.
    pub(crate) fn files(&self) -> usize {
        let members = self.stages.iter().flat_map(|stage| &stage.members);
        self.links.len() + members.map(|member| member.process.files()).sum::<usize>()
    }

    fn look_at_moment(&mut self, now: Instant) {
        // Had this process been kept from looking, one look would stand for too much.
        let time = (now - self.last_look).min(self.interval * 4);
        self.last_look = now;
        for stage in &mut self.stages {
            stage.listen();
        }
        self.look_at_pipes(now);
        for stage in &mut self.stages {
            stage.look(now, time);
        }
        self.note(time);
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
    pub fn ended(&mut self, number: usize) {
        let now = Instant::now();
        if now - self.last_offer >= STEP / 5 {
            self.look_at_cpus(now);
        }
        if let Some(stage) = self.stages.get_mut(number) {
            stage.account(now, &mut self.sums.stages[number]);
            stage.listen();
            stage.look(now, Duration::ZERO);
        }
    }

    /// It has been waited for.
    pub fn status(&mut self, number: usize, status: ExitStatus) {
        if let Some(stage) = self.stages.get_mut(number) {
            stage.facts.status = Some(status);
        }
    }

    /// The whole pipeline was stopped, and goes on now: that time does not count.
    pub fn paused(&mut self) {
        let now = Instant::now();
        let pause = now - self.last_look;
        self.began += pause;
        self.last_look = now;
        for stage in &mut self.stages {
            stage.since = (stage.since + pause).min(now);
        }
        self.past.clear();
    }

    /// What has been found out so far.
    pub fn findings(&self) -> Findings {
        self.summed(&self.sums, self.seconds())
    }

    /// What was found out lately.
    pub fn recent(&self) -> Findings {
        let Some((then, sums)) = self.past.front() else {
            return self.findings();
        };
        let seconds = (self.last_look - *then).as_secs_f64();
        self.summed(&self.sums.since(sums), seconds)
    }

    fn summed(&self, sums: &Sums, seconds: f64) -> Findings {
        let facts: Vec<&StageFacts> = self.stages.iter().map(|stage| &stage.facts).collect();
        Numbers::of(&facts, &self.links, sums, seconds).into()
    }

    fn seconds(&self) -> f64 {
        let until = self.stages.iter().map(|stage| stage.since).max();
        (until.unwrap_or(self.last_look).max(self.last_look) - self.began).as_secs_f64()
    }

    /// Asks how full the pipes are. A process sleeps in read(2) because the pipe is empty, which then need not
    /// be opened to ask: it is just then that the end of the file matters, which an end that is open here puts
    /// off.
    fn look_at_pipes(&mut self, now: Instant) {
        for (link, asked) in self.links.iter().zip(&mut self.asked) {
            let known =
                asked.filter(|(_, then)| now.saturating_duration_since(*then) < CAPACITY_LASTS);
            let fill = match known {
                Some((capacity, _)) if self.stages[link.reader].sleeps_in_read() => Some(Fill {
                    queued: 0,
                    capacity,
                }),
                _ => {
                    let fill = link.fill();
                    *asked = fill.map(|fill| (fill.capacity, now));
                    fill
                }
            };
            if let Some(side) = &mut self.stages[link.writer].output {
                side.fill = fill;
            }
            if let Some(side) = &mut self.stages[link.reader].input {
                side.fill = fill;
            }
        }
    }

    fn note(&mut self, time: Duration) {
        let moments: Vec<Moment> = self.stages.iter().map(|stage| stage.moment).collect();
        let fills: Vec<Option<Fill>> = (self.stages.iter())
            .map(|stage| stage.output.and_then(|side| side.fill))
            .collect();
        self.sums.note(&moments, &fills, time);
        for (stage, sums) in self.stages.iter().zip(&mut self.sums.stages) {
            sums.doubtful.note(stage.attribution, time);
        }
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
        for (stage, sums) in self.stages.iter_mut().zip(&mut self.sums.stages) {
            stage.account(now, sums);
        }
    }

    /// The pipes may hold more or less than they did.
    pub(crate) fn requery_capacities(&mut self) {
        self.asked.fill(None);
    }

    fn look_at_cpus(&mut self, now: Instant) {
        self.last_offer = now;
        let members = self.stages.iter().flat_map(|stage| &stage.members);
        if let Some(offer) = self.cpus.since(members.map(|member| member.process.pid)) {
            self.sums.offer.time += offer.time;
            self.sums.offer.idle += offer.idle;
        }
    }

    fn remember(&mut self, now: Instant) {
        if self.past.back().is_none_or(|(then, _)| now - *then >= STEP) {
            self.past.push_back((now, self.sums.clone()));
        }
        let (recent, looks) = match self.is_of_others {
            true => (RECENT_OF_OTHERS, ENOUGH_LOOKS),
            false => (RECENT, 0),
        };
        while let Some((then, sums)) = self.past.get(1)
            && now - *then >= recent
            && self.sums.looks - sums.looks >= looks
        {
            self.past.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use fullbore::Pipe;
    use rustix::fs::{CWD, FileType, Mode, OFlags};
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    use super::super::attribution::Attribution;
    use super::super::census::Census;
    use super::super::descendants::descendants;
    use super::super::moment::Cause;
    use super::super::verdict::VerdictKind;
    use super::*;

    /// Two stages with a pipe between them.
    struct Pair {
        children: [Child; 2],
        watch: Watch,
    }

    fn start(writer: &str, reader: &str) -> Pair {
        let pipe = Pipe::new().unwrap();
        let path = format!("/proc/self/fd/{}", pipe.writer.as_fd().as_raw_fd());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let link = Link {
            writer: 0,
            reader: 1,
            handle: rustix::fs::open(path, flags, Mode::empty()).unwrap(),
            capacity: 65536,
            wanted: 1 << 20,
            write_end: None,
        };
        let start = |line: &str, stdin: Stdio, stdout: Stdio| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).stdin(stdin).stdout(stdout);
            command.spawn().unwrap()
        };
        let children = [
            start(writer, Stdio::null(), pipe.writer.into()),
            start(reader, pipe.reader.into(), Stdio::null()),
        ];
        let stages = [(writer, &children[0]), (reader, &children[1])];
        let stages = stages.map(|(text, child)| StartedStage {
            text: text.to_owned(),
            pid: child.id(),
        });
        Pair {
            watch: Watch::new(stages.into(), vec![link]),
            children,
        }
    }

    impl Pair {
        /// Looks until it has been seen, which it has to be.
        fn look_until(&mut self, what: &str, seen: impl Fn(&mut Watch) -> bool) {
            let began = Instant::now();
            while !seen(&mut self.watch) {
                assert!(
                    began.elapsed() < Duration::from_secs(60),
                    "{what}: not seen"
                );
                thread::sleep(self.watch.next_look());
                self.watch.look();
            }
        }

        /// Tells which processes are a stage, as a census finds them.
        fn set_members(&mut self, stage: usize) {
            // What is started afterwards differs from what it found by a tick at least.
            thread::sleep(Duration::from_millis(20));
            let census = Census::look().unwrap();
            let pid = self.children[stage].id();
            let of = |pid: u32| census.processes[census.process(pid).unwrap()].id;
            let mut processes = vec![(of(pid), false)];
            processes.extend(descendants(pid).into_iter().map(|child| (of(child), true)));
            let started = self.watch.stages[stage].facts.started.clone();
            let mixes = Mixes::default();
            (self.watch).set_members(stage, started, &processes, mixes, census.began);
        }

        fn is_zombie(&self, stage: usize) -> bool {
            let pid = Pid::from_child(&self.children[stage]);
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid), options).unwrap().is_some()
        }

        /// Watches to the end.
        fn end(mut self) -> Findings {
            for stage in 0..2 {
                while !self.is_zombie(stage) {
                    thread::sleep(self.watch.next_look());
                    self.watch.look();
                }
                self.watch.ended(stage);
                let status = self.children[stage].wait().unwrap();
                self.watch.status(stage, status);
            }
            self.watch.findings()
        }

        fn kill(mut self) {
            for child in &mut self.children {
                for pid in descendants(child.id()) {
                    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
                }
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    #[test]
    fn a_pipeline_that_is_over_before_the_first_look_is_accounted_for() {
        let pair = start("head -c 300000 /dev/zero", "wc -c; exit 3");
        while !(pair.is_zombie(0) && pair.is_zombie(1)) {
            thread::sleep(Duration::from_millis(1));
        }
        let found = pair.end();
        assert_eq!(found.verdict.kind, VerdictKind::TooShort);
        let [writer, reader] = &found.numbers.stages[..] else {
            panic!("{found:?}")
        };
        assert_eq!((writer.exit_code, reader.exit_code), (Some(0), Some(3)));
        assert!(writer.cpu_seconds > 0.0 && reader.cpu_seconds > 0.0);
        let pipe = &found.numbers.pipes[0];
        assert_eq!(pipe.bytes.bytes, Some(300_000), "{pipe:?}");
        assert_eq!((pipe.capacity, pipe.wanted), (65536, 1 << 20));
    }

    #[test]
    fn cpu_time_of_all_that_a_stage_has_started_counts_also_of_those_who_have_ended() {
        let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i + 1)); done";
        let found = start(&format!("sh -c '{burn}'; sh -c '{burn}'; :"), "cat").end();
        let alone = start(burn, "cat").end();
        let cpu = |found: &Findings| found.numbers.stages[0].cpu_seconds;
        // Times of children are told in hundredths of a second.
        let (twice, once) = (cpu(&found), cpu(&alone));
        assert!(twice > 1.3 * once - 0.03, "{twice} {once}");
        // On a busy machine it waits for a CPU more than it runs.
        let time = found.numbers.stages[0].time;
        assert!(
            time.ran > 0.0 && time.ran + time.waited_for_cpu > 0.1,
            "{found:?}"
        );
    }

    #[test]
    fn who_waits_for_whom_is_seen() {
        let mut pair = start("sleep 60", "cat");
        pair.look_until("a wait for input", |watch| {
            let [writer, reader] = [0, 1].map(|stage| watch.stages[stage].moment);
            writer == Moment::Elsewhere(Cause::Timer) && reader == Moment::Input
        });
        pair.kill();
        let mut pair = start("cat /dev/zero", "sleep 60");
        pair.look_until("a wait for output", |watch| {
            let [writer, reader] = [0, 1].map(|stage| watch.stages[stage].moment);
            writer == Moment::Output && reader == Moment::Elsewhere(Cause::Timer)
        });
        pair.kill();
    }

    #[test]
    fn a_pipe_whose_reader_sleeps_in_read_is_known_to_be_empty_without_opening_it() {
        let mut pair = start("exec sleep 60", "exec cat");
        pair.look_until("a wait for input", |watch| {
            watch.stages[1].moment == Moment::Input && watch.asked[0].is_some()
        });
        let (_, when) = pair.watch.asked[0].unwrap();
        for _ in 0..50 {
            pair.watch.sample(OFTEN);
            let (_, then) = pair.watch.asked[0].unwrap();
            // On a machine that is so slow, it may have had to be asked again.
            assert!(then == when || when.elapsed() >= CAPACITY_LASTS);
            assert_eq!(pair.watch.fill(0).map(|fill| fill.queued), Some(0));
        }
        pair.watch.requery_capacities();
        pair.watch.sample(OFTEN);
        assert!(pair.watch.asked[0].unwrap().1 > when);
        pair.kill();
    }

    #[test]
    fn a_shell_is_what_it_waits_for_and_what_it_has_left_behind() {
        let mut pair = start("sh -c 'cat /dev/zero; :'; :", "sleep 60");
        pair.look_until("a child that writes", |watch| {
            watch.stages[0].moment == Moment::Output
        });
        pair.kill();
        // The shell has ended, and what it started goes on.
        let mut pair = start("sleep 60 & kill -STOP $$", "cat");
        pair.look_until("who is left", |watch| watch.stages[0].members.len() == 2);
        kill_process(Pid::from_child(&pair.children[0]), Signal::CONT).unwrap();
        while !pair.is_zombie(0) {
            thread::sleep(Duration::from_millis(1));
        }
        let left = pair.watch.stages[0].members[1].process.pid;
        pair.watch.ended(0);
        pair.children[0].wait().unwrap();
        for _ in 0..20 {
            pair.watch.look();
        }
        assert_eq!(pair.watch.stages[0].moment, Moment::Elsewhere(Cause::Timer));
        kill_process(Pid::from_raw(left as i32).unwrap(), Signal::KILL).unwrap();
        pair.look_until("its end", |watch| watch.stages[0].moment == Moment::Ended);
        pair.kill();
    }

    #[test]
    fn a_child_that_no_census_has_found_yet_makes_it_unclear_whose_the_figures_are() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let mut pair = start(&format!("cat {}; sleep 60; :", fifo.display()), "exec cat");
        let shell = pair.children[0].id();
        pair.look_until("the first child", |_| descendants(shell).len() == 1);
        pair.set_members(0);
        pair.watch.sample(OFTEN);
        assert_eq!(pair.watch.stages[0].attribution, Attribution::Clear);
        let first = descendants(shell);
        std::fs::write(&fifo, "\n").unwrap();
        pair.look_until("the second child", |_| {
            let now = descendants(shell);
            now.len() == 1 && now != first
        });
        pair.watch.sample(OFTEN);
        assert_eq!(pair.watch.stages[0].attribution, Attribution::Unclear);
        pair.set_members(0);
        pair.watch.sample(OFTEN);
        assert_eq!(pair.watch.stages[0].attribution, Attribution::Clear);
        pair.kill();
    }

    #[test]
    fn a_stage_that_is_stopped_is_seen_to_be() {
        let mut pair = start("exec sleep 60", "exec cat");
        kill_process(Pid::from_child(&pair.children[1]), Signal::STOP).unwrap();
        pair.look_until("a stop", |watch| {
            watch.stages[1].moment == Moment::Elsewhere(Cause::Stopped)
        });
        pair.kill();
    }

    #[test]
    fn time_in_which_it_was_stopped_does_not_count() {
        let mut pair = start("sleep 60", "cat");
        let began = Instant::now();
        pair.watch.look();
        let before = began.elapsed();
        thread::sleep(Duration::from_millis(300));
        pair.watch.paused();
        let paused = Instant::now();
        pair.watch.look();
        pair.watch.account(Instant::now());
        let after = paused.elapsed();
        let found = pair.watch.findings();
        let most = (before + after).as_secs_f64() + 0.1;
        assert!(found.numbers.seconds < most, "{found:?}");
        assert!(found.numbers.stages[0].seconds < most, "{found:?}");
        pair.kill();
    }

    #[test]
    fn whoever_has_gone_unnoticed_has_ended() {
        let mut pair = start("exec sleep 60", "exec cat");
        pair.watch.look();
        for child in &mut pair.children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for _ in 0..20 {
            pair.watch.look();
        }
        assert!((pair.watch.stages.iter()).all(|stage| stage.moment == Moment::Ended));
        assert!(pair.watch.findings().numbers.seconds > 0.0);
    }

    #[test]
    fn looking_takes_no_more_than_its_share() {
        let mut pair = start("sleep 60", "cat");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(700) {
            thread::sleep(pair.watch.next_look());
            pair.watch.look();
        }
        let time = began.elapsed();
        let looking = pair.watch.sums.looking;
        // The last look may have been a dear one.
        let most = FREE * 2 + time / SHARE + looking / pair.watch.sums.looks as u32 * 4;
        assert!(looking <= most, "{looking:?} of {time:?}");
        pair.kill();
    }
}

//! Samples a pipeline from its start to its end. Each sample represents the time since the last
//! one.
//!
//! The kernel's counters are exact, so samples only divide up what they count. The kernel counts how
//! long a stage ran; for the rest of the time it slept, and samples show what it waited for. Each
//! sample reads little (what threads do, how full pipes are). Counters, which only grow (times,
//! bytes, the processes of a stage), are read less often, and when a stage has ended.

use std::collections::{HashMap, VecDeque};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::census::ProcessId;
use super::cpus::{Cpus, Reading, of_this_thread};
use super::findings::Findings;
use super::link::{Fill, Link, WriteEnd};
use super::moment::{AdjacentPipe, Moment};
use super::numbers::{Bytes, Mixes, Numbers, StageFacts, StartedStage};
use super::rings::Rings;
use super::stage::{Counted, WatchedStage};
use super::sums::{Sums, Unread};

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

/// How long the capacity of a pipe is assumed to be unchanged after it was read.
const CAPACITY_LASTS: Duration = Duration::from_secs(5);

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
    stages: Vec<WatchedStage>,
    links: Vec<Link>,
    /// The memory that is shared instead of each pipe.
    rings: Vec<Rings>,
    /// The capacity of each pipe, and when it was last opened to read that.
    asked: Vec<Option<(usize, Instant)>>,
    sums: Sums,
    past: VecDeque<(Instant, Sums)>,
    cpus: Cpus,
    last_offer: Instant,
    began: Instant,
    last_sample: Instant,
    interval: Duration,
    /// Whether another program has started it.
    is_of_others: bool,
}

/// What processes had used when their counters were last read.
pub(crate) type Readings = HashMap<ProcessId, Counted>;

impl Watch {
    /// Watches a pipeline whose processes have just been started.
    pub fn new(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let mut watch = Self::of(stages, links);
        for stage in &mut watch.stages {
            stage.join(stage.facts.started.pid, false);
        }
        watch.sample_cpus(watch.began);
        watch
    }

    /// Sets when the first of its processes was started; their CPU time counts from then on.
    pub fn started_at(mut self, began: Instant) -> Self {
        self.began = began;
        for stage in &mut self.stages {
            stage.since = began;
        }
        self
    }

    /// Watches a pipeline that another program has started. The caller [sets](Self::set_members) the
    /// processes of its stages, and decides when to [take a sample](Self::sample).
    pub(crate) fn of_others(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let mut watch = Self::of(stages, links);
        watch.is_of_others = true;
        watch
    }

    fn of(stages: Vec<StartedStage>, links: Vec<Link>) -> Self {
        let now = Instant::now();
        let side = |link: &Link| {
            let inode = link.inode()?;
            Some(AdjacentPipe {
                inode,
                fill: None,
                awaited: false,
            })
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
            rings: links.iter().map(|_| Rings::default()).collect(),
            stages,
            links,
            past: VecDeque::new(),
            cpus: Cpus::default(),
            last_offer: now,
            began: now,
            last_sample: now,
            interval: OFTEN,
            is_of_others: false,
        }
    }

    /// Takes one sample of everything.
    pub fn sample(&mut self) {
        let costs = of_this_thread();
        let now = Instant::now();
        let is_due = self.sums.samples % SAMPLES_PER_ACCOUNT == SAMPLES_PER_ACCOUNT - 1;
        if self.sums.samples < SAMPLES_PER_ACCOUNT {
            // The two ends of a pipe meet soon or never.
            self.look_for_rings();
        }
        self.sample_moment(now);
        if is_due {
            self.account(now);
            self.note_unread();
            if now - self.last_offer >= STEP {
                self.sample_cpus(now);
            }
            self.remember(now);
        }
        self.sums.sampling += of_this_thread().saturating_sub(costs);
        self.interval = self.choose_interval();
    }

    /// Takes a sample of what all processes do, about `interval` after the last one.
    pub(crate) fn sample_processes(&mut self, interval: Duration) {
        self.interval = interval;
        self.sample_moment(Instant::now());
    }

    /// Reads the counters; the caller has read the idle times of the CPUs.
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

    /// Sets the processes of a stage, each with whether its parent is one of them. They were found by a
    /// census that began at this time, in clock ticks since boot.
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

    /// Returns what its processes had used when their counters were last read.
    pub(crate) fn readings(&self) -> impl Iterator<Item = (ProcessId, Counted)> {
        self.stages.iter().flat_map(WatchedStage::counted)
    }

    /// Counts the bytes of processes that were watched before from these readings on.
    pub(crate) fn count_from(&mut self, readings: &Readings) {
        for stage in &mut self.stages {
            stage.count_from(readings);
        }
    }

    /// Sets the write end that must still be open when a FIFO is sampled.
    pub(crate) fn set_write_end(&mut self, link: usize, write_end: Option<WriteEnd>) {
        self.links[link].write_end = write_end;
    }

    /// Returns how full a pipe was at the last sample.
    pub(crate) fn fill(&self, link: usize) -> Option<Fill> {
        self.stages[self.links[link].writer].output?.fill
    }

    /// Returns what a stage did at the last sample.
    pub(crate) fn moment(&self, stage: usize) -> Moment {
        self.stages[stage].moment
    }

    /// Returns how long a stage has been in the same wait, at least.
    pub(crate) fn waiting_time(&self, stage: usize) -> Duration {
        let since = self.stages[stage].waits_since.unwrap_or(self.last_sample);
        self.last_sample.saturating_duration_since(since)
    }

    /// Returns the bytes that have gone through a pipe so far.
    pub(crate) fn bytes(&self, link: usize) -> Bytes {
        let link = &self.links[link];
        let side = |stage: usize| (&self.stages[stage].facts, &self.sums.stages[stage]);
        Bytes::between(side(link.writer), side(link.reader))
    }

    /// Returns the number of files that it keeps open.
    pub(crate) fn files(&self) -> usize {
        let members = self.stages.iter().flat_map(|stage| &stage.members);
        self.links.len() + members.map(|member| member.process.files()).sum::<usize>()
    }

    fn sample_moment(&mut self, now: Instant) {
        // If this process was delayed, one sample would represent too much time.
        let time = (now - self.last_sample).min(self.interval * 4);
        self.last_sample = now;
        for stage in &mut self.stages {
            stage.listen();
        }
        self.sample_pipes(now);
        for stage in &mut self.stages {
            stage.sample(now, time);
        }
        self.note(time);
    }

    /// Returns how long to wait until the next sample.
    pub fn next_sample(&self) -> Duration {
        self.interval
    }

    fn choose_interval(&self) -> Duration {
        let elapsed = self.last_sample - self.began;
        let planned = (elapsed / PATIENCE).clamp(OFTEN, SELDOM);
        // The interval is random, so that a periodic process is not always sampled at the same
        // phase.
        let planned = planned.mul_f64(0.75 + fastrand::f64() / 2.0);
        let affordable = self.sums.sampling.saturating_sub(FREE) * SHARE;
        planned.max(affordable.saturating_sub(elapsed))
    }

    /// Records that the first process of a stage has ended and is still a zombie, which is the last
    /// chance to read its files in /proc.
    pub fn ended(&mut self, number: usize) {
        let now = Instant::now();
        if now - self.last_offer >= STEP / 5 {
            self.sample_cpus(now);
        }
        self.count_shared();
        if let Some(stage) = self.stages.get_mut(number) {
            stage.account(now, &mut self.sums.stages[number]);
            stage.listen();
            stage.sample(now, Duration::ZERO);
        }
    }

    /// Sets the exit status of a stage that has been waited for.
    pub fn status(&mut self, number: usize, status: ExitStatus) {
        if let Some(stage) = self.stages.get_mut(number) {
            stage.facts.status = Some(status);
        }
    }

    /// Excludes the time in which the whole pipeline was stopped. It is called when the pipeline
    /// continues.
    pub fn paused(&mut self) {
        let now = Instant::now();
        let pause = now - self.last_sample;
        self.began += pause;
        self.last_sample = now;
        for stage in &mut self.stages {
            stage.since = (stage.since + pause).min(now);
        }
        self.past.clear();
    }

    /// Returns the findings so far.
    pub fn findings(&self) -> Findings {
        self.summed(&self.sums, self.seconds())
    }

    /// Returns the findings about the recent past.
    pub fn recent(&self) -> Findings {
        let Some((then, sums)) = self.past.front() else {
            return self.findings();
        };
        let seconds = (self.last_sample - *then).as_secs_f64();
        self.summed(&self.sums.since(sums), seconds)
    }

    fn summed(&self, sums: &Sums, seconds: f64) -> Findings {
        let facts: Vec<&StageFacts> = self.stages.iter().map(|stage| &stage.facts).collect();
        Numbers::of(&facts, &self.links, sums, seconds).into()
    }

    fn seconds(&self) -> f64 {
        let until = self.stages.iter().map(|stage| stage.since).max();
        (until.unwrap_or(self.last_sample).max(self.last_sample) - self.began).as_secs_f64()
    }

    /// Reads how full the pipes are. If a process sleeps in read(2), the pipe is empty, and need not be
    /// opened to find that out. This is also when opening it would do harm, because an end that is open here
    /// delays the end of file for that reader.
    fn sample_pipes(&mut self, now: Instant) {
        for ((link, asked), rings) in self.links.iter().zip(&mut self.asked).zip(&self.rings) {
            let ring = rings.in_use();
            let known =
                asked.filter(|(_, then)| now.saturating_duration_since(*then) < CAPACITY_LASTS);
            let fill = match known {
                _ if ring.is_some() => ring.map(|ring| ring.fill),
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
                side.awaited = ring.is_some_and(|ring| ring.writer_sleeps);
            }
            if let Some(side) = &mut self.stages[link.reader].input {
                side.fill = fill;
                side.awaited = ring.is_some_and(|ring| ring.reader_sleeps);
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
            if stage.is_mixed {
                sums.doubtful.note_mixed(time);
            }
        }
        for (link, sums) in self.links.iter().zip(&mut self.sums.pipes) {
            let (writer, reader) = (moments[link.writer], moments[link.reader]);
            if writer == Moment::Ended || reader == Moment::Ended {
                continue;
            }
            if let Some(fill) = fills[link.writer] {
                let waits = matches!(writer, Moment::Output | Moment::Both);
                sums.note(fill, waits, time);
            }
        }
    }

    /// Looks for memory that is shared instead of a pipe.
    fn look_for_rings(&mut self) {
        for (link, rings) in self.links.iter().zip(&mut self.rings) {
            let writer = &self.stages[link.writer];
            if let Some(output) = writer.output {
                let pids = writer.members.iter().map(|member| member.process.pid);
                rings.look(output.inode, pids, self.is_of_others);
            }
        }
    }

    /// Counts what went through shared memory.
    fn count_shared(&mut self) {
        for (link, rings) in self.links.iter().zip(&self.rings) {
            let bytes = rings.bytes();
            self.stages[link.writer].shared.1 = bytes;
            self.stages[link.reader].shared.0 = bytes;
        }
    }

    fn account(&mut self, now: Instant) {
        self.look_for_rings();
        self.count_shared();
        for (stage, sums) in self.stages.iter_mut().zip(&mut self.sums.stages) {
            stage.account(now, sums);
        }
    }

    /// Records what is in the pipes, after the counters were read: if a stage reads no more, it stays there.
    fn note_unread(&mut self) {
        let pipes = self.links.iter().zip(&self.rings).zip(&mut self.sums.pipes);
        for ((link, rings), pipe) in pipes {
            let output = self.stages[link.writer].output;
            let was_empty = output.and_then(|side| side.fill).is_none_or(Fill::is_empty);
            let reader = &self.stages[link.reader];
            pipe.unread = None;
            if was_empty || rings.in_use().is_some() || reader.moment == Moment::Ended {
                continue;
            }
            let written = self.sums.stages[link.writer].written;
            let read = self.sums.stages[link.reader].read;
            if let (Some(written), Some(read), Some(fill)) = (written, read, link.fill()) {
                pipe.unread = Some(Unread {
                    queued: fill.queued as u64,
                    written,
                    read,
                });
            }
        }
    }

    /// Reads the capacities of all pipes again, because they may have changed.
    pub(crate) fn requery_capacities(&mut self) {
        self.asked.fill(None);
    }

    fn sample_cpus(&mut self, now: Instant) {
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
        let (recent, samples) = match self.is_of_others {
            true => (RECENT_OF_OTHERS, ENOUGH_SAMPLES),
            false => (RECENT, 0),
        };
        while self.past.get(1).is_some_and(|(then, sums)| {
            now - *then >= recent && self.sums.samples - sums.samples >= samples
        }) {
            self.past.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use fullbore_linux::Pipe;
    use nix::time::{ClockId, clock_gettime};
    use rustix::fs::{CWD, FileType, Mode, OFlags};
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    use super::super::attribution::Attribution;
    use super::super::census::Census;
    use super::super::descendants::descendants;
    use super::super::moment::Cause;
    use super::super::numbers::Certainty;
    use super::super::process::process_id;
    use super::super::stage::PROCESSES;
    use super::super::verdict::VerdictKind;
    use fullbore_host::machine::Topology;

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
        /// Takes samples until `seen` returns true, and fails if it never does.
        fn sample_until(&mut self, what: &str, seen: impl Fn(&mut Watch) -> bool) {
            let began = Instant::now();
            while !seen(&mut self.watch) {
                assert!(
                    began.elapsed() < Duration::from_secs(60),
                    "{what}: not seen"
                );
                thread::sleep(self.watch.next_sample());
                self.watch.sample();
            }
        }

        /// Sets the processes of a stage to those that a census finds.
        fn set_members(&mut self, stage: usize) {
            // Processes that are started afterwards have start times that differ by at least one
            // clock tick.
            thread::sleep(Duration::from_millis(20));
            let census = Census::take().unwrap();
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

        /// Watches the pipeline until its end.
        fn end(mut self) -> Findings {
            for stage in 0..2 {
                while !self.is_zombie(stage) {
                    thread::sleep(self.watch.next_sample());
                    self.watch.sample();
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
    fn what_nobody_has_read_did_not_go_through_the_pipe() {
        let bytes = |found: &Findings| found.numbers.pipes[0].bytes;
        let counted = |bytes| Bytes {
            bytes: Some(bytes),
            bytes_are: Certainty::Counted,
        };
        for writer in ["head -c 1000 /dev/zero", "exec cat /dev/zero"] {
            let mut pair = start(writer, "exec sleep 600");
            pair.sample_until("all bytes in the pipe", |watch| {
                watch.sums.pipes[0].unread.is_some() && bytes(&watch.findings()) == counted(0)
            });
            pair.children[1].kill().unwrap();
            assert_eq!(bytes(&pair.end()), counted(0), "{writer}");
        }
        for reader in ["sleep 0.2; cat", "cat; sleep 0.2"] {
            let pair = start("head -c 1000 /dev/zero", reader);
            assert_eq!(bytes(&pair.end()), counted(1000), "{reader}");
        }
    }

    #[test]
    fn a_pipeline_that_is_over_before_the_first_sample_is_accounted_for() {
        for is_sampled in [false, true] {
            let mut pair = start("head -c 300000 /dev/zero", "wc -c; exit 3");
            while !(pair.is_zombie(0) && pair.is_zombie(1)) {
                thread::sleep(Duration::from_millis(1));
            }
            if is_sampled {
                pair.watch.sample();
            }
            let found = pair.end();
            assert_eq!(found.verdict.kind, VerdictKind::TooShort);
            let [writer, reader] = &found.numbers.stages[..] else {
                panic!("{found:?}")
            };
            assert_eq!((writer.exit_code, reader.exit_code), (Some(0), Some(3)));
            for stage in [writer, reader] {
                let is_timed = stage.seconds > 0.0 && stage.time.ran > 0.0;
                assert!(stage.cpu_seconds > 0.0 && is_timed, "{found:?}");
            }
            let pipe = &found.numbers.pipes[0];
            assert_eq!(pipe.bytes.bytes, Some(300_000), "{pipe:?}");
            assert_eq!((pipe.capacity, pipe.wanted), (65536, 1 << 20));
        }
    }

    #[test]
    fn cpu_time_of_all_that_a_stage_has_started_counts_also_of_those_who_have_ended() {
        let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i + 1)); done";
        let found = start(&format!("sh -c '{burn}'; sh -c '{burn}'; :"), "cat").end();
        let cpu = |found: &Findings| found.numbers.stages[0].cpu_seconds;
        // A pause of the machine may be counted as the time of one of them.
        let alone = (0..5).map(|_| cpu(&start(burn, "cat").end()));
        // Times of children are reported in hundredths of a second.
        let (twice, once) = (cpu(&found), alone.fold(f64::MAX, f64::min));
        assert!(twice > 1.3 * once - 0.03, "{twice} {once}");
        // How much of the time that was is for samples to say, and there may be few of them.
        assert!(found.numbers.stages[0].time.ran > 0.0, "{found:?}");
    }

    #[test]
    fn the_whole_life_of_a_child_is_not_the_time_in_which_it_was_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i + 1)); done";
        let line = format!("sh -c '{burn}; read x <{}'; sleep 60; :", fifo.display());
        let mut pair = start(&line, "exec cat");
        let shell = pair.children[0].id();
        // The child is no process of the stage, as if it did not have the pipe.
        let id = process_id(shell).unwrap();
        let started = pair.watch.stages[0].facts.started.clone();
        (pair.watch).set_members(0, started, &[(id, false)], Mixes::default(), 0);
        // It opens the FIFO once it has computed.
        let go = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        let child = descendants(shell);
        let own = |watch: &Watch| {
            let pid = nix::unistd::Pid::from_raw(watch.stages[0].facts.started.pid as i32);
            let clock = ClockId::pid_cpu_clock_id(pid).unwrap();
            Duration::from(clock_gettime(clock).unwrap())
        };
        let own_before = own(&pair.watch);
        pair.watch.account(Instant::now());
        let before = pair.watch.sums.stages[0].clone();
        drop(go);
        let began = Instant::now();
        while !descendants(shell).is_disjoint(&child) {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
            thread::sleep(Duration::from_millis(1));
        }
        pair.watch.account(Instant::now());
        let after = &pair.watch.sums.stages[0];
        let cpus = Topology::read().online().len() as u32;
        let most = own(&pair.watch) - own_before + (after.time - before.time) * cpus;
        let cpu = after.cpu - before.cpu;
        assert!(cpu <= most, "{cpu:?} in {most:?}");
        pair.kill();
    }

    #[test]
    fn who_waits_for_whom_is_seen() {
        let mut pair = start("sleep 60", "cat");
        pair.sample_until("a wait for input", |watch| {
            let [writer, reader] = [0, 1].map(|stage| watch.stages[stage].moment);
            writer == Moment::Elsewhere(Cause::Timer) && reader == Moment::Input
        });
        pair.kill();
        let mut pair = start("cat /dev/zero", "sleep 60");
        pair.sample_until("a wait for output", |watch| {
            let [writer, reader] = [0, 1].map(|stage| watch.stages[stage].moment);
            writer == Moment::Output && reader == Moment::Elsewhere(Cause::Timer)
        });
        pair.kill();
    }

    #[test]
    fn a_pipe_whose_reader_sleeps_in_read_is_known_to_be_empty_without_opening_it() {
        let mut pair = start("exec sleep 60", "exec cat");
        pair.sample_until("a wait for input", |watch| {
            watch.stages[1].moment == Moment::Input && watch.asked[0].is_some()
        });
        let (_, when) = pair.watch.asked[0].unwrap();
        for _ in 0..50 {
            pair.watch.sample_processes(OFTEN);
            let (_, then) = pair.watch.asked[0].unwrap();
            // On a slow machine, the capacity may have been read again because its time had passed.
            assert!(then == when || when.elapsed() >= CAPACITY_LASTS);
            assert_eq!(pair.watch.fill(0).map(|fill| fill.queued), Some(0));
        }
        pair.watch.requery_capacities();
        pair.watch.sample_processes(OFTEN);
        assert!(pair.watch.asked[0].unwrap().1 > when);
        pair.kill();
    }

    #[test]
    fn a_shell_is_what_it_waits_for_and_what_it_has_left_behind() {
        let mut pair = start("sh -c 'cat /dev/zero; :'; :", "sleep 60");
        pair.sample_until("a child that writes", |watch| {
            watch.stages[0].moment == Moment::Output
        });
        pair.kill();
        // The shell has ended, and the process that it started continues.
        let mut pair = start("sleep 60 & kill -STOP $$", "cat");
        pair.sample_until("who is left", |watch| watch.stages[0].members.len() == 2);
        kill_process(Pid::from_child(&pair.children[0]), Signal::CONT).unwrap();
        while !pair.is_zombie(0) {
            thread::sleep(Duration::from_millis(1));
        }
        let left = pair.watch.stages[0].members[1].process.pid;
        pair.watch.ended(0);
        pair.children[0].wait().unwrap();
        pair.sample_until("the wait of who is left", |watch| {
            watch.stages[0].moment == Moment::Elsewhere(Cause::Timer)
        });
        kill_process(Pid::from_raw(left as i32).unwrap(), Signal::KILL).unwrap();
        pair.sample_until("its end", |watch| watch.stages[0].moment == Moment::Ended);
        pair.kill();
    }

    #[test]
    fn a_child_that_no_census_has_found_yet_makes_it_unclear_whose_the_figures_are() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let mut pair = start(&format!("cat {}; sleep 60; :", fifo.display()), "exec cat");
        let shell = pair.children[0].id();
        pair.sample_until("the first child", |_| descendants(shell).len() == 1);
        pair.set_members(0);
        // The shell may not wait for its child yet.
        pair.sample_until("clear figures", |watch| {
            watch.stages[0].attribution == Attribution::Clear
        });
        let first = descendants(shell);
        std::fs::write(&fifo, "\n").unwrap();
        pair.sample_until("the second child", |_| {
            let now = descendants(shell);
            now.len() == 1 && now != first
        });
        pair.watch.sample_processes(OFTEN);
        assert_eq!(pair.watch.stages[0].attribution, Attribution::Unclear);
        pair.set_members(0);
        // The shell may not wait for its child yet.
        pair.sample_until("clear figures", |watch| {
            watch.stages[0].attribution == Attribution::Clear
        });
        pair.kill();
    }

    #[test]
    fn with_more_processes_than_are_sampled_it_is_unclear_whose_the_figures_are() {
        let sleep = || Command::new("sleep").arg("60").spawn().unwrap();
        let mut all: Vec<Child> = (0..=PROCESSES).map(|_| sleep()).collect();
        let pids: Vec<ProcessId> = (all.iter())
            .map(|child| process_id(child.id()).unwrap())
            .collect();
        for (pids, expected) in [(&pids[1..], false), (&pids[..], true)] {
            let unnamed = StartedStage {
                text: String::new(),
                pid: 0,
            };
            let mut watch = Watch::of_others(vec![unnamed.clone()], Vec::new());
            let named: Vec<_> = pids.iter().map(|&pid| (pid, true)).collect();
            watch.set_members(0, unnamed, &named, Mixes::default(), 0);
            assert_eq!(watch.stages[0].members.len(), PROCESSES);
            assert_eq!(watch.stages[0].has_hidden_processes, expected);
            watch.sample_processes(OFTEN);
            let attribution = watch.stages[0].attribution;
            assert!(!expected || attribution == Attribution::Unclear);
        }
        for child in &mut all {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_stage_that_is_stopped_is_seen_to_be() {
        let mut pair = start("exec sleep 60", "exec cat");
        kill_process(Pid::from_child(&pair.children[1]), Signal::STOP).unwrap();
        pair.sample_until("a stop", |watch| {
            watch.stages[1].moment == Moment::Elsewhere(Cause::Stopped)
        });
        pair.kill();
    }

    #[test]
    fn time_in_which_it_was_stopped_does_not_count() {
        let mut pair = start("sleep 60", "cat");
        let began = Instant::now();
        pair.watch.sample();
        let before = began.elapsed();
        thread::sleep(Duration::from_millis(300));
        pair.watch.paused();
        let paused = Instant::now();
        pair.watch.sample();
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
        pair.watch.sample();
        for child in &mut pair.children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for _ in 0..20 {
            pair.watch.sample();
        }
        assert!((pair.watch.stages.iter()).all(|stage| stage.moment == Moment::Ended));
        assert!(pair.watch.findings().numbers.seconds > 0.0);
    }

    #[test]
    fn sampling_takes_no_more_than_its_share() {
        let mut pair = start("sleep 60", "cat");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(700) {
            thread::sleep(pair.watch.next_sample());
            pair.watch.sample();
        }
        let time = began.elapsed();
        let sampling = pair.watch.sums.sampling;
        // The last sample may have been an expensive one.
        let most = FREE * 2 + time / SHARE + sampling / pair.watch.sums.samples as u32 * 4;
        assert!(sampling <= most, "{sampling:?} of {time:?}");
        pair.kill();
    }
}

//! Tests of a pipeline that is watched.

use std::fs;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::thread;

use fullbore_linux::Pipe;
use nix::time::{ClockId, clock_gettime};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::census::descendants::descendants;
use crate::census::{Census, ProcessId};
use crate::sampling::attribution::Attribution;
use crate::sampling::moment::{Cause, Moment};
use crate::sampling::stage::PROCESSES;
use crate::verdict::VerdictKind;
use crate::verdict::numbers::Certainty;
use fullbore_host::machine::Topology;

use super::*;
use crate::sampling::pipeline::CAPACITY_LASTS;

/// Two stages with a pipe between them.
struct Pair {
    children: [Child; 2],
    watch: Watch,
}

fn start(writer: &str, reader: &str) -> Pair {
    let pipe = Pipe::new().unwrap();
    let link = Link::open(pipe.writer.as_raw_fd(), 0, 65536, 1 << 20).unwrap();
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
        command: text.to_owned(),
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
                began.elapsed() < Duration::from_secs(300),
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
        self.watch.pipeline.stages[stage].set_members(&processes, census.began);
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
        let mut pair = start(writer, "exec sleep 6000");
        // What sleep(1) reads while it starts, its libraries, is counted with the bytes of the pipe.
        let stat = format!("/proc/{}/stat", pair.children[1].id());
        while !fs::read_to_string(&stat).unwrap().contains("(sleep) S") {
            thread::sleep(Duration::from_millis(1));
        }
        pair.sample_until("all bytes in the pipe", |watch| {
            watch.pipeline.sums.pipes[0].unread.is_some() && bytes(&watch.findings()) == counted(0)
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
    let line = format!("sh -c '{burn}; read x <{}'; sleep 600; :", fifo.display());
    let mut pair = start(&line, "exec cat");
    let shell = pair.children[0].id();
    // The child is no process of the stage, as if it did not have the pipe.
    let id = ProcessId::of(shell).unwrap();
    pair.watch.pipeline.stages[0].set_members(&[(id, false)], 0);
    // It opens the FIFO once it has computed.
    let go = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    let child = descendants(shell);
    let own = |watch: &Watch| {
        let pid = nix::unistd::Pid::from_raw(watch.pipeline.stages[0].facts.started.pid as i32);
        let clock = ClockId::pid_cpu_clock_id(pid).unwrap();
        Duration::from(clock_gettime(clock).unwrap())
    };
    let own_before = own(&pair.watch);
    pair.watch.pipeline.account(Instant::now());
    let before = pair.watch.pipeline.sums.stages[0].clone();
    drop(go);
    let began = Instant::now();
    while !descendants(shell).is_disjoint(&child) {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "it does not end"
        );
        thread::sleep(Duration::from_millis(1));
    }
    pair.watch.pipeline.account(Instant::now());
    let after = &pair.watch.pipeline.sums.stages[0];
    let cpus = Topology::read().online().len() as u32;
    let most = own(&pair.watch) - own_before + (after.time - before.time) * cpus;
    let cpu = after.cpu - before.cpu;
    assert!(cpu <= most, "{cpu:?} in {most:?}");
    pair.kill();
}

#[test]
fn who_waits_for_whom_is_seen() {
    let mut pair = start("sleep 600", "cat");
    pair.sample_until("a wait for input", |watch| {
        let [writer, reader] = [0, 1].map(|stage| watch.pipeline.stages[stage].moment);
        writer == Moment::Elsewhere(Cause::Timer) && reader == Moment::Input
    });
    pair.kill();
    let mut pair = start("cat /dev/zero", "sleep 600");
    pair.sample_until("a wait for output", |watch| {
        let [writer, reader] = [0, 1].map(|stage| watch.pipeline.stages[stage].moment);
        writer == Moment::Output && reader == Moment::Elsewhere(Cause::Timer)
    });
    pair.kill();
}

#[test]
fn a_pipe_whose_reader_sleeps_in_read_is_known_to_be_empty_without_opening_it() {
    let mut pair = start("exec sleep 600", "exec cat");
    pair.sample_until("a wait for input", |watch| {
        watch.pipeline.stages[1].moment == Moment::Input && watch.pipeline.asked[0].is_some()
    });
    let (_, when) = pair.watch.pipeline.asked[0].unwrap();
    for _ in 0..50 {
        pair.watch.sample_processes(OFTEN);
        let (_, then) = pair.watch.pipeline.asked[0].unwrap();
        // On a slow machine, the capacity may have been read again because its time had passed.
        assert!(then == when || when.elapsed() >= CAPACITY_LASTS);
        assert_eq!(pair.watch.pipeline.fill(0).map(|fill| fill.queued), Some(0));
    }
    pair.watch.pipeline.asked.fill(None);
    pair.watch.sample_processes(OFTEN);
    assert!(pair.watch.pipeline.asked[0].unwrap().1 > when);
    pair.kill();
}

#[test]
fn a_shell_is_what_it_waits_for_and_what_it_has_left_behind() {
    let mut pair = start("sh -c 'cat /dev/zero; :'; :", "sleep 600");
    pair.sample_until("a child that writes", |watch| {
        watch.pipeline.stages[0].moment == Moment::Output
    });
    pair.kill();
    // The shell has ended, and the process that it started continues.
    let mut pair = start("sleep 600 & kill -STOP $$", "cat");
    let shell = Pid::from_child(&pair.children[0]);
    // A SIGCONT before it has stopped would have no effect.
    let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(shell), stopped).unwrap();
    pair.watch.pipeline.account(Instant::now());
    assert_eq!(pair.watch.pipeline.stages[0].members.len(), 2);
    kill_process(shell, Signal::CONT).unwrap();
    while !pair.is_zombie(0) {
        thread::sleep(Duration::from_millis(1));
    }
    let left = pair.watch.pipeline.stages[0].members[1].process.id.pid;
    pair.watch.ended(0);
    pair.children[0].wait().unwrap();
    pair.sample_until("the wait of who is left", |watch| {
        watch.pipeline.stages[0].moment == Moment::Elsewhere(Cause::Timer)
    });
    kill_process(Pid::from_raw(left as i32).unwrap(), Signal::KILL).unwrap();
    pair.sample_until("its end", |watch| {
        watch.pipeline.stages[0].moment == Moment::Ended
    });
    pair.kill();
}

#[test]
fn a_child_that_no_census_has_found_yet_makes_it_unclear_whose_the_figures_are() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut pair = start(&format!("cat {}; sleep 600; :", fifo.display()), "exec cat");
    let shell = pair.children[0].id();
    pair.sample_until("the first child", |_| descendants(shell).len() == 1);
    pair.set_members(0);
    // The shell may not wait for its child yet.
    pair.sample_until("clear figures", |watch| {
        watch.pipeline.stages[0].attribution == Attribution::Clear
    });
    let first = descendants(shell);
    std::fs::write(&fifo, "\n").unwrap();
    pair.sample_until("the second child", |_| {
        let now = descendants(shell);
        now.len() == 1 && now != first
    });
    pair.watch.sample_processes(OFTEN);
    assert_eq!(
        pair.watch.pipeline.stages[0].attribution,
        Attribution::Unclear
    );
    pair.set_members(0);
    // The shell may not wait for its child yet.
    pair.sample_until("clear figures", |watch| {
        watch.pipeline.stages[0].attribution == Attribution::Clear
    });
    pair.kill();
}

#[test]
fn with_more_processes_than_are_sampled_it_is_unclear_whose_the_figures_are() {
    let sleep = || Command::new("sleep").arg("600").spawn().unwrap();
    let mut all: Vec<Child> = (0..=PROCESSES).map(|_| sleep()).collect();
    let pids: Vec<ProcessId> = (all.iter())
        .map(|child| ProcessId::of(child.id()).unwrap())
        .collect();
    for (pids, expected) in [(&pids[1..], false), (&pids[..], true)] {
        let mut watch = Watch::of_others(vec![StartedStage::default()], Vec::new());
        let named: Vec<_> = pids.iter().map(|&pid| (pid, true)).collect();
        let pipeline = &mut watch.pipeline;
        pipeline.stages[0].set_members(&named, 0);
        assert_eq!(pipeline.stages[0].members.len(), PROCESSES);
        assert_eq!(pipeline.stages[0].has_hidden_processes, expected);
        watch.sample_processes(OFTEN);
        let attribution = watch.pipeline.stages[0].attribution;
        assert!(!expected || attribution == Attribution::Unclear);
    }
    for child in &mut all {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_stage_that_is_stopped_is_seen_to_be() {
    let mut pair = start("exec sleep 600", "exec cat");
    kill_process(Pid::from_child(&pair.children[1]), Signal::STOP).unwrap();
    pair.sample_until("a stop", |watch| {
        watch.pipeline.stages[1].moment == Moment::Elsewhere(Cause::Stopped)
    });
    pair.kill();
}

#[test]
fn time_in_which_it_was_stopped_does_not_count() {
    let began = Instant::now();
    let mut pair = start("sleep 600", "cat");
    pair.watch.sample();
    let before = began.elapsed();
    thread::sleep(Duration::from_millis(300));
    let paused = Instant::now();
    pair.watch.paused();
    pair.watch.sample();
    pair.watch.pipeline.account(Instant::now());
    let after = paused.elapsed();
    let found = pair.watch.findings();
    let most = (before + after).as_secs_f64();
    assert!(found.numbers.seconds < most, "{found:?}");
    assert!(found.numbers.stages[0].seconds < most, "{found:?}");
    pair.kill();
}

#[test]
fn whoever_has_gone_unnoticed_has_ended() {
    let mut pair = start("exec sleep 600", "exec cat");
    pair.watch.sample();
    for child in &mut pair.children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for _ in 0..20 {
        pair.watch.sample();
    }
    assert!((pair.watch.pipeline.stages.iter()).all(|stage| stage.moment == Moment::Ended));
    assert!(pair.watch.findings().numbers.seconds > 0.0);
}

#[test]
fn sampling_takes_no_more_than_its_share() {
    let mut pair = start("sleep 600", "cat");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(700) {
        thread::sleep(pair.watch.next_sample());
        pair.watch.sample();
    }
    let time = began.elapsed();
    let sampling = pair.watch.pipeline.sums.sampling;
    // The last sample may have been an expensive one.
    let most = FREE * 2 + time / SHARE + sampling / pair.watch.pipeline.sums.samples as u32 * 4;
    assert!(sampling <= most, "{sampling:?} of {time:?}");
    pair.kill();
}

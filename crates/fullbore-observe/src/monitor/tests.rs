//! Tests of the monitor.

use std::process::{Child, Command, Stdio};

use super::*;
use crate::census::scope::Whose;
use crate::monitor::overview::PipeState;

/// A pipeline of two processes, which are killed at the end of the test.
struct Pair([Child; 2]);

impl Drop for Pair {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Pair {
    /// Starts a program whose output another one reads.
    fn start(mut writer: Command, reader: &str) -> Self {
        let (from, to) = std::io::pipe().unwrap();
        // The stderr of the tests may be a pipe.
        let writer = writer.stdout(to).stderr(Stdio::null()).spawn().unwrap();
        let mut command = Command::new(reader);
        command.stdin(from).stdout(Stdio::null());
        let reader = command.stderr(Stdio::null()).spawn().unwrap();
        Self([writer, reader])
    }

    /// Returns a monitor of this pipeline.
    fn monitor(&self) -> Monitor {
        Monitor::new(Scope {
            whose: Whose::Tree(self.0[1].id()),
            all: false,
        })
        .unwrap()
    }

    /// Scans until both processes have the pipe open, and no other.
    fn scan(&self, monitor: &mut Monitor) -> (Overview, PipeState) {
        let began = Instant::now();
        let pids = |pipe: &PipeState| {
            let all = pipe.writers.iter().chain(&pipe.readers);
            Vec::from_iter(all.map(|process| process.id.pid))
        };
        loop {
            let overview = monitor.scan().unwrap();
            let is_it = |pipe: &&PipeState| pids(pipe) == [self.0[0].id(), self.0[1].id()];
            if let Some(pipe) = overview.pipes.iter().find(is_it).cloned() {
                return (overview, pipe);
            }
            assert!(began.elapsed() < Duration::from_secs(300), "{overview:#?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn sleep() -> Command {
    let mut sleep = Command::new("sleep");
    sleep.arg("600").stdin(Stdio::null());
    sleep
}

#[test]
fn more_files_than_expected_are_not_kept_open() {
    let mut files = Files { open: 10, most: 30 };
    assert!(files.have_room(20) && !files.have_room(21));
    assert!(files.replace(0, 15));
    assert!(!files.replace(0, 6));
    assert_eq!(files.open, 25);
    // A pipeline that was watched has started threads.
    assert!(!files.replace(15, 21));
    assert_eq!(files.open, 10);
}

#[test]
fn a_pipeline_without_room_for_its_files_is_shown_and_counted_but_not_watched() {
    let pair = Pair::start(sleep(), "cat");
    let mut monitor = pair.monitor();
    // The processes may have inherited other pipes.
    let (overview, _) = pair.scan(&mut monitor);
    assert_eq!(overview.left_out.not_watched, 0);
    monitor.most_files = 0;
    let (overview, pipe) = pair.scan(&mut monitor);
    assert!(overview.left_out.not_watched >= 1, "{overview:#?}");
    let chain = &overview.chains[pipe.chain.unwrap()];
    assert!(chain.verdict.is_none(), "{overview:#?}");
    assert_eq!((pipe.reader_waits, pipe.bytes.bytes), (None, None));
    assert!(monitor.watched.is_empty());
}

#[test]
fn bytes_count_on_after_everything_was_closed() {
    let mut writer = Command::new("cat");
    writer.stdin(Stdio::piped());
    let mut pair = Pair::start(writer, "cat");
    let give = |pair: &mut Pair| {
        let stdin = pair.0[0].stdin.as_mut().unwrap();
        std::io::Write::write_all(stdin, &[0; 60_000]).unwrap();
    };
    // What a program reads while it starts counts too, if it is watched by then.
    give(&mut pair);
    let reader = procfs::process::Process::new(pair.0[1].id() as i32).unwrap();
    let began = Instant::now();
    while reader.io().unwrap().rchar < 60_000 {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "nothing arrives"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut monitor = pair.monitor();
    let until = |pair: &Pair, monitor: &mut Monitor, bytes: u64| {
        let began = Instant::now();
        loop {
            let (_, pipe) = pair.scan(monitor);
            assert!(pipe.bytes.bytes <= Some(bytes), "{pipe:#?}");
            if pipe.bytes.bytes == Some(bytes) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(300), "{pipe:#?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    until(&pair, &mut monitor, 0);
    give(&mut pair);
    until(&pair, &mut monitor, 60_000);
    monitor.forget();
    assert!(monitor.watched.is_empty());
    give(&mut pair);
    until(&pair, &mut monitor, 120_000);
    monitor.forget();
    monitor.forget();
    give(&mut pair);
    until(&pair, &mut monitor, 180_000);
}

#[test]
fn what_is_not_known_at_the_first_scan_is_not_0() {
    let pair = Pair::start(sleep(), "cat");
    pair.scan(&mut pair.monitor());
    let mut monitor = pair.monitor();
    let (overview, pipe) = pair.scan(&mut monitor);
    assert_eq!(overview.scan, 1);
    for stage in &overview.chains[pipe.chain.unwrap()].stages {
        assert_eq!((stage.time, stage.cpus, stage.blame), (None, None, None));
    }
    assert_eq!((pipe.writer_waits, pipe.reader_waits), (None, None));
    assert_eq!((pipe.empty, pipe.full), (None, None));
    // A scan that took long counts as a time in which this process was stopped.
    let began = Instant::now();
    loop {
        let (overview, pipe) = pair.scan(&mut monitor);
        let reader = &overview.chains[pipe.chain.unwrap()].stages[1];
        assert_eq!(reader.time.is_some(), pipe.reader_waits.is_some());
        if reader.time.is_some() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "{overview:#?}");
    }
}

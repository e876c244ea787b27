//! Runs some work and watches the processes that it starts, with samples if those are allowed.
//!
//! A thread of this process empties the buffers and scans the processes a few times a second: often
//! enough that no samples are lost, and rarely enough that the watched processes are hardly
//! disturbed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::processes::Processes;
use super::profile::{self, SideProfile};
use super::sampling::{Event, Sampled, Sampling};
use super::symbols::Kernel;

/// The time between two scans.
const INTERVAL: Duration = Duration::from_millis(200);

/// The result of watching.
#[derive(Debug)]
pub struct Recording {
    events: Vec<Event>,
    processes: Processes,
    skipped: Duration,
    /// How the samples were taken, or why there are none.
    pub sampled: Result<Sampled, Errno>,
}

/// Runs `work`, which starts processes from this thread, and watches these processes; what they do in
/// the first `skipped` does not count.
pub fn record<T>(cpus: &[usize], skipped: Duration, work: impl FnOnce() -> T) -> (T, Recording) {
    let mut sampling = Sampling::of_children(cpus);
    let done = AtomicBool::new(false);
    let mut recording = Recording {
        events: Vec::new(),
        processes: Processes::default(),
        skipped,
        sampled: Err(Errno::OPNOTSUPP),
    };
    let worked = thread::scope(|scope| {
        let watcher = scope.spawn(|| recording.watch(&mut sampling, &done));
        let worked = work();
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
        worked
    });
    recording.sampled = sampling.map(|sampling| sampling.how);
    (worked, recording)
}

impl Recording {
    fn watch(&mut self, sampling: &mut Result<Sampling, Errno>, done: &AtomicBool) {
        let began = Instant::now();
        let mut skipping = true;
        // The first scan comes early, because some processes are short.
        let mut pause = INTERVAL / 20;
        loop {
            thread::park_timeout(pause);
            pause = (pause * 2).min(INTERVAL);
            let over = done.load(Ordering::Acquire);
            if let Ok(sampling) = sampling {
                sampling.drain(&mut self.events);
            }
            if over {
                return;
            }
            self.processes.read();
            if skipping && began.elapsed() >= self.skipped {
                skipping = false;
                self.processes.start_over();
            }
        }
    }

    /// Groups the recording by side.
    pub fn sides(self, kernel: &Kernel) -> Vec<SideProfile> {
        profile::sides(self.events, &self.processes, kernel, self.skipped)
    }
}

/// Adds the sides of another recording of the same work.
pub fn merge(sides: &mut Vec<SideProfile>, others: Vec<SideProfile>) {
    for other in others {
        match sides.iter_mut().find(|side| side.name == other.name) {
            None => sides.push(other),
            Some(side) => {
                side.processes = side.processes.max(other.processes);
                side.accounts.add(&other.accounts);
                side.cpus.extend(other.cpus);
                for (stack, count) in other.stacks {
                    *side.stacks.entry(stack).or_default() += count;
                }
            }
        }
    }
}

//! The stages and the pipes of one pipeline, which are sampled together, and the sums of the samples.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::facts::StartedStage;
use super::moment::{AdjacentPipe, Moment};
use super::rings::Rings;
use super::stage::{Counted, WatchedStage};
use super::sums::{Sums, Unread};
use crate::census::ProcessId;
use crate::census::fill::Fill;
use crate::census::link::Link;

/// How long the capacity of a pipe is assumed to be unchanged after it was read.
pub const CAPACITY_LASTS: Duration = Duration::from_secs(5);

/// A pipeline that is sampled.
#[derive(Debug)]
pub struct SampledPipeline {
    pub stages: Vec<WatchedStage>,
    pub links: Vec<Link>,
    /// The memory that is shared instead of each pipe.
    rings: Vec<Rings>,
    /// The capacity of each pipe, and when it was last opened to read that.
    pub asked: Vec<Option<(usize, Instant)>>,
    pub sums: Sums,
    pub last_sample: Instant,
    /// Whether another program has started it.
    is_of_others: bool,
}

/// What processes had used when their counters were last read.
pub type Readings = HashMap<ProcessId, Counted>;

/// Returns how full a pipe is, given what its writer does.
fn seen_with(writer: Moment, fill: Fill) -> Fill {
    match writer {
        // With many bytes in it, the writer may rest while a few slots are free.
        Moment::Output | Moment::Both if !fill.is_nearly_full() => fill.with_writer_asleep(),
        _ => fill,
    }
}

impl SampledPipeline {
    /// Prepares to sample stages, to which no process belongs yet. `is_of_others` says whether another program has
    /// started them.
    pub fn new(
        stages: Vec<StartedStage>,
        links: Vec<Link>,
        now: Instant,
        is_of_others: bool,
    ) -> Self {
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
            last_sample: now,
            is_of_others,
        }
    }

    /// Returns what its processes had used when their counters were last read.
    pub fn readings(&self) -> impl Iterator<Item = (ProcessId, Counted)> {
        self.stages.iter().flat_map(WatchedStage::counted)
    }

    /// Counts the bytes of processes that were watched before from these readings on.
    pub fn count_from(&mut self, readings: &Readings) {
        for stage in &mut self.stages {
            stage.count_from(readings);
        }
    }

    /// Returns how full a pipe was at the last sample.
    pub fn fill(&self, link: usize) -> Option<Fill> {
        let writer = &self.stages[self.links[link].writer];
        Some(seen_with(writer.moment, writer.output?.fill?))
    }

    /// Returns how long a stage has been in the same wait, at least.
    pub fn waiting_time(&self, stage: usize) -> Duration {
        let since = self.stages[stage].waits_since.unwrap_or(self.last_sample);
        self.last_sample.saturating_duration_since(since)
    }

    /// Returns the number of files that it keeps open.
    pub fn files(&self) -> usize {
        let members = self.stages.iter().flat_map(|stage| &stage.members);
        self.links.len() + members.map(|member| member.process.files()).sum::<usize>()
    }

    /// Takes a sample of what all processes do, about `interval` after the last one.
    pub fn sample(&mut self, now: Instant, interval: Duration) {
        // If this process was delayed, one sample would represent too much time.
        let time = (now - self.last_sample).min(interval * 4);
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
                Some((capacity, _)) if self.stages[link.reader].sleeps_in_read() => {
                    Some(Fill::of_bytes(0, capacity))
                }
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
                sums.note(seen_with(writer, fill), waits, time);
            }
        }
    }

    /// Looks for memory that is shared instead of a pipe.
    pub fn look_for_rings(&mut self) {
        for (link, rings) in self.links.iter().zip(&mut self.rings) {
            let writer = &self.stages[link.writer];
            if let Some(output) = writer.output {
                let pids = writer.members.iter().map(|member| member.process.id.pid);
                rings.look(output.inode, pids, self.is_of_others);
            }
        }
    }

    /// Counts what went through shared memory.
    pub fn count_shared(&mut self) {
        for (link, rings) in self.links.iter().zip(&self.rings) {
            let bytes = rings.bytes();
            self.stages[link.writer].shared.1 = bytes;
            self.stages[link.reader].shared.0 = bytes;
        }
    }

    /// Reads the counters of all stages.
    pub fn account(&mut self, now: Instant) {
        self.look_for_rings();
        self.count_shared();
        for (stage, sums) in self.stages.iter_mut().zip(&mut self.sums.stages) {
            stage.account(now, sums);
        }
    }

    /// Records what is in the pipes, after the counters were read: if a stage reads no more, it stays there.
    pub fn note_unread(&mut self) {
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

    /// Returns the PIDs of all its processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        let members = self.stages.iter().flat_map(|stage| &stage.members);
        members.map(|member| member.process.id.pid)
    }
}

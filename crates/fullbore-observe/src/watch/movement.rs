//! Whether bytes move in a pipeline.
//!
//! No counter of the kernel is of one pipe. A pipe has certainly moved bytes if it is filled otherwise than before. It
//! has certainly moved none if one of its two stages has not run, or its counter of bytes is as it was. What a stage
//! reads and writes beside its pipes is in the same counters, as are the messages with which a connection is kept
//! alive. So a stage that works on other files counts as moving only if it moves more than these.

use super::{Seen, Watch};
use crate::census::link::open_for_writing;
use crate::sampling::blame::blamed;
use crate::sampling::moment::Moment;
use crate::sampling::sums::StageSums;
use crate::sampling::waiting::Doing;
use fullbore_host::text::one_line;
use std::os::fd::{AsFd, OwnedFd};

/// The bytes that a stage has to move beside its pipes.
const BESIDE: u64 = 64 << 10;

impl Watch {
    /// Returns whether a byte may have moved since the last call: through a pipe, or at least 64 KiB from or to other
    /// files and connections of one stage, without a pipe any byte. It is called after a [sample](Self::sample); the
    /// first call returns true.
    pub fn has_moved(&mut self) -> bool {
        let now = self.pipeline.last_sample;
        self.pipeline.account(now);
        let pipeline = &self.pipeline;
        let links = 0..pipeline.links.len();
        let fills: Vec<_> = links.map(|link| pipeline.fill(link)).collect();
        let (before, stages) = (std::mem::take(&mut self.seen), &pipeline.sums.stages);
        // Whether a stage has run, or that is unknown.
        let is_active = |at: usize| {
            let (stage, turns) = (&pipeline.stages[at], stages[at].turns);
            // A process that has started has run, so 0 is unknown.
            let has_run = turns == 0 || turns != before.stages[at].turns;
            let mut members = stage.members.iter();
            has_run
                || stage.has_hidden_processes
                || members.any(|member| member.process.has_hidden_threads)
        };
        let has_written = |at: usize| {
            let gives = pipeline.stages[at].facts.ways.gives_pages;
            let may_have = || may_differ(before.stages[at].written, stages[at].written);
            is_active(at) && (gives || may_have())
        };
        let has_read = |at: usize| {
            let takes = pipeline.stages[at].facts.ways.takes_pages;
            let may_have = || may_differ(before.stages[at].read, stages[at].read);
            is_active(at) && (takes || may_have())
        };
        let mut both = pipeline.links.iter();
        let least = if fills.is_empty() { 1 } else { BESIDE };
        let beside = |stage: &StageSums| stage.read.unwrap_or(0) + stage.written.unwrap_or(0);
        let besides: Vec<u64> = stages.iter().map(beside).collect();
        let mut both_beside = besides.iter().zip(&before.beside);
        let has_moved = before.stages.is_empty()
            || fills != before.fills
            || both.any(|link| has_written(link.writer) && has_read(link.reader))
            || both_beside.any(|(now, before)| *now >= before + least);
        self.seen = Seen {
            beside: if has_moved { besides } else { before.beside },
            fills,
            stages: stages.clone(),
        };
        has_moved
    }

    /// Returns whether a process of the pipeline is stopped.
    pub fn is_stopped(&self) -> bool {
        let members = self.pipeline.stages.iter().flat_map(|stage| &stage.members);
        let mut doings = members.flat_map(|member| &member.doings);
        doings.any(|&doing| doing == Doing::Stopped)
    }

    /// Says which stages the others wait for at this moment, and what these wait for.
    pub fn awaited(&self) -> String {
        let stages = &self.pipeline.stages;
        let moments: Vec<Moment> = stages.iter().map(|stage| stage.moment).collect();
        let links = 0..self.pipeline.links.len();
        let fills: Vec<_> = links.map(|link| self.pipeline.fill(link)).collect();
        let blamed = blamed(&moments, &fills);
        let words = blamed.iter().map(|&at| {
            let text = one_line(&stages[at].facts.started.text, 40);
            match moments[at] {
                Moment::Elsewhere(cause) => {
                    format!("stage {}, {text}, waits for {}", at + 1, cause.in_words())
                }
                _ => format!("stage {}, {text}, runs", at + 1),
            }
        });
        let words: Vec<String> = words.collect();
        let running = moments.iter().filter(|&&moment| moment != Moment::Ended);
        match (blamed.len(), running.count()) {
            (0, _) => "all stages wait for each other".to_owned(),
            (blamed, running) if blamed == running => words.join(", and "),
            (1, _) => words.join("") + ", and the others wait for it",
            _ => words.join(", and ") + "; the others wait for them",
        }
    }

    /// Opens a write end of each pipe that has a reader: as long as one is open, no stage sees an end of its input.
    /// Nothing is sampled any more, so that the files of all processes are closed, and there is room for these.
    pub fn write_ends(&mut self) -> Vec<OwnedFd> {
        let stages = self.pipeline.stages.iter_mut();
        stages.for_each(|stage| stage.members.clear());
        let links = self.pipeline.links.iter();
        let opened = links.filter_map(|link| open_for_writing(link.handle.as_fd()).ok());
        opened.collect()
    }
}

/// Returns whether this counter says that bytes have moved, or says nothing.
fn may_differ(before: Option<u64>, now: Option<u64>) -> bool {
    before.is_none() || before != now
}

//! Whether bytes move in a pipeline.
//!
//! No counter of the kernel is of one pipe. A pipe has certainly moved bytes if it is filled otherwise than before. It
//! has certainly moved none if one of its two stages has not run, or its counter of bytes is as it was. What a stage
//! reads and writes beside its pipes is in the same counters, as are the messages with which a connection is kept
//! alive. So a stage that works on other files counts as moving only if it moves more than these.

use super::Watch;
use super::seen::{Counted, Seen};
use crate::census::link::open_for_writing;
use crate::sampling::blame::blamed;
use crate::sampling::moment::Moment;
use crate::sampling::stage::WatchedStage;
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
        let links = 0..self.pipeline.links.len();
        let fills: Vec<_> = links.clone().map(|link| self.pipeline.fill(link)).collect();
        let stages: Vec<_> = self.pipeline.sums.stages.iter().map(Counted::of).collect();
        let before = std::mem::take(&mut self.seen);
        let is_first = before.stages.is_empty();
        let has_moved = is_first
            || fills != before.fills
            || links.into_iter().any(|link| {
                let link = &self.pipeline.links[link];
                let [writer, reader] = [link.writer, link.reader].map(|stage| {
                    let is_active = is_active(
                        &self.pipeline.stages[stage],
                        before.stages[stage],
                        stages[stage],
                    );
                    (stage, is_active)
                });
                let written = |counted: Counted| counted.written;
                let read = |counted: Counted| counted.read;
                let writes = self.pipeline.stages[writer.0].facts.ways.gives_pages;
                let reads = self.pipeline.stages[reader.0].facts.ways.takes_pages;
                writer.1
                    && reader.1
                    && may_have_moved(
                        written(before.stages[writer.0]),
                        written(stages[writer.0]),
                        writes,
                    )
                    && may_have_moved(read(before.stages[reader.0]), read(stages[reader.0]), reads)
            });
        let least = if fills.is_empty() { 1 } else { BESIDE };
        let has_moved = has_moved
            || (stages.iter().zip(&before.beside))
                .any(|(now, before)| now.beside() >= before + least);
        self.seen = Seen {
            beside: match has_moved {
                true => stages.iter().map(|counted| counted.beside()).collect(),
                false => before.beside,
            },
            fills,
            stages,
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
        links
            .filter_map(|link| open_for_writing(link.handle.as_fd()).ok())
            .collect()
    }
}

/// Returns whether a stage has run, or that is unknown.
fn is_active(stage: &WatchedStage, before: Counted, now: Counted) -> bool {
    let is_hidden = |stage: &WatchedStage| {
        let mut members = stage.members.iter();
        stage.has_hidden_processes || members.any(|member| member.process.has_hidden_threads)
    };
    // A process that has started has run, so 0 is unknown.
    now.turns == 0 || now.turns != before.turns || is_hidden(stage)
}

/// Returns whether this counter says that bytes have moved, or says nothing.
fn may_have_moved(before: Option<u64>, now: Option<u64>, moves_pages: bool) -> bool {
    moves_pages || before.is_none() || now.is_none() || before != now
}

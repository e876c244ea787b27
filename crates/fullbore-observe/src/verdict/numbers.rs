//! The findings about a pipeline, as numbers. Shares are from 0 to 1; numbers of stages and pipes begin with
//! 1.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::census::link::Link;
use crate::sampling::attribution::Attribution;
use crate::sampling::facts::StageFacts;
use crate::sampling::moment::{Cause, Ways};
use crate::sampling::sums::{PipeSums, StageSums, Sums, Unread};

/// What was counted and sampled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Numbers {
    /// Seconds that the pipeline ran, without the time in which it was stopped.
    pub seconds: f64,
    /// The number of samples.
    #[serde(rename = "looks")]
    pub samples: u64,
    /// How many samples that represent equal times would say as much. It is not in the JSON.
    #[serde(skip)]
    pub effective_samples: f64,
    /// Seconds of CPU time that the samples took.
    #[serde(rename = "looking_seconds")]
    pub sampling_seconds: f64,
    /// The share of the time in which all stages waited for each other.
    pub all_wait: f64,
    /// The share of the time in which the CPUs that it may run on were idle, if that is known.
    pub cpus_idle: Option<f64>,
    /// The number of these CPUs, if that is known.
    pub cpus_offered: Option<f64>,
    /// Its stages, in order.
    pub stages: Vec<StageNumbers>,
    /// Its pipes, in order.
    pub pipes: Vec<PipeNumbers>,
}

/// A stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageNumbers {
    /// Its number, from 1.
    pub number: usize,
    /// The text of its command, or the name and the PID of a process that is watched.
    pub text: String,
    /// Its command as it would be typed in a shell; empty if it is not known.
    #[serde(skip)]
    pub command: String,
    /// Seconds that it existed.
    pub seconds: f64,
    /// Seconds of CPU time.
    pub cpu_seconds: f64,
    /// How many CPUs it kept busy on average: above 1 if threads ran at the same time.
    pub cpus: f64,
    /// What it did in its time.
    pub time: Shares,
    /// What it waited for outside of the pipeline, as shares of its time.
    pub elsewhere: BTreeMap<Cause, f64>,
    /// The share of the pipeline's time in which it kept others waiting. If several stages did so at
    /// the same time, it is the stage's part of that time.
    pub blame: f64,
    /// Whether these figures are of the process that the others wait for. It is not in the JSON.
    #[serde(skip)]
    pub attribution: Attribution,
    /// Whether its threads waited for several things, not all of which need matter. It is not in the JSON.
    #[serde(skip)]
    pub is_mixed: bool,
    /// The code that it exited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What was accepted of its failure (`run --accept`): its exit code, or `early`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// What a stage did, as shares of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// At least one thread of it ran.
    pub ran: f64,
    /// At least one thread of it waited for a CPU, and none ran.
    pub waited_for_cpu: f64,
    /// It waited for the stage before it.
    pub waited_for_input: f64,
    /// It waited for the stage after it.
    pub waited_for_output: f64,
    /// It waited for something else.
    pub waited_elsewhere: f64,
}

/// A pipe.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PipeNumbers {
    /// Its number, from 1.
    pub number: usize,
    /// The stage that wrote into it.
    pub writer: usize,
    /// The stage that read from it.
    pub reader: usize,
    /// Its capacity in bytes.
    pub capacity: usize,
    /// The capacity that was asked for, in bytes: more than `capacity` if a limit prevented it.
    pub wanted: usize,
    /// Seconds in which it was observed while both its stages existed.
    pub seconds: f64,
    /// Bytes that went through it.
    #[serde(flatten)]
    pub bytes: Bytes,
    /// Bytes per second, in the time in which both its stages existed.
    pub bytes_per_second: Option<f64>,
    /// The 10th percentile of how full it was, over time.
    pub filled_10: f64,
    /// The median of how full it was, over time.
    pub filled_50: f64,
    /// The 90th percentile of how full it was, over time.
    pub filled_90: f64,
    /// The share of the time in which it was empty.
    pub empty: f64,
    /// The share of the time in which it was full, or its writer waited for room in it.
    pub full: f64,
}

/// Bytes, and how well they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// The number of bytes; `None` if it is not known.
    pub bytes: Option<u64>,
    /// How well this number is known.
    pub bytes_are: Certainty,
}

/// How well a number of bytes is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Both sides counted the same number.
    Counted,
    /// One side counted more, or only one side counted: the number may include other files.
    About,
    /// The number is not known.
    #[default]
    Unknown,
}

/// Returns the ratio of one time to another.
fn share(part: Duration, of: Duration) -> f64 {
    if of.is_zero() {
        0.0
    } else {
        (part.as_secs_f64() / of.as_secs_f64()).min(1.0)
    }
}

impl Numbers {
    /// Returns the numbers that follow from these sums.
    pub(crate) fn of(facts: &[&StageFacts], links: &[Link], sums: &Sums, seconds: f64) -> Self {
        let stages = (facts.iter().zip(&sums.stages).enumerate())
            .map(|(at, (_, stage))| StageNumbers::of(at, facts, stage, sums.time))
            .collect();
        let pipes = (links.iter().zip(&sums.pipes).enumerate())
            .map(|(at, (link, pipe))| {
                let side = |stage: usize| (facts[stage], &sums.stages[stage]);
                PipeNumbers::of(at, link, pipe, side(link.writer), side(link.reader))
            })
            .collect();
        Self {
            seconds,
            samples: sums.samples,
            effective_samples: sums.effective_samples(),
            sampling_seconds: sums.sampling.as_secs_f64(),
            all_wait: share(sums.all_wait, sums.time),
            cpus_idle: (!sums.offer.time.is_zero())
                .then(|| share(sums.offer.idle, sums.offer.time)),
            cpus_offered: sums.offer.cpus(),
            stages,
            pipes,
        }
    }
}

/// Returns how certain it is that a stage's figures are of the process that the others wait for. The stages
/// after it may instead wait for other processes that write to one of the pipes between them, and the stages
/// before it for other processes that read from one.
fn attribution(at: usize, facts: &[&StageFacts], sums: &StageSums, time: Duration) -> Attribution {
    let own = match (sums.doubtful.in_all(time), facts[at].told) {
        // The command line has started all of these processes in this stage.
        (Attribution::Unclear, false) => Attribution::Likely,
        (own, _) => own,
    };
    let before = facts[..=at].iter().map(|stage| stage.mixes.others_read);
    let after = facts[at..].iter().map(|stage| stage.mixes.others_write);
    before.chain(after).fold(own, Attribution::max)
}

impl StageNumbers {
    fn of(at: usize, all: &[&StageFacts], sums: &StageSums, time: Duration) -> Self {
        let facts = all[at];
        let slept = sums.time.saturating_sub(sums.ran + sums.queued);
        let elsewhere: Duration = sums.elsewhere.values().sum();
        let seen = sums.for_input + sums.for_output + elsewhere;
        let slept = share(slept, sums.time);
        let waited = |part: Duration| slept * share(part, seen);
        Self {
            number: at + 1,
            text: facts.started.text.clone(),
            command: facts.started.command.clone(),
            seconds: sums.time.as_secs_f64(),
            cpu_seconds: sums.cpu.as_secs_f64(),
            cpus: sums.cpu.as_secs_f64() / sums.time.as_secs_f64().max(1e-9),
            time: Shares {
                ran: share(sums.ran, sums.time),
                waited_for_cpu: share(sums.queued, sums.time),
                waited_for_input: waited(sums.for_input),
                waited_for_output: waited(sums.for_output),
                waited_elsewhere: waited(elsewhere),
            },
            elsewhere: (sums.elsewhere.iter())
                .map(|(&cause, &part)| (cause, waited(part)))
                .collect(),
            blame: share(sums.blame, time),
            attribution: attribution(at, all, sums, time),
            is_mixed: sums.doubtful.is_mixed(time),
            exit_code: facts.status.and_then(|status| status.code()),
            signal: facts.status.and_then(|status| status.signal()),
            accepted: facts.accepted.clone(),
        }
    }
}

/// A stage at an end of a pipe.
type Neighbour<'a> = (&'a StageFacts, &'a StageSums);

impl PipeNumbers {
    fn of(
        at: usize,
        link: &Link,
        sums: &PipeSums,
        writer: Neighbour<'_>,
        reader: Neighbour<'_>,
    ) -> Self {
        let bytes = match sums.unread.filter(|unread| unread.is_all(writer, reader)) {
            Some(_) => Bytes {
                bytes: Some(0),
                bytes_are: Certainty::Counted,
            },
            None => Bytes::between(writer, reader).known(),
        };
        let both = writer.1.time.min(reader.1.time).as_secs_f64();
        Self {
            number: at + 1,
            writer: link.writer + 1,
            reader: link.reader + 1,
            capacity: link.capacity,
            wanted: link.wanted,
            seconds: sums.time.as_secs_f64(),
            bytes,
            bytes_per_second: bytes
                .bytes
                .filter(|_| both > 0.0)
                .map(|bytes| bytes as f64 / both),
            filled_10: sums.percentile(0.1),
            filled_50: sums.percentile(0.5),
            filled_90: sums.percentile(0.9),
            empty: share(sums.empty, sums.time),
            full: share(sums.full, sums.time),
        }
    }
}

impl Unread {
    /// Returns whether nothing was read from the pipe: all that was written was in it, and the stage after it, which had
    /// read no more than a program does while starting, has read nothing since.
    fn is_all(self, (from, _): Neighbour<'_>, (to, reader): Neighbour<'_>) -> bool {
        let moves_pages = from.ways.gives_pages || to.ways.takes_pages;
        // A call that waits for room counts at its end, but has put in a part of its bytes.
        let is_in_it =
            self.written == self.queued || self.written < self.queued && from.ways.writes;
        is_in_it && !moves_pages && self.read <= BESIDES && reader.read == Some(self.read)
    }
}

/// Two counts that differ by no more than this are of the same bytes: programs also read a few other
/// bytes, such as those of their libraries.
const BESIDES: u64 = 256 * 1024;
const ALIKE: f64 = 0.97;

/// If one count is less than this fraction of the other, they are not counts of the same bytes: the side with
/// the lower count may have moved most of them as pages, which no sample happened to show, or the other side
/// has counted other files.
const COMPARABLE: f64 = 0.5;

/// Returns whether a stage is a verb of this project, which writes and gives pages in turn: its count of what it has
/// written is too low, whether a sample has seen that or not.
fn is_ours(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.rsplit('/').next() == Some("fullbore")
}

impl Bytes {
    /// Returns the bytes that went from one stage to another. For stages that other programs have started, a
    /// count is only used if it is of this pipe alone. It is then expected to include nothing else, because
    /// what they read while starting is not counted. A 0 whose certainty is unknown is what was counted until
    /// something is [known](Self::known).
    pub(crate) fn between((from, writer): Neighbour<'_>, (to, reader): Neighbour<'_>) -> Self {
        let mut writer_ways = from.ways;
        writer_ways.gives_pages |= is_ours(&from.started.text);
        let of = |written, read, besides| Self::of(&writer_ways, written, &to.ways, read, besides);
        if !from.told {
            return of(writer.written, reader.read, BESIDES);
        }
        match of(writer.written, reader.read, 0) {
            // They may have other files open, but do not use them.
            same if same.bytes_are == Certainty::Counted => same,
            _ => of(
                writer.written.filter(|_| !from.mixes.writes),
                reader.read.filter(|_| !to.mixes.reads),
                0,
            ),
        }
    }

    /// Returns the same without a number that is not known to be true.
    pub(crate) fn known(self) -> Self {
        let is_known = self.bytes_are != Certainty::Unknown;
        Self {
            bytes: self.bytes.filter(|_| is_known),
            ..self
        }
    }

    /// Derives the bytes from what each side has counted. A count includes all bytes that are moved
    /// by read(2) and write(2), so the lower one is closer; but bytes that are moved as pages are
    /// not included in any count.
    fn of(
        writer: &Ways,
        written: Option<u64>,
        reader: &Ways,
        read: Option<u64>,
        besides: u64,
    ) -> Self {
        let written = written.filter(|_| !writer.gives_pages);
        let read = read.filter(|_| !reader.takes_pages);
        // A count of 0 means nothing if no side was seen in a call that counts: both may move pages.
        if written.into_iter().chain(read).min() == Some(0) && !writer.writes && !reader.reads {
            return Self {
                bytes: Some(0),
                bytes_are: Certainty::Unknown,
            };
        }
        let (bytes, bytes_are) = match (written, read) {
            (None, None) => (None, Certainty::Unknown),
            (Some(one), None) | (None, Some(one)) => (Some(one), Certainty::About),
            (Some(written), Some(read)) => {
                let (low, high) = (written.min(read), written.max(read));
                let part = low as f64 / high.max(1) as f64;
                match part {
                    _ if part >= ALIKE || high - low <= besides => (Some(low), Certainty::Counted),
                    _ if part >= COMPARABLE => (Some(low), Certainty::About),
                    _ => (None, Certainty::Unknown),
                }
            }
        };
        Self { bytes, bytes_are }
    }
}

#[cfg(test)]
mod tests;

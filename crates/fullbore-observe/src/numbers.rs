//! What was found out about a pipeline, as numbers. Shares are from 0 to 1; numbers of stages and pipes begin
//! with 1.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;

use super::attribution::Attribution;
use super::link::Link;
use super::moment::{Cause, Ways};
use super::sums::{PipeSums, StageSums, Sums};

/// A command of the pipeline, as it was started. Its number is its place in the pipeline, from 0.
#[derive(Debug, Clone)]
pub struct StartedStage {
    /// What a person wrote. It may hold anything.
    pub text: String,
    /// Its first process; those below it belong to it too.
    pub pid: u32,
}

/// Whether what a stage reads and writes may be that of other pipes, and what goes through its pipes that
/// of other processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mixes {
    /// It reads from other pipes too.
    pub reads: bool,
    /// It writes to other pipes too.
    pub writes: bool,
    /// What it means for its figures that others, who are not of it, may read what it reads.
    pub others_read: Attribution,
    /// That they may write to where it writes.
    pub others_write: Attribution,
}

/// What is known of a stage besides what it has used up.
#[derive(Debug)]
pub(crate) struct StageFacts {
    /// How it was started.
    pub started: StartedStage,
    /// How it was seen to use its pipes.
    pub ways: Ways,
    /// How it ended.
    pub status: Option<ExitStatus>,
    /// Whether what it reads and writes may be that of other pipes.
    pub mixes: Mixes,
    /// Whether its processes are told, and not looked for.
    pub told: bool,
}

/// What was counted and sampled.
#[derive(Debug, Clone, Serialize)]
pub struct Numbers {
    /// Seconds that the pipeline ran; those in which it was stopped are not among them.
    pub seconds: f64,
    /// How often it was looked at.
    pub looks: u64,
    /// Seconds of CPU time that this took.
    pub looking_seconds: f64,
    /// The share of the time in which all stages waited for each other.
    pub all_wait: f64,
    /// The share of the time in which CPUs had nothing to do that it may run on, where that is known.
    pub cpus_idle: Option<f64>,
    /// Its stages, in order.
    pub stages: Vec<StageNumbers>,
    /// Its pipes, in order.
    pub pipes: Vec<PipeNumbers>,
}

/// A stage.
#[derive(Debug, Clone, Serialize)]
pub struct StageNumbers {
    /// Its place.
    pub number: usize,
    /// What it was started as.
    pub text: String,
    /// Seconds that it was there.
    pub seconds: f64,
    /// Seconds of CPU time.
    pub cpu_seconds: f64,
    /// How many CPUs it kept busy on average: above 1 where threads ran side by side.
    pub cpus: f64,
    /// What it did in its time.
    pub time: Shares,
    /// What it waited for outside of the pipeline, as shares of its time.
    pub elsewhere: BTreeMap<Cause, f64>,
    /// The share of the pipeline's time in which it kept others waiting: its part where it was not the
    /// only one.
    pub blame: f64,
    /// Whether all of this is of the process that the others wait for.
    #[serde(skip)]
    pub attribution: Attribution,
    /// Microseconds that a thread waited for a CPU each time, on average.
    pub queue_us: f64,
    /// The code that it exited with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// What a stage did, as shares of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Something of it ran.
    pub ran: f64,
    /// Something of it waited for a CPU, and nothing of it ran.
    pub waited_for_cpu: f64,
    /// It waited for the stage before.
    pub waited_for_input: f64,
    /// It waited for the stage after.
    pub waited_for_output: f64,
    /// It waited for something else.
    pub waited_elsewhere: f64,
}

/// A pipe.
#[derive(Debug, Clone, Serialize)]
pub struct PipeNumbers {
    /// Its place.
    pub number: usize,
    /// The stage that wrote into it.
    pub writer: usize,
    /// The stage that read from it.
    pub reader: usize,
    /// Bytes that it holds.
    pub capacity: usize,
    /// Bytes that it was to hold: more where a limit binds.
    pub wanted: usize,
    /// Seconds that it was looked at, with both its stages there.
    pub seconds: f64,
    /// Bytes that went through it.
    #[serde(flatten)]
    pub bytes: Bytes,
    /// Bytes a second, in the time that both its stages were there.
    pub bytes_per_second: Option<f64>,
    /// How full it was at most for 10% of the time.
    pub filled_10: f64,
    /// For half of the time.
    pub filled_50: f64,
    /// For 90% of the time.
    pub filled_90: f64,
    /// The share of the time in which it was empty.
    pub empty: f64,
    /// The share of the time in which it was full, or its writer waited for room in it.
    pub full: f64,
}

/// Bytes, and how well they are known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bytes {
    /// How many; none where that is not known.
    pub bytes: Option<u64>,
    /// What that number is.
    pub bytes_are: Certainty,
}

/// How well a number of bytes is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Both sides counted the same.
    Counted,
    /// One side counted more, or only one side counted: other files may be among it.
    About,
    /// Not at all.
    Unknown,
}

/// The part that a time is of another.
fn share(part: Duration, of: Duration) -> f64 {
    if of.is_zero() {
        0.0
    } else {
        (part.as_secs_f64() / of.as_secs_f64()).min(1.0)
    }
}

impl Numbers {
    /// What these sums say.
    pub(crate) fn of(facts: &[&StageFacts], links: &[Link], sums: &Sums, seconds: f64) -> Self {
        let stages = (facts.iter().zip(&sums.stages).enumerate())
            .map(|(at, (known, stage))| StageNumbers {
                attribution: attribution(at, facts, stage, sums.time),
                ..StageNumbers::of(at, known, stage, sums.time)
            })
            .collect();
        let pipes = (links.iter().zip(&sums.pipes).enumerate())
            .map(|(at, (link, pipe))| {
                let side = |stage: usize| (facts[stage], &sums.stages[stage]);
                PipeNumbers::of(at, link, pipe, side(link.writer), side(link.reader))
            })
            .collect();
        Self {
            seconds,
            looks: sums.looks,
            looking_seconds: sums.looking.as_secs_f64(),
            all_wait: share(sums.all_wait, sums.time),
            cpus_idle: (!sums.offer.time.is_zero())
                .then(|| share(sums.offer.idle, sums.offer.time)),
            stages,
            pipes,
        }
    }
}

/// Whether a stage's figures are of the one whom the others wait for. Those after it may wait for others who
/// write to one of the pipes on the way, and those before it for others who read from one.
fn attribution(at: usize, facts: &[&StageFacts], sums: &StageSums, time: Duration) -> Attribution {
    let own = match (sums.doubtful.in_all(time), facts[at].told) {
        // The command line has put all of them into this stage.
        (Attribution::Unclear, false) => Attribution::Likely,
        (own, _) => own,
    };
    let before = facts[..=at].iter().map(|stage| stage.mixes.others_read);
    let after = facts[at..].iter().map(|stage| stage.mixes.others_write);
    before.chain(after).fold(own, Attribution::max)
}

impl StageNumbers {
    fn of(at: usize, facts: &StageFacts, sums: &StageSums, time: Duration) -> Self {
        let slept = sums.time.saturating_sub(sums.ran + sums.queued);
        let elsewhere: Duration = sums.elsewhere.values().sum();
        let seen = sums.for_input + sums.for_output + elsewhere;
        let slept = share(slept, sums.time);
        let waited = |part: Duration| slept * share(part, seen);
        Self {
            number: at + 1,
            text: facts.started.text.clone(),
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
            attribution: Attribution::Clear,
            queue_us: sums.queues.as_secs_f64() * 1e6 / sums.turns.max(1) as f64,
            exit_code: facts.status.and_then(|status| status.code()),
            signal: facts.status.and_then(|status| status.signal()),
        }
    }
}

impl PipeNumbers {
    fn of(
        at: usize,
        link: &Link,
        sums: &PipeSums,
        writer: (&StageFacts, &StageSums),
        reader: (&StageFacts, &StageSums),
    ) -> Self {
        let bytes = Bytes::between(writer, reader);
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

/// Two counts that differ by so little are of the same bytes: programs read a little besides, such as
/// their libraries.
const BESIDES: u64 = 256 * 1024;
const ALIKE: f64 = 0.97;

/// Where one count is less than this part of the other, one of them is of something else.
const COMPARABLE: f64 = 0.5;

impl Bytes {
    /// That went from one stage to another. Of those that others have started, what each has counted is only
    /// of use where it is of this pipe; and nothing besides is expected, which they have read as they began.
    pub(crate) fn between(
        (from, writer): (&StageFacts, &StageSums),
        (to, reader): (&StageFacts, &StageSums),
    ) -> Self {
        let of = |written, read, besides| Self::of(&from.ways, written, &to.ways, read, besides);
        if !from.told {
            return of(writer.written, reader.read, BESIDES);
        }
        match of(writer.written, reader.read, 0) {
            // Whatever else they have open, it is not used.
            same if same.bytes_are == Certainty::Counted => same,
            _ => of(
                writer.written.filter(|_| !from.mixes.writes),
                reader.read.filter(|_| !to.mixes.reads),
                0,
            ),
        }
    }

    /// From what each side has counted. Nothing that goes by read(2) and write(2) is left out of a
    /// count, so the lower one is nearer; but what moves as pages is in none.
    fn of(
        writer: &Ways,
        written: Option<u64>,
        reader: &Ways,
        read: Option<u64>,
        besides: u64,
    ) -> Self {
        let written = written.filter(|_| !writer.gives_pages);
        let read = read.filter(|_| !reader.takes_pages);
        let (bytes, bytes_are) = match (written, read) {
            (None, None) => (None, Certainty::Unknown),
            (Some(one), None) | (None, Some(one)) => (Some(one), Certainty::About),
            (Some(written), Some(read)) => {
                let (low, high) = (written.min(read), written.max(read));
                // Whether the side with the lower count was seen to use calls that count.
                let is_whole = if written < read {
                    writer.writes
                } else {
                    reader.reads
                };
                let part = low as f64 / high.max(1) as f64;
                match part {
                    _ if part >= ALIKE || high - low <= besides => (Some(low), Certainty::Counted),
                    _ if part >= COMPARABLE || is_whole => (Some(low), Certainty::About),
                    _ => (None, Certainty::Unknown),
                }
            }
        };
        Self { bytes, bytes_are }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_bytes_is_only_given_where_a_side_has_counted_it() {
        let unseen = Ways::default();
        let seen = Ways {
            reads: true,
            writes: true,
            ..unseen
        };
        let splices = Ways {
            takes_pages: true,
            gives_pages: true,
            ..unseen
        };
        let gib = 1 << 30;
        for (writer, written, reader, read, bytes, known) in [
            // The same but for what the reader's start has read.
            (
                unseen,
                Some(gib),
                unseen,
                Some(gib + 9000),
                Some(gib),
                Certainty::Counted,
            ),
            (
                unseen,
                Some(10),
                unseen,
                Some(9000),
                Some(10),
                Certainty::Counted,
            ),
            (
                unseen,
                Some(gib),
                unseen,
                Some(gib / 10 * 9),
                Some(gib / 10 * 9),
                Certainty::About,
            ),
            // A tee to a file besides, or another file that is read.
            (
                unseen,
                Some(3 * gib),
                seen,
                Some(gib),
                Some(gib),
                Certainty::About,
            ),
            (
                seen,
                Some(gib),
                unseen,
                Some(3 * gib),
                Some(gib),
                Certainty::About,
            ),
            // Perhaps the reader splices, and was not caught doing so.
            (
                seen,
                Some(gib),
                unseen,
                Some(9000),
                None,
                Certainty::Unknown,
            ),
            (
                seen,
                Some(gib),
                splices,
                Some(9000),
                Some(gib),
                Certainty::About,
            ),
            (
                splices,
                Some(0),
                seen,
                Some(gib),
                Some(gib),
                Certainty::About,
            ),
            (splices, Some(0), splices, Some(0), None, Certainty::Unknown),
            (seen, None, seen, Some(gib), Some(gib), Certainty::About),
            (seen, None, seen, None, None, Certainty::Unknown),
        ] {
            let found = Bytes::of(&writer, written, &reader, read, BESIDES);
            let bytes_are = known;
            assert_eq!(found, Bytes { bytes, bytes_are }, "{written:?} {read:?}");
        }
    }
}

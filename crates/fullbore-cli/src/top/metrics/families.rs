//! The metrics that are served: one table each for the scan, the pipes and the stages of an [`Overview`].
//!
//! The label `pipe` identifies a pipe, and every other label of a pipe's samples may be dropped without two
//! series becoming one. PIDs, paths and users, which change more often or reveal more, are labels of
//! `fullbore_pipe_info` only. No command line is served.

use prometheus_client::metrics::MetricType;

use fullbore_observe::census::chains::PipeKind;
use fullbore_observe::overview::{Overview, PipeState, Side, Slow, StageState};
use fullbore_observe::verdict::numbers::Certainty;

/// A value of a metric, which is written as an integer or as a real number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

/// A metric with one sample for each `Of` whose value is known.
pub(super) struct Metric<Of> {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricType,
    pub value: fn(&Of) -> Option<Number>,
}

/// A metric whose samples add up to a total, with one sample for each value of a label.
pub(super) struct Parts {
    pub name: &'static str,
    pub help: &'static str,
    pub label: &'static str,
    pub parts: &'static [Part],
}

/// A value of the label, and the function that counts it.
pub(super) type Part = (&'static str, fn(&Overview) -> usize);

/// Everything that is served about one scan.
#[derive(Debug)]
pub struct PageData {
    pub overview: Overview,
    /// The number of requests for this page that were answered before.
    pub scrapes: u64,
}

const COUNTER: MetricType = MetricType::Counter;
pub(super) const GAUGE: MetricType = MetricType::Gauge;

/// The metrics of the scan as a whole.
pub(super) const SCAN: &[Metric<PageData>] = &[
    Metric {
        name: "fullbore_looks",
        help: "Scans of all pipes, including those that no scrape has returned",
        kind: COUNTER,
        value: |data| whole(data.overview.scan),
    },
    Metric {
        name: "fullbore_scrapes",
        help: "Scrapes that were answered before this scan; several may have been answered from one scan",
        kind: COUNTER,
        value: |data| whole(data.scrapes),
    },
    Metric {
        name: "fullbore_look_timestamp_seconds",
        help: "Time of the scan that these metrics come from",
        kind: GAUGE,
        value: |data| real(data.overview.taken_at),
    },
    Metric {
        name: "fullbore_look_duration_seconds",
        help: "Duration of the scan",
        kind: GAUGE,
        value: |data| real(data.overview.took_seconds),
    },
    Metric {
        name: "fullbore_chains",
        help: "Pipelines, or sections of pipelines between branches",
        kind: GAUGE,
        value: |data| whole(data.overview.chains.len() as u64),
    },
    Metric {
        name: "fullbore_pipes_not_watched",
        help: "Pipes for which waiting is not known, because of the limit of open files",
        kind: GAUGE,
        value: |data| whole(data.overview.left_out.not_watched as u64),
    },
    Metric {
        name: "fullbore_processes_of_others_hidden",
        help: "Whether /proc lists no processes of other users (hidepid), so that they are not counted as unseen",
        kind: GAUGE,
        value: |data| whole(data.overview.unseen.others_hidden.into()),
    },
];

/// The metrics of the scan as a whole that have parts.
pub(super) const PARTS: &[Parts] = &[
    Parts {
        name: "fullbore_pipes",
        help: "Pipes and FIFOs with metrics, by kind",
        label: "kind",
        parts: &[
            ("link", |overview| of_kind(overview, PipeKind::Link)),
            ("private", |overview| of_kind(overview, PipeKind::Private)),
            ("own", |overview| of_kind(overview, PipeKind::Own)),
            ("one_sided", |overview| {
                of_kind(overview, PipeKind::OneSided)
            }),
        ],
    },
    Parts {
        name: "fullbore_pipes_left_out",
        help: "Pipes without metrics: private to one process, or not selected",
        label: "reason",
        parts: &[
            ("own", |overview| overview.left_out.own),
            ("of_others", |overview| overview.left_out.of_others),
        ],
    },
    Parts {
        name: "fullbore_processes_unseen",
        help: "Processes whose pipes this user may not inspect completely",
        label: "reason",
        parts: &[
            ("of_others", |overview| overview.unseen.of_others),
            ("of_this_user", |overview| overview.unseen.of_this_user),
            ("too_many_fds", |overview| overview.unseen.too_many_fds),
        ],
    },
];

/// The metrics of each pipe.
pub(super) const PIPE: &[Metric<PipeState>] = &[
    Metric {
        name: "fullbore_pipe_capacity_bytes",
        help: "Capacity of the pipe",
        kind: GAUGE,
        value: |row| count(row.capacity),
    },
    Metric {
        name: "fullbore_pipe_queued_bytes",
        help: "Bytes in the pipe",
        kind: GAUGE,
        value: |row| count(row.queued),
    },
    Metric {
        name: "fullbore_pipe_bytes",
        help: "Bytes that went through the pipe since it was first seen, according to its \
         processes' I/O counters",
        kind: COUNTER,
        value: |row| row.bytes.bytes.and_then(whole),
    },
    Metric {
        name: "fullbore_pipe_bytes_exact",
        help: "1 if the counters of both sides agree; otherwise they may include other files",
        kind: GAUGE,
        value: |row| {
            row.bytes
                .bytes
                .and(whole((row.bytes.bytes_are == Certainty::Counted).into()))
        },
    },
    Metric {
        name: "fullbore_pipe_empty_ratio",
        help: "The share of the last seconds in which the pipe was empty",
        kind: GAUGE,
        value: |row| row.empty.and_then(real),
    },
    Metric {
        name: "fullbore_pipe_full_ratio",
        help: "The share of the last seconds in which the pipe was full, or its writer waited for \
         space in it",
        kind: GAUGE,
        value: |row| row.full.and_then(real),
    },
    Metric {
        name: "fullbore_pipe_writer_waiting_ratio",
        help: "The share of the last seconds in which the writer waited for space in the pipe",
        kind: GAUGE,
        value: |row| row.writer_waits.and_then(real),
    },
    Metric {
        name: "fullbore_pipe_reader_waiting_ratio",
        help: "The share of the last seconds in which the reader waited for bytes",
        kind: GAUGE,
        value: |row| row.reader_waits.and_then(real),
    },
    Metric {
        name: "fullbore_pipe_writer_blocked_seconds",
        help: "Minimum time for which the writer has been waiting for space; 0 if it is not \
         waiting",
        kind: GAUGE,
        value: |row| blocked(row, Side::Writer),
    },
    Metric {
        name: "fullbore_pipe_reader_blocked_seconds",
        help: "Minimum time for which the reader has been waiting for bytes; 0 if it is not waiting",
        kind: GAUGE,
        value: |row| blocked(row, Side::Reader),
    },
    Metric {
        name: "fullbore_pipe_slow_writer",
        help: "1 if the side of the writer is slow, including the stages before it; both sides \
         are 1 if they are equally slow",
        kind: GAUGE,
        value: |row| slow(row, Slow::Writer),
    },
    Metric {
        name: "fullbore_pipe_slow_reader",
        help: "1 if the side of the reader is slow, including the stages after it; both sides are \
         1 if they are equally slow",
        kind: GAUGE,
        value: |row| slow(row, Slow::Reader),
    },
    Metric {
        name: "fullbore_pipe_writers",
        help: "Processes that write to the pipe",
        kind: GAUGE,
        value: |row| whole(row.writers.len() as u64),
    },
    Metric {
        name: "fullbore_pipe_readers",
        help: "Processes that read from the pipe",
        kind: GAUGE,
        value: |row| whole(row.readers.len() as u64),
    },
    Metric {
        name: "fullbore_pipe_first_seen_timestamp_seconds",
        help: "When the pipe was first seen",
        kind: GAUGE,
        value: |row| real(row.first_seen),
    },
];

/// The metrics of each stage of a pipeline.
pub(super) const STAGE: &[Metric<StageState>] = &[
    Metric {
        name: "fullbore_stage_cpus",
        help: "How many CPUs the stage kept busy in the last seconds",
        kind: GAUGE,
        value: |stage| stage.cpus.and_then(real),
    },
    Metric {
        name: "fullbore_stage_blame_ratio",
        help: "The share of the last seconds in which the other stages waited for this one",
        kind: GAUGE,
        value: |stage| stage.blame.and_then(real),
    },
    Metric {
        name: "fullbore_stage_running_ratio",
        help: "Share of the last seconds in which a process of the stage ran",
        kind: GAUGE,
        value: |stage| real(stage.time?.ran),
    },
    Metric {
        name: "fullbore_stage_waiting_for_cpu_ratio",
        help: "The share of the last seconds in which the stage waited for a CPU",
        kind: GAUGE,
        value: |stage| real(stage.time?.waited_for_cpu),
    },
    Metric {
        name: "fullbore_stage_waiting_for_input_ratio",
        help: "The share of the last seconds in which it waited for the stage before",
        kind: GAUGE,
        value: |stage| real(stage.time?.waited_for_input),
    },
    Metric {
        name: "fullbore_stage_waiting_for_output_ratio",
        help: "The share of the last seconds in which it waited for the stage after",
        kind: GAUGE,
        value: |stage| real(stage.time?.waited_for_output),
    },
    Metric {
        name: "fullbore_stage_waiting_elsewhere_ratio",
        help: "The share of the last seconds in which the stage waited for something other than a \
         pipe of the pipeline",
        kind: GAUGE,
        value: |stage| real(stage.time?.waited_elsewhere),
    },
];

// It returns an option because the functions in the tables do.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn whole(number: u64) -> Option<Number> {
    Some(Number::Whole(number))
}

fn real(number: f64) -> Option<Number> {
    number.is_finite().then_some(Number::Real(number))
}

fn count(number: Option<usize>) -> Option<Number> {
    whole(number? as u64)
}

fn of_kind(overview: &Overview, kind: PipeKind) -> usize {
    overview.pipes.iter().filter(|row| row.kind == kind).count()
}

/// Returns how long a side has been blocked, in seconds, or `None` if its waiting is not observed.
fn blocked(row: &PipeState, side: Side) -> Option<Number> {
    match row.blocked.iter().find(|blocked| blocked.side == side) {
        Some(blocked) => real(blocked.seconds),
        None => row.writer_waits.or(row.reader_waits).and(real(0.0)),
    }
}

fn slow(row: &PipeState, side: Slow) -> Option<Number> {
    match row.slow {
        Slow::Unknown => None,
        slow => whole((slow == side || slow == Slow::Both).into()),
    }
}

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

/// A metric with one sample for each `Of` whose value is known: its kind, its name, its help, and the value.
pub(super) type Metric<Of> = (
    MetricType,
    &'static str,
    &'static str,
    fn(&Of) -> Option<Number>,
);

/// A metric whose samples add up to a total: its name, its help, a label, and the samples by its values.
pub(super) type Parts = (&'static str, &'static str, &'static str, &'static [Part]);

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
#[rustfmt::skip]
pub(super) const SCAN: &[Metric<PageData>] = &[
    (COUNTER, "fullbore_looks", "Scans of all pipes, including those that no scrape has returned",
        |data| whole(data.overview.scan)),
    (COUNTER, "fullbore_scrapes",
        "Scrapes that were answered before this scan; several may have been answered from one scan",
        |data| whole(data.scrapes)),
    (GAUGE, "fullbore_look_timestamp_seconds", "Time of the scan that these metrics come from",
        |data| real(data.overview.taken_at)),
    (GAUGE, "fullbore_look_duration_seconds", "Duration of the scan", |data| real(data.overview.took_seconds)),
    (GAUGE, "fullbore_chains", "Pipelines, or sections of pipelines between branches",
        |data| whole(data.overview.chains.len() as u64)),
    (GAUGE, "fullbore_pipes_not_watched",
        "Pipes for which waiting is not known, because of the limit of open files",
        |data| whole(data.overview.left_out.not_watched as u64)),
    (GAUGE, "fullbore_processes_of_others_hidden",
        "Whether /proc lists no processes of other users (hidepid), so that they are not counted as unseen",
        |data| whole(data.overview.unseen.others_hidden.into())),
];

/// The metrics of the scan as a whole that have parts.
#[rustfmt::skip]
pub(super) const PARTS: &[Parts] = &[
    ("fullbore_pipes", "Pipes and FIFOs with metrics, by kind", "kind", &[
        ("link", |overview| of_kind(overview, PipeKind::Link)),
        ("private", |overview| of_kind(overview, PipeKind::Private)),
        ("own", |overview| of_kind(overview, PipeKind::Own)),
        ("one_sided", |overview| of_kind(overview, PipeKind::OneSided)),
    ]),
    ("fullbore_pipes_left_out", "Pipes without metrics: private to one process, or not selected", "reason", &[
        ("own", |overview| overview.left_out.own),
        ("of_others", |overview| overview.left_out.of_others),
    ]),
    ("fullbore_processes_unseen", "Processes whose pipes this user may not inspect completely", "reason", &[
        ("of_others", |overview| overview.unseen.of_others),
        ("of_this_user", |overview| overview.unseen.of_this_user),
        ("too_many_fds", |overview| overview.unseen.too_many_fds),
    ]),
];

/// The metrics of each pipe.
#[rustfmt::skip]
pub(super) const PIPE: &[Metric<PipeState>] = &[
    (GAUGE, "fullbore_pipe_capacity_bytes", "Capacity of the pipe", |row| count(row.capacity)),
    (GAUGE, "fullbore_pipe_queued_bytes", "Bytes in the pipe", |row| count(row.queued)),
    (GAUGE, "fullbore_pipe_filled_ratio", "How full the pipe is: 1 if its slots are used up, however few bytes they hold",
        |row| row.filled.and_then(real)),
    (COUNTER, "fullbore_pipe_bytes",
        "Bytes that went through the pipe since it was first seen, according to its processes' I/O counters",
        |row| row.bytes.bytes.and_then(whole)),
    (GAUGE, "fullbore_pipe_bytes_exact",
        "1 if the counters of both sides agree; otherwise they may include other files",
        |row| row.bytes.bytes.and(whole((row.bytes.bytes_are == Certainty::Counted).into()))),
    (GAUGE, "fullbore_pipe_empty_ratio", "The share of the last seconds in which the pipe was empty",
        |row| row.empty.and_then(real)),
    (GAUGE, "fullbore_pipe_full_ratio",
        "The share of the last seconds in which the pipe was full, or its writer waited for space in it",
        |row| row.full.and_then(real)),
    (GAUGE, "fullbore_pipe_writer_waiting_ratio",
        "The share of the last seconds in which the writer waited for space in the pipe",
        |row| row.writer_waits.and_then(real)),
    (GAUGE, "fullbore_pipe_reader_waiting_ratio",
        "The share of the last seconds in which the reader waited for bytes",
        |row| row.reader_waits.and_then(real)),
    (GAUGE, "fullbore_pipe_writer_blocked_seconds",
        "Minimum time for which the writer has been waiting for space; 0 if it is not waiting",
        |row| blocked(row, Side::Writer)),
    (GAUGE, "fullbore_pipe_reader_blocked_seconds",
        "Minimum time for which the reader has been waiting for bytes; 0 if it is not waiting",
        |row| blocked(row, Side::Reader)),
    (GAUGE, "fullbore_pipe_slow_writer",
        "1 if the side of the writer is slow, including the stages before it; both sides are 1 if they are equally slow",
        |row| slow(row, Slow::Writer)),
    (GAUGE, "fullbore_pipe_slow_reader",
        "1 if the side of the reader is slow, including the stages after it; both sides are 1 if they are equally slow",
        |row| slow(row, Slow::Reader)),
    (GAUGE, "fullbore_pipe_writers", "Processes that write to the pipe", |row| whole(row.writers.len() as u64)),
    (GAUGE, "fullbore_pipe_readers", "Processes that read from the pipe", |row| whole(row.readers.len() as u64)),
    (GAUGE, "fullbore_pipe_first_seen_timestamp_seconds", "When the pipe was first seen", |row| real(row.first_seen)),
];

/// The metrics of each stage of a pipeline.
#[rustfmt::skip]
pub(super) const STAGE: &[Metric<StageState>] = &[
    (GAUGE, "fullbore_stage_cpus", "How many CPUs the stage kept busy in the last seconds",
        |stage| stage.cpus.and_then(real)),
    (GAUGE, "fullbore_stage_blame_ratio",
        "The share of the last seconds in which the other stages waited for this one",
        |stage| stage.blame.and_then(real)),
    (GAUGE, "fullbore_stage_running_ratio", "Share of the last seconds in which a process of the stage ran",
        |stage| real(stage.time?.ran)),
    (GAUGE, "fullbore_stage_waiting_for_cpu_ratio",
        "The share of the last seconds in which the stage waited for a CPU",
        |stage| real(stage.time?.waited_for_cpu)),
    (GAUGE, "fullbore_stage_waiting_for_input_ratio",
        "The share of the last seconds in which it waited for the stage before",
        |stage| real(stage.time?.waited_for_input)),
    (GAUGE, "fullbore_stage_waiting_for_output_ratio",
        "The share of the last seconds in which it waited for the stage after",
        |stage| real(stage.time?.waited_for_output)),
    (GAUGE, "fullbore_stage_waiting_elsewhere_ratio",
        "The share of the last seconds in which the stage waited for something other than a pipe of the pipeline",
        |stage| real(stage.time?.waited_elsewhere)),
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

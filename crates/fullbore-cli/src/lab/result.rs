//! What a run of the laboratory found: the one shape that the runner fills and every report reads.
//!
//! Serialised, [`Run`] is the JSON that `fullbore bench --json` prints. docs/methodology.md
//! documents it, and [`SCHEMA`] changes when a field changes its meaning or goes away.

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::movers::MoverReport;
use super::soundness::Soundness;
use super::statistics::Spread;

/// The version of the JSON's shape.
pub const SCHEMA: u32 = 1;

/// One run of `fullbore bench`: the machine, how it was measured, and what came out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The version of this shape, [`SCHEMA`].
    pub schema: u32,
    /// What the figures depend on.
    pub machine: Machine,
    /// Nanoseconds that a cache line took from the writer's CPU to the reader's and back, before
    /// each measurement; `None` where there is one CPU.
    #[serde(default)]
    pub line_round_trip_ns: Option<Spread>,
    /// What came of measurements during which the two CPUs were farther apart than usual.
    #[serde(default)]
    pub apart: Apart,
    /// How they were taken.
    pub settings: Settings,
    /// The experiments in the order of the catalogue.
    pub experiments: Vec<Outcome>,
}

/// Measurements during which the two CPUs were farther apart than at other times of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// Thrown away, and repeated.
    pub repeated: u32,
    /// Taken all the same, because there had been too many of them.
    pub taken: u32,
}

/// How a run measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// How often each experiment is measured.
    pub rounds: u32,
    /// Seconds of one measurement, the warm-up not counted.
    pub seconds: f64,
    /// Seconds at the start of each measurement that are thrown away.
    pub warm_up_seconds: f64,
    /// The capacity asked for with `--pipe-size`, in bytes.
    pub pipe_size: Option<usize>,
    /// Seed of the order in which experiments were shuffled.
    pub seed: u64,
}

/// What one experiment came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The group it belongs to, such as `ladder`.
    pub group: String,
    /// Its name within the group.
    pub name: String,
    /// One line: what it shows.
    pub shows: String,
    /// The figure that the text it comes from gives, in GiB/s.
    pub published_gib_per_s: Option<f64>,
    /// Throughput in GiB/s (2^30 bytes); `None` where nothing was measured.
    pub gib_per_s: Option<Spread>,
    /// Median throughput over that of the first experiment of its group in this run; where a group
    /// is divided by jobs, of the same job.
    pub ratio: Option<f64>,
    /// Whether the bytes were right behind every middleman, where that was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soundness: Option<Soundness>,
    /// Who moved the bytes and what the job was, where the experiment is about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mover: Option<MoverReport>,
    /// The last round's writer, as it reported itself; `None` where the source is a file.
    pub writer: Option<EndpointReport>,
    /// The last round's reader, as it reported itself; `None` where the sink is a file.
    pub reader: Option<EndpointReport>,
    /// What a person should know beside the figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why it was not run, where this machine does not allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// What went wrong, where it was run and broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What one endpoint (`fullbore write` or `fullbore read`) says of its own run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// The endpoint's options, as they would be typed in a shell.
    pub options: String,
    /// The CPU it was pinned to.
    pub cpu: Option<usize>,
    /// Bytes moved while it was timed.
    pub bytes: u64,
    /// Bytes moved over its whole life, the warm-up included.
    pub moved: u64,
    /// Seconds it was timed, by the monotonic clock.
    pub seconds: f64,
    /// `bytes` over `seconds` in GiB/s.
    pub gib_per_s: f64,
    /// System calls that moved bytes, while it was timed.
    pub calls: u64,
    /// CPU seconds used in user mode and in the kernel, over the whole life of the process.
    pub cpu_seconds: f64,
    /// Times it slept of its own accord (voluntary context switches), over its whole life.
    pub sleeps: Option<u64>,
    /// Minor page faults over its whole life.
    pub page_faults: Option<u64>,
    /// Capacity of its pipe in bytes, when it began.
    pub pipe_capacity: Option<usize>,
    /// What the kernel backs its buffers with: `base pages`, `huge pages`, or why that is unknown.
    pub backing: Option<String>,
    /// Wrapping sum of all 64-bit words read, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<u64>,
    /// Whether every byte was checked and right, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// What was missing on this machine, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

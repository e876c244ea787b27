//! The result of one run of `fullbore bench`, which the laboratory fills in and every report reads.
//!
//! Serialised, [`Run`] is the JSON that `fullbore bench --json` prints. docs/methodology.md
//! documents it, and [`SCHEMA`] changes when a field changes its meaning or goes away.

use serde::{Deserialize, Serialize};

use crate::soundness::Soundness;
use crate::statistics::Spread;
use fullbore_host::machine::Machine;

/// The version of the JSON's shape.
pub const SCHEMA: u32 = 2;

/// One run of `fullbore bench`: the machine, the settings, and what each experiment measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The version of this shape, [`SCHEMA`].
    pub schema: u32,
    /// When the run began, in the format of RFC 3339, in UTC.
    pub taken_at: String,
    /// The machine that the figures depend on.
    pub machine: Machine,
    /// Nanoseconds that a cache line took from the writer's CPU to the reader's and back, before
    /// each measurement; `None` where there is one CPU.
    pub line_round_trip_ns: Option<Spread>,
    /// How many measurements were made while the two CPUs were farther apart than usual.
    #[serde(default)]
    pub apart: Apart,
    /// The share of the CPU time that other processes, or other guests of the host, used during the rounds; `None` where
    /// /proc does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_work: Option<f64>,
    /// What the two CPUs can do at most; `None` where there is one CPU, or where it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How the run measured.
    pub settings: Settings,
    /// The experiments in the order of the catalogue.
    pub experiments: Vec<Outcome>,
    /// The overall result of each group in which the same contestants are compared in several tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overall: Vec<Overall>,
    /// What tables show, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
}

/// What a table of a group shows, in a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// The group.
    pub group: String,
    /// The table, where the group has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The sentence, without a full stop.
    pub text: String,
}

/// Measurements during which the two CPUs were farther apart than at other times of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// How many were discarded and repeated.
    pub repeated: u32,
    /// How many were kept, because too many had been discarded already.
    pub taken: u32,
}

/// What the two CPUs can do without any system call, in GiB/s: the largest sample is the limit of everything that
/// passes bytes from one to the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Blocks of memory that one CPU writes and the other one reads.
    pub handed_over: Spread,
}

/// How a run measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How often each experiment is measured.
    pub rounds: u32,
    /// Seconds of one measurement, the warm-up not counted.
    pub seconds: f64,
    /// Seconds at the start of each measurement that are not counted.
    pub warm_up_seconds: f64,
    /// The capacity asked for with `--pipe-size`, in bytes.
    pub pipe_size: Option<usize>,
    /// What the group `unix_copy` sent, and through what; `None` where nothing of it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_copy: Option<Sizes>,
    /// Seed of the order in which experiments were shuffled.
    pub seed: u64,
}

impl Settings {
    /// Returns settings with seed 0 that change no pipe.
    pub const fn new(rounds: u32, seconds: f64, warm_up_seconds: f64) -> Self {
        Self {
            rounds,
            seconds,
            warm_up_seconds,
            pipe_size: None,
            unix_copy: None,
            seed: 0,
        }
    }
}

/// The result of one experiment; by default, of one that has not been measured yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The group it belongs to, such as `ladder`.
    pub group: String,
    /// Its name within the group.
    pub name: String,
    /// What it shows, in one line.
    pub shows: String,
    /// The table of its group that it stands in, where a group has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What `figure` and `published` are in.
    pub unit: Unit,
    /// The figure that was published for this technique.
    pub published: Option<f64>,
    /// What was measured; `None` where nothing was.
    pub figure: Option<Spread>,
    /// How many times as fast it is as the first experiment of its table in this run: the ratio of
    /// the medians.
    pub ratio: Option<f64>,
    /// Further figures that were measured in the same rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Also>,
    /// What it costs, where it moves bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// A program in C that does the same, measured in the same rounds, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// Its place in a table of two axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// Whether the bytes were right behind every program in between, where that was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soundness: Option<Soundness>,
    /// The program that moved the bytes and what it had to do, where the experiment measures that.
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
    /// The error, where it was run and failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

pub(crate) fn missing<'a>(
    failed: Option<&'a String>,
    skipped: Option<&'a String>,
) -> Option<(&'static str, &'a str)> {
    let failed = failed.map(|reason| ("failed", reason.as_str()));
    failed.or(skipped.map(|reason| ("skipped", reason.as_str())))
}

impl Outcome {
    /// Returns why it is not measured: one word for it, and the reason.
    pub fn missing(&self) -> Option<(&'static str, &str)> {
        missing(self.failed.as_ref(), self.skipped.as_ref())
    }

    /// Returns the median of its rounds, if it was measured.
    pub fn median(&self) -> Option<f64> {
        Some(self.figure.as_ref()?.median)
    }

    /// Returns how much of the limit the figure is, so 0.5 for half: above 1 where not every byte is written by
    /// one CPU and read by the other.
    pub fn share_of(&self, limit: &Limit) -> Option<f64> {
        let figure = self.unit.gib_per_s(self.median()?)?;
        Some(figure / limit.handed_over.max)
    }

    /// Returns whether a further figure is the main one in another unit: both are amounts per
    /// second.
    pub fn is_only_converted(&self, also: &Also) -> bool {
        self.unit.more_is_better() && also.unit.more_is_better()
    }
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// 2^30 bytes per second.
    #[default]
    #[serde(rename = "GiB/s")]
    GibPerS,
    /// 10^6 bits per second, as is usual for networks.
    #[serde(rename = "Mb/s")]
    MbitPerS,
    /// 10^6 bytes per second, as lmbench counts.
    #[serde(rename = "MB/s")]
    MbPerS,
    /// Microseconds.
    #[serde(rename = "µs")]
    Microseconds,
    /// Nanoseconds for each page.
    #[serde(rename = "ns/page")]
    NanosecondsPerPage,
    /// CPU seconds for each 2^30 bytes.
    #[serde(rename = "s/GiB")]
    SecondsPerGib,
    /// How many times as long something takes as without what is measured.
    #[serde(rename = "×")]
    Times,
}

impl Unit {
    /// Returns the unit as it is written behind a figure.
    pub fn name(self) -> &'static str {
        match self {
            Unit::GibPerS => "GiB/s",
            Unit::MbitPerS => "Mb/s",
            Unit::MbPerS => "MB/s",
            Unit::Microseconds => "µs",
            Unit::NanosecondsPerPage => "ns/page",
            Unit::SecondsPerGib => "s/GiB",
            Unit::Times => "×",
        }
    }

    /// Returns a figure in GiB/s, if it is an amount per second.
    pub fn gib_per_s(self, figure: f64) -> Option<f64> {
        let bytes_per_s = match self {
            Unit::GibPerS => return Some(figure),
            Unit::MbPerS => figure * 1e6,
            Unit::MbitPerS => figure * 1e6 / 8.0,
            _ => return None,
        };
        Some(bytes_per_s / (1u64 << 30) as f64)
    }

    /// Returns whether a larger figure is a better one.
    pub fn more_is_better(self) -> bool {
        matches!(self, Unit::GibPerS | Unit::MbitPerS | Unit::MbPerS)
    }

    /// Returns how many times as fast `figure` is as `base`.
    pub fn times_as_fast(self, figure: f64, base: f64) -> f64 {
        match self.more_is_better() {
            true => figure / base,
            false => base / figure,
        }
    }
}

/// A further figure of an experiment, such as a percentile; or the same one in another unit, which
/// [`Outcome::is_only_converted`] tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Also {
    /// What it is, such as `p99`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// One value per round.
    pub figure: Spread,
}

/// The CPU seconds that all processes of an experiment use for each 2^30 bytes, their start and end included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// In user mode and in the kernel together.
    pub total: Spread,
    /// In user mode.
    pub user: Spread,
    /// In the kernel.
    pub system: Spread,
}

/// A straightforward program in C that does what an experiment does (`peers/`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Its command line.
    pub command: String,
    /// Its figure, in the experiment's unit; `None` where it failed.
    pub figure: Option<Spread>,
    /// How many times as fast the experiment is as the program: the median of the rounds' ratios,
    /// since both were measured one after the other in each.
    pub ratio: Option<f64>,
    /// Its error message, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The place of an experiment in a table of two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Bytes of one call.
    pub chunk: usize,
    /// Bytes that the pipe holds.
    pub pipe_size: usize,
}

/// What one endpoint (`fullbore write` or `fullbore read`) reports about its own run.
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
    /// How many seconds were timed, by the monotonic clock.
    pub seconds: f64,
    /// `bytes` over `seconds` in GiB/s.
    pub gib_per_s: f64,
    /// System calls that moved bytes, while it was timed.
    pub calls: u64,
    /// CPU seconds used in user mode and in the kernel, over the whole life of the process.
    pub cpu_seconds: f64,
    /// Capacity of its pipe in bytes at the start.
    pub pipe_capacity: Option<usize>,
    /// What the kernel backs its buffers with: `base pages`, `huge pages`, or why that is unknown.
    pub backing: Option<String>,
    /// Wrapping sum of all 64-bit words read, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<u64>,
    /// Whether every byte was checked and right, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
}

/// The program that moved bytes or ran a pipeline, as reports name it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MoverReport {
    /// What it had to do, such as `pipe → pipe`. Ratios are to the first of the same job.
    pub job: String,
    /// Its command line, as it would be typed in a shell.
    pub command: String,
    /// The first line of its version; `None` for this program, and for one that prints none.
    pub version: Option<String>,
    /// Bytes that arrived, where they went into a file, or that a pipeline read; elsewhere the reader
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Seconds from its start to its end, where it was timed by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// One of several contestants that are compared in each table of a group, over all its tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// The group.
    pub group: String,
    /// The name of the contestant, such as `fullbore run`.
    pub contestant: String,
    /// The contestant to which ratios are.
    pub base: String,
    /// Tables in which both were measured.
    pub tables: usize,
    /// The geometric mean of the ratios in these.
    pub geometric_mean: f64,
    /// The experiment with the smallest ratio.
    pub least: At,
    /// The experiment with the largest ratio.
    pub most: At,
}

/// The ratio of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct At {
    /// Its name.
    pub name: String,
    /// How many times as fast it was as the base.
    pub ratio: f64,
}

/// What the group `unix_copy` sends, and through what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes of the object.
    pub object: usize,
    /// How many objects a measurement sends; as many as there is time for if `None`.
    pub count: Option<u64>,
    /// Bytes of the Unix socket's send buffer that are asked for.
    pub sndbuf: usize,
    /// Bytes of the pipe through which the receiving side splices.
    pub pipe_size: usize,
    /// Bytes of the hot working set.
    pub hot: usize,
    /// Whether the receiver reads and checks every object, and not only the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check_every_object: bool,
}

impl Default for Sizes {
    /// Returns the sizes of the RFC's benchmark, which has no hot working set, and one of 256 KiB.
    fn default() -> Self {
        Self {
            object: 1 << 20,
            count: None,
            sndbuf: 512 << 10,
            pipe_size: 512 << 10,
            hot: 256 << 10,
            check_every_object: false,
        }
    }
}

impl Sizes {
    /// Returns how many bytes one measurement sends; `None` where that depends on the time.
    pub fn bytes(&self) -> Option<u64> {
        let object = self.object as u64;
        self.count.map(|count| count.saturating_mul(object))
    }
}

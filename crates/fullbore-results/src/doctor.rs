//! What `fullbore doctor` found: what a machine allows, and what slows it down.
//!
//! Serialised, [`Examination`] is the JSON that `fullbore doctor --json` prints. docs/doctor.md documents
//! it, and [`SCHEMA`] changes when a field changes its meaning or goes away.

use serde::{Deserialize, Serialize};

use crate::placement::PlacementReport;
use crate::statistics::BUSY;
use fullbore_host::machine::Machine;

/// The version of the JSON's shape.
pub const SCHEMA: u32 = 1;

/// The value of [`Conditions::seccomp`] under a filter of system calls.
pub const SECCOMP_FILTER: u64 = 2;

/// All that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// The version of this shape, [`SCHEMA`].
    pub schema: u32,
    /// When it was done, in the format of RFC 3339, in UTC.
    pub taken_at: String,
    /// The machine.
    pub machine: Machine,
    /// The conditions under which this process runs.
    pub circumstances: Conditions,
    /// The techniques that were tried.
    pub trials: Vec<TrialReport>,
    /// The limits and settings that matter.
    pub settings: Vec<Setting>,
    /// The CPUs.
    pub cpus: CpuReport,
    /// What both ends of a pipe on one CPU gain.
    pub placement: PlacementReport,
    /// How much of the user's allowance for pipes is in use.
    pub allowance: Allowance,
    /// The share of the CPU time that others used meanwhile, from 0 to 1; `None` if it is not known.
    pub other_work: Option<f64>,
    /// The change that would gain the most; `None` only while the rest is being found out.
    pub advice: Option<Advice>,
    /// The change that would gain most besides placement, if the advice is about placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_advice: Option<Advice>,
}

/// The conditions under which a process runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The user.
    pub uid: u32,
    /// `Seccomp` in /proc/self/status: 0 none, 1 strict, 2 a filter (proc_pid_status(5)).
    pub seccomp: u64,
    /// Whether the kernel is gVisor.
    pub gvisor: bool,
    /// The capabilities that matter, by their names.
    pub capabilities: Vec<String>,
    /// Whether transparent huge pages are switched off for this process (prctl(2),
    /// `PR_SET_THP_DISABLE`).
    pub huge_pages_disabled: bool,
}

/// A technique that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialReport {
    /// Its name.
    pub name: String,
    /// What the technique is for.
    pub purpose: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: TrialOutcome,
    /// The name of the kernel's error, if the trial was refused with one.
    pub errno_name: Option<String>,
    /// The cause, if the trial was refused.
    pub cause: Option<RefusalCause>,
    /// How long it took.
    pub milliseconds: f64,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialOutcome {
    /// The technique works; the text says what was observed.
    Works(String),
    /// The machine refuses it.
    Refused(Refusal),
    /// The technique moved bytes, but not the right ones.
    Wrong(String),
    /// There was nothing to try the technique on.
    NotTried(String),
}

/// How something was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The call or the step that was refused.
    pub operation: String,
    /// The kernel's error number, if there is one.
    pub errno: Option<i32>,
    /// The signal that ended the process of the trial.
    pub signal: Option<i32>,
    /// The error message, or a description of what was observed.
    pub said: String,
}

/// The reason for a refusal, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalCause {
    /// Why it was refused.
    pub why: String,
    /// The command that would change it; `None` if there is none.
    pub remedy: Option<String>,
}

/// A limit or a setting, with its value on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name in sysctl(8) or the shell, or the name of the file.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether the value is fine.
    pub fine: bool,
    /// What the value means on this machine.
    pub meaning: String,
    /// The purpose of the setting.
    pub purpose: String,
    /// The command that would change it.
    pub command: String,
    /// The cost of the change.
    pub cost: String,
}

/// The CPUs, as lists such as `0-3,8`, and in pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuReport {
    /// The CPUs that are online.
    pub online: String,
    /// The CPUs that this process may use.
    pub allowed: String,
    /// The CPUs that are offline.
    pub offline: String,
    /// The first pair of each kind.
    pub pairs: Vec<PairReport>,
}

/// A pair of CPUs that represents all pairs of the same kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    /// The CPU for a writer.
    pub writer: usize,
    /// The CPU for a reader.
    pub reader: usize,
    /// What they share.
    pub share: Sharing,
    /// Whether `bench` uses it by default.
    pub chosen: bool,
    /// The nanoseconds that a cache line takes from one CPU to the other and back.
    pub line_round_trip_ns: Option<f64>,
}

/// What two CPUs share, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// They are two threads of one core.
    Core,
    /// They share an L2 cache.
    L2,
    /// They share the last-level cache.
    LastLevel,
    /// They share a socket, and no cache.
    Socket,
    /// They are in different sockets.
    OtherSocket,
    /// The kernel does not report it.
    Unknown,
}

/// The visible part of a user's pipes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// The user.
    pub uid: u32,
    /// The number of pipes that this user made.
    pub pipes: usize,
    /// The sum of their capacities in bytes.
    pub bytes: u64,
    /// The same sum in pages, which is what the limits count.
    pub pages: u64,
    /// The value of `fs.pipe-user-pages-soft`; 0 means no limit.
    pub soft_limit: Option<u64>,
    /// Whether this process is exempt from the limits.
    pub exempt: bool,
    /// The number of processes that have a pipe open.
    pub processes_seen: usize,
    /// The number of this user's processes whose fds could not be read.
    pub processes_closed: usize,
    /// The number of this user's pipes that could not be opened.
    pub pipes_closed: usize,
}

/// The change that would gain the most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The advice in one sentence.
    pub text: String,
    /// How many times as fast the workload would be; `None` if nothing slows it down.
    pub worth: Option<f64>,
    /// How this was measured.
    pub measured_as: Option<String>,
    /// The name of the trial whose refusal it is about; `None` also for placement.
    pub trial: Option<String>,
    /// The name of the setting that it is about.
    pub setting: Option<String>,
    /// The command that would change it.
    pub command: Option<String>,
}

impl Examination {
    /// Returns whether others used so much CPU time that what was measured is uncertain.
    pub fn is_busy(&self) -> bool {
        self.other_work.is_some_and(|share| share > BUSY)
    }

    /// Returns the trials that moved wrong bytes.
    pub fn wrong(&self) -> impl Iterator<Item = &TrialReport> {
        let is_wrong = |trial: &&TrialReport| matches!(trial.outcome, TrialOutcome::Wrong(_));
        self.trials.iter().filter(is_wrong)
    }

    /// Returns whether any trial moved wrong bytes.
    pub fn is_wrong(&self) -> bool {
        self.wrong().next().is_some()
    }

    /// Returns the trial with that name.
    pub fn trial(&self, name: &str) -> Option<&TrialReport> {
        self.trials.iter().find(|trial| trial.name == name)
    }

    /// Returns whether the trial with that name was refused.
    pub fn is_refused(&self, name: &str) -> bool {
        let is_refused = |trial: &TrialReport| matches!(trial.outcome, TrialOutcome::Refused(_));
        self.trial(name).is_some_and(is_refused)
    }

    /// Returns the setting with that name, if this machine has it.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}

impl RefusalCause {
    /// Creates a cause that a command can change.
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self {
            remedy,
            ..Self::for_good(why)
        }
    }

    /// Creates a cause that no command can change.
    pub fn for_good(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            remedy: None,
        }
    }
}

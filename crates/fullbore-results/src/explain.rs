//! What `fullbore explain` found: where the time of an experiment or of a command goes.
//!
//! Serialised, [`Explanation`] is the JSON that `fullbore explain --json` prints. docs/explain.md documents
//! it, and [`SCHEMA`] changes when a field changes its meaning or goes away.

use serde::{Deserialize, Serialize};

use crate::placement::PlacementAdvice;
use crate::run::Unit;
use crate::statistics::Spread;

/// The version of the JSON's shape.
pub const SCHEMA: u32 = 1;

/// What an experiment or a command spends its time on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The version of this shape, [`SCHEMA`].
    pub schema: u32,
    /// The name of the experiment, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// What the experiment shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<String>,
    /// The command line, if it is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The kernel, as uname(2) reports it.
    pub kernel: String,
    /// How samples were taken; `None` if there are none.
    pub sampling: Option<SamplingReport>,
    /// How much sampling changed the speed.
    pub disturbance: Option<Disturbance>,
    /// One entry for each side.
    pub sides: Vec<SideReport>,
    /// On what most of the time was spent; `None` if the run was too short.
    pub verdict: Option<MainCost>,
    /// What all sides on one CPU gain; `None` if they do not take turns, and if it would gain a command too
    /// little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementAdvice>,
    /// What is missing, and which change would provide it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How samples were taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingReport {
    /// The clock that triggers samples.
    pub clock: String,
    /// Whether whole CPUs were sampled, or only the processes that were started, which disturbs them
    /// more.
    pub whole_cpus: bool,
    /// Samples per second, on each CPU.
    pub frequency: u64,
    /// Whether the kernel was sampled too.
    pub of_kernel: bool,
    /// Whether the kernel's functions have names.
    pub kernel_names: bool,
    /// The number of samples.
    pub samples: u64,
    /// The number of samples that were lost because a buffer was full.
    pub lost: u64,
}

/// The effect of sampling on the figure: pairs of measurements, with and without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The unit of the figures.
    pub unit: String,
    /// The figures with sampling, one for each pair.
    pub with: Vec<f64>,
    /// The figures without sampling.
    pub without: Vec<f64>,
    /// The median of the pairs' changes: -0.02 is 2% slower while sampled.
    pub change: f64,
}

/// The time of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideReport {
    /// Its role in an experiment, or its program's name.
    pub name: String,
    /// The number of processes with that name.
    pub processes: usize,
    /// The number of samples in which it was running.
    pub samples: u64,
    /// The fraction of its time in which it was on a CPU. It is above 1 if threads ran in parallel.
    pub ran: f64,
    /// The fraction of its time in which it slept.
    pub slept: f64,
    /// The fraction of its time in which it waited for a CPU that other tasks used.
    pub waited: f64,
    /// The kernel's accounts from which these are computed, and more of them.
    pub accounts: Accounts,
    /// The classes of its time on CPU, the largest share first.
    pub shares: Vec<ClassShare>,
}

/// The share of one class in a side's time on CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassShare {
    /// The class.
    pub class: Class,
    /// The share, from 0 to 1.
    pub share: f64,
    /// The functions in which it was sampled, the largest share first.
    pub symbols: Vec<FunctionShare>,
}

/// A function, and the share of the side's time on CPU that was in it, for this class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// The name of the function.
    pub name: String,
    /// The share, from 0 to 1.
    pub share: f64,
}

/// The resource usage of a process, summed over its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Accounts {
    /// Seconds between the first and the last scan.
    pub seconds: f64,
    /// Seconds in user mode.
    pub user_seconds: f64,
    /// Seconds in the kernel.
    pub system_seconds: f64,
    /// Seconds that it was runnable and waited for a CPU.
    pub waited_seconds: f64,
    /// The number of times it slept.
    pub voluntary_switches: u64,
    /// The number of times another task took its CPU.
    pub involuntary_switches: u64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults with disk access.
    pub major_faults: u64,
}

/// The class on which most of the time was spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MainCost {
    /// The class with the largest share of all sides' time on CPU together.
    pub class: Class,
    /// The share of this class, from 0 to 1.
    pub share: f64,
    /// The class with the second largest share.
    pub next: Option<Class>,
    /// This in words.
    pub words: String,
    /// What reduces this time.
    pub advice: CostAdvice,
}

/// The advice on how to reduce the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostAdvice {
    /// The experiment that shows it, or the verb that does it; `None` if there is none.
    #[serde(rename = "try")]
    pub instead: Option<String>,
    /// The advice in words.
    pub words: String,
}

/// What time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "`MEANINGS` describes each")]
pub enum Class {
    Copying,
    LookingUp,
    Pages,
    Faults,
    Lock,
    Sleeping,
    Entering,
    Bookkeeping,
    Interrupts,
    User,
    NotClassified,
}

/// The name and the description of a class.
#[derive(Debug)]
pub struct Meaning {
    /// The class.
    pub class: Class,
    /// Its name in the report.
    pub name: &'static str,
    /// Its description in one sentence.
    pub means: &'static str,
}

/// All classes, in the order that decides ties.
#[rustfmt::skip]
pub const MEANINGS: &[Meaning] = &[
    Meaning { class: Class::Copying, name: "copying",
        means: "bytes copied between a program's memory and the kernel's, or within the kernel" },
    Meaning { class: Class::LookingUp, name: "looking pages up",
        means: "finding the pages behind an address for vmsplice(2), or those of a file in the page cache" },
    Meaning { class: Class::Pages, name: "allocating and freeing pages",
        means: "allocating pages and buffers, charging them to a control group, and freeing them" },
    Meaning { class: Class::Faults, name: "zeroing and page faults",
        means: "memory touched for the first time, and the zeros it is filled with" },
    Meaning { class: Class::Lock, name: "waiting for the pipe's lock",
        means: "taking the mutex that the reader and the writer of a pipe share, by spinning or \
         sleeping" },
    Meaning { class: Class::Sleeping, name: "sleeping and waking",
        means: "going to sleep, waking the other side, and switching between tasks" },
    Meaning { class: Class::Entering, name: "entering and leaving the kernel",
        means: "the fixed cost of a system call: entry and exit, finding the file, reading \
         arguments" },
    Meaning { class: Class::Bookkeeping, name: "the pipe's own work",
        means: "read, write, splice, vmsplice and tee themselves: filling and emptying slots, and \
         checking whether there are any" },
    Meaning { class: Class::Interrupts, name: "interrupts",
        means: "timers, devices, and preemption" },
    Meaning { class: Class::User, name: "user code",
        means: "the program itself" },
    Meaning { class: Class::NotClassified, name: "not classified",
        means: "functions of the kernel that the table does not know" },
];

impl Class {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        self.meaning().name
    }

    /// Returns its name and description.
    pub fn meaning(self) -> &'static Meaning {
        let mut all = MEANINGS.iter();
        all.find(|meaning| meaning.class == self)
            .expect("every class has a meaning")
    }
}

impl Disturbance {
    /// Computes it from figures in `unit`, of which the n-th of both lists are a pair.
    pub fn of(unit: Unit, with: Vec<f64>, without: Vec<f64>) -> Option<Self> {
        let both = with.iter().zip(&without);
        let changes: Vec<f64> = both
            .map(|(a, b)| unit.times_as_fast(*a, *b) - 1.0)
            .collect();
        Some(Self {
            unit: unit.name().to_owned(),
            change: Spread::of(&changes)?.median,
            with,
            without,
        })
    }
}

impl SideReport {
    /// Returns the share of `class` in its time on CPU.
    pub fn share(&self, class: Class) -> f64 {
        let share = self.shares.iter().find(|share| share.class == class);
        share.map_or(0.0, |share| share.share)
    }
}

impl Accounts {
    /// Adds the usage of another process.
    pub fn add(&mut self, other: &Accounts) {
        self.seconds += other.seconds;
        self.user_seconds += other.user_seconds;
        self.system_seconds += other.system_seconds;
        self.waited_seconds += other.waited_seconds;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
    }

    /// Returns the fraction of its time in which it ran; it is above 1 if threads ran in parallel.
    pub fn ran(&self) -> f64 {
        self.of_time(self.user_seconds + self.system_seconds)
    }

    /// Returns the fraction of its time in which it waited for a CPU.
    pub fn waited(&self) -> f64 {
        self.of_time(self.waited_seconds).min(1.0)
    }

    /// Returns the fraction of its time in which it slept, so neither ran nor waited for a CPU.
    pub fn slept(&self) -> f64 {
        let awake = self.user_seconds + self.system_seconds + self.waited_seconds;
        self.of_time((self.seconds - awake).max(0.0))
    }

    fn of_time(&self, seconds: f64) -> f64 {
        match self.seconds > 0.0 {
            true => seconds / self.seconds,
            false => 0.0,
        }
    }
}
